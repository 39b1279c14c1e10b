"""What `process` has asked Django to do on commit may fail: by then the leaf is done."""

from __future__ import annotations

from typing import Any

from django.db import Error

from jobs.answers import JobTimeout
from jobs.texts import describe_error


def came_after_commit(error: BaseException) -> bool:
    """Of an error at the end of a transaction: whether it cannot have been the commit's own."""
    return isinstance(error, Exception) and not isinstance(error, (Error, JobTimeout))


def tell(log: Any, error: BaseException) -> None:
    """There is no leaf to be charged with it."""
    log.error("what was to be done on commit has failed", error=describe_error(error))
