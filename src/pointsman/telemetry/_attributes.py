"""The attributes, events and error of a request's span, as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from pointsman.decision.decision import Decision
from pointsman.printable import printable
from pointsman.stores.ledger.port import Attempt
from pointsman.telemetry import conventions as names
from pointsman.telemetry.request_record import EndedRequest, RequestRecord

__all__ = ["Value", "attributes", "error_of", "failed_attempts", "span_name"]

Value: TypeAlias = str | int | float | tuple[str, ...]

#: Characters of a value that a caller chose, and reasons that are told.
_SHOWN: Final = 200
_MOST_REASONS: Final = 32
_FAILED: Final = 500


def span_name(ended: EndedRequest) -> str:
    """Return the name of the span: the operation and the model, or the method where nothing was decided."""
    if ended.decision is None:
        return printable(ended.method[:_SHOWN])
    return f"{names.CHAT} {ended.decision.input.model_asked[:_SHOWN]}"


def attributes(
    ended: EndedRequest, record: RequestRecord, providers: Mapping[str, str], ids: Mapping[str, str]
) -> dict[str, Value]:
    """Return the attributes of the span.

    Args:
        ended: The request.
        record: Its fields.
        providers: Of each upstream, by its name.
        ids: What the upstream of a model calls it, by its configured name.
    """
    found: dict[str, Value | None] = {
        names.METHOD: record.method,
        names.PATH: record.path,
        names.STATUS: record.status or None,
        names.CALLER: record.caller,
        names.ATTEMPTS: record.attempts,
        names.ERROR_TYPE: error_of(ended),
        names.FIRST_CHUNK: None if ended.first_byte is None else round(ended.first_byte, 6),
    }
    if ended.decision is not None:
        found |= _decided(ended.decision)
        found |= _answered(record, providers, ids)
    return {name: value for name, value in found.items() if value is not None}


def _decided(decision: Decision) -> dict[str, Value | None]:
    asked, tier, guidance, domains = decision.input, decision.tier, decision.guidance, decision.domains
    firings = guidance.firings if guidance else ()
    return {
        names.OPERATION: names.CHAT,
        names.REQUEST_MODEL: asked.model_asked[:_SHOWN],
        names.SESSION: asked.session[:_SHOWN] or None,
        names.DECISION: decision.id,
        names.POLICY: decision.policy,
        names.FORMAT: str(asked.format),
        names.ROLE: str(asked.role) if asked.role else None,
        names.TIER: str(tier.tier) if tier else None,
        names.STAGE: str(tier.stage) if tier else None,
        names.DOMAIN: (domains.effective.primary.domain or None) if domains else None,
        names.GUIDANCE: tuple(firing.classifier for firing in firings) or None,
        names.GUIDANCE_ARM: str(guidance.arm) if guidance and firings else None,
        names.REASONS: tuple(reason.code for reason in decision.reasons[:_MOST_REASONS]) or None,
    }


def _answered(
    record: RequestRecord, providers: Mapping[str, str], ids: Mapping[str, str]
) -> dict[str, Value | None]:
    upstream, used = record.upstream, record.spent
    return {
        names.PROVIDER: (providers.get(upstream) or upstream) if upstream else None,
        names.UPSTREAM: upstream,
        names.MODEL: record.model,
        names.RESPONSE_MODEL: ids.get(record.model, record.model) if upstream else None,
        names.INPUT_TOKENS: used.input,
        names.CACHED_TOKENS: used.cached,
        names.OUTPUT_TOKENS: used.output,
        names.COST: used.cost,
        names.ADDED: record.added or None,
    }


def error_of(ended: EndedRequest) -> str | None:
    """Return the class of failure; None where there is none, or the request itself was wrong (4xx)."""
    last = ended.attempts[-1].error if ended.attempts else ""
    if ended.status >= _FAILED:
        return last or str(ended.status)
    return last or None if ended.status and ended.status // 100 == 2 else None  # a stream that broke off


def failed_attempts(ended: EndedRequest) -> Iterator[tuple[float, dict[str, Value]]]:
    """Yield each try that did not answer: when it began, in seconds since the epoch, and its attributes."""
    for attempt in ended.attempts:
        if attempt.error or attempt.status // 100 != 2:
            yield attempt.started_at, _tried(attempt)


def _tried(attempt: Attempt) -> dict[str, Value]:
    found: dict[str, Value] = {
        names.MODEL: attempt.model,
        names.UPSTREAM: attempt.upstream,
        names.ERROR_TYPE: attempt.error or str(attempt.status),
    }
    return found | ({names.STATUS: attempt.status} if attempt.status else {})
