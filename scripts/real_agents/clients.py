"""How each agent is started with a base URL and a key alone: its own default models and tools."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pointsman.vocabulary import WireFormat
from real_agents.upstream import CALLERS_KEY

__all__ = ["AGENTS", "TASK", "Agent", "Started", "run"]

TASK = "Read first.txt and second.txt, write a report about them to report.txt, and show me the report."
_AI_SDK = Path(__file__).parent / "ai_sdk.mjs"


class Started(NamedTuple):
    """A command line and the environment beside PATH and HOME."""

    command: list[str]
    environment: dict[str, str]


class Agent(NamedTuple):
    """An agent: the format it speaks, where it is, and how to start it.

    Without "auto" in its name it asks for the models that it asks for unless told otherwise.
    """

    name: str
    speaks: WireFormat
    package: str  # whose version is told
    start: Callable[[Path, str, Path], Started]  # node_modules, base URL without a path, work folder

    def version(self, modules: Path) -> str:
        """The version that is installed; empty when none is."""
        file = modules / self.package / "package.json"
        return str(json.loads(file.read_text())["version"]) if file.exists() else ""


def _claude(modules: Path, base: str, folder: Path) -> Started:
    del folder
    command = [str(modules / ".bin/claude"), "-p", TASK, "--dangerously-skip-permissions"]
    return Started(
        command,
        {
            "ANTHROPIC_BASE_URL": base,
            "ANTHROPIC_AUTH_TOKEN": CALLERS_KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",  # permits to skip permissions as root
        },
    )


def _claude_auto(modules: Path, base: str, folder: Path) -> Started:
    """As the banner of ``serve`` prints it."""
    started = _claude(modules, base, folder)
    return started._replace(command=[*started.command, "--model", "auto"])


def _codex(*more: str) -> Callable[[Path, str, Path], Started]:
    def start(modules: Path, base: str, folder: Path) -> Started:
        del folder
        options = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        settings = ["-c", f'openai_base_url="{base}/v1"', "-c", "check_for_update_on_startup=false"]
        command = [str(modules / ".bin/codex"), "exec", *options, *settings, *more, TASK]
        return Started(command, {"OPENAI_API_KEY": CALLERS_KEY, "CODEX_API_KEY": CALLERS_KEY})

    return start


def _codex_auto(modules: Path, base: str, folder: Path) -> Started:
    """As the banner of ``serve`` prints it."""
    provider = f'{{name="Pointsman", base_url="{base}/v1", wire_api="responses", env_key="OPENAI_API_KEY"}}'
    settings = ("-c", "model_provider=pointsman", "-c", f"model_providers.pointsman={provider}", "-m", "auto")
    return _codex(*settings)(modules, base, folder)


def _opencode(provider: str, *more: str) -> Callable[[Path, str, Path], Started]:
    def start(modules: Path, base: str, folder: Path) -> Started:
        del folder
        spoken: dict[str, object] = {"options": {"baseURL": f"{base}/v1", "apiKey": CALLERS_KEY}}
        if provider == "pointsman":  # as the banner of ``serve`` prints it
            spoken |= {"npm": "@ai-sdk/openai-compatible", "models": {"auto": {}}}
        settings = {
            "provider": {provider: spoken},
            "permission": "allow",
            "share": "disabled",
            "autoupdate": False,
        }
        return Started(
            [str(modules / ".bin/opencode"), "run", *more, TASK],
            {
                "OPENCODE_CONFIG_CONTENT": json.dumps(settings),
                "OPENCODE_DISABLE_AUTOUPDATE": "1",
                "OPENCODE_DISABLE_MODELS_FETCH": "1",
                "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            },
        )

    return start


def _qwen(modules: Path, base: str, folder: Path) -> Started:
    del folder
    command = [str(modules / ".bin/qwen"), "--auth-type", "openai", "--yolo", TASK]
    environment = {"OPENAI_BASE_URL": f"{base}/v1", "OPENAI_API_KEY": CALLERS_KEY, "OPENAI_MODEL": "auto"}
    return Started(command, environment)


def _ai_sdk(provider: str, model: str, **more: str) -> Callable[[Path, str, Path], Started]:
    """``WHOLE``: by ``generateText``, which checks a whole answer more strictly than ``streamText``."""

    def start(modules: Path, base: str, folder: Path) -> Started:
        del modules
        arguments = [provider, f"{base}/v1", CALLERS_KEY, model, str(folder), TASK]
        return Started(["node", str(_AI_SDK), *arguments], more)

    return start


_CHAT, _RESPONSES, _MESSAGES = WireFormat.CHAT, WireFormat.RESPONSES, WireFormat.MESSAGES
AGENTS = (
    Agent("Claude Code", _MESSAGES, "@anthropic-ai/claude-code", _claude),
    Agent("Claude Code, auto", _MESSAGES, "@anthropic-ai/claude-code", _claude_auto),
    Agent("Codex", _RESPONSES, "@openai/codex", _codex()),
    Agent("Codex, gpt-5.5", _RESPONSES, "@openai/codex", _codex("-m", "gpt-5.5")),
    Agent("Codex, auto", _RESPONSES, "@openai/codex", _codex_auto),
    Agent("opencode, anthropic", _MESSAGES, "opencode-ai", _opencode("anthropic")),
    Agent("opencode, openai", _RESPONSES, "opencode-ai", _opencode("openai")),
    Agent("opencode, auto", _CHAT, "opencode-ai", _opencode("pointsman", "--model", "pointsman/auto")),
    Agent("Qwen Code", _CHAT, "@qwen-code/qwen-code", _qwen),
    Agent("AI SDK, openai", _RESPONSES, "@ai-sdk/openai", _ai_sdk("openai", "gpt-5")),
    Agent("AI SDK, anthropic", _MESSAGES, "@ai-sdk/anthropic", _ai_sdk("anthropic", "claude-sonnet-4-5")),
    Agent("AI SDK, compatible", _CHAT, "@ai-sdk/openai-compatible", _ai_sdk("compatible", "gpt-5")),
    Agent("AI SDK, openai, whole", _RESPONSES, "@ai-sdk/openai", _ai_sdk("openai", "gpt-5", WHOLE="1")),
    Agent(
        "AI SDK, anthropic, whole",
        _MESSAGES,
        "@ai-sdk/anthropic",
        _ai_sdk("anthropic", "claude-sonnet-4-5", WHOLE="1"),
    ),
    Agent(
        "AI SDK, compatible, whole",
        _CHAT,
        "@ai-sdk/openai-compatible",
        _ai_sdk("compatible", "gpt-5", WHOLE="1"),
    ),
)


def run(
    agent: Agent, modules: Path, base: str, home: Path, timeout: float, *prompt: str
) -> subprocess.CompletedProcess[str]:
    """Run an agent to its end, in ``home/work``. Raises ``subprocess.TimeoutExpired``.

    Args:
        agent: The agent.
        modules: Its ``node_modules``.
        base: URL of the gateway, without a path.
        home: Its home.
        timeout: In seconds.
        prompt: Another task, behind more options of the agent.
    """
    folder = home / "work"
    started = agent.start(modules, base, folder)
    if prompt:
        at = started.command.index(TASK)
        started.command[at : at + 1] = prompt
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(home), **started.environment}
    where = modules.parent if started.command[0] == "node" else folder
    return subprocess.run(
        started.command,
        cwd=where,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
