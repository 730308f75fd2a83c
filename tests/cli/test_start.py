"""A command starts with what it needs: an agent's hook runs after every tool call."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pointsman.cli import COMMANDS, app

#: Each costs tens to hundreds of milliseconds, and no command below has a use for it.
HEAVY = ("asyncio", "httptools", "numpy", "prometheus_client", "pydantic", "rich", "starlette", "uvicorn")


def loaded_by(*arguments: str, said: str = "") -> set[str]:
    code = (
        "import sys; from pointsman.cli import app; "
        f"app({list(arguments)!r}, standalone_mode=False); "
        "print(*sys.modules, file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], input=said, capture_output=True, text=True, check=True)
    return set(ran.stderr.split())


@pytest.mark.parametrize(
    "arguments", [("--version",), ("hook", "claude-code", "install"), ("watch",), ("classify",)]
)
def test_nothing_heavy_is_imported(arguments: tuple[str, ...]) -> None:
    assert loaded_by(*arguments).isdisjoint(HEAVY)


EVENT = """{"hook_event_name": "PostToolUse", "session_id": "s", "tool_name": "Bash",
"tool_input": {"command": "ls"}, "tool_response": "a.py"}"""


def test_the_hook_loads_nothing_that_routes(tmp_path: Path) -> None:
    loaded = loaded_by("hook", "claude-code", "--state", str(tmp_path / "state.sqlite"), said=EVENT)
    assert loaded.isdisjoint(HEAVY)
    parts = ("assembly", "capabilities", "config", "domains", "engine", "evidence", "gateway", "tiers")
    assert loaded.isdisjoint(f"pointsman.{part}" for part in parts)
    assert "pointsman.guidance" in loaded


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_help(name: str) -> None:
    shown = CliRunner().invoke(app, [name, "--help"])
    assert shown.exit_code == 0
    assert "Usage" in shown.output


def test_the_help_names_every_command_once() -> None:
    shown = CliRunner().invoke(app, ["--help"]).stdout
    named = [line.split()[0] for line in shown.splitlines() if re.match(r"  [a-z]+  ", line)]
    assert sorted(named) == sorted(COMMANDS)


def test_help_is_as_it_was_written() -> None:
    """No markup: what stands in brackets is shown, and paragraphs are filled."""
    shown = CliRunner().invoke(app, ["fit", "policy", "--help"]).stdout
    assert "its [tiers] names" in shown
    assert "The file is accepted as a configuration" in shown


def test_a_command_that_is_none_names_the_nearest() -> None:
    refused = CliRunner().invoke(app, ["desicions"])
    assert refused.exit_code == 2
    assert "decisions" in refused.output
