"""Selection of capabilities: a generator that yields batches of model queries and receives the replies.

Order: always-active capabilities, then the rest, each judged, then providers of their requirements
(docs/explanation/capabilities.md, "Order of selection"). Source of the judging by a model:
docs/sources/classification-and-routing.md, "Capability selection process".
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from pointsman.capabilities._policy import OnFailure, SelectionPolicy, SelectionUnavailable, Strategy
from pointsman.capabilities._registry import (
    Capability,
    CapabilityMatch,
    CapabilityRegistry,
    ClassificationPromptBuilder,
    expand,
)
from pointsman.remembering import Bounded
from pointsman.vocabulary import ModelQuery, ModelReply, Reason

#: Room for ``{"is_match": true, "reason": "a few words"}``.
_ANSWER_TOKENS: Final = 64

#: What a selection yields and is sent: questions that may be asked at the same time, and their answers in
#: order.
Questions = tuple[ModelQuery, ...]
Answers = Sequence[ModelReply]


class Scorer(Protocol):
    """Gives each capability of one registry a probability."""

    @property
    def version(self) -> str:
        """Inputs of the probabilities other than the task."""

    def probabilities(self, task: str, /) -> Mapping[str, float]:
        """The probability of each capability, by name."""


class AskedCapability(msgspec.Struct, frozen=True, gc=False):
    """A capability that a model was asked about, and the answer."""

    name: str
    needed: bool | None = None  # None: there was no answer
    error: str = ""  # why: "timeout", "no-model", or what is wrong with the answer


@dataclass(frozen=True, slots=True)
class Selection:
    """The capabilities selected for one task, and why.

    Zero selected is an answer. ``abstained`` is set when it is not one: something could not be judged, and
    the policy was used in.
    """

    selected: tuple[str, ...]
    scores: Mapping[str, float]  # probability of each judged capability, in registry order
    asked_model: tuple[str, ...] = ()
    abstained: str = ""  # "unavailable: …"
    reasons: tuple[Reason, ...] = ()
    answers: tuple[AskedCapability, ...] = ()  # of ``asked_model``, without the model's words


@dataclass(frozen=True, slots=True)
class _Verdicts:
    """Answers of a model: yes and no by name, and why the rest is missing."""

    match: Mapping[str, CapabilityMatch]
    failures: Mapping[str, str]


class Selector:
    """Selects capabilities of one registry under one policy."""

    def __init__(
        self,
        registry: CapabilityRegistry,
        scorer: Scorer,
        policy: SelectionPolicy | None = None,
        prompts: ClassificationPromptBuilder | None = None,
        cache: Bounded[Hashable, Selection] | None = None,
        *,
        most_asked: int | None = None,
    ) -> None:
        """Put the parts together.

        Args:
            registry: the candidates.
            scorer: must have been made from ``registry``.
            policy: how to select.
            prompts: questions to a model.
            cache: stores selections.
            most_asked: capabilities that a model is asked about per task at most, the likeliest; the local
                score decides on the others. None: as many as the policy allows.
        """
        self.registry = registry
        self.scorer = scorer
        self.policy = policy or SelectionPolicy()
        self.prompts = prompts or ClassificationPromptBuilder()
        self._cache = cache
        self._most_asked = most_asked

    def select(
        self, task: str, *, failure: str = "", held: Collection[str] = (), bypass: bool | None = None
    ) -> Generator[Questions, Answers, Selection]:
        """Select for one task.

        Args:
            task: the task in words.
            failure: why an earlier selection for this task failed; it goes into every question.
            held: kinds of results the context holds already: their providers are not pulled in.
            bypass: whether to select everything this time; None leaves it to the policy.

        Raises:
            SelectionUnavailable: a model was needed, could not be asked, and the policy is ``raise``.
        """
        if self.policy.bypass if bypass is None else bypass:
            return _bypassed(self.registry)
        key = (self.scorer.version, self.policy, self.prompts, task, failure, tuple(sorted(held)))
        known = self._cache.use(key) if self._cache is not None else None
        if known is not None:
            return known
        selection = yield from self._judged(task, failure, held)
        if self._cache is not None and not selection.abstained:  # an outage must not be remembered
            self._cache.keep(key, selection)
        return selection

    def _judged(
        self, task: str, failure: str, held: Collection[str]
    ) -> Generator[Questions, Answers, Selection]:
        always = self.registry.get_always_active_capability_names()
        rest = [each for each in self.registry.get_all_capabilities() if not each.always_active]
        probabilities = self.scorer.probabilities(task)
        scores = {each.name: probabilities[each.name] for each in rest}
        asked = self._unsure(rest, scores)
        verdicts = _Verdicts({}, {})
        if asked:
            answers = yield tuple(self._question(each, task, failure) for each in asked)
            verdicts = _read(asked, answers)
        chosen, reasons = self._decide(rest, scores, verdicts)
        selected, required = expand([*always, *chosen], self.registry, held=held, scores=scores)
        return Selection(
            selected=tuple(_in_order(selected, self.registry)),
            scores=scores,
            asked_model=tuple(each.name for each in asked),
            abstained=_abstained(verdicts),
            answers=tuple(_answer(each.name, verdicts) for each in asked),
            reasons=(
                *(Reason("capabilities.always_active", name) for name in always),
                *reasons,
                *required,
            ),
        )

    def _unsure(self, rest: Sequence[Capability], scores: Mapping[str, float]) -> list[Capability]:
        """The capabilities a model is asked about, in registry order."""
        if self.policy.strategy is Strategy.LOCAL:
            return []
        if self.policy.strategy is Strategy.LLM:
            return _likeliest(rest, scores, self._most_asked)
        low, high = self.policy.unsure
        unsure = [each for each in rest if low < scores[each.name] < high]
        return _likeliest(unsure, scores, min(self.policy.max_questions, self._most_asked or len(rest)))

    def _question(self, capability: Capability, task: str, failure: str) -> ModelQuery:
        guide = capability.guide
        return ModelQuery(
            kind="judge_capability",
            system=self.prompts.get_system_instructions(
                guide.instructions, self.prompts.format_examples(guide.examples), failure
            ),
            text=task,
            max_tokens=_ANSWER_TOKENS,
            timeout_ms=self.policy.timeout_ms,
            model=self.policy.model,
            about=capability.name,
        )

    def _decide(
        self, rest: Sequence[Capability], scores: Mapping[str, float], verdicts: _Verdicts
    ) -> tuple[list[str], list[Reason]]:
        """The selected names of the judged capabilities, with reasons."""
        if verdicts.failures and self.policy.on_failure in _WHOLE_ANSWER:
            return self._stand_in(verdicts)
        chosen: list[str] = []
        reasons: list[Reason] = []
        for each in rest:
            needed, reason = self._one(each.name, scores[each.name], verdicts)
            if needed:
                chosen.append(each.name)
            if reason:
                reasons.append(reason)
        return chosen, reasons

    def _one(self, name: str, score: float, verdicts: _Verdicts) -> tuple[bool, Reason | None]:
        if match := verdicts.match.get(name):
            said = "needed" if match.is_match else "not needed"
            detail = f"{name}: a model says {said}" + (f": {match.reason}" if match.reason else "")
            return match.is_match, Reason("capabilities.model", detail)
        by_score = score >= self.policy.threshold
        if name in verdicts.failures:
            needed = {OnFailure.NONE: False, OnFailure.ALL: True}.get(self.policy.on_failure, by_score)
            detail = f"{name}: {verdicts.failures[name]}; {self.policy.on_failure} says {needed}"
            return needed, Reason("capabilities.unavailable", detail)
        if by_score:
            return True, Reason("capabilities.local", f"{name}: {score:.2f}")
        return False, None

    def _stand_in(self, verdicts: _Verdicts) -> tuple[list[str], list[Reason]]:
        why = _abstained(verdicts)
        if self.policy.on_failure is OnFailure.RAISE:
            raise SelectionUnavailable(f"capabilities could not be judged: {why}")
        listed = self.policy.fallback if self.policy.on_failure is OnFailure.LIST else ()
        known = [name for name in listed if name in self.registry]
        return known, [Reason("capabilities.unavailable", f"{why}; {self.policy.on_failure} stands in")]


#: Failure policies that replace the whole judgement and not only what is missing from it.
_WHOLE_ANSWER: Final = (OnFailure.ALWAYS_ACTIVE, OnFailure.LIST, OnFailure.RAISE)


def _bypassed(registry: CapabilityRegistry) -> Selection:
    names = tuple(each.name for each in registry.get_all_capabilities())
    return Selection(names, {}, reasons=(Reason("capabilities.bypass", "selection is off: all are active"),))


def _read(asked: Sequence[Capability], answers: Answers) -> _Verdicts:
    match: dict[str, CapabilityMatch] = {}
    failures: dict[str, str] = {}
    for each, answer in zip(asked, answers, strict=True):
        try:
            if answer.ok:
                match[each.name] = CapabilityMatch.parse(answer.text)
            else:
                failures[each.name] = answer.error
        except ValueError as error:
            failures[each.name] = str(error)
    return _Verdicts(match, failures)


def _likeliest(
    among: Sequence[Capability], scores: Mapping[str, float], most: int | None
) -> list[Capability]:
    """As many as may be, the highest scores first, in the order given."""
    if most is None or len(among) <= most:
        return list(among)
    chosen = {each.name for each in sorted(among, key=lambda each: -scores[each.name])[:most]}
    return [each for each in among if each.name in chosen]


def _answer(name: str, verdicts: _Verdicts) -> AskedCapability:
    match = verdicts.match.get(name)
    return AskedCapability(name, match.is_match if match else None, verdicts.failures.get(name, ""))


def _abstained(verdicts: _Verdicts) -> str:
    if not verdicts.failures:
        return ""
    return "unavailable: " + "; ".join(dict.fromkeys(verdicts.failures.values()))


def _in_order(names: Sequence[str], registry: CapabilityRegistry) -> list[str]:
    """Always-active ones first, then the rest; each in registry order."""
    order = {
        each.name: (not each.always_active, at) for at, each in enumerate(registry.get_all_capabilities())
    }
    return sorted(names, key=order.__getitem__)


# Decision about the capabilities of one request, and the session's memory of it.


class OfferedTool(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A tool that a request offers, without its words."""

    name: str
    description: str  # digest of the description, eight hexadecimals


