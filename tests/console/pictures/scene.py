"""A full site to be pictured: what a busy shop's workers and people would have left behind.

On top of `tests/console/scenery.py`, which has the queues, the figures and two range runs, and of
`tests/console/run_scenery.py`: a job in every state with its history, schedules, bulk operations,
webhooks, tokens, people, the audit, and what the live feed told last.
"""

from __future__ import annotations

import json
import math
from datetime import timedelta
from random import Random
from typing import Any

from django.contrib.auth.models import Group, User
from django.db.models import Sum
from django.utils import timezone

from examples.geonames.models import City, CountrySummary
from jobs import schedules, tokens
from jobs.events import Event
from jobs.ids import new_uuid
from jobs.live import stream
from jobs.models import (
    AlertRecipient,
    Attempt,
    AuditEntry,
    BulkOperation,
    Job,
    JobLog,
    Rollup,
    Schedule,
    Webhook,
    WebhookDelivery,
    Worker,
)
from jobs.publishing import STREAM, encode
from ranges.models import RangeFailure, RangeRun, RangeSample
from tests.console import run_scenery, scenery
from tests.factories import ago, make_edge, make_job

type Things = dict[str, str]
"""Keys of rows, by the name that the catalogue has for them."""

PASSWORD = "not-a-real-password-71"
PEOPLE = {
    "admin": None,
    "operator": "Operator",
    "viewer": "Viewer",
    "supervisor": "Supervisor",
    "newcomer": "",
}
"""Their groups; None: a superuser."""

TRACEBACK = """\
Traceback (most recent call last):
  File "/srv/shop/hooks/handlers.py", line 41, in deliver_webhook
    answer = session.post(payload["url"], json=body, timeout=10)
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/.venv/lib/python3.13/site-packages/requests/sessions.py", line 637, in post
    return self.request("POST", url, data=data, json=json, **kwargs)
  File "/srv/shop/.venv/lib/python3.13/site-packages/requests/sessions.py", line 589, in request
    resp = self.send(prep, **send_kwargs)
  File "/srv/shop/.venv/lib/python3.13/site-packages/requests/adapters.py", line 713, in send
    raise ReadTimeout(e, request=request)
  File "/srv/shop/hooks/handlers.py", line 48, in deliver_webhook
    raise ConnectionError(f"{error}: Read timed out.") from error
ConnectionError: HTTPSConnectionPool(host='hooks.example.net', port=443): Read timed out."""
ERROR = TRACEBACK.rpartition("\n")[2]


def people() -> None:
    """Also of an empty site: somebody must look at it."""
    for name, group in PEOPLE.items():
        user = User.objects.create_user(
            name,
            f"{name}@shop.example",
            PASSWORD,
            first_name=name.capitalize(),
            is_staff=True,
            is_superuser=group is None,
        )
        if group:
            user.groups.add(Group.objects.get(name=group))


def build() -> Things:
    """Fill an empty database and the live feed; the same each time, but for the clock."""
    made = scenery.build()
    things: Things = {"worker": made["workers"][0].id, "queue": "mail", "paused queue": "reports"}
    things |= _runs()
    _ended_workers()
    things |= _jobs(made["workers"][0])
    things |= _schedules()
    things |= _bulk_operations()
    things |= _webhooks()
    things |= _stock()
    things |= _audit(things)
    _feed(things)
    return {name: str(key) for name, key in things.items()}


def beat() -> None:
    """Workers live on as long as the pictures are taken, and jobs end."""
    Worker.objects.filter(state="running").update(beat_at=timezone.now())
    if Rollup.objects.exists():
        scenery.go_on()


