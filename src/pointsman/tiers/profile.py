"""The tier profile: dimensions, weights, boundaries and overrides as data.

A dimension measures one thing (tokens, keyword hits, question marks), maps the measure to a score by steps
or by a curve, and adds ``weight * score`` to the sum. Boundaries cut the sum into tiers. The code is one;
profiles differ only in these values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from pkgutil import get_data  # importlib.resources brings tempfile and half of os.path with it
from string import Formatter
from typing import Annotated, Final, TypeAlias

import msgspec

from pointsman.errors import ConfigError, LexiconError, did_you_mean
from pointsman.evidence import Kind, PatternSet, Signal, SignalTable
from pointsman.toml_source import TomlSource, path_in
from pointsman.vocabulary import Script, Share, Tier

__all__ = [
    "Confidence",
    "Dimension",
    "Margin",
    "Matching",
    "Measure",
    "Override",
    "Saturation",
    "Step",
    "TierProfile",
    "TokenEstimate",
    "VerificationPrompt",
    "signal_of",
]


#: What the signal of a dimension or an override may name.
_PLACEHOLDERS: Final = frozenset({"count", "keywords", "tokens"})
#: Written without spaces: Thai, Kana, Han, and Hangul (its particles are written onto the word).
_UNSPACED: Final = re.compile("[\u0e00-\u0e7f\u3040-\u9fff\uac00-\ud7a3]")

_Finite: TypeAlias = Annotated[float, msgspec.Meta(ge=-1e6, le=1e6)]  # keeps sums finite
_Positive: TypeAlias = Annotated[float, msgspec.Meta(gt=0.0, le=1e6)]
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class Measure(StrEnum):
    """The quantity that a dimension counts."""

    TOKENS = "tokens"  # the profile's token estimate
    HITS = "hits"  # different keywords and patterns of the dimension found in the text
    QUESTIONS = "questions"  # question marks


class Matching(StrEnum):
    """How the keywords of a profile are found."""

    SUBSTRINGS = "substrings"  # anywhere, also inside other words, as profile `seed` does
    WORDS = "words"  # whole words; substrings in scripts written without spaces


class TokenEstimate(StrEnum):
    """How tokens are estimated."""

    UTF16 = "utf16"  # floor(UTF-16 code units / 4), as profile `seed` does
    #: floor(UTF-8 bytes / 4): 0.9 of the exact count for Chinese, where UTF-16 gives 0.42. Where most letters
    #: are Latin floor(characters / 4), so that words of another script beside them do not lengthen a text.
    UTF8 = "utf8"


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A TOML table of a profile."""


class Step(_Table, frozen=True, kw_only=True):
    """From ``at`` on (until the next step), the dimension scores ``score``."""

    at: _Count
    score: _Finite
    signal: str = ""  # overrides the dimension's
    shown: _Count = 3  # keywords named in the signal


class Dimension(_Table, frozen=True, kw_only=True):
    """One thing a prompt is scored on."""

    name: str
    weight: _Finite
    measure: Measure = Measure.HITS
    signal: str = ""  # what is shown when it scores; empty = the dimension never shows
    steps: tuple[Step, ...] = ()
    curve: tuple[tuple[_Count, _Finite], ...] = ()  # (measure, score) points, joined along log(measure)
    patterns: tuple[str, ...] = ()  # regular expressions, linear-time subset, on lower-cased text
    keywords: dict[str, tuple[str, ...]] = {}  # language -> words; order is the order of display
    #: Where this dimension is found, the most that what the other keywords add may be. Source: decision 0150.
    others_at_most: Annotated[float, msgspec.Meta(ge=0.0, le=1e6)] | None = None
    but_not_beside: tuple[str, ...] = ()  # dimensions that lift that limit where they are found

    def __post_init__(self) -> None:
        if bool(self.steps) == bool(self.curve):
            raise ValueError(f'dimension "{self.name}" needs either steps or a curve')
        places = [step.at for step in self.steps] or [place for place, _ in self.curve]
        if places != sorted(set(places)) or (self.curve and places[0] < 1):
            raise ValueError(
                f'the steps or the curve of dimension "{self.name}" must rise, a curve from 1 on'
            )
        if (self.measure is Measure.HITS) != bool(self.patterns or self.keywords):
            raise ValueError(f'dimension "{self.name}": keywords and patterns belong to measure "hits" alone')
        for signal in (self.signal, *(step.signal for step in self.steps)):
            if len(_placeholders(signal)) > 1:
                raise ValueError(f'the signal "{signal}" of a dimension may name only one value')


