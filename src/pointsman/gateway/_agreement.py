"""Asks two cheap models at once, compares their answers, and asks the strong model if they do not agree.

One of the ways to get an answer (``_relay.Ask``); a state without an `[agreement.NAME]` table has the other,
``first_answer``, and this module is not loaded. Each model is asked by an attempt as any other: it is charged
to the caller's key, counted by the circuit breaker, and recorded. Whatever goes wrong here, the request is
served as decided.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from msgspec.structs import replace

from pointsman.access import Hold
from pointsman.agreement import (
    AgreementPolicy,
    AgreementSessions,
    Compared,
    Result,
    policy_for,
    result_of,
    serves_first,
)
from pointsman.agreement.calls import Agreement, compare, is_whole
from pointsman.decision.decision import Decision
from pointsman.decoding import UNREADABLE
from pointsman.errors import (
    CallerError,
    LimitReached,
    Overloaded,
    StoreUnavailable,
    UpstreamError,
    UpstreamTooLarge,
)
from pointsman.gateway._attempts import UpstreamResponse, ask_once, first_answer
from pointsman.gateway._failures import Failure, failure_kind
from pointsman.gateway._request import DecidedRequest, whole_number
from pointsman.gateway._shadow_model import unfit
from pointsman.gateway._streaming import usage_so_far
from pointsman.gateway.upstream import Target
from pointsman.offload import offload_large
from pointsman.stores.ledger.port import COMPARED, ComparedAnswers
from pointsman.text.extract import draw
from pointsman.tiers.projects import name_of
from pointsman.upstreams.connections import ReadExchange
from pointsman.upstreams.port import Exchange, Headers
from pointsman.vocabulary import LARGE
from pointsman.wire import Usage
from pointsman.wire.conversation import Completion, Shape, Tool, collected
from pointsman.wire.translate import StreamTranslation

__all__ = ["AskByAgreement"]

log = logging.getLogger(__name__)

#: Bytes of a streamed answer that is held until it was compared. Calls and short answers are far below.
_LONGEST: Final = 1 << 20
#: Error with which a reservation is settled that nothing was sent for: all of it is given back.
_NOT_SENT: Final = "connect"
#: Failures of a cheap model for which it was not to be asked: the limits of the caller's key have no room.
_NO_ROOM: Final = frozenset({"budget", "rate"})


class _Watched:
    """A stream relayed to the caller and copied (``Exchange``)."""

    def __init__(self, exchange: Exchange, first: bytes, ended: Callable[[bytes | None], None]) -> None:
        self.status: Final = exchange.status
        self.headers: Final[Headers] = exchange.headers
        self._exchange: Final = exchange
        self._ended: Callable[[bytes | None], None] | None = ended
        self._parts: Final = [first]
        self._size = len(first)

    async def read(self) -> bytes:
        return await self._exchange.read()

    async def next(self) -> bytes:
        chunk = await self._exchange.next()
        self._size += len(chunk)
        if self._size <= LARGE:
            self._parts.append(chunk)
        else:
            self._parts.clear()
        return chunk

    def close(self) -> None:
        self._exchange.close()
        ended, self._ended = self._ended, None
        if ended is not None:
            ended(b"".join(self._parts) if self._parts else None)


@dataclass(slots=True)
class _Whole:
    """An answer that was read to its end and not sent."""

    response: UpstreamResponse
    raw: bytes  # of a stream: all its events, as the upstream sent them

    def discard(self, error: str = COMPARED) -> None:
        """Write down that the answer is not sent."""
        attempt, usage = self.response.attempt, self.response.usage
        if self.response.is_stream:
            usage = attempt.wire.end([self.raw]).usage
        attempt.drop(self.response.exchange.status, error, usage)


class _Beside(NamedTuple):
    """The operands of a comparison: the tools of the request, and the answers of the cheap models."""

    tools: Sequence[Tool] = ()
    shape: Shape | None = None
    answers: tuple[Completion | None, ...] = ()

    def same(self, other: Completion | None) -> tuple[bool | None, bool | None]:
        """Whether another answer is the same as each; None if they cannot be compared."""
        first, second = (self._same(other, answer) for answer in self.answers)
        return first, second

    def _same(self, other: Completion | None, answer: Completion | None) -> bool | None:
        if other is None or answer is None:
            return None
        found = compare(other, answer, tools=self.tools, shape=self.shape)
        return None if found.compared is Compared.NOTHING else found.agreed


class AskByAgreement:
    """Gets the answer to a request by the first table that fits it. For one event loop."""

    def __init__(
        self,
        policies: Mapping[str, AgreementPolicy],
        known: Mapping[str, Target],
        sessions: AgreementSessions,
    ) -> None:
        """Prepare to ask.

        Args:
            policies: By name of the table, in the order of the file.
            known: Every configured model, by name.
            sessions: Counts disagreements.
        """
        self.sessions: Final = sessions
        self._policies: Final = policies
        self._known: Final = known

    async def __call__(
        self, request: DecidedRequest, targets: Sequence[Target]
    ) -> UpstreamResponse | Failure:
        """Return the answer that goes to the caller; as ``first_answer``."""
        decision = request.decision
        name = self._rule(decision)
        if name is None:
            return await first_answer(request, targets)
        policy, session = self._policies[name], request.turn.session
        entry = ComparedAnswers(
            decision=decision.id,
            at=time.time(),
            rule=name,
            cheap=policy.cheap,
            result=Result.SKIPPED,
            drawn=draw("agreement", policy.seed, decision.id) < policy.share,
            before=self.sessions.count(session),
        )
        strong = self._strong(request, policy, targets)
        if entry.before >= policy.disagreements:
            why = f"{entry.before} disagreements in this session: the strong model serves the rest"
            self._record(request, replace(entry, detail=why))
            return await first_answer(request, strong)
        if why := await self._unfit(request, policy):
            self._record(request, replace(entry, detail=why))
            return await first_answer(request, targets)
        served, entry, beside = await self._by_cheap(request, policy, entry)
        if served is not None:
            request.site.metrics.note_agreed(decision.id)
            self._record(request, entry)
            return served
        self.sessions.add(session, entry.result)
        if entry.result is Result.SKIPPED:
            strong = targets
        return self._beside(request, entry, beside, await first_answer(request, strong))

    def _rule(self, decision: Decision) -> str | None:
        if decision.tier is None:
            return None  # the caller named the model
        asked = decision.input
        role = name_of(asked.role, asked.purpose)
        tier = decision.tier.tier
        return policy_for(self._policies, tier, role, asked.project, in_loop=asked.in_tool_loop)

    def _strong(
        self, request: DecidedRequest, policy: AgreementPolicy, targets: Sequence[Target]
    ) -> Sequence[Target]:
        """Return the models to ask if the cheap ones do not agree, in order."""
        strong = None if policy.strong is None else self._known[policy.strong]
        if strong is None or unfit(request, strong):
            return targets
        return [strong, *(target for target in targets if target is not strong)]

    async def _unfit(self, request: DecidedRequest, policy: AgreementPolicy) -> str:
        """Why the cheap models are not asked; empty if they are."""
        if (whole_number(request.body.member("n")) or 1) > 1:
            return "several answers are asked for"
        for name in policy.cheap:
            if why := unfit(request, self._known[name]):
                return f"{name}: {why}"
        return "" if request.spending is None else await self._no_room(request, policy)

    async def _no_room(self, request: DecidedRequest, policy: AgreementPolicy) -> str:
        """Why the limits of the caller's key have no room for both answers; empty if they have.

        Both are reserved and given back: one paid answer is of no use without the other.
        """
        holds: list[Hold | None] = []
        try:
            holds += [await request.reserve(self._known[policy.cheap[0]].model)]
            holds += [await request.reserve(self._known[policy.cheap[1]].model)]
        except LimitReached as error:
            return f"{error.kind}: the key has no room for two answers"
        except StoreUnavailable:
            return "the limits of the key cannot be told"
        finally:
            for hold in filter(None, holds):
                request.settle(hold, _NOT_SENT, Usage())
        return ""

    async def _by_cheap(
        self, request: DecidedRequest, policy: AgreementPolicy, entry: ComparedAnswers
    ) -> tuple[UpstreamResponse | None, ComparedAnswers, _Beside]:
        """Ask both and compare. Return the answer that serves, if one does, and the findings."""
        began = time.perf_counter()
        asked = await self._ask_both(request, policy)
        held = [each for each in asked if isinstance(each, _Whole)]
        are_both = len(held) == len(asked)
        try:
            found, beside = await _compared(request, held) if are_both else (_NOTHING, _Beside())
        except asyncio.CancelledError:
            for whole in held:
                whole.discard("disconnect")
            raise
        if are_both:
            result = result_of(found.compared, agreed=found.agreed, is_control=entry.drawn)
            detail = found.detail
        else:
            result, detail = _failed(policy, asked)
        elapsed = (time.perf_counter() - began) * 1e3
        entry = replace(entry, result=result, compared=found.compared, detail=detail, elapsed_ms=elapsed)
        served = held.pop(0).response if serves_first(policy, result) and _can_serve(beside) else None
        for whole in held:
            whole.discard()
        return served, entry, beside

    async def _ask_both(
        self, request: DecidedRequest, policy: AgreementPolicy
    ) -> tuple[_Whole | str, _Whole | str]:
        """Ask both models at once. Return each one's answer, or how it failed: "late" for none in time.

        The other one is not waited for when one has failed: they cannot agree.
        """
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(_whole_answer(request, self._known[name])) for name in policy.cheap]
        waiting, end = set(tasks), loop.time() + policy.timeout
        is_over = False
        try:
            while waiting and not is_over and (left := end - loop.time()) > 0:
                done, waiting = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                is_over = any(isinstance(task.result(), str) for task in done)
        except asyncio.CancelledError:
            for whole in await _stopped(tasks):
                if isinstance(whole, _Whole):
                    whole.discard("disconnect")
            raise
        first, second = await _stopped(tasks)
        return first, second

    def _beside(
        self,
        request: DecidedRequest,
        entry: ComparedAnswers,
        beside: _Beside,
        answer: UpstreamResponse | Failure,
    ) -> UpstreamResponse | Failure:
        """Compare the strong model's answer with those of the cheap ones once it has been sent."""
        if isinstance(answer, Failure):
            self._record(request, entry)
            return answer
        entry = replace(entry, strong=answer.attempt.target.model.name)
        if not any(beside.answers):
            self._record(request, entry)
            return answer

        def ended(raw: bytes | None) -> None:
            try:
                said = None if raw is None else _completion(request, _Whole(answer, raw))
                self._record(request, replace(entry, strong_same=beside.same(said)))
            except Exception:  # the caller has the answer already
                log.warning("%s: answers cannot be compared", request.decision.id, exc_info=True)

        if not answer.is_stream:
            ended(b"" if len(answer.first) <= LARGE else None)
            return answer
        first = answer.first + (bytes(answer.splitter.pending) if answer.splitter else b"")
        return replace(answer, exchange=_Watched(answer.exchange, first, ended))

    def _record(self, request: DecidedRequest, entry: ComparedAnswers) -> None:
        request.site.metrics.count("agreements", entry.rule, entry.result)
        request.ledger.append(entry)


