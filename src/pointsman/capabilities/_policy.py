"""The configurable policy of selection, and the error of a selection that is unavailable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from pointsman.capabilities._registry import Capability, CapabilityRegistry
from pointsman.capabilities._scorer import LocalScorer
from pointsman.capabilities.calibration import CHECKING, Calibration
from pointsman.errors import ConfigError, UpstreamUnavailable
from pointsman.remembering import grouped
from pointsman.vocabulary import Mode


class Strategy(StrEnum):
    """Which scorer decides whether a capability is needed."""

    LOCAL = "local"  # the calibrated score alone
    HYBRID = "hybrid"  # the score; a model where the score is unsure
    LLM = "llm"  # a model judges every capability


class OnFailure(StrEnum):
    """Fallback for judgements that a model could not give."""

    LOCAL = "local"  # the local score decides
    NONE = "none"  # what was not judged is not selected
    ALL = "all"  # what was not judged is selected
    ALWAYS_ACTIVE = "always_active"  # the always-active capabilities and nothing else
    LIST = "list"  # the always-active capabilities and the policy's ``fallback``
    RAISE = "raise"  # ``SelectionUnavailable``


class SelectionUnavailable(UpstreamUnavailable):
    """A model was needed for a selection, could not be asked, and the policy is to raise."""


class SelectionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How capabilities are selected."""

    strategy: Annotated[
        Strategy,
        Meta(
            description="Who judges: `local` the score alone, `hybrid` a model where the score is uncertain, "
            "`llm` a model for every capability."
        ),
    ] = Strategy.LOCAL  # a model costs money and time: nobody asks one unless told to
    # On CLINC150 with ten examples per intent, 0.2 keeps 76 of the 81 points of in-scope accuracy that the
    # static encoder has and rejects 84 % of out-of-scope tasks (docs/notebook/0052).
    threshold: Annotated[
        float, Meta(ge=0, le=1, description="Probability from which a capability is selected.")
    ] = 0.2
    # Their share against accuracy: docs/notebook/0055.
    unsure: Annotated[
        tuple[float, float],
        Meta(
            description="Probabilities between these are uncertain: `hybrid` asks a model, and such a tool "
            "is not removed."
        ),
    ] = (0.1, 0.6)
    # One round at the usual concurrency.
    max_questions: Annotated[
        int,
        Meta(ge=1, description="Questions to a model per task under `hybrid`, the likeliest first."),
    ] = 5
    on_failure: Annotated[
        OnFailure,
        Meta(
            description="What is selected where a model cannot be asked: by the `local` score, `none` or "
            "`all` of what was not judged, `always_active` alone, those and the `list` in `fallback`, or "
            "`raise`: no selection."
        ),
    ] = OnFailure.LOCAL
    fallback: Annotated[
        tuple[str, ...], Meta(description="Capabilities selected with on_failure `list`.")
    ] = ()
    bypass: Annotated[bool, Meta(description="Select everything and judge nothing.")] = False
    model: Annotated[str, Meta(description="Model that judges; needed with strategy `hybrid` and `llm`.")] = (
        ""
    )
    # A judgement with a reason takes a small model 1 to 2 s.
    timeout_ms: Annotated[int, Meta(ge=1, description="Timeout of one question in milliseconds.")] = 5_000

    def __post_init__(self) -> None:
        """Check ranges; names of strategies and failure policies are accepted as text.

        Raises:
            ConfigError: a value is out of range or unknown.
        """
        _choice(self, "strategy", Strategy)
        _choice(self, "on_failure", OnFailure)
        low, high = self.unsure
        if not 0 <= low <= high <= 1:
            raise ConfigError("the unsure band must be two probabilities, the lower first")
        if not 0 <= self.threshold <= 1:
            raise ConfigError("the threshold must be a probability")
        if self.max_questions < 1:
            raise ConfigError("max_questions must be at least 1", hint='to ask nothing, use strategy "local"')


class CapabilitySettings(SelectionPolicy, frozen=True, kw_only=True):
    """How the capabilities of a request are selected."""

    encoder: Annotated[
        str,
        Meta(
            description="Local encoder beside n-grams: `none`, `static`, `sentence` (each needs the extra of "
            "its name), or a plug-in's."
        ),
    ] = "none"
    always_active: Annotated[
        tuple[str, ...], Meta(description="Capabilities and tools that are selected for every task.")
    ] = ()
    money_per_day: Annotated[
        Annotated[float, Meta(ge=0)] | None,
        Meta(
            description="Budget: maximum cost per day of questions to `model`, in US "
            "dollars. Then `on_failure` decides, as where a price is unknown."
        ),
    ] = None


