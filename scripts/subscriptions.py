"""Agents with a subscription, through a gateway with keys, to an upstream with ``forward_auth``.

Claude Code and Codex log in as for a subscription (with tokens that nobody has issued) and ask one question.
Checked for each: the upstream got the agent's own token and none of the gateway's keys, and the agent printed
the answer.

    npm install --prefix /tmp/agents @anthropic-ai/claude-code @openai/codex
    python scripts/subscriptions.py /tmp/agents/node_modules/.bin

Agents that are not there are left out. What they ask of this gateway stays on this machine.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from pointsman.config import load
from pointsman.gateway.build import Builder
from support.requests_by_format import answer, events, format_of
from support.servers import Asked, ScriptedUpstream, gateway, reply

KEY = "the-key-of-the-gateway"
SAID = "Paris, of course."
CLAIMS = {
    "exp": 4_102_444_800,  # 2100
    "email": "a@example.com",
    "https://api.openai.com/auth": {"chatgpt_plan_type": "plus", "chatgpt_account_id": "account-1"},
}
CONFIG = """
[server]
port = 0
keys = ["${{KEY}}"]

[upstreams.subscription]
base_url = "{url}/v1"
formats = ["messages", "responses"]
forward_auth = true

[models]
model = {{ upstream = "subscription", id = "model-1" }}

[tiers]
simple = "model"
medium = "model"
complex = "model"
reasoning = "model"

[ledger]
path = "{directory}/ledger.sqlite"
"""
CODEX = """
model_provider = "pointsman"
model = "auto"

[model_providers.pointsman]
name = "Pointsman"
base_url = "{url}/v1"
wire_api = "responses"
requires_openai_auth = true
env_http_headers = {{ "x-pointsman-key" = "POINTSMAN_KEY" }}
"""


async def provider(asked: Asked, send: Any) -> None:
    wire = format_of(asked.path)
    if json.loads(asked.body).get("stream"):
        await reply(send, 200, b"".join(events(wire)), ("content-type", "text/event-stream"))
    else:
        await reply(send, 200, answer(wire))


def a_jwt() -> str:
    """A token of the shape that Codex reads, signed by nobody."""
    claims = base64.urlsafe_b64encode(json.dumps(CLAIMS).encode()).decode().rstrip("=")
    return f"eyJhbGciOiJub25lIn0.{claims}.c2ln"


def claude(url: str, _: Path) -> tuple[list[str], Mapping[str, str], str]:
    """Return the arguments, the environment, and the token that must arrive."""
    token = "sk-ant-oat01-" + "0" * 40
    variables = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_CUSTOM_HEADERS": f"x-pointsman-key: {KEY}",
        "CLAUDE_CODE_OAUTH_TOKEN": token,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    return ["-p", "hello"], variables, token


def codex(url: str, home: Path) -> tuple[list[str], Mapping[str, str], str]:
    """Return the arguments, the environment, and the token that must arrive."""
    token = a_jwt()
    tokens = {"id_token": token, "access_token": token, "refresh_token": "none", "account_id": "account-1"}
    login = {"OPENAI_API_KEY": None, "tokens": tokens, "last_refresh": "2099-01-01T00:00:00Z"}
    (home / "auth.json").write_text(json.dumps(login))
    (home / "config.toml").write_text(CODEX.format(url=url))
    return ["exec", "--skip-git-repo-check", "hello"], {"CODEX_HOME": str(home), "POINTSMAN_KEY": KEY}, token


AGENTS = {"claude": claude, "codex": codex}


def run(program: Path, url: str, upstream: ScriptedUpstream) -> str:
    """Let one agent ask, and say what was wrong with it."""
    with tempfile.TemporaryDirectory() as home:
        arguments, variables, token = AGENTS[program.name](url, Path(home))
        env = {"PATH": os.environ["PATH"], "HOME": home, **variables}
        done = subprocess.run(
            [program, *arguments], env=env, cwd=home, capture_output=True, text=True, timeout=120,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
    if SAID not in done.stdout:
        return f"did not answer: {done.stderr[-300:]}"
    for asked in upstream.asked:
        if asked.headers.get("authorization") != f"Bearer {token}":
            return "the agent's own token did not arrive"
        if KEY in str(asked.headers):
            return "the gateway's key left it"
    return "" if upstream.asked else "the upstream was not asked"


def main(folder: Path) -> int:
    upstream, failed = ScriptedUpstream(provider), 0
    with upstream.running() as url, tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "pointsman.toml"
        file.write_text(CONFIG.format(url=url, directory=directory))
        builder = Builder(lambda: load(file, {"KEY": KEY}))
        with gateway(builder()) as running:
            for name in AGENTS:
                if not (folder / name).exists():
                    continue
                upstream.asked.clear()
                wrong = run(folder / name, running.url, upstream)
                print(f"{name:8} {wrong or f'answered; {len(upstream.asked)} requests with its own token'}")
                failed += bool(wrong)
        builder.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