def _jobs(worker: Worker) -> Things:
    hook = {
        "url": "https://hooks.example.net/orders",
        "event": "order.shipped",
        "secret": "hush",
        "order": 48_211,
        "customer": {
            "id": 90_071_992_547_409_931,
            "name": "Möbelhaus Krüger",
            "tags": ["b2b", "eu"],
        },
    }
    dead = make_job(
        "dead", type="deliver_webhook", queue="webhooks", priority=1, payload=hook,
        metadata={"source": "checkout"}, last_error=ERROR, error_fingerprint=f"{0:016x}",
        created_at=ago(minutes=38), scheduled_at=ago(minutes=38), due_at=ago(minutes=38), failed_at=ago(minutes=26), started_at=ago(minutes=27),
    )  # fmt: skip
    _past(dead, worker, [(37, "failed"), (34, "failed"), (27, "failed")])
    waits = make_job(
        type="send_digest", queue="mail", payload={"order": 48_211}, on_parent_failure="cancel"
    )
    make_edge(waits, dead)
    counted = make_job(
        "completed", type="recount_stock", payload={"warehouse": "HH-2"}, worker_id=worker.id,
        result={"articles": 18_204, "corrected": 37, "took": "2.4 s"}, created_at=ago(minutes=12),
        scheduled_at=ago(minutes=12), due_at=ago(minutes=12),
        started_at=ago(minutes=11), completed_at=ago(minutes=10.9),
    )  # fmt: skip
    _past(counted, worker, [(11, "succeeded")])
    written = make_job("completed", type="write_invoice", queue="mail", created_at=ago(minutes=14))
    blocked = make_job(
        type="monthly_report",
        queue="reports",
        payload={"month": "2026-10"},
        created_at=ago(hours=2),
    )
    for parent, state in ((dead, "open"), (counted, "satisfied"), (written, "satisfied")):
        make_edge(blocked, parent, state=state)
    for day in range(2):
        after = make_job(type="send_digest", queue="mail", payload={"day": day})
        make_edge(after, blocked)
    running = make_job(
        "processing", type="transcode_video", queue="images", worker_id=worker.id,
        payload={"video": "spring-collection.mov", "formats": ["av1", "h264"]},
        started_at=ago(seconds=412), created_at=ago(seconds=420), scheduled_at=ago(seconds=420),
        progress_done=61, progress_total=100,
    )  # fmt: skip
    _lines(running, worker, 1, ["opened 4.1 GiB", "av1: pass 1 of 2", "av1: pass 2 of 2"])
    cancelling = make_job(
        "processing", type="sync_inventory", worker_id=worker.id, started_at=ago(seconds=48),
        created_at=ago(seconds=50), scheduled_at=ago(seconds=50), cancel_requested_at=ago(seconds=3),
    )  # fmt: skip
    retrying = make_job(
        "retrying", type="deliver_webhook", queue="webhooks", payload=hook, created_at=ago(minutes=6),
        scheduled_at=ago(minutes=6), last_error=ERROR, next_retry_at=timezone.now() + timedelta(seconds=95),
    )  # fmt: skip
    _past(retrying, worker, [(5, "failed")])
    scheduled = make_job(
        "scheduled", type="monthly_report", queue="reports", payload={"month": "2026-11"}
    )
    held = make_job(
        "held", type="write_invoice", queue="mail", payload={"order": 48_377},
        hold_reason="the address is to be confirmed by the customer",
    )  # fmt: skip
    cancelled = make_job(
        "cancelled", type="send_digest", queue="mail", created_at=ago(hours=3),
        cancelled_at=ago(hours=1),
    )  # fmt: skip
    ready = make_job(type="write_invoice", queue="mail", payload={"order": 48_380}, priority=1)
    for number in range(60):
        kind, queue = (("send_email", "mail"), ("sync_inventory", "default"))[number % 2]
        began = ago(seconds=40 + 37 * number)
        ended = began + timedelta(seconds=0.12 + number % 7 / 3)
        make_job(
            "completed", type=kind, queue=queue, worker_id=worker.id, started_at=began,
            created_at=began - timedelta(seconds=number % 5), completed_at=ended,
        )  # fmt: skip
    found = {
        "dead": dead, "completed": counted, "blocked": blocked, "running": running,
        "cancelling": cancelling, "retrying": retrying, "scheduled": scheduled, "held": held,
        "cancelled": cancelled, "ready": ready,
    }  # fmt: skip
    return {f"{state} job": str(job.id) for state, job in found.items()} | {
        "purged job": str(new_uuid())
    }


