"""The page of the list, and the parts of it that its script asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme

from jobs import permissions
from jobs.admin.ledger import acting, actions, asking, bars, columns, exporting, reading
from jobs.admin.ledger.asking import Ask
from jobs.admin.ledger.tabs import TABS, Tab
from jobs.admin.reading import may_read
from jobs.bulk import permission_of as bulk_permission
from jobs.console import confirming, moments, preferences
from jobs.console.lists import SIZES
from jobs.errors import CoppiceError, TooBroad
from jobs.masking import reader

TEMPLATE = "admin/jobs/job/ledger.html"
ROWS_TEMPLATE = "admin/jobs/job/rows_only.html"
CONFIRM = "admin/console/confirm.html"
MOST_ROWS = 200


def show(admin: Any, request: HttpRequest) -> HttpResponse:
    if request.method == "POST":
        return _post(admin, request)
    if "ids" in request.GET:
        return rows_only(admin, request)
    whole = _whole_id(request)
    if whole is not None:
        return HttpResponseRedirect(admin.address("change", whole))
    if address := moments.pinned(request, "from", "to"):
        return HttpResponseRedirect(address)
    return _page(admin, request, ask_of(request))


def export(request: HttpRequest) -> HttpResponse:
    ask = ask_of(request, without=("format",))
    ask.after = ask.before = ""
    made = exporting.Export(
        ask=ask,
        format="json" if request.GET.get("format") == "json" else "csv",
        reader=reader(request.user),
    )
    return cast("HttpResponse", made.file().response(request))


def bulk(admin: Any, request: HttpRequest) -> HttpResponse:
    """Ask about all that match, then hand it to a worker."""
    name = request.POST.get("action") or request.GET.get("action", "")
    action = actions.find(request, name)
    ask = ask_of(request, without=("action", "next"))
    back = _next(request) or f"{admin.address('changelist')}{ask.url()}"
    if not request.user.has_perm(bulk_permission(action.name, ask.whole)):
        raise PermissionDenied
    if ask.problems:
        messages.error(request, "Nothing was changed. Mend the filter in red first.")
        return HttpResponseRedirect(back)
    try:
        if request.method == "POST":
            question = acting.about_all(request, action, ask.whole, back)
            if question.problem or (question.type and not confirming.typed(request, question.type)):
                return _confirm(admin, request, question)
            operation = acting.begin_bulk(request, action, ask.whole)
        else:
            return _confirm(admin, request, acting.about_all(request, action, ask.whole, back))
    except TooBroad:
        messages.error(request, "Nothing was changed. That search takes too long; narrow it first.")
        return HttpResponseRedirect(back)
    except CoppiceError as error:
        messages.error(request, f"Nothing was changed. {error}")
        return HttpResponseRedirect(back)
    messages.success(request, acting.asked(action, operation))
    return HttpResponseRedirect(_bulk_page(admin, operation.id) or back)


def choose_columns(admin: Any, request: HttpRequest) -> HttpResponse:
    """Keep which columns this person does not want."""
    tab = TABS.get(request.POST.get("tab", ""))
    if request.method == "POST" and tab is not None:
        offered = {each.name for each in columns.choices(tab.name, may_read=may_read(request))}
        wanted = set(request.POST.getlist("shown"))
        hidden = preferences.hidden_columns(request, offered=offered, wanted=wanted)
        preferences.save(request.user, hidden_columns=hidden)
    return HttpResponseRedirect(back_of(request, admin.address("changelist")))


def _post(admin: Any, request: HttpRequest) -> HttpResponse:
    action = actions.find(request, request.POST.get("action", ""))
    back = back_of(request, request.path)
    answer = acting.act_on_selection(request, action, back)
    return answer if isinstance(answer, HttpResponse) else _confirm(admin, request, answer)


def _confirm(admin: Any, request: HttpRequest, question: Any) -> HttpResponse:
    context = {"title": question.title, "question": question}
    return cast("HttpResponse", admin.page(request, CONFIRM, context))


def _whole_id(request: HttpRequest) -> UUID | None:
    """The id of a job if that is all that was searched for: its page says more, also if it is gone."""
    if set(request.GET) != {"q"}:
        return None
    text = request.GET["q"].strip().removeprefix("id:")
    try:
        return UUID(text) if len(text) in (32, 36) else None
    except ValueError:
        return None


def rows_only(admin: Any, request: HttpRequest, state: str = "") -> HttpResponse:
    """The rows of some ids as the tab shows them: what a page patches its own with."""
    ids = []
    for text in request.GET["ids"].split(",")[:MOST_ROWS]:
        try:
            ids.append(UUID(text))
        except ValueError:
            continue
    ask = ask_of(request, without=("ids",), state=state)
    context = {
        "rows": reading.rows_of(ids),
        "columns": _columns(request, ask.tab),
        "may_act": bool(actions.offered(request, ask.tab)),
        "list_query": list_query(ask),
    }
    return cast("HttpResponse", admin.page(request, ROWS_TEMPLATE, context))


def _page(admin: Any, request: HttpRequest, ask: Ask) -> HttpResponse:
    listed = reading.read(ask)
    offered = actions.offered(request, ask.tab)
    here = f"{request.path}{ask.url(after=ask.after, before=ask.before)}"
    context = {
        "title": "Jobs",
        "ask": ask,
        "listed": listed,
        "rows": listed.rows,
        "columns": _columns(request, ask.tab),
        "choices": columns.choices(ask.tab.name, may_read=may_read(request)),
        "hidden_columns": _hidden(request),
        "tabs": bars.tabs(ask, listed.total),
        "actions": offered,
        "may_act": bool(offered),
        "all_that_match": all_that_match(admin, request, ask, offered, here),
        "bar": bars.bar(ask, may_read=may_read(request)),
        "topics": " ".join(asking.topics(ask)),
        "is_first_page": not (ask.after or ask.before or ask.sort),
        "here": here,
        "newest": ask.url(),
        "list_query": list_query(ask),
        "sizes": [(size, ask.url(rows=str(size)), size == ask.size) for size in SIZES],
        "export": admin.address("export"),
        "columns_url": admin.address("columns"),
        "add_url": _add_page(admin, request),
        "wider": ask.url(last="30d", time=None),
    }
    return cast("HttpResponse", admin.page(request, TEMPLATE, context))


def list_query(ask: Ask, within: str = "") -> str:
    """What the links to jobs carry, so that their pages lead back to this list; `within` is the
    list's own address below this one.
    """
    query = ask.url(after=ask.after, before=ask.before)
    where = f"{within}{query}" if within else query.removeprefix("?")
    return f"?{urlencode({'list': where})}" if where else ""


def ask_of(request: HttpRequest, without: tuple[str, ...] = (), state: str = "") -> Ask:
    """What the address asks for; of this state, whatever it says, if one is given."""
    given: Mapping[str, str] = {
        name: str(value) for name, value in request.GET.items() if name not in without
    }
    if state:
        given = {**{name: given[name] for name in given if name != "status"}, "state": state}
    return asking.parse(
        given,
        reader=reader(request.user),
        now=timezone.now(),
        size=preferences.of(request).rows or asking.SIZE,
    )


def _columns(request: HttpRequest, tab: Tab) -> list[columns.Column]:
    return columns.of_tab(tab.name, may_read=may_read(request), hidden=_hidden(request))


def _hidden(request: HttpRequest) -> frozenset[str]:
    return frozenset(preferences.of(request).hidden_columns)


def all_that_match(
    admin: Any, request: HttpRequest, ask: Ask, offered: list[actions.Action], back: str
) -> list[tuple[actions.Action, str]]:
    """The actions on all that match that this person may take, each with the page that asks first."""
    place = admin.address("bulk")
    return [
        (action, f"{place}{ask.url(action=action.name, next=back)}")
        for action in offered
        if not ask.problems and request.user.has_perm(bulk_permission(action.name, ask.whole))
    ]


def _next(request: HttpRequest) -> str:
    """The page of ours that the address says one came from; else empty."""
    wanted = request.GET.get("next", "")
    hosts = {request.get_host()}
    is_ours = wanted.startswith("/") and url_has_allowed_host_and_scheme(wanted, hosts)
    return wanted if is_ours else ""


def back_of(request: HttpRequest, place: str) -> str:
    """The list one came from, with its filters and its place."""
    wanted = request.POST.get("next", "")
    hosts = {request.get_host()}
    if wanted.startswith(place) and url_has_allowed_host_and_scheme(wanted, hosts):
        return wanted
    return request.get_full_path() if request.path == place else place


def _bulk_page(admin: Any, id: UUID) -> str:
    return _address(admin, "jobs_bulkoperation_change", id)


def _add_page(admin: Any, request: HttpRequest) -> str:
    may = request.user.has_perm(permissions.CREATE)
    return _address(admin, "jobs_job_add") if may else ""


def _address(admin: Any, name: str, *arguments: Any) -> str:
    """Empty when the site has no such page."""
    try:
        return reverse(f"admin:{name}", args=arguments, current_app=admin.admin_site.name)
    except NoReverseMatch:
        return ""
