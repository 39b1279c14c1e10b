"""docs/commands.md has every command and every option."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class
from django.core.management.base import DjangoHelpFormatter

PAGE = Path(__file__).resolve().parents[2] / "docs" / "commands.md"
OUR_APPS = {"jobs", "ranges", "worker"}

COMMANDS = sorted(name for name, app in get_commands().items() if app in OUR_APPS)


def section(command: str) -> str:
    _, found, rest = PAGE.read_text(encoding="utf-8").partition(f"\n## {command}\n")
    assert found, f"docs/commands.md has no section {command!r}"
    return rest.partition("\n## ")[0]


DJANGOS = {"--help"} | {each for each in DjangoHelpFormatter.show_last if each.startswith("--")}


def parsers(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The parser and those of its actions, each under its name."""
    yield "", parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from ((name, found) for _, found in parsers(below))


def options(parser: argparse.ArgumentParser) -> set[str]:
    """Long options, without those that every command of Django's has."""
    return {
        option
        for action in parser._actions
        for option in action.option_strings
        if option.startswith("--") and option not in DJANGOS
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_has_the_command_with_every_action_and_option(name: str) -> None:
    text = section(name)
    written = set(re.findall(r"--[a-z][a-z-]*", text))
    command = load_command_class(get_commands()[name], name)
    wanted: set[str] = set()
    for action, parser in parsers(command.create_parser("manage.py", name)):
        wanted |= options(parser)
        if action:
            assert f"`{action}" in text, f"not written: {action}"
    assert written & wanted == wanted, f"not written: {sorted(wanted - written)}"
    assert written <= wanted, f"no such option: {sorted(written - wanted)}"


def test_the_page_has_no_command_that_is_gone() -> None:
    headings = re.findall(r"^## (\S+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(headings) == COMMANDS


@pytest.mark.parametrize("page", sorted(PAGE.parent.glob("*.md")), ids=lambda page: page.stem)
def test_each_command_that_a_page_gives_exists_with_its_action_and_its_options(page: Path) -> None:
    for name, rest in re.findall(r"manage\.py ([a-z_]+)([^`\n#]*)", page.read_text("utf-8")):
        if name not in COMMANDS:
            continue
        command = load_command_class(get_commands()[name], name)
        found = list(parsers(command.create_parser("manage.py", name)))
        actions = {action for action, _ in found}
        if len(actions) > 1 and (word := re.match(r" ([a-z][a-z-]*)", rest)):
            assert word[1] in actions, f"manage.py {name}{rest}"
        known = DJANGOS.union(*(options(parser) for _, parser in found))
        assert set(re.findall(r"--[a-z][a-z-]*", rest)) <= known, f"manage.py {name}{rest}"