class CapabilityPolicy(CapabilitySettings, frozen=True, kw_only=True):
    """Which capabilities there are in addition to the tools of a request, and how they are selected."""

    mode: Mode = Mode.ON  # ``observe`` takes no tool away
    registry: CapabilityRegistry = CapabilityRegistry(())
    calibration: Calibration | None = None  # None: fitted on the guides' own examples


def _choice(policy: SelectionPolicy, field: str, choices: type[StrEnum]) -> None:
    value = getattr(policy, field)
    try:
        msgspec.structs.force_setattr(policy, field, choices(value))
    except ValueError:
        known = ", ".join(choices)
        raise ConfigError(f'unknown {field} "{value}"', hint=f"choose one of {known}") from None


# Checks of a registry: findings that reduce the accuracy of selection, and what the selection does.

#: Positive examples from which local scores are worth having: on CLINC150 with n-grams alone, top-1 is .46
#: from instructions, .67 with five examples, .76 with ten (docs/notebook/0051).
_ENOUGH: Final = 5


def check_registry(registry: CapabilityRegistry) -> list[str]:
    """Findings, one line each; an empty list when there is nothing to say."""
    capabilities = registry.get_all_capabilities()
    findings = [line for each in capabilities for line in _alone(each)]
    findings += _unprovided(registry)
    findings += _collisions(capabilities)
    return findings


def _alone(each: Capability) -> Iterator[str]:
    if each.always_active:
        return
    if not each.guide.instructions.strip():
        yield f"{each.name}: no instructions; say when it is needed"
    positives = len(each.guide.positives)
    if positives < _ENOUGH:
        yield f"{each.name}: {positives} examples of when it is needed; {_ENOUGH} make scores reliable"


def _unprovided(registry: CapabilityRegistry) -> Iterator[str]:
    for each in registry.get_all_capabilities():
        for kind in each.requires:
            if not registry.providers(kind):
                yield f"{each.name}: requires {kind}, which nothing provides; only the context can hold it"


def _collisions(capabilities: list[Capability]) -> Iterator[str]:
    """A query that is an example for two capabilities teaches neither, unless both are always needed."""
    for each in capabilities:
        both = {query.casefold() for query in each.guide.positives} & {
            query.casefold() for query in each.guide.negatives
        }
        for query in sorted(both):
            yield f'{each.name}: "{query}" is an example both ways'
    owners = grouped(
        (query, each.name)
        for each in capabilities
        for query in dict.fromkeys(query.casefold() for query in each.guide.positives)
    )
    for query, names in owners.items():
        if len(names) > 1:
            yield f'{", ".join(names)}: "{query}" is an example for each of them'


@dataclass(frozen=True, slots=True)
class MeasuredCapability:
    """Behaviour of the local score of one capability.

    Its examples are scored as though they were not in its guide. The ordinary tasks are of kinds that most
    registries do not serve; nothing is fitted on them.
    """

    name: str
    examples: int  # positive ones
    found: int  # of them, selected
    ordinary: tuple[str, ...]  # ordinary tasks that select it

    @property
    def finding(self) -> str:
        """Problems; empty if at least half of the examples and few ordinary tasks select it."""
        if self.examples and 2 * self.found < self.examples:
            return f"{self.name}: {self.found} of its {self.examples} examples select it when left out"
        if len(self.ordinary) > _FEW:
            more = f'"{self.ordinary[0]}"'
            return f"{self.name}: {len(self.ordinary)} of {len(CHECKING)} ordinary tasks select it, as {more}"
        return ""


#: Ordinary tasks, of forty, that may select a capability: some people's ordinary task needs it.
_FEW: Final = 2


def measure_registry(
    registry: CapabilityRegistry, scorer: LocalScorer, threshold: float
) -> list[MeasuredCapability]:
    """Measure the selection by the local score, for each capability that is judged, in registry order.

    Args:
        registry: The capabilities.
        scorer: Made from them.
        threshold: Probability from which a capability is selected.
    """
    names = [each.name for each in registry.get_all_capabilities()]
    judged = {each.name for each in registry.get_all_capabilities() if not each.always_active}
    examples, found = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    for each in scorer.index.held_out():
        if each.positive:
            name = names[each.capability]
            examples[name] += 1
            probability = scorer.calibration.probabilities(each.scores, names)[each.capability]
            found[name] += probability >= threshold
    scored: list[tuple[str, Mapping[str, float]]] = [(task, scorer.probabilities(task)) for task in CHECKING]
    return [
        MeasuredCapability(
            name,
            examples[name],
            found[name],
            tuple(task for task, scores in scored if scores[name] >= threshold),
        )
        for name in names
        if name in judged
    ]