def _past(job: Job, worker: Worker, runs: list[tuple[float, str]]) -> None:
    """Attempts that began so many minutes ago, with what was logged about them."""
    JobLog.objects.create(job=job, at=job.created_at, event="created", to_status="pending")
    for number, (minutes, outcome) in enumerate(runs, 1):
        began, is_last = ago(minutes=minutes), number == len(runs)
        ended = began + timedelta(seconds=10.4 if outcome == "failed" else 2.4)
        is_bad = outcome == "failed"
        Attempt.objects.create(
            job=job, lease_epoch=number, number=number, worker_id=worker.id, started_at=began,
            finished_at=ended, outcome=outcome, error=ERROR if is_bad else "",
            traceback=TRACEBACK if is_bad else "",
        )  # fmt: skip
        _log(job, began, "started", number, worker)
        if is_bad:
            said = began + timedelta(seconds=0.2)
            _log(job, said, "log", number, worker, "POST hooks.example.net, 1,204 bytes")
            said = began + timedelta(seconds=10.2)
            _log(job, said, "log", number, worker, "no answer for 10 s", level="warning")
            end = "dead_lettered" if is_last and job.status == "failed" else "retry_scheduled"
            level = "error" if end == "dead_lettered" else "warning"
            _log(job, ended, end, number, worker, ERROR, level=level)
        else:
            _log(job, ended, "completed", number, worker)


def _lines(job: Job, worker: Worker, attempt: int, messages: list[str]) -> None:
    began = job.started_at
    assert began is not None
    _log(job, began, "started", attempt, worker)
    for number, message in enumerate(messages):
        _log(job, began + timedelta(seconds=1 + 70 * number), "log", attempt, worker, message)


def _log(
    job: Job, at: Any, event: str, attempt: int, worker: Worker, message: str = "", **more: Any
) -> None:
    JobLog.objects.create(
        job=job, at=at, event=event, attempt=attempt, worker_id=worker.id, message=message, **more
    )


def _ended_workers() -> None:
    lanes = Worker.objects.get(host="host")
    Job.objects.filter(type="ranges.run", status="processing").update(worker_id=lanes.id)
    Worker.objects.filter(id=lanes.id).update(
        name="batch-1:977", host="batch-1", pid=977, concurrency=16, version="2026.11.3",
        types=["ranges.run", "ranges.lane"], started_at=ago(hours=3, minutes=12),
    )  # fmt: skip
    for number, (state, hours) in enumerate((("stopped", 7.1), ("stopped", 7.2), ("dead", 31))):
        Worker.objects.create(
            id=new_uuid(), name=f"app-{1 + number % 2}:{207 + number}", host=f"app-{1 + number % 2}",
            pid=207 + number, concurrency=8, version="2026.11.2", state=state,
            started_at=ago(hours=hours + 40), beat_at=ago(hours=hours), stopped_at=ago(hours=hours),
        )  # fmt: skip


def _runs() -> Things:
    """A run in every status."""
    running = run_scenery.busy(
        params={"country": "DE"}, metadata={"ticket": "SHOP-2291"}, rows_estimate=31_000_000
    )
    _samples(running)
    RangeFailure.objects.filter(run=running).update(traceback=TRACEBACK)
    first = RangeFailure.objects.filter(run=running).order_by("id")[0]
    waived = RangeFailure.objects.filter(run=running).order_by("id")[1]
    RangeFailure.objects.filter(id=waived.id).update(
        state="waived",
        reason="the customer has left",
        resolved_by="admin",
        resolved_at=ago(minutes=3),
    )
    usual = {
        "name": "shop.MoveAddresses",
        "hi": 800_000,
        "resumed_at": None,
        "rows_estimate": 800_000,
    }
    done = run_scenery.make_run(
        **usual, status="completed", started_at=ago(hours=5), finished_at=ago(hours=4),
        active_seconds=3_480.0, verdict={"ok": True, "chain": True, "multirange": True, "ledger": True,
        "nodes": 4, "breaks": 0, "unbalanced": 0, "unfinished": 0, "open_failures": 0},
    )  # fmt: skip
    for lane in range(4):
        lo = 200_000 * lane
        run_scenery.make_node(
            done,
            lo,
            lo + 200_000,
            (lo + 90_000 + 9_000 * lane, "processed"),
            (lo + 200_000, "skipped"),
        )
    partly = run_scenery.make_run(
        **usual, status="partially_failed", started_at=ago(hours=9), finished_at=ago(hours=8),
        active_seconds=3_100.0,
    )  # fmt: skip
    run_scenery.make_node(partly, 0, 311_004, (311_004, "processed"))
    run_scenery.make_node(partly, 311_005, 800_000, (500_000, "skipped"), (800_000, "processed"))
    run_scenery.failed(partly, 311_004, "IntegrityError: duplicate key (street, number)")
    stopped = run_scenery.make_run(
        **usual, status="failed", reason="more than 5 % failed", started_at=ago(days=1),
        finished_at=ago(hours=23), active_seconds=410.0,
    )  # fmt: skip
    run_scenery.make_node(stopped, 0, 120_000, (60_000, "processed"))
    run_scenery.failed(stopped, 120_000, "DataError: value too long", size=9_000)
    run_scenery.make_node(stopped, 129_000, 800_000)
    cancelled = run_scenery.make_run(
        **usual, status="cancelled", reason="started by mistake", started_at=ago(days=2),
        finished_at=ago(days=2), active_seconds=12.0,
    )  # fmt: skip
    run_scenery.make_node(cancelled, 0, 800_000, (4_000, "processed"))
    created = run_scenery.make_run(
        **usual, status="created", planned=False, started_at=None, concurrency=4
    )
    paused = RangeRun.objects.get(name="shop.ReindexCustomers")
    runs = {
        "running": running, "paused": paused, "completed": done, "partly failed": partly,
        "failed": stopped, "cancelled": cancelled, "created": created,
    }  # fmt: skip
    return {f"{name} run": str(run.id) for name, run in runs.items()} | {"failure": str(first.id)}


