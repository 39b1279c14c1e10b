"""Nothing stands in the console's files that no page uses."""

from __future__ import annotations

import re
from pathlib import Path

from jobs.templatetags import console, operating

CHECKOUT = Path(__file__).resolve().parents[2]
CODE = "".join(
    path.read_text(encoding="utf-8")
    for app in ("jobs", "ranges")
    for path in (CHECKOUT / app).rglob("*.py")
)
SCRIPTS = {
    path: path.read_text(encoding="utf-8")
    for path in (CHECKOUT / "static").rglob("*.js")
    if "vendor" not in path.parts
}
TEMPLATES = {
    path: path.read_text(encoding="utf-8")
    for folder in ("templates", "jobs/console/templates")
    for path in (CHECKOUT / folder).rglob("*.html")
}
OVERRIDES = {"change_list_results.html", "login.html"}
"""Django's templates, which it finds by their names."""


def test_what_a_script_exports_another_one_imports() -> None:
    for path, text in SCRIPTS.items():
        for name in re.findall(
            r"^export (?:async )?(?:function|const|let|class) (\w+)", text, re.MULTILINE
        ):
            used = re.compile(rf"\b{name}\b")
            assert any(used.search(other) for at, other in SCRIPTS.items() if at != path), (
                f"{path.name}: {name}"
            )


def test_every_template_is_rendered_or_included() -> None:
    for path in TEMPLATES:
        others = (text for at, text in TEMPLATES.items() if at != path)
        assert path.name in CODE or path.name in OVERRIDES or any(path.name in o for o in others), (
            path
        )


def test_every_tag_and_filter_is_used() -> None:
    pages = "".join(TEMPLATES.values())
    for library in (console.register, operating.register):
        for name in library.tags:
            assert re.search(rf"{{% {name}\b", pages), name
        for name in library.filters:
            assert re.search(rf"\|{name}\b", pages), name
