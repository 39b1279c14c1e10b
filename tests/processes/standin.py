"""A child that behaves as badly as the first argument says; it speaks the supervisor's language."""

import ctypes
import json
import os
import signal
import sys
import time
from contextlib import suppress
from threading import Thread

from worker.places import Places


def main(behaviour: str) -> None:
    charge = json.loads(os.environ["COPPICE_CHILD"])
    die_with_supervisor()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if behaviour == "dies at start":
        os._exit(7)
    if behaviour == "finds settings wrong":
        _say(charge, "settings", error="COPPICE_TOY=1 must be 2")
        os._exit(2)
    places = Places(charge["places_fd"], charge["places_size"])
    Thread(target=_obey, args=(charge, behaviour), daemon=True).start()
    _say(charge, "ready")
    if behaviour == "asks to be replaced" and charge["name"].endswith("/1"):
        _say(charge, "replace me")
    if behaviour == "hangs up":
        os.close(charge["report_fd"])
    while True:
        if behaviour != "has no pulse":
            places.beat()
        time.sleep(0.05)


def die_with_supervisor() -> None:
    """So that no test leaves one behind that it has stopped."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _obey(charge: dict[str, object], behaviour: str) -> None:
    for line in sys.stdin:
        order = json.loads(line)["do"]
        print(json.dumps({"message": "standin.heard", "order": order}), flush=True)
        if behaviour != "is deaf":
            _say(charge, "drained")
            os._exit(0)
    os._exit(1)


def _say(charge: dict[str, object], what: str, **facts: object) -> None:
    descriptor = charge["report_fd"]
    assert isinstance(descriptor, int)
    with suppress(OSError):
        os.write(descriptor, json.dumps({"is": what, **facts}).encode() + b"\n")


if __name__ == "__main__":
    main(sys.argv[1])
