"""Real agents get stuck behind the gateway, and are told so once.

A strict upstream that follows a script makes each agent run five failing commands, and then lets it finish.
Checked for each agent: one hint is in the body of each request from the third failure on, and in none before;
these bodies are otherwise the agent's own, byte for byte; and the agent finishes.

    npm install --prefix /tmp/agents @anthropic-ai/claude-code @openai/codex opencode-ai
    python scripts/stuck_agents.py /tmp/agents/node_modules

Agents that are not there are left out. Everything stays on this machine.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from real_agents.clients import AGENTS, Agent, run
from real_agents.record import Recorder
from real_agents.task import DONE, Provider, Stuck
from real_agents.upstream import scripted, serving
from try_agents import gateway

from pointsman.vocabulary import WireFormat
from pointsman.wire.request import read_request

HINT_AFTER = 3  # the default policy's streak of errors
MARK = b"pointsman source="
MODEL = re.compile(rb'"model"\s*:\s*"[^"]*"')
GUIDANCE = """
[guidance]
mode = "on"
control = 0.0
"""


def check(spoken: WireFormat, upstream: Sequence[bytes], sent: Sequence[bytes], answer: str) -> list[str]:
    """What is wrong with a run; nothing, if it went as it should."""
    wrong = [] if DONE in answer else [f"the agent did not finish: {answer[-300:]!r}"]
    for body in upstream:
        failures = sum(len(message.results) for message in read_request(spoken, body).history)
        if (hints := body.count(MARK)) != (failures >= HINT_AFTER):
            wrong.append(f"{hints} hints after {failures} failures")
        if hints and not any(is_own_with_insertion(body, own) for own in sent):
            wrong.append("a body with a hint is not the agent's own with one insertion")
    return wrong


def is_own_with_insertion(body: bytes, own: bytes) -> bool:
    """True when a body is another one with a single piece put in, the model's name apart."""
    body, own = MODEL.sub(b"", body, 1), MODEL.sub(b"", own, 1)
    same = next((n for n, (ours, its) in enumerate(zip(body, own, strict=False)) if ours != its), len(own))
    rest = own[same:]
    return len(body) > len(own) and body.endswith(rest) and MARK in body[same : len(body) - len(rest)]


def try_one(agent: Agent, modules: Path, home: Path) -> list[str]:
    """Let one agent get stuck; what was wrong."""
    (home / "work").mkdir(parents=True)
    provider = Provider(agent.speaks, Stuck(str(home / "work")))
    with (
        serving(scripted(provider)) as upstream,
        gateway({agent.speaks: upstream}, home, GUIDANCE) as port,
    ):
        recorder = Recorder(port)
        done = run(agent, modules, f"http://127.0.0.1:{recorder.port}", home, 300)
    sent = [each.body for each in recorder.seen]
    return check(agent.speaks, provider.asked, sent, done.stdout + done.stderr)


def main() -> int:
    modules = Path(sys.argv[1]).resolve()
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        for agent in AGENTS:
            if not agent.name.endswith("auto"):
                continue
            wrong = ["not installed"]
            if agent.version(modules):
                wrong = try_one(agent, modules, Path(temporary) / agent.name.replace(", ", "-"))
                failed += bool(wrong)
            said = "; ".join(wrong) or "told once, from the third failure on, nothing else changed"
            print(f"{agent.name:18} {said}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
