"""The console's own template engine: one shell around every page, whatever else is installed.

Django's own admin pages extend `admin/base_site.html`. In this engine that name means the console's
shell, and the stock templates come before those of other apps, so that a theme for the admin
changes nothing here, and this changes nothing for the theme.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.core.signals import setting_changed
from django.template.backends.django import DjangoTemplates
from django.template.response import TemplateResponse
from django.utils import timezone

OURS = Path(__file__).parent / "templates"
STOCK = Path(admin.__file__).parent / "templates"
PROCESSORS = [
    "django.template.context_processors.csp",
    "django.template.context_processors.request",
    "django.contrib.auth.context_processors.auth",
    "django.contrib.messages.context_processors.messages",
]


@lru_cache(maxsize=1)
def engine() -> DjangoTemplates:
    return DjangoTemplates(
        {
            "NAME": "console",
            "DIRS": [OURS, STOCK, *_project_folders()],
            "APP_DIRS": True,
            "OPTIONS": {"context_processors": PROCESSORS},
        }
    )


def dressed[R](response: R) -> R:
    """The response, to be rendered by the console's engine if it is a page not yet rendered."""
    if isinstance(response, TemplateResponse) and not response.is_rendered:
        names = response.template_name
        if isinstance(names, str):
            response.template_name = _Zoned(engine().get_template(names))
        elif isinstance(names, list | tuple):
            response.template_name = _Zoned(_first(list(names)))
    return response


class _Zoned:
    """A template that is rendered in the zone that was in force when its page was made: Django
    renders after the view has returned.
    """

    def __init__(self, template: Any) -> None:
        self.template = template
        self.zone = timezone.get_current_timezone()

    def render(self, context: Any = None, request: Any = None) -> str:
        with timezone.override(self.zone):
            return str(self.template.render(context, request))


def rendered(name: str, context: dict[str, Any], request: Any = None) -> str:
    return str(engine().get_template(name).render(context, request))


def _first(names: list[str]) -> Any:
    from django.template import TemplateDoesNotExist

    for name in names:
        try:
            return engine().get_template(name)
        except TemplateDoesNotExist:
            continue
    raise TemplateDoesNotExist(", ".join(names))


def _project_folders() -> list[Any]:
    backend = "django.template.backends.django.DjangoTemplates"
    for given in settings.TEMPLATES:
        if given.get("BACKEND") == backend:
            folders: Any = given.get("DIRS", [])
            return [*folders]
    return []


def _forget(*, setting: str, **_: object) -> None:
    if setting in ("TEMPLATES", "INSTALLED_APPS"):
        engine.cache_clear()


setting_changed.connect(_forget, dispatch_uid="coppice-console-engine")
