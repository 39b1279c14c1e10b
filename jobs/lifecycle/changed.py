"""What an action on many jobs really did."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """One job that was left as it was, and why."""

    job_id: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Changed:
    """The jobs that changed, in the order asked for, and those that did not."""

    done: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    requested: tuple[str, ...] = ()
    """Of those done: jobs that run and were only asked to stop."""

    def __add__(self, other: Changed) -> Changed:
        return Changed(
            done=self.done + other.done,
            skipped=self.skipped + other.skipped,
            requested=self.requested + other.requested,
        )

    def sentence(self, verb: str) -> str:
        """ "3 retried, 1 skipped (no longer dead)": what a person is told."""
        parts = [f"{len(self.done):,} {verb}"]
        if self.requested:
            parts[0] += f" ({len(self.requested):,} still running: asked to stop)"
        if self.skipped:
            reasons = dict.fromkeys(skip.reason for skip in self.skipped)
            shown = "; ".join(list(reasons)[:3]) + ("; ..." if len(reasons) > 3 else "")
            parts.append(f"{len(self.skipped):,} skipped ({shown})")
        return ", ".join(parts)
