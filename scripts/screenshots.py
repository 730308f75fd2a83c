"""The pictures in docs/pictures: of the console and of an audit, in the Chromium of the browser suite.

    .venv/bin/python scripts/screenshots.py [NAME …]
    .venv/bin/python scripts/screenshots.py --all FOLDER

A gateway of the demo plays three rounds of its scripted agents, and requests of agents in three projects, in
this process, with a ledger that is thrown away. With ``--all`` every page of the console is written to a
folder, for a window and a phone, light and dark: to look at. The audit is of a month of invented logs.
Nothing leaves this machine. Pillow, which comes with matplotlib, reduces pictures of the docs to a palette.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, NamedTuple

import httpx
from audit_example import page
from PIL import Image

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

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
    scheme: Literal["light", "dark"] = "light"
    width: int = WIDTH


SHOTS: Final = {
    "home": Shot(lambda _: "/console", 760),
    "home-phone": Shot(lambda _: "/console", 844, "dark", 390),
    "now": Shot(lambda _: "/console/now", 640),
    "change": Shot(lambda _: "/console/change", 760),
    "conversation": Shot(lambda _: f"/console/sessions/demo-stuck-agent-{ROUNDS}#h-said", 760),
    "decision": Shot(lambda demo: f"/console/decisions/{demo.proof}", 900),
    "session": Shot(lambda _: f"/console/sessions/demo-stuck-agent-{ROUNDS}", 760),
    "savings": Shot(lambda _: "/console/savings", 900),
    "label": Shot(lambda _: "/console/label", 300, "dark"),
}


#: Pages of which ``--all`` makes pictures, and their sizes.
PAGES: Final = ("", "/now", "/change", "/sessions", "/decisions", "/savings", "/quality", "/policy", "/label",
                "/try", "/keys")  # fmt: skip
SIZES: Final = {"window": (WIDTH, 900), "phone": (390, 844)}
#: What agents ask in their projects: program, directory, prompts.
PROJECTS: Final = (
    ("claude-cli/2.1.197", "/home/ana/shop", ("Rename total to amount in cart.py", "ok thanks")),
    ("claude-cli/2.1.197", "/home/ana/billing", ("Prove step by step that rounding loses no cent.",)),
    ("codex_exec/0.169.0", "/home/ana/website", ("Fix the typo in the title.", "Design a schema.")),
)


def main() -> None:
    """Make the pictures that are named, or all that the documentation has, or those to look at."""
    if sys.argv[1:2] == ["--all"]:
        picture_everything(Path(sys.argv[2]))
        return
    wanted = sys.argv[1:] or [*SHOTS, *AUDITS]
    if unknown := [name for name in wanted if name not in SHOTS and name not in AUDITS]:
        raise SystemExit(
            f"{__doc__}\nunknown: {', '.join(unknown)}; pictures: {', '.join((*SHOTS, *AUDITS))}"
        )
    PICTURES.mkdir(exist_ok=True)
    if audits := [name for name in wanted if name in AUDITS]:
        picture_audits(audits)
    if consoles := [name for name in wanted if name not in AUDITS]:
        picture_console(consoles)


def picture_audits(wanted: list[str]) -> None:
    """Make pictures of the page that ``pointsman audit --html`` writes."""
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        file = Path(folder) / "audit.html"
        file.write_text(page(), "utf-8")
        for name in wanted:
            width, height, scheme = AUDITS[name]
            viewport = {"width": width, "height": height}
            with opened(browser, file.parent.as_uri(), viewport=viewport, color_scheme=scheme) as watched:
                raw = Path(folder) / f"{name}.png"
                watched.go(f"/{file.name}").screenshot(path=raw)
            reduce_colours(raw, name)


@contextmanager
def played(folder: Path) -> Iterator[Demo]:
    """A gateway of the demo after what the pictures show."""
    with demo_gateway(folder) as demo:
        for program, directory, prompts in PROJECTS:
            headers = {"user-agent": program, "x-claude-code-session-id": Path(directory).name}
            system = {"role": "system", "content": f"You are an agent.\n\nWorking directory: {directory}\n"}
            for prompt in prompts:
                messages = [system, {"role": "user", "content": prompt}]
                body = {"model": "auto", "messages": messages}
                httpx.post(f"{demo.base}/v1/chat/completions", json=body, headers=headers).raise_for_status()
        for number in range(1, ROUNDS + 1):
            demo.play_round(str(number), pause=PAUSE if number == ROUNDS else 0.0)
        yield demo


def picture_everything(folder: Path) -> None:
    """Make pictures of every page, for a window and a phone, light and dark."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as own, played(Path(own)) as demo, chromium() as browser:
        paths = [*PAGES, f"/decisions/{demo.proof}", f"/sessions/demo-stuck-agent-{ROUNDS}"]
        for size, (width, height) in SIZES.items():
            for scheme in ("light", "dark"):
                viewport = {"width": width, "height": height}
                with opened(browser, demo.base, viewport=viewport, color_scheme=scheme) as watched:
                    for path in paths:
                        page = watched.go(f"/console{path}")
                        page.wait_for_timeout(300)
                        name = (
                            path.split("/")[1] + ("-one" if path.count("/") > 1 else "") if path else "home"
                        )
                        page.screenshot(path=folder / f"{name}-{size}-{scheme}.png", full_page=True)
    print(f"{len(paths) * len(SIZES) * 2} pictures in {folder}")


def picture_console(wanted: list[str]) -> None:
    """Make pictures of the demo's console."""
    with tempfile.TemporaryDirectory() as folder, played(Path(folder)) as demo, chromium() as browser:
        for name in wanted:
            shot = SHOTS[name]
            viewport = {"width": shot.width, "height": shot.height}
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
