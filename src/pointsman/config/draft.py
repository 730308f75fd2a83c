"""The file ``pointsman config init`` writes: commented, complete, and right for the environment it finds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

__all__ = ["Found", "ModelDraft", "draft", "find_local", "find_providers"]


class ModelDraft(NamedTuple):
    """One line of [models]; prices per million tokens, None where unknown."""

    name: str
    id: str
    input_per_million: float | None = None
    output_per_million: float | None = None
    cached_in: float | None = None
    window: int | None = None


class Found(NamedTuple):
    """An upstream with a key in the environment, or on this machine. Its cheapest model comes first."""

    name: str
    base_url: str
    formats: tuple[str, ...]
    models: tuple[ModelDraft, ...]
    variable: str = ""  # holds the key


#: Providers by the variable their own SDKs read. Prices: each provider's list of October 2025, in dollars.
PROVIDERS: Final = (
    Found(
        "openai",
        "https://api.openai.com/v1",
        ("chat", "responses"),
        (
            ModelDraft("gpt-mini", "gpt-5-mini", 0.25, 2.00, 0.025, 400_000),
            ModelDraft("gpt", "gpt-5", 1.25, 10.00, 0.125, 400_000),
        ),
        "OPENAI_API_KEY",
    ),
    Found(
        "anthropic",
        "https://api.anthropic.com/v1",
        ("messages",),
        (
            ModelDraft("haiku", "claude-haiku-4-5", 1.00, 5.00, 0.10, 200_000),
            ModelDraft("sonnet", "claude-sonnet-4-5", 3.00, 15.00, 0.30, 200_000),
        ),
        "ANTHROPIC_API_KEY",
    ),
    Found(
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        ("chat",),
        (
            ModelDraft("flash", "gemini-2.5-flash", 0.30, 2.50, 0.03, 1_048_576),
            ModelDraft("pro", "gemini-2.5-pro", 1.25, 10.00, 0.125, 1_048_576),
        ),
        "GEMINI_API_KEY",
    ),
    Found(
        "openrouter",
        "https://openrouter.ai/api/v1",
        ("chat",),
        (
            ModelDraft("router-small", "google/gemini-2.5-flash", 0.30, 2.50, 0.03, 1_048_576),
            ModelDraft("router-large", "anthropic/claude-sonnet-4.5", 3.00, 15.00, 0.30, 200_000),
        ),
        "OPENROUTER_API_KEY",
    ),
)

#: What answers while nothing else is named: built in, no key, no network.
DEMO: Final = Found(
    "demo",
    "demo:",
    ("chat", "responses", "messages"),
    (ModelDraft("demo-small", "demo-small", 0.10, 0.50), ModelDraft("demo-large", "demo-large", 3.0, 15.0)),
)

#: Servers of models on this machine, at the ports their documentation names.
LOCAL: Final = (("ollama", 11434), ("lmstudio", 1234), ("vllm", 8000), ("llamacpp", 8080))

#: Seconds to wait for a server on this machine.
PATIENCE: Final = 0.5


def find_providers(env: Mapping[str, str]) -> list[Found]:
    """Return the providers whose key is in the environment."""
    return [provider for provider in PROVIDERS if env.get(provider.variable)]


def find_local(servers: Iterable[tuple[str, int]] = LOCAL) -> list[Found]:
    """Return the model servers that listen on this machine's loopback address."""
    found = []
    for name, port in servers:
        base_url = f"http://127.0.0.1:{port}/v1"
        if ids := _served(base_url):
            models = tuple(ModelDraft(f"{name}-{number}", id_) for number, id_ in enumerate(ids[:2], start=1))
            found.append(Found(name, base_url, ("chat",), models))
    return found


def draft(found: Sequence[Found]) -> str:
    """Return a file for these upstreams; without any, one that answers from the built-in demo."""
    upstreams = found or [DEMO]
    # All tiers on one upstream: a caller's request format must suit whichever tier it gets.
    cheapest, dearest = upstreams[0].models[0].name, upstreams[0].models[-1].name
    return _TEMPLATE.format(
        note="" if found else _NOTHING_FOUND,
        upstreams="\n".join(_upstream(each) for each in upstreams),
        models="\n".join(_model(model, each.name) for each in upstreams for model in each.models),
        cheapest=cheapest,
        dearest=dearest,
    )


def _served(base_url: str) -> list[str]:
    """Return the ids of the models a server offers; none when there is no such server."""
    import urllib.request

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # this machine, whatever the proxy
    try:
        with opener.open(f"{base_url}/models", timeout=PATIENCE) as answer:
            listed = json.load(answer)
        return [str(model["id"]) for model in listed["data"]]
    except (OSError, ValueError, LookupError, TypeError):  # nothing there, or something else
        return []


def _upstream(upstream: Found) -> str:
    lines = [f"[upstreams.{upstream.name}]", f'base_url = "{upstream.base_url}"']
    if upstream.variable:
        lines.append(f'api_key = "${{{upstream.variable}}}"')
    lines.append(f"formats = {json.dumps(upstream.formats)}")
    return "\n".join(lines) + "\n"


def _model(model: ModelDraft, upstream: str) -> str:
    fields = [f'upstream = "{upstream}"', f"id = {json.dumps(model.id)}"]
    if model.input_per_million is not None:
        fields.append(f"input_per_million = {model.input_per_million:.2f}")
    if model.output_per_million is not None:
        fields.append(f"output_per_million = {model.output_per_million:.2f}")
    if model.cached_in is not None:
        fields.append(f"cached_input_per_million = {model.cached_in:g}")
    if model.window:
        fields.append(f"context_window = {model.window:_}")
    return f"{model.name} = {{ {', '.join(fields)} }}"


_NOTHING_FOUND: Final = """\
# No provider's key was in the environment (OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY,
# OPENROUTER_API_KEY), so the built-in demo answers until you name an upstream.
"""

_TEMPLATE: Final = """\
# Pointsman: which model serves which prompt. Check this file with: pointsman config check
# Every key there is: docs/reference/configuration.md
{note}
# Where requests go. Keys stay in the environment; this file only names the variables.
{upstreams}
# What can be asked for: name -> upstream, id there, price per million tokens, context window.
# Check the prices: providers change them.
[models]
{models}

# Which model serves which tier. Agents ask for model "auto" and get the cheapest that should do; every model
# above can also be asked for by name.
[tiers]
profile   = "default"
simple    = "{cheapest}"
medium    = "{cheapest}"
complex   = "{dearest}"
reasoning = "{dearest}"
# Ask a cheap model when the rules are unsure, for at most this share of requests:
# verify  = {{ model = "{cheapest}", margin = 0.04, share = 0.15, timeout_ms = 500 }}

# Add one hint to the prompt of an agent that is stuck.
[guidance]
mode    = "on"     # off | observe (decide and record, add nothing) | on
control = 0.1      # share of sessions in which a due hint is withheld, to learn whether hints help

# Enrich the prompt for the task at hand: coding, bugfix, planning, ...
[domains]
mode = "on"        # off | observe | on

# Who may call the gateway. A bind that others can reach needs keys.
[server]
host = "127.0.0.1"
port = 4747
# keys = ["${{POINTSMAN_KEY}}"]

# What is written down about decisions. Of prompts nothing, unless you say so.
[ledger]
text = "off"       # off | hash | redacted (no keys, no e-mail addresses) | full

# Test another policy or model in the background; see "pointsman report shadow":
# [shadow]
# policy = "candidate.toml"
# model  = "{cheapest}"
# share  = 0.05
"""
