"""What ``pointsman serve`` prints at its start: a line to copy for each client that it can serve."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pointsman.config import Config
from pointsman.diagnostics.clients import PLACEHOLDER, CallerKey, Verdict, judge_clients, lines_to_copy
from pointsman.upstreams.port import DEMO_URL
from pointsman.vocabulary import Tier

#: Columns of a client's name.
_NAME: Final = 18
_UNTRIED: Final = "No upstream was asked yet; pointsman router doctor --live tries each model."


def banner(config: Config, url: str, key: CallerKey) -> str:
    """Return the lines for the clients that a configuration can serve, and why not for others.

    Args:
        config: The configuration.
        url: Of the gateway, without a path.
        key: What callers present.
    """
    verdicts = judge_clients(config)
    working = [verdict for verdict in verdicts if verdict.fits]
    lines = [f"Pointsman listens on {url}. {'Copy what you need:' if working else ''}".rstrip()]
    if config.console.enabled:
        lines.append(f"Console, in a browser: {url}/console")
    if key.is_asked and not key.variable:
        lines.append(f"Put one of the gateway's keys in the place of {PLACEHOLDER}.")
    to_copy = lines_to_copy(config, working, url, key)
    lines += ["", *(f"  {name:<{_NAME}}{line}" for name, line in to_copy.items())]
    if any(upstream.base_url != DEMO_URL for upstream in config.upstreams.values()):
        lines.append(f"\n{_UNTRIED}")
    for verdict in working:
        if verdict.warning:
            lines.append(f"Warning, {verdict.client.name}: {verdict.warning}.")
    lines += _forwarding(config, key)
    lines += _not_working(verdicts)
    models = ", ".join(["auto", *(tier.lower() for tier in Tier if tier in config.tiers.models)])
    lines.append(f"\nModels: {models}, and every configured one. Decisions: {url}/v1/decisions/ID")
    lines.append(f"Ledger: {config.ledger.place}")
    return "\n".join(lines) + "\n"


def _forwarding(config: Config, key: CallerKey) -> Iterator[str]:
    names = [f'"{name}"' for name, upstream in config.upstreams.items() if upstream.forward_auth]
    if names:
        beside = ", and a key of the gateway in the header x-pointsman-key" if key.is_asked else ""
        yield f"\nUpstream {', '.join(names)} takes the caller's own credential (forward_auth):"
        yield f"log in with the agent; other clients send theirs in the place of the API key{beside}."


def _not_working(verdicts: list[Verdict]) -> Iterator[str]:
    without = [verdict for verdict in verdicts if not verdict.fits]
    if without:
        yield "\nNot with this configuration:"
    for verdict in without:
        hint = f" (hint: {verdict.hint})" if verdict.hint else ""
        yield f"  {verdict.client.name:<{_NAME}}{verdict.detail}{hint}"
