"""docs/lifecycle.md says what jobs/states.py says."""

from __future__ import annotations

import re
from pathlib import Path

from jobs.states import ARROWS, UNSPENT, OnParentFailure, Outcome, State, Status, derive_state

PAGE = Path(__file__).resolve().parents[2] / "docs" / "lifecycle.md"


def section(title: str) -> str:
    """The text below a second-level heading, up to the next one."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(f"\n## {title}\n")
    assert rest, f"docs/lifecycle.md has no section {title!r}"
    return rest.partition("\n## ")[0]


def table(title: str) -> list[list[str]]:
    """The cells of the first table of a section, without its head and back-ticks."""
    lines = section(title).splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().replace("`", "") for cell in line.strip("|").split("|")])
    return rows


def test_the_page_has_every_arrow_with_its_reason_and_no_other() -> None:
    written = [tuple(row) for row in table("Arrows")]
    assert written == [
        (arrow.event, arrow.source.value, arrow.target.value, arrow.when) for arrow in ARROWS
    ]


def test_the_drawing_names_every_status_and_every_event() -> None:
    drawing = PAGE.read_text(encoding="utf-8").split("```")[1]
    words = set(re.findall(r"\w+", drawing))
    assert {status.value for status in Status} <= words
    assert {arrow.event for arrow in ARROWS} <= words


def test_the_page_explains_every_status() -> None:
    assert [row[0] for row in table("Statuses")] == [status.value for status in Status]


def test_the_page_has_every_state_under_its_status() -> None:
    states = {row[0]: row[1] for row in table("States: the kinds of pending and processing")}
    assert set(states) == {state.value for state in State}
    for status in Status:
        for is_due, is_held, unmet, retrying, cancelling in _columns():
            state = derive_state(
                status=status,
                is_due=is_due,
                is_held=is_held,
                unmet_dependencies=unmet,
                has_next_retry=retrying,
                cancel_requested=cancelling,
            )
            assert states[state.value] == status.value


def test_the_page_says_which_outcomes_count_as_attempts() -> None:
    written = {row[0]: row[2] for row in table("Outcomes of an attempt")}
    assert written == {outcome.value: "no" if outcome in UNSPENT else "yes" for outcome in Outcome}


def test_the_page_explains_every_choice_of_on_parent_failure() -> None:
    written = {row[0].split()[0] for row in table("Dependencies")}
    assert written == {choice.value for choice in OnParentFailure}


def _columns() -> list[tuple[bool, bool, int, bool, bool]]:
    truth = (False, True)
    return [
        (is_due, is_held, unmet, retrying, cancelling)
        for is_due in truth
        for is_held in truth
        for unmet in (0, 1)
        for retrying in truth
        for cancelling in truth
    ]
