"""The selection of capabilities for the requests of a session, as a part of a decision.

A selection is made when a person has spoken, and stands until they speak again: a tool loop resends its tools
with every call, and providers cache a prompt up to its first change. A tool that was called, or that the
caller forces, is never taken away: its calls stay in the history, and providers refuse a history that names a
tool they were not given.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from pointsman.capabilities._commands import parse_commands
from pointsman.capabilities._policy import CapabilityPolicy, SelectionUnavailable
from pointsman.capabilities._registry import Capability, CapabilityRegistry, TaskClassifierGuide
from pointsman.capabilities._scorer import LocalScorer, clauses
from pointsman.capabilities._select import (
    Answers,
    CapabilityDecision,
    CapabilityMemory,
    OfferedTool,
    Questions,
    Selection,
    Selector,
    ToolDecision,
)
from pointsman.capabilities.calibration import VERSION
from pointsman.drivers import Moved, advance
from pointsman.remembering import Bounded
from pointsman.vocabulary import ON, Encoder, ModelQuery, ModelReply, Reason
from pointsman.wire.tools import offered_tools

# The candidates of a request: the configured capabilities, and the tools it offers, as one registry.

#: Tools of one request that are judged; with more, or with names beyond so many characters in all, nothing is
#: judged. An index of 500 takes seconds to build.
MOST_TOOLS: Final = 500
MOST_NAMES: Final = 32_000
#: Characters of a description that are read: its first sentences say what a tool is for. An index of 20 tools
#: takes 131 ms to build from 200 characters each, and 622 ms from 1,000.
_DESCRIPTION: Final = 256
#: Characters of a task that are scored, half from each end: a long one takes 20 ms per 1,000.
_TASK: Final = 1_000
#: Indexes kept, one per distinct list of tools; agents rarely change theirs.
_KEPT: Final = 32
_DIGITS: Final = 4
#: Questions to a model per user message, whatever the strategy: a request may offer hundreds of tools, and
#: waits for the answers.
MOST_ASKED: Final = 50


class Candidates(NamedTuple):
    """Candidates, compiled for selection."""

    selector: Selector
    offered: tuple[OfferedTool, ...]


class _Given(NamedTuple):
    """A ``Scorer`` by a function, of selections that are not cached."""

    probabilities: Callable[[str], Mapping[str, float]]
    version: str = ""


class CandidateSets:
    """Makes candidates, and caches those of the latest lists of tools."""

    def __init__(self, policy: CapabilityPolicy, encoder: Encoder | None) -> None:
        self._policy = policy
        self._encoder = encoder
        self._registry = policy.registry.activated(policy.always_active)
        self._kept = Bounded[Hashable, Candidates](_KEPT)
        self._own = self._build(())  # the configured capabilities alone
        calibration = policy.calibration.to_json() if policy.calibration else None
        scored_by = [policy.registry.version, self._index_name, calibration, _DESCRIPTION, _TASK, VERSION]
        #: Two sets with this in common give a task the same scores, if the tools offered are the same.
        self.scoring: Final = _short_digest(json.dumps(scored_by, sort_keys=True).encode())

    def has(self, names: Sequence[str], tools: bytes) -> bool:
        """Whether the candidates of a request are at hand: else an index must be built."""
        return not names or self._kept.use(_key(names, tools)) is not None

    def of(self, names: Sequence[str], tools: bytes) -> Candidates:
        """The candidates of a request: the names of the tools offered, and the list of tools as JSON."""
        if not names:
            return self._own
        key = _key(names, tools)
        found = self._kept.use(key)
        if found is None:
            texts = dict(offered_tools(msgspec.Raw(tools)))
            found = self._build([(name, texts.get(name, "")) for name in names])
            self._kept.keep(key, found)
        return found

    def recorded(
        self, offered: Sequence[OfferedTool], scores: Mapping[str, float], *, is_same: bool, task: str
    ) -> tuple[Candidates, list[str]]:
        """Candidates of a recorded request, and the names that no score is known of.

        Args:
            offered: the tools offered, without known descriptions.
            scores: as recorded.
            is_same: whether they are this policy's.
            task: the user's words; empty if not stored.
        """
        if task and not is_same and len(self._registry):
            own = self._own.selector.scorer.probabilities(shortened(task))
            scores = {**scores, **own}
        registry = self._with([(tool.name, "") for tool in offered])
        names = [each.name for each in registry.get_all_capabilities() if not each.always_active]
        given = {each.name: scores.get(each.name, 0.0) for each in registry.get_all_capabilities()}
        selector = Selector(registry, _Given(lambda _: given), self._policy, most_asked=MOST_ASKED)
        return Candidates(selector, tuple(offered)), [name for name in names if name not in scores]

    def _build(self, tools: Sequence[tuple[str, str]]) -> Candidates:
        registry = self._with(tools)
        scorer = LocalScorer(registry, self._encoder, self._policy.calibration)
        self._index_name = scorer.index.name
        offered = tuple(OfferedTool(name, _short_digest(_utf8(text))[:8]) for name, text in tools)

        def rounded(task: str) -> Mapping[str, float]:  # recorded as they are used
            return {name: round(score, _DIGITS) for name, score in scorer.probabilities(task).items()}

        selector = Selector(registry, _Given(rounded), self._policy, most_asked=MOST_ASKED)
        return Candidates(selector, offered)

    def _with(self, tools: Sequence[tuple[str, str]]) -> CapabilityRegistry:
        """The configured capabilities, then the other tools."""
        more = [
            Capability(
                name,
                TaskClassifierGuide(text[:_DESCRIPTION]),
                always_active=name in self._policy.always_active,
            )
            for name, text in tools
            if name not in self._registry and name.strip()
        ]
        return CapabilityRegistry([*self._registry.get_all_capabilities(), *more]) if more else self._registry


def shortened(task: str) -> str:
    """The part of a task that is scored: how it begins and how it ends."""
    half = _TASK // 2
    return task if len(task) <= _TASK else f"{task[:half]} {task[-half:]}"


def _key(names: Sequence[str], tools: bytes) -> str:
    return _short_digest(b"\0".join((*map(_utf8, names), tools)))


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _short_digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


_MODEL: Final = "capabilities.model"

Steps = Generator[ModelQuery, ModelReply, tuple[CapabilityDecision, CapabilityMemory]]


class CapabilityTurn(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Input of a request for the selection of its capabilities."""

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
        self._at_most = at_most if policy.mode is ON else None
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
        offer = _short_digest(_utf8("\0".join(names)))
        if key == before.key and offer == before.offer:
            decided = self._continued(before)
        else:
            decided = yield from self._selected(turn, names, bypass=switch.bypass)
        decided, memory = self._cut(decided, turn, names, before)
        return decided, msgspec.structs.replace(
            memory, key=key, offer=offer, bypass=switch.session, counted=turn.counted
        )

    def decide_again(self, then: CapabilityDecision, task: str, before: CapabilityMemory) -> Steps:
        """Select for a recorded request, from the scores recorded.

        Args:
            then: the recorded decision.
            task: the user's words; empty if not stored. Configured capabilities are scored by
                them where this policy's scores are others; tools have the recorded scores.
            before: the session's memory under this policy.
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
        decided, memory = self._cut(decided, then, names, before)
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
        self,
        decided: CapabilityDecision,
        asked: CapabilityTurn | CapabilityDecision,
        names: tuple[str, ...],
        before: CapabilityMemory,
    ) -> tuple[CapabilityDecision, CapabilityMemory]:
        """Select the tools needed and those in use, if more are offered than may be relayed."""
        decided = msgspec.structs.replace(
            decided, command=asked.command, called=asked.called, forced=asked.forced
        )
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
        """The tools that may be needed; all of them with a reason, if the scores do not separate them.

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
