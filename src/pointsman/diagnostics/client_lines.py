"""The lines that a person copies for each client: into a shell, or for an SDK into Python."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from pointsman.config import Config
from pointsman.diagnostics.clients import Verdict
from pointsman.vocabulary import WireFormat

__all__ = ["PLACEHOLDER", "CallerKey", "Command", "lines_to_copy", "split_line"]

#: Names the model of Claude Code's small calls, where its own name for it is refused.
_SMALL_MODEL: Final = "ANTHROPIC_DEFAULT_HAIKU_MODEL=simple "

_ASSIGNMENT: Final = re.compile(r"[A-Z_]+=")
_VARIABLE: Final = re.compile(r"\$(\w+)")

#: Stands for a key that is asked for and not known.
PLACEHOLDER: Final = "YOUR-POINTSMAN-KEY"


class CallerKey(NamedTuple):
    """The key that callers present, as the lines write it."""

    is_asked: bool = False
    variable: str = ""  # of the environment, that holds it; empty: it is not known, or none is asked

    @property
    def shell(self) -> str:
        """The key as a word of a shell."""
        if self.variable:
            return f'"${self.variable}"'
        return PLACEHOLDER if self.is_asked else "any"

    @property
    def words(self) -> str:
        """The key as the form of an editor takes it."""
        return f"the value of {self.variable}" if self.variable else self.shell

    @property
    def python(self) -> str:
        """The key as a Python expression."""
        if self.variable:
            return f'os.environ["{self.variable}"]'
        return f'"{PLACEHOLDER if self.is_asked else "any"}"'


def lines_to_copy(config: Config, verdicts: Iterable[Verdict], url: str, key: CallerKey) -> dict[str, str]:
    """Return by client the line that a person copies, for the clients of these verdicts.

    Args:
        config: What is served.
        verdicts: Of clients that work with it.
        url: Of the gateway, without a path.
        key: What callers present.
    """
    found = _copied_lines(url, key, _forwarded_formats(config))
    return {
        verdict.client.name: (_SMALL_MODEL if verdict.refused else "") + found[verdict.client.name]
        for verdict in verdicts
    }


class Command(NamedTuple):
    """A line of a shell, taken apart."""

    arguments: list[str]  # the first is the program
    environment: dict[str, str]


def split_line(line: str, env: Mapping[str, str]) -> Command:
    """Return what a shell makes of a line of ``lines_to_copy``: its variables, and the program's arguments.

    Args:
        line: Of an agent, which begins with the variables that it sets.
        env: Holds the variables to which the line refers.
    """
    words = [_expanded(word, env) for word in shlex.split(line)]
    first = next(place for place, word in enumerate(words) if not _ASSIGNMENT.match(word))
    return Command(words[first:], dict(word.split("=", 1) for word in words[:first]))


def _expanded(word: str, env: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda found: env.get(found[1], found[0]), word)


def _forwarded_formats(config: Config) -> frozenset[WireFormat]:
    """Return the formats of the upstreams that take the caller's own credential."""
    upstreams = (upstream for upstream in config.upstreams.values() if upstream.forward_auth)
    return frozenset(wire for upstream in upstreams for wire in upstream.formats)


def _copied_lines(
    url: str, key: CallerKey, forwarded: frozenset[WireFormat] = frozenset()
) -> Mapping[str, str]:
    """Return by client what a person copies: into a shell, for an SDK into Python.

    Args:
        url: Of the gateway, without a path.
        key: What callers present.
        forwarded: Formats in which agents present a credential of their own instead.
    """
    header = f'-H "authorization: Bearer {key.shell.strip(chr(34))}" ' if key.is_asked else ""
    hello = json.dumps({"model": "auto", "messages": [{"role": "user", "content": "Hello!"}]})
    imported = "import os; " if key.variable else ""
    openai = f'{imported}from openai import OpenAI; print(OpenAI(base_url="{url}/v1", api_key={key.python})'
    messages = 'messages=[{"role": "user", "content": "Hello!"}]'
    return {
        "curl": f"curl {url}/v1/chat/completions {header}-H 'content-type: application/json' -d '{hello}'",
        "OpenAI SDK, chat": f'{openai}.chat.completions.create(model="auto", {messages})'
        ".choices[0].message.content)",
        "OpenAI SDK": f'{openai}.responses.create(model="auto", input="Hello!").output_text)',
        # By type: models of today may think first.
        "Anthropic SDK": f"{imported}from anthropic import Anthropic; print(*(block.text for block in "
        f'Anthropic(base_url="{url}", api_key={key.python}).messages.create(model="auto", max_tokens=4096, '
        f'{messages}).content if block.type == "text"))',
        "Claude Code": f"ANTHROPIC_BASE_URL={url} "
        f"{_claude_code(key, own=WireFormat.MESSAGES in forwarded)}claude --model auto",
        "Codex": _codex(url, key, own=WireFormat.RESPONSES in forwarded),
        "opencode": _opencode(url, key),
        "Qwen Code": f"OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY={key.shell} OPENAI_MODEL=auto "
        "qwen --auth-type openai",
        "aider": f"OPENAI_API_BASE={url}/v1 OPENAI_API_KEY={key.shell} aider --model openai/auto",
        "Cline": f'provider "OpenAI Compatible", base URL {url}/v1, API key {key.words}, model ID auto',
        "Cursor": f'"Override OpenAI Base URL" https://YOUR-ADDRESS/v1, API key {key.words}, model auto',
    }


def _claude_code(key: CallerKey, *, own: bool) -> str:
    """Return the variables that say who calls; ``own``: the login of a subscription does."""
    if not own:
        return f"ANTHROPIC_AUTH_TOKEN={key.shell} "
    bare = key.shell.strip('"')
    return f'ANTHROPIC_CUSTOM_HEADERS="x-pointsman-key: {bare}" ' if key.is_asked else ""


def _codex(url: str, key: CallerKey, *, own: bool) -> str:
    given, env_key = ("", "")
    if key.is_asked:
        given, env_key = f"POINTSMAN_KEY={key.shell} ", ', env_key="POINTSMAN_KEY"'
    if own:
        sent = ', env_http_headers={"x-pointsman-key"="POINTSMAN_KEY"}' if key.is_asked else ""
        env_key = f", requires_openai_auth=true{sent}"
    provider = f'{{name="Pointsman", base_url="{url}/v1", wire_api="responses"{env_key}}}'
    return f"{given}codex -c model_provider=pointsman -c 'model_providers.pointsman={provider}' -m auto"


def _opencode(url: str, key: CallerKey) -> str:
    api_key = f"'{key.shell}'" if key.variable else key.shell  # out of the quotes, for the shell to expand
    options = {"baseURL": f"{url}/v1", "apiKey": api_key}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"auto": {}}}
    content = json.dumps({"provider": {"pointsman": provider}}, ensure_ascii=False)
    content = content.replace(json.dumps(api_key), f'"{api_key}"')
    return f"OPENCODE_CONFIG_CONTENT='{content}' opencode --model pointsman/auto"
