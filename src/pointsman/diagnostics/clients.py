"""Which clients a configuration can serve, what they need, and what the names they send mean.

The one judge of clients. Nothing is tried.

``config check``, ``router doctor`` and the banner of ``serve`` print its verdicts.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from pointsman.config import Config, is_loopback
from pointsman.decision.aliases import CLIENT_ALIASES, Aliases, ModelNames, first_of_each, follow
from pointsman.model_choice.choice import Requirements, lacks
from pointsman.vocabulary import ModelSpec, Reason, Tier, WireFormat

__all__ = [
    "CLIENTS",
    "PLACEHOLDER",
    "AliasRow",
    "CallerKey",
    "Client",
    "Command",
    "TakenId",
    "Verdict",
    "describe_aliases",
    "describe_taken_ids",
    "describe_verdict",
    "judge_clients",
    "lines_to_copy",
    "list_aliases",
    "model_names",
    "split_line",
    "taken_ids",
]


#: Bytes of an agent's usual request: its instructions, and the schemas of its tools.
_AGENT_BYTES: Final = 35_000
#: Tokens an agent needs for a few turns: its instructions, and several times as much of files and results.
_AGENT_WINDOW: Final = 32_768
#: Ollama's port, as its documentation names it.
_OLLAMA: Final = re.compile(r"^http://[^/]+:11434(/|$)")

_NO_TIER: Final = "[tiers] names no model"
_NO_TIER_HINT: Final = 'simple = "NAME" under [tiers]; pointsman config init writes an example'


class Client(NamedTuple):
    """A program that people point at the gateway."""

    name: str
    format: WireFormat
    is_agent: bool = False  # offers tools and sends long instructions
    is_remote: bool = False  # its requests come from its maker's servers
    names: tuple[str, ...] = ()  # of models that it asks for by itself, whatever it is told


CLIENTS: Final = (
    Client("curl", WireFormat.CHAT),
    Client("OpenAI SDK, chat", WireFormat.CHAT),
    Client("OpenAI SDK", WireFormat.RESPONSES),
    Client("Anthropic SDK", WireFormat.MESSAGES),
    Client("Claude Code", WireFormat.MESSAGES, is_agent=True, names=("claude-haiku-4-5-20251001",)),
    Client("Codex", WireFormat.RESPONSES, is_agent=True),
    Client("opencode", WireFormat.CHAT, is_agent=True),
    Client("Qwen Code", WireFormat.CHAT, is_agent=True),
    Client("aider", WireFormat.CHAT),  # asks for edits in the text of an answer: no tools
    Client("Cline", WireFormat.CHAT, is_agent=True),
    Client("Cursor", WireFormat.CHAT, is_agent=True, is_remote=True),
)


class Verdict(NamedTuple):
    """Whether a configuration can serve a client. A key that is refused, or no network, is not seen here."""

    client: Client
    fits: bool  # as far as formats, features and windows tell
    detail: str  # how it is served, or why it is not
    hint: str = ""  # the way out
    warning: str = ""  # it works, with this restriction
    refused: tuple[str, ...] = ()  # names that it asks for by itself, and that are refused


def judge_clients(config: Config, clients: Iterable[Client] = CLIENTS) -> list[Verdict]:
    """Judge each client, which asks for the model ``auto``. Sends nothing: an upstream may still be down."""
    return [_judge(client, config) for client in clients]


def describe_verdict(verdict: Verdict) -> str:
    """Return a verdict as one line."""
    said = f"{'configured, not tried' if verdict.fits else 'does not work'}: {verdict.detail}"
    return f"{said}; {verdict.warning}" if verdict.warning else said


def _judge(client: Client, config: Config) -> Verdict:
    if client.is_remote and (is_loopback(config.server.host) or not config.server.keys):
        return Verdict(
            client,
            fits=False,
            detail=f"{client.name} calls from its maker's servers, which cannot reach this address",
            hint="a public https address in front of the gateway, and keys of the gateway's own",
        )
    size = _AGENT_BYTES if client.is_agent else 0
    needed = Requirements.of(size, {"tools"} if client.is_agent else (), client.format)
    tiers = {tier: [config.models[each.model] for each in of] for tier, of in config.tiers.pools.items()}
    if not tiers:
        return Verdict(client, fits=False, detail=_NO_TIER, hint=_NO_TIER_HINT)
    able = {
        tier: [model for model in named if not any(lacks(model, needed))] for tier, named in tiers.items()
    }
    served = [model for named in able.values() for model in named]
    if not served:
        models = [model for named in tiers.values() for model in named]
        reasons = [reason for model in models for reason in lacks(model, needed)]
        detail = "; ".join(dict.fromkeys(reason.detail for reason in reasons))
        hint = "; ".join(dict.fromkeys(_ways_out(reasons, models, client)))
        return Verdict(client, fits=False, detail=detail, hint=hint)
    refused = _refused(client, config)
    asked = ", ".join(f'"{name}"' for name in refused)
    why = f"[aliases] refuses {asked}, which it asks for by itself" if refused else ""
    warning = "; ".join(filter(None, (_lower(able), why, _cut_off(client, served, config))))
    return Verdict(client, fits=True, detail=_how(client, served), warning=warning, refused=refused)


def _how(client: Client, served: Sequence[ModelSpec]) -> str:
    translated = dict.fromkeys(model.name for model in served if client.format not in model.formats)
    if not translated:
        return f"{client.format}, as the upstream speaks it"
    return f"{client.format}, translated for {', '.join(translated)}"


def _refused(client: Client, config: Config) -> tuple[str, ...]:
    names = model_names(config)
    return tuple(name for name in client.names if not names.serves(name))


def _cut_off(client: Client, served: Sequence[ModelSpec], config: Config) -> str:
    """A server at Ollama's port truncates prompts beyond its setting, regardless of its models."""
    addresses = {model.upstream: config.upstreams[model.upstream].base_url for model in served}
    names = [f'"{name}"' for name, base_url in addresses.items() if _OLLAMA.search(base_url)]
    if not client.is_agent or not names:
        return ""
    return f"needs OLLAMA_CONTEXT_LENGTH of {_AGENT_WINDOW:,} or more at {', '.join(names)} (default: 4,096)"