class Override(_Table, frozen=True, kw_only=True):
    """A condition that decides the tier whatever the sum is. All conditions given must hold."""

    name: str
    tier: Tier
    signal: str
    confidence: Share | None = None  # exactly this
    least_confidence: Share | None = None  # max(sigmoid(score), this)
    tokens_above: _Count | None = None
    count_of: tuple[str, ...] = ()  # dimensions whose hits are added up
    count_from: _Count = 0
    one_more_every: Annotated[int, msgspec.Meta(ge=1)] | None = (
        None  # tokens for which one more must be found
    )
    unless_long: _Count | None = None  # with ``needs``: enough on its own when the text has more UTF-16 units
    needs: tuple[str, ...] = ()  # dimensions of which one must have a hit
    unless: tuple[str, ...] = ()  # dimensions of which none may have a hit
    shown_of: tuple[str, ...] = ()  # dimensions whose keywords the signal names; the first three

    def __post_init__(self) -> None:
        if (self.confidence is None) == (self.least_confidence is None):
            raise ValueError(f'override "{self.name}" needs either confidence or least_confidence')
        if self.tokens_above is None and not self.count_of:
            raise ValueError(f'override "{self.name}" needs a condition: tokens_above or count_of')
        _placeholders(self.signal)

    @property
    def by_keywords(self) -> bool:
        """Whether it depends on keywords."""
        return bool(self.count_of or self.needs or self.unless or self.shown_of)


class Saturation(_Table, frozen=True, kw_only=True):
    """The most that all keywords together may add to the sum. Source: docs/decisions/0150."""

    most: Annotated[float, msgspec.Meta(ge=0.0, le=1e6)]
    fades_from: Annotated[int, msgspec.Meta(ge=1)] = 1_000_000  # tokens beyond which they add less
    power: Annotated[float, msgspec.Meta(ge=0.0, le=16.0)] = 1.0  # times (fades_from / tokens) ** power


class Confidence(_Table, frozen=True, kw_only=True, tag_field="rule", tag="confidence"):
    """Ask a model when the confidence is below a threshold.

    Source: docs/sources/prompt-classifier.md, "Confidence calculation".
    """

    below: Share
    signal: str = ""


class Margin(_Table, frozen=True, kw_only=True, tag_field="rule", tag="margin"):
    """Ask a model when the chance to be on the right side of a boundary is nearer than ``within`` to even."""

    within: _Positive
    signal: str = ""

    @property
    def below(self) -> float:
        """The confidence below which a model is asked."""
        return 0.5 + self.within


class VerificationPrompt(_Table, frozen=True, kw_only=True):
    """The question to a model for the tier, and the tier if it does not answer."""

    rubric: str
    cut: _Count = 500  # characters; docs/sources/prompt-classifier.md, "How the model-based classifier works"
    max_tokens: _Count = 10  # enough for one label
    on_failure: Tier | None = None  # None keeps the rules' tier


