"""The task that a scripted upstream lets an agent do: look, read, fail, write, run, finish.

The upstream plays a model. It knows how far the task is from the ids of the calls in the history, chooses
among the tools that the agent offers, and looks for words in their results that only the agent's machine can
know.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from pointsman.vocabulary import WireFormat

__all__ = ["DONE", "FILE", "Asked", "Issued", "Offered", "Planned", "Provider", "Refusal", "Stuck", "Task"]

FILE: Final = "report.txt"  # what the agent must have made
DONE: Final = "The report is written."


class Refusal(Exception):
    """A request that a provider would refuse with a 400; the message says what is wrong."""


class Offered(NamedTuple):
    """A tool of a request."""

    name: str
    namespace: str = ""
    custom: bool = False  # takes free text
    field: str = ""  # the first of its parameters

    @property
    def own_name(self) -> str:
        """The name that the agent knows it by; a gateway joins a namespace to it with two underscores."""
        return self.name.rpartition("__")[2]


class Issued(NamedTuple):
    """A call as the upstream wrote it."""

    id: str
    tool: Offered
    arguments: dict[str, Any] | str  # a text for a custom tool
    by: WireFormat  # what its provider speaks

    @property
    def json(self) -> str:
        """The arguments as a provider writes them."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


class Asked(NamedTuple):
    """What a strict reader found in a request."""

    tools: tuple[Offered, ...]
    calls: tuple[str, ...]  # ids of the calls in the history, in their order
    results: Mapping[str, str]  # the text of each result, by the id of its call
    is_parallel: bool = True
    thinks: bool = False  # whether reasoning was asked for
    streams: bool = False
    model: str = ""
    reports_usage: bool = True
    stores: bool = False  # whether the answer's items may be named by their ids later

    @property
    def step(self) -> int:
        """How far the task is."""
        return max((int(call.split("_")[1]) for call in self.calls), default=0)


class Planned(NamedTuple):
    """What the model says."""

    text: str
    thinking: str = ""
    signature: str = ""  # of the thinking; whoever sends it back must not have changed it
    calls: tuple[Issued, ...] = ()


#: How to list files with a tool that needs no arguments, or to ask for anything else without them.
_WITHOUT_ARGUMENTS: Final = ("listFiles", "TaskList", "list_agents", "get_goal")


_SHELLS: Final[dict[str, Callable[[str], dict[str, Any] | str]]] = {
    "Bash": lambda command: {"command": command, "description": "Run a command"},  # Claude Code
    "bash": lambda command: {"command": command, "description": "Run a command"},  # opencode
    "exec_command": lambda command: {"cmd": command},  # Codex
    "shell_command": lambda command: {"command": command},
    "run_shell_command": lambda command: {"command": command, "is_background": False},  # Qwen Code
    "runCommand": lambda command: {"command": command},  # the script for the AI SDK
    "exec": lambda command: f"text(await tools.exec_command({json.dumps({'cmd': command})}))",  # Codex
}
_READERS: Final[dict[str, Callable[[str], dict[str, Any]]]] = {
    "Read": lambda path: {"file_path": path},
    "read": lambda path: {"filePath": path},
    "readFile": lambda path: {"path": path},
}


def _patch(path: str, text: str) -> str:
    lines = "".join(f"+{line}\n" for line in text.splitlines())
    return f"*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n"


_WRITERS: Final[dict[str, Callable[[str, str], dict[str, Any] | str]]] = {
    "Write": lambda path, text: {"file_path": path, "content": text},
    "write": lambda path, text: {"filePath": path, "content": text},
    "writeFile": lambda path, text: {"path": path, "content": text},
    "apply_patch": _patch,
}


class Provider:
    """What one provider alone knows of the task."""

    def __init__(self, spoken: WireFormat, task: Task) -> None:
        self.spoken = spoken
        self.task = task
        self.signatures: dict[str, str] = {}  # the thinking each stands for
        self.stored: set[str] = set()  # ids of items that a caller may refer to
        self.asked: list[bytes] = []  # bodies of requests
        self.returned: set[str] = set()  # signatures that have come back


