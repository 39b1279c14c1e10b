"""Range runs on the database of a test, through a process of its own that has Django.

python tests/processes/ranging.py        reads calls as lines of JSON, answers with lines of JSON

It can also fork lanes: processes that work on whatever is due, as a worker's thread does, and can be
told where to die. They cost a hundredth of a worker.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from tests.processes.failpoints import Failpoint, arm
from tests.processes.running import CHECKOUT, PATIENCE, Tables, eventually

KEYS = (
    "CREATE TABLE toy_key (id bigserial PRIMARY KEY, todo boolean NOT NULL, hits integer NOT NULL)"
)
INDEX = "CREATE INDEX toy_key_todo ON toy_key (id) WHERE todo"
NOTES = "CREATE TABLE toy_note (id bigserial PRIMARY KEY, lo bigint, hi bigint, pid integer)"
EFFECTS = "CREATE TABLE toy_effect (run uuid, key bigint, item text, pid integer)"
GATE = 3
"""An advisory lock: whoever works at a key that is to wait, waits until the test lets go of it."""
AT_GATE = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


@dataclass(frozen=True)
class Forked:
    """A process that works off what is due."""

    runs: Runs
    pid: int
    worker: str

    def ended(self) -> int:
        """Its exit code, or minus the signal that ended it."""
        return int(self.runs.call("reap", self.pid))

    def lose(self) -> None:
        """What the leader does about a worker that is silent: its jobs are taken back."""
        self.runs.call("rescue", self.worker)


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

    def becomes(self, run: str, status: str, seconds: float = PATIENCE) -> None:
        eventually(
            lambda: self.status(run) == status,
            lambda: f"{status}; it is {self.status(run)} {self.reason(run)}",
            seconds,
        )

    def nodes(self, run: str, condition: str = "true") -> int:
        return int(
            self.tables.one(
                f"SELECT count(*) FROM ranges_rangenode WHERE run_id = %s AND {condition}", run
            )
        )

    def clear(self) -> None:
        """End whatever runs, and forget what was done."""
        live = "SELECT id::text FROM ranges_rangerun WHERE status IN ('running', 'paused')"
        for (run,) in self.tables.rows(live):
            self.call("cancel", run)
            eventually(lambda run=run: self.is_at_rest(run), "an earlier run rests")  # type: ignore[misc]
        self.tables.rows("TRUNCATE toy_key, toy_note, toy_effect RESTART IDENTITY")

    def is_tiled(self, lo: int, hi: int, without: tuple[int, ...] = ()) -> bool:
        """Whether the leaves follow one another without gap or overlap; only these keys are left out."""
        at = lo
        for start, end in self.notes():
            while at in without:
                at += 1
            if start != at:
                return False
            at = end
        while at in without:
            at += 1
        return at == hi

    def notes(self) -> list[tuple[int, int]]:
        return [(lo, hi) for lo, hi in self.tables.rows("SELECT lo, hi FROM toy_note ORDER BY lo")]

    def is_at_rest(self, run: str) -> bool:
        """Nobody works at it, or will by himself."""
        return not self.working(run) and not self.tables.one(
            "SELECT count(*) FROM jobs_job WHERE type = 'ranges.lane' AND payload ->> 'run' = %s"
            " AND status IN ('pending', 'processing')",
            run,
        )

    # Forked lanes

    def fork(self, *script: list[Any], dies_at: Failpoint | None = None) -> Forked:
        """Have a process of its own do the steps of a script: by default work off what is due."""
        worker = str(uuid4())
        return Forked(self, int(self.call("fork", worker, script or [["work"]], dies_at)), worker)

    def killed_at(self, point: Failpoint, *script: list[Any]) -> None:
        """The same, killed at the point, and its jobs taken back."""
        forked = self.fork(*script, dies_at=point)
        assert forked.ended() == -9, f"{point} was not reached"
        forked.lose()

    def work_off(self) -> None:
        assert self.fork().ended() == 0

    @contextmanager
    def gate(self) -> Iterator[None]:
        """Closed within this block."""
        with self.tables.session() as session:
            session.execute("SELECT pg_advisory_lock(%s)", [GATE])
            yield

    def wait_for_the_gate(self, count: int = 1) -> None:
        eventually(lambda: self.tables.one(AT_GATE) == count, f"{count} wait at the gate")

    def effects(self, run: str) -> dict[int, int]:
        """How often each key had an effect."""
        return dict(
            self.tables.rows("SELECT key, count(*) FROM toy_effect WHERE run = %s GROUP BY 1", run)
        )

    def failed_keys(self, run: str) -> list[int]:
        return [
            int(key)
            for (key,) in self.tables.rows(
                "SELECT key FROM ranges_rangefailure WHERE run_id = %s AND state = 'open'", run
            )
        ]

    def working(self, run: str) -> int:
        return int(
            self.tables.one(
                "SELECT count(*) FROM ranges_rangenode WHERE state = 'running' AND run_id = %s", run
            )
        )


@contextmanager
def runs_on(url: str) -> Iterator[Runs]:
    """A console for range runs, and the tables that the toys' range jobs work on."""
    tables = Tables(url)
    for statement in (KEYS, INDEX, NOTES, EFFECTS):
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
        process.wait(60)


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
    from django.db import connections

    from jobs import rescue
    from jobs.database import DjangoDatabase
    from jobs.testing import run_due_jobs
    from ranges import declaring
    from ranges.models import RangeRun

    connections.close_all()  # the server may have been away; and a child must inherit none
    match what:
        case "fork":
            return _fork(*args)
        case "reap":
            return os.waitstatus_to_exitcode(os.waitpid(args[0], 0)[1])
        case "rescue":
            return len(rescue.rescue_orphans(DjangoDatabase(), args[0], "killed"))
        case "shift":
            import time_machine

            time_machine.travel(datetime.now(UTC) + timedelta(seconds=args[0])).start()
            return None
        case "work":
            return sum(run_due_jobs(retries=True).values())
        case "start":
            return str(declaring.get(args[0]).start(**options).id)
    run = RangeRun.objects.get(id=args[0])
    if what == "verify":
        return run.verify().as_json()
    answer = getattr(run, what)(*args[1:], **options)
    return answer if isinstance(answer, int) else str(answer)


def _fork(worker: str, script: list[list[Any]], dies_at: list[Any] | None) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        from jobs import testing
        from ranges import merging

        merging.MOST_FINISHED = 2  # so that small runs are merged too
        setattr(testing, "new_id", lambda: worker)  # noqa: B010 - a worker's name for its claims
        if dies_at is not None:
            arm(Failpoint(*dies_at))
        for what, *args in script:
            _answer(what, args, {})
        code = 0
    except BaseException:  # noqa: BLE001 - nothing of the parent's may run here
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