_NOTHING: Final = Agreement(agreed=False, compared=Compared.NOTHING, detail="")


def _can_serve(beside: _Beside) -> bool:
    """Whether the first answer came to its end, so that it may be served."""
    first = beside.answers[0] if beside.answers else None
    return first is not None and is_whole(first)


def _failed(policy: AgreementPolicy, asked: Sequence[_Whole | str]) -> tuple[Result, str]:
    """Return the result of a comparison in which one of the cheap models gave no answer."""
    failed = {name: each for name, each in zip(policy.cheap, asked, strict=True) if isinstance(each, str)}
    for name, why in failed.items():
        if why in _NO_ROOM:
            return Result.SKIPPED, f"{name}: {why}"
    known = {name: why for name, why in failed.items() if why != _LATE} or failed
    name, why = next(iter(known.items()))
    return (Result.LATE if why == _LATE else Result.FAILED), f"{name}: {why}"


_LATE: Final = "late"


async def _stopped(tasks: Sequence[asyncio.Task[_Whole | str]]) -> list[_Whole | str]:
    """Return what each task found; one that is not done is cancelled, and has found nothing in time."""
    for task in tasks:
        task.cancel()  # does nothing to one that is done
    found = await asyncio.gather(*tasks, return_exceptions=True)
    return [_LATE if isinstance(each, BaseException) else each for each in found]


