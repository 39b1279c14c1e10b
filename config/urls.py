"""Addresses of the project."""

from django.contrib import admin
from django.urls import include, path

from jobs.live.polling import StreamView

urlpatterns = [
    path("", include("jobs.urls")),
    path("", include("jobs.api.docs")),
    path("api/v1/", include("jobs.api.urls")),
    path("api/v1/", include("ranges.api.urls")),
    path("api/jobs/stream", StreamView.as_view()),
    path("admin/", admin.site.urls),
]
handler400 = "jobs.api.faults.bad_request"
handler404 = "jobs.api.faults.not_found"
handler500 = "jobs.api.faults.server_error"
