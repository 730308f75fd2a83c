"""One catalogue: its entries, and which of them describes a model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Annotated, Final, NamedTuple

from msgspec import Meta

from pointsman.prices import Prices
from pointsman.vocabulary import Feature

__all__ = ["ANY", "Catalogue", "CatalogueEntry", "Match"]

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
    """What is known of one model, or of all whose id fits a pattern."""

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
            provider: Who serves it; ``ANY`` where that is not known.
            id_: The id it is asked for by.
        """
        for at, name, priced in _readings(provider, id_.lower()):
            if entry := self._exact.get((at, name)) or self._exact.get((at, _undated(name))):
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
        found: dict[str, list[CatalogueEntry]] = {}
        for entry in sorted(self.entries, key=lambda each: -len(each.id)):
            if _WILD.search(entry.id):
                found.setdefault(entry.provider, []).append(entry)
        return found


def _readings(provider: str, id_: str) -> Iterator[tuple[str, str, bool]]:
    """Who may have made the model, the id its maker knows it by, and whether the maker's prices hold."""
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
    """Whether an id names a larger window than the entry of its family: it is then a model of its own."""
    window, said = pattern.context_window, _LENGTH.search(id_)
    if said is None or window is None or said[0] in pattern.id:
        return False
    return (int(said[1]) * 1_000 if said[1] else int(said[2]) * 1_000_000) > window


def _undated(id_: str) -> str:
    return _DATED.sub("", id_)
