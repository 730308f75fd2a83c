"""The bodies of rows, and rows of JSON lines: entries encoded and decoded; a damaged one is reported.

Bodies of decisions are compressed in SQLite, with a dictionary of what most of them have in common: 1.5 to
3 kB become 0.2 to 0.8 kB, in 8 to 15 µs. A compressed body begins with the header of RFC 1950, which names
the dictionary by a checksum; an uncompressed one, of PostgreSQL or of an earlier version, begins with ``{``.
Attempts that are written with their decision are lines behind it in its body, where one takes 45 bytes; in
rows and an index of their own it took 365, and four pages of each transaction.

A row names the shape of its decision; an earlier one is converted when it is read, and never rewritten
(docs/notebook/0105). The shape of attempts, outcomes, texts and shadows is unchanged.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from typing import Any, Final, ParamSpec, TypeVar

import msgspec

from pointsman.capabilities import CapabilityDecision, Strategy, ToolDecision
from pointsman.decision.decision import Decision, RequestInput, TextMode
from pointsman.errors import StoreUnavailable
from pointsman.stores.ledger.port import (
    Attempt,
    ComparedAnswers,
    Entry,
    Outcome,
    Owner,
    PassedRequest,
    PolicyText,
    PromptText,
    RunEntry,
    Shadow,
    ShadowAnswer,
    ShadowDecision,
)
from pointsman.stores.ledger.redact import kept_decision, kept_step, kept_text

#: Part of the format: rows that are written with it can only be read with it. The most frequent parts are at
#: the end, where references to them are shortest (RFC 1951, section 3.2.5). The first one is of decisions
#: without attempts.
_OF_DECISIONS: Final = b"""\
{"code":"tiers.llm","detail":""},{"code":"guidance.fired","detail":""},{"code":"routing.lower-tier",
"detail":""stage":"verified""stage":"learned","COMPLEX""REASONING""SIMPLE""role":"subagent","role":"helper",
"role":"main","permission":{"format":"responses""format":"messages","keywords""score from 0.00 to 0.35",
"score from 0.35 to"learned_router":{"kind":{"injections":[{"source":"guidance","text":"{"strategy":"local",
"continued":true,"called":["capabilities":{"strategy":"hybrid","selected":["offered":[{"name":"error",1,
"edit","Bash","Read","Edit",false,true,false,"",0.0,[]],["","ok","","",1,0,1,false,false,false,"",0.0,[]],
["tool_0","{"id":"d-","input":{"format":"chat","model_asked":"auto","session":"f-","arrived_at":179,"size":,
"estimate":0,"features":["tools"],"role":null,"purpose":null,"project":"c-","client":"OpenAI",
"project_name":"","messages":2,"in_tool_loop":false,"tools":10,"user_message":1,
"signals":["default/analysis/explain","default/code/"],"characters":98,"left_out":0,"utf16_units":98,
"tokens":24,"questions":1,"script":"latin","thread":1,"steps":[],"person_spoke":false,"event":"",
"caller":"","traceparent":"","team":"","permission":null},"policy":"","tier":{"tier":"MEDIUM","score":0.,
"confidence":0.5,"signals":["length (24 tokens)","unsure (conf=0.50)"],"stage":"rules",
"needs_verification":false,"reasons":[{"code":"tiers.rules.simple","detail":"score below 0.00"},{
"code":"tiers.tools","detail":"request with tools: keywords do not count"},{"code":"tiers.no-signal",
"detail":"no keyword counts, so it is not taken to be simple"},{"code":"tiers.rules.medium",
"detail":"score from 0.00 to "}]},"chain":["small","large"],"injections":[],"standing":[],"reasons":[{
"code":"routing.first","detail":"\\"\\" is the tier's model"}],"abstained":[],"elapsed_us":1,"domains":{
"raw":{"primary":{"domain":"conversation"}},"effective":{"primary":{"domain":"conversation"}},"momentum":0,
"rule":"R0","enrichment_plan":{"primary_enrichment":false,"secondary_enrichment":false,
"reason_primary_skipped":"no_template","reason_secondary_skipped":"no_secondary_classified"},
"enrichment":""},"guidance":{"mode":"observe","arm":"treated","firing":null,"injection":"",
"raise_tier":false,"stop":false,"follow_up":null,"abstained":[],"hints":[],"points":[]},"capabilities":null,
"refused":[],"parameters":{}}""".replace(b"\n", b"")
_OF_ATTEMPTS: Final = b"""
{"decision":"d-","number":1,"model":"small","upstream":"main","status":200,"error":"","started_at":179,\
"first_byte_ms":1.0,"total_ms":1.0,"input_tokens":10,"cached_tokens":null,"output_tokens":3,%s\
"estimated":false,"translated":""}"""
#: With attempts before they had tokens written.
_BEFORE_WRITES: Final = _OF_DECISIONS + _OF_ATTEMPTS % b""
_DICTIONARY: Final = _OF_DECISIONS + _OF_ATTEMPTS % b'"written_tokens":null,"written_1h_tokens":null,'
#: By the checksum with which a body names its dictionary.
_DICTIONARIES: Final = {zlib.adler32(each): each for each in (_OF_DECISIONS, _BEFORE_WRITES, _DICTIONARY)}

#: The third takes no longer than the first for bodies of 2 to 3 kB, and leaves 7 to 9 % less.
_LEVEL: Final = 3
#: Base two logarithm of the window, and the memory of a compressor: as large as the dictionary with a body.
_WINDOW: Final = 13
_MEMORY: Final = 6
PLAIN: Final = b"{"

Decoded = TypeVar("Decoded")
Body = ParamSpec("Body")


#: A compressor that has read the dictionary: a copy of it takes a tenth less than reading it again.
_PACKER: Final = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY, zdict=_DICTIONARY)


def packed(body: bytes) -> bytes:
    """Return the compressed form of JSON lines: a decision, and its attempts."""
    packer = _PACKER.copy()
    return packer.compress(body) + packer.flush()


def _unpacked(body: bytes) -> bytes:
    """Return the JSON object or lines of a row, compressed or not.

    Raises:
        msgspec.DecodeError: The compressed form is damaged.
    """
    if body.startswith(PLAIN):
        return body
    unpacker = zlib.decompressobj(_WINDOW, zdict=_DICTIONARIES.get(int.from_bytes(body[2:6]), b""))
    try:
        plain = unpacker.decompress(body)
    except zlib.error as error:
        raise msgspec.DecodeError(f"the body cannot be decompressed: {error}") from None
    if not unpacker.eof:
        raise msgspec.DecodeError("the end of the compressed body is missing")
    return plain


def _undamaged(decode: Callable[Body, Decoded]) -> Callable[Body, Decoded]:
    """Report a damaged row as ``StoreUnavailable``."""

    def decoded(*args: Body.args, **kwargs: Body.kwargs) -> Decoded:
        try:
            return decode(*args, **kwargs)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise StoreUnavailable(f"a row of the ledger is damaged: {error}") from error

    return decoded


def _decision(body: bytes, shape: int) -> tuple[Decision, list[bytes]]:
    """Return the decision in a row, and the lines of the attempts behind it."""
    plain, *attempts = _unpacked(body).split(_LINE) if shape == WITH_ATTEMPTS else [_unpacked(body)]
    return decision_in(plain, shape), attempts


def _attempts(body: bytes) -> list[Attempt]:
    """Return the attempts in a row: its own, or those behind the body that a decision had."""
    lines = (body,) if body.startswith(PLAIN) else _unpacked(body).split(_LINE)[1:]
    return list(map(_attempt, lines))


#: The shape that is written. 1, until November 2025: what was read of a request stood in the decision itself,
#: and names were those of before 0.1.0. 2: it is ``input``.
#: 3: the tools passed on are part of ``capabilities``.
SHAPE: Final = 3
#: The same, with attempts behind it, a line each.
WITH_ATTEMPTS: Final = 4
_LINE: Final = b"\n"

_decode: Final = msgspec.json.Decoder(Decision).decode

#: By shape 1's name, where it had another; the values are those of today.
_INPUT: Final = {"features": "abilities"} | {
    name: name
    for name in RequestInput.__struct_fields__
    if name not in {"features", "messages", "thread", "tools"}
}
_CODES: Final = {
    "routing.skipped.ability": "routing.skipped.feature",
    "routing.skipped.window": "routing.skipped.context_window",
    "tiers.head.head": "tiers.learned.ngrams",
}


def decision_in(body: bytes, shape: int = SHAPE) -> Decision:
    """Return the decision in a row.

    Raises:
        msgspec.DecodeError: it is none.
    """
    if shape >= SHAPE:
        return _decode(body)
    row = msgspec.json.decode(body)
    try:
        tools = row.get("tools")
        decision = msgspec.convert(row if shape == 2 else _from_shape_1(row), Decision)
        if not tools:
            return decision
        part = _with_tools(msgspec.convert(tools, ToolDecision))
        return msgspec.structs.replace(decision, capabilities=part)
    except (AttributeError, KeyError, TypeError) as error:
        raise msgspec.ValidationError(f"no decision of an earlier version: {error!r}") from error


def _with_tools(tools: ToolDecision) -> CapabilityDecision:
    """The selection of which only the tools passed on were recorded; it was always by the local score."""
    return CapabilityDecision(strategy=Strategy.LOCAL, selected=tools.kept, tools=tools)


def _from_shape_1(row: dict[str, Any]) -> dict[str, Any]:
    guidance, tier = row.get("guidance"), row.get("tier")
    read = {name: row.pop(old) for name, old in _INPUT.items() if old in row}
    read["script"] = read.get("script") or "none"
    read["thread"] = guidance.pop("thread", 0) if guidance else 0
    read["tools"] = row["tools"]["offered"] if row.get("tools") else 0
    row["input"] = read
    row["injections"] = row.pop("additions", ())
    if guidance:
        guidance["injection"] = guidance.pop("addition", "")
    if tier:
        tier["stage"] = "learned" if tier["stage"] == "head" else tier["stage"]
        tier["learned_router_version"] = tier.pop("head_version", "")
        tier["learned_router"] = _score(tier.pop("head", None))
    for reasons in (row.get("reasons", ()), row.get("abstained", ()), tier["reasons"] if tier else ()):
        for reason in reasons:
            code = reason["code"]
            reason["code"] = _CODES.get(code) or code.replace("tiers.head", "tiers.learned")
    return row


def _score(head: dict[str, Any] | None) -> dict[str, Any] | None:
    if head is None:
        return None
    source = "n-grams" if head["spoke"] == "head" else head["spoke"]
    return {**head, "similarity": head["familiarity"], "source": source}


#: What a row is, by the type of its entry.
_ROWS: Final[dict[type, str]] = {
    Decision: "decision",
    Attempt: "attempt",
    Outcome: "outcome",
    PromptText: "text",
    ShadowDecision: "shadow",
    ShadowAnswer: "shadow",
    ComparedAnswers: "shadow",
    PassedRequest: "passed",
    RunEntry: "run",
    Owner: "owner",
    PolicyText: "policy",
}
_BEGINNINGS: Final = {kind: f'{{"version":{SHAPE},"row":"{name}",'.encode() for kind, name in _ROWS.items()}


class _PolicyRow(msgspec.Struct):
    """A policy; its version has another name, because a row begins with the version of the row's shape."""

    policy: str
    text: str


class _Head(msgspec.Struct):
    version: int
    row: str


_policy_row: Final = msgspec.json.Decoder(_PolicyRow).decode


def _policy_in(line: bytes) -> PolicyText:
    found = _policy_row(line)
    return PolicyText(version=found.policy, text=found.text)


_head: Final = msgspec.json.Decoder(_Head).decode


def row_of(entry: Entry) -> str:
    """Return what kind of a row an entry is."""
    return _ROWS[type(entry)]


def line_of(entry: Entry) -> bytes:
    """Return the row of an entry, without the end of the line.

    Raises:
        TypeError, ValueError, RecursionError: the entry cannot be written as JSON.
    """
    said = _PolicyRow(entry.version, entry.text) if isinstance(entry, PolicyText) else entry
    return _BEGINNINGS[type(entry)] + encode(said)[1:]


def entry_in(line: bytes) -> Entry:
    """Return the entry in a row, also of an earlier version.

    Raises:
        msgspec.DecodeError: it is none, or of a newer version.
    """
    head = _head(line)
    if head.version > SHAPE:
        raise msgspec.ValidationError(f"version {head.version}; this program reads versions up to {SHAPE}")
    if head.row == "decision":
        return decision_in(line, head.version)
    if head.row not in _READERS:
        raise msgspec.ValidationError(f'unknown row "{head.row}"')
    return _READERS[head.row](line)


def lines_of(entries: Iterable[Entry], mode: TextMode) -> tuple[list[Entry], list[bytes], int]:
    """Return the stored form of entries, their rows, and how many cannot be written as JSON."""
    kept: list[Entry] = []
    lines: list[bytes] = []
    refused = 0
    for entry in entries:
        try:
            if (found := _kept(entry, mode)) is not None:
                lines.append(line_of(found))
                kept.append(found)
        except (TypeError, ValueError, RecursionError):  # counted: there is no row of it
            refused += 1
    return kept, lines, refused


def _kept(entry: Entry, mode: TextMode) -> Entry | None:
    """Return the stored form of an entry; None for nothing."""
    match entry:
        case Decision():
            return kept_decision(entry, mode)
        case RunEntry():
            return kept_step(entry, mode)
        case PromptText():
            text = kept_text(entry.text, mode)
            return None if text is None else PromptText(decision=entry.decision, text=text)
    return entry


_attempt: Final = msgspec.json.Decoder(Attempt).decode
_passed: Final = msgspec.json.Decoder(PassedRequest).decode
_run_entry: Final = msgspec.json.Decoder(RunEntry).decode
#: How an entry is read, by what its row is; decisions are converted from earlier shapes.
_READERS: Final[dict[str, Callable[[bytes], Entry]]] = {
    "attempt": _attempt,
    "outcome": msgspec.json.Decoder(Outcome).decode,
    "text": msgspec.json.Decoder(PromptText).decode,
    "shadow": msgspec.json.Decoder(Shadow).decode,
    "passed": _passed,
    "run": _run_entry,
    "owner": msgspec.json.Decoder(Owner).decode,
    "policy": _policy_in,
}

encode: Final = msgspec.json.Encoder().encode
read_decision: Final = _undamaged(_decision)
read_passed: Final = _undamaged(_passed)
read_run_entry: Final = _undamaged(_run_entry)

#: What an entry of a decision is. They are read in this order.
ATTEMPT, OUTCOME, SHADOW, TEXT = EVERYTHING = tuple(range(4))
#: Those that a summary is made of.
SUMMARISED: Final = (ATTEMPT, OUTCOME, SHADOW)


def _entry(row: str) -> Callable[[bytes], list[Any]]:
    read = _READERS[row]
    return lambda body: [read(body)]


#: By kind, of the entries in a row. The words of a text are the body itself.
READERS: Final[tuple[Callable[[bytes], list[Any]], ...]] = (
    _undamaged(_attempts),
    _undamaged(_entry("outcome")),
    _undamaged(_entry("shadow")),
    _undamaged(lambda words: [words.decode()]),
)
