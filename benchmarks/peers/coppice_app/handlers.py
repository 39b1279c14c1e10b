"""The handlers of the harness."""

import peer_adapter

from jobs import handler


@handler("noop")
def noop(payload: dict[str, int]) -> None:
    peer_adapter.noop(**payload)


@handler("sleep")
def sleep(payload: dict[str, int]) -> None:
    peer_adapter.sleep(**payload)
