"""Whose prices hold at an address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from pointsman.catalogue._entry import ANY

__all__ = ["PROVIDERS", "provider_of"]

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
    """Return who serves at an address; empty for others, among them every server of one's own."""
    try:
        host = urlsplit(base_url).hostname or ""
    except ValueError:  # half a bracket
        return ANY
    labels = host.split(".")
    tails = (".".join(labels[first:]) for first in range(len(labels)))
    return next((PROVIDERS[tail] for tail in tails if tail in PROVIDERS), ANY)
