"""The routes of operating: schedules, queues, workers, bulk operations. Words come before ids."""

from __future__ import annotations

from django.urls import path

from jobs.api.operating import bulk, queues, schedules, workers

urlpatterns = [
    path("schedules", schedules.SchedulesView.as_view(), name="coppice-schedules"),
    path("schedules/preview", schedules.PreviewView.as_view(), name="coppice-schedule-preview"),
    path("schedules/<str:schedule_id>", schedules.ScheduleView.as_view(), name="coppice-schedule"),
    path(
        "schedules/<str:schedule_id>/enable", schedules.EnableView.as_view(), name="coppice-enable"
    ),
    path(
        "schedules/<str:schedule_id>/disable",
        schedules.DisableView.as_view(),
        name="coppice-disable",
    ),
    path(
        "schedules/<str:schedule_id>/run-now",
        schedules.RunNowView.as_view(),
        name="coppice-schedule-run-now",
    ),
    path(
        "schedules/<str:schedule_id>/skip-next",
        schedules.SkipNextView.as_view(),
        name="coppice-skip-next",
    ),
    path(
        "schedules/<str:schedule_id>/next-runs",
        schedules.NextRunsView.as_view(),
        name="coppice-next-runs",
    ),
    path("queues", queues.QueuesView.as_view(), name="coppice-queues"),
    path("queues/<str:name>", queues.QueueView.as_view(), name="coppice-queue"),
    path("queues/<str:name>/pause", queues.PauseView.as_view(), name="coppice-pause"),
    path("queues/<str:name>/resume", queues.ResumeView.as_view(), name="coppice-resume"),
    path("workers", workers.WorkersView.as_view(), name="coppice-workers"),
    path("workers/<str:worker_id>", workers.WorkerView.as_view(), name="coppice-worker"),
    path("workers/<str:worker_id>/stop", workers.StopView.as_view(), name="coppice-stop-worker"),
    path("workers/<str:worker_id>/quiet", workers.QuietView.as_view(), name="coppice-quiet-worker"),
    path(
        "workers/<str:worker_id>/resume",
        workers.ResumeView.as_view(),
        name="coppice-resume-worker",
    ),
    path(
        "workers/<str:worker_id>/recover",
        workers.RecoverView.as_view(),
        name="coppice-recover-worker",
    ),
    path("bulk-operations", bulk.BulkOperationsView.as_view(), name="coppice-bulk-operations"),
    path(
        "bulk-operations/preview", bulk.PreviewView.as_view(), name="coppice-bulk-operation-preview"
    ),
    path(
        "bulk-operations/<str:operation_id>",
        bulk.BulkOperationView.as_view(),
        name="coppice-bulk-operation",
    ),
    path(
        "bulk-operations/<str:operation_id>/pause",
        bulk.PauseView.as_view(),
        name="coppice-bulk-pause",
    ),
    path(
        "bulk-operations/<str:operation_id>/resume",
        bulk.ResumeView.as_view(),
        name="coppice-bulk-resume",
    ),
    path(
        "bulk-operations/<str:operation_id>/abort",
        bulk.AbortView.as_view(),
        name="coppice-bulk-abort",
    ),
]
