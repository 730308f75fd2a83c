"""A command starts with what it needs: an agent's hook runs after every tool call."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from pointsman.cli import COMMANDS, HEADINGS, app
from pointsman.cli.output import first_paragraph

#: Each costs tens to hundreds of milliseconds; loaded only by what uses it.
HEAVY = frozenset(
    {
        *("asyncio", "email", "hyperscan", "httptools", "http.client", "importlib.metadata", "matplotlib"),
        *("numpy", "prometheus_client", "pydantic", "redis", "rich", "scipy", "sklearn", "ssl", "starlette"),
        *("tempfile", "unittest", "urllib.request", "uvicorn", "uvloop"),
    }
)


def modules(code: str, said: str = "") -> set[str]:
    """What a program has loaded at its end."""
    program = f"{code}\nimport sys; print(*sys.modules, file=sys.stderr)"
    ran = subprocess.run(
        [sys.executable, "-c", program], input=said, capture_output=True, text=True, check=True
    )
    return set(ran.stderr.split())


def ours(loaded: set[str]) -> set[str]:
    return {name for name in loaded if name.partition(".")[0] == "pointsman"}


def loaded_by(*arguments: str, said: str = "") -> set[str]:
    return modules(f"from pointsman.cli import app; app({list(arguments)!r}, standalone_mode=False)", said)


def test_the_package_alone_loads_nothing() -> None:
    loaded = modules("import pointsman")
    assert ours(loaded) == {"pointsman"}
    assert loaded.isdisjoint({*HEAVY, "typing", "re", "msgspec"})


def test_the_librarys_class_loads_what_its_signatures_need() -> None:
    loaded = modules("from pointsman import Pointsman")
    assert ours(loaded) == {"pointsman", "pointsman.api", "pointsman.prices", "pointsman.vocabulary"}
    assert loaded.isdisjoint({*HEAVY, "hashlib", "json", "logging", "pathlib", "sqlite3", "tomllib"})


def test_deciding_in_a_program_loads_no_server(tmp_path: Path) -> None:
    loaded = modules(
        f"import os; os.environ['POINTSMAN_CACHE_DIR'] = {str(tmp_path)!r}\n"
        "from pointsman import Pointsman; Pointsman().decide('Hello!')"
    )
    engine = {"hyperscan", "importlib.metadata", "email", "tempfile"}  # and its version, for the cache
    assert not {name for name in loaded if name.startswith(("pointsman.gateway", "pointsman.cli"))}
    assert loaded.isdisjoint(HEAVY - engine)


def test_the_help_of_all_commands_loads_none() -> None:
    loaded = loaded_by("--help")
    assert loaded.isdisjoint(HEAVY)
    assert ours(loaded) == {
        "pointsman",
        "pointsman.cli",
        "pointsman.cli.output",
        "pointsman.cli.terminal",
        "pointsman.errors",
        "pointsman.printable",
    }


#: Each command in a process forked from one that has loaded what commands share: it counts as loaded by all.
EACH_HELP = """
import json, os, sys
import pointsman.cli.config, pointsman.cli.watch
from pointsman.cli import app

for name in sys.argv[1:]:
    if not (child := os.fork()):
        out, sys.stdout = sys.stdout, open(os.devnull, "w")
        app([name, "--help"], standalone_mode=False)
        print(json.dumps([name, list(sys.modules)]), file=out, flush=True)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        raise SystemExit(f"the help of {name} failed")
"""


@pytest.fixture(scope="module")
def loaded_by_help() -> dict[str, set[str]]:
    """Modules that the help of each command has loaded, by command."""
    command = [sys.executable, "-c", EACH_HELP, *COMMANDS]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return {name: set(loaded) for name, loaded in map(json.loads, ran.stdout.splitlines())}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_loads_nothing_heavy(name: str, loaded_by_help: dict[str, set[str]]) -> None:
    loaded = loaded_by_help[name]
    assert loaded.isdisjoint(HEAVY)
    assert not {module for module in loaded if module.startswith("pointsman.gateway")}


@pytest.mark.parametrize(
    "arguments", [("--version",), ("hook", "claude-code", "install"), ("watch",), ("classify",)]
)
def test_nothing_heavy_is_imported(arguments: tuple[str, ...]) -> None:
    engine = {"hyperscan", "importlib.metadata", "email", "tempfile"} if arguments == ("classify",) else set()
    assert loaded_by(*arguments).isdisjoint(HEAVY - engine)


@pytest.mark.parametrize("name", ["change", "savings"])
def test_a_report_needs_no_gateway(name: str) -> None:
    loaded = loaded_by("report", name, "--demo")
    assert not {module for module in loaded if module.startswith("pointsman.gateway")}
    assert "prometheus_client" not in loaded


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_of_a_command_is_the_first_paragraph_of_its_help(name: str) -> None:
    summaries = {each: summary for table in HEADINGS.values() for each, summary in table.items()}
    assert summaries[name] == first_paragraph(get_command(app).commands[name].help)  # type: ignore[attr-defined]


EVENT = """{"hook_event_name": "PostToolUse", "session_id": "s", "tool_name": "Bash",
"tool_input": {"command": "ls"}, "tool_response": "a.py"}"""


def test_the_hook_loads_nothing_that_routes(tmp_path: Path) -> None:
    loaded = loaded_by("hook", "claude-code", "--state", str(tmp_path / "state.sqlite"), said=EVENT)
    assert loaded.isdisjoint(HEAVY)
    parts = ("capabilities", "config", "decision", "domains", "evidence", "factory", "gateway", "tiers")
    assert loaded.isdisjoint(f"pointsman.{part}" for part in parts)
    assert "pointsman.guidance" in loaded


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_help(name: str) -> None:
    shown = CliRunner().invoke(app, [name, "--help"])
    assert shown.exit_code == 0
    assert "Usage" in shown.output


def test_the_help_names_every_command_once() -> None:
    shown = CliRunner().invoke(app, ["--help"]).stdout
    named = [line.split()[0] for line in shown.splitlines() if re.match(r"  [a-z][a-z-]*  ", line)]
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
