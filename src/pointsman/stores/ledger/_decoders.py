"""The bodies of rows: entries as JSON, encoded and decoded; a damaged one is reported.

Bodies of decisions are compressed in SQLite, with a dictionary of what most of them have in common: 1.5 to
3 kB become 0.2 to 0.8 kB, in 8 to 15 µs. A compressed body begins with the header of RFC 1950, which names
the dictionary by a checksum; an uncompressed one, of PostgreSQL or of an earlier version, begins with ``{``.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Final, ParamSpec, TypeVar

import msgspec

from pointsman.decision.decision import Decision
from pointsman.errors import StoreUnavailable
from pointsman.stores.ledger._earlier import decision_in
from pointsman.stores.ledger.port import Attempt, Outcome, PassedRequest, RunEntry, Shadow

__all__ = [
    "ATTEMPT",
    "OUTCOME",
    "READERS",
    "SHADOW",
    "TEXT",
    "encode",
    "grouped",
    "packed",
    "read_attempt",
    "read_decision",
    "read_outcome",
    "read_passed",
    "read_run_entry",
    "read_shadow",
]

#: Part of the format: rows that are written with it can only be read with it. The most frequent parts are at
#: the end, where references to them are shortest (RFC 1951, section 3.2.5).
_DICTIONARY: Final = b"""\
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

_LEVEL: Final = 1
#: Base two logarithm of the window, and the memory of a compressor: as large as the dictionary with a body.
_WINDOW: Final = 13
_MEMORY: Final = 6
_PLAIN: Final = b"{"

Decoded = TypeVar("Decoded")
Body = ParamSpec("Body")


def packed(body: bytes) -> bytes:
    """Return the compressed form of a JSON object."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY, zdict=_DICTIONARY)
    return packer.compress(body) + packer.flush()


def _unpacked(body: bytes) -> bytes:
    """Return the JSON object of a row, compressed or not.

    Raises:
        msgspec.DecodeError: The compressed form is damaged.
    """
    if body.startswith(_PLAIN):
        return body
    unpacker = zlib.decompressobj(_WINDOW, zdict=_DICTIONARY)
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


def _decision(body: bytes, shape: int) -> Decision:
    return decision_in(_unpacked(body), shape)


encode: Final = msgspec.json.Encoder().encode
read_decision: Final = _undamaged(_decision)
read_attempt: Final = _undamaged(msgspec.json.Decoder(Attempt).decode)
read_outcome: Final = _undamaged(msgspec.json.Decoder(Outcome).decode)
read_passed: Final = _undamaged(msgspec.json.Decoder(PassedRequest).decode)
read_run_entry: Final = _undamaged(msgspec.json.Decoder(RunEntry).decode)
read_shadow: Final = _undamaged(msgspec.json.Decoder(Shadow).decode)

#: What an entry of a decision is. They are read in this order.
ATTEMPT, OUTCOME, SHADOW, TEXT = range(4)
#: Of the kinds that a turn's summary depends on.
READERS: Final[dict[int, Callable[[bytes], Any]]] = {
    ATTEMPT: read_attempt,
    OUTCOME: read_outcome,
    SHADOW: read_shadow,
}


def grouped(
    rows: Iterable[tuple[str, bytes]], decode: Callable[[bytes], Decoded]
) -> defaultdict[str, list[Decoded]]:
    """Entries read for several decisions or runs, by their ids."""
    found: defaultdict[str, list[Decoded]] = defaultdict(list)
    for owner, body in rows:
        found[owner].append(decode(body))
    return found