class Task:
    """One run of the task in a folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.secrets = (secrets.token_hex(6), secrets.token_hex(6))
        self.issued: dict[str, Issued] = {}  # by id
        self.steps = 5  # turns with calls, before the last answer
        self.turns = 0
        self.parallel = 0  # turns with two calls
        self.without_arguments = 0
        self.refusals: list[str] = []
        self.is_done = False

    @property
    def files(self) -> dict[str, str]:
        """The files that stand in the folder before the agent starts."""
        return {"first.txt": self.secrets[0] + "\n", "second.txt": self.secrets[1] + "\n"}

    @property
    def report(self) -> str:
        """What must stand in the file that is made."""
        return f'The words are "{self.secrets[0]}" and "{self.secrets[1]}" – naïve\n'

    def answer(self, turn: Asked, provider: Provider) -> Planned:
        """Return the next answer. Raises ``Refusal`` for results that cannot come from the agent's tools."""
        if not turn.tools:
            return Planned("Reading two files")  # a helper's call, such as for a title
        step = turn.step
        self._check(step, turn)
        self.turns += 1
        thinking = f"Step {step + 1} of the task." if turn.thinks else ""
        signature = secrets.token_hex(24) if thinking else ""
        if signature:
            provider.signatures[signature] = thinking
        calls = self._calls(step + 1, turn, provider) if step < self.steps else ()
        self.is_done = self.is_done or not calls
        text = f"Next is step {step + 1}." if calls else f"{DONE} {self.secrets[1]}"
        return Planned(text, thinking, signature, calls)

    def _check(self, step: int, turn: Asked) -> None:
        """Look for what the results of one step must hold."""
        given = "\n".join(text for call, text in turn.results.items() if int(call.split("_")[1]) == step)
        wanted: dict[int, tuple[str, ...]] = {2: self.secrets, 5: (self.secrets[0], self.secrets[1])}
        for word in wanted.get(step, ()):
            if word not in given:
                raise Refusal(f"the results of step {step} do not hold {word}: {given[:300]!r}")

    def _calls(self, step: int, turn: Asked, provider: Provider) -> tuple[Issued, ...]:
        made = self._planned(step, turn)
        calls = tuple(
            Issued(f"call_{step}_{number}_{secrets.token_hex(8)}", tool, arguments, provider.spoken)
            for number, (tool, arguments) in enumerate(made)
        )
        self.issued |= {call.id: call for call in calls}
        self.parallel += len(calls) > 1
        self.without_arguments += any(call.arguments == {} for call in calls)
        return calls

    def _planned(self, step: int, turn: Asked) -> list[tuple[Offered, dict[str, Any] | str]]:
        offered = {tool.own_name: tool for tool in turn.tools}
        match step:
            case 1:
                return [next(
                    ((offered[name], {}) for name in _WITHOUT_ARGUMENTS if name in offered),
                    self._shell(offered, "ls"),
                )]  # fmt: skip
            case 2:
                return self._read_both(offered, turn.is_parallel)
            case 3:
                return [self._shell(offered, "cat missing.txt")]
            case 4:
                return [self._write(offered)]
            case _:
                return [self._shell(offered, f"cat {FILE}")]

    def _shell(self, offered: Mapping[str, Offered], command: str) -> tuple[Offered, dict[str, Any] | str]:
        for name, arguments in _SHELLS.items():
            if name in offered:
                return _fitting(offered[name], arguments(command))
        raise Refusal(f"no shell among the tools: {sorted(offered)}")

    def _read_both(
        self, offered: Mapping[str, Offered], is_parallel: bool
    ) -> list[tuple[Offered, dict[str, Any] | str]]:
        names = [f"{self.folder}/{name}" for name in self.files]
        if not is_parallel:
            return [self._shell(offered, f"cat {' '.join(names)}")]
        for name, arguments in _READERS.items():
            if name in offered:
                return [(offered[name], arguments(path)) for path in names]
        return [self._shell(offered, f"cat {path}") for path in names]

    def _write(self, offered: Mapping[str, Offered]) -> tuple[Offered, dict[str, Any] | str]:
        for name, write in _WRITERS.items():
            if name in offered:
                arguments = write(f"{self.folder}/{FILE}" if name != "apply_patch" else FILE, self.report)
                return _fitting(offered[name], arguments)
        return self._shell(offered, f"cat > {FILE} <<'END'\n{self.report}END")


class Stuck(Task):
    """A command that fails at each step, a different one each time."""

    def _check(self, step: int, turn: Asked) -> None:
        del step, turn

    def _planned(self, step: int, turn: Asked) -> list[tuple[Offered, dict[str, Any] | str]]:
        return [self._shell({tool.own_name: tool for tool in turn.tools}, f"cat missing-{step}.txt")]


def _fitting(tool: Offered, arguments: dict[str, Any] | str) -> tuple[Offered, dict[str, Any] | str]:
    """A text for a tool that takes an object is its first parameter."""
    if isinstance(arguments, str) and not tool.custom:
        return tool, {tool.field: arguments}
    return tool, arguments
