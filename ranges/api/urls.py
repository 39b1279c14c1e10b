"""The routes of range runs. Words come before ids."""

from __future__ import annotations

from django.urls import path

from ranges.api import acting, failures, pictures, views

urlpatterns = [
    path("ranges", views.RunsView.as_view(), name="coppice-ranges"),
    path("ranges/jobs", views.RangeJobsView.as_view(), name="coppice-range-jobs"),
    path("ranges/plan", views.PlanView.as_view(), name="coppice-range-plan"),
    path("ranges/<str:run_id>", views.RunView.as_view(), name="coppice-range"),
    path("ranges/<str:run_id>/tree", pictures.TreeView.as_view(), name="coppice-range-tree"),
    path(
        "ranges/<str:run_id>/coverage",
        pictures.CoverageView.as_view(),
        name="coppice-range-coverage",
    ),
    path("ranges/<str:run_id>/nodes", pictures.NodesView.as_view(), name="coppice-range-nodes"),
    path(
        "ranges/<str:run_id>/failures",
        failures.FailuresView.as_view(),
        name="coppice-range-failures",
    ),
    path(
        "ranges/<str:run_id>/failures/<str:failure>",
        failures.FailureView.as_view(),
        name="coppice-range-failure",
    ),
    path(
        "ranges/<str:run_id>/failures/<str:failure>/waive",
        failures.WaiveView.as_view(),
        name="coppice-range-waive",
    ),
    path("ranges/<str:run_id>/start", acting.StartView.as_view(), name="coppice-range-start"),
    path("ranges/<str:run_id>/pause", acting.PauseView.as_view(), name="coppice-range-pause"),
    path(
        "ranges/<str:run_id>/force-pause",
        acting.ForcePauseView.as_view(),
        name="coppice-range-force-pause",
    ),
    path("ranges/<str:run_id>/resume", acting.ResumeView.as_view(), name="coppice-range-resume"),
    path("ranges/<str:run_id>/cancel", acting.CancelView.as_view(), name="coppice-range-cancel"),
    path(
        "ranges/<str:run_id>/retry-failed",
        acting.RetryFailedView.as_view(),
        name="coppice-range-retry-failed",
    ),
    path(
        "ranges/<str:run_id>/waive-failed",
        acting.WaiveFailedView.as_view(),
        name="coppice-range-waive-failed",
    ),
    path("ranges/<str:run_id>/again", acting.AgainView.as_view(), name="coppice-range-again"),
    path("ranges/<str:run_id>/retune", acting.RetuneView.as_view(), name="coppice-range-retune"),
    path("ranges/<str:run_id>/verify", acting.VerifyView.as_view(), name="coppice-range-verify"),
]
