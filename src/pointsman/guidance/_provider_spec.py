"""A provider as configured: condition, text and limits.

Plain values: they are the tables ``[[guidance.providers]]`` of a file, and part of the policy's version.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta

from pointsman.errors import ConfigError
from pointsman.guidance._context import ClassificationResult, DecisionPoint, GuidanceContext
from pointsman.guidance.classifiers._calls import UnfinishedClassifier
from pointsman.guidance.classifiers._content import LLMClassifier, SensitiveContentClassifier
from pointsman.guidance.classifiers._tables import (
    ClassifierError,
    OwnClasses,
    OwnClassifier,
    build_classifier,
    checked,
    described,
    members,
    own_object,
    table_of_classifier,
    tables_in,
)
from pointsman.guidance.providers import (
    MAX_CONTENT,
    ConsultationPromptProvider,
    DiagnosticSignalProvider,
    DoneGateProvider,
    DoomLoopBreaker,
    GuidanceInjection,
    GuidanceProvider,
    GuidanceProviderConfig,
    ParallelToolReminder,
)

#: Marks a key that holds a classifier: its name, or a table.
CLASSIFIER: Final = {"classifier": True, "words": "a classifier's name, or a table"}
#: Providers that speak by a condition of their own.
BuiltIn: TypeAlias = Literal[
    "diagnostic_signal", "doom_loop_breaker", "consultation_prompt", "parallel_tool_reminder", "done_gate"
]
#: Times that ``done_gate`` speaks in a conversation, where nothing else is set.
DONE_GATE_FIRES: Final = 3
_NO_CLASSES: Final[OwnClasses] = {}


class ProviderSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A provider of guidance in addition to the built-in policy, and its limits.

    Raises:
        ConfigError: A classifier or parameter that is unknown, or a limit out of its range.
    """

    classifier: Annotated[
        Any,
        Meta(
            description='When it speaks: the name of a classifier, or a table: `{ name = "error_streak", '
            'threshold = 3 }`, `{ all = […] }`, `{ any = […] }`, `{ not = … }`, `{ entry_point = "…" }`.',
            extra=CLASSIFIER,
        ),
    ] = None
    provider: Annotated[BuiltIn | None, Meta(description="Built-in provider whose text it says.")] = None
    text: Annotated[
        Annotated[str, Meta(min_length=1, max_length=MAX_CONTENT)] | None,
        Meta(description=f"Text of your own that it says, of 1 to {MAX_CONTENT} characters."),
    ] = None
    entry_point: Annotated[
        str | None,
        Meta(description='Provider class of your own: `"package.module:Class"`.'),
    ] = None
    point: Annotated[
        DecisionPoint,
        Meta(description="[Decision point](../how-to/guidance-providers.md#decision-points) of its moments."),
    ] = DecisionPoint.PRE_TOOL_SELECTION
    priority: Annotated[
        int | None,
        Meta(
            description="Order of several texts at one moment, lower first; default: the provider's, or 100."
        ),
    ] = None
    min_confidence: Annotated[
        Annotated[float, Meta(ge=0, le=1)], Meta(description="Least confidence of the classifier.")
    ] = 0.5
    cooldown_turns: Annotated[int, Meta(ge=0, description="Turns without it after it has spoken.")] = 0
    max_fires_per_session: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="Times that it speaks in a conversation; default: no limit."),
    ] = None
    #: Twelve hex digits over the classes and all parameters; empty until own classes are loaded.
    version: Annotated[str, Meta(extra={"derived": True})] = ""

    def __post_init__(self) -> None:
        said = [key for key in ("provider", "text", "entry_point") if getattr(self, key) is not None]
        if len(said) != 1:
            what = f"both {said[0]} and {said[1]}" if said else "nothing to say"
            raise ConfigError(f"a guidance provider has {what}", hint="one of text, provider and entry_point")
        if self.text is not None and self.classifier is None:
            raise ConfigError("a text needs a classifier that says when", hint='classifier = "error_streak"')
        if self.provider == "done_gate":
            msgspec.structs.force_setattr(self, "point", DecisionPoint.DONE)
            fires = self.max_fires_per_session or DONE_GATE_FIRES
            msgspec.structs.force_setattr(self, "max_fires_per_session", fires)
        if classes_of(self):
            return  # whoever loads them sets it, by ``with_classes``
        msgspec.structs.force_setattr(self, "version", build_hint(self, _NO_CLASSES).version)

    def with_classes(self, own: OwnClasses) -> ProviderSpec:
        """Return the same with the version of its configured classes."""
        if not classes_of(self):
            return self
        return msgspec.structs.replace(self, version=build_hint(self, own).version)


#: Built-in provider -> its name in a file.
_NAMES: Final[dict[type, BuiltIn]] = {
    DiagnosticSignalProvider: "diagnostic_signal",
    DoomLoopBreaker: "doom_loop_breaker",
    ConsultationPromptProvider: "consultation_prompt",
    ParallelToolReminder: "parallel_tool_reminder",
    DoneGateProvider: "done_gate",
}


