"""The pictures in docs/pictures: of the console and of an audit, in the Chromium of the browser suite.

    .venv/bin/python scripts/screenshots.py [NAME …]

A gateway of the demo plays three rounds of its scripted agents, in this process, with a ledger that is thrown
away. The audit is of a month of invented logs. Nothing leaves this machine. Pillow, which comes with
matplotlib, reduces each picture to a palette.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from PIL import Image
from typer.testing import CliRunner

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from pointsman.cli import app  # noqa: E402 - as the next
from support.agent_logs import month  # noqa: E402 - of the tests, which have it
from support.chromium import Demo, chromium, demo_gateway, opened  # noqa: E402 - of the tests, which have it

PICTURES: Final = ROOT / "docs" / "pictures"
#: Room of the audit's pictures, by colour scheme: a window, and a phone.
AUDITS: Final = {"audit": (1_180, 1_000, "light"), "audit-phone": (400, 860, "dark")}
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
    wanted = sys.argv[1:] or [*SHOTS, *AUDITS]
    PICTURES.mkdir(exist_ok=True)
    if audits := [name for name in wanted if name in AUDITS]:
        picture_audits(audits)
    if consoles := [name for name in wanted if name not in AUDITS]:
        picture_console(consoles)


def picture_audits(wanted: list[str]) -> None:
    """Make pictures of the page that ``pointsman audit --html`` writes."""
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        home = Path(folder) / "home"
        month(home)
        file = Path(folder) / "audit.html"
        ran = CliRunner().invoke(app, ["audit", "--home", str(home), "--html", str(file)])
        if ran.exit_code:
            raise SystemExit(ran.output)
        # The page names the directory of the logs; a reader's own is the usual one.
        file.write_text(file.read_text().replace(f" --home {home}", "").replace(str(home), "/home/ana"))
        for name in wanted:
            width, height, scheme = AUDITS[name]
            viewport = {"width": width, "height": height}
            with opened(browser, file.parent.as_uri(), viewport=viewport, color_scheme=scheme) as watched:
                raw = Path(folder) / f"{name}.png"
                watched.go(f"/{file.name}").screenshot(path=raw)
            reduce_colours(raw, name)


def picture_console(wanted: list[str]) -> None:
    """Make pictures of the demo's console."""
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
            reduce_colours(raw, name)


def reduce_colours(raw: Path, name: str) -> None:
    """Reduce a picture to a palette, and put it into the documentation."""
    file = PICTURES / f"{name}.png"
    Image.open(raw).convert("RGB").quantize(
        COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
    ).save(file, optimize=True)
    print(f"{file.relative_to(ROOT)}: {file.stat().st_size / 1024:.0f} kB")


if __name__ == "__main__":
    main()
