"""Real agents get stuck behind the gateway, and are told so once.

An upstream that follows a script makes each agent run a failing command five times, and then lets it finish.
Checked for each agent: the hint is in the body of the request after the third failure and in no other; that
body is otherwise the agent's own, byte for byte; and the agent finishes.

    npm install --prefix /tmp/agents @anthropic-ai/claude-code @openai/codex opencode-ai
    python scripts/stuck_agents.py /tmp/agents/node_modules/.bin

Agents that are not there are left out. Everything stays on this machine.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from real_agents.gateway import free_port, running
from real_agents.tap import Tap
from real_agents.upstream import serving
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from pointsman.vocabulary import WireFormat
from pointsman.wire import FORMATS, Reply
from pointsman.wire.request import read_request

PATHS = {
    "/v1/chat/completions": WireFormat.CHAT,
    "/v1/responses": WireFormat.RESPONSES,
    "/v1/messages": WireFormat.MESSAGES,
}
FAILURES = 5
HINT_AFTER = 3  # the default policy's streak of errors
MARK = b"pointsman source="
MODEL = re.compile(rb'"model"\s*:\s*"[^"]*"')
DONE = "All done, nothing left to do."


def shell_call(tools: tuple[str, ...], number: int) -> tuple[str, dict[str, Any]] | None:
    """A failing command for whichever shell tool the agent offers."""
    command = f"cat missing-{number}.txt"
    arguments: dict[str, dict[str, Any]] = {
        "Bash": {"command": command, "description": "Read a file"},  # Claude Code
        "bash": {"command": command, "description": "Read a file"},  # opencode
        "exec_command": {"cmd": command},  # Codex
        "shell_command": {"command": command},
        "shell": {"command": ["bash", "-lc", command]},
    }
    return next(((name, arguments[name]) for name in arguments if name in tools), None)


class Upstream:
    """Speaks all three formats by a script, and keeps the bodies it got."""

    def __init__(self) -> None:
        self.bodies: list[tuple[WireFormat, bytes]] = []

    async def answer(self, request: Request) -> Response:
        """Call the shell until it has failed often enough, then say that all is done."""
        body = await request.body()
        wire = FORMATS[PATHS[request.url.path]]
        agent_request = read_request(wire.format, body)
        failed = sum(len(message.results) for message in agent_request.history)
        call = shell_call(agent_request.tools, failed) if failed < FAILURES else None
        if agent_request.tools:
            self.bodies.append((wire.format, body))
        reply = Reply(
            id=os.urandom(8).hex(),
            model=agent_request.model,
            text="" if call else DONE,
            tool=call[0] if call else "",
            arguments=call[1] if call else {},
            input_tokens=10,
            output_tokens=10,
            created=int(time.time()),
            wants_usage=b"include_usage" in body,
        )
        if json.loads(body).get("stream"):
            return StreamingResponse(wire.answer_events(reply), media_type="text/event-stream")
        return Response(wire.answer(reply), media_type="application/json")

    def app(self) -> Starlette:
        """The routes of the three formats."""
        paths = [Route(path, self.answer, methods=["POST"]) for path in PATHS]
        models = Route("/v1/models", lambda _: JSONResponse({"object": "list", "data": []}))
        return Starlette(routes=[*paths, models])


def bodies_in(stream: bytes) -> Iterator[bytes]:
    """The bodies of HTTP/1.1 requests sent one after another on one connection."""
    while b"\r\n\r\n" in stream:
        head, _, rest = stream.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length:\s*(\d+)", head)
        if re.search(rb"(?i)\r\ntransfer-encoding:\s*chunked", head):
            body, stream = unchunked(rest)
        else:
            size = int(length[1]) if length else 0
            body, stream = rest[:size], rest[size:]
        if body:
            yield body


def unchunked(rest: bytes) -> tuple[bytes, bytes]:
    parts = []
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size.split(b";")[0], 16)
        parts.append(rest[:length])
        rest = rest[length + 2 :]
        if length == 0:
            break
    return b"".join(parts), rest


@contextmanager
def gateway(upstream: int, directory: Path) -> Iterator[int]:
    port = free_port()
    file = directory / "pointsman.toml"
    file.write_text(
        f"""
