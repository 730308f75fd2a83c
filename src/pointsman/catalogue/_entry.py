"""One catalogue: its entries, and which of them describes a model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Annotated, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from pointsman.prices import PRICES, Prices
from pointsman.remembering import grouped
from pointsman.vocabulary import Feature, ModelSpec

#: The provider of entries that hold for a model wherever it is served: open models. They have no prices.
ANY: Final = ""

#: Providers by the name that other services put before their models' ids, as in ``anthropic/claude-opus-5``.
_VENDORS: Final[Mapping[str, str]] = {
    "anthropic": "anthropic",
    "deepseek": "deepseek",
    "deepseek-ai": "deepseek",
    "gemini": "google",
    "google": "google",
    "mistral": "mistral",
    "mistralai": "mistral",
    "openai": "openai",
    "x-ai": "xai",
    "xai": "xai",
}
#: Vendors whose prices OpenRouter passes on. The open models of others are sold by several, at other prices.
_PASSED_ON: Final = frozenset({"anthropic", "google", "openai", "xai"})

#: What providers put behind the id of a model for one version of it.
_DATED: Final = re.compile(r"[-@](?:\d{4}-\d{2}-\d{2}|20\d{6}|\d{4}|latest)$")
#: A context window in the id of a fine-tuned model, as in "llama-3-8b-instruct-gradient-1048k".
_LENGTH: Final = re.compile(r"(?<![a-z0-9.])(?:(\d{1,4})k|(\d{1,2})m)(?![a-z0-9])")
_WILD: Final = re.compile(r"[*?\[]")
#: Wildcards of one pattern: the time of a match grows with each of them.
MOST_WILDCARDS: Final = 8
#: Per million tokens: a thousand times the dearest model there is.
HIGHEST_PRICE: Final = 1_000_000


class CatalogueEntry(Prices, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Data of one model, or of all with an id that fits a pattern."""

    id: Annotated[
        str, Meta(min_length=1, max_length=256)
    ]  # the provider's, lower case; or a shell-style pattern of ids
    provider: str = ANY
    context_window: Annotated[int, Meta(ge=1)] | None = None  # tokens, the answer included
    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    features: frozenset[Feature] | None = None
    cache_seconds: Annotated[float, Meta(gt=0)] | None = None
    origin: str = ""  # default: that of the catalogue, as for prices_as_of

    def __post_init__(self) -> None:
        """Refuse what would make every look-up slow, and prices that no sum can hold."""
        if len(_WILD.findall(self.id)) > MOST_WILDCARDS:
            raise ValueError(f'"id" has more than {MOST_WILDCARDS} wildcards')
        for name in Prices.__struct_fields__:
            price = getattr(self, name)
            if isinstance(price, float | int) and not price <= HIGHEST_PRICE:
                raise ValueError(f'"{name}" is above {HIGHEST_PRICE:,}, more than any model costs')


class Match(NamedTuple):
    """The entry that describes a model."""

    entry: CatalogueEntry
    has_its_prices: bool  # whether what the entry says of prices holds where the model is served


class Catalogue:
    """Entries of one file. Looked up by exact id, by the id without its date, then by the longest pattern."""

    def __init__(self, entries: tuple[CatalogueEntry, ...], *, as_of: date, origin: str) -> None:
        self.entries: Final = entries
        self.as_of: Final = as_of
        self.origin: Final = origin

    def find(self, provider: str, id_: str) -> Match | None:
        """Return the entry of a model.

        Args:
            provider: The provider; ``ANY`` if unknown.
            id_: The id it is asked for by.
        """
        for at, name, priced in _readings(provider, id_.lower()):
            if entry := self._exact.get((at, name)) or self._exact.get((at, _DATED.sub("", name))):
                return Match(entry, priced)
            for pattern in self._patterns.get(at, ()):
                if fnmatchcase(name, pattern.id) and not _says_more(name, pattern):
                    return Match(pattern, priced)
        return None

    @cached_property
    def _exact(self) -> dict[tuple[str, str], CatalogueEntry]:
        return {(each.provider, each.id): each for each in self.entries if not _WILD.search(each.id)}

    @cached_property
    def _patterns(self) -> dict[str, list[CatalogueEntry]]:
        """By provider, the longest first."""
        longest_first = sorted(self.entries, key=lambda each: -len(each.id))
        return grouped((entry.provider, entry) for entry in longest_first if _WILD.search(entry.id))


