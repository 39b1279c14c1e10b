"""What an address of the list asks for. A wrong value is one red chip; the rest still counts.

The address is the filter: it can be shared, and everything on the page is a link to another one.
The names are those of the API's list, with `q` (the search box), `time` with `last` or `from` and
`to`, and `rows` besides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.utils import timezone
from django.utils.dateparse import parse_datetime

from jobs import clocks, registry
from jobs.admin.ledger import search
from jobs.admin.ledger.tabs import ACTIVE, OF_STATUS, TABS, Tab
from jobs.console.lists import AFTER, BEFORE, ROWS, SIZES
from jobs.console.words import PRIORITIES
from jobs.errors import InvalidInput
from jobs.filtering import NUMBERS, TIMES, Filters
from jobs.masking import Reader
from jobs.states import State, Status
from jobs.walking import SORTABLE, Sort

SIZE = 50
"""Rows of a page, unless somebody says otherwise."""
WINDOW = "7d"
LAST = {
    "15m": (timedelta(minutes=15), "15 minutes"),
    "1h": (timedelta(hours=1), "hour"),
    "24h": (timedelta(hours=24), "24 hours"),
    "7d": (timedelta(days=7), "7 days"),
    "30d": (timedelta(days=30), "30 days"),
}
ALL_TIMES = "all"
TIME_WORDS = {
    "created": "created",
    "scheduled": "scheduled",
    "started": "started",
    "completed": "completed",
    "failed": "died",
    "cancelled": "cancelled",
    "next_retry": "next retry",
    "updated": "changed",
}


NUMERIC = ("priority", *(f"{side}_{name}" for name in NUMBERS for side in ("min", "max")))
TRUTHS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
PLAIN = (
    "type",
    "queue",
    "priority",
    "worker",
    "schedule",
    "recurring",
    "depends_on",
    "internal",
    "recur_interval",
    "error_fingerprint",
    *(name for name in NUMERIC if name != "priority"),
    *(f"{name}_{side}" for name in TIMES for side in ("after", "before")),
)
PRIVATE = ("error", "payload")
"""Filters that tell what is in an error or a payload."""


@dataclass(frozen=True, kw_only=True)
class Chip:
    text: str
    remove: str
    """The query string without it."""
    problem: str = ""


@dataclass(kw_only=True)
class Ask:
    tab: Tab
    filters: Filters
    """Without status and state, which the tab says."""
    params: dict[str, str]
    """The address without the place in the list."""
    chips: list[Chip] = field(default_factory=list)
    after: str = ""
    before: str = ""
    size: int = SIZE
    sort: Sort | None = None
    window: str = ""
    """The time that the list is limited to because nobody said anything: a key of LAST."""

    def url(self, **changes: str | None) -> str:
        """The query string of this list with other values; None takes one away."""
        return query_of({**self.params, **changes})

    @property
    def wholes(self) -> list[Filters]:
        """Each list that the tab shows together."""
        narrowed = self.filters.status
        return [
            replace(self.filters, **ask)
            for ask in self.tab.asks
            if narrowed is None or ask.get("status") is narrowed
        ]

    @property
    def whole(self) -> Filters:
        """One filter for all that the list shows, for an action that chooses the statuses itself."""
        return self.wholes[0] if len(self.wholes) == 1 else self.filters

    @property
    def is_narrowed(self) -> bool:
        return bool(self.filters.given)

    @property
    def problems(self) -> list[Chip]:
        return [chip for chip in self.chips if chip.problem]


def query_of(params: Mapping[str, str | None]) -> str:
    return "?" + urlencode({name: value for name, value in params.items() if value})


def parse(given: Mapping[str, str], *, reader: Reader, now: datetime, size: int = SIZE) -> Ask:
    """Read an address. Never raises; what was not understood is a chip with a problem."""
    params = {name: value.strip() for name, value in given.items() if value.strip()}
    after, before = params.pop(AFTER, ""), params.pop(BEFORE, "")
    params.pop("e", None)
    if "cursor" in params:
        after = params.pop("cursor")
    ask = Ask(tab=_tab(params), filters=Filters(), params=params, after=after, before=before)
    reading = _Reading(ask=ask, reader=reader)
    ask.size = _size(params, size)
    reading.plain()
    reading.search_box()
    reading.times(now)
    reading.order()
    reading.rest()
    try:
        ask.filters = Filters(**reading.values)
    except TypeError:  # pragma: no cover - every name was read by Filters itself
        ask.filters = Filters()
    return ask


def _tab(params: dict[str, str]) -> Tab:
    name = params.get("state", "")
    if not name and (status := params.get("status", "")) in OF_STATUS:
        name = OF_STATUS[Status(status)]
    if name == State.CANCELLING:
        name = "running"
    if not name:
        name = "all" if params.get("q") else "active"
    return TABS.get(name, ACTIVE)


def _size(params: dict[str, str], usual: int) -> int:
    asked = params.get(ROWS) or params.get("limit", "")
    wanted = int(asked) if asked.isdecimal() and len(asked) < 6 else usual
    return wanted if wanted in SIZES else min(SIZES, key=lambda size: abs(size - wanted))


@dataclass(kw_only=True)
class _Reading:
    ask: Ask
    reader: Reader
    values: dict[str, Any] = field(default_factory=dict)
    known: set[str] = field(default_factory=lambda: {"state", "status", ROWS, "limit"})

    def plain(self) -> None:
        params = self.ask.params
        state = params.get("state")
        if state is not None and state not in {*TABS, State.CANCELLING}:
            self._chip("state", f"state {state}", "is no state")
        status = params.get("status")
        if status is not None and status not in OF_STATUS:
            self._chip("status", f"status {status}", "is no status")
        elif status == Status.PENDING and self.ask.tab is ACTIVE:
            self._take("status", Status.PENDING)
        for name in PLAIN:
            if name in params:
                self.known.add(name)
                self._take(name, _converted(name, params[name]))

    def search_box(self) -> None:
        text = self.ask.params.get("q", "")
        self.known.add("q")
        found = search.parse(text, types=frozenset(registry.types()))
        for term in found.terms:
            problem = term.problem or self._refusal(term) or self._read(term.name, term.value)
            shown = term.text if problem or not term.name else _said(term.name, self.values)
            remove = query_of({**self.ask.params, "q": found.without(term)})
            self.ask.chips.append(Chip(text=shown, remove=remove, problem=problem))

    def times(self, now: datetime) -> None:
        params = self.ask.params
        self.known |= {"time", "last", "from", "to"}
        column = params.get("time", "created")
        if column not in TIMES:
            self._chip("time", f"time {column}", f"must be one of {', '.join(TIMES)}")
            column = "created"
        last = params.get("last", "")
        if last and last != ALL_TIMES and last not in LAST:
            self._chip("last", f"last {last}", f"must be one of {', '.join(LAST)} or all")
            last = ""
        if last in LAST:
            self._window(column, last, now)
        for name, side in (("from", "after"), ("to", "before")):
            if name in params:
                self._moment(name, f"{column}_{side}", params[name])
        says_when = last or any(name.endswith(("_after", "_before")) for name in self.values)
        is_one = "id_prefix" in self.values
        if self.ask.tab.is_finished and not says_when and not is_one:
            self.ask.window = WINDOW
            self._window(column, WINDOW, now)

    def order(self) -> None:
        params = self.ask.params
        self.known |= {"sort_by", "sort_order"}
        by = params.get("sort_by", "").replace("max_retries", "max_attempts")
        if not by:
            return
        if by not in SORTABLE or len(self.ask.tab.asks) > 1:
            why = f"must be one of {', '.join(SORTABLE)}"
            if by in SORTABLE:
                why = "needs a state: choose a tab"
            self._chip("sort_by", f"sorted by {by}", why)
            return
        down = params.get("sort_order", "asc").lower() == "desc"
        self.ask.sort = Sort(by=by, descending=down)
        word = f"sorted by {by.replace('_', ' ')}, {'highest' if down else 'lowest'} first"
        remove = query_of({**params, "sort_by": None, "sort_order": None})
        self.ask.chips.append(Chip(text=word, remove=remove))

    def rest(self) -> None:
        if "page" in self.ask.params:
            self.known.add("page")
            if self.ask.params.pop("page") not in ("", "1"):
                why = "lists go on with Older"
                self.ask.chips.append(Chip(text="page", remove=self.ask.url(), problem=why))
        for name in list(self.ask.params):
            if name not in self.known:
                self._chip(name, f"{name[:60]} {self.ask.params[name][:60]}", "is no filter")

    # Parts

    def _refusal(self, term: search.Term) -> str:
        """Why this person may not search so: an answer would tell what is hidden from them."""
        if term.name not in PRIVATE:
            return ""
        return self.reader.refusal(**{term.name: term.value})

    def _take(self, name: str, value: Any) -> None:
        problem = self._read(name, value)
        raw = self.ask.params.get(name, "")
        text = _said(name, self.values) if not problem else f"{name.replace('_', ' ')} {raw[:60]}"
        self._chip(name, text, problem)

    def _read(self, name: str, value: Any) -> str:
        """Keep the value of a filter; or say what is wrong with it."""
        if name == "payload" and name in self.values:
            value = search.merged(self.values[name], value)
        try:
            self.values |= Filters.from_json({name: value}).given
        except InvalidInput as error:
            return error.message
        return ""

    def _window(self, column: str, last: str, now: datetime) -> None:
        length, words = LAST[last]
        self.values[f"{column}_after"] = now - length
        changes = {"last": ALL_TIMES if self.ask.tab.is_finished else None}
        text = f"{TIME_WORDS[column]} in the last {words}"
        self.ask.chips.append(
            Chip(text=text, remove=query_of({**self.ask.params, **changes, "time": None}))
        )

    def _moment(self, name: str, target: str, text: str) -> None:
        try:
            at = parse_datetime(text.replace(" ", "T", 1))
        except ValueError:
            at = None
        if at is None:
            self._chip(name, f"{name} {text[:40]}", "must be a date and time")
            return
        if at.tzinfo is None:
            at = at.replace(tzinfo=timezone.get_current_timezone())
        problem = self._read(target, at)
        self._chip(name, _said(target, self.values) if not problem else f"{name} {text}", problem)

    def _chip(self, name: str, text: str, problem: str = "") -> None:
        self.known.add(name)
        remove = query_of({**self.ask.params, name: None})
        self.ask.chips.append(Chip(text=text, remove=remove, problem=problem))


def _converted(name: str, text: str) -> Any:
    """The text of the address as the filter wants it; what does not fit is left for it to refuse."""
    if name == "priority" and text.lower() in search.PRIORITIES:
        return search.PRIORITIES[text.lower()]
    if name in ("recurring", "internal"):
        return TRUTHS.get(text.lower(), text)
    digits = text.removeprefix("-").isdecimal() and len(text) < 18
    if digits and (name in NUMERIC or name.endswith(("_after", "_before"))):
        return int(text)
    return text


def _said(name: str, values: Mapping[str, Any]) -> str:
    value = values[name]
    if name == "priority":
        return f"priority {PRIORITIES.get(value, value)}"
    if isinstance(value, datetime):
        column, _, side = name.rpartition("_")
        word = "since" if side == "after" else "before"
        return f"{TIME_WORDS[column]} {word} {clocks.said(value)}"
    return Filters(**{name: value}).in_words()


def moment_for_input(text: str) -> str:
    """A moment of the address as a date-and-time field shows it."""
    try:
        at = parse_datetime(text)
        if at is not None and at.tzinfo is not None:
            at = clocks.local(at)
    except (ValueError, OverflowError):
        return ""
    if at is None:
        return ""
    return at.strftime("%Y-%m-%dT%H:%M")


def topics(ask: Ask) -> Iterable[str]:
    """What the page listens to."""
    given = {
        name: value
        for name in ("type", "queue")
        if (value := getattr(ask.filters, name)) is not None
    }
    if ask.tab.states:
        given["state"] = ",".join(ask.tab.states)
    yield f"jobs?{urlencode(given, safe=',')}" if given else "jobs"
