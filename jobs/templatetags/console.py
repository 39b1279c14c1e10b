"""How the console shows things: `{% load console %}`. Everything is escaped, whatever it holds."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import template
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs import clocks
from jobs.console import moments, words
from jobs.skew import ClockSkew

register = template.Library()


@register.simple_tag(takes_context=True)
def address(context: Any, name: str, *arguments: Any) -> str:
    """The address of a page of this site; empty when it has no such page."""
    site = getattr(context.get("request"), "current_app", None)
    try:
        return reverse(f"admin:{name}", args=arguments, current_app=site)
    except NoReverseMatch:
        return ""


@register.simple_tag
def icon(name: str) -> SafeString:
    """A picture beside a word; it says nothing by itself."""
    return format_html(
        '<svg class="icon icon-{}" aria-hidden="true"><use href="#i-{}"></use></svg>', name, name
    )


@register.simple_tag
def state(name: Any) -> SafeString:
    """A job's or run's state: icon, word and colour."""
    word = str(name)
    return format_html(
        '<span class="state state-{}">{}<span>{}</span></span>',
        word,
        icon(words.ICONS.get(word, "dot")),
        word.replace("_", " "),
    )


@register.simple_tag
def moment(at: datetime | None, empty: str = words.NONE) -> SafeString:
    """A time as "5 min ago", with the absolute one in the title; the page's script keeps it right."""
    if at is None:
        return format_html('<span class="none">{}</span>', empty)
    return format_html(
        '<time datetime="{}" title="{}" data-ago>{}</time>',
        at.isoformat(),
        clocks.said(at),
        words.ago(at, timezone.now()),
    )


@register.simple_tag
def instant(at: datetime | None) -> SafeString:
    """A time as it is, to the millisecond."""
    if at is None:
        return format_html('<span class="none">{}</span>', words.NONE)
    local = clocks.local(at)
    text = f"{local:%Y-%m-%d %H:%M:%S}.{local.microsecond // 1000:03d}"
    return format_html(
        '<time datetime="{}" title="{}">{}</time>', at.isoformat(), local.strftime("%Z"), text
    )


@register.simple_tag
def since(begin: datetime, now: datetime | None = None) -> SafeString:
    """How long something has been going on; the page's script counts on."""
    length = ((now or timezone.now()) - begin).total_seconds()
    return format_html(
        '<time datetime="{}" title="since {}" data-since>{}</time>',
        begin.isoformat(),
        clocks.said(begin),
        words.duration(max(0.0, length)),
    )


@register.simple_tag
def none() -> SafeString:
    """Nothing to be said here."""
    return format_html('<span class="none">{}</span>', words.NONE)


@register.simple_tag
def length(seconds: float | None) -> SafeString | str:
    """A length of time, or nothing to be said."""
    return none() if seconds is None else words.duration(seconds)


@register.filter
def here(at: datetime) -> str:
    """A moment of another clock by the reader's; empty if both go alike."""
    return moments.here(at)


@register.filter
def said(at: datetime) -> str:
    """A moment to the second, with its zone."""
    return clocks.said(at)


@register.filter
def stamp(at: datetime) -> str:
    """A moment by the clock in force, which stands beside it."""
    return f"{clocks.local(at):%Y-%m-%d %H:%M:%S}"


@register.filter
def one_line(text: str, most: int = 140) -> str:
    """The text on one line, cut."""
    line = " ".join(str(text)[: most * 2].split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


@register.filter
def duration(seconds: float | None) -> str:
    """A length of time: "340 ms", "12.4 s", "3 min 20 s"."""
    return words.duration(seconds)


@register.filter
def off(skew: ClockSkew) -> str:
    return words.off(skew)


@register.filter
def count(number: Any, more: Any = False) -> str:
    """12,345, or "10,000+" when it is a least number."""
    return words.count(number, is_least=bool(more))


@register.filter
def short(key: Any) -> str:
    """The end of an id: jobs made at about the same time have the same beginning."""
    return str(key)[-8:]


@register.simple_tag
def priority(number: int) -> SafeString:
    word = words.PRIORITIES.get(number, str(number))
    picture = icon(word) if word != "medium" else ""
    return format_html('<span class="priority priority-{}">{}{}</span>', word, picture, word)


@register.filter
def attribute(value: Any, name: str) -> Any:
    """A key of a dictionary whose name is in a variable."""
    return value.get(name) if hasattr(value, "get") else None


@register.filter
def event_words(name: str) -> str:
    """The log's name of an event for people: "retry scheduled"; "log" is a line of the handler."""
    return "handler" if name == "log" else str(name).replace("_", " ")
