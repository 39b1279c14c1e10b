"""The project without a live feed."""

from django.conf import settings

from tests.live.site import application

settings.COPPICE_REDIS_URL = ""


def _forget() -> None:
    from jobs import conf

    conf.get.cache_clear()


_forget()

__all__ = ["application"]
