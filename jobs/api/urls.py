"""The routes of `/api/v1`."""

from __future__ import annotations

from jobs.api.job import urls as job
from jobs.api.operating import urls as operating

urlpatterns = [*job.urlpatterns, *operating.urlpatterns]
