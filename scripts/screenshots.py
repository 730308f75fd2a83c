"""The pictures of the console in docs/pictures: made from the demo, in the Chromium of the browser suite.

    .venv/bin/python scripts/screenshots.py [NAME …]

A gateway of the demo plays three rounds of its scripted agents, in this process, with a ledger that is thrown
away. Nothing leaves this machine. Pillow, which comes with matplotlib, reduces each picture to a palette.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from PIL import Image

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.chromium import Demo, chromium, demo_gateway, opened  # noqa: E402 - of the tests, which have it

PICTURES: Final = ROOT / "docs" / "pictures"
ROUNDS: Final = 3
PAUSE: Final = 0.8  # seconds between the requests of the last round
COLOURS: Final = 192
#: Room of the pictures in pixels.
WIDTH: Final = 1_180


class Shot(NamedTuple):
    """One picture."""

    path: Callable[[Demo], str]
    height: int
    scheme: str = "light"


SHOTS: Final = {
    "now": Shot(lambda _: "/console", 640),
    "decision": Shot(lambda demo: f"/console/decisions/{demo.proof}", 900),
    "session": Shot(lambda _: f"/console/sessions/demo-stuck-agent-{ROUNDS}", 760),
    "savings": Shot(lambda _: "/console/savings", 900),
    "label": Shot(lambda _: "/console/label", 300, "dark"),
}


def main() -> None:
    """Make the pictures that are named, or all."""
    wanted = sys.argv[1:] or list(SHOTS)
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, demo_gateway(Path(folder)) as demo, chromium() as browser:
        for number in range(1, ROUNDS + 1):
            demo.play_round(str(number), pause=PAUSE if number == ROUNDS else 0.0)
        for name in wanted:
            shot = SHOTS[name]
            viewport = {"width": WIDTH, "height": shot.height}
            with opened(browser, demo.base, viewport=viewport, color_scheme=shot.scheme) as watched:
                page = watched.go(shot.path(demo))
                if name == "now":
                    page.get_by_text("live", exact=True).wait_for()
                if (added := page.get_by_text("added by guidance")).count():
                    added.first.click()
                raw = Path(folder) / f"{name}.png"
                page.wait_for_timeout(1_500)  # the rows that arrived have lost their highlight
                page.screenshot(path=raw)
            file = PICTURES / f"{name}.png"
            Image.open(raw).convert("RGB").quantize(
                COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
            ).save(file, optimize=True)
            print(f"{file.relative_to(ROOT)}: {file.stat().st_size / 1024:.0f} kB")


if __name__ == "__main__":
    main()
