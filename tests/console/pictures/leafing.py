"""A page to leaf through the pictures: one row for each page, the same look below the same look."""

from __future__ import annotations

import html
import re
from pathlib import Path

INDEX = "index.html"
FILE = re.compile(r"(?P<name>.+)-(?P<site>full|empty)-(?P<theme>light|dark)-(?P<width>\d+)\.png\Z")
STYLE = """
:root { color-scheme: light dark; font: 14px/1.4 sans-serif; }
body { margin: 1rem; }
nav { columns: 12rem; margin-bottom: 2rem; }
nav a { display: block; }
h2 { margin: 2rem 0 0.5rem; font-size: 1rem; }
div { display: flex; gap: 0.75rem; overflow-x: auto; align-items: flex-start; }
figure { margin: 0; flex: none; }
img { display: block; height: 24rem; width: auto; max-width: 60rem; object-fit: contain;
  object-position: top; border: 1px solid #8888; }
"""


def write(folder: Path) -> int:
    """Of all pictures that lie there. Returns how many."""
    rows: dict[str, list[tuple[tuple[bool, int, bool], str]]] = {}
    for path in folder.glob("*.png"):
        if found := FILE.match(path.name):
            order = (found["site"] == "empty", -int(found["width"]), found["theme"] == "dark")
            rows.setdefault(found["name"], []).append((order, path.name))
    parts = [
        "<!DOCTYPE html><meta charset=utf-8><title>Pictures of the console</title>",
        f"<style>{STYLE}</style><h1>Pictures of the console</h1><nav>",
        *(f"<a href='#{html.escape(name)}'>{html.escape(name)}</a>" for name in sorted(rows)),
        "</nav>",
    ]
    for name, shots in sorted(rows.items()):
        parts.append(f"<h2 id='{html.escape(name)}'>{html.escape(name)}</h2><div>")
        parts += [_figure(file, name) for _, file in sorted(shots)]
        parts.append("</div>")
    (folder / INDEX).write_text("\n".join(parts), encoding="utf-8")
    return sum(len(shots) for shots in rows.values())


def _figure(file: str, name: str) -> str:
    address = html.escape(file)
    words = html.escape(file.removeprefix(f"{name}-").removesuffix(".png").replace("-", ", "))
    return (
        f"<figure><a href='{address}'><img src='{address}' alt='' loading=lazy></a>"
        f"<figcaption>{words}</figcaption></figure>"
    )
