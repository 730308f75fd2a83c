"""One decision as one line of a log."""

from __future__ import annotations

from collections.abc import Iterator

from pointsman.capabilities import CapabilityDecision
from pointsman.decision.decision import Decision

__all__ = ["summary"]


def summary(decision: Decision) -> str:
    """Return the parts of a decision in one line, ``name=value`` each.

    No text of a request is in it. The names of the session and of the model asked for come from outside: they
    are cut and made plain.
    """
    return " ".join(f"{name}={_plain(value)}" for name, value in _parts(decision))


def _parts(decision: Decision) -> Iterator[tuple[str, str]]:
    yield from _asked(decision)
    if tier := decision.tier:
        yield "tier", f"{tier.tier}({tier.stage},{tier.confidence:.2f})"
        yield "score", f"{tier.score:.3f}"
        if tier.signals:
            yield "signals", ",".join(tier.signals)
    yield "model", decision.chain[0] if decision.chain else "none"
    if domains := decision.domains:
        yield "domains", domains.signature
    if (guidance := decision.guidance) and guidance.firings:
        said = "said" if guidance.injection else "withheld"
        yield "guidance", ",".join(f"{each.classifier}({each.rung},{said})" for each in guidance.firings)
    if decision.capabilities:
        yield from _capabilities(decision.capabilities)
    if decision.injections:
        yield "added", ",".join(each.source for each in decision.injections)
    if decision.refused:
        yield "refused", ",".join(dict.fromkeys(reason.code for reason in decision.reasons))
    if decision.abstained:
        yield "abstained", ",".join(dict.fromkeys(reason.code for reason in decision.abstained))
    yield "us", f"{decision.elapsed_us:.0f}"


def _asked(decision: Decision) -> Iterator[tuple[str, str]]:
    asked = decision.input
    yield "decision", decision.id
    if asked.session:
        yield "session", asked.session
    yield "format", asked.format
    if asked.role is not None:
        yield "role", f"{asked.role}({asked.purpose})" if asked.purpose else asked.role
    if asked.event:
        yield "event", asked.event
    yield "asked", asked.model_asked


def _capabilities(decided: CapabilityDecision) -> Iterator[tuple[str, str]]:
    yield "capabilities", f"{','.join(decided.selected) or 'none'}({decided.result})"
    if tools := decided.tools:
        yield "tools", f"{len(tools.kept)}/{tools.offered}"


def _plain(value: str) -> str:
    """A value that cannot end the line, nor look like another key."""
    return "".join(c if c.isprintable() and c not in ' ="' else "_" for c in value[:200])
