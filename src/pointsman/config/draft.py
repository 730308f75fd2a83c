"""The file ``pointsman config init`` writes: commented, complete, and right for the environment it finds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Final, NamedTuple
from urllib.parse import SplitResult

from pointsman.catalogue import filled, installed, provider_of
from pointsman.config._check_connections import http_address
from pointsman.config.local import (
    SERVERS,
    LocalModel,
    LocalServer,
    find_servers,
    is_gateway,
    window_at_ollama,
)
from pointsman.errors import ConfigError
from pointsman.prices import PRICES
from pointsman.toml_source import BARE
from pointsman.upstreams.port import ServerSpec
from pointsman.upstreams.proxies import is_loopback
from pointsman.vocabulary import ModelSpec

__all__ = [
    "PROVIDERS",
    "Found",
    "ModelDraft",
    "address_notes",
    "at_address",
    "draft",
    "find_local",
    "find_providers",
    "unused_keys",
]


class ModelDraft(NamedTuple):
    """One line of [models]."""

    name: str
    id: str
    #: Per million tokens: input, output, cached input, cache write; None for one: unknown, for all: the
    #: catalogue's.
    prices: tuple[float | None, ...] | None = None
    window: int | None = None  # tokens; None: the catalogue's
    as_of: str = ""  # date of the prices; empty: none is written


class Found(NamedTuple):
    """An upstream with a key in the environment, or on this machine."""

    name: str
    base_url: str
    formats: tuple[str, ...]
    models: tuple[ModelDraft, ...]  # the first for the two lower tiers, the last for the others
    variable: str = ""  # holds the key
    auth: str = ""  # the header of the key, where it is not its format's own
    forward_auth: bool = False  # it takes the caller's own credential
    verifier: ModelDraft | None = None  # answers a question within half a second: it does not think first
    remark: str = ""
    address_variable: str = ""  # holds another address, as its SDK reads it
    note: str = ""  # how that variable was taken: a comment of the file, and a line for the user
    provider: str = ""  # whose prices hold, where the address does not say it


#: Providers by the variable their own SDKs read, with the formats in which their models do everything. Not
#: among them: Anthropic's chat completions, which ignore fields and drop thinking. Read in November 2026 from
#: the providers' pages on models, deprecations and compatible APIs.
PROVIDERS: Final = (
    Found(
        "openai",
        "https://api.openai.com/v1",
        ("responses",),
        (ModelDraft("gpt-luna", "gpt-6-luna"), ModelDraft("gpt-sol", "gpt-6.1-sol")),
        "OPENAI_API_KEY",
        remark="# In chat completions these models take no tools while they reason: chat is translated.\n",
        address_variable="OPENAI_BASE_URL",
    ),
    Found(
        "anthropic",
        "https://api.anthropic.com/v1",
        ("messages",),
        (ModelDraft("haiku", "claude-haiku-5-5"), ModelDraft("sonnet", "claude-sonnet-5-5")),
        "ANTHROPIC_API_KEY",
        verifier=ModelDraft("haiku-4", "claude-haiku-4-5"),
        address_variable="ANTHROPIC_BASE_URL",
    ),
    Found(
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        ("chat",),
        (ModelDraft("flash-lite", "gemini-3.5-flash-lite"), ModelDraft("flash", "gemini-3.8-flash")),
        "GEMINI_API_KEY",
        verifier=ModelDraft("flash-lite-2", "gemini-2.5-flash-lite"),
    ),
    Found(
        "openrouter",
        "https://openrouter.ai/api/v1",
        ("chat", "responses", "messages"),
        (
            ModelDraft("router-small", "google/gemini-3.5-flash-lite"),
            ModelDraft("router-large", "anthropic/claude-sonnet-5.5"),
        ),
        "OPENROUTER_API_KEY",
        auth="bearer",
        verifier=ModelDraft("router-verifier", "google/gemini-2.5-flash-lite"),
    ),
)

#: Variables of providers' keys for which no table is written, as the providers' own documentation names them.
_OTHER_KEYS: Final = (
    "AZURE_OPENAI_API_KEY", "CEREBRAS_API_KEY", "COHERE_API_KEY", "DEEPSEEK_API_KEY", "FIREWORKS_API_KEY",
    "GOOGLE_API_KEY", "GROQ_API_KEY", "MISTRAL_API_KEY", "MOONSHOT_API_KEY", "PERPLEXITY_API_KEY",
    "TOGETHER_API_KEY", "XAI_API_KEY",
)  # fmt: skip

#: What answers while nothing else is named: built in, no key, no network.
DEMO: Final = Found(
    "demo",
    "demo:",
    ("chat", "responses", "messages"),
    (ModelDraft("demo-small", "demo-small", (0.1, 0.5)), ModelDraft("demo-large", "demo-large", (3.0, 15.0))),
    verifier=ModelDraft("demo-small", "demo-small", (0.1, 0.5)),
)

#: What a model costs that runs on this machine.
_FREE: Final = (0.0, 0.0)

_OLLAMA: Final = (
    "# Ollama cuts off what is longer than OLLAMA_CONTEXT_LENGTH; agents need more than its default.\n"
)


def find_providers(env: Mapping[str, str]) -> list[Found]:
    """Return the providers with a key in the environment, at the addresses that it names."""
    return [at_address(provider, env) for provider in PROVIDERS if env.get(provider.variable)]


def at_address(found: Found, env: Mapping[str, str]) -> Found:
    """Return a provider at the address that its variable holds.

    An agent that runs behind a gateway has the gateway's address there, which is no provider's.

    Raises:
        ConfigError: it holds none, or one with a query.
    """
    base_url = env.get(found.address_variable, "").strip().rstrip("/")
    if base_url and found.name == "anthropic" and not base_url.endswith("/v1"):
        base_url += "/v1"  # which Anthropic's SDKs add by themselves
    if base_url in {"", found.base_url}:
        return found
    url = http_address(base_url)
    if url is None or url.query or url.fragment:  # not shown: it may hold a password
        hint = f"as in {found.address_variable}={found.base_url}"
        raise ConfigError(
            f"{found.address_variable} must be an http or https address without query and fragment", hint=hint
        )
    secret, _, netloc = url.netloc.rpartition("@")
    url = url._replace(netloc=netloc)
    if _is_own(url):
        note = f"{found.address_variable} is not used: it is the address of a Pointsman gateway"
        return found._replace(note=note)
    note = f"base_url is that of {found.address_variable}; formats must be those that it speaks"
    if secret:
        note += "; its user name and password are left out"
    return found._replace(base_url=url.geturl(), provider=found.name, note=note)


def _is_own(url: SplitResult) -> bool:
    """Whether a gateway of this machine answers at an address, or would answer by default."""
    is_usual = url.port == ServerSpec().port
    return is_loopback(url.hostname or "") and (is_usual or is_gateway(f"{url.scheme}://{url.netloc}"))


def address_notes(found: Iterable[Found]) -> Iterator[str]:
    """Describe how the variables of addresses were taken."""
    return (f"{each.name}: {each.note}" for each in found if each.note)


def unused_keys(env: Mapping[str, str]) -> list[str]:
    """Return the variables that hold the key of a provider for which ``draft`` writes nothing."""
    gemini = bool(env.get("GEMINI_API_KEY"))  # Google's SDKs read either; one of the two is enough
    return [name for name in _OTHER_KEYS if env.get(name) and not (gemini and name == "GOOGLE_API_KEY")]


def find_local(servers: Iterable[tuple[str, int]] = SERVERS) -> list[Found]:
    """Return the model servers that listen on this machine's loopback address.

    Of each the smallest and the largest model are used; where no size is known, the first two listed.
    """
    return [
        Found(
            server.name,
            server.base_url,
            server.formats,
            tuple(_local_models(server)),
            remark=_OLLAMA if server.name == "ollama" else "",
        )
        for server in find_servers(servers)
    ]


def draft(found: Sequence[Found], *, tiers: Sequence[str] = (), shadow: str = "") -> str:
    """Return a file for these upstreams; without any, one that answers from the built-in demo.

    Args:
        found: The upstreams.
        tiers: Name of the model of each tier, SIMPLE first; by default the first or last of each upstream.
        shadow: Name of the model that is asked in the background; by default none is.

    Each tier names a model of every upstream: the first that can serve a request does, and the others are its
    fallback. The lower tiers begin with the cheapest, the higher ones with the most expensive.
    """
    upstreams = found or [DEMO]
    known = {model: _price(model, each) for each in upstreams for model in _named(each)}
    small = sorted((each.models[0] for each in upstreams), key=known.__getitem__)
    large = sorted((each.models[-1] for each in upstreams), key=known.__getitem__, reverse=True)
    verifiers = sorted((each.verifier for each in upstreams if each.verifier), key=known.__getitem__)
    served = [json.dumps(name) for name in tiers] or [_tier(small)] * 2 + [_tier(large)] * 2
    return _TEMPLATE.format(
        note="" if found else _NOTHING_FOUND,
        upstreams="\n".join(_upstream(each) for each in upstreams),
        models="\n".join(_model(model, each.name) for each in upstreams for model in _named(each)),
        order=_BY_PRICE if tiers else "",
        tiers=served,
        verify=_VERIFY.format(verifiers[0].name) if verifiers else _NO_VERIFIER,
        kept=_TEXT if shadow else _NO_TEXT,
        text='"redacted"' if shadow else '"off"',
        shadow=_SHADOW.format(shadow) if shadow else _NO_SHADOW.format(small[0].name),
    )


def _price(model: ModelDraft, upstream: Found) -> float:
    """Price of a million output tokens; unknown prices come last among the cheap."""
    if model.prices is not None:
        return inf if model.prices[1] is None else model.prices[1]
    provider = upstream.provider or provider_of(upstream.base_url)
    spec = filled(ModelSpec(model.name, upstream.name, model.id), provider, installed())
    return inf if spec.output_per_million is None else spec.output_per_million


def _named(upstream: Found) -> tuple[ModelDraft, ...]:
    verifier = upstream.verifier
    if verifier is None or verifier in upstream.models:
        return upstream.models
    return (*upstream.models, verifier)


def _tier(models: Sequence[ModelDraft]) -> str:
    names = [model.name for model in models]
    return json.dumps(names[0] if len(names) == 1 else names)


def _local_models(server: LocalServer) -> Iterator[ModelDraft]:
    """Name the smallest and the largest of those with a known size, else the first two."""
    sized = [model for model in server.models if model.size is not None] or server.models[:2]
    if len(sized) == 1:
        yield ModelDraft(server.name, sized[0].id, _FREE, _window(server, sized[0]))
        return
    for model, size in ((sized[0], "small"), (sized[-1], "large")):
        yield ModelDraft(f"{server.name}-{size}", model.id, _FREE, _window(server, model))


def _window(server: LocalServer, model: LocalModel) -> int | None:
    if model.window is None and server.name == "ollama":
        return window_at_ollama(server.base_url, model.id)
    return model.window


def _upstream(upstream: Found) -> str:
    lines = [f"# {upstream.note}"] if upstream.note else []
    lines += [f"[upstreams.{upstream.name}]", f"base_url = {json.dumps(upstream.base_url)}"]
    if upstream.provider:
        lines.append(f'provider = "{upstream.provider}"')
    if upstream.variable:
        lines.append(f'api_key = "${{{upstream.variable}}}"')
    if upstream.forward_auth:
        lines.append("forward_auth = true")
    lines.append(f"formats = {json.dumps(upstream.formats)}")
    if upstream.auth:
        lines.append(f'auth = "{upstream.auth}"')
    return upstream.remark + "\n".join(lines) + "\n"


def _model(model: ModelDraft, upstream: str) -> str:
    fields = [f'upstream = "{upstream}"', f"id = {json.dumps(model.id)}"]
    if model.prices is not None:
        named = zip(PRICES, model.prices, strict=False)
        fields.append(", ".join(f"{name} = {price:g}" for name, price in named if price is not None))
    if model.as_of:
        fields.append(f"prices_as_of = {model.as_of}")
    if model.window:
        fields.append(f"context_window = {model.window:_}")
    key = model.name if BARE.fullmatch(model.name) else json.dumps(model.name)
    return f"{key} = {{ {', '.join(fields)} }}"


_NOTHING_FOUND: Final = """\
# No provider's key was in the environment (OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY,
# OPENROUTER_API_KEY), so the built-in demo answers until you name an upstream.
"""

_BY_PRICE: Final = """\
# By price: models of the logs, the cheapest first. Exchange them where a cheaper model is the better one.
"""

_VERIFY: Final = """\
# Ask a cheap model when the rules are unsure, for at most this share of requests:
# verify  = {{ model = "{}", margin = 0.04, share = 0.15, timeout_ms = 500 }}"""

