"""Real agents get stuck over a scripted upstream, without a gateway; their hooks and plugins tell them so.

    npm install --prefix /tmp/agents @anthropic-ai/claude-code @openai/codex opencode-ai
    python scripts/agent_hooks.py /tmp/agents/node_modules [--only NAME] [--keep FOLDER]

The upstream lets the agent run five failing commands. Printed is, for each agent: the version,
the request in which the model reads the hint first (of six), the CPU seconds of the whole run with Pointsman
and without, and what the agent does where Pointsman is not there, fails, or is too slow: it must end its task
each time. Everything stays on this machine.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import NamedTuple

from real_agents.clients import AGENTS
from real_agents.task import DONE, Provider, Stuck
from real_agents.upstream import CALLERS_KEY, UPSTREAMS_KEY, scripted, serving

_ROOT = Path(__file__).resolve().parent.parent
_HINT = "<pointsman source="
_TIMEOUT = 240.0  # seconds for one run
_FAILING = {
    "absent": "",
    "fails": "#!/bin/sh\necho 'pointsman: it fails' >&2\nexit 1\n",
    "slow": "#!/bin/sh\nexec sleep 60\n",
}


class Plug(NamedTuple):
    """How Pointsman gets into an agent."""

    name: str
    agent: str  # in ``real_agents.clients``
    install: Callable[[Path, Path, str], list[str]]  # node_modules, home, PATH; arguments for the agent


class Run(NamedTuple):
    """How one run went."""

    cpu: float  # seconds, of the agent and all it started
    first: int | None  # number of the request that holds the hint first
    requests: int
    ended: bool  # with the last words of the upstream, and status 0
    said: str


def _pointsman(path: str, *arguments: str, home: Path) -> str:
    environment = {**os.environ, "PATH": path, "HOME": str(home)}
    command = [sys.executable, "-m", "pointsman", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def _claude_folder(modules: Path, home: Path, path: str) -> list[str]:
    del modules, home, path
    return ["--plugin-dir", str(_ROOT / "integrations/claude_code")]


def _claude_marketplace(modules: Path, home: Path, path: str) -> list[str]:
    environment = {"PATH": path, "HOME": str(home), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    for command in (["marketplace", "add", str(_ROOT)], ["install", "pointsman@pointsman"]):
        claude = [str(modules / ".bin/claude"), "plugin", *command]
        subprocess.run(claude, env=environment, capture_output=True, check=True, timeout=_TIMEOUT)
    return []


def _codex(modules: Path, home: Path, path: str) -> list[str]:
    del modules
    (home / ".codex").mkdir()
    (home / ".codex/hooks.json").write_text(_pointsman(path, "hook", "codex", "install", home=home))
    return ["--dangerously-bypass-hook-trust"]  # a person would trust it once, at /hooks


def _opencode(modules: Path, home: Path, path: str) -> list[str]:
    del modules
    folder = home / ".config/opencode/plugin"
    folder.mkdir(parents=True)
    (folder / "pointsman.js").write_text(_pointsman(path, "hook", "opencode", "install", home=home))
    return []


PLUGS = (
    Plug("Claude Code, plugin folder", "Claude Code", _claude_folder),
    Plug("Claude Code, marketplace", "Claude Code", _claude_marketplace),
    Plug("Codex, hooks.json", "Codex", _codex),
    Plug("opencode, plugin", "opencode, openai", _opencode),
)


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    """The caller's key is the upstream's own: no gateway stands between."""
    own = {name: value.replace(CALLERS_KEY, UPSTREAMS_KEY) for name, value in given.items()}
    if "ANTHROPIC_AUTH_TOKEN" in own:
        own["ANTHROPIC_API_KEY"] = own.pop("ANTHROPIC_AUTH_TOKEN")
    return own


def _run(plug: Plug, modules: Path, home: Path, path: str, *, plugged: bool) -> Run:
    agent = next(each for each in AGENTS if each.name == plug.agent)
    work, kept = home / "work", home / "asked"
    work.mkdir(parents=True)
    kept.mkdir()
    task = Stuck(str(work))
    arguments = plug.install(modules, home, path) if plugged else []
    (home.parent / "absent-bin/pointsman").unlink(missing_ok=True)  # it was there when the hook was installed
    with serving(scripted(Provider(agent.speaks, task), kept)) as port:
        started = agent.start(modules, f"http://127.0.0.1:{port}", work)
        command = [started.command[0], *started.command[1:-1], *arguments, started.command[-1]]
        environment = {"PATH": path, "HOME": str(home), **_environment(started.environment)}
        before = getrusage(RUSAGE_CHILDREN)
        done = subprocess.run(
            command, cwd=work, env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=_TIMEOUT, check=False,
        )  # fmt: skip
        after = getrusage(RUSAGE_CHILDREN)
    asked = [file.read_text(encoding="utf-8") for file in sorted(kept.iterdir())]
    turns = [body for body in asked if '"tools": [' in body]  # not a request for a title
    first = next((number for number, body in enumerate(turns, 1) if _HINT in body), None)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    ended = done.returncode == 0 and DONE in done.stdout
    return Run(cpu, first, len(turns), ended, (done.stdout + done.stderr)[-2_000:])


def _path_with(folder: Path, script: str) -> str:
    """PATH with another command of that name."""
    folder.mkdir(parents=True)
    command = folder / "pointsman"
    command.write_text(script)
    command.chmod(0o755)
    own = [part for part in os.environ["PATH"].split(":") if not shutil.which("pointsman", path=part)]
    return ":".join([str(folder), *own])


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("modules", type=Path, help="the node_modules folder of the agents")
    parser.add_argument("--only", default="", help="plugs whose name holds this")
    parser.add_argument("--keep", type=Path, help="keep homes and bodies in this folder")
    options = parser.parse_args()
    modules, failed = options.modules.resolve(), False
    if not shutil.which("pointsman"):
        raise SystemExit("the command pointsman must be on PATH")
    print("| agent | version | hint in request | CPU s alone | CPU s with | absent | fails | slow |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        top = options.keep or Path(temporary)
        for plug in PLUGS:
            if options.only.lower() not in plug.name.lower():
                continue
            version = next(each for each in AGENTS if each.name == plug.agent).version(modules)
            if not version:
                print(f"| {plug.name} | not installed | | | | | | |")
                continue
            home = top / plug.name.replace(", ", "-").replace(" ", "-")
            alone = _run(plug, modules, home / "alone", os.environ["PATH"], plugged=False)
            with_it = _run(plug, modules, home / "with", os.environ["PATH"], plugged=True)
            others = {
                name: _run(plug, modules, home / name, _path_with(home / f"{name}-bin", script), plugged=True)
                for name, script in _FAILING.items()
            }
            cells = [plug.name, version, f"{with_it.first} of {with_it.requests}"]
            cells += [f"{alone.cpu:.1f}", f"{with_it.cpu:.1f}"]
            cells += ["goes on" if each.ended and not each.first else "STOPS" for each in others.values()]
            print(f"| {' | '.join(cells)} |", flush=True)
            runs = {"alone": alone, "with": with_it, **others}
            wrong = [name for name, each in runs.items() if not each.ended]
            wrong += [] if with_it.first else ["no hint"]
            failed |= bool(wrong)
            for name in wrong:
                print(f"  {name}: {json.dumps(runs[name].said if name in runs else with_it.said)}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
