"""Classifiers as an operator writes them: a name, or a table with parameters, members or an entry point.

The same plain values are used in a file and in a ``ProviderSpec`` of a program (docs/notebook/0131).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Final, Literal, TypeAlias, get_args, get_origin, get_type_hints

import msgspec

from pointsman.errors import ConfigError, did_you_mean
from pointsman.guidance._context import ClassificationResult, GuidanceClassifier, GuidanceContext
from pointsman.guidance.classifiers._calls import (
    DoomLoopClassifier,
    ErrorRateClassifier,
    ErrorStreakClassifier,
    HighToolCountClassifier,
    PatternClassifier,
    ProgressStallClassifier,
    RepeatedErrorClassifier,
    SequentialWhenParallelClassifier,
    SingleToolRepeatedClassifier,
    UnfinishedClassifier,
)
from pointsman.guidance.classifiers._content import (
    LargeOutputClassifier,
    LLMClassifier,
    SensitiveContentClassifier,
)
from pointsman.guidance.classifiers.composite import (
    AllOfClassifier,
    AnyOfClassifier,
    NotClassifier,
    ThresholdClassifier,
)

#: What an own class is found by: ``package.module:Class``, or the name under which a package offers it.
OwnClasses: TypeAlias = Mapping[str, type]
#: Path of a key within a classifier's table.
Path: TypeAlias = tuple[str | int, ...]

#: Names of the built-in classifiers that are no composites.
CLASSIFIERS: Final[Mapping[str, type]] = {
    "doom_loop": DoomLoopClassifier,
    "error_streak": ErrorStreakClassifier,
    "error_rate": ErrorRateClassifier,
    "repeated_error": RepeatedErrorClassifier,
    "progress_stall": ProgressStallClassifier,
    "pattern": PatternClassifier,
    "high_tool_count": HighToolCountClassifier,
    "single_tool_repeated": SingleToolRepeatedClassifier,
    "sequential_when_parallel": SequentialWhenParallelClassifier,
    "large_output": LargeOutputClassifier,
    "sensitive_content": SensitiveContentClassifier,
    "llm": LLMClassifier,
    "unfinished": UnfinishedClassifier,
}
#: A table has exactly one of these keys.
_KINDS: Final = ("name", "all", "any", "not", "entry_point")
#: Composites in composites, and members of one: more than a person would read, and every moment asks all.
_DEEPEST: Final = 6
_MOST_MEMBERS: Final = 16
_WINDOWED: Final = (SingleToolRepeatedClassifier, ErrorRateClassifier, RepeatedErrorClassifier)
#: Parameters that a program sets and a table cannot.
_NOT_SET: Final = frozenset({"ask", "name", "_answers"})
#: Parameters without a default that would hold: the model to ask must be configured.
_REQUIRED: Final = {"llm": ("model",), "pattern": ("pattern_type",)}
#: ``package.module:Class``, or the name of a plug-in.
_ENTRY_POINT: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*|[A-Za-z_][\w.-]*")


class ClassifierError(ConfigError):
    """A classifier's table is wrong; ``path`` leads to the key at fault."""

    def __init__(self, path: Path, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.path = path


@dataclass(frozen=True, slots=True)
class OwnClassifier:
    """A classifier of an external class: its result is checked."""

    entry_point: str
    version: str
    parameters: Mapping[str, Any]
    name: str  # as it was when it was built: counters are named by it
    wrapped: GuidanceClassifier = field(compare=False)

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge one moment."""
        return checked(self.wrapped.classify(context), self.entry_point)


def checked(result: object, entry_point: str) -> ClassificationResult:
    """Return the result of an external class.

    Raises:
        TypeError: It is no result.
    """
    if not isinstance(result, ClassificationResult):
        raise TypeError(f"{entry_point} returned a {type(result).__name__}")
    return result


def build_classifier(value: object, own: OwnClasses, path: Path = ()) -> GuidanceClassifier:
    """Build a classifier from plain values.

    Args:
        value: Its name, or its table.
        own: The loaded classes, by entry point.
        path: Of the value within the outermost table.

    Raises:
        ClassifierError: An unknown name, or a parameter that is unknown, missing or of another type.
    """
    if isinstance(value, str):
        return _named(value, {}, path)
    if not isinstance(value, Mapping):
        raise ClassifierError(path, f"a classifier is a name or a table, not {_shown(value)}")
    kind = _kind(value, path)
    least = value.get("min_confidence")
    given = {key: item for key, item in value.items() if key not in {kind, "min_confidence"}}
    classifier = _of_kind(kind, value[kind], given, own, path)
    if least is None:
        return classifier
    least = _converted("min_confidence", least, float, table_of(kind, value), path)
    return ThresholdClassifier(classifier, least)


def table_of(kind: str, value: Mapping[str, Any]) -> str:
    """Name of a table in errors."""
    return f'classifier "{value[kind]}"' if isinstance(value[kind], str) else f'"{kind}"'


def _kind(value: Mapping[str, Any], path: Path) -> str:
    kinds = [kind for kind in _KINDS if kind in value]
    if len(kinds) == 1:
        return kinds[0]
    what = f"both {kinds[0]} and {kinds[1]}" if kinds else "no name"
    raise ClassifierError(
        (*path, kinds[1]) if kinds else path,
        f"a classifier has {what}",
        hint='one of name, all, any, not and entry_point, as in { name = "error_streak", threshold = 3 }',
    )


def _of_kind(
    kind: str, value: object, given: Mapping[str, Any], own: OwnClasses, path: Path
) -> GuidanceClassifier:
    at = (*path, kind)
    if kind == "entry_point":
        return _own(value, given, own, path)
    if kind == "name":
        return _named(value, given, path)
    if given:
        key = next(iter(given))
        raise ClassifierError(
            (*path, key), f'unknown key "{key}" next to "{kind}"', hint="known: min_confidence"
        )
    if len(path) > 2 * _DEEPEST:
        raise ClassifierError(path, f"composites are nested more than {_DEEPEST} deep")
    if kind == "not":
        return NotClassifier(build_classifier(value, own, at))
    if not isinstance(value, Sequence) or isinstance(value, str) or not 1 <= len(value) <= _MOST_MEMBERS:
        raise ClassifierError(
            at, f'"{kind}" must be a list of 1 to {_MOST_MEMBERS} classifiers, not {_shown(value)}'
        )
    built = tuple(build_classifier(member, own, (*at, place)) for place, member in enumerate(value))
    return AllOfClassifier(built) if kind == "all" else AnyOfClassifier(built)


def _named(name: object, given: Mapping[str, Any], path: Path) -> GuidanceClassifier:
    of = CLASSIFIERS.get(name) if isinstance(name, str) else None
    if of is None:
        at = (*path, "name") if given else path
        raise ClassifierError(
            at,
            f"unknown classifier {_shown(name)}{did_you_mean(str(name), CLASSIFIERS)}",
            hint=f"known: {', '.join(CLASSIFIERS)}; or a table with all, any, not or entry_point",
        )
    types = {key: kind for key, kind in get_type_hints(of).items() if key not in _NOT_SET}
    what = f'classifier "{name}"'
    for key in given:
        if key not in types:
            raise ClassifierError(
                (*path, key),
                f'unknown parameter "{key}" of {what}{did_you_mean(key, types)}',
                hint=f"known: {', '.join((*types, 'min_confidence'))}",
            )
    for key in _REQUIRED.get(str(name), ()):
        if key not in given:
            raise ClassifierError(path, f'{what} has no "{key}"', hint=f'{key} = "…"')
    values = {key: _converted(key, item, types[key], what, path) for key, item in given.items()}
    try:
        classifier: GuidanceClassifier = of(**values)
    except ConfigError as error:  # values that are right by their type, as a pattern that is no expression
        raise ClassifierError(
            (*path, next(iter(given))) if given else path, error.message, hint=error.hint
        ) from None
    if isinstance(classifier, _WINDOWED) and classifier.threshold > classifier.window:
        raise ClassifierError((*path, "threshold"), "threshold cannot exceed window: it would never speak")
    return classifier


def _own(entry_point: object, given: Mapping[str, Any], own: OwnClasses, path: Path) -> GuidanceClassifier:
    wrapped, version = own_object(entry_point, given, own, path, needs=("name", "classify"))
    return OwnClassifier(str(entry_point), version, dict(given), str(wrapped.name), wrapped)


def own_object(
    entry_point: object, given: Mapping[str, Any], own: OwnClasses, path: Path, *, needs: tuple[str, ...]
) -> tuple[Any, str]:
    """Make an object of an own class, and return it with the version that the class states."""
    at = (*path, "entry_point")
    if not isinstance(entry_point, str) or not _ENTRY_POINT.fullmatch(entry_point):
        raise ClassifierError(
            at, f"{_shown(entry_point)} is not an entry point", hint='as in "package.module:Class"'
        )
    of = own.get(entry_point)
    if of is None:
        raise ClassifierError(at, f"the class {entry_point} is not loaded")
    version = getattr(of, "version", None)
    if not isinstance(version, str) or not version:
        raise ClassifierError(
            at,
            f"{entry_point} states no version",
            hint='version = "1" in the class; it is part of the version of the policy',
        )
    try:
        made = of(**given)
        missing = [name for name in needs if not hasattr(made, name)]
    except Exception as error:  # noqa: BLE001 - whatever a foreign class raises is told at its line
        raise ClassifierError(at, f"{entry_point} refuses its parameters: {error}") from None
    if missing:
        raise ClassifierError(at, f'{entry_point} has no "{missing[0]}"')
    return made, version


def _converted(key: str, value: object, kind: Any, what: str, path: Path) -> Any:
    try:
        converted = msgspec.convert(value, kind)
    except msgspec.ValidationError:
        converted = None
    if converted is None or not _in_range(converted):
        raise ClassifierError(
            (*path, key), f'"{key}" of {what} must be {_expected(kind)}, not {_shown(value)}'
        )
    return converted


def _in_range(value: object) -> bool:
    """Counts are at least one, shares within 0 and 1; a list is not empty."""
    if isinstance(value, float):
        return 0.0 <= value <= 1.0
    if isinstance(value, int):
        return value >= 1
    return bool(value) or value == ""


def _expected(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(f'"{choice}"' for choice in get_args(kind))
    if get_origin(kind) in {tuple, frozenset}:
        member = get_args(kind)[0]
        if get_origin(member) is Literal:
            return "a list of one or more of " + _expected(member).removeprefix("one of ")
        return "a list of one or more strings"
    words = {int: "a whole number of at least 1", float: "a number from 0 to 1", str: "a string"}
    return words.get(kind, "a value")


def _shown(value: object) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()[:80]


def tables_in(value: object, path: Path = ()) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield every table of a classifier with its path, the outermost first."""
    if isinstance(value, Mapping):
        yield path, value
        for kind in ("all", "any"):
            inner = value.get(kind)
            for place, member in enumerate(inner if isinstance(inner, list | tuple) else ()):
                yield from tables_in(member, (*path, kind, place))
        yield from tables_in(value.get("not"), (*path, "not"))


def members(classifier: GuidanceClassifier) -> Iterator[GuidanceClassifier]:
    """Yield a classifier and everything that it is made of."""
    yield classifier
    if isinstance(classifier, AllOfClassifier | AnyOfClassifier):
        for member in classifier.classifiers:
            yield from members(member)
    elif isinstance(classifier, NotClassifier | ThresholdClassifier):
        yield from members(classifier.classifier)


def table_of_classifier(classifier: GuidanceClassifier) -> str | dict[str, Any]:
    """Return a built-in classifier as ``build_classifier`` reads it.

    Raises:
        ConfigError: it is of a class that is not built in.
    """
    if isinstance(classifier, AllOfClassifier | AnyOfClassifier):
        kind = "all" if isinstance(classifier, AllOfClassifier) else "any"
        return {kind: [table_of_classifier(member) for member in classifier.classifiers]}
    if isinstance(classifier, NotClassifier):
        return {"not": table_of_classifier(classifier.classifier)}
    if isinstance(classifier, ThresholdClassifier):
        inner = table_of_classifier(classifier.classifier)
        table = {"name": inner} if isinstance(inner, str) else inner
        return {**table, "min_confidence": classifier.min_confidence}
    name = next((name for name, of in CLASSIFIERS.items() if type(classifier) is of), None)
    if name is None:
        raise ConfigError(
            f"a policy cannot hold the class {type(classifier).__name__}: it holds plain values",
            hint='{ entry_point = "package.module:Class" } names a class',
        )
    given = {
        item.name: _plain(getattr(classifier, item.name))
        for item in fields(classifier)  # type: ignore[arg-type]
        if item.name not in _NOT_SET
        and (getattr(classifier, item.name) != item.default or item.name in _REQUIRED.get(name, ()))
    }
    return {"name": name, **given} if given else name


def _plain(value: object) -> object:
    if isinstance(value, frozenset):
        return sorted(value)
    return list(value) if isinstance(value, tuple) else value


def described(value: object) -> object:
    """Return a classifier or provider as plain values: its class and all parameters, defaults included."""
    if is_dataclass(value) and not isinstance(value, type):
        parameters = {
            item.name: described(getattr(value, item.name)) for item in fields(value) if item.compare
        }
        return {"class": type(value).__name__, **parameters}
    if isinstance(value, tuple):
        return [described(item) for item in value]
    if isinstance(value, frozenset):
        return sorted(value)
    return value
