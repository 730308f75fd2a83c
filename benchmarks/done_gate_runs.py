"""The gate at "done" over runs of agents in projects whose tests really pass or fail, by scenario.

    python benchmarks/done_gate_runs.py [--evidence tests_fail,edited_after_tests,...]

Each run edits a small project, runs its real commands, and ends. The calls and results are written in the
formats of four agents: Claude Code and Codex through the events of their hooks, opencode and Qwen Code as
chat requests of a gateway. Whether the task is done is decided at the end by the project's tests, not by the
run. The mix of scenarios is ours, with two test runners: the shares say what the gate can see, and not how
often agents end so. The same command in the same project is run once for all agents.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from pointsman import Pointsman
from pointsman.decision.policy import Policy
from pointsman.guidance import GuidancePolicy, Guide, Mode, ProviderSpec
from pointsman.integrations.hooks import (
    ClaudeCodeEvent,
    CodexEvent,
    HookEvent,
    HookState,
    answer_event,
    read_event,
)
from pointsman.learning.intervals import wilson
from pointsman.tiers import builtin_profile

STOCK: Final = "def take(items, name, count):\n    items[name] -= count\n    return items[name]\n"
FIXED: Final = (
    "def take(items, name, count):\n    if count > items[name]:\n        raise ValueError(name)\n"
    "    items[name] -= count\n    return items[name]\n"
)
WRONG: Final = STOCK.replace("return items[name]", "return max(0, items[name])")
PRICE: Final = "def price(count):\n    return 3 * count\n"
_TEST: Final = "import unittest\n{imports}\n\nclass {name}(unittest.TestCase):\n{cases}"
FILES: Final = {
    "stock.py": STOCK,
    "price.py": PRICE,
    "README.md": "# Shop\n",
    "tests/__init__.py": "",
    "tests/test_stock.py": _TEST.format(
        imports="from stock import take",
        name="StockTest",
        cases="    def test_takes(self):\n        self.assertEqual(take({'a': 3}, 'a', 1), 2)\n\n"
        "    def test_never_below_zero(self):\n        with self.assertRaises(ValueError):\n"
        "            take({'a': 1}, 'a', 2)\n",
    ),
    "tests/test_price.py": _TEST.format(
        imports="from price import price",
        name="PriceTest",
        cases="    def test_three_each(self):\n        self.assertEqual(price(2), 6)\n",
    ),
}
#: Fails from the start, and is no part of the task.
UNRELATED: Final = {
    "tests/test_export.py": _TEST.format(
        imports="", name="ExportTest", cases="    def test_exports(self):\n        self.fail('no exporter')\n"
    )
}
PROMPT: Final = "Taking more than there is must raise ValueError. Please fix the stock."
#: Commands of a runner: the asked tests, those of the price, all.
RUNNERS: Final = {
    "unittest": (
        "python3 -m unittest tests.test_stock",
        "python3 -m unittest tests.test_price",
        "python3 -m unittest discover -s tests -t .",
    ),
    "pytest": (
        "python3 -m pytest -q -p no:cacheprovider tests/test_stock.py",
        "python3 -m pytest -q -p no:cacheprovider tests/test_price.py",
        "python3 -m pytest -q -p no:cacheprovider",
    ),
}


class Ran(NamedTuple):
    """What a command printed, and its exit status."""

    output: str
    status: int


class Project:
    """A project in a folder of its own."""

    _known: dict[tuple[str, str], Ran] = {}  # noqa: RUF012 - one table for all: equal runs are run once

    def __init__(self, folder: Path, files: dict[str, str]) -> None:
        self.folder = folder
        self.files: dict[str, str] = {}
        for name, text in files.items():
            self.write(name, text)

    def write(self, name: str, text: str) -> None:
        """Write a file."""
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)
        self.files[name] = text

    def run(self, command: str) -> Ran:
        """Run a command in the project."""
        key = (json.dumps(self.files, sort_keys=True), command)
        if key not in self._known:
            path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
            environment = {**os.environ, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
            done = subprocess.run(
                command,
                shell=True,
                cwd=self.folder,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            self._known[key] = Ran(done.stdout, done.returncode)
        return self._known[key]

    def is_done(self) -> bool:
        """Whether the task is done and nothing else was broken."""
        return self.run(f"{RUNNERS['unittest'][0]} tests.test_price").status == 0


class Agent:
    """An agent at work: it edits, runs commands and ends, and its format carries what it did."""

    name = ""

    def __init__(self, project: Project, policy: GuidancePolicy, state: Path) -> None:
        self.project, self.policy, self.state = project, policy, state

    def edit(self, name: str, text: str) -> None:
        """Change a file."""
        before = self.project.files[name]
        self.project.write(name, text)
        self.edited(name, before, text)

    def shell(self, command: str) -> None:
        """Run a command."""
        self.ran(command, self.project.run(command))

    def edited(self, name: str, before: str, after: str) -> None:
        """Carry an edit."""
        raise NotImplementedError

    def ran(self, command: str, result: Ran) -> None:
        """Carry a command and its result."""
        raise NotImplementedError

    def end(self) -> bool:
        """End the work; whether the gate says that something is missing."""
        raise NotImplementedError


class _Hooked(Agent):
    """An agent that reports its events to the hook."""

    event: type[HookEvent]

    def __init__(self, project: Project, policy: GuidancePolicy, state: Path) -> None:
        super().__init__(project, policy, state)
        self._guide, self._kept = Guide(policy), HookState(state)
        self.sent("UserPromptSubmit", prompt=PROMPT)

    def sent(self, name: str, **fields: Any) -> object:
        """Send one event."""
        event = {"session_id": str(self.state), "cwd": "/w", "hook_event_name": name, **fields}
        return answer_event(read_event(json.dumps(event).encode(), self.event), self._kept, self._guide)

    def end(self) -> bool:
        """Send the stop."""
        answer = self.sent("Stop", stop_hook_active=False, last_assistant_message="Done.")
        return isinstance(answer, dict) and answer.get("decision") == "block"


class ClaudeCode(_Hooked):
    """Tells failures by an event of their own; a result is an object."""

    name, event = "Claude Code", ClaudeCodeEvent

    def edited(self, name: str, before: str, after: str) -> None:
        """Send an edit."""
        given = {"file_path": f"/w/{name}", "old_string": before, "new_string": after}
        self.sent("PostToolUse", tool_name="Edit", tool_input=given, tool_response={"filePath": f"/w/{name}"})

    def ran(self, command: str, result: Ran) -> None:
        """Send a command."""
        named = {"tool_name": "Bash", "tool_input": {"command": command, "description": "Run"}}
        if result.status:
            self.sent("PostToolUseFailure", **named, error=f"Exit code {result.status}\n{result.output}")
        else:
            response = {"stdout": result.output, "stderr": "", "interrupted": False, "isImage": False}
            self.sent("PostToolUse", **named, tool_response=response)


class Codex(_Hooked):
    """Tells neither failures nor exit codes."""

    name, event = "Codex", CodexEvent

    def edited(self, name: str, before: str, after: str) -> None:
        """Send a patch."""
        lines = [*(f"-{line}" for line in before.splitlines()), *(f"+{line}" for line in after.splitlines())]
        patch = "\n".join(["*** Begin Patch", f"*** Update File: {name}", "@@", *lines, "*** End Patch"])
        response = f"Success. Updated the following files:\nM {name}\n"
        self.sent(
            "PostToolUse", tool_name="apply_patch", tool_input={"command": patch}, tool_response=response
        )

    def ran(self, command: str, result: Ran) -> None:
        """Send a command."""
        self.sent(
            "PostToolUse", tool_name="Bash", tool_input={"command": command}, tool_response=result.output
        )


class _Requesting(Agent):
    """An agent behind a gateway: each step is a chat request with the whole history."""

    def __init__(self, project: Project, policy: GuidancePolicy, state: Path) -> None:
        super().__init__(project, policy, state)
        whole = Policy(profile=builtin_profile("default"), guidance=policy)
        self._pointsman = Pointsman(whole)
        self._messages: list[dict[str, Any]] = [{"role": "user", "content": PROMPT}]
        self.asked()

    def asked(self) -> str:
        """Send the history; what is added for the model."""
        offered = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}
        request = {"model": "auto", "messages": self._messages, "tools": [offered]}
        decision = self._pointsman.decide(request, session=str(self.state))
        return "".join(each.text for each in decision.injections if each.source == "guidance")

    def called(self, tool: str, arguments: dict[str, Any], result: str) -> None:
        """Add a call and its result."""
        id_ = f"call_{len(self._messages)}"
        call = {
            "id": id_,
            "type": "function",
            "function": {"name": tool, "arguments": json.dumps(arguments)},
        }
        self._messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": id_, "content": result},
        ]
        self.asked()

    def end(self) -> bool:
        """Answer without calls; the client continues."""
        self._messages += [
            {"role": "assistant", "content": "Done."},
            {"role": "user", "content": "Continue if you have next steps."},
        ]
        return bool(self.asked())


class Opencode(_Requesting):
    """Passes on what a command prints, without its exit code."""

    name = "opencode"

    def edited(self, name: str, before: str, after: str) -> None:
        """Add an edit."""
        given = {"filePath": f"/w/{name}", "oldString": before, "newString": after}
        self.called("edit", given, "Edit applied successfully.")

    def ran(self, command: str, result: Ran) -> None:
        """Add a command."""
        self.called("bash", {"command": command, "description": "Run"}, result.output or "(no output)")


class QwenCode(_Requesting):
    """Writes the exit code below the output."""

    name = "Qwen Code"

    def edited(self, name: str, before: str, after: str) -> None:
        """Add an edit."""
        given = {"file_path": f"/w/{name}", "old_string": before, "new_string": after}
        self.called("edit", given, f"Successfully modified file: /w/{name} (1 replacements).")

    def ran(self, command: str, result: Ran) -> None:
        """Add a command."""
        text = (
            f"Command: {command}\nDirectory: (root)\nOutput: {result.output}\nError: (none)\n"
            f"Exit Code: {result.status or '(none)'}\nSignal: (none)\nBackground PIDs: (none)"
        )
        self.called("run_shell_command", {"command": command, "is_background": False}, text)


AGENTS: Final[tuple[type[Agent], ...]] = (ClaudeCode, Codex, Opencode, QwenCode)
TRY: Final = "python3 -c \"import stock; print(stock.take({'a': 3}, 'a', 1))\""

#: Steps of a run: the text of a file, or a command of the runner by its place, or a command.
Step = tuple[str, str] | int | str
#: Scenario -> whether the project has a test that fails from the start, and the steps.
SCENARIOS: Final[dict[str, tuple[bool, Sequence[Step]]]] = {
    "failing test seen, fixed, tested": (False, [0, ("stock.py", FIXED), 0]),
    "fixed, tested": (False, [("stock.py", FIXED), 0]),
    "wrong, tested, fixed, tested": (False, [("stock.py", WRONG), 0, ("stock.py", FIXED), 0]),
    "fixed, tested, documented": (False, [("stock.py", FIXED), 0, ("README.md", "# Shop\nFixed.\n")]),
    "fixed, tested, commented": (
        False,
        [("stock.py", FIXED), 0, ("stock.py", f"# Never below zero.\n{FIXED}")],
    ),
    "fixed, tested, edited once more": (False, [("stock.py", FIXED), 0, ("price.py", f"UNIT = 3\n{PRICE}")]),
    "an old failure stays, seen before": (True, [2, ("stock.py", FIXED), 2]),
    "an old failure stays, asked tests pass": (True, [("stock.py", FIXED), 0, 2]),
    "fixed, tested, a search finds nothing": (False, [("stock.py", FIXED), 0, "grep -rn TODO ."]),
    "fixed, tested, nothing to commit to": (False, [("stock.py", FIXED), 0, "git -C . commit -m x"]),
    "fixed, tested through a pipe": (False, [("stock.py", FIXED), "PIPED"]),
    "fixed, tried out": (False, [("stock.py", FIXED), TRY]),
    "fixed, nothing run": (False, [("stock.py", FIXED)]),
    "wrong, tests fail": (False, [("stock.py", WRONG), 0]),
    "failing test seen, wrong, still fails": (False, [0, ("stock.py", WRONG), 0]),
    "wrong, tests fail behind a pipe": (False, [("stock.py", WRONG), "PIPED"]),
    "fixed, another test broken and seen": (
        False,
        [("stock.py", FIXED), ("price.py", PRICE.replace("3", "4")), 2],
    ),
    "fixed, tested, broken afterwards": (
        False,
        [("stock.py", FIXED), 2, ("price.py", PRICE.replace("3", "4"))],
    ),
    "failing test seen, wrong, not tested": (False, [0, ("stock.py", WRONG)]),
    "wrong, nothing run": (False, [("stock.py", WRONG)]),
    "wrong, read again": (False, [("stock.py", WRONG), "cat stock.py"]),
    "wrong, tried out": (False, [("stock.py", WRONG), TRY]),
    "wrong, other tests pass": (False, [("stock.py", WRONG), 1]),
}


class Run(NamedTuple):
    """One run, and what came of it."""

    agent: str
    scenario: str
    runner: str
    done: bool  # the task, by the project's tests
    told: bool


def runs(
    policy: GuidancePolicy, agents: Sequence[type[Agent]] = AGENTS, runners: Sequence[str] = tuple(RUNNERS)
) -> list[Run]:
    """Let every agent go through every scenario."""
    found: list[Run] = []
    with tempfile.TemporaryDirectory() as root:
        for runner in runners:
            for scenario, (has_old_failure, steps) in SCENARIOS.items():
                for of in agents:
                    folder = Path(root) / str(len(found))
                    project = Project(folder, {**FILES, **(UNRELATED if has_old_failure else {})})
                    agent = of(project, policy, Path(root) / f"{len(found)}.sqlite")
                    _play(agent, steps, RUNNERS[runner])
                    found.append(Run(of.name, scenario, runner, project.is_done(), agent.end()))
    return found


def _play(agent: Agent, steps: Sequence[Step], commands: Sequence[str]) -> None:
    for step in steps:
        if isinstance(step, tuple):
            agent.edit(*step)
        elif isinstance(step, int):
            agent.shell(commands[step])
        else:
            agent.shell(f"{commands[0]} 2>&1 | tail -4" if step == "PIPED" else step)


def share(found: Sequence[Run]) -> tuple[int, int]:
    """How many of the runs were told, and how many they are."""
    return sum(run.told for run in found), len(found)


def gate(evidence: Sequence[str] = ()) -> GuidancePolicy:
    """A policy whose gate reads this evidence; by default its own."""
    classifier = {"name": "unfinished", "evidence": list(evidence)} if evidence else None
    spec = ProviderSpec(provider="done_gate", classifier=classifier)
    return GuidancePolicy(mode=Mode.ON, default_providers=False, providers=(spec,))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evidence", default="")
    chosen = parser.parse_args().evidence
    found = runs(gate(chosen.split(",") if chosen else ()))
    for done in (False, True):
        print("task done" if done else "task failed")
        of_kind = [run for run in found if run.done is done]
        for scenario in dict.fromkeys(run.scenario for run in of_kind):
            told, of = share([run for run in of_kind if run.scenario == scenario])
            print(f"  {scenario:40} told {told} of {of}")
        for agent in (*(each.name for each in AGENTS), ""):
            told, of = share([run for run in of_kind if agent in ("", run.agent)])
            low, high = wilson(told, of)
            print(f"  {agent or 'all':40} told {told} of {of}: {told / of:.1%} [{low:.1%}, {high:.1%}]")


if __name__ == "__main__":
    main()
