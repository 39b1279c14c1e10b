"""Which version of Coppice this is."""

from __future__ import annotations

from functools import lru_cache
from importlib import metadata


@lru_cache(maxsize=1)
def ours() -> str:
    """Empty in a checkout that is not installed."""
    try:
        return metadata.version("django-coppice")
    except metadata.PackageNotFoundError:
        return ""