def _samples(run: RangeRun) -> None:
    """How it got to where it is, in twenty minutes."""
    sums = run.nodes.aggregate(rows=Sum("rows_ok"), leaves=Sum("leaves"), width=Sum("width_ok"))
    RangeSample.objects.filter(run=run).delete()
    for number in range(41):
        share = (number / 40 + 0.012 * math.sin(number / 2.1)) if 0 < number < 40 else number / 40
        leaves = int(sums["leaves"] * share)
        slow = leaves // 9 + 14 * max(0, number - 22)
        RangeSample.objects.create(
            run=run, at=ago(seconds=30 * (40 - number) + 2), rows_ok=int(sums["rows"] * share),
            rows_failed=number // 7, width_done=int(float(sums["width"]) * share), leaves=leaves,
            active_seconds=30 * number, lanes=8, leaf_seconds={"19": leaves - slow, "22": slow},
        )  # fmt: skip


def _schedules() -> Things:
    random = Random(3)
    plans: list[tuple[str, str, dict[str, Any]]] = [
        ("Morning digest", "send_digest", {"cron": "0 8 * * 1-5", "time_zone": "Europe/Berlin"}),
        ("Stock, every 5 minutes", "sync_inventory", {"recur_interval": "every_5_minutes"}),
        ("Month's report", "monthly_report", {"cron": "30 2 1 * *", "time_zone": "Europe/Berlin"}),
        ("Recount", "recount_stock", {"recur_interval": "every_6_hours", "misfire": "skip"}),
        ("Old campaign", "send_digest", {"cron": "0 12 * * *", "enabled": False}),
    ]
    found = {}
    for number, (name, kind, options) in enumerate(plans):
        made = schedules.create(name, kind, {"list": "all"}, **options)
        found[name] = str(made.id)
        step = timedelta(minutes=5) if "5" in name else timedelta(days=1)
        for ago_many in range(20 - 6 * (number == 2)):
            at = timezone.now().replace(second=0, microsecond=0) - step * (ago_many + 1)
            is_bad = random.random() < (0.12 if number else 0.0)
            ended = at + timedelta(seconds=random.uniform(0.4, 3))
            job = make_job(
                "dead" if is_bad else "completed", type=kind, schedule=made, schedule_slot=at,
                created_at=at, started_at=at,
                **({"failed_at": ended, "last_error": "TimeoutError: the warehouse did not answer within 30 s",
                    "error_fingerprint": f"{9:016x}"} if is_bad else {"completed_at": ended}),
            )  # fmt: skip
            if not ago_many:
                Schedule.objects.filter(id=made.id).update(last_slot=at, last_job_id=job.id)
    Schedule.objects.filter(name="Recount").update(missed_count=2)
    return {"schedule": found["Morning digest"], "disabled schedule": found["Old campaign"]}


