"""docs/operating.md has every setting, every variable of the environment and every check."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from itertools import pairwise
from pathlib import Path

from jobs import conf
from jobs.doctor import CHECKS

CHECKOUT = Path(__file__).resolve().parents[2]
PAGE = CHECKOUT / "docs" / "operating.md"


def table(title: str) -> dict[str, list[str]]:
    """The rows of the first table of a section, by their first cell."""
    _, found, rest = PAGE.read_text(encoding="utf-8").partition(f"\n## {title}\n")
    assert found, f"docs/operating.md has no section {title!r}"
    rows = re.findall(r"^\|(.*)\|$", rest.partition("\n## ")[0], re.MULTILINE)[2:]
    cells = [[cell.strip().replace("`", "") for cell in row.split("|")] for row in rows]
    return {row[0]: row[1:] for row in cells}


def test_the_page_has_every_setting_with_its_default_and_its_least_value() -> None:
    written = table("Settings")
    meanings = _meanings()
    expected = {}
    for field in fields(conf.Settings):
        least = conf._MINIMUM.get(field.name)
        expected[f"COPPICE_{field.name.upper()}"] = [
            _shown(field.default),
            "" if least is None else _shown(least),
            meanings[field.name],
        ]
    assert written == expected


def test_the_page_has_every_variable_that_the_environment_is_asked_for() -> None:
    assert set(table("Environment")) == _variables(CHECKOUT / "config" / "environment.py")


def test_the_page_has_every_check_of_the_doctor() -> None:
    assert list(table("Doctor")) == list(CHECKS)


def test_the_page_has_every_exit_code_of_the_worker() -> None:
    text = PAGE.read_text(encoding="utf-8")
    codes = re.findall(r"^\| ([0-9]) \|", text.partition("| Exit code |")[2], re.MULTILINE)
    from worker import supervisor

    known = (supervisor.DRAINED, supervisor.FORCED, supervisor.BAD_SETTINGS, supervisor.NO_DATABASE)
    assert [int(code) for code in codes] == list(known)


def _shown(value: object) -> str:
    if isinstance(value, str):
        return value or "empty"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _meanings() -> dict[str, str]:
    """The text below each field of `Settings`."""
    tree = ast.parse((CHECKOUT / "jobs" / "conf.py").read_text(encoding="utf-8"))
    body = next(
        node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Settings"
    ).body
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def _variables(path: Path) -> set[str]:
    """Names like DATABASE_URL that are the first argument of some call on `self`."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            name = node.args[0].value
            if ast.unparse(node.func).startswith("self.") and re.fullmatch(r"[A-Z_]+", str(name)):
                names.add(str(name))
    return names
