#!/usr/bin/env python
"""Django's command line, with the embedded servers started for commands that need them."""

import os
import sys


def main() -> None:
    if sys.version_info < (3, 12):  # noqa: UP036
        sys.exit("Coppice needs Python 3.12 or newer; this is {}.{}.".format(*sys.version_info))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    from config import embedded, environment
    from config.servers import ServerFailed

    try:
        given = environment.read()
        embedded.start_for_command(
            sys.argv, postgres=not given.database_url, valkey=not given.redis_url
        )
    except (ImproperlyConfigured, ServerFailed) as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2 if "runworker" in sys.argv[1:2] else 1)  # runworker: 2 means bad settings
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