def _readings(provider: str, id_: str) -> Iterator[tuple[str, str, bool]]:
    """Possible maker of the model, the maker's id of it, and whether the maker's prices hold."""
    path, _, last = id_.rpartition("/")
    if provider:
        yield provider, id_, True
        yield provider, last, True  # Google lists its models as "models/…"
    maker = _VENDORS.get(path.rpartition("/")[2], "")
    name, _, variant = last.partition(":")
    if maker:
        priced = provider == "openrouter" and maker in _PASSED_ON and variant != "free"
        yield maker, name, priced
        yield maker, name.replace(".", "-"), priced  # Anthropic's ids have no dots, those of others have
    yield ANY, last, False


def _says_more(id_: str, pattern: CatalogueEntry) -> bool:
    """Whether an id names a larger window than the entry of its family: it is then a separate model."""
    window, said = pattern.context_window, _LENGTH.search(id_)
    if said is None or window is None or said[0] in pattern.id:
        return False
    return (int(said[1]) * 1_000 if said[1] else int(said[2]) * 1_000_000) > window


# Fills what a configuration does not say of a model, and tells where each value comes from.

OWN: Final = "configuration"

#: Fields besides the prices and their date.
_OTHERS: Final = ("context_window", "max_output_tokens", "features", "cache_seconds")


class Fact(NamedTuple):
    """A value, and its source."""

    value: object
    origin: str


def facts(model: ModelSpec, provider: str, catalogues: Sequence[Catalogue]) -> dict[str, Fact]:
    """Return the known data of a model, by field, without unknown fields.

    Prices are taken all from one place, since they may be in different currencies: where the configuration
    has one configured, none comes from a catalogue.

    Args:
        model: As the configuration has it.
        provider: The provider.
        catalogues: The first goes before the others.
    """
    known = {
        name: Fact(value, OWN)
        for name in (*PRICES, "prices_as_of", *_OTHERS)
        if (value := getattr(model, name)) is not None
    }
    has_own_prices = any(name in known for name in PRICES)
    for catalogue in catalogues:
        match = catalogue.find(provider, model.id)
        if match is None:
            continue
        entry = match.entry
        origin = f"catalogue of {entry.prices_as_of or catalogue.as_of}: {entry.origin or catalogue.origin}"
        _take(known, entry, _OTHERS, origin)
        if match.has_its_prices and entry.is_priced and not has_own_prices:
            has_own_prices = True
            _take(known, match.entry, PRICES, origin)
            known.setdefault("prices_as_of", Fact(match.entry.prices_as_of or catalogue.as_of, origin))
    return known


def filled(model: ModelSpec, provider: str, catalogues: Sequence[Catalogue]) -> ModelSpec:
    """Return a model completed from the catalogues; configured values stay."""
    found = facts(model, provider, catalogues)
    return msgspec.structs.replace(model, **{name: fact.value for name, fact in found.items()})


def _take(known: dict[str, Fact], entry: CatalogueEntry, names: Sequence[str], origin: str) -> None:
    for name in names:
        if (value := getattr(entry, name)) is not None:
            known.setdefault(name, Fact(value, origin))


# Whose prices hold at an address.

#: Hosts of providers, subdomains included (``eu.api.openai.com``).
PROVIDERS: Final[Mapping[str, str]] = {
    "api.anthropic.com": "anthropic",
    "api.deepseek.com": "deepseek",
    "api.mistral.ai": "mistral",
    "api.openai.com": "openai",
    "api.x.ai": "xai",
    "codestral.mistral.ai": "mistral",
    "generativelanguage.googleapis.com": "google",
    "openrouter.ai": "openrouter",
}


def provider_of(base_url: str) -> str:
    """Return the provider at an address; empty for others, among them private servers."""
    try:
        host = urlsplit(base_url).hostname or ""
    except ValueError:  # half a bracket
        return ANY
    labels = host.split(".")
    tails = (".".join(labels[first:]) for first in range(len(labels)))
    return next((PROVIDERS[tail] for tail in tails if tail in PROVIDERS), ANY)