class TierProfile(_Table, frozen=True, kw_only=True):
    """A complete profile. ``name`` is also the lexicon name of its signals."""

    name: str
    description: str
    tokens: TokenEstimate
    script_factors: dict[Script, _Positive] = {}  # factor on the estimate of a text of that script
    matching: Matching
    boundaries: tuple[_Finite, _Finite, _Finite]  # score from which MEDIUM, COMPLEX, REASONING begin
    steepness: _Positive  # confidence = 1 / (1 + exp(-steepness * distance to the nearest boundary))
    escalation: Confidence | Margin
    verification: VerificationPrompt
    dimensions: tuple[Dimension, ...]
    overrides: tuple[Override, ...] = ()
    without_signals: Tier | None = None  # for a lower tier, and unsure, when no keyword is found
    #: Whether a long message without a system role is judged by its short last paragraph.
    #: Source: docs/sources/prompt-classifier.md, "Prompt extraction"; why only there: docs/notebook/0134.
    last_paragraph: bool = False
    #: Whether look-alike letters, spacing and slips of the keys are undone before the scan, and keywords in
    #: quotations, code and mere lists left out. Why not in ``seed``: docs/decisions/0150, 0168.
    normalise: bool = False
    saturation: Saturation | None = None
    #: What a unit of ln(characters) is worth in the middle of the curve of length: the unit of kinds.
    per_log_length: Annotated[float, msgspec.Meta(ge=0.0, le=1e6)] = 0.325
    domain_scores: dict[
        str, _Finite
    ] = {}  # task domain -> what it adds to the sum; empty: domains are not read
    #: Whether a request that offers tools is judged by its length alone. Source: docs/decisions/0213.
    length_alone_with_tools: bool = False

    def __post_init__(self) -> None:
        if list(self.boundaries) != sorted(self.boundaries):
            raise ValueError('"boundaries" must rise')
        for dimension in self.dimensions:
            for words in dimension.keywords.values():
                for word in words:
                    _check_keyword(word, dimension.name, self.matching)
        self._check_names()

    def _check_names(self) -> None:
        names = [dimension.name for dimension in self.dimensions]
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f'two dimensions are named "{twice}"')
        for dimension in self.dimensions:
            for name in dimension.but_not_beside:
                if name not in names:
                    raise ValueError(f'dimension "{dimension.name}" names an unknown dimension "{name}"')
        for override in self.overrides:
            for name in (*override.count_of, *override.needs, *override.unless, *override.shown_of):
                if name not in names:
                    raise ValueError(f'override "{override.name}" names an unknown dimension "{name}"')

    def for_tools(self) -> TierProfile:
        """The profile of requests that offer tools: this one, or its token measures alone."""
        if not self.length_alone_with_tools:
            return self
        tokens = tuple(each for each in self.dimensions if each.measure is Measure.TOKENS)
        overrides = tuple(each for each in self.overrides if not each.by_keywords)
        return msgspec.structs.replace(
            self, dimensions=tokens, overrides=overrides, saturation=None, domain_scores={}
        )

    @property
    def lowering(self) -> frozenset[str]:
        """The dimensions with keywords that raise nothing."""
        return frozenset(
            dimension.name
            for dimension in self.dimensions
            if all(dimension.weight * step.score <= 0 for step in dimension.steps)
        )

    def signals(self) -> Iterator[Signal]:
        """Every signal the profile listens for, in the order of its file."""
        for dimension in self.dimensions:
            for words in dimension.keywords.values():
                for word in words:
                    yield signal_of(self, dimension, word)
            for pattern in dimension.patterns:
                yield Signal(self.name, dimension.name, pattern, Kind.REGEX)


def signal_of(profile: TierProfile, dimension: Dimension, word: str) -> Signal:
    """The signal of one keyword: ``word``, ``stem*`` or ``*part*`` where whole words are matched."""
    lowered = word.lower()
    literal = word if lowered == word else lowered  # thousands of words: no copy beside the profile's
    if profile.matching is Matching.SUBSTRINGS:
        return Signal(profile.name, dimension.name, literal, Kind.SUBSTRING)
    kind = Kind.WORD
    if literal.startswith("*") or _UNSPACED.search(literal):
        kind = Kind.SUBSTRING
    elif literal.endswith("*"):
        kind = Kind.PREFIX
    return Signal(profile.name, dimension.name, literal.strip("*"), kind)


