"""What happens to each construct of a translated request: exact, changed and reported, or refused.

This table is the source of behaviour, of the page ``docs/reference/translation.md`` and of the tests. A
reader puts a construct into the form of ``conversation``; a writer asks ``Report.meet`` what becomes of it.
A construct with side effects, or that changes the meaning of the answer, is refused; a hint is changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any, Final, TypeAlias, get_args

import msgspec

from pointsman.errors import CallerError, shown
from pointsman.vocabulary import WireFormat
from pointsman.wire._construct_table import CONSTRUCTS, MOST_STOPS, Construct, Fate, Kind
from pointsman.wire.conversation import Conversation

__all__ = [
    "CONSTRUCTS",
    "CONSTRUCT_OF",
    "NEUTRAL",
    "SILENT",
    "UNKNOWN",
    "Construct",
    "Fate",
    "Kind",
    "Report",
    "Untranslatable",
    "foreign_members",
]


#: The construct of a member that no reader knows. Each is reported by its own name.
UNKNOWN: Final = "unknown"
#: Unknown members of one request that are named, and the characters of a name: a header has room for them.
_NAMED: Final = 8
_LONGEST: Final = 64
_UNNAMABLE: Final = re.compile(r"[^A-Za-z0-9_.-]")


class Untranslatable(CallerError):
    """The upstream's format cannot express something of the request; the message names it and the reason."""


class Report:
    """The changes of a translation from one format to another."""

    __slots__ = ("_strict", "_unknown", "changed", "source", "stops", "target")

    def __init__(self, source: WireFormat, target: WireFormat, *, strict: str = "") -> None:
        """Begin; ``strict``: the name of an upstream that is sent no request with an unknown member."""
        self.source = source
        self.target = target
        self._strict = strict
        self._unknown = 0
        self.stops: tuple[str, ...] = ()
        self.changed: list[str] = []  # ids of constructs, each once, in the order they were met

    def meet_opaque(self, kind: str, field: str) -> None:
        """Refuse a construct of one format alone; ``kind`` is its type."""
        other = "server_item" if _OF_SERVERS.search(kind) else "unknown_part"
        self.meet(_OPAQUE.get(kind, other), field)

    def meet(self, construct: str, field: str = "") -> bool:
        """Look up how the target treats a construct of the request.

        Args:
            construct: its id, a key of ``CONSTRUCTS``.
            field: its place in the request, when that is more exact than the table's field.

        Returns:
            True when it is written exactly, False when it is changed or left out; that is then reported.

        Raises:
            Untranslatable: the target cannot express it.
        """
        found = CONSTRUCTS[construct]
        fate = found.fates.get(self.target)
        if fate is None or fate.kind is Kind.EXACT:
            return True
        where = shown(field or found.fields.get(self.source, construct))
        if construct == UNKNOWN:
            return self._drop(where)
        if fate.kind is Kind.REFUSED:
            raise Untranslatable(
                f'"{where}" cannot be sent to a model that speaks {self.target}: {fate.how}', param=where
            )
        if construct not in self.changed:
            self.changed.append(construct)
        return False

    def keep_stops(self, sequences: tuple[str, ...]) -> None:
        """Let the gateway apply stop sequences that the target does not take.

        Raises:
            Untranslatable: they are too long.
        """
        self.stops = tuple(dict.fromkeys(filter(None, sequences)))
        for sequence in self.stops:
            self.meet("stop" if sequence.strip() else "blank_stop")
        if sum(map(len, self.stops)) > MOST_STOPS:
            self.meet("stop_length")

    def _drop(self, where: str) -> bool:
        """Leave out a member of an unknown meaning, and name it.

        Raises:
            Untranslatable: the upstream refuses such requests.
        """
        if self._strict:
            raise Untranslatable(
                f'"{where}" is not known, so it cannot be translated into the format {self.target} of '
                f'upstream "{self._strict}", which refuses unknown fields',
                hint=f'[upstreams.{self._strict}] unknown = "drop" leaves such fields out, and reports them',
                param=where,
            )
        self._unknown += 1
        if self._unknown <= _NAMED:
            self.changed.append(f"{UNKNOWN}:{_UNNAMABLE.sub('?', where)[:_LONGEST]}")
        elif self._unknown == _NAMED + 1:
            self.changed.append(f"{UNKNOWN}:...")
        return False


#: Constructs of their own among what only its own format has, by type.
_OPAQUE: Final = {
    "item_reference": "item_reference",
    "compaction": "compaction_item",
    "compaction_summary": "compaction_item",
}

#: Types of a provider's own tools: their calls, results and files.
_OF_SERVERS: Final = re.compile(r"^(mcp|program|container)_?|_(call|output|tool_use|tool_result)$")

# Members inside a request that its reader has no name for.
#: How many places of one request are told: a body may hold thousands.
MOST: Final = 16

#: The value of a member of which nothing but its place counts.
YES: Final = msgspec.Raw(b"true")

#: A reader's struct for an object.
Known: TypeAlias = type[msgspec.Struct]


