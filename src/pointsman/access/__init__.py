"""Who may use what: which caller made what an upstream keeps."""

from __future__ import annotations

from pointsman.access._ownership import Ownership

__all__ = ["Ownership"]
