"""How one attempt ended, on its way to the database. Pure: no Django."""

from __future__ import annotations

from dataclasses import dataclass

from jobs.answers import WaitFor
from jobs.claimed import Claimed
from jobs.states import UNSPENT, Outcome, Status


class Success:
    """One attempt whose handler returned; slotted, as there are tens of thousands a second."""

    __slots__ = ("job", "result", "run", "wait")

    def __init__(self, job: Claimed, wait: float, run: float, result: str | None = None) -> None:
        self.job = job
        self.wait = wait  # seconds from the claim to the start of the handler
        self.run = run  # seconds that the handler took
        self.result = result  # JSON text


@dataclass(slots=True, kw_only=True)
class Ending:
    """One attempt that ended in any other way; every text is cleaned and cut already."""

    job: Claimed
    status: Status
    outcome: Outcome
    event: str
    delay: float | None = None
    """Seconds until the job is due again; None leaves its time as it was."""
    held: bool = False
    hold_reason: str = ""
    wait: float = 0.0
    run: float = 0.0
    error: str = ""
    traceback: str = ""
    fingerprint: str = ""
    result: str | None = None
    losses: int = 0
    wait_for: WaitFor | None = None
    quiet: bool = False
    """Neither an attempt's row nor a line in the log."""
    level: str = "info"

    @property
    def spent(self) -> bool:
        """Whether the attempt counts."""
        return self.outcome not in UNSPENT
