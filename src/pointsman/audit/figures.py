"""The figures of one session: numbers and names, no texts. Input of reports and of the cache."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from pointsman.audit.caches import HOUR, REWRITTEN, SHORT, Call, calls
from pointsman.audit.outcomes import (
    STUCK,
    Sign,
    TurnOutcome,
    call_outcome,
    is_stuck,
    signs,
    stuck_after,
    turn_outcomes,
)
from pointsman.audit.session import Certainty, Request, Session, SessionFacts, Tokens, local
from pointsman.remembering import grouped, summed
from pointsman.trajectory import CallOutcome

__all__ = [
    "Miss",
    "Part",
    "SessionFigures",
    "SignFigures",
    "Spent",
    "Split",
    "figures",
    "misses",
    "role_of",
    "unused_tools",
    "where",
]


# Where the tokens of prompts went: an estimate, from the sum of each prompt and the lengths of texts.

#: Characters of a token, for English and code; a rule of thumb of the providers.
_CHARACTERS: Final = 4
#: A prompt that is shorter than this share of the one before begins anew.
_ANEW: Final = 0.6

_SYSTEM: Final = "system prompt and tool descriptions"
_KINDS: Final = ("the person's words", "answers", "tool arguments", "tool results")


def where(requests: Sequence[Request]) -> dict[str, int]:
    """Divide the tokens of all prompts by their parts.

    The first prompt of a conversation without the person's words is taken as the system prompt with the
    descriptions of tools, which every later prompt repeats. The rest of a prompt is divided in proportion to
    the lengths of the texts before it.
    """
    sums = dict.fromkeys((_SYSTEM, *_KINDS), 0)
    agents: dict[str, _Conversation] = {}
    for request in requests:
        agents.setdefault(request.agent, _Conversation()).take(request, sums)
    return sums


class _Conversation:
    """Parts of the prompts of one agent."""

    def __init__(self) -> None:
        self._base = self._latest = 0
        self._texts = dict.fromkeys(_KINDS, 0)

    def take(self, request: Request, sums: dict[str, int]) -> None:
        """Divide one prompt, then add the later messages."""
        tokens = request.usage.input_tokens
        if request.prompt is not None:
            self._texts[_KINDS[0]] += len(request.prompt)
        if request.new_context or tokens < _ANEW * self._latest:
            self._texts = dict.fromkeys(_KINDS, 0) | {_KINDS[0]: len(request.prompt or "")}
        if not self._base:
            self._base = max(tokens - sum(self._texts.values()) // _CHARACTERS, 0)
        self._latest = tokens
        base = min(self._base, tokens)
        rest, length = tokens - base, sum(self._texts.values())
        sums[_SYSTEM] += base if length else tokens
        for kind, characters in self._texts.items():
            sums[kind] += round(rest * characters / length) if length else 0
        self._texts[_KINDS[1]] += request.text_length
        self._texts[_KINDS[2]] += sum(len(call.arguments) for call in request.calls)
        self._texts[_KINDS[3]] += sum(call.result_length for call in request.calls)


def unused_tools(session: Session, called: Mapping[str, object]) -> dict[str, int]:
    """Tools that the agent was offered and never called: tokens of their descriptions in all its prompts."""
    main = sum(not request.agent for request in session.requests)
    return {
        name: characters // _CHARACTERS * main
        for name, characters in session.tools_offered.items()
        if name not in called
    }


# Cache misses as the provider counted them: what the next prompt could have read and had to pay again.


class Miss(msgspec.Struct, frozen=True, gc=False):
    """Cache misses of one session that have a cause and a model in common."""

    cause: str
    model: str
    provider: str
    day: str
    count: int
    tokens: int  # that the request before had in its prompt, and this one did not read from the cache


def misses(requests: Sequence[Request]) -> tuple[Miss, ...]:
    """Compare every request with the one before of the same agent."""
    found = grouped(
        ((cause, request.model, request.provider, _day(request)), tokens)
        for cause, request, tokens in _missed(requests)
    )
    return tuple(Miss(*key, len(tokens), sum(tokens)) for key, tokens in found.items())


def _missed(requests: Sequence[Request]) -> Iterator[tuple[str, Request, int]]:
    before: dict[str, Request] = {}
    seen: dict[tuple[str, str], Request] = {}
    for request in requests:
        earlier = before.get(request.agent)
        same = seen.get((request.agent, request.model))
        if earlier is not None:
            expected = min(earlier.usage.input_tokens, request.usage.input_tokens)
            lost = expected - request.usage.cached_tokens
            if lost > REWRITTEN and any(map(_uses_cache, (earlier, request))):
                yield _cause(request, earlier, same), request, lost
        before[request.agent] = request
        seen[request.agent, request.model] = request


def _uses_cache(request: Request) -> bool:
    """Whether the log shows any use of a cache."""
    return bool(request.usage.cached_tokens or request.usage.written_tokens)


def _cause(request: Request, earlier: Request, same: Request | None) -> str:
    if request.new_context:
        return "compaction"
    if request.model != earlier.model:
        return "model changed"
    pause = request.at - (same or earlier).at if request.at and earlier.at else 0.0
    if pause > (HOUR if (same or earlier).usage.written_1h_tokens else SHORT):
        return "pause longer than the cache lives"
    if request.usage.input_tokens < earlier.usage.input_tokens:
        return "conversation shortened or begun anew"
    return "beginning of the prompt changed"


#: Role of a sub-agent's requests, whatever they are for.
SUB_AGENT: Final = "sub-agent"
_UNTIMED: Final = ""


class Split(msgspec.Struct, frozen=True, gc=False):
    """What tokens have in common that are added up: everything a price depends on, and day and role."""

    day: str  # of this machine's zone, ISO 8601; "" unknown
    model: str
    provider: str
    role: str
    subscription: bool = False
    rate: float = 1.0  # how many times the list price
    costs: bool | None = None  # whether the cost in the log is more than 0; None: it has none


class Spent(Tokens, frozen=True, gc=False, kw_only=True):
    """Sums over requests."""

    requests: int = 0
    uncertain: int = 0  # requests whose tokens the log does not have exactly
    logged_cost: float = 0.0  # dollars, of the requests whose log has a cost
    fees: float = 0.0  # dollars beside those of tokens, where the log has no cost

    @classmethod
    def of(cls, request: Request) -> Spent:
        """The sums of one request."""
        usage, cost = request.usage, request.cost
        return cls(
            **usage.counts() | {"output_at_most": max(usage.output_tokens, usage.output_at_most)},
            requests=1,
            uncertain=int((usage.output_certainty, usage.input_certainty) != _EXACT),
            logged_cost=cost or 0.0,
            fees=request.fees,
        )

    def __add__(self, other: Spent) -> Spent:
        return Spent(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})

    def __sub__(self, other: Spent) -> Spent:
        return Spent(**{name: getattr(self, name) - getattr(other, name) for name in self.__struct_fields__})


_EXACT: Final = (Certainty.LOGGED, Certainty.LOGGED)


class Part(msgspec.Struct, frozen=True, gc=False):
    """Sums of the requests that have one split in common."""

    split: Split
    spent: Spent


class SignFigures(msgspec.Struct, frozen=True, gc=False):
    """Findings of one detector: episodes, and the requests after their first sign."""

    detector: str
    episodes: int
    after: tuple[Part, ...]  # requests after the first sign of each episode, until it ended


class SessionFigures(SessionFacts, frozen=True, kw_only=True):
    """One session in numbers."""

    started: float = 0.0  # seconds since the epoch; 0 unknown
    ended: float = 0.0
    parts: tuple[Part, ...] = ()
    request_keys: tuple[int, ...] = ()  # hashes of the requests' ids, to recognise copies
    turns: int = 0
    sub_agents: int = 0
    tool_calls: int = 0
    failed_calls: int = 0
    calls_by_tool: dict[str, tuple[int, int]] = msgspec.field(default_factory=dict)  # calls, failed ones
    #: Offered, never called: tokens of their descriptions in all requests, estimated.
    unused_tools: dict[str, int] = msgspec.field(default_factory=dict)
    stuck: bool = False
    solved: bool | None = None
    solved_by: str = ""
    outcomes: tuple[TurnOutcome, ...] = ()
    signs: tuple[SignFigures, ...] = ()
    after_sign: tuple[Part, ...] = ()  # requests after any sign of being stuck, each once
    after_stuck: tuple[Part, ...] = ()  # where it ended stuck: requests after signs that lasted
    moved: tuple[Call, ...] = ()  # requests that are work, where one conversation had more than one model
    #: Events in order: u the user spoke, m the model answered, o a call worked, x it failed, s the first sign
    #: of being stuck; "." at an end: events before or after are left out.
    lane: str = ""
    misses: tuple[Miss, ...] = ()  # prompt caches
    #: Tokens of all prompts by what they consist of, estimated.
    where: dict[str, int] = msgspec.field(default_factory=dict)

    def total(self) -> Spent:
        """Sums of the whole session."""
        return sum((part.spent for part in self.parts), Spent())


def figures(session: Session, *, keys: Sequence[int] = ()) -> SessionFigures:
    """Compute the figures of a session.

    Args:
        session: The session without the requests that are copies of another session's.
        keys: Hashes of all its requests' ids.
    """
    requests = session.requests
    found = signs(requests)
    outcomes = turn_outcomes(session, stuck_after(found, requests))
    last = outcomes[-1] if outcomes else None
    solved = last.solved if last else None
    tools = _calls(requests)
    stuck = solved is not True and is_stuck(found, requests)
    lasting = [sign for sign in found if sign.lasts] if stuck else []
    return SessionFigures(
        id=session.id,
        client=session.client,
        version=session.version,
        project=session.project,
        files=session.files,
        parent=session.parent,
        prices=session.prices,
        started=session.started,
        ended=session.ended,
        parts=parts(requests),
        request_keys=tuple(keys),
        turns=len(outcomes),
        sub_agents=len({each.agent for each in requests} - {""}),
        tool_calls=sum(made for made, _ in tools.values()),
        failed_calls=sum(failed for _, failed in tools.values()),
        calls_by_tool=tools,
        unused_tools=unused_tools(session, tools),
        stuck=stuck,
        solved=solved,
        solved_by=last.by if last else "",
        outcomes=outcomes,
        signs=tuple(_sign_figures(requests, found)),
        after_sign=parts(requests[index] for index in _after(found)),
        after_stuck=parts(requests[index] for index in _after(lasting)),
        moved=_moved(requests),
        lane=_lane(requests, min((sign.first for sign in found if sign.detector in STUCK), default=-1)),
        misses=misses(requests),
        where=where(requests),
        not_logged=session.not_logged,
        notes=session.notes,
    )


def parts(requests: Iterable[Request]) -> tuple[Part, ...]:
    """Add requests up by what their price, day and role depend on."""
    sums = summed(((_split(request), Spent.of(request)) for request in requests), Spent())
    return tuple(Part(split, spent) for split, spent in sums.items())


def _day(request: Request) -> str:
    return local(request.at).date().isoformat() if request.at else _UNTIMED


def _split(request: Request) -> Split:
    return Split(
        day=_day(request),
        model=request.model,
        provider=request.provider,
        role=role_of(request),
        subscription=request.subscription,
        rate=request.rate,
        costs=None if request.cost is None else request.cost > 0,
    )


def role_of(request: Request) -> str:
    """Purpose of a request, by which amounts are divided."""
    return SUB_AGENT if request.agent else request.purpose.value


#: Events of a lane. Of a longer session those around the first sign of being stuck are shown, else the first.
_LANE: Final = 400
_BEFORE_SIGN: Final = 300


def _lane(requests: Iterable[Request], sign: int) -> str:
    """Draw events; ``sign`` is the index of the request whose calls completed the first pattern, or -1."""
    found: list[str] = []
    for index, request in enumerate(requests):
        found += "um" if request.prompt is not None and not request.agent else "m"
        found += ("x" if call_outcome(call) is CallOutcome.ERROR else "o" for call in request.calls)
        if index == sign:
            found.append("s")
    at = found.index("s") if "s" in found else 0
    first = max(0, min(at - _BEFORE_SIGN, len(found) - _LANE))
    before, after = "." if first else "", "." if first + _LANE < len(found) else ""
    return before + "".join(found[first : first + _LANE]) + after


def _moved(requests: Iterable[Request]) -> tuple[Call, ...]:
    work = [each for each in requests if each.agent or each.is_main]
    used = grouped((request.agent, request.model) for request in work)
    return calls(work) if any(len(set(models)) > 1 for models in used.values()) else ()


def _calls(requests: Iterable[Request]) -> dict[str, tuple[int, int]]:
    found = grouped(
        (call.name, call_outcome(call) is CallOutcome.ERROR) for request in requests for call in request.calls
    )
    ranked = sorted(found.items(), key=lambda each: -len(each[1]))
    return {name: (len(failed), sum(failed)) for name, failed in ranked}


def _after(found: Sequence[Sign]) -> list[int]:
    """Indices of the requests after a first sign: the one whose calls completed the pattern was needed."""
    return sorted({at for sign in found if sign.detector in STUCK for at in range(sign.first + 1, sign.end)})


def _sign_figures(requests: Sequence[Request], found: Sequence[Sign]) -> Iterable[SignFigures]:
    for name in sorted({sign.detector for sign in found}):
        own = [sign for sign in found if sign.detector == name]
        after = {at for sign in own for at in range(sign.first + 1, sign.end)}
        yield SignFigures(name, len(own), parts(requests[at] for at in sorted(after)))
