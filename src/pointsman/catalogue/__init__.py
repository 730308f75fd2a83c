"""Floor 5: the catalogue of models: windows, features, prices, cache lifetimes, with date and origin.

Two files are read: the one shipped here, and the user's own, which ``pointsman models update`` writes and
which goes before it. Values of the configuration override both.
"""

from __future__ import annotations

from pointsman.catalogue._entry import ANY, Catalogue, CatalogueEntry, Fact, Match, facts, filled, provider_of
from pointsman.catalogue._update import decode, installed, read_source, user_file, write_user_file

__all__ = [
    "ANY",
    "Catalogue",
    "CatalogueEntry",
    "Fact",
    "Match",
    "decode",
    "facts",
    "filled",
    "installed",
    "provider_of",
    "read_source",
    "user_file",
    "write_user_file",
]