def unknown_members(
    json: bytes | msgspec.Raw,
    known: Known,
    place: str = "",
    skips: Callable[[Known, Mapping[str, Any]], bool] = lambda _, __: False,
) -> dict[str, msgspec.Raw]:
    """Return the places of members that no struct has a field for, as ``tools.brand_new``; none that is null.

    Args:
        json: The value.
        known: The struct it is read as, or the struct of its items.
        place: Its place in the request, with a dot at the end.
        skips: Whether an object is not looked into, by its struct and its members.

    Raises:
        msgspec.MsgspecError, UnicodeError, RecursionError: it is not JSON.
    """
    found = dict.fromkeys(_walk(msgspec.json.decode(json), known, place, skips), YES)
    return dict(islice(found.items(), MOST))


def _walk(
    value: object, known: Known, place: str, skips: Callable[[Known, Mapping[str, Any]], bool]
) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _walk(each, known, place, skips)
    elif isinstance(value, dict) and not skips(known, value):
        names = _names(known)
        for name, inner in value.items():
            if inner is None:
                continue
            if name not in names:
                yield place + name
            elif (struct := names[name]) is not None:
                yield from _walk(inner, struct, f"{place}{name}.", skips)


@cache
def _names(known: Known) -> Mapping[str, Known | None]:
    """The fields of a struct, and the struct that each holds, itself or in a list."""
    return {field.encode_name: _struct(field.type) for field in msgspec.structs.fields(known)}


def _struct(kind: Any) -> Known | None:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    return next((found for each in get_args(kind) if (found := _struct(each))), None)


#: The construct of a member, by the member's name in its own format. Any other member is "unknown".
CONSTRUCT_OF: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "access_programs",
            "background_options",
            "betas",
            "cache_prompt",
            "chat_template_kwargs",
            "client_metadata",
            "diagnostics",
            "fallback_credit_token",
            "fallbacks",
            "image",
            "include",
            "keep_alive",
            "max_tool_calls",
            "min_p",
            "prediction",
            "prompt_cache_key",
            "prompt_cache_options",
            "prompt_cache_retention",
            "provider",
            "reasoning.context",
            "reasoning.generate_summary",
            "reasoning.mode",
            "reasoning.summary",
            "repetition_penalty",
            "safety_identifier",
            "speed",
            "thinking.block_binding",
            "transforms",
            "truncation",
            "usage",
            "user_profile_id",
            "workspace_id",
        ),
        "provider_hint",
    ),
    "audio": "audio",
    "background": "background",
    "cache_control": "cache_control",
    "citations": "citations",
    "compaction": "compaction",
    "container": "container",
    "context_management": "context_management",
    "conversation": "previous_response",
    "frequency_penalty": "penalties",
    "inference_geo": "inference_geo",
    "logit_bias": "logit_bias",
    "logprobs": "logprobs",
    "mcp_servers": "mcp_servers",
    "metadata": "metadata",
    "modalities": "audio",
    "moderation": "moderation",
    "n": "n",
    "output_config.task_budget": "task_budget",
    "presence_penalty": "penalties",
    "previous_response_id": "previous_response",
    "prompt": "prompt_template",
    "seed": "seed",
    "service_tier": "service_tier",
    "store": "stored",
    "text.verbosity": "verbosity",
    "thinking.display": "thinking_display",
    "thread": "previous_response",
    "messages.compaction": "compaction_block",
    "messages.fallback": "fallback_block",
    "messages.name": "participant",
    "messages.result": "result_block",
    "tools.input_examples": "tool_hint",
    "top_k": "top_k",
    "top_logprobs": "top_logprobs",
    "verbosity": "verbosity",
}

#: Values that ask for nothing, or for what holds without them.
NEUTRAL: Final[Mapping[str, frozenset[bytes]]] = {
    "background": frozenset({b"false"}),
    "frequency_penalty": frozenset({b"0", b"0.0"}),
    "include": frozenset({b"[]"}),
    "inference_geo": frozenset({b'"global"'}),
    "logit_bias": frozenset({b"{}"}),
    "logprobs": frozenset({b"false"}),
    "mcp_servers": frozenset({b"[]"}),
    "metadata": frozenset({b"{}"}),
    "modalities": frozenset({b'["text"]'}),
    "n": frozenset({b"1"}),
    "presence_penalty": frozenset({b"0", b"0.0"}),
    "service_tier": frozenset({b'"auto"', b'"default"'}),
    "speed": frozenset({b'"standard"'}),
    "store": frozenset({b"false"}),
    "top_logprobs": frozenset({b"0"}),
    "truncation": frozenset({b'"disabled"'}),
}
#: How the answer is transported: the gateway's business, whatever it says.
SILENT: Final = frozenset({"anthropic_version", "stream_options"})

_ABSENT: Final = frozenset({b"", b"null"})
_NONE: Final[frozenset[bytes]] = frozenset()


def foreign_members(
    asked: Conversation, report: Report, shared: Mapping[str, str] | None = None
) -> dict[str, msgspec.Raw]:
    """Return the members that another format has as well; what becomes of the others is reported.

    Args:
        asked: The request.
        report: Changes are added to it.
        shared: Names of members that mean the same in the target, and their names there.

    Raises:
        Untranslatable: a member would change the effect or the answer, or its meaning is not known.
    """
    found: dict[str, msgspec.Raw] = {}
    for name, raw in asked.options.items():
        value = bytes(raw)
        if name in SILENT or value in _ABSENT or value in NEUTRAL.get(name, _NONE):
            continue
        if shared and name in shared:
            found[shared[name]] = raw
        elif name == "include" and b"logprobs" in value:
            report.meet("top_logprobs", name)
        else:
            report.meet(CONSTRUCT_OF.get(name, UNKNOWN), name)
    return found
