"""The project's own ASGI application, with a window for the tests.

`/-/counts` tells what the process holds on to. Waits that are half a minute long may be shortened
from the environment: `LIVE_<MODULE>_<CONSTANT>=seconds`.
"""

import asyncio
import gc
import json
import os
from importlib import import_module
from pathlib import Path
from typing import Any

from django.conf import settings


def _project() -> Any:
    # Pages are rendered without `collectstatic`.
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    # As in production, a browser asks once for what the next page has as well.
    settings.WHITENOISE_MAX_AGE = 3_600
    found = import_module("config.asgi").application
    for variable, value in os.environ.items():
        prefix, _, rest = variable.partition("_")
        if prefix == "LIVE":
            module, _, constant = rest.partition("_")
            setattr(import_module(f"jobs.live.{module.lower()}"), constant, float(value))
    return found


project = _project()


def counts(*, alive: bool) -> dict[str, Any]:
    """`alive`: also what the garbage collector still knows of, which takes a while."""
    from jobs.live import connections
    from jobs.live.hub import hub
    from jobs.live.receiver import Receiver

    if alive:
        gc.collect()
    names = sorted(task.get_name() for task in asyncio.all_tasks())
    return {
        "connections": connections.count(),
        "receivers": len(hub().receivers),
        "receivers_alive": alive and sum(isinstance(each, Receiver) for each in gc.get_objects()),
        "reading": hub().is_running,
        "tasks": len(names),
        "live_tasks": [name for name in names if name.startswith("coppice-live")],
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
    }


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http" and scope["path"] == "/-/counts":
        found = counts(alive=scope["query_string"] == b"alive")
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(found).encode()})
        return
    await project(scope, receive, send)
