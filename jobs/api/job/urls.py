"""The routes of jobs. Words come before ids."""

from __future__ import annotations

from django.urls import path

from jobs.api.job import acting, groups, single, views

urlpatterns = [
    path("jobs", views.JobsView.as_view(), name="coppice-jobs"),
    path("jobs/bulk", views.BulkJobsView.as_view(), name="coppice-jobs-bulk"),
    path("jobs/stats", views.StatsView.as_view(), name="coppice-jobs-stats"),
    path("jobs/dlq", views.DeadLettersView.as_view(), name="coppice-dead-letters"),
    path(
        "jobs/dlq/groups", groups.DeadLetterGroupsView.as_view(), name="coppice-dead-letter-groups"
    ),
    path("jobs/empty-dlq", views.EmptyDeadLettersView.as_view(), name="coppice-empty-dlq"),
    path("jobs/<str:job_id>", single.JobView.as_view(), name="coppice-job"),
    path("jobs/<str:job_id>/attempts", single.AttemptsView.as_view(), name="coppice-attempts"),
    path("jobs/<str:job_id>/logs", single.LogsView.as_view(), name="coppice-logs"),
    path("jobs/<str:job_id>/run-now", acting.RunNowView.as_view(), name="coppice-run-now"),
    path("jobs/<str:job_id>/cancel", acting.CancelView.as_view(), name="coppice-cancel"),
    path("jobs/<str:job_id>/mark-lost", acting.MarkLostView.as_view(), name="coppice-mark-lost"),
    path("jobs/<str:job_id>/retry", acting.RetryView.as_view(), name="coppice-retry"),
    path("jobs/<str:job_id>/release", acting.ReleaseView.as_view(), name="coppice-release"),
    path("jobs/<str:job_id>/purge", acting.PurgeView.as_view(), name="coppice-purge"),
]