def spec_of(value: object) -> ProviderSpec:
    """Return a provider of a policy as plain values; ``GuidanceProviderConfig`` is converted.

    Raises:
        ConfigError: it is of another type, or cannot be expressed in plain values; the message names it.
    """
    if isinstance(value, ProviderSpec):
        return value
    if not isinstance(value, GuidanceProviderConfig):
        raise ConfigError(
            f"a provider is a ProviderSpec or a GuidanceProviderConfig, not a {type(value).__name__}",
            hint='ProviderSpec(classifier="error_streak", text="…")',
        )
    provider = value.provider
    name = _NAMES.get(type(provider))
    if name is None or provider != type(provider)(priority=provider.priority):  # type: ignore[call-arg, attr-defined]
        what = "parameters of" if name else "the class"
        raise ConfigError(
            f"a policy cannot hold {what} {type(provider).__name__}: it holds plain values",
            hint='ProviderSpec(entry_point="package.module:Class") names a class, text="…" a text',
        )
    if value.max_per_turn != GuidanceProviderConfig(provider).max_per_turn:
        raise ConfigError(
            "max_per_turn cannot be set in a policy", hint="a moment gets one text of each provider"
        )
    return ProviderSpec(
        provider=name,
        classifier=None if value.classifier is None else table_of_classifier(value.classifier),
        priority=provider.priority,  # type: ignore[attr-defined]
        min_confidence=value.min_confidence,
        cooldown_turns=value.cooldown_turns,
        max_fires_per_session=value.max_fires_per_session,
    )


class Hint(NamedTuple):
    """A provider made ready."""

    version: str
    name: str  # of its classifier
    point: DecisionPoint
    config: GuidanceProviderConfig
    reads_content: bool  # it judges what no record of a decision holds
    priority: int | None


@dataclass(frozen=True, slots=True)
class OwnText:
    """Gives the text of the configuration."""

    text: str
    priority: int = 100

    name: ClassVar[str] = "own_text"  # shown in records
    category: ClassVar[str] = "general"  # kind of guidance

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:  # noqa: ARG002 - the protocol's shape
        """Never by itself: a text has a classifier."""
        return ClassificationResult.no()

    def provide(self, context: GuidanceContext, /) -> GuidanceInjection:  # noqa: ARG002 - the protocol's shape
        """Say it."""
        return GuidanceInjection("own.text", self.text, self.priority)


@dataclass(frozen=True, slots=True)
class _OwnProvider:
    """A provider of an external class: its names are fixed, and its results are checked."""

    entry_point: str
    version: str
    name: str
    category: str
    wrapped: GuidanceProvider = field(compare=False)

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge one moment."""
        return checked(self.wrapped.classify(context), self.entry_point)

    def provide(self, context: GuidanceContext, /) -> GuidanceInjection:
        """Let it put its guidance into words."""
        injection = self.wrapped.provide(context)
        if not isinstance(injection, GuidanceInjection):
            raise TypeError(f"{self.entry_point} gave a {type(injection).__name__}")
        return injection


def classes_of(spec: ProviderSpec) -> list[tuple[tuple[str | int, ...], str]]:
    """Return the entry points that a provider names, each with the path of its key."""
    found: list[tuple[tuple[str | int, ...], str]] = []
    if spec.entry_point is not None:
        found.append((("entry_point",), spec.entry_point))
    for path, table in tables_in(spec.classifier):
        if "entry_point" in table:
            found.append((("classifier", *path, "entry_point"), str(table["entry_point"])))
    return found


def asks_model(spec: ProviderSpec) -> bool:
    """Whether its classifier asks a model."""
    return any(table.get("name") == "llm" for _, table in tables_in(spec.classifier))


def build_hint(
    spec: ProviderSpec,
    own: OwnClasses,
    *,
    log_tool: str = "",
    planning_tool: str = "",
    consultation_tool: str = "",
) -> Hint:
    """Build the provider and its classifier.

    Raises:
        ClassifierError: The classifier's table is wrong; its path begins with ``classifier``.
    """
    provider: GuidanceProvider
    if spec.entry_point is not None:
        needs = ("name", "category", "classify", "provide")
        made, stated = own_object(spec.entry_point, {}, own, (), needs=needs)
        provider = _OwnProvider(spec.entry_point, stated, str(made.name), str(made.category), made)
    else:
        provider = _provider(spec, log_tool, planning_tool, consultation_tool)
    classifier = None
    if spec.classifier is not None:
        classifier = build_classifier(spec.classifier, own, ("classifier",))
        at_end = [each for each in members(classifier) if isinstance(each, UnfinishedClassifier)]
        if at_end and spec.point is not DecisionPoint.DONE:
            raise ClassifierError(
                ("classifier",), 'the classifier "unfinished" needs the point done', hint='point = "done"'
            )
        if at_end and isinstance(provider, DoneGateProvider):
            provider = DoneGateProvider(at_end[0].evidence)  # its text is about what was found
    config = GuidanceProviderConfig(
        provider,
        classifier,
        min_confidence=spec.min_confidence,
        cooldown_turns=spec.cooldown_turns,
        max_fires_per_session=spec.max_fires_per_session,
    )
    limits = (spec.point, spec.priority, spec.min_confidence, spec.cooldown_turns, spec.max_fires_per_session)
    content = [described(provider), described(classifier), limits]
    version = hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()[:12]
    reads = spec.entry_point is not None or (
        classifier is not None
        and any(
            isinstance(each, SensitiveContentClassifier | LLMClassifier | OwnClassifier)
            for each in members(classifier)
        )
    )
    return Hint(version, config.judge.name, spec.point, config, reads, spec.priority)


def _provider(
    spec: ProviderSpec, log_tool: str, planning_tool: str, consultation_tool: str
) -> GuidanceProvider:
    match spec.provider:
        case None:
            return OwnText(spec.text or "", 100 if spec.priority is None else spec.priority)
        case "diagnostic_signal":
            return DiagnosticSignalProvider(log_tool_name=log_tool)
        case "doom_loop_breaker":
            return DoomLoopBreaker(planning_tool=planning_tool)
        case "consultation_prompt":
            return ConsultationPromptProvider(consultation_tool=consultation_tool)
        case "parallel_tool_reminder":
            return ParallelToolReminder()
        case "done_gate":
            return DoneGateProvider()
