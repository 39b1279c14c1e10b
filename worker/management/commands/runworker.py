"""`manage.py runworker`: run due jobs until told to stop.

Exit codes: 0 drained, or the burst is done; 1 forced, or children cannot start; 2 bad settings or
usage; 3 no database for a minute at the start.
"""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser, SystemCheckError

from jobs import conf
from jobs.errors import SettingsError
from worker import options, reloading
from worker.supervisor import BAD_SETTINGS, Supervisor


class Command(BaseCommand):
    help = "Run due jobs until told to stop: SIGTERM or Ctrl-C drains, a second one gives up."
    # Run in `handle`, since a wrong setting has an exit code of its own.
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        options.add_arguments(parser)

    def handle(self, *_args: Any, **given: Any) -> None:
        try:
            self.check()
            settings = conf.get()
        except (SystemCheckError, SettingsError) as error:
            self.stderr.write(str(error))
            sys.exit(BAD_SETTINGS)
        chosen = options.from_arguments(given)
        supervisor = Supervisor(chosen, settings)
        if chosen.autoreload:
            reloading.watch(supervisor.restart)
        code = supervisor.run()
        if supervisor.wants_restart:
            reloading.start_anew()
        sys.exit(code)
