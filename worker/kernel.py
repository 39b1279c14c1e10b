"""What is asked of the Linux kernel directly."""

from __future__ import annotations

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Ask for SIGKILL when the thread that started this process ends, whatever runs here then."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def end_if_forked(pid: int) -> None:
    """End this process if a handler has forked it and let the copy return: it would go on as the
    worker, and run other jobs a second time.
    """
    if os.getpid() != pid:
        os._exit(0)
