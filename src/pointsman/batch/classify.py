"""``classify_batch``: the decision for each row of a record batch, without memory and without a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa

from pointsman.batch.columns import TEXT, InputColumn, find, find_input
from pointsman.decision.engine import Engine
from pointsman.decision.memory import Memory
from pointsman.decision.policy import DomainPolicy, Policy
from pointsman.decoding import UNREADABLE, why_unreadable, without_halves, without_nulls
from pointsman.domains import default_domains
from pointsman.drivers import drive, no_model
from pointsman.errors import CallerError, MalformedRequest
from pointsman.factory import build_engine, default_policy, read_policy, read_profile
from pointsman.remembering import Bounded
from pointsman.stores.ledger.export import SHAPE
from pointsman.vocabulary import AgentRequest, WireFormat
from pointsman.wire import FORMATS
from pointsman.wire.request import read_request, request_from_text

__all__ = ["FORMAT", "SCHEMA", "BatchClassifier", "classify_batch", "engine_of", "requests"]


# Engines of this process, by policy: whoever maps a function over batches pickles it anew for each task.

#: Engines that are kept: building one takes a few hundred milliseconds, and it holds some megabytes.
_MOST: Final = 4
_built: Final = Bounded[str, Engine](_MOST)


def engine_of(policy: Policy, version: str) -> Engine:
    """Return the engine of a policy, which is built with its first use in this process.

    Args:
        policy: What decides.
        version: Its version, which names all that decides.
    """
    engine = _built.get(version) or build_engine(policy)
    _built.keep(version, engine)
    return engine


# The requests in a record batch: what one row holds, as the gateway would read it.

#: The column that names the wire format of each row; without it, and where it is null, it is ``chat``.
FORMAT: Final = "format"
_CHAT: Final = WireFormat.CHAT

_messages: Final = msgspec.json.Decoder(list[Any]).decode


def requests(batch: pa.RecordBatch, column: InputColumn) -> Iterator[Callable[[], AgentRequest]]:
    """Yield for each row the function that reads it, which raises ``CallerError`` if it cannot."""
    read = _READERS[column.kind]
    for value, wire in zip(batch.column(column.name).to_pylist(), _formats(batch, column), strict=True):
        yield partial(read, value, wire)


def _formats(batch: pa.RecordBatch, column: InputColumn) -> list[str | None]:
    if column.kind == "text" or FORMAT not in batch.schema.names:
        return [None] * batch.num_rows
    formats: list[str | None] = batch.column(find(batch.schema, FORMAT, TEXT, "")).to_pylist()
    return formats


def _text(value: str | None, _: str | None) -> AgentRequest:
    if value is None:
        raise MalformedRequest("the text is null")
    return request_from_text(value)


def _conversation(value: Any, wire: str | None) -> AgentRequest:
    format = _format(wire)  # noqa: A001 - as elsewhere
    # Arrow gives every struct all fields of its type.
    messages = _messages_in(value) if isinstance(value, str | bytes) else without_nulls(value)
    if messages is None:
        raise MalformedRequest("the messages are null")
    return read_request(format, FORMATS[format].body(messages, ""))


def _messages_in(value: str | bytes) -> list[Any]:
    try:
        return _messages(_whole(value))
    except UNREADABLE as error:
        raise MalformedRequest(f"the messages are no JSON array: {why_unreadable(error)}") from None


def _body(value: str | bytes | None, wire: str | None) -> AgentRequest:
    """A whole request. The model it asks for is left out: the model is the question."""
    if value is None:
        raise MalformedRequest("the request is null")
    request = read_request(_format(wire), _whole(value))
    return msgspec.structs.replace(request, model="")


def _whole(value: str | bytes) -> bytes:
    """JSON in which half a character, as JavaScript may write one, is replaced."""
    data = value.encode("utf-8", "replace") if isinstance(value, str) else value
    return without_halves(data) if rb"\ud" in data.lower() else data


def _format(wire: str | None) -> WireFormat:
    try:
        return _CHAT if wire is None else WireFormat(wire)
    except ValueError:
        known = ", ".join(WireFormat)
        raise MalformedRequest(f'no wire format "{wire}"', hint=f"known: {known}") from None


_READERS: Final[Mapping[str, Callable[[Any, str | None], AgentRequest]]] = {
    "text": _text,
    "messages": _conversation,
    "request": _body,
}


#: Columns that are passed on as they are, where they are there.
_KEPT: Final = ("id",)
_NO_MEMORY: Final = Memory()
_NEEDS_VERIFICATION: Final = "needs_verification"

#: Columns of the output (docs/reference/batch.md). A row that could not be read has ``error``, ``flags`` and
#: both versions alone.
SCHEMA: Final = pa.schema(
    [
        ("tier", pa.string()),
        ("score", pa.float64()),
        ("confidence", pa.float64()),
        ("stage", pa.string()),
        ("domains", pa.list_(pa.string())),
        ("capabilities", pa.list_(pa.string())),
        ("flags", pa.list_(pa.string())),
        ("explanation_version", pa.int16()),
        ("policy_version", pa.string()),
        ("error", pa.string()),
    ]
)


class BatchClassifier:
    """Classifies record batches under one policy. Picklable: the engine is built at first use."""

    name: Final = "classify"

    def __init__(self, policy: Policy | None = None, column: InputColumn | None = None) -> None:
        """Take what decides.

        Args:
            policy: By default that of ``pointsman classify``: profile ``default`` and the built-in domains.
            column: What rows are read from; by default ``text``, ``messages`` or ``request``.
        """
        self.policy = policy or Policy(
            profile=read_profile("default"), domains=DomainPolicy(domains=default_domains())
        )
        self.version = self.policy.version()
        self.column = column

    @classmethod
    def from_config(cls, file: Path | str, column: InputColumn | None = None) -> BatchClassifier:
        """Take the policy of a configuration, or a tier profile.

        Raises:
            ConfigError: the file cannot be read, or is wrong.
        """
        return cls(read_policy(Path(file), default_policy()), column)

    def describe(self) -> dict[str, object]:
        """Inputs of the output other than the rows."""
        return {
            "policy_version": self.version,
            "explanation_version": SHAPE,
            "column": list(self.column) if self.column else None,
        }

    def columns(self, schema: pa.Schema, file: str = "") -> list[str]:
        """Return the columns that are read.

        Raises:
            ConfigError: one is missing or of another type; names file, column and expected.
        """
        column = find_input(schema, self.column, file)
        names = [name for name in _KEPT if name in schema.names]
        if column.kind != "text" and FORMAT in schema.names:
            names.append(find(schema, FORMAT, TEXT, file))
        return [*names, column.name]

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns of the output for those of the input."""
        kept = [schema.field(name) for name in _KEPT if name in schema.names]
        return pa.schema([*(field.remove_metadata() for field in kept), *SCHEMA])

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Classify every row, each by itself.

        Raises:
            ConfigError: a column is missing or of another type.
        """
        column = find_input(batch.schema, self.column, "")
        engine = engine_of(self.policy, self.version)
        versions = {"explanation_version": SHAPE, "policy_version": engine.version}
        rows = [_row(engine, read) | versions for read in requests(batch, column)]
        kept = [batch.column(name) for name in _KEPT if name in batch.schema.names]
        made = pa.RecordBatch.from_pylist(rows, SCHEMA)
        return pa.RecordBatch.from_arrays([*kept, *made.columns], schema=self.schema(batch.schema))


def _row(engine: Engine, read: Callable[[], AgentRequest]) -> dict[str, object]:
    """The columns of ``SCHEMA`` that differ by row."""
    try:
        decision = drive(engine.decide(read(), _NO_MEMORY, ""), no_model).decision
    except CallerError as error:
        return {"flags": ["error"], "error": str(error)}
    flags = [reason.code for reason in decision.abstained]
    tier, domains, selected = decision.tier, decision.domains, decision.capabilities
    assert tier is not None  # noqa: S101 - a row never asks for a model
    if tier.needs_verification:
        flags.append(_NEEDS_VERIFICATION)
    return {
        "tier": str(tier.tier),
        "score": tier.score,
        "confidence": tier.confidence,
        "stage": str(tier.stage),
        "domains": [name for name in domains.effective.domains if name] if domains else None,
        "capabilities": list(selected.selected) if selected else None,
        "flags": flags,
    }


@lru_cache(maxsize=1)
def _default() -> BatchClassifier:
    return BatchClassifier()


def classify_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Classify every row of a record batch under the default policy, each by itself.

    The same batch gives the same result on every machine: no clock, network or session is read, and no model
    is asked. For another policy use ``BatchClassifier``, which is called alike.

    Args:
        batch: With a column ``text`` (string), ``messages`` (JSON, or list of struct) or ``request`` (JSON).

    Returns:
        A row for each row: ``id`` if there is one, and the columns of ``SCHEMA``.

    Raises:
        ConfigError: a column is missing or of another type; names it, and the expected type.
    """
    return _default()(batch)
