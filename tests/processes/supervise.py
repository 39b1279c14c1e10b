"""Run a supervisor whose children are stand-ins: `supervise.py BEHAVIOUR [runworker's options]`."""

import argparse
import os
import sys
from pathlib import Path

import django


def main() -> int:
    django.setup()
    from jobs import conf
    from worker import options
    from worker.supervisor import Supervisor

    parser = argparse.ArgumentParser()
    parser.add_argument("behaviour")
    options.add_arguments(parser)
    given = vars(parser.parse_args())
    standin = str(Path(__file__).with_name("standin.py"))
    return Supervisor(
        options.from_arguments(given),
        conf.get(),
        program=[sys.executable, standin, given["behaviour"]],
        start_seconds=float(os.environ.get("START_SECONDS", "60")),
    ).run()


if __name__ == "__main__":
    sys.exit(main())
