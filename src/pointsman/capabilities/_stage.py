"""The selection of capabilities for the requests of a session, as a part of a decision.

A selection is made when a person has spoken, and stands until they speak again: a tool loop resends its tools
with every call, and providers cache a prompt up to its first change. A tool that was called, or that the
caller forces, is never taken away: its calls stay in the history, and providers refuse a history that names a
tool they were not given.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from pointsman.capabilities._candidates import MOST_NAMES, MOST_TOOLS, Candidates, CandidateSets, shortened
from pointsman.capabilities._commands import parse_commands
from pointsman.capabilities._decision import CapabilityDecision, CapabilityMemory, ToolDecision
from pointsman.capabilities._policy import CapabilityPolicy, SelectionUnavailable
from pointsman.capabilities._scorer import clauses
from pointsman.capabilities._select import Answers, Questions, Selection
from pointsman.drivers import Moved, advance
from pointsman.vocabulary import Encoder, Mode, ModelQuery, ModelReply, Reason

__all__ = ["CapabilityStage", "CapabilityTurn"]

_ON: Final = Mode.ON
_MODEL: Final = "capabilities.model"

Steps = Generator[ModelQuery, ModelReply, tuple[CapabilityDecision, CapabilityMemory]]


class CapabilityTurn(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is read of a request for the selection of its capabilities."""

    message: str  # identity of the user message; empty: that of the request before
    task: str  # the person's words
    tools: tuple[str, ...] = ()  # names offered
    tool_list: bytes = b""  # the tools as JSON
    called: tuple[str, ...] = ()  # tools called since the request before
    counted: int = 0  # messages of the history
    forced: str = ""  # the tool that the request demands
    command: str = ""  # in-band command


class CapabilityStage:
    """Selects the capabilities of requests under one policy. Holds no state of sessions; safe to share."""

    def __init__(
        self, policy: CapabilityPolicy, *, at_most: int | None = None, encoder: Encoder | None = None
    ) -> None:
        """Prepare to select.

        Args:
            policy: how to select.
            at_most: tools passed on, besides those called, forced or always active, where the scores separate
                them from the others; None: all. Figures: ``benchmarks/capabilities_kept.py``.
            encoder: the one that the policy names.
        """
        self._policy = policy
        self._at_most = at_most if policy.mode is _ON else None
        self._sets = CandidateSets(policy, encoder)
        self._has_own = len(policy.registry) > 0

    def concerns(self, tools: Sequence[str]) -> bool:
        """Whether there is anything to select among for a request."""
        return bool(tools) or self._has_own

    def is_prepared(self, tools: Sequence[str], tool_list: bytes) -> bool:
        """Whether the request's tools were seen before: else building their index takes a while."""
        return self._sets.has(_unique(tools), tool_list)

    def decide(self, turn: CapabilityTurn, before: CapabilityMemory) -> Steps:
        """Select for one request."""
        switch = _Switch.of(turn.command, before, self._policy)
        names = _unique(turn.tools)
        key = f"{turn.message} {turn.command}".rstrip() if turn.message else before.key
        offer = _digest(names)
        if key == before.key and offer == before.offer:
            decided = self._continued(before)
        else:
            decided = yield from self._selected(turn, names, bypass=switch.bypass)
        decided = msgspec.structs.replace(
            decided, command=turn.command, called=turn.called, forced=turn.forced
        )
        decided, memory = self._cut(decided, names, before)
        return decided, msgspec.structs.replace(
            memory, key=key, offer=offer, bypass=switch.session, counted=turn.counted
        )

    def decide_again(self, then: CapabilityDecision, task: str, before: CapabilityMemory) -> Steps:
        """Select for a recorded request, from the scores recorded.

        Args:
            then: what was decided.
            task: the person's words; empty where they were not kept. Configured capabilities are scored by
                them where this policy's scores are others; tools keep the scores recorded.
            before: what the session remembers under this policy.
        """
        switch = _Switch.of(then.command, before, self._policy)
        is_known = bool(then.offered or then.scores or then.bypass) and not then.continued
        if not is_known and not (then.continued and before.key):
            return then, before  # nobody knows what was selected from
        names = before.offered if then.continued else tuple(tool.name for tool in then.offered)
        if then.continued:
            decided = self._continued(before)
        else:
            decided = yield from self._selected_again(then, task, bypass=switch.bypass)
        decided = msgspec.structs.replace(
            decided, command=then.command, called=then.called, forced=then.forced
        )
        decided, memory = self._cut(decided, names, before)
        return decided, msgspec.structs.replace(
            memory, key="as recorded", bypass=switch.session, offered=names
        )

    def _continued(self, before: CapabilityMemory) -> CapabilityDecision:
        return CapabilityDecision(
            strategy=self._policy.strategy, selected=before.selected, bypass=before.bypassed, continued=True
        )

    def _selected(
        self, turn: CapabilityTurn, names: tuple[str, ...], *, bypass: bool
    ) -> Generator[ModelQuery, ModelReply, CapabilityDecision]:
        if len(names) > MOST_TOOLS or sum(map(len, names)) > MOST_NAMES:
            bounds = f"at most {MOST_TOOLS} with {MOST_NAMES:,} characters of names are judged"
            why = f"too many: {len(names)} tools are offered; {bounds}"
            return CapabilityDecision(strategy=self._policy.strategy, abstained=why)
        candidates = self._sets.of(names, turn.tool_list)
        task = shortened(turn.task)
        return (yield from self._select(candidates, task, len(clauses(task)) or 1, bypass=bypass))

    def _selected_again(
        self, then: CapabilityDecision, task: str, *, bypass: bool
    ) -> Generator[ModelQuery, ModelReply, CapabilityDecision]:
        is_same = then.scoring == self._sets.scoring
        candidates, unknown = self._sets.recorded(then.offered, then.scores, is_same=is_same, task=task)
        decided = yield from self._select(candidates, task, then.requests, bypass=bypass)
        if not unknown or decided.bypass:
            return decided
        why = f"no score is recorded of {', '.join(unknown)}"
        return msgspec.structs.replace(
            decided, reasons=(*decided.reasons, Reason("capabilities.unscored", why))
        )

    def _select(
        self, candidates: Candidates, task: str, requests: int, *, bypass: bool
    ) -> Generator[ModelQuery, ModelReply, CapabilityDecision]:
        selector = candidates.selector
        try:
            found = yield from _one_by_one(selector.select(task, bypass=bypass))
        except SelectionUnavailable as error:  # nothing is taken away where the policy gives no selection
            everything = tuple(each.name for each in selector.registry.get_all_capabilities())
            found = Selection(everything, {}, abstained=str(error))
        return CapabilityDecision(
            strategy=self._policy.strategy,
            selected=found.selected,
            offered=candidates.offered,
            scores=found.scores,
            reasons=tuple(_without_words(found)),
            asked_model=found.answers,
            abstained=found.abstained,
            bypass=bypass,
            scoring=self._sets.scoring,
            requests=requests,
        )

    def _cut(
        self, decided: CapabilityDecision, names: tuple[str, ...], before: CapabilityMemory
    ) -> tuple[CapabilityDecision, CapabilityMemory]:
        """Keep the tools needed and those in use, where more are offered than are to be passed on."""
        called = tuple(dict.fromkeys((*before.called, *decided.called)))
        limit, tools = self._at_most, None
        kept: tuple[str, ...] = ()
        if limit is not None and len(names) > limit:
            needed, unclear = self._needed(decided, names, limit, before)
            if unclear:
                decided = _with_reason(decided, "tools.all", unclear)
            wanted = {*needed, decided.forced, *called}
            kept = tuple(name for name in names if name in wanted)
            refused = tuple(name for name in decided.called if before.kept and name not in before.kept)
            tools = ToolDecision(len(names), kept, refused)
            if refused:
                why = f"called without being offered: {', '.join(refused)}"
                decided = _with_reason(decided, "tools.refused", why)
        memory = CapabilityMemory(
            selected=decided.selected, kept=kept, bypassed=decided.bypass, called=called[-MOST_TOOLS:]
        )
        return msgspec.structs.replace(decided, tools=tools), memory

    def _needed(
        self, decided: CapabilityDecision, names: tuple[str, ...], limit: int, before: CapabilityMemory
    ) -> tuple[Sequence[str], str]:
        """The tools that may be needed; all of them where nothing says which, with why.

        A tool is certainly needed by a model's word or by a probability above the uncertain ones, and
        certainly not needed by the opposite. Tools are left out only where one is certainly needed for each
        request that the task joins, and those that may be needed are few enough.
        """
        if decided.continued:
            return before.kept or names, ""
        if decided.bypass or not decided.scoring or not decided.scores:
            return names, ""  # nothing was judged
        low, high = self._policy.unsure
        selected, scores = set(decided.selected), decided.scores
        # What a model was asked about and did not answer may be needed.
        said = {each.name: each.needed for each in decided.asked_model}
        certain = [name for name in names if said.get(name, scores.get(name, 0.0) >= high)]
        if len(certain) < decided.requests:
            found = f"{len(certain)} of {decided.requests} requests" if decided.requests > 1 else "no request"
            return names, f"all tools are passed on: {found} found its tool with a probability of {high:g}"
        needed = [
            name
            for name in names
            if name in selected or said.get(name, scores.get(name, 1.0) > low) is not False
        ]
        judged = [name for name in needed if name in scores]
        if len(judged) > limit:
            return (
                names,
                f"all tools are passed on: {len(judged)} may be needed, more than {limit}",
            )
        return needed, ""


