"""The gate at "done" with real agents over scripted upstreams, in the projects of ``done_gate_runs``.

    npm install --prefix /tmp/agents @anthropic-ai/claude-code @openai/codex opencode-ai @qwen-code/qwen-code
    python benchmarks/done_gate_agents.py /tmp/agents/node_modules [--only NAME] [--at gateway|hook]

The upstream plays the model of one scenario by the tools that the agent offers; the agent's own tools edit
the files and run the tests. ``gateway``: the conversation is continued once with ``CONTINUE``, as its client
or a person would. ``hook``: the agent ends once, and its stop is blocked or not. Whether the task is done is
decided at the end by the project's tests. A run is told when the model reads a text of the gate. Printed are
the counts per agent and door, with the 95 % interval of Wilson, and each run that did not go as scripted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from done_gate_runs import FILES, PROMPT, RUNNERS, SCENARIOS, UNRELATED

from pointsman.learning.intervals import wilson

sys.path.append(str(Path(__file__).resolve().parents[1] / "scripts"))

from done_gate_shop import Shop
from real_agents.clients import AGENTS, Agent, run
from real_agents.task import Provider
from real_agents.upstream import scripted, serving
from try_agents import gateway

CONTINUE: Final = "Continue if you have next steps."
_TIMEOUT: Final = 240.0  # seconds for one call of an agent
_GATE: Final = """
[guidance]
mode = "on"
control = 0.0
default_providers = false

[[guidance.providers]]
provider = "done_gate"
"""
#: In the text of the gate.
_TOLD: Final = "last test run of this task failed"


class Door(NamedTuple):
    """An agent, and where the gate is."""

    agent: str  # in ``real_agents.clients``
    at: str
    more: tuple[str, ...] = ()  # options of the agent
    resume: tuple[str, ...] = ()  # options that continue its conversation


DOORS: Final = (
    Door("Claude Code, auto", "gateway", resume=("--continue",)),
    Door("Codex, gpt-5.5", "gateway", resume=("resume", "--last")),
    Door("opencode, auto", "gateway", resume=("--continue",)),
    Door("Qwen Code", "gateway", resume=("--continue",)),
    Door("Claude Code, auto", "hook"),
    Door("Codex, gpt-5.5", "hook", more=("--dangerously-bypass-hook-trust",)),
)


class Stage:
    """An ASGI application that stands for the one of the run that is played."""

    app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass on."""
        await self.app(scope, receive, send)


class Played(NamedTuple):
    """One run, and what came of it."""

    scenario: str
    done: bool  # the task, by the project's tests
    told: bool
    wrong: str  # what did not go as scripted


