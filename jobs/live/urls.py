"""The routes of the live feed below `/api/v1`. Before `jobs/{id}`, which would take "stream"."""

from __future__ import annotations

from django.urls import path

from jobs.live.polling import LiveView, StreamView

urlpatterns = [
    path("jobs/stream", StreamView.as_view(), name="coppice-stream"),
    path("live", LiveView.as_view(), name="coppice-live"),
]
