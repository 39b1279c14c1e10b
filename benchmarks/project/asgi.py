"""The web process of the benchmarks' project."""

import os

from django.core.asgi import get_asgi_application

os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.project.settings"
django_application = get_asgi_application()

from jobs.live.routing import application_with

application = application_with(django_application)
