"""Which clients a configuration can serve, and why not others: the one judge of this. Nothing is tried.

``config check``, ``router doctor`` and the banner of ``serve`` print its verdicts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from pointsman.config import Config, is_loopback
from pointsman.diagnostics.aliases import model_names
from pointsman.model_choice.choice import Requirements, lacks
from pointsman.vocabulary import ModelSpec, Reason, Tier, WireFormat

__all__ = ["CLIENTS", "Client", "Verdict", "describe_verdict", "judge_clients"]

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
    tiers = _tier_models(config)
    if not tiers:
        return Verdict(client, fits=False, detail=_NO_TIER, hint=_NO_TIER_HINT)
    able = {
        tier: [model for model in named if not any(lacks(model, needed))] for tier, named in tiers.items()
    }
    served = [model for named in able.values() for model in named]
    if not served:
        models = [model for named in tiers.values() for model in named]
        reasons = [reason for model in models for reason in lacks(model, needed)]
        return Verdict(client, fits=False, detail=_joined(reasons), hint=_hint(reasons, models, client))
    refused = _refused(client, config)
    asked = ", ".join(f'"{name}"' for name in refused)
    why = f"[aliases] refuses {asked}, which it asks for by itself" if refused else ""
    warning = "; ".join(filter(None, (_lower(able), why, _cut_off(client, served, config))))
    return Verdict(client, fits=True, detail=_how(client, served), warning=warning, refused=refused)


def _tier_models(config: Config) -> dict[Tier, Sequence[ModelSpec]]:
    """The models of each tier that has any."""
    return {tier: [config.models[entry.model] for entry in pool] for tier, pool in config.tiers.pools.items()}


def _how(client: Client, served: Sequence[ModelSpec]) -> str:
    translated = dict.fromkeys(model.name for model in served if client.format not in model.formats)
    if not translated:
        return f"{client.format}, as the upstream speaks it"
    return f"{client.format}, translated for {', '.join(translated)}"


def _refused(client: Client, config: Config) -> tuple[str, ...]:
    names = model_names(config)
    return tuple(name for name in client.names if not names.serves(name))


def _cut_off(client: Client, served: Sequence[ModelSpec], config: Config) -> str:
    """A server at Ollama's port cuts off what is longer than its own setting, whatever its models can do."""
    addresses = {model.upstream: config.upstreams[model.upstream].base_url for model in served}
    names = [f'"{name}"' for name, base_url in addresses.items() if _OLLAMA.search(base_url)]
    if not client.is_agent or not names:
        return ""
    return f"needs OLLAMA_CONTEXT_LENGTH of {_AGENT_WINDOW:,} or more at {', '.join(names)} (default: 4,096)"


def _lower(able: Mapping[Tier, Sequence[ModelSpec]]) -> str:
    without = [tier for tier, models in able.items() if not models]
    return f"no model of {', '.join(without)} can serve it, so another tier does" if without else ""


def _joined(reasons: Sequence[Reason]) -> str:
    return "; ".join(dict.fromkeys(reason.detail for reason in reasons))


def _hint(reasons: Iterable[Reason], models: Sequence[ModelSpec], client: Client) -> str:
    return "; ".join(dict.fromkeys(_ways_out(reasons, models, client)))


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
