"""Real agents work over a scripted upstream, and what each of their requests was for is printed.

    npm install --prefix /tmp/agents @anthropic-ai/claude-code @openai/codex opencode-ai cline
    python -m venv /tmp/aider && /tmp/aider/bin/pip install aider-chat
    python scripts/agent_roles.py /tmp/agents/node_modules [--cline MODULES] [--aider BIN] [--only NAME]

Of each run is printed how many requests had which role, whether these are the roles the run was made to
have, and what each role costs. The upstream reports no real usage, so tokens are the bytes of a request
divided by four; a tool iteration reads from the cache what the request before it sent; an answer has 300
tokens, a title 20. Prices are those of a large and a small model, 5 and 25, 1 and 5 per million, cached input
a tenth. Everything stays on this machine.
"""

from __future__ import annotations

import argparse
import json
import shlex
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import try_agents as agents
from real_agents.clients import AGENTS, Agent, Started, aider
from real_agents.task import Asked, Offered, Task
from real_agents.upstream import CALLERS_KEY

from pointsman.printable import plain_lines
from pointsman.reports.roles import roles
from pointsman.stores.ledger import Record, SqliteLedger
from pointsman.tiers.projects import name_of
from pointsman.vocabulary import ModelSpec, Purpose, WireFormat

_PRICES = {
    "small": ModelSpec(
        "small",
        "u",
        "s",
        input_per_million=1.0,
        output_per_million=5.0,
        cached_input_per_million=0.1,
    ),
    "large": ModelSpec(
        "large",
        "u",
        "l",
        input_per_million=5.0,
        output_per_million=25.0,
        cached_input_per_million=0.5,
    ),
}
_ANSWER, _TITLE, _BYTES = 300, 20, 4  # tokens, tokens, bytes of a token
_CONFIGURATION = """
[server]
port = {port}

{upstreams}
[tiers]
simple = "small"
medium = "large"

[ledger]
path = "{folder}/ledger.sqlite"
"""
_UPSTREAM = """
[upstreams.{spoken}]
base_url = "http://127.0.0.1:{port}/v1"
formats = ["{spoken}"]
api_key = "${{UPSTREAM_KEY}}"

[models]
small = {{ upstream = "{spoken}", id = "scripted-1" }}
large = {{ upstream = "{spoken}", id = "scripted-1" }}
"""


class Case(NamedTuple):
    """One run, and the roles that it must have; those of ``some`` at least once."""

    name: str
    agent: Agent
    some: tuple[str, ...]
    never: tuple[str, ...] = ()
    is_counted: bool = True  # in the table of costs
    subagent: str = ""  # the type of the sub-agent that gets the task first
    task: type[Task] = Task


class _Delegating(Task):
    """The task, given to a sub-agent first."""

    kind = ""

    def _planned(self, step: int, turn: Asked) -> list[tuple[Offered, dict[str, Any] | str]]:
        offered = {tool.own_name: tool for tool in turn.tools}
        if step == 1 and "Agent" in offered:
            given = {"description": "Do it", "prompt": "Do the task", "subagent_type": self.kind}
            return [(offered["Agent"], given)]
        return super()._planned(step, turn)


class _Escalating(Task):
    """A command outside the sandbox, for which Codex asks its guardian. The guardian gets no verdict."""

    def _check(self, step: int, turn: Asked) -> None:
        del step, turn

    def _planned(self, step: int, turn: Asked) -> list[tuple[Offered, dict[str, Any] | str]]:
        del step
        offered = {tool.own_name: tool for tool in turn.tools}
        asked = {"cmd": "true", "sandbox_permissions": "require_escalated", "justification": "It is needed."}
        if "exec_command" in offered:
            return [(offered["exec_command"], asked)]
        return [self._shell(offered, "true")]


def _after(agent: Agent, change: Callable[[list[str]], list[str]]) -> Agent:
    """The agent started by other arguments."""

    def start(modules: Path, base: str, folder: Path) -> Started:
        started = agent.start(modules, base, folder)
        return started._replace(command=change(started.command))

    return agent._replace(start=start)


def _and_then(*more: str) -> Callable[[list[str]], list[str]]:
    """The command, and afterwards the same program with other arguments."""

    def change(command: list[str]) -> list[str]:
        return ["bash", "-c", f"{shlex.join(command)}; {shlex.join([command[0], *more])}"]

    return change


def _in_repository(command: list[str]) -> list[str]:
    """The command, in a work folder that git knows."""
    git = "git init -q . && git -c user.name=a -c user.email=a@b add ."
    return ["bash", "-c", f"{git}; {shlex.join(command)}"]


def _cline(cline_modules: Path, *more: str) -> Callable[[Path, str, Path], Started]:
    def start(modules: Path, base: str, folder: Path) -> Started:
        del modules, folder
        binary = str(cline_modules / ".bin/cline")
        auth = [binary, "auth", "-p", "openai", "-k", CALLERS_KEY, "-m", "auto", "-b", f"{base}/v1"]
        asked = [binary, "-P", "openai", "-m", "auto", *more, "Read first.txt"]
        return Started(["bash", "-c", f"{shlex.join(auth)}; {shlex.join(asked)}"], {})

    return start


