"""The API, as a project mounts it."""

from django.urls import include, path

urlpatterns = [path("api/v1/", include("jobs.api.urls"))]
