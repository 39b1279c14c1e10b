"""The process that keeps the embedded servers of one folder running for as long as they are used.

Started by `config/embedded.py`, never by hand. Every process that uses the servers holds a shared
lock on `users.lock`; the kernel drops it however the process ends. So:

1. take `keeper.lock` (one keeper per folder), start the servers, report "ready";
2. start a server again when it has died;
3. when nobody has held `users.lock` for `LINGER_SECONDS`, stop the servers and leave. The stop
   happens under an exclusive lock on `users.lock`, so a newcomer waits and then starts afresh.
"""

import argparse
import fcntl
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from config.servers import Place, Postgres, ServerFailed, Valkey

LINGER_SECONDS = 2.0
LOOK_SECONDS = 0.25


def main() -> None:
    options = _options()
    place = Place(home=options.home)
    ready = options.home / "ready"
    one_keeper = os.open(options.home / "keeper.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(one_keeper, fcntl.LOCK_EX)
    users = os.open(options.home / "users.lock", os.O_RDWR | os.O_CREAT, 0o600)
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, _leave)
    ready.unlink(missing_ok=True)

    servers: list[Postgres | Valkey] = []
    try:
        place.make_account()
        place.make_base()
        if options.postgres is not None:
            servers.append(Postgres(place=place, programs=options.postgres, fast=options.fast))
        if options.valkey:
            servers.append(Valkey(place=place))
        for server in servers:
            server.start()
        ready.touch()
        _report(options.report, "ready")
        _keep(servers, users, linger=0.0 if options.temporary else LINGER_SECONDS)
    except ServerFailed as error:
        _report(options.report, str(error))
    finally:
        ready.unlink(missing_ok=True)
        for server in reversed(servers):
            server.stop()
        if options.temporary:
            place.remove()
        # In this order: who gets `users.lock` next must find `keeper.lock` free.
        os.close(one_keeper)
        os.close(users)


def _keep(servers: list[Postgres | Valkey], users: int, *, linger: float) -> None:
    unused_since: float | None = None
    while True:
        time.sleep(LOOK_SECONDS)
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            unused_since = None
            for server in servers:
                if not server.is_running():
                    server.start()
            continue
        now = time.monotonic()
        unused_since = now if unused_since is None else unused_since
        if now - unused_since >= linger:
            return
        fcntl.flock(users, fcntl.LOCK_UN)


def _report(pipe: int, message: str) -> None:
    try:
        os.write(pipe, message.encode())
        os.close(pipe)
    except OSError:
        # Whoever started the keeper is gone; the next user asks the servers themselves.
        pass


def _leave(_number: int, _frame: FrameType | None) -> None:
    sys.exit(0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--report", type=int, required=True, help="descriptor to write to")
    parser.add_argument("--postgres", type=Path, help="folder of PostgreSQL's programs")
    parser.add_argument("--valkey", action="store_true")
    parser.add_argument("--fast", action="store_true", help="no durability")
    parser.add_argument("--temporary", action="store_true", help="remove the folder at the end")
    return parser.parse_args()


if __name__ == "__main__":
    main()