def _lower(able: Mapping[Tier, Sequence[ModelSpec]]) -> str:
    without = [tier for tier, models in able.items() if not models]
    return f"no model of {', '.join(without)} can serve it, so another tier does" if without else ""


def _ways_out(reasons: Iterable[Reason], models: Sequence[ModelSpec], client: Client) -> Iterator[str]:
    silent = sorted({model.upstream for model in models if not model.takes(client.format)})
    for reason in reasons:
        match reason.code.rpartition(".")[2]:
            case "format":
                yield f"translate = true under [upstreams.{'], [upstreams.'.join(silent)}]"
            case "feature":
                yield f"a model with tools: {client.name} offers them in every request"
            case "context_window":
                yield f"a larger context window: {client.name} sends about {_AGENT_BYTES:,} bytes"


# The lines that a person copies for each client: into a shell, or for an SDK into Python.

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
        config: The configuration.
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
    """Take a line of ``lines_to_copy`` apart as a shell does: its variables, and the program's arguments.

    Args:
        line: Of an agent, which begins with the variables that it sets.
        env: Holds the variables to which the line refers.
    """
    words = [_VARIABLE.sub(lambda name: env.get(name[1], name[0]), word) for word in shlex.split(line)]
    first = next(place for place, word in enumerate(words) if not _ASSIGNMENT.match(word))
    return Command(words[first:], dict(word.split("=", 1) for word in words[:first]))


def _forwarded_formats(config: Config) -> frozenset[WireFormat]:
    """Return the formats of the upstreams that take the caller's own credential."""
    upstreams = (upstream for upstream in config.upstreams.values() if upstream.forward_auth)
    return frozenset(wire for upstream in upstreams for wire in upstream.formats)


