"""What machines ask at the root: does it live, can it work, how does it go."""

from __future__ import annotations

from django.urls import path

from jobs import health
from jobs.metrics.view import MetricsView

urlpatterns = [
    path("healthz", health.healthz, name="coppice-healthz"),
    path("readyz", health.readyz, name="coppice-readyz"),
    path("metrics", MetricsView.as_view(), name="coppice-metrics"),
]
