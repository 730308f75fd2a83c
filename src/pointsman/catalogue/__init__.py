"""Floor 5: the catalogue of models: windows, features, prices, cache lifetimes, with date and origin.

Two files are read: the one shipped here, and the user's own, which ``pointsman models update`` writes and
which goes before it. What a configuration says itself goes before both.
"""

from __future__ import annotations

from pointsman.catalogue._entry import ANY, Catalogue, CatalogueEntry, Match
from pointsman.catalogue._files import decode, installed, user_file
from pointsman.catalogue._fill import Fact, facts, filled
from pointsman.catalogue._providers import provider_of
from pointsman.catalogue._update import read_source, write_user_file

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