async def _whole_answer(request: DecidedRequest, target: Target) -> _Whole | str:
    """Ask one model and read its answer to the end. Return how it failed if it did."""
    try:
        result = await ask_once(request, target)
        if isinstance(result, Failure):
            return result.kind
        return await _read(request, result) if result.is_stream else _Whole(result, b"")
    except (Overloaded, StoreUnavailable):
        return "busy"
    except UpstreamError as error:
        return failure_kind(error)
    except Exception:
        log.warning("%s cannot be asked for %s", target.model.name, request.decision.id, exc_info=True)
        return "failed"


async def _read(request: DecidedRequest, response: UpstreamResponse) -> _Whole:
    """Read a stream to its end.

    Raises:
        UpstreamError: it breaks off, or is too long to be held.
    """
    exchange, chunks = response.exchange, list[bytes]()
    first = response.first + (bytes(response.splitter.pending) if response.splitter else b"")
    size = len(first)
    try:
        while size <= _LONGEST and (chunk := await exchange.next()):
            chunks.append(chunk)
            size += len(chunk)
    except BaseException as error:
        kind = failure_kind(error) if isinstance(error, UpstreamError) else ""
        _cut(request, response, [first, *chunks], kind)
        raise
    finally:
        exchange.close()
    if size > _LONGEST:
        _cut(request, response, [first, *chunks], "")
        raise UpstreamTooLarge("the answer is too long to be compared")
    rest = ReadExchange(exchange.status, exchange.headers, chunks)
    return _Whole(replace(response, exchange=rest), first + b"".join(chunks))


