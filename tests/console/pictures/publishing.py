"""The few pictures of the documentation, as small WebP files in light and dark: `docs/images`."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.console.pictures.catalogue import pictures

if TYPE_CHECKING:
    from tests.console.pictures.taking import Stage

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "images"
QUALITY = 0.82
# In the browser: it can write WebP, and nothing else here can.
ENCODE = """
async ([png, quality]) => {
  const picture = new Image();
  picture.src = `data:image/png;base64,${png}`;
  await picture.decode();
  const canvas = new OffscreenCanvas(picture.width, picture.height);
  canvas.getContext("2d").drawImage(picture, 0, 0);
  const blob = await canvas.convertToBlob({ type: "image/webp", quality });
  const bytes = new Uint8Array(await blob.arrayBuffer());
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}
"""


@dataclass(frozen=True, kw_only=True)
class Published:
    file: str
    picture: str
    height: int = 900
    themes: tuple[str, ...] = ("light", "dark")


PUBLISHED = (
    Published(file="console-overview", picture="overview", height=986),
    Published(file="console-range-run", picture="range-run-running", height=920),
    Published(file="console-dead-letters", picture="dead-letters", height=760, themes=("light",)),
    Published(file="console-job", picture="job-dead", height=760, themes=("light",)),
)


def publish(stage: Stage) -> list[str]:
    """Take them and write them. Returns what was not as it should be."""
    from tests.console.pictures.taking import Look

    known = {picture.name: picture for picture in pictures()}
    problems: list[str] = []
    for theme in ("light", "dark"):
        look = Look(site="full", theme=theme, width=1440)
        with stage.site(look) as camera:
            for each in PUBLISHED:
                if theme in each.themes:
                    png = camera.see(known[each.picture], height=each.height)
                    _write(stage.browser, png, FOLDER / f"{each.file}-{theme}.webp")
            problems += camera.problems
    return problems


def _write(browser: Any, png: bytes, to: Path) -> None:
    page = browser.new_page()
    try:
        found = page.evaluate(ENCODE, [base64.b64encode(png).decode(), QUALITY])
    finally:
        page.close()
    to.write_bytes(base64.b64decode(found))
    print(f"{to.name}: {to.stat().st_size / 1024:.0f} kB")
