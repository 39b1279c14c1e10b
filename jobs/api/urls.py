"""The routes of `/api/v1`."""

from __future__ import annotations

from django.urls import URLPattern

app_name = "coppice-api"
urlpatterns: list[URLPattern] = []
