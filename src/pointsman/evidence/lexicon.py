"""Lexicon files: groups of terms as TOML, and the checks behind ``pointsman lexicon check``.

The format is described in docs/reference/lexicon.md. The checks find terms that a loader accepts because
they are valid, only useless or costly: terms that are there twice, terms that fire whenever another does,
patterns that cannot match, and the cost of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from pointsman.errors import LexiconError, did_you_mean
from pointsman.evidence._engines import Engine, build_matcher
from pointsman.evidence._pattern import Alt, Chars, Edge, Node, Repeat, Seq
from pointsman.evidence._patterns import PatternSet, framed, separated, tree, without_marks
from pointsman.evidence._signals import Kind, Signal, SignalTable
from pointsman.remembering import grouped
from pointsman.toml_source import TomlSource, path_in

__all__ = ["Cost", "Finding", "Lexicon", "LintReport", "Term", "check", "load_lexicon"]


@dataclass(frozen=True, slots=True)
class Term:
    """A signal, and its source."""

    signal: Signal
    place: str = ""  # "file:line", where known


@dataclass(frozen=True, slots=True)
class Lexicon:
    """A named collection of terms."""

    name: str
    terms: tuple[Term, ...]

    @classmethod
    def of(cls, name: str, signals: Iterable[Signal], *, place: str = "") -> Lexicon:
        """A lexicon with terms of another file, such as a tier profile or a set of domains."""
        return cls(name, tuple(Term(signal, place) for signal in signals))

    def signals(self) -> Iterator[Signal]:
        """Every signal, in the order of the file."""
        return (term.signal for term in self.terms)


class _Group(msgspec.Struct, forbid_unknown_fields=True):
    words: tuple[str, ...] = ()
    substrings: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()


class _File(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    groups: dict[str, _Group]


_KEYS: Final = {"file": _File.__struct_fields__, "group": _Group.__struct_fields__}


def load_lexicon(text: str, source: str) -> Lexicon:
    """Read a lexicon from TOML text.

    Args:
        text: The file's content.
        source: The file's name, for messages.

    Raises:
        LexiconError: not TOML, an unknown key (with the nearest valid one), a value of the wrong type, a term
            that is there twice, or a pattern that is refused; names file and line.
    """
    found = TomlSource(text, source)
    try:
        file = msgspec.convert(found.read(LexiconError), _File)
    except msgspec.ValidationError as error:
        raise _explained(found, str(error)) from None
    terms = [term for name, group in file.groups.items() for term in _terms(found, file.name, name, group)]
    return Lexicon(file.name, tuple(terms))


def _explained(source: TomlSource, message: str) -> LexiconError:
    """Turn msgspec's "Object contains unknown field `x` - at `$.groups[...]`" into a place and a hint."""
    reason, path = path_in(message)
    place = source.at(path)
    if "unknown field" not in reason:
        at = message.partition(" - at ")[2] or "`$`"
        return LexiconError(f"{reason} at {at}", place=place)
    *above, key = path
    known = _KEYS["group" if above else "file"]
    meant = did_you_mean(str(key), known) or f"; known are {', '.join(known)}"
    return LexiconError(f'unknown key "{key}"{meant}', place=place)


def _terms(source: TomlSource, lexicon: str, group: str, entries: _Group) -> Iterator[Term]:
    seen: set[Signal] = set()
    for key, number, written, signal in _signals(lexicon, group, entries):
        place = source.at(("groups", group, key, number))
        if signal in seen:
            raise LexiconError(f'"{written}" is twice in group "{group}"', place=place)
        seen.add(signal)
        try:
            PatternSet(SignalTable([signal]))
        except LexiconError as error:
            raise LexiconError(error.message, place=place, hint=error.hint) from None
        yield Term(signal, place)


def _signals(lexicon: str, group: str, entries: _Group) -> Iterator[tuple[str, int, str, Signal]]:
    """Each term: key, index, as it is written, and its signal; a final ``*`` matches any more letters."""
    for number, word in enumerate(entries.words):
        kind = Kind.PREFIX if word.endswith("*") else Kind.WORD
        yield "words", number, word, Signal(lexicon, group, word.removesuffix("*").lower(), kind)
    for number, substring in enumerate(entries.substrings):
        yield "substrings", number, substring, Signal(lexicon, group, substring.lower(), Kind.SUBSTRING)
    for number, pattern in enumerate(entries.patterns):
        yield "patterns", number, pattern, Signal(lexicon, group, pattern, Kind.REGEX)


#: Long enough that the fixed cost of a scan (1 µs) is lost in it.
_SAMPLE_BYTES: Final = 64_000
_REPEATS: Final = 3  # the fastest counts: anything slower was someone else's


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to look at."""

    level: Literal["error", "warning", "note"]
    code: str  # stable: "refused", "never-matches", "twice", "overlap", "contained", "outer-space"
    message: str
    place: str = ""  # "file:line", where known


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one pattern alone."""

    signal: Signal
    ns_per_byte: float


