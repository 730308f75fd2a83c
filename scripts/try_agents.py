"""Real agents do a task over a strict upstream of each format, through the gateway, with the base URL alone.

    npm install --prefix /tmp/agents @anthropic-ai/claude-code @openai/codex opencode-ai \
        ai zod @ai-sdk/openai @ai-sdk/anthropic @ai-sdk/openai-compatible
    python scripts/try_agents.py /tmp/agents/node_modules [--only NAME] [--upstream FORMAT] [--keep FOLDER]

The upstream is scripted (``scripts/real_agents``): it lets the agent look, read two files at once, fail,
write a file and show it, reasons before each answer, and refuses what a provider would refuse: fields it
does not know, calls it never made, results that are missing or out of order, reasoning that is not its
own. Of each agent and format is checked that the file is what it should be, that the agent ended with
status 0 and the upstream's last words, and that neither upstream nor gateway refused anything. What is
not installed is left out. Everything stays on this machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from real_agents.clients import AGENTS, Agent, run
from real_agents.gateway import free_port, running
from real_agents.record import Recorder, Seen
from real_agents.task import DONE, FILE, Provider, Task
from real_agents.upstream import UPSTREAMS_KEY, scripted, serving

from pointsman.vocabulary import WireFormat

_TIMEOUT = 180.0  # seconds for one agent's task
_CONFIGURATION = """
[server]
port = {port}

{upstreams}
[tiers]
simple = {models}
medium = {models}
complex = {models}
reasoning = {models}

[ledger]
path = "{folder}/ledger.sqlite"
"""
_UPSTREAM = """
[upstreams.{spoken}]
base_url = "http://127.0.0.1:{port}/v1"
formats = ["{spoken}"]
api_key = "${{UPSTREAM_KEY}}"

[models.{spoken}-model]
upstream = "{spoken}"
id = "scripted-1"
"""


class Run(NamedTuple):
    """How one agent did on one upstream."""

    turns: str
    wrong: list[str]
    changed: list[str]
    seconds: float


@contextmanager
def gateway(upstreams: Mapping[WireFormat, int], folder: Path, more: str = "") -> Iterator[int]:
    """Run a gateway over upstreams by format, with more tables in its configuration; give its port."""
    port = free_port()
    file = folder / "pointsman.toml"
    tables = "".join(_UPSTREAM.format(spoken=spoken, port=at) for spoken, at in upstreams.items())
    models = json.dumps([f"{spoken}-model" for spoken in upstreams])
    text = _CONFIGURATION.format(port=port, upstreams=tables, models=models, folder=folder)
    file.write_text(text + more, encoding="utf-8")
    with running(file, port, os.environ | {"UPSTREAM_KEY": UPSTREAMS_KEY}):
        yield port


def try_one(agent: Agent, formats: Sequence[WireFormat], modules: Path, home: Path) -> Run:
    """Let an agent do the task. Of several upstreams each is up at the steps that are its own, in turn."""
    folder = home / "work"
    folder.mkdir(parents=True)
    kept = home / "asked"
    kept.mkdir()
    task = Task(str(folder))
    for name, text in task.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    began = time.monotonic()
    providers = {spoken: Provider(spoken, task) for spoken in formats}
    with ExitStack() as stack:
        ports = {}
        for at, (spoken, provider) in enumerate(providers.items()):
            up = range(at + 1, 99, len(formats))
            ports[spoken] = stack.enter_context(serving(scripted(provider, kept, only=up)))
        recorder = Recorder(stack.enter_context(gateway(ports, home)))
        try:
            done = run(agent, modules, f"http://127.0.0.1:{recorder.port}", home, _TIMEOUT)
            wrong = check(task, folder, done, recorder.seen)
        except subprocess.TimeoutExpired:
            wrong = [f"not finished after {_TIMEOUT:.0f} s", *task.refusals[:3]]
    extras = [f"{task.parallel} parallel"] if task.parallel else []
    extras += [f"{task.without_arguments} without arguments"] if task.without_arguments else []
    if back := sum(len(provider.returned) for provider in providers.values()):
        extras.append(f"{back} with their reasoning back")
    turns = f"{task.turns} ({', '.join(extras)})" if extras else str(task.turns)
    changed = dict.fromkeys(name for each in recorder.seen for name in each.changed)
    return Run(turns, wrong, list(changed), time.monotonic() - began)


def check(
    task: Task, folder: Path, done: subprocess.CompletedProcess[str], seen: Sequence[Seen]
) -> list[str]:
    """What is wrong with a run; nothing, if it went as it should."""
    wrong = [f"refused: {refusal}" for refusal in task.refusals[:3]]
    file = folder / FILE
    written = file.read_text(encoding="utf-8") if file.exists() else ""
    if written.strip() != task.report.strip():
        wrong.append(f"{FILE} is {written!r}")
    if done.returncode:
        wrong.append(f"status {done.returncode}: {done.stderr[-300:]!r}")
    if f"{DONE} {task.secrets[1]}" not in done.stdout:
        wrong.append(f"the last words are missing: {(done.stdout + done.stderr)[-400:]!r}")
    # Codex tries a WebSocket first; 426 tells it that there is none.
    bad = [each for each in seen if each.status >= 400 and each.status != 426]
    return wrong + [f"{each.method} {each.path}: {each.status}" for each in bad[:3]]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("modules", type=Path, help="the node_modules folder of the agents")
    parser.add_argument("--only", default="", help="agents whose name holds this")
    parser.add_argument("--upstream", type=WireFormat, choices=list(WireFormat), help="this format alone")
    parser.add_argument(
        "--switch", action="store_true", help="another upstream for each step, of all formats"
    )
    parser.add_argument("--keep", type=Path, help="keep homes, logs and bodies in this folder")
    options = parser.parse_args()
    formats = [[options.upstream]] if options.upstream else [[spoken] for spoken in WireFormat]
    if options.switch:
        formats = [[WireFormat.MESSAGES, WireFormat.RESPONSES, WireFormat.CHAT]]
    failed = 0
    print("| agent | version | speaks | upstream | turns | result | reported as changed |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        top = options.keep or Path(temporary)
        for agent in AGENTS:
            if options.only.lower() not in agent.name.lower():
                continue
            version = agent.version(options.modules)
            if not version:
                print(f"| {agent.name} | not installed | | | | left out | |")
                continue
            for spoken in formats:
                shown = ", ".join(spoken)
                home = top / f"{agent.name}-{shown}-{time.time():.0f}".replace(", ", "-").replace(" ", "-")
                result = try_one(agent, spoken, options.modules.resolve(), home)
                failed += bool(result.wrong)
                changed = ", ".join(result.changed) or ("–" if spoken == [agent.speaks] else "nothing")
                cells = (agent.name, version, agent.speaks, shown, result.turns)
                print(
                    f"| {' | '.join(cells)} | {'; '.join(result.wrong) or 'done'} | {changed} |", flush=True
                )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