def _bulk_operations() -> Things:
    usual = {"created_by": "operator", "before": ago(minutes=9), "address": "10.20.0.7"}
    hooks = {"status": "failed", "type": "deliver_webhook"}
    ended = BulkOperation.objects.create(
        **usual, action="retry", filters=hooks, status="completed", matched=12_480, changed=12_031,
        skipped=446, failed=3, created_at=ago(hours=5), started_at=ago(hours=5), worked_seconds=31.4,
        finished_at=ago(hours=4.99), reason="the provider is back",
        skipped_reasons={"it was retried meanwhile": 402, "it was purged meanwhile": 44},
        failures=[{"id": str(new_uuid()), "error": "IntegrityError: its unique key is taken"}] * 3,
    )  # fmt: skip
    for action, status, filters, arguments, changed in (
        ("cancel", "aborted", {"status": "pending", "queue": "images"}, {}, 1_500),
        ("purge", "completed", {"status": "failed", "type": "send_email"}, {}, 88),
        (
            "move_queue",
            "paused",
            {"status": "pending", "type": "resize_image"},
            {"queue": "slow"},
            700,
        ),
    ):
        BulkOperation.objects.create(
            **usual, action=action, filters=filters, arguments=arguments, status=status,
            matched=max(changed, 2_400), changed=changed, created_at=ago(hours=2), started_at=ago(hours=2),
            worked_seconds=changed / 420, finished_at=None if status == "paused" else ago(hours=1.9),
        )  # fmt: skip
    running = BulkOperation.objects.create(
        **usual, action="change_priority", filters={"status": "pending", "queue": "mail"},
        arguments={"priority": 1}, status="running", matched=10_000, matched_is_capped=True,
        changed=4_120, skipped=31, created_at=ago(seconds=20), started_at=ago(seconds=18),
        worked_seconds=11.2,
    )  # fmt: skip
    return {"bulk operation": str(ended.id), "running bulk operation": str(running.id)}


def _webhooks() -> Things:
    ops = Webhook.objects.create(
        name="Operations channel", url="https://chat.example.com/hooks/T02/coppice", secret="hush",
        events=["alert.*", "worker.lost"], created_by="admin", created_at=ago(days=40),
    )  # fmt: skip
    Webhook.objects.create(
        name="Pager", url="https://pager.example.net/v2/enqueue", secret="hush", enabled=False,
        events=["alert.dead_letters"], created_by="supervisor", created_at=ago(days=3),
    )  # fmt: skip
    AlertRecipient.objects.create(address="ops@shop.example", events=["alert.dead_letters"])
    AlertRecipient.objects.create(address="supervisor@shop.example", events=["alert.*"])
    for minutes, event, status, code, error in (
        (2_000, "worker.lost", "delivered", 200, ""),
        (700, "alert.dead_letters", "failed", 503, "503 Service Unavailable"),
        (26, "alert.dead_letters", "delivered", 200, ""),
        (1, "alert.queue_paused", "pending", None, "the connection was refused"),
    ):
        body = {"event": event, "environment": "staging", "facts": {"count": 100, "limit": 100}}
        WebhookDelivery.objects.create(
            webhook=ops, event=event, status=status, response_code=code, error=error,
            response="ok" if code == 200 else "", body=json.dumps(body), created_at=ago(minutes=minutes),
            attempts={"delivered": 1, "failed": 8}.get(status, 2), tried_at=ago(minutes=minutes),
        )  # fmt: skip
    return {"webhook": str(ops.id)}


def _stock() -> Things:
    """What Django's own pages show."""
    admin = User.objects.get(username="admin")
    token, _ = tokens.create(admin, "Warehouse import")
    tokens.create(User.objects.get(username="operator"), "Nightly exports")
    type(token).objects.filter(id=token.id).update(last_used_at=ago(minutes=4))
    for id, name, country, latitude, longitude, population in (
        (2_950_159, "Berlin", "DE", 52.52437, 13.41053, 3_426_354),
        (2_911_298, "Hamburg", "DE", 53.55073, 9.99302, 1_739_117),
        (3_143_244, "Oslo", "NO", 59.91273, 10.74609, 580_000),
        (3_448_439, "São Paulo", "BR", -23.5475, -46.63611, 10_021_295),
    ):
        City(
            id=id, name=name, country=country, latitude=latitude, longitude=longitude,
            population=population, time_zone="Europe/Berlin", geohash="u33dc0cpnt", cell="u33dc",
            utc_offset_minutes=60,
        ).save()  # fmt: skip
    CountrySummary.objects.create(
        code="DE", cities=3_211, population=61_204_311, geohash_prefix="u",
        lowest_offset_minutes=60, highest_offset_minutes=120,
    )  # fmt: skip
    return {
        "token": str(token.id),
        "user": str(User.objects.get(username="operator").pk),
        "group": str(Group.objects.get(name="Operator").pk),
        "city": "2950159",
        "country": "DE",
    }