[server]
port = {port}

[upstreams.script]
base_url = "http://127.0.0.1:{upstream}/v1"
formats = ["chat", "responses", "messages"]

[models]
one = {{ upstream = "script", id = "scripted" }}

[tiers]
simple = "one"
medium = "one"
complex = "one"
reasoning = "one"

[guidance]
mode = "on"
control = 0.0

[ledger]
path = "{directory}/ledger.sqlite"
""",
        encoding="utf-8",
    )
    with running(file, port):
        yield port


def agents(binaries: Path, base: str, home: Path) -> Iterator[tuple[str, list[str]]]:
    """Name and command line of each agent, configured for the gateway only."""
    task = "Read the file and tell me what is in it."
    yield "claude", [str(binaries / "claude"), "-p", task, "--model", "auto", "--allowedTools", "Bash"]
    provider = f'{{name="p", base_url="{base}/v1", wire_api="responses", env_key="OPENAI_API_KEY"}}'
    codex = ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-m", "auto"]
    settings = ["-c", 'model_provider="p"', "-c", f"model_providers.p={provider}"]
    yield "codex", [str(binaries / "codex"), *codex, *settings, task]
    options = {"baseURL": f"{base}/v1", "apiKey": "none"}
    models = {"auto": {"name": "auto", "tool_call": True, "limit": {"context": 128_000, "output": 8_000}}}
    provider_of_opencode = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": models}
    (home / "opencode.json").write_text(
        json.dumps({"provider": {"p": provider_of_opencode}, "permission": {"bash": "allow"}}),
        encoding="utf-8",
    )
    yield "opencode", [str(binaries / "opencode"), "run", "--model", "p/auto", task]


def check(upstream: list[tuple[WireFormat, bytes]], sent: list[bytes], answer: str) -> list[str]:
    """What is wrong with a run; nothing, if it went as it should."""
    wrong = [] if DONE in answer else [f"the agent did not finish: {answer[-300:]!r}"]
    seen: dict[int, int] = {}
    for wire, body in upstream:
        failures = sum(len(message.results) for message in read_request(wire, body).history)
        seen[failures] = seen.get(failures, 0) + body.count(MARK)
    if sum(seen.values()) != 1 or seen.get(HINT_AFTER) != 1:
        wrong.append(f"hints by number of failures: {seen}")
    for _, body in upstream:
        if MARK in body and not any(is_own_with_insertion(body, own) for own in sent):
            wrong.append("the body with the hint is not the agent's own with one insertion")
    return wrong


def is_own_with_insertion(body: bytes, own: bytes) -> bool:
    """True when a body is another one with a single piece put in, the model's name apart."""
    body, own = MODEL.sub(b"", body, 1), MODEL.sub(b"", own, 1)
    same = next((n for n, (ours, its) in enumerate(zip(body, own, strict=False)) if ours != its), len(own))
    rest = own[same:]
    return len(body) > len(own) and body.endswith(rest) and MARK in body[same : len(body) - len(rest)]


def main() -> int:
    binaries = Path(sys.argv[1])
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        for name in ("claude", "codex", "opencode"):
            if not (binaries / name).exists():
                print(f"{name:10} not installed")
                continue
            home = Path(temporary) / name
            home.mkdir()
            wrong = run(name, binaries, home)
            print(
                f"{name:10} {'; '.join(wrong) or 'told once, after the third failure, nothing else changed'}"
            )
            failed += bool(wrong)
    return failed


def run(name: str, binaries: Path, home: Path) -> list[str]:
    script = Upstream()
    with serving(script.app()) as upstream, gateway(upstream, home) as port:
        tap = Tap(port)
        base = f"http://127.0.0.1:{tap.port}"
        command = dict(agents(binaries, base, home))[name]
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "ANTHROPIC_BASE_URL": base,
            "ANTHROPIC_API_KEY": "none",
            "OPENAI_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }
        done = subprocess.run(
            command,
            cwd=home,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return check(
            script.bodies,
            [body for sent in tap.asked for body in bodies_in(bytes(sent))],
            done.stdout + done.stderr,
        )


if __name__ == "__main__":
    sys.exit(main())
