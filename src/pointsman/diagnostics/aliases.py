"""What each alias of a configuration resolves to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pointsman.config import Config
from pointsman.decision.aliases import Aliases, ModelNames, first_of_each, follow
from pointsman.decision.client_aliases import CLIENT_ALIASES

__all__ = ["AliasRow", "describe_aliases", "list_aliases"]


class AliasRow(NamedTuple):
    """One alias, in the order in which they are tried."""

    pattern: str
    target: str  # as written
    resolves_to: str  # "auto", a tier, a configured model, or "refuse"
    is_shipped: bool
    hidden_by: str  # the pattern before it that matches every name it could match; empty: it is used
    way: tuple[str, ...]  # the patterns that were followed, its own first


def list_aliases(config: Config) -> list[AliasRow]:
    """Return the operator's aliases, then those shipped."""
    own = tuple(config.aliases.items())
    aliases: Aliases = (*own, *CLIENT_ALIASES)
    names, targets = ModelNames(config.models, aliases), first_of_each(aliases)
    rows = []
    for number, (pattern, target) in enumerate(aliases):
        way, found = follow(pattern, targets, config.models)
        hidden_by = names.hidden_by(number)
        rows.append(AliasRow(pattern, target, str(found), number >= len(own), hidden_by, tuple(way[:-1])))
    return rows


def describe_aliases(rows: Sequence[AliasRow]) -> Iterator[str]:
    """Return the operator's aliases one per line, and those shipped one line per target."""
    own = [row for row in rows if not row.is_shipped]
    width = max((len(_quoted(row.pattern)) for row in own), default=0)
    yield "aliases, the first that matches counts:"
    for row in own:
        way = " -> ".join([*map(_quoted, row.way[1:]), row.resolves_to])
        unused = f"; never used, {_quoted(row.hidden_by)} comes before it" if row.hidden_by else ""
        yield f"  {_quoted(row.pattern):<{width}}  {way}{unused}"
    shipped = [row for row in rows if row.is_shipped and not row.hidden_by]
    if not shipped:
        yield "  none of those shipped is used"
    for target in dict.fromkeys(row.resolves_to for row in shipped):
        patterns = _joined(row.pattern for row in shipped if row.resolves_to == target)
        yield f"  shipped: {target} for {patterns}"


def _joined(patterns: Iterable[str]) -> str:
    return ", ".join(map(_quoted, patterns))


def _quoted(pattern: str) -> str:
    return f'"{pattern}"'