def _copied_lines(
    url: str, key: CallerKey, forwarded: frozenset[WireFormat] = frozenset()
) -> Mapping[str, str]:
    """Return by client the line to copy: into a shell, for an SDK into Python.

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
    """Return the variables that identify the caller; ``own``: the login of a subscription does."""
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


# What each alias of a configuration resolves to.


class AliasRow(NamedTuple):
    """One alias, in the order in which they are tried."""

    pattern: str
    target: str  # as written
    resolves_to: str  # "auto", a tier, a configured model, or "refuse"
    is_shipped: bool
    hidden_by: str  # the pattern before it that matches every name it could match; empty: it is used
    way: tuple[str, ...]  # the patterns that were followed, its own first


class TakenId(NamedTuple):
    """The id of a configured model that an alias takes: asked for by it, another model may answer."""

    id: str
    model: str  # configured name
    means: str  # "auto", a tier, another model, or "refuse"
    pattern: str  # of the alias
    client: str = ""  # how the User-Agent begins of those for whom it does; empty: for all


def model_names(config: Config) -> ModelNames:
    """Return what resolves the names of requests, as the gateway does."""
    aliases: Aliases = (*config.aliases.items(), *CLIENT_ALIASES)
    return ModelNames(config.models, aliases)


def taken_ids(config: Config) -> list[TakenId]:
    """Return the ids of configured models that mean something else when a request names them."""
    names = model_names(config)
    taken = [TakenId(id_, model, str(named.target), named.pattern) for id_, model, named in names.taken_ids()]
    of_all = {each.id for each in taken}
    return taken + [
        TakenId(id_, model, str(named.target), named.pattern, client)
        for id_, model, client, named in names.default_ids()
        if id_ not in of_all
    ]


def describe_taken_ids(taken: Sequence[TakenId]) -> Iterator[str]:
    """Return a line that explains the ids, and the way to the models themselves."""
    if not taken:
        return
    if means := ", ".join(f"{_quoted(each.id)} means {each.means}" for each in taken if not each.client):
        yield f"ids that aliases take: {means}"
    sent = (f"{_quoted(each.id)} of {each.client} means {each.means}" for each in taken if each.client)
    if means := ", ".join(sent):
        yield f"ids that clients send unless told otherwise: {means}"
    name, id_ = _quoted(taken[0].model), _quoted(taken[0].id)
    yield f"  to get the model itself, ask for {name}, or write {id_} = {name} under [aliases]"


def list_aliases(config: Config) -> list[AliasRow]:
    """Return the operator's aliases, then those shipped."""
    own = tuple(config.aliases.items())
    aliases: Aliases = (*own, *CLIENT_ALIASES)
    names, targets = model_names(config), first_of_each(aliases)
    rows = []
    for number, (pattern, target) in enumerate(aliases):
        way, found = follow(pattern, targets, config.models)
        hidden_by = names.hidden_by(number)
        rows.append(AliasRow(pattern, target, str(found), number >= len(own), hidden_by, tuple(way[:-1])))
    return rows


def describe_aliases(rows: Sequence[AliasRow]) -> Iterator[str]:
    """Return the operator's aliases one per line, and those shipped one line per target."""
    own = [row for row in rows if not row.is_shipped]
    width = max((len(_quoted(row.pattern)) for row in own), default=0)
    yield "aliases, the first that matches counts:"
    for row in own:
        way = " -> ".join([*map(_quoted, row.way[1:]), row.resolves_to])
        unused = f"; never used, {_quoted(row.hidden_by)} comes before it" if row.hidden_by else ""
        yield f"  {_quoted(row.pattern):<{width}}  {way}{unused}"
    shipped = [row for row in rows if row.is_shipped and not row.hidden_by]
    if not shipped:
        yield "  none of those shipped is used"
    for target in dict.fromkeys(row.resolves_to for row in shipped):
        patterns = ", ".join(_quoted(row.pattern) for row in shipped if row.resolves_to == target)
        yield f"  shipped: {target} for {patterns}"


def _quoted(pattern: str) -> str:
    return f'"{pattern}"'
