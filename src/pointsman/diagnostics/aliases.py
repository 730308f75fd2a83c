"""What each alias of a configuration resolves to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pointsman.config import Config
from pointsman.decision.aliases import Aliases, ModelNames, first_of_each, follow
from pointsman.decision.client_aliases import CLIENT_ALIASES

__all__ = [
    "AliasRow",
    "TakenId",
    "describe_aliases",
    "describe_taken_ids",
    "list_aliases",
    "model_names",
    "taken_ids",
]


class AliasRow(NamedTuple):
    """One alias, in the order in which they are tried."""

    pattern: str
    target: str  # as written
    resolves_to: str  # "auto", a tier, a configured model, or "refuse"
    is_shipped: bool
    hidden_by: str  # the pattern before it that matches every name it could match; empty: it is used
    way: tuple[str, ...]  # the patterns that were followed, its own first


class TakenId(NamedTuple):
    """The id of a configured model that an alias takes: asked for by it, another model may answer."""

    id: str
    model: str  # configured name
    means: str  # "auto", a tier, another model, or "refuse"
    pattern: str  # of the alias
    client: str = ""  # how the User-Agent begins of those for whom it does; empty: for all


def model_names(config: Config) -> ModelNames:
    """Return what resolves the names of requests, as the gateway does."""
    aliases: Aliases = (*config.aliases.items(), *CLIENT_ALIASES)
    return ModelNames(config.models, aliases)


def taken_ids(config: Config) -> list[TakenId]:
    """Return the ids of configured models that mean something else when a request names them."""
    names = model_names(config)
    taken = [TakenId(id_, model, str(named.target), named.pattern) for id_, model, named in names.taken_ids()]
    of_all = {each.id for each in taken}
    return taken + [
        TakenId(id_, model, str(named.target), named.pattern, client)
        for id_, model, client, named in names.default_ids()
        if id_ not in of_all
    ]


def describe_taken_ids(taken: Sequence[TakenId]) -> Iterator[str]:
    """Return a line that explains the ids, and the way to the models themselves."""
    if not taken:
        return
    if means := ", ".join(f"{_quoted(each.id)} means {each.means}" for each in taken if not each.client):
        yield f"ids that aliases take: {means}"
    sent = (f"{_quoted(each.id)} of {each.client} means {each.means}" for each in taken if each.client)
    if means := ", ".join(sent):
        yield f"ids that clients send unless told otherwise: {means}"
    name, id_ = _quoted(taken[0].model), _quoted(taken[0].id)
    yield f"  to get the model itself, ask for {name}, or write {id_} = {name} under [aliases]"


def list_aliases(config: Config) -> list[AliasRow]:
    """Return the operator's aliases, then those shipped."""
    own = tuple(config.aliases.items())
    aliases: Aliases = (*own, *CLIENT_ALIASES)
    names, targets = model_names(config), first_of_each(aliases)
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
