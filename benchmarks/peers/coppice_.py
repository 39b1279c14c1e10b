# /// script
# dependencies = ["-e ../../", "psycopg[binary]>=3.2"]
#
# [tool.peerbench]
# name = "coppice"
# store = "postgres"
# bulk = "enqueue_many, one COPY"
# ///
"""Coppice at its defaults: durable, fenced, each attempt and each change of status kept.

Steady (C, D): one `runworker` with two processes, one per core. I/O (E): one process, since jobs
that wait need no second core. Crash (F): `runworker` without options. Redis is left out, as for the peers on
PostgreSQL; the log is at warnings, as for all.

Settings: processes, io_processes, concurrency.
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coppice_settings")

import django
from peer_adapter import IO_CONCURRENCY, Adapter, Job, setting

django.setup()

from django.core.management import call_command  # noqa: E402  after django.setup()

from jobs import enqueue, enqueue_many  # noqa: E402
from jobs.models import Job as CoppiceJob  # noqa: E402


class Coppice(Adapter):  # type: ignore[misc]
    def setup(self) -> None:
        call_command("migrate", verbosity=0)

    def enqueue(self, job: Job) -> None:
        enqueue(job.kind, job.arguments)

    def enqueue_many(self, jobs: list[Job]) -> None:
        enqueue_many(jobs[0].kind, (job.arguments for job in jobs))

    def unfinished(self) -> int:
        return CoppiceJob.objects.live().count()

    def worker_commands(self, profile: str) -> list[list[str]]:
        command = [sys.executable, str(Path(__file__).with_name("coppice_manage.py")), "runworker"]
        if profile == "crash":
            return [command]
        processes = setting("processes", 2)
        concurrency = setting("concurrency", 10)
        if profile == "io":
            processes = setting("io_processes", 1)
            concurrency = IO_CONCURRENCY // processes
        return [[*command, "--processes", str(processes), "--concurrency", str(concurrency)]]


adapter = Coppice()
