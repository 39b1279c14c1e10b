"""A busy site to look at: queues, workers on three hosts, a day of figures with a bad quarter of an hour.

For tests that want a full page, and for pictures. Rows as workers would have left them; the same each
time but for the clock.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from random import Random
from typing import Any

from django.utils import timezone

from jobs.histograms import BOUNDS, pack
from jobs.models import Job, JobLog, Rollup, Total, Worker
from ranges.axes import IntAxis
from ranges.cells import Cells
from ranges.models import RangeFailure, RangeNode, RangeRun
from ranges.states import CELL_PROCESSED, CELL_SKIPPED
from tests.factories import id_made_at, make_job, make_queue, make_worker

TYPES = {
    "default": {"sync_inventory": 0.4, "recount_stock": 2.5},
    "mail": {"send_email": 0.12, "send_digest": 0.8, "write_invoice": 1.4},
    "images": {"resize_image": 0.6, "transcode_video": 40.0},
    "reports": {"monthly_report": 95.0},
    "webhooks": {"deliver_webhook": 0.25},
}
ERRORS = {
    (
        "deliver_webhook",
        "webhooks",
    ): "ConnectionError: HTTPSConnectionPool(host='hooks.example.net', port=443): Read timed out.",
    ("send_email", "mail"): "SMTPRecipientsRefused: 550 5.1.1 mailbox unavailable",
    (
        "resize_image",
        "images",
    ): "UnidentifiedImageError: cannot identify image file 'upload-8812.heic'",
    ("monthly_report", "reports"): "TimeoutError: statement ran longer than 120 s",
}


def build(*, minutes: int = 1_440, step: int = 1, seed: int = 7) -> dict[str, Any]:
    """Fill an empty database. Returns the workers and the oldest dead letter of each group."""
    random = Random(seed)
    now = timezone.now()
    figures(now, minutes=minutes, step=step, random=random)
    workers = _workers(now)
    _running(workers, now, random)
    _waiting(now, random)
    dead = _dead(now, random)
    make_queue(
        name="reports",
        paused=True,
        reason="warehouse migration until 15:00",
        changed_by="anna",
        changed_at=now - timedelta(minutes=9),
    )
    _lines(workers, now, random)
    _runs(now, random)
    return {"workers": workers, "dead": dead}


def figures(now: datetime, *, minutes: int, step: int, random: Random) -> None:
    """Rollups of each minute: waves over the day, and a provider that was away for a while."""
    rows: list[Rollup] = []
    this = now.replace(second=0, microsecond=0)
    for ago in range(0, minutes, step):
        rows += _minute(this - timedelta(minutes=ago), ago, random, now.second / 60)
    Rollup.objects.bulk_create([row for row in rows if row.jobs], batch_size=2_000)
    for queue, types in TYPES.items():
        for type, seconds in types.items():
            spread = [
                pack(900, wait=6, run=_bucket(seconds)),
                pack(60, wait=8, run=_bucket(seconds * 2)),
            ]
            Total.objects.create(
                queue=queue, type=type, outcome="succeeded", jobs=960, wait_seconds=90,
                run_seconds=960 * seconds, timings=spread,
            )  # fmt: skip


def go_on() -> None:
    """The minutes since then, for a page that is looked at for longer."""
    now = timezone.now()
    this = now.replace(second=0, microsecond=0)
    last = timedelta(minutes=3)
    Rollup.objects.filter(minute__gt=this - last).delete()
    rows: list[Rollup] = []
    for ago in range(3):
        at = this - timedelta(minutes=ago)
        rows += _minute(at, ago, Random(int(at.timestamp())), now.second / 60)
    Rollup.objects.bulk_create([row for row in rows if row.jobs])


def _minute(at: datetime, ago: int, random: Random, part: float) -> list[Rollup]:
    """What ended in the minute so long ago; of the one that goes on, only `part` is over."""
    rows = []
    wave = 1 + 0.45 * math.cos(ago / 90) + 0.18 * math.sin(ago / 10)
    is_bad = 22 <= ago <= 29 or 500 <= ago <= 530
    for queue, types in TYPES.items():
        for type, seconds in types.items():
            usual = min(90.0, 22 / math.sqrt(seconds))
            done = max(0, round(random.gauss(usual * wave, usual * 0.09)))
            if ago == 0:
                done = round(done * part)
            bad = round(done * 0.55) if is_bad and queue == "webhooks" else 0
            bad += random.random() < 0.2
            slow = 9.0 if is_bad else 1.0
            wait = random.lognormvariate(math.log(0.08 * wave * slow), 0.25)
            rows.append(_rollup(at, queue, type, "succeeded", done, wait, seconds, random))
            if bad:
                rows.append(_rollup(at, queue, type, "failed", bad, wait, seconds * 3, random))
    return rows


def _rollup(
    at: datetime,
    queue: str,
    type: str,
    outcome: str,
    jobs: int,
    wait: float,
    run: float,
    random: Random,
) -> Rollup:
    timings = []
    left = jobs
    for share, factor in ((0.7, 0.6), (0.22, 1.1), (1.0, 2.2)):
        part = min(left, math.ceil(jobs * share))
        left -= part
        if part:
            length = run * factor * random.uniform(0.8, 1.2)
            timings.append(pack(part, wait=_bucket(wait * factor), run=_bucket(length)))
    return Rollup(
        minute=at, queue=queue, type=type, outcome=outcome, jobs=jobs, wait_seconds=jobs * wait,
        run_seconds=jobs * run, timings=timings, folded=at < timezone.now() - timedelta(minutes=3),
    )  # fmt: skip


def _bucket(seconds: float) -> int:
    return sum(seconds >= bound for bound in BOUNDS)


def _workers(now: datetime) -> list[Worker]:
    hosts: tuple[tuple[str, tuple[int, ...], list[str]], ...] = (
        ("app-1", (411, 412), []),
        ("app-2", (388, 389), []),
        ("media-1", (1207,), ["images", "reports"]),
    )
    return [
        make_worker(
            name=f"{host}:{pid}", host=host, pid=pid, queues=queues, concurrency=8, version="2026.11.3",
            types=[name for types in TYPES.values() for name in types],
            started_at=now - timedelta(hours=7, minutes=pid % 60), beat_at=now,
        )
        for host, pids, queues in hosts
        for pid in pids
    ]  # fmt: skip


def _running(workers: list[Worker], now: datetime, random: Random) -> None:
    plan = [
        ("transcode_video", "images", 412.0, (61, 100)), ("monthly_report", "reports", 71.0, (7_100, 12_000)),
        ("transcode_video", "images", 44.0, (18, 100)), ("recount_stock", "default", 9.4, None),
        ("resize_image", "images", 2.2, None), ("sync_inventory", "default", 1.1, None),
        ("deliver_webhook", "webhooks", 0.9, None), ("send_digest", "mail", 0.8, None),
    ]  # fmt: skip
    plan += [("send_email", "mail", random.uniform(0.05, 0.4), None) for _ in range(11)]
    for number, (type, queue, seconds, progress) in enumerate(plan):
        made = make_job(
            "processing", type=type, queue=queue, started_at=now - timedelta(seconds=seconds),
            worker_id=workers[-1 if queue in ("images", "reports") else number % 4].id,
        )  # fmt: skip
        if progress:
            Job.objects.filter(id=made.id).update(
                progress_done=progress[0], progress_total=progress[1]
            )


def _waiting(now: datetime, random: Random) -> None:
    rows = []
    for queue, count, oldest in (
        ("default", 214, 6),
        ("mail", 96, 2),
        ("images", 41, 74),
        ("webhooks", 12, 1),
        ("reports", 18, 560),
    ):
        kinds = list(TYPES[queue])
        rows += [
            Job(type=kinds[n % len(kinds)], queue=queue, priority=1 + n % 3, due_at=at, **_made(at))
            for n in range(count)
            if (at := now - timedelta(seconds=oldest * random.random()))
        ]  # fmt: skip
    rows += [
        Job(type="deliver_webhook", queue="webhooks", attempt_count=1, next_retry_at=(at := now + timedelta(minutes=1 + n % 9)), due_at=at, **_made(now - timedelta(minutes=2 + n)))
        for n in range(46)
    ]  # fmt: skip
    rows += [
        Job(type="send_digest", queue="mail", unmet_dependencies=1, **_made(now - timedelta(minutes=9 * n + 1)))
        for n in range(23)
    ]  # fmt: skip
    rows += [
        Job(type="monthly_report", queue="reports", due_at=now + timedelta(hours=1 + n), **_made(now - timedelta(hours=5 + n)))
        for n in range(8)
    ]  # fmt: skip
    Job.objects.bulk_create(rows)


def _made(at: datetime) -> dict[str, Any]:
    """When it was made: ids begin with their time, and lists are in their order."""
    return {"id": id_made_at(at), "created_at": at, "scheduled_at": at}


def _dead(now: datetime, random: Random) -> dict[str, Job]:
    found = {}
    for place, ((type, queue), error) in enumerate(ERRORS.items()):
        rows = []
        for n in range((61, 34, 17, 3)[place]):
            hours = (
                random.betavariate(1, 2.5) * 22
                if place
                else random.choice([0.4, 0.5, 8.6, 8.7, 8.8])
            )
            at = now - timedelta(hours=hours, minutes=n % 11)
            rows.append(
                Job(
                    type=type, queue=queue, status="failed", attempt_count=3, lease_epoch=3,
                    failed_at=at, last_error=error,
                    error_fingerprint=f"{place:016x}", **_made(at - timedelta(minutes=4)),
                )
            )  # fmt: skip
        Job.objects.bulk_create(rows)
        found[type] = rows[0]
    return found


def _lines(workers: list[Worker], now: datetime, random: Random) -> None:
    """The log of those that run, are tried again, or have died within the hour."""
    made: list[JobLog] = []

    def line(job: Job, seconds: float, event: str, message: str = "", **more: Any) -> None:
        usual = {"worker_id": random.choice(workers).id, "attempt": 1}
        at = now - timedelta(seconds=seconds)
        made.append(JobLog(job=job, at=at, event=event, message=message, **usual | more))

    for job in Job.objects.filter(status="processing"):
        assert job.started_at is not None
        ran = (now - job.started_at).total_seconds()
        line(job, ran, "started", worker_id=job.worker_id)
        if job.progress_total:
            said = {"done": job.progress_done, "of": job.progress_total}
            line(job, ran * 0.4, "log", f"working on {job.type.replace('_', ' ')}", data=said)
            line(job, ran * 0.1, "log", "slower than usual", level="warning")
    for n, job in enumerate(Job.objects.filter(next_retry_at__isnull=False).order_by("id")):
        line(job, 40 + 11 * n, "started")
        line(
            job,
            30 + 11 * n,
            "retry_scheduled",
            ERRORS["deliver_webhook", "webhooks"],
            level="warning",
        )
    recent = Job.objects.dead().filter(failed_at__gt=now - timedelta(hours=1))
    for n, job in enumerate(recent.order_by("id")):
        assert job.failed_at is not None
        dead_for = (now - job.failed_at).total_seconds()
        line(job, dead_for + 2, "started", attempt=3)
        line(job, dead_for, "dead_lettered", job.last_error, level="error", attempt=3)
        if n % 9 == 0:
            by = {"worker_id": None, "attempt": None, "data": {"by": "anna"}}
            line(job, dead_for - 60, "payload_edited", "by anna: the address was wrong", **by)
    JobLog.objects.bulk_create(sorted(made, key=lambda each: each.at))


def _runs(now: datetime, random: Random) -> None:
    """One that four lanes work on, with pruned stretches and failures, and one that is paused."""
    _run(
        now,
        random,
        name="shop.BackfillTotals",
        size=48_000_000,
        share=0.62,
        lanes=4,
        bad=(0.17, 0.52),
    )
    _run(
        now,
        random,
        name="shop.ReindexCustomers",
        size=2_400_000,
        share=0.31,
        lanes=2,
        bad=(),
        paused=True,
    )


def _run(
    now: datetime, random: Random, *, name: str, size: int, share: float, lanes: int,
    bad: tuple[float, ...], paused: bool = False,
) -> None:  # fmt: skip
    run = RangeRun.objects.create(
        name=name, axis={"type": "int"}, lo=0, hi=size, concurrency=lanes, planned=True,
        status="paused" if paused else "running", reason="after hours only" if paused else "",
        started_at=now - timedelta(minutes=52), resumed_at=None if paused else now - timedelta(minutes=52),
        active_seconds=3_120 if paused else 0, rows_estimate=size, queue="default",
    )  # fmt: skip
    cells = Cells(IntAxis(), 0, size)
    for lane in range(lanes):
        lo, hi = size * lane // lanes, size * (lane + 1) // lanes
        upto = lo + int((hi - lo) * min(1.0, share * random.uniform(0.8, 1.2)))
        marks, cur, width = cells.blank(lo, hi), lo, {CELL_PROCESSED: 0, CELL_SKIPPED: 0}
        while cur < upto:
            flag = CELL_SKIPPED if random.random() < 0.3 else CELL_PROCESSED
            end = min(upto, cur + int((hi - lo) * random.uniform(0.02, 0.16)))
            cells.mark(marks, lo, cur, end, flag)
            width[flag] += end - cur
            cur = end
        RangeNode.objects.create(
            run=run, kind="strand", state="pending" if paused else "running", lo=lo, hi=hi, cur=cur,
            resv=cur if paused else min(hi, cur + size // 300), width_ok=width[CELL_PROCESSED],
            width_skipped=width[CELL_SKIPPED], rows_ok=width[CELL_PROCESSED], leaves=400,
            busy_seconds=3_000, cells=bytes(marks),
        )  # fmt: skip
    for place in bad:
        key = int(size * place)
        RangeNode.objects.create(
            run=run, kind="bisect", state="error", lo=key, hi=key + 1, cur=key + 1, resv=key + 1,
            width_failed=1,
        )  # fmt: skip
        RangeFailure.objects.create(
            run=run, key=str(key), attempts=3, error="ValueError: negative total"
        )