def hooked(door: Door, home: Path, configuration: Path) -> None:
    """Install the hook as its page says."""
    name, to = (
        ("claude-code", home / ".claude/settings.json")
        if door.agent.startswith("Claude")
        else ("codex", home / ".codex/hooks.json")
    )
    to.parent.mkdir()
    command = [sys.executable, "-m", "pointsman", "hook", name, "install", "--config", str(configuration)]
    to.write_text(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def play(
    door: Door, agent: Agent, modules: Path, home: Path, scenario: str, runner: str, stage: Stage, base: str
) -> Played:
    """Let an agent go through one scenario."""
    work, kept = home / "work", home / "asked"
    kept.mkdir(parents=True)
    has_old_failure, steps = SCENARIOS[scenario]
    commands = RUNNERS[runner]
    script = [
        commands[step]
        if isinstance(step, int)
        else f"{commands[0]} 2>&1 | tail -4"
        if step == "PIPED"
        else step
        for step in steps
    ]
    task = Shop(str(work), FILES | (UNRELATED if has_old_failure else {}), script)
    for name, text in task.files.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    (home / ".profile").write_text(f'export PATH="{path}"\n')  # Codex runs commands in a login shell
    if door.at == "hook":
        hooked(door, home, home.parent / "hook.toml")
    stage.app = scripted(Provider(agent.speaks, task), kept)
    # A project has a name of its own: without one in the first message, all runs would be one conversation.
    calls = [(*door.more, f"{PROMPT} The project is {home.name}.")]
    if door.at == "gateway":
        calls.append((*door.more, *door.resume, CONTINUE))
    wrong = ""
    for call in calls:
        try:
            done = run(agent, modules, base, home, _TIMEOUT, *call)
        except subprocess.TimeoutExpired:
            wrong = wrong or f"not finished after {_TIMEOUT:.0f} s"
        else:
            if done.returncode:
                wrong = wrong or f"status {done.returncode}: {(done.stdout + done.stderr)[-300:]!r}"
    tests = f"{RUNNERS['unittest'][0]} tests.test_price".split()
    is_done = not subprocess.run(
        tests, cwd=work, env=os.environ | {"PATH": path}, capture_output=True, check=False
    ).returncode
    wrong = wrong or next(iter(task.refusals), "") or unplayed(task, work)
    asked = [json.loads(file.read_text())["body"] for file in sorted(kept.iterdir())]
    return Played(scenario, is_done, any(_TOLD in json.dumps(body) for body in asked), wrong)


def unplayed(task: Shop, work: Path) -> str:
    """What of the script the agent's tools did not do; empty if all was done."""
    if task.turns <= task.steps:
        return f"{task.turns} turns for {task.steps} steps"
    texts = {step[0]: step[1] for step in task.script if isinstance(step, tuple)}
    return next(
        (f"{name} was not edited" for name, text in texts.items() if (work / name).read_text() != text), ""
    )


@contextmanager
def played(door: Door, modules: Path, top: Path, scenarios: str) -> Iterator[Iterator[Played]]:
    """Open one gateway for all runs of a door."""
    agent = next(each for each in AGENTS if each.name == door.agent)
    stage = Stage()
    top.mkdir(parents=True)
    (top / "hook.toml").write_text(f'{_GATE}\n[ledger]\npath = "{top}/hook.sqlite"\n')
    more = _GATE if door.at == "gateway" else ""
    with serving(stage) as upstream, gateway({agent.speaks: upstream}, top, more) as port:
        names = [(scenario, runner) for runner in RUNNERS for scenario in SCENARIOS if scenarios in scenario]
        yield (
            play(
                door,
                agent,
                modules,
                top / f"run-{number}",
                scenario,
                runner,
                stage,
                f"http://127.0.0.1:{port}",
            )
            for number, (scenario, runner) in enumerate(names)
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", type=Path, help="the node_modules folder of the agents")
    parser.add_argument("--only", default="", help="agents whose name holds this")
    parser.add_argument("--at", default="", choices=("", "gateway", "hook"))
    parser.add_argument("--scenario", default="", help="scenarios whose name holds this")
    parser.add_argument("--keep", type=Path, help="keep homes, logs and bodies in this folder")
    options = parser.parse_args()
    modules = options.modules.resolve()
    with tempfile.TemporaryDirectory() as temporary:
        for number, door in enumerate(DOORS):
            if options.only.lower() not in door.agent.lower() or options.at not in ("", door.at):
                continue
            found: list[Played] = []
            with played(
                door, modules, (options.keep or Path(temporary)) / str(number), options.scenario
            ) as runs:
                for each in runs:
                    found.append(each)
                    note = f"  not as scripted: {each.wrong}" if each.wrong else ""
                    print(f"  {each.scenario:42} done {each.done!s:5} told {each.told!s:5}{note}", flush=True)
            version = next(each for each in AGENTS if each.name == door.agent).version(modules)
            for done in (False, True):
                told = [each.told for each in found if each.done is done and not each.wrong]
                if not told:
                    continue
                low, high = wilson(sum(told), len(told))
                print(
                    f"{door.agent} {version}, {door.at}: task {'done' if done else 'failed'}, "
                    f"told {sum(told)} of {len(told)}: {sum(told) / len(told):.1%} [{low:.1%}, {high:.1%}]"
                )


if __name__ == "__main__":
    main()