@dataclass(frozen=True, slots=True)
class LintReport:
    """Findings, worst first, and cost of matching, most expensive first."""

    patterns: int
    findings: tuple[Finding, ...]
    costs: tuple[Cost, ...]
    ns_per_byte: float  # of all patterns together, which is not the sum of each

    @property
    def ok(self) -> bool:
        """True when nothing is wrong; warnings and notes are not."""
        return all(finding.level != "error" for finding in self.findings)


def check(lexicons: Sequence[Lexicon], clock: Callable[[], float], *, sample: str = "") -> LintReport:
    """Check lexicons one by one and against each other.

    Args:
        lexicons: The lexicons in combination.
        clock: Returns CPU seconds, such as ``time.process_time``.
        sample: Text to measure costs on; without one, the terms themselves in running order, repeated.
    """
    findings = [finding for lexicon in lexicons for finding in _repeated(lexicon)]
    engines, refused = _compiled(lexicons)
    findings += refused
    table = SignalTable(term.signal for term in engines)
    together = build_matcher(PatternSet(table))
    examples = {term: example(tree(term.signal)) for term in engines}
    for term, text in examples.items():
        findings += _fires_with(term, text, table, together)
    data = framed(separated(without_marks((sample or _running(examples.values())).lower())))
    alone = {term.signal: engine for term, engine in engines.items()}
    costs = [Cost(signal, _ns_per_byte(engine, data, clock)) for signal, engine in alone.items()]
    order = ("error", "warning", "note")
    return LintReport(
        patterns=len(table),
        findings=tuple(sorted(findings, key=lambda finding: order.index(finding.level))),
        costs=tuple(sorted(costs, key=lambda cost: (-cost.ns_per_byte, cost.signal))),
        ns_per_byte=_ns_per_byte(together, data, clock),
    )


def example(node: Node) -> str:
    """A shortest text that a pattern matches: the first alternative, the fewest repeats."""
    match node:
        case Chars(set=chars):
            return _readable(chars)
        case Seq(items=items):
            return "".join(map(example, items))
        case Alt(options=options):
            return example(options[0])
        case Repeat(item=item, least=least):
            return example(item) * least
        case Edge():
            return ""


def _readable(chars: tuple[tuple[int, int], ...]) -> str:
    """A space where the set has one, else a letter or digit, else its first character."""
    for wish in " a0":
        if any(first <= ord(wish) <= last for first, last in chars):
            return wish
    return chr(chars[0][0])


def _repeated(lexicon: Lexicon) -> Iterator[Finding]:
    """Terms that are in one group twice: as the same kind, or once as a word and once as a substring."""
    kinds = grouped(((term.signal.group, term.signal.pattern), term) for term in lexicon.terms)
    for (group, pattern), terms in kinds.items():
        for term in terms[1:]:
            other = terms[0].signal.kind
            how = "" if other is term.signal.kind else f", as {other} and as {term.signal.kind}"
            message = f'"{pattern}" is twice in {lexicon.name}/{group}{how}'
            yield Finding("warning", "twice", message, term.place)


def _compiled(lexicons: Sequence[Lexicon]) -> tuple[dict[Term, Engine], list[Finding]]:
    """Each term compiled alone, and why others cannot be."""
    engines: dict[Term, Engine] = {}
    refused: list[Finding] = []
    for term in (term for lexicon in lexicons for term in lexicon.terms):
        try:
            engines[term] = build_matcher(PatternSet(SignalTable([term.signal])))
        except LexiconError as error:
            refused.append(Finding("error", "refused", error.message, term.place))
    return engines, refused


def _fires_with(term: Term, text: str, table: SignalTable, engine: Engine) -> Iterator[Finding]:
    """Test of a term on its shortest text: whether it fires, and the other terms that fire."""
    signal = term.signal
    fired = set(table.of(engine.match(text.lower())))
    if signal not in fired:
        yield Finding(
            "error", "never-matches", f"{signal.id} does not match its own example {text!r}", term.place
        )
    if signal.kind is not Kind.REGEX and signal.pattern != signal.pattern.strip():
        message = f'"{signal.pattern}" of {signal.lexicon}/{signal.group} begins or ends with white space'
        yield Finding("warning", "outer-space", message, term.place)
    for other in sorted(fired - {signal}):
        if other.lexicon != signal.lexicon:
            continue  # different lexicons ask different questions
        if other.group == signal.group:
            if other.pattern != signal.pattern:
                message = f'{signal.id} never fires alone: "{other.pattern}" of the same group does too'
                yield Finding("note", "contained", message, term.place)
        elif other.pattern == signal.pattern and other > signal:
            yield Finding("note", "overlap", f"{signal.id} is also in group {other.group}", term.place)


def _running(examples: Iterable[str]) -> str:
    """A text in which every term occurs, among others that do not."""
    once = " ".join(f"{text} and so on." for text in examples) or "nothing to look for."
    return once * (_SAMPLE_BYTES // len(once.encode("utf-8", "replace")) + 1)


def _ns_per_byte(engine: Engine, data: bytes, clock: Callable[[], float]) -> float:
    taken = []
    for _ in range(_REPEATS):
        started = clock()
        engine.find(data)
        taken.append(clock() - started)
    return min(taken) * 1e9 / len(data)
