"""The routes of `/api/v1`."""

from __future__ import annotations

from jobs.api.job import urls as job
from jobs.api.operating import urls as operating
from jobs.live import urls as live

# The live feed first: `jobs/{id}` would take `jobs/stream`.
urlpatterns = [*live.urlpatterns, *job.urlpatterns, *operating.urlpatterns]
