"""What the documents name exists: settings, commands, targets of make, modules and what is in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class

from jobs import conf
from tests.database.test_docs_commands import parsers

CHECKOUT = Path(__file__).resolve().parents[2]
TEXTS = {
    str(page.relative_to(CHECKOUT)): page.read_text(encoding="utf-8")
    for page in (
        *(
            CHECKOUT / name
            for name in ("README.md", "CHANGELOG.md", "compose.yaml", ".env.example")
        ),
        *sorted(CHECKOUT.glob("docs/**/*.md")),
    )
}
COMMAND = re.compile(r"manage\.py ([a-z_]+)((?: [a-z][a-z-]+)*)")
TARGET = re.compile(r"(?:`|^ {4})make ([a-z-]+)", re.MULTILINE)
DOTTED = re.compile(r"\b(?:config|jobs|ranges|worker)(?:\.[A-Za-z_]\w+){2,}")


def named(pattern: re.Pattern[str]) -> Iterator[tuple[str, re.Match[str]]]:
    for page, text in TEXTS.items():
        for found in pattern.finditer(text):
            yield page, found


def test_every_setting_that_is_named_exists() -> None:
    known = {f"COPPICE_{field.name.upper()}" for field in fields(conf.Settings)}
    for page, found in named(re.compile(r"COPPICE_[A-Z_]+[A-Z]")):
        assert found[0] in known, f"{page}: {found[0]}"


def test_every_command_and_action_that_is_named_exists() -> None:
    commands = get_commands()
    actions: dict[str, set[str]] = {}
    for page, found in named(COMMAND):
        name, words = found[1], found[2].split()
        assert name in commands, f"{page}: {found[0]}"
        if name not in actions:
            parser = load_command_class(commands[name], name).create_parser("manage.py", name)
            actions[name] = {each for each, _ in parsers(parser) if each}
        if actions[name] and words:
            assert words[0] in actions[name], f"{page}: {found[0]}"


def test_every_target_of_make_that_is_named_exists() -> None:
    targets = set(
        re.findall(r"^([a-z-]+):.*## ", (CHECKOUT / "Makefile").read_text(), re.MULTILINE)
    )
    for page, found in named(TARGET):
        assert found[1] in targets, f"{page}: {found[0]}"


@pytest.mark.parametrize("name", sorted({found[0] for _, found in named(DOTTED)}))
def test_every_module_that_is_named_has_what_is_said_of_it(name: str) -> None:
    parts = name.split(".")
    found = import_module(parts[0])
    for depth, part in enumerate(parts[1:], start=2):
        if not hasattr(found, part):
            import_module(".".join(parts[:depth]))
        found = getattr(found, part)
