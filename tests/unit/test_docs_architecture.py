"""Links of the documents lead somewhere, files that they name exist, and layers are as drawn."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
# How an app is put together, or what stands beside the product.
NOT_DRAWN = {"apps", "checks", "handlers", "migrations", "pytest_plugin", "seeding", "seeds"}
PAGES = [CHECKOUT / "README.md", CHECKOUT / "CHANGELOG.md", *sorted(CHECKOUT.glob("docs/**/*.md"))]
FOLDERS = "|".join(
    ("benchmarks", "config", "docs", "examples", "jobs", "ranges", "tests", "worker")
)
LINK = re.compile(r"\]\(([^)\s]+)\)")
FILE = re.compile(rf"`((?:{FOLDERS})/[a-z_/]+\.(?:py|md|mjs))`")
ALONE = re.compile(r"`((?:[a-z_]+/)*[a-z_]+\.py)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_every_link_of_the_page_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(_prose(page)):
        if target.startswith("http"):
            continue
        name, _, anchor = target.partition("#")
        place = (page.parent / name).resolve() if name else page
        assert place.exists(), target
        if anchor:
            assert anchor in set(_anchors(place)), target


def test_every_page_is_reached_from_the_readme() -> None:
    reached, waiting = set(), [CHECKOUT / "README.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        targets = (target.partition("#")[0] for target in LINK.findall(_prose(page)))
        leads = {(page.parent / target).resolve() for target in targets if target.endswith(".md")}
        waiting += leads - reached
    assert reached >= set(CHECKOUT.glob("docs/**/*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_every_file_that_the_page_names_exists(page: Path) -> None:
    for name in FILE.findall(page.read_text(encoding="utf-8")):
        assert (CHECKOUT / name).exists(), name


def test_files_that_the_architecture_names_without_a_folder_are_found_in_one() -> None:
    text = (CHECKOUT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = ALONE.findall(text)
    assert named
    for name in named:
        places = ("", "jobs", "worker")
        assert any((CHECKOUT / place / name).exists() for place in places), name


def test_modules_of_jobs_import_only_from_their_own_line_and_those_above() -> None:
    layers = _layers()
    graph = grimp.build_graph("jobs", exclude_type_checking_imports=True)
    for module in sorted(graph.modules):
        here = _part(module)
        if here is None:
            continue
        for other in graph.find_modules_directly_imported_by(module):
            there = _part(other)
            if there is not None and there != here:
                assert layers[there] <= layers[here], f"{module} imports {other}"


def _part(module: str) -> str | None:
    """The first name below `jobs`, if the page draws it."""
    parts = module.split(".")
    if len(parts) == 1 or parts[1] in NOT_DRAWN:
        return None
    return parts[1]


def _layers() -> dict[str, int]:
    text = (CHECKOUT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawing = text.partition("Inside `jobs/`")[2].split("```")[1]
    lines = [line for line in drawing.splitlines() if line.strip()]
    return {
        name: number
        for number, line in enumerate(lines)
        for name in re.split(r" {3,}", line.strip())[0].split()
    }


def _prose(page: Path) -> str:
    """The text without its blocks of code."""
    return re.sub(
        r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )


def _anchors(page: Path) -> Iterator[str]:
    for heading in re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE):
        words = re.sub(r"[^\w\- ]", "", heading.lower())
        yield words.strip().replace(" ", "-")