_NO_VERIFIER: Final = """\
# verify asks a cheap model when the rules are unsure. It takes one that answers without thinking first."""

_TEMPLATE: Final = """\
# Pointsman: which model serves which prompt. Check this file with: pointsman config check
# Every key there is: docs/reference/configuration.md
{note}
# Where requests go. Keys stay in the environment; this file only names the variables.
{upstreams}
# What can be asked for: name -> upstream, and id there. Prices, context windows and features come from the
# catalogue: pointsman models list. Your own go first: input_per_million, output_per_million, context_window.
[models]
{models}

# Which model serves which tier. Agents ask for model "auto" and get the cheapest that should do; every model
# above can also be asked for by name. Of a list, the first that can serve does; the others are its fallback.
# Of models with the same prices, one that speaks the caller's format natively comes first.
{order}[tiers]
profile   = "default"
simple    = {tiers[0]}
medium    = {tiers[1]}
complex   = {tiers[2]}
reasoning = {tiers[3]}
{verify}

# What other names mean. Those that Claude Code, Codex, opencode and the SDKs send by themselves are known:
# pointsman router show. Yours go first; "refuse" answers 404.
[aliases]
# "my-helper-*" = "simple"
# "*"           = "auto"      # every other name, instead of 404 "unknown model"

# These three decide and record, and change no request: mode = "observe". With "on" they do what they decide;
# "off" leaves them out. What they would have done: pointsman decisions list, then decisions show ID.

# "on" adds one hint to the prompt of an agent that is stuck. Its effect: pointsman report guidance
[guidance]
mode    = "observe"
control = 0.1      # share of sessions in which a due hint is withheld, to learn whether hints help

# "on" adds a paragraph for the task at hand to the prompt: coding, bugfix, planning, ...
[domains]
mode = "observe"

# "on" with tools = N passes on at most N of a request's tools, where the others are clearly not needed.
[capabilities]
mode = "observe"

# Who may call the gateway. A bind that others can reach needs keys.
[server]
host = "127.0.0.1"
port = 4747
# keys = ["${{POINTSMAN_KEY}}"]
# report_usage = true    # asks chat streams for usage where their client did not: else their cost is unknown

# What is written down about decisions. {kept}
[ledger]
text = {text:<11} # off | hash | redacted (no keys, no e-mail addresses) | full

# Test another policy or model in the background; see "pointsman report shadow":
{shadow}"""

_NO_TEXT: Final = "Of prompts nothing, unless you say so."
_TEXT: Final = "Of prompts the redacted text: [shadow] needs it to label, export and fit."

_NO_SHADOW: Final = """\
# [shadow]
# policy = "candidate.toml"
# model  = "{}"
# share  = 0.05
"""

_SHADOW: Final = """\
[shadow]
model = "{}"
share = 0.05       # of sessions: their requests are paid for twice, but those that it served itself
text  = "redacted" # of both answers, to label them; with "off" they are paid for and not kept
"""
