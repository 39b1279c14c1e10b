"""What each part of the demo has to be able to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class Progress:
    done: int
    total: int

    @property
    def is_complete(self) -> bool:
        return self.done >= self.total


class Workload(Protocol):
    """Something that the demo has Coppice do, watches, and proves in the end."""

    title: str

    def start(self) -> None:
        """Enqueue it; a run that was interrupted is continued."""
        ...

    def progress(self) -> Progress: ...

    def findings(self) -> list[str]:
        """What is not as it should be, a sentence each; asked when all workloads are complete."""
        ...