class ToolDecision(msgspec.Struct, frozen=True, gc=False):
    """Which of the tools offered are passed on."""

    offered: int
    kept: tuple[str, ...]  # names, in the request's order
    refused: tuple[str, ...] = ()  # tools called although they had not been passed on: they must not run


class CapabilityDecision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The capabilities selected for a request, and why.

    Selected once per user message. In the requests that continue the work on it (``continued``) the selection
    is unchanged, and neither offers nor scores are recorded again.
    """

    strategy: Strategy
    selected: tuple[str, ...] = ()  # always-active ones first, then by registry and by the request's order
    offered: tuple[OfferedTool, ...] = ()  # candidates that are tools of the request, in its order
    scores: Mapping[str, float] = {}  # probability of each judged candidate, rounded to four digits
    reasons: tuple[Reason, ...] = ()
    asked_model: tuple[AskedCapability, ...] = ()
    abstained: str = ""  # why a model or the local score did not judge: "unavailable: timeout"
    bypass: bool = False  # selection was off: everything is selected
    continued: bool = False
    of_run: bool = False  # the run whose question this is has selected them
    command: str = ""  # in-band command of this request: "/caps:off"
    scoring: str = ""  # version of what gave the scores, the tools offered aside
    called: tuple[str, ...] = ()  # tools called since the request before
    forced: str = ""  # the tool that the request demands
    tools: ToolDecision | None = None  # None: all tools offered are passed on
    requests: int = 1  # that the task joins: "the forecast for Rome, and mail it to Ida" are two

    @property
    def result(self) -> str:
        """How the selection went, in a word: for metrics and the log."""
        if self.continued:
            return "continued"
        if self.bypass:
            return "bypassed"
        if self.abstained:
            return "abstained"
        return "selected" if self.selected else "none"


class CapabilityMemory(msgspec.Struct, frozen=True, omit_defaults=True):
    """Session memory of the latest selection."""

    key: str = ""  # identity of the user message it was made for, and its command
    offer: str = ""  # digest of the names offered
    selected: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()  # tools passed on; empty: all
    bypassed: bool = False  # the selection was off for this message
    bypass: bool | None = None  # what a command has set for the session
    called: tuple[str, ...] = ()  # names of all tools called so far
    counted: int = 0  # messages searched for them
    offered: tuple[str, ...] = ()  # tools offered: in a replay alone
