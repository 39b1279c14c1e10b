"""A page as a browser without JavaScript has it: where its links lead, and what its forms would send."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin

VOID = frozenset({"area", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"})
UNSEEN = frozenset({"template", "dialog", "script", "style"})
TYPED = frozenset({"button", "submit", "reset", "image", "file"})
PICKED = frozenset({"checkbox", "radio"})


@dataclass
class Form:
    action: str
    method: str
    fields: list[tuple[str, str]] = field(default_factory=list)
    unticked: list[tuple[str, str]] = field(default_factory=list)
    wanted: list[str] = field(default_factory=list)
    """Names of fields that must be filled in and are empty."""
    choices: dict[str, list[str]] = field(default_factory=dict)
    """What the selects offer."""
    buttons: list[tuple[str, str]] = field(default_factory=list)
    """The name and value of each; both may be empty."""

    def data(self, button: tuple[str, str], **typed: str) -> dict[str, list[str]]:
        """What it sends when a button is pressed, with fields filled in."""
        found: dict[str, list[str]] = {}
        for name, value in [*self.fields, button]:
            if name:
                found.setdefault(name, []).append(value)
        return found | {name: [value] for name, value in typed.items()}

    def value(self, name: str) -> str:
        return next((value for each, value in self.fields if each == name), "")


class Page(HTMLParser):
    """`Page(text, url)`: with `links`, absolute and without fragments, and `forms`."""

    def __init__(self, text: str, url: str) -> None:
        super().__init__()
        self.url = url
        self.links: list[str] = []
        self.forms: list[Form] = []
        self.text = ""
        self._open: list[tuple[str, bool]] = []
        self._form: Form | None = None
        self._select: str | None = None
        self._options: list[tuple[str, bool]] = []
        self._option: list[str] | None = None
        self._area: str | None = None
        self._written = ""
        self.feed(text)
        self.close()

    @property
    def _is_unseen(self) -> bool:
        return any(unseen for _, unseen in self._open)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has: dict[str, Any] = {name: value or "" for name, value in attrs}
        hides = tag in UNSEEN or ("hidden" in has and tag != "input")
        if tag not in VOID:
            self._open.append((tag, hides))
        if self._is_unseen or hides or "disabled" in has:
            return
        match tag:
            case "a" if "href" in has:
                self.links.append(urljoin(self.url, has["href"]).partition("#")[0])
            case "form":
                action = urljoin(self.url, has.get("action") or self.url).partition("#")[0]
                self._form = Form(action=action, method=has.get("method", "get").lower())
                self.forms.append(self._form)
            case "select":
                self._select, self._options = has.get("name", ""), []
            case "option":
                self._option = [has["value"]] if "value" in has else []
                self._written = ""
                self._options.append((has.get("value", ""), "selected" in has))
            case "textarea":
                self._area, self._written = has.get("name", ""), ""
            case "input" if self._form:
                self._input(self._form, has)
            case "button" if self._form and has.get("type", "submit") == "submit":
                self._form.buttons.append((has.get("name", ""), has.get("value", "")))

    def _input(self, form: Form, has: dict[str, Any]) -> None:
        kind, name = has.get("type", "text"), has.get("name", "")
        if kind == "submit":
            form.buttons.append((name, has.get("value", "")))
        if kind in TYPED or not name:
            return
        if kind in PICKED:
            pair = (name, has.get("value", "on"))
            (form.fields if "checked" in has else form.unticked).append(pair)
            return
        form.fields.append((name, has.get("value", "")))
        if "required" in has and not has.get("value"):
            form.wanted.append(name)

    def handle_endtag(self, tag: str) -> None:
        if tag == "option" and self._options and self._option == []:
            self._options[-1] = (self._written.strip(), self._options[-1][1])
        if tag == "select" and self._select is not None:
            chosen = [value for value, selected in self._options if selected]
            values = chosen or [value for value, _ in self._options[:1]]
            if self._form and self._select and values:
                self._form.choices[self._select] = [value for value, _ in self._options]
                self._form.fields.append((self._select, values[0]))
            self._select = None
        if tag == "textarea" and self._area is not None:
            if self._form and self._area:
                self._form.fields.append((self._area, self._written.removeprefix("\n")))
            self._area = None
        if tag == "form":
            self._form = None
        while self._open:
            name, _ = self._open.pop()
            if name == tag:
                break

    def handle_data(self, data: str) -> None:
        self._written += data
        if not self._is_unseen:
            self.text += data
