#!/usr/bin/env python
"""Django's command line, with the embedded servers started for commands that need them."""

import gc
import os
import sys
from typing import Any


def main() -> None:
    if sys.version_info < (3, 12):  # noqa: UP036
        sys.exit("Coppice needs Python 3.12 or newer; this is {}.{}.".format(*sys.version_info))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    # What is imported stays. To look through it for garbage again and again takes a third of the start.
    gc.disable()

    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import ManagementUtility

    from config import embedded, environment
    from config.servers import ServerFailed

    class Commands(ManagementUtility):
        def fetch_command(self, subcommand: str) -> Any:
            """Called when all apps are there, and before the command begins."""
            found = super().fetch_command(subcommand)
            gc.freeze()
            gc.enable()
            return found

    try:
        given = environment.read()
        embedded.start_for_command(
            sys.argv, postgres=not given.database_url, valkey=not given.redis_url
        )
    except (ImproperlyConfigured, ServerFailed) as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2 if "runworker" in sys.argv[1:2] else 1)  # runworker: 2 means bad settings
    Commands(sys.argv).execute()


if __name__ == "__main__":
    main()