def _cases(cline: Path | None, binary: Path | None) -> Iterator[Case]:
    by = {agent.name: agent for agent in AGENTS}
    claude, codex = by["Claude Code, auto"], by["Codex, auto"]
    loop = ("message", "tool_iteration")
    yield Case("Claude Code", claude, loop, ("compaction", "plan"))
    yield Case("Claude Code, terminal", by["Claude Code, terminal"], ("title", *loop))
    compact = _and_then("-p", "/compact", "-c", "--model", "auto", "--dangerously-skip-permissions")
    yield Case("Claude Code, /compact", _after(claude, compact), (*loop, "compaction"))
    plan = ["--permission-mode", "plan"]
    yield Case(
        "Claude Code, plan mode",
        _after(claude, lambda it: [one for one in it if one != "--dangerously-skip-permissions"] + plan),
        ("plan",),
    )
    yield Case("Claude Code, sub-agent", claude, ("subagent", *loop), subagent="general-purpose")
    yield Case("Claude Code, planning sub-agent", claude, ("plan", "subagent", *loop), subagent="Plan")
    yield Case("Codex", codex, loop, ("compaction", "plan"))
    limit = ["-c", "model_auto_compact_token_limit=1100"]
    # It compacts before every turn, and never gets on: the upstream always reports as many tokens.
    compacting = _after(codex, lambda it: [*it[:-1], *limit, it[-1]])
    yield Case("Codex, compaction", compacting, ("message", "compaction"), is_counted=False)
    bypassed, reviewed = "--dangerously-bypass-approvals-and-sandbox", "--approve-for-me"
    guarded = _after(codex, lambda it: [reviewed if one == bypassed else one for one in it])
    yield Case("Codex, guardian", guarded, ("message", "check"), is_counted=False, task=_Escalating)
    yield Case("opencode", by["opencode, auto"], ("title", *loop), ("plan",))
    yield Case(
        "opencode, plan agent",
        _after(by["opencode, auto"], lambda it: [*it[:2], "--agent", "plan", *it[2:]]),
        ("title", "plan"),
    )
    if cline:
        yield Case("Cline", Agent("Cline", WireFormat.CHAT, "cline", _cline(cline)), ("message",))
        yield Case(
            "Cline, plan mode", Agent("Cline", WireFormat.CHAT, "cline", _cline(cline, "-p")), ("plan",)
        )
    if binary:
        plain = Agent("aider", WireFormat.CHAT, "", aider(binary, "first.txt"))
        yield Case("aider", _after(plain, _in_repository), ("message",))
        architect = ["--architect", "--auto-accept-architect"]
        planning = _after(plain, lambda it: _in_repository([*it, *architect]))
        yield Case("aider, architect", planning, ("plan", "edit"))


def _estimated(records: list[Record]) -> Iterator[Record]:
    """The records with tokens that follow from their bytes."""
    before: dict[str, int] = {}
    for record in records:
        asked = record.decision.input
        tokens = asked.size // _BYTES
        goes_on = asked.purpose is Purpose.TOOL_ITERATION or asked.purpose is Purpose.COMPACTION
        cached = min(before.get(asked.session, 0), tokens) if goes_on else 0
        before[asked.session] = tokens
        out = _TITLE if asked.purpose is Purpose.TITLE else _ANSWER
        attempts = tuple(
            msgspec.structs.replace(each, input_tokens=tokens, cached_tokens=cached, output_tokens=out)
            for each in record.attempts
        )
        yield msgspec.structs.replace(record, attempts=attempts)


def _try(case: Case, modules: Path, home: Path) -> list[Record]:
    _Delegating.kind = case.subagent
    task = _Delegating if case.subagent else case.task
    agents.try_one(case.agent, [case.agent.speaks], modules, home, task)
    ledger = SqliteLedger(home / "ledger.sqlite")
    try:
        return list(_estimated(list(ledger.records())))
    finally:
        ledger.close()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("modules", type=Path)
    parser.add_argument("--cline", type=Path, help="node_modules with cline")
    parser.add_argument("--aider", type=Path, help="the program aider")
    parser.add_argument("--only", default="", help="runs whose name begins so")
    parser.add_argument("--keep", type=Path, help="keep homes, logs and bodies in this folder")
    options = parser.parse_args()
    agents._CONFIGURATION, agents._UPSTREAM, agents._TIMEOUT = _CONFIGURATION, _UPSTREAM, 90.0
    wrong, everything = 0, []
    print("| run | requests by role | as made | project |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        for case in _cases(options.cline, options.aider):
            if not case.name.startswith(options.only):
                continue
            home = (options.keep or Path(temporary)) / f"{case.name}-{time.time():.0f}".replace(
                " ", "-"
            ).replace("/", "")
            records = _try(case, options.modules.resolve(), home.resolve())
            everything += records if case.is_counted else []
            found = Counter(name_of(r.decision.input.role, r.decision.input.purpose) for r in records)
            right = all(found[name] for name in case.some) and not any(found[name] for name in case.never)
            wrong += not right
            projects = {record.decision.input.project[:2] for record in records}
            shown = ", ".join(f"{name or '(none)'} {count}" for name, count in found.most_common())
            print(f"| {case.name} | {shown} | {right} | {' '.join(sorted(projects))} |", flush=True)
    print()
    report = roles(everything, _PRICES)
    print("\n".join(plain_lines(report.blocks())))
    print(json.dumps({"saved": report.saved, "cost": report.cost}))
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
