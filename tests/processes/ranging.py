"""Range runs on the database of a test, through a process of its own that has Django.

python tests/processes/ranging.py        reads calls as lines of JSON, answers with lines of JSON
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.processes.running import CHECKOUT, Tables

KEYS = (
    "CREATE TABLE toy_key (id bigserial PRIMARY KEY, todo boolean NOT NULL, hits integer NOT NULL)"
)
INDEX = "CREATE INDEX toy_key_todo ON toy_key (id) WHERE todo"
NOTES = "CREATE TABLE toy_note (id bigserial PRIMARY KEY, lo bigint, hi bigint, pid integer)"


class Runs:
    """What the tests ask of runs."""

    def __init__(self, process: subprocess.Popen[str], tables: Tables) -> None:
        self._process = process
        self.tables = tables

    def call(self, what: str, *args: Any, **options: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([what, args, options]), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise AssertionError(answer["error"])
        return answer["is"]

    def start(self, job: str, **options: Any) -> str:
        return str(self.call("start", job, **options))

    def status(self, run: str) -> str:
        return str(self.tables.one("SELECT status FROM ranges_rangerun WHERE id = %s", run))

    def reason(self, run: str) -> str:
        return str(self.tables.one("SELECT reason FROM ranges_rangerun WHERE id = %s", run))

    def notes(self) -> list[tuple[int, int]]:
        return [(lo, hi) for lo, hi in self.tables.rows("SELECT lo, hi FROM toy_note ORDER BY lo")]

    def live_lanes(self) -> int:
        return int(
            self.tables.one(
                "SELECT count(*) FROM jobs_job WHERE type = 'ranges.lane'"
                " AND status IN ('pending', 'processing')"
            )
        )

    def working(self) -> int:
        return int(self.tables.one("SELECT count(*) FROM ranges_rangenode WHERE state = 'running'"))


@contextmanager
def runs_on(url: str) -> Iterator[Runs]:
    """A console for range runs, and the tables that the toys' range jobs work on."""
    tables = Tables(url)
    for statement in (KEYS, INDEX, NOTES):
        tables.rows(statement)
    process = subprocess.Popen(
        [sys.executable, __file__],
        cwd=CHECKOUT,
        env={
            **os.environ,
            "DATABASE_URL": url,
            "REDIS_URL": "redis://127.0.0.1:1/0",
            "DJANGO_SETTINGS_MODULE": "tests.processes.settings",
            "PYTHONPATH": str(CHECKOUT),
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Runs(process, tables)
    finally:
        process.kill()
        process.wait(10)


def main() -> None:
    import django

    django.setup()
    answers = sys.stdout
    sys.stdout = sys.stderr  # log lines are no answers
    for line in sys.stdin:
        what, args, options = json.loads(line)
        try:
            answer = {"is": _answer(what, args, options)}
        except Exception as error:  # noqa: BLE001 - told to the test
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


def _answer(what: str, args: list[Any], options: dict[str, Any]) -> Any:
    from ranges import declaring
    from ranges.models import RangeRun

    if what == "start":
        return str(declaring.get(args[0]).start(**options).id)
    run = RangeRun.objects.get(id=args[0])
    if what == "verify":
        return run.verify().as_json()
    answer = getattr(run, what)(*args[1:], **options)
    return answer if isinstance(answer, int) else str(answer)


if __name__ == "__main__":
    main()