def _check_keyword(word: str, dimension: str, matching: Matching) -> None:
    if not word.strip(" *" if matching is Matching.WORDS else " "):
        raise ValueError(f'dimension "{dimension}" has an empty keyword')
    if matching is Matching.WORDS and "*" in word[1:-1]:
        raise ValueError(f'keyword "{word}" of dimension "{dimension}": a star belongs at an end')


def _placeholders(signal: str) -> set[str]:
    named = {name for _, name, _, _ in Formatter().parse(signal) if name is not None}
    if unknown := named - _PLACEHOLDERS:
        known = ", ".join(sorted(_PLACEHOLDERS))
        raise ValueError(f'signal "{signal}" names "{min(unknown)}"; known are {known}')
    return named


# Reading a tier profile from TOML, with errors that name the file, the line and the nearest valid key.


#: Profiles that ship inside the package.
BUILTIN_PROFILES: Final = ("default", "seed")

_TABLES: Final[dict[str, tuple[type[msgspec.Struct], ...]]] = {
    "": (TierProfile,),
    "dimensions": (Dimension,),
    "escalation": (Confidence, Margin),
    "overrides": (Override,),
    "saturation": (Saturation,),
    "steps": (Step,),
    "verification": (VerificationPrompt,),
}


#: Keys that are no longer a profile's, and where they are.
_MOVED: Final = {("verification", "timeout_ms"): "timeout_ms in [tiers.verify] of pointsman.toml"}


@cache
def builtin_profile(name: str) -> TierProfile:
    """A profile that ships with the package, read once.

    Raises:
        ConfigError: there is no profile of that name.
    """
    if name not in BUILTIN_PROFILES:
        raise ConfigError(
            f'unknown tier profile "{name}"',
            hint=f"built in: {', '.join(BUILTIN_PROFILES)}; anything else is the path of a TOML file",
        )
    file = f"{name}.toml"
    text = (get_data("pointsman.tiers", f"profiles/{file}") or b"").decode()
    return load_profile(text, file)


def load_profile(text: str, source: str) -> TierProfile:
    """Read a profile from TOML text; ``source`` is the file's name in errors.

    Raises:
        ConfigError: not TOML, an unknown or mistyped key, values that contradict each other, or a pattern
            that no linear-time engine takes.
    """
    toml = TomlSource(text, source)
    try:
        profile = msgspec.convert(toml.read(), TierProfile)
    except msgspec.ValidationError as error:
        raise _explain(str(error), toml) from None
    _check_patterns(profile, toml)
    return profile


def _check_patterns(profile: TierProfile, source: TomlSource) -> None:
    for index, dimension in enumerate(profile.dimensions):
        for number, pattern in enumerate(dimension.patterns):
            own = Signal(profile.name, dimension.name, pattern, Kind.REGEX)
            try:
                PatternSet(SignalTable([own]))
            except LexiconError as error:
                place = source.at(("dimensions", index, "patterns", number))
                raise LexiconError(error.message, place=place, hint=error.hint) from None


def _explain(message: str, source: TomlSource) -> ConfigError:
    """Turn msgspec's message into a place and a hint."""
    what, path = path_in(message)
    if "unknown field" not in what:
        if not path:
            return ConfigError(what, place=f"{source.name}:{source.line_naming(what)}")
        shown = ".".join(f"[{part}]" if isinstance(part, int) else str(part) for part in path)
        return ConfigError(f"{what} at {shown}", place=source.at(path))
    *above, key = path
    table = next((part for part in reversed(above) if isinstance(part, str) and part in _TABLES), "")
    where = f" in [{table}]" if table else ""
    if moved := _MOVED.get((table, str(key))):
        return ConfigError(f'"{key}"{where} is now {moved}', place=source.at(path))
    meant = did_you_mean(str(key), (name for type_ in _TABLES[table] for name in type_.__struct_fields__))
    return ConfigError(f'unknown key "{key}"{where}{meant}', place=source.at(path))
