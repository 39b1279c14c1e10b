"""No value of a payload, of a result or of metadata reaches any log line at the default level.

The text of an error is the handler's own: it is logged, so handlers must not put secrets into it.
"""

from __future__ import annotations

import json
import signal

import pytest

from tests.processes.harness import World
from tests.processes.running import eventually, run, runworker

SECRET = "hunter2-correct-horse"
PAYLOAD = {"password": SECRET, "nested": {"list": [SECRET]}}


def payload(then: str) -> str:
    return json.dumps({**PAYLOAD, "then": then})


def test_a_secret_in_a_payload_is_in_no_line_of_its_whole_life(world: World) -> None:
    metadata = json.dumps({"token": SECRET})
    with run(
        [
            *("manage.py", "enqueue", "prove.secret", "--payload", payload("echo")),
            *("--metadata", metadata, "--json"),
        ],
        world.url,
    ) as command:
        assert command.ended() == 0
    jobs = {
        then: world.enqueue_all(
            type,
            1,
            max_attempts=attempts,
            payload={**PAYLOAD, "then": then, "how": "kill", "seconds": 60},
            metadata=metadata,
        )[0]
        for then, type, attempts in [
            ("return", "prove.secret", 2),
            ("echo", "prove.secret", 2),
            ("fail", "prove.secret", 2),
            ("die", "prove.die_apart", 1),
            ("nothing", "prove.stubborn", 2),
        ]
    }
    unknown = world.enqueue_all("prove.nobody_knows", 1, payload=PAYLOAD)
    with runworker(world.url, COPPICE_UNKNOWN_TYPE_ALERT_SECONDS="1") as worker:
        for then, status in [
            ("return", "completed"),
            ("echo", "completed"),
            ("fail", "failed"),
            ("die", "failed"),
        ]:
            world.becomes(jobs[then], status)
        eventually(lambda: worker.logged("type.unknown"), "the alert about an unknown type")
        worker.signal(signal.SIGTERM)
        worker.wait_for("worker.draining")
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 1

    assert world.status(unknown[0]) == "pending"
    for message in ("job.started", "job.completed", "job.retry_scheduled", "job.dead_lettered"):
        assert worker.logged(message), message
    said = json.dumps(worker.lines) + "".join(worker.other_output + command.other_output)
    assert SECRET not in said
    # Neither do the tables that everybody who may see a job may read.
    assert not world.rows(
        "SELECT id FROM jobs_joblog WHERE message LIKE %s OR data::text LIKE %s",
        *[f"%{SECRET}%"] * 2,
    )
    assert not world.rows(
        "SELECT job_id FROM jobs_attempt WHERE error LIKE %s OR traceback LIKE %s",
        *[f"%{SECRET}%"] * 2,
    )


@pytest.mark.parametrize("field", ["choice", "number"])
def test_a_payload_that_is_no_longer_accepted_is_refused_without_its_value(
    world: World, field: str
) -> None:
    """Serializers like to quote what they refuse."""
    job = world.enqueue_all("prove.strict", 1, payload={field: SECRET})[0]
    with runworker(world.url) as worker:
        world.becomes(job, "failed")
        assert worker.stop() == 0

    [(error,)] = world.rows("SELECT last_error FROM jobs_job")
    assert field in error
    assert SECRET not in error + json.dumps(worker.lines)


def test_what_the_database_says_when_it_refuses_an_outcome_quotes_no_row(world: World) -> None:
    world.rows(
        "ALTER TABLE jobs_job ADD CONSTRAINT never_done"
        " CHECK (type <> 'prove.secret' OR status <> 'completed')"
    )
    jobs = world.enqueue_all("prove.secret", 3, payload={**PAYLOAD, "then": "echo"})
    good = world.enqueue_all("prove.effect", 20)
    with runworker(world.url) as worker:
        world.all_ended()
        assert worker.stop() == 0

    assert {world.status(job) for job in jobs} == {"failed"}
    assert {world.status(job) for job in good} == {"completed"}
    errors = world.rows(
        "SELECT j.last_error, a.error, a.traceback FROM jobs_job j"
        " JOIN jobs_attempt a ON a.job_id = j.id WHERE j.status = 'failed'"
    )
    assert all("never_done" in row[0] for row in errors)
    assert SECRET not in str(errors) + json.dumps(worker.lines)
    world.history_is_consistent()


def test_a_job_whose_end_is_refused_whatever_it_is_runs_no_second_time_here(world: World) -> None:
    world.rows(
        "ALTER TABLE jobs_job ADD CONSTRAINT never_ends"
        " CHECK (type <> 'prove.retry' OR status IN ('pending', 'processing'))"
    )
    [job] = world.enqueue_all("prove.retry", 1, payload=PAYLOAD)
    with runworker(world.url) as worker:
        worker.wait_for("outcome.refused", 2, job_id=job)
        [later] = world.enqueue_all("prove.effect", 1, payload={"seconds": 8})
        world.becomes(later, "completed")

        assert (world.status(job), world.effects(job)) == ("processing", 1)
        assert SECRET not in json.dumps(worker.lines)