def _audit(things: Things) -> Things:
    dead, purged = things["dead job"], things["purged job"]
    for minutes, actor, action, scope, object_id, changed, reason, data in (
        (9_000, "supervisor", "webhook.create", "Operations channel", things["webhook"], 1, "", {}),
        (2_900, "admin", "schedule.create", "Morning digest", things["schedule"], 1, "",
         {"after": {"cron": "0 8 * * 1-5", "time_zone": "Europe/Berlin"}}),
        (700, "operator", "bulk.retry", "status failed, type deliver_webhook", things["bulk operation"],
         12_031, "the provider is back", {"matched": 12_480, "cap": None}),
        (190, "supervisor", "job.purge", f"send_email {purged}", purged, 1, "a test order", {}),
        (61, "admin", "job.cancel", f"send_digest {things['cancelled job']}", things["cancelled job"], 1,
         "", {}),
        (14, "operator", "job.change", f"write_invoice {things['ready job']}", things["ready job"], 1, "",
         {"before": {"priority": 2}, "after": {"priority": 1}}),
        (9, "admin", "queue.pause", "reports", "reports", 1, "warehouse migration until 15:00", {}),
        (5, "operator", "job.retry", f"deliver_webhook {dead}", dead, 0, "their certificate is new", {}),
        (3, "admin", "range.waive", "shop.BackfillUsers", things["running run"], 1,
         "the customer has left", {}),
    ):  # fmt: skip
        AuditEntry.objects.create(
            at=ago(minutes=minutes), actor=actor, action=action, scope=scope, object_id=object_id,
            changed=changed, reason=reason, data=data, address="10.20.0.7",
        )  # fmt: skip
    return {}


def _feed(things: Things) -> None:
    """What the overview's log and the page of the big run tell."""
    random = Random(11)
    client = stream.client()
    now = timezone.now().timestamp()
    run = things["running run"]
    told: list[tuple[float, Event]] = [
        (540, Event("queue.paused", queue="reports", facts={"by": "admin",
            "reason": "warehouse migration until 15:00"})),
        (61, _job("job.dlq_entry", "deliver_webhook", "webhooks", things["dead job"], error=ERROR)),
        (44, _job("job.retry_scheduled", "deliver_webhook", "webhooks", things["retrying job"],
            error=ERROR)),
    ]  # fmt: skip
    for second in range(1, 58, 2):
        kind, queue = random.choice(
            [("send_email", "mail"), ("sync_inventory", "default"), ("resize_image", "images")]
        )
        name = random.choice(["job.started", "job.completed", "job.completed", "job.created"])
        told.append((second, _job(name, kind, queue, str(new_uuid()))))
    of_run: list[tuple[float, str, dict[str, Any]]] = [
        (1_180.0, "range.started", {"by": "admin"}),
        (840.0, "range.retuned", {"by": "admin", "concurrency": 8}),
        (300.0, "node.split", {"lo": "21875000", "hi": "25000000"}),
        (122.0, "node.retrying", {"lo": "22000000", "hi": "22001000", "error": "ValueError: no such country"}),
        (119.0, "node.bisected", {"lo": "22000000", "hi": "22000001"}),
        (118.0, "node.failed", {"lo": "22000000", "error": "ValueError: no such country"}),
        (12.0, "node.completed", {"lo": "9374000", "hi": "9375000"}),
    ]  # fmt: skip
    for seconds, name, facts in of_run:
        told.append((seconds, Event(name, facts={"run_id": run, **facts})))
    for seconds, event in sorted(told, key=lambda each: -each[0]):
        client.xadd(STREAM, {"event": encode(now - seconds, event)})


def _job(name: str, kind: str, queue: str, id: str, **facts: Any) -> Event:
    return Event(name, job_id=id, type=kind, queue=queue, facts=facts)
