"""Imported by the fork server alone, which goes on after a SIGTERM.

Who stops a whole group of processes sends one to each. The attempts in processes of their own end with
the fork server, which therefore stays until the worker process is gone.
"""

from __future__ import annotations

import signal


def _the_worker_decides(_number: int, _frame: object) -> None:
    """Not SIG_IGN, which the attempts would inherit."""


signal.signal(signal.SIGTERM, _the_worker_decides)