def _cut(request: DecidedRequest, response: UpstreamResponse, chunks: Sequence[bytes], error: str) -> None:
    """Record a stream that was not read to its end: it broke off, or is not needed any more."""
    attempt, read = response.attempt, b"".join(chunks)
    usage, is_estimated = usage_so_far(attempt.wire, len(request.body.raw), [read], len(read))
    attempt.finish(response.exchange.status, error or COMPARED, usage, estimated=is_estimated)


async def _compared(request: DecidedRequest, held: Sequence[_Whole]) -> tuple[Agreement, _Beside]:
    """Compare two answers; large ones, and those to large requests, in another thread."""
    size = len(request.body.raw) + sum(len(each.raw) + len(each.response.first) for each in held)
    try:
        return await offload_large(size, partial(_compare, request, *held))
    except Exception:  # the strong model answers
        log.warning("%s: answers cannot be compared", request.decision.id, exc_info=True)
        return replace(_NOTHING, detail="the answers cannot be compared"), _Beside()


def _compare(request: DecidedRequest, first: _Whole, second: _Whole) -> tuple[Agreement, _Beside]:
    try:
        asked = request.wire.codec.read_request(request.body.raw)
    except CallerError as error:
        return replace(_NOTHING, detail=f"the request cannot be read: {error.message}"), _Beside()
    said = (_completion(request, first), _completion(request, second))
    beside = _Beside(asked.tools, asked.shape, said)
    if said[0] is None or said[1] is None:
        return replace(_NOTHING, detail="an answer is not whole, or cannot be read"), beside
    return compare(said[0], said[1], tools=asked.tools, shape=asked.shape), beside


def _completion(request: DecidedRequest, whole: _Whole) -> Completion | None:
    """Return the content of an answer, in terms of the caller's request; None if it cannot be read."""
    own, response = request.wire.codec, whole.response
    try:
        if not response.is_stream:
            return own.read_answer(response.first)  # translated already
        raw = whole.raw if whole.raw.endswith(b"\n\n") else whole.raw + b"\n\n"
        if (translated := response.attempt.translated) is not None:
            stream = StreamTranslation(translated)
            raw = stream.feed(raw) + stream.feed(b"")
        reader = own.stream_reader()
        return collected([*reader.feed(raw), *reader.feed(b"")])
    except UNREADABLE:
        return None
