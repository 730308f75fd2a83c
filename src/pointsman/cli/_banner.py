"""What ``pointsman serve`` prints at its start: a line to copy for each client that will work."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from pointsman.config import Config
from pointsman.diagnostics.clients import Verdict, judge_clients
from pointsman.vocabulary import Tier, WireFormat

__all__ = ["CallerKey", "banner"]

_PLACEHOLDER: Final = "YOUR-POINTSMAN-KEY"
#: Names the model of Claude Code's small calls, where its own name for it is refused.
_SMALL_MODEL: Final = "ANTHROPIC_DEFAULT_HAIKU_MODEL=simple "
#: Columns of a client's name.
_NAME: Final = 18


class CallerKey(NamedTuple):
    """The key that callers present, as the lines write it."""

    is_asked: bool = False
    variable: str = ""  # of the environment, that holds it; empty: it is not known, or none is asked

    @property
    def shell(self) -> str:
        """The key as a word of a shell."""
        if self.variable:
            return f'"${self.variable}"'
        return _PLACEHOLDER if self.is_asked else "any"

    @property
    def words(self) -> str:
        """The key as the form of an editor takes it."""
        return f"the value of {self.variable}" if self.variable else self.shell

    @property
    def python(self) -> str:
        """The key as a Python expression."""
        if self.variable:
            return f'os.environ["{self.variable}"]'
        return f'"{_PLACEHOLDER if self.is_asked else "any"}"'


def banner(config: Config, url: str, key: CallerKey) -> str:
    """Return the lines for the clients that work with a configuration, and why others do not.

    Args:
        config: What is served.
        url: Of the gateway, without a path.
        key: What callers present.
    """
    verdicts = judge_clients(config)
    working = [verdict for verdict in verdicts if verdict.works]
    lines = [f"Pointsman listens on {url}. {'Copy what you need:' if working else ''}".rstrip()]
    if key.is_asked and not key.variable:
        lines.append(f"Put one of the keys of [server] in the place of {_PLACEHOLDER}.")
    lines += ["", *_lines(working, url, key, _forwarded_formats(config))]
    for verdict in working:
        if verdict.warning:
            lines.append(f"Warning, {verdict.client.name}: {verdict.warning}.")
    lines += _forwarding(config, key)
    lines += _not_working(verdicts)
    models = ", ".join(["auto", *(tier.lower() for tier in Tier if tier in config.tiers.models)])
    lines.append(f"\nModels: {models}, and every configured one. Decisions: {url}/v1/decisions/ID")
    lines.append(f"Ledger: {config.ledger.path}")
    return "\n".join(lines) + "\n"


def _forwarded_formats(config: Config) -> frozenset[WireFormat]:
    """Return the formats of the upstreams that take the caller's own credential."""
    upstreams = (upstream for upstream in config.upstreams.values() if upstream.forward_auth)
    return frozenset(wire for upstream in upstreams for wire in upstream.formats)


def _forwarding(config: Config, key: CallerKey) -> Iterator[str]:
    names = [f'"{name}"' for name, upstream in config.upstreams.items() if upstream.forward_auth]
    if names:
        beside = ", and a key of [server] in the header x-pointsman-key" if key.is_asked else ""
        yield f"\nUpstream {', '.join(names)} takes the caller's own credential (forward_auth):"
        yield f"log in with the agent; other clients send theirs in the place of the API key{beside}."


def _lines(
    working: list[Verdict], url: str, key: CallerKey, forwarded: frozenset[WireFormat]
) -> Iterator[str]:
    to_copy = copied_lines(url, key, forwarded)
    for verdict in working:
        own = _SMALL_MODEL if verdict.refused else ""
        yield f"  {verdict.client.name:<{_NAME}}{own}{to_copy[verdict.client.name]}"


def _not_working(verdicts: list[Verdict]) -> Iterator[str]:
    without = [verdict for verdict in verdicts if not verdict.works]
    if without:
        yield "\nNot with this configuration:"
    for verdict in without:
        hint = f" (hint: {verdict.hint})" if verdict.hint else ""
        yield f"  {verdict.client.name:<{_NAME}}{verdict.detail}{hint}"


def copied_lines(
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
