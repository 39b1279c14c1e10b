"""The page of dead letters, and what is done from it to single ones and to those that are ticked.

What is done to all of a group, or to all that match, is asked on the page of the ledger, and becomes
a bulk operation.
"""

from __future__ import annotations

from typing import Any, cast

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from jobs import permissions
from jobs.admin.deadletters import reading
from jobs.admin.ledger import acting, actions, asking, bars, columns
from jobs.admin.ledger import reading as ledger_reading
from jobs.admin.ledger import showing as ledger
from jobs.admin.ledger.asking import Ask
from jobs.admin.ledger.columns import Column
from jobs.admin.reading import may_read
from jobs.console import kept, moments, sample
from jobs.console.lists import SIZES
from jobs.console.words import count
from jobs.errors import TooBroad

TEMPLATE = "admin/jobs/deadletters/page.html"
CONFIRM = "admin/console/confirm.html"
ALL_GROUPS = "groups"
"""`groups=all` in the address: more of them."""
ONE = "one"
"""A button of one row: `retry:<id>`."""
DO = Column(name="do", label="Actions")


def show(admin: Any, request: HttpRequest) -> HttpResponse:
    if request.method == "POST":
        return _act(admin, request)
    if "ids" in request.GET:
        return ledger.rows_only(admin, request, state="dead")
    if address := moments.pinned(request, "from", "to"):
        return HttpResponseRedirect(address)
    ask = ledger.ask_of(request, without=(ALL_GROUPS,), state="dead")
    all_groups = request.GET.get(ALL_GROUPS) == "all"
    try:
        letters = reading.letters(all_groups=all_groups)
    except TooBroad:
        letters = None
    listed = ledger_reading.read(ask)
    offered = actions.offered(request, ask.tab)
    more = {ALL_GROUPS: "all" if all_groups else None}
    here = f"{request.path}{ask.url(after=ask.after, before=ask.before, **more)}"
    total = _total()
    context = {
        "title": "Dead letters",
        "letters": letters,
        "all_groups": all_groups,
        "total": total,
        "is_none": total == "0" and not listed.rows and not ask.is_narrowed,
        "ask": ask,
        "listed": listed,
        "rows": listed.rows,
        "columns": _columns(request, ask, offered),
        "actions": offered,
        "may_act": bool(offered),
        "may_read": may_read(request),
        "may_retry": request.user.has_perm(permissions.RETRY),
        "may_purge": request.user.has_perm(permissions.PURGE),
        "may_empty": _may_empty(request) and total != "0",
        "may_edit": may_read(request) and request.user.has_perm(permissions.EDIT),
        "all_that_match": ledger.all_that_match(admin, request, ask, offered, here),
        "bar": bars.bar(ask, may_read=may_read(request)),
        "topics": " ".join(asking.topics(ask)),
        "is_first_page": not (ask.after or ask.before or ask.sort),
        "here": here,
        "newest": ask.url(),
        "list_query": ledger.list_query(ask, within="dead-letters/"),
        "sizes": [(size, ask.url(rows=str(size)), size == ask.size) for size in SIZES],
        "export": admin.address("export"),
        "bulk": admin.address("bulk"),
        "list": admin.address("changelist"),
    }
    return cast("HttpResponse", admin.page(request, TEMPLATE, context))


def _act(admin: Any, request: HttpRequest) -> HttpResponse:
    _choose_one(request)
    action = actions.find(request, request.POST.get("action", ""))
    back = ledger.back_of(request, request.path)
    answer = acting.act_on_selection(request, action, back)
    if isinstance(answer, HttpResponse):
        sample.forget()
        kept.forget(reading.NAME, reading.ALL_NAME)
        return answer
    context = {"title": answer.title, "question": answer}
    return cast("HttpResponse", admin.page(request, CONFIRM, context))


def _choose_one(request: HttpRequest) -> None:
    """A button of one row acts as if that row alone were ticked."""
    if ONE not in request.POST:
        return
    name, _, id = request.POST[ONE].partition(":")
    given = request.POST.copy()
    given["action"] = name
    given.setlist(acting.SELECTED, [id])
    request.POST = given  # type: ignore[assignment]


def _may_empty(request: HttpRequest) -> bool:
    """It is a purge, and the right to make one of everything comes besides."""
    return request.user.has_perms((permissions.PURGE, permissions.PURGE_ALL))


def _total() -> str:
    """How many there are, as every page says it; "" while nobody knows."""
    found = sample.current().get("jobs", {})
    if "dlq" not in found:
        return ""
    return f"{'≈ ' if 'dlq' in found['estimated'] else ''}{count(found['dlq'])}"


def _columns(request: HttpRequest, ask: Ask, offered: list[actions.Action]) -> list[Column]:
    found = columns.of_tab(ask.tab.name, may_read=may_read(request), hidden=frozenset({"ran"}))
    return [*found, DO] if offered else found
