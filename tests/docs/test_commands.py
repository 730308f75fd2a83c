"""Every command that a page, or a message of the program, tells a person to type is one there is."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from pointsman.cli import COMMANDS, app

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "src").rglob("*.py")),
    *sorted((ROOT / "src").rglob("*.toml")),
    *sorted((ROOT / "scripts").rglob("*.py")),
    *(
        file
        for folder in ("examples", "integrations")
        for file in sorted((ROOT / folder).rglob("*.*"))
        if "__pycache__" not in file.parts and file.is_file()
    ),
]
#: A command as it stands in a text, up to what cannot belong to it.
WRITTEN = re.compile(rf"\bpointsman ((?:{'|'.join(COMMANDS)})\b(?!\.)[^`\"'\n|&;#)…]*)")
NAME = re.compile(r"[a-z][a-z-]*[,.:]?")
OPTION = re.compile(r"--[a-z][a-z-]+")


def written(page: Path) -> list[str]:
    return WRITTEN.findall(page.read_text(encoding="utf-8"))


def missing(command: str) -> str:
    """What of a command there is not; empty when it can be typed."""
    found: Any = typer.main.get_command(app)
    words = command.split()
    while words and hasattr(found, "commands") and NAME.fullmatch(words[0]):
        name = words.pop(0).rstrip(",.:")
        if name not in found.commands:
            return "" if found.name in PROSE else name
        found = found.commands[name]
    known = {name for parameter in found.params for name in (*parameter.opts, *parameter.secondary_opts)}
    unknown = set(OPTION.findall(" ".join(words))) - known - {"--help"}
    return ", ".join(sorted(unknown))


#: Groups that a sentence may name without saying which of their commands: "pointsman fit learns …".
PROSE = ("fit", "report", "sessions")


def test_a_command_that_is_none_is_found() -> None:
    assert missing("serve --demo") == ""
    assert missing("config check --config x.toml") == ""
    assert missing("config chekc") == "chekc"
    assert missing("serve --dmeo --port 1") == "--dmeo"


def test_every_command_can_be_typed() -> None:
    commands = [(page, command) for page in PAGES for command in written(page)]
    assert commands
    wrong = {(page, command): said for page, command in commands if (said := missing(command))}
    assert not wrong
