"""Reading domains from TOML text. The format is described in docs/reference/domains.md."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, reduce
from operator import or_
from pkgutil import get_data  # importlib.resources brings tempfile and half of os.path with it
from typing import Annotated, Final, Literal, TypeAlias, TypeVar

import msgspec

from pointsman.domains.data import CUE_GROUP, LEXICON, Concept, Domain, DomainClass, DomainSet
from pointsman.errors import LexiconError, did_you_mean
from pointsman.evidence import Kind, PatternSet, Scanner, Signal, SignalTable
from pointsman.toml_source import TomlSource, path_in

__all__ = ["Finding", "check_domains", "default_domains", "parse_domains"]


S = TypeVar("S", bound=msgspec.Struct)


class _Pattern(msgspec.Struct, forbid_unknown_fields=True):
    regex: str = ""
    substring: str = ""


_Items = Annotated[list[_Pattern | str], msgspec.Meta(min_length=1)]


class _DomainSpec(msgspec.Struct, forbid_unknown_fields=True, rename={"kind": "class"}):
    kind: DomainClass
    priority: int = 99
    brief_description: str = ""
    enrichment_template: str = ""
    aliases: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    signals: dict[str, object] = {}


class _CueSpec(msgspec.Struct, forbid_unknown_fields=True):
    switch: tuple[str, ...] = ()


#: ``+`` joins the names of a pair in its signature, so a name is one word.
_Name = Annotated[str, msgspec.Meta(pattern=r"^\w+$")]


class _File(msgspec.Struct, forbid_unknown_fields=True):
    extends: Literal["default", "none"] = "default"
    cues: _CueSpec = msgspec.field(default_factory=_CueSpec)
    domains: dict[_Name, _DomainSpec] = {}


_KNOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "file": _File.__struct_encode_fields__,
    "cues": _CueSpec.__struct_encode_fields__,
    "domain": _DomainSpec.__struct_encode_fields__,
}


@cache
def default_domains() -> DomainSet:
    """The eleven built-in domains."""
    text = (get_data("pointsman.domains", "default.toml") or b"").decode()
    return parse_domains(text, place="pointsman/domains/default.toml")


def parse_domains(text: str, *, place: str = "domains.toml") -> DomainSet:
    """Read a domain file; a file with ``extends = "default"`` adds to and replaces the built-in domains.

    Args:
        text: the TOML text.
        place: the file's name, for messages.

    Raises:
        LexiconError: names the place, the problem, and the nearest known key.
    """
    source = TomlSource(text, place)
    file = _read(source)
    domains = {name: _domain(source, name, spec) for name, spec in file.domains.items()}
    cues = tuple(Signal(LEXICON, CUE_GROUP, phrase.lower()) for phrase in file.cues.switch)
    if file.extends == "none":
        return DomainSet(domains, cues)
    base = default_domains()
    return DomainSet(
        {**base.domains, **domains}, (*base.cues, *(cue for cue in cues if cue not in base.cues))
    )


def _read(source: TomlSource) -> _File:
    table = source.read(LexiconError)
    _check_keys(source, table, "file", "at the top level", ())
    if isinstance(table.get("cues"), dict):
        _check_keys(source, table["cues"], "cues", "in [cues]", ("cues",))
    domains = table.get("domains")
    for name, spec in domains.items() if isinstance(domains, dict) else ():
        if isinstance(spec, dict):
            _check_keys(source, spec, "domain", f"in [domains.{name}]", ("domains", name))
            _convert(source, spec, _DomainSpec, below=name)
    return _convert(source, table, _File)


def _convert(source: TomlSource, table: object, of: type[S], *, below: str = "") -> S:
    try:
        return msgspec.convert(table, of)
    except msgspec.ValidationError as error:
        message, path = path_in(str(error))
        keys = [part for part in path if isinstance(part, str)]
        message += f' at "{keys[-1]}"' if keys else f" in [domains.{below}]" if below else ""
        table = ("domains", below) if below else ()
        raise LexiconError(message, place=source.at((*table, *path))) from error


def _domain(source: TomlSource, name: str, spec: _DomainSpec) -> Domain:
    return Domain(
        name=name,
        kind=spec.kind,
        priority=spec.priority,
        concepts=tuple(_concept(source, name, concept, value) for concept, value in spec.signals.items()),
        brief_description=spec.brief_description.strip(),
        enrichment_template=spec.enrichment_template.strip(),
        aliases=spec.aliases,
        examples=spec.examples,
    )


def _concept(source: TomlSource, domain: str, name: str, value: object) -> Concept:
    try:
        items = msgspec.convert(value if isinstance(value, list) else [value], _Items)
        return Concept(
            name, _signals(domain, name, items), tuple(item for item in items if isinstance(item, str))
        )
    except ValueError as error:
        reason, hint = (
            str(error),
            'write a phrase, { regex = "…" }, { substring = "…" }, or a list of these',
        )
    except LexiconError as error:
        reason, hint = error.message, error.hint
    raise LexiconError(
        f'concept "{name}" of domain "{domain}": {reason}',
        place=source.at(("domains", domain, "signals", name)),
        hint=hint,
    )


def _check_keys(
    source: TomlSource, table: Mapping[str, object], kind: str, where: str, path: tuple[str, ...]
) -> None:
    for key in table:
        if key not in _KNOWN[kind]:
            place = source.at((*path, key))
            raise LexiconError(f'unknown key "{key}" {where}{did_you_mean(key, _KNOWN[kind])}', place=place)


def _signals(domain: str, concept: str, items: Iterable[str | _Pattern]) -> tuple[Signal, ...]:
    """One signal for all single words of a concept, and one for each of its phrases and patterns."""
    mentions, signals = [], []
    for number, item in enumerate(items, start=1):
        word = item.removesuffix("*").strip().lower() if isinstance(item, str) else ""
        if isinstance(item, _Pattern):
            signals.append(_pattern(domain, f"{concept}#{number}", item))
        elif not word:
            raise ValueError("an empty phrase")
        elif word.isascii() and " " not in word:
            mentions.append(re.escape(word) + ("[a-z]*" if item.endswith("*") else ""))
        else:
            signals.append(Signal(LEXICON, domain, word, Kind.PREFIX if item.endswith("*") else Kind.WORD))
    if mentions:
        words = _BEFORE + f"(?:{'|'.join(mentions)})" + _AFTER
        signals.append(Signal(LEXICON, domain, words, Kind.REGEX, f"{concept}#words"))
    return tuple(signals)


#: What stands around a word that is mentioned, not part of a path, a file name or a package name:
#: ``cat debug.log`` asks for no debugging, and ``pip install python-dotenv`` for no Python. One expression
#: for all words of a concept: one for each would take four times as long to compile (docs/decisions/0040).
_BEFORE: Final = r"(?:^|[^\w./\\-])"
_AFTER: Final = r"(?:$|[^\w/\\.-]|[.-](?:$|\W))"


def _pattern(domain: str, name: str, item: _Pattern) -> Signal:
    if bool(item.regex) == bool(item.substring):
        raise ValueError('either "regex" or "substring", and not empty')
    if item.substring:
        return Signal(LEXICON, domain, item.substring.lower(), Kind.SUBSTRING)
    signal = Signal(LEXICON, domain, item.regex, Kind.REGEX, name)
    PatternSet(SignalTable([signal]))  # refuses what is not linear-time
    return signal


# Checks of a domain file: phrases that never match, or that count twice.
#
# Patterns that are not linear-time, or that match everything, are refused when the file is read.


#: How bad a finding is: the phrase cannot do its work, or does more than its place in the file says.
Severity: TypeAlias = Literal["error", "warning"]


class Finding(msgspec.Struct, frozen=True):
    """One mistake, at one phrase."""

    severity: Severity
    domain: str
    concept: str
    phrase: str
    message: str


def check_domains(domains: DomainSet, scanner: Scanner) -> list[Finding]:
    """Score each phrase alone and report the domains found.

    Args:
        domains: the domains to check.
        scanner: over a table that holds their signals.
    """
    heard_as = [
        (domain, concept, reduce(or_, map(scanner.table.bit, concept.signals), 0))
        for domain in domains
        for concept in domain.concepts
    ]
    findings: list[Finding] = []
    for domain, concept, _ in heard_as:
        for phrase in concept.phrases:
            hits = scanner.scan(" ".join(phrase.removesuffix("*").split())).hits  # as people space words
            heard = [(other, what) for other, what, mask in heard_as if hits & mask]
            findings += (
                Finding(severity, domain.name, concept.name, phrase, message)
                for severity, message in _judge(domain, concept, heard)
            )
    return [*findings, *_repeated(domains)]


def _judge(
    domain: Domain, concept: Concept, heard: list[tuple[Domain, Concept]]
) -> Iterator[tuple[Severity, str]]:
    if (domain, concept) not in heard:
        yield "error", "cannot match"
    for other, what in heard:
        if other is domain and what is not concept:
            yield "warning", f'one mention counts twice: "{what.name}" hears it too'
        elif other is not domain and other.kind is not DomainClass.NULL:
            yield "warning", f'counts for {other.name} too: "{what.name}" hears it'


def _repeated(domains: DomainSet) -> Iterator[Finding]:
    for domain in domains:
        for concept in domain.concepts:
            seen: set[str] = set()
            for phrase in concept.phrases:
                if phrase.lower() in seen:
                    yield Finding("warning", domain.name, concept.name, phrase, "is there twice")
                seen.add(phrase.lower())
