"""The pictures of `make screenshots`: no page of the console is left out."""

from __future__ import annotations

from pathlib import Path

from tests.console.pictures import leafing
from tests.console.pictures.catalogue import NOT_PAGES, pictures
from tests.console.pictures.publishing import FOLDER, PUBLISHED
from tests.security.routes import routes


def console_routes() -> set[str]:
    return {route.pattern for route in routes() if route.pattern.startswith("admin/")}


def test_every_page_of_the_console_has_a_picture_or_a_reason_for_none() -> None:
    pictured = {picture.route for picture in pictures()}
    left_out = console_routes() - pictured - set(NOT_PAGES)
    assert not left_out, "add them to tests/console/pictures/catalogue.py"


def test_no_picture_is_of_a_page_that_is_gone() -> None:
    every = {route.pattern for route in routes()}
    assert {picture.route for picture in pictures()} <= every
    assert set(NOT_PAGES) <= every


def test_each_picture_has_a_name_of_its_own() -> None:
    names = [picture.name for picture in pictures()]
    assert len(set(names)) == len(names)


def test_the_index_leads_to_every_picture(tmp_path: Path) -> None:
    for file in ("jobs-dead-full-dark-390.png", "jobs-full-light-1440.png", "of-another.png"):
        (tmp_path / file).touch()
    assert leafing.write(tmp_path) == 2
    text = (tmp_path / leafing.INDEX).read_text()
    assert "href='jobs-dead-full-dark-390.png'" in text
    assert "href='jobs-full-light-1440.png'" in text
    assert "of-another" not in text


def test_the_pictures_of_the_documentation_are_those_that_the_command_makes_and_are_small() -> None:
    made = {f"{each.file}-{theme}.webp" for each in PUBLISHED for theme in each.themes}
    there = {path.name: path for path in FOLDER.iterdir()}
    assert set(there) == made
    docs = FOLDER.parent
    shown = "".join(path.read_text() for path in (docs.parent / "README.md", *docs.glob("*.md")))
    for name, path in there.items():
        assert f"images/{name}" in shown
        assert path.stat().st_size < 150_000


def test_each_published_picture_is_one_of_the_pages() -> None:
    assert {each.picture for each in PUBLISHED} <= {picture.name for picture in pictures()}