class _Switch(NamedTuple):
    """Whether selection is off, for this request and for the session."""

    bypass: bool
    session: bool | None

    @classmethod
    def of(cls, text: str, before: CapabilityMemory, policy: CapabilityPolicy) -> _Switch:
        """Message over session over configuration."""
        commands, _ = parse_commands(text)
        last = next((each for each in reversed(commands) if each.name == "caps"), None)
        session = not last.on if last and last.session else before.bypass
        configured = policy.bypass if session is None else session
        return cls(not last.on if last else configured, session)


def _one_by_one(
    steps: Generator[Questions, Answers, Selection],
) -> Generator[ModelQuery, ModelReply, Selection]:
    """Ask the questions of a batch one after the other; the first says which may be asked beside it."""
    moved: Moved[Questions, Selection] = advance(steps)
    while not moved[0]:
        first, *others = moved[1]
        answers = [(yield msgspec.structs.replace(first, beside=tuple(others)))]
        for question in others:
            answers.append((yield question))  # noqa: PERF401 - nothing can be yielded in a comprehension
        moved = advance(steps, answers)
    return moved[1]


def _without_words(found: Selection) -> Iterator[Reason]:
    """The reasons without the words of a model, which may quote the request."""
    for reason in found.reasons:
        if reason.code != _MODEL:
            yield reason
    for each in found.answers:
        if each.needed is not None:
            yield Reason(_MODEL, f"{each.name}: a model says {'needed' if each.needed else 'not needed'}")


def _with_reason(decided: CapabilityDecision, code: str, why: str) -> CapabilityDecision:
    return msgspec.structs.replace(decided, reasons=(*decided.reasons, Reason(code, why)))


def _unique(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _digest(names: Sequence[str]) -> str:
    joined = "\0".join(names).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(joined, digest_size=8).hexdigest()
