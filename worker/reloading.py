"""`--autoreload`: drain and start anew when a Python file of the project changes."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import structlog
from django.apps import apps
from django.conf import settings as django_settings
from django.core.management.base import CommandError

log = structlog.get_logger("coppice.worker")


def watch(restart: Callable[[], None]) -> None:
    """Call `restart` once, from a thread, when a file has changed that still compiles."""
    if find_spec("watchfiles") is None:
        raise CommandError("--autoreload needs the package watchfiles: pip install watchfiles")
    threading.Thread(target=_watch, args=(restart,), name="autoreload", daemon=True).start()


def start_anew() -> None:
    """Become the same command again, with the same arguments."""
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606


def _watch(restart: Callable[[], None]) -> None:
    from watchfiles import PythonFilter
    from watchfiles import watch as watch_files

    for changes in watch_files(*_folders(), watch_filter=PythonFilter()):
        paths = sorted({Path(path) for _, path in changes})
        broken = next((path for path in paths if not _compiles(path)), None)
        if broken is not None:
            log.warning("worker.not_reloaded", file=str(broken), reason="it does not compile")
            continue
        log.info("worker.reloading", files=[str(path) for path in paths[:10]])
        restart()
        return


def _folders() -> list[Path]:
    """The folders of the project's own apps and settings, not of installed packages."""
    settings_file = import_module(django_settings.SETTINGS_MODULE).__file__
    found = {Path(config.path) for config in apps.get_app_configs()}
    if settings_file is not None:
        found.add(Path(settings_file).parent)
    return sorted(path for path in found if "site-packages" not in path.parts)


def _compiles(path: Path) -> bool:
    try:
        compile(path.read_bytes(), str(path), "exec")
    except (SyntaxError, ValueError):
        return False
    except OSError:
        pass  # deleted, which is a change like any other
    return True
