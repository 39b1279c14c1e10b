"""What an address of the list means, and that no address can break it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs import registry
from jobs.admin.ledger import asking, search
from jobs.admin.ledger.asking import Ask
from jobs.admin.ledger.tabs import TABS
from jobs.masking import Reader
from jobs.states import State, Status

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ID = "0198c0de-0000-7000-8000-000000000001"


@pytest.fixture(autouse=True)
def _handler() -> Iterator[None]:
    registry.handler("known.type", mask=("token",))(lambda payload: None)
    yield
    registry.remove("known.type")


def parse(given: dict[str, str] | None = None, **params: Any) -> Ask:
    """What an address means to somebody who may read payloads, with their masks."""
    reader = Reader(reads=params.pop("may_read", True), sees_masked=params.pop("sees_all", False))
    return asking.parse({**(given or {}), **params}, reader=reader, now=NOW)


def problems(ask: Ask) -> list[str]:
    return [chip.problem for chip in ask.problems]


def test_nothing_asked_for_is_all_that_is_active() -> None:
    ask = parse()
    assert ask.tab.name == "active"
    assert [each.status for each in ask.wholes] == [Status.PENDING, Status.PROCESSING]
    assert ask.chips == []
    assert not ask.is_narrowed


@pytest.mark.parametrize(
    ("params", "tab"),
    [
        ({"state": "dead"}, "dead"),
        ({"status": "failed"}, "dead"),
        ({"status": "processing"}, "running"),
        ({"status": "pending"}, "active"),
        ({"state": "cancelling"}, "running"),
        ({"q": "known.type"}, "all"),
        ({"q": "known.type", "state": "held"}, "held"),
        ({"state": "nonsense"}, "active"),
    ],
)
def test_the_tab_follows_from_state_status_or_search(params: dict[str, str], tab: str) -> None:
    assert parse(params).tab.name == tab


def test_pending_alone_leaves_out_what_runs() -> None:
    ask = parse(status="pending")
    assert [each.status for each in ask.wholes] == [Status.PENDING]
    assert ask.whole.status is Status.PENDING
    assert [chip.text for chip in ask.chips] == ["status pending"]


def test_parameters_of_the_api_work_here() -> None:
    ask = parse(
        type="known.type",
        queue="mail",
        priority="1",
        recur_interval="every_5_minutes",
        created_after="2026-01-01T00:00:00Z",
        updated_before="1767225600000",
        min_attempt_count="2",
        max_max_retries="5",
        limit="25",
        cursor=ID,
        state="ready",
        sort_by="priority",
        sort_order="desc",
    )
    assert problems(ask) == []
    found = ask.filters
    assert (found.type, found.queue, found.priority) == ("known.type", "mail", 1)
    assert found.recur_interval == "every_5_minutes"
    assert found.created_after == datetime(2026, 1, 1, tzinfo=UTC)
    assert found.updated_before == datetime(2026, 1, 1, tzinfo=UTC)
    assert (found.min_attempt_count, found.max_max_retries) == (2, 5)
    assert (ask.size, ask.after) == (25, ID)
    assert ask.sort is not None
    assert (ask.sort.by, ask.sort.descending) == ("priority", True)


def test_a_wrong_value_is_a_red_chip_and_the_rest_counts() -> None:
    ask = parse(state="dead", priority="9", queue="mail", worker="x", nonsense="1", page="3")
    assert ask.filters.queue == "mail"
    assert ask.filters.priority is None
    assert len(ask.problems) == 4
    for chip in ask.chips:
        assert chip.remove.startswith("?")
    [wrong] = [chip for chip in ask.chips if chip.text.startswith("priority")]
    assert "priority" not in wrong.remove
    assert "queue=mail" in wrong.remove


def test_finished_jobs_are_those_of_a_week_unless_somebody_says_otherwise() -> None:
    for state in ("completed", "cancelled"):
        ask = parse(state=state)
        assert ask.filters.created_after == NOW - timedelta(days=7)
        [chip] = ask.chips
        assert chip.text == "created in the last 7 days"
        assert parse(state=state, last="all").filters.given == {}
        assert "last=all" in chip.remove
    assert parse(state="dead").filters.given == {}
    assert parse(state="completed", q=f"id:{ID}").filters.created_after is None


def test_times_are_named_or_given() -> None:
    ask = parse(state="completed", time="completed", last="1h")
    assert ask.filters.completed_after == NOW - timedelta(hours=1)
    ask = parse({"from": "2026-02-01T10:00", "to": "2026-02-02 10:00"}, state="dead", time="failed")
    assert ask.filters.failed_after == datetime(2026, 2, 1, 10, tzinfo=UTC)
    assert ask.filters.failed_before == datetime(2026, 2, 2, 10, tzinfo=UTC)
    assert problems(parse({"from": "soon"})) == ["must be a date and time"]
    assert len(problems(parse(last="9y", time="never"))) == 2


def test_the_search_box_has_a_grammar() -> None:
    ask = parse(
        q=f'type:known.type queue:mail priority:high error:"timed out" payload.user.id:42 '
        f'payload.user.name:"42" payload.flag:true id:{ID[:13]}'
    )
    found = ask.filters
    assert problems(ask) == []
    assert (found.type, found.queue, found.priority) == ("known.type", "mail", 1)
    assert found.error == "timed out"
    assert found.payload == {"user": {"id": 42, "name": "42"}, "flag": True}
    assert found.id_prefix == ID[:13]
    assert len(ask.chips) == 7 + 1


def test_a_bare_word_is_an_id_or_a_known_type() -> None:
    assert parse(q="0198c0de").filters.id_prefix == "0198c0de"
    assert parse(q="known.type").filters.type == "known.type"
    [problem] = problems(parse(q="whatever"))
    assert "neither an id nor a type" in problem


def test_removing_one_part_of_a_search_leaves_the_others() -> None:
    ask = parse(q='queue:mail error:"a b" 0198c0de')
    [chip] = [chip for chip in ask.chips if "a b" in chip.text]
    assert chip.remove == "?q=queue%3Amail+0198c0de"


def test_a_search_tells_nobody_what_is_hidden_from_them() -> None:
    for q in ("error:secret", "payload.a:1"):
        ask = parse(may_read=False, q=q)
        assert problems(ask) == ["needs the permission to read payloads"]
        assert ask.filters.given == {}
    for q in ("payload.token:hush", "payload.a.token.b:1"):
        assert problems(parse(q=q)) == ["token is masked"]
        assert parse(q=q).filters.given == {}
        assert problems(parse(sees_all=True, q=q)) == []


def test_a_worker_a_schedule_and_a_group_can_be_asked_for() -> None:
    ask = parse(worker=ID, schedule=ID, error_fingerprint="abc", recurring="yes", internal="no")
    assert problems(ask) == []
    assert ask.filters.worker == ask.filters.schedule == UUID(ID)
    assert ask.filters.recurring is True
    assert ask.filters.internal is False


def test_what_depends_on_a_job_can_be_asked_for_in_the_bar_and_in_the_search() -> None:
    for ask in (parse(state="all", depends_on=ID), parse(q=f"depends_on:{ID}")):
        assert ask.filters.depends_on == UUID(ID)
        assert [(chip.text, chip.problem) for chip in ask.chips] == [(f"depends on {ID}", "")]
    assert problems(parse(depends_on="7")) == ["is not an id"]


def test_only_what_has_one_order_can_be_sorted() -> None:
    assert parse(state="active", sort_by="priority").sort is None
    assert problems(parse(sort_by="priority")) == ["needs a state: choose a tab"]
    assert parse(state="dead", sort_by="max_retries").sort is not None
    assert parse(state="dead", sort_by="payload").sort is None


texts = st.text(max_size=40)


@given(
    st.dictionaries(
        st.sampled_from(
            [*asking.PLAIN, "state", "status", "q", "time", "last", "from", "to", "rows"]
        )
        | texts,
        texts
        | st.sampled_from(
            ["1", "true", "dead", "7d", ID, "2026-01-01T00:00:00Z", "\x00", "9" * 30]
        ),
        max_size=8,
    ),
    st.booleans(),
)
def test_no_address_breaks_the_list(params: dict[str, str], may_read: bool) -> None:
    ask = asking.parse(params, reader=Reader(reads=may_read), now=NOW)
    assert ask.size in (25, 50, 100)
    assert set(ask.filters.given) <= set(type(ask.filters).__dataclass_fields__)
    for chip in ask.chips:
        assert chip.text or chip.problem


@given(st.text(max_size=200))
def test_no_search_breaks_the_grammar(text: str) -> None:
    found = search.parse(text, types=frozenset({"known.type"}))
    for term in found.terms:
        assert term.problem or term.name
        found.without(term)


def test_every_state_has_a_tab() -> None:
    covered: set[Any] = {state for tab in TABS.values() for state in tab.states}
    assert covered == set(State)
