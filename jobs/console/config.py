"""The app to install in place of `django.contrib.admin`, to make the console the project's admin.

Not in `jobs/apps.py`: an app whose module defines two configurations has no default one.
"""

from __future__ import annotations

from django.contrib.admin.apps import AdminConfig


class ConsoleConfig(AdminConfig):
    default = False
    default_site = "jobs.console.site.ConsoleSite"
