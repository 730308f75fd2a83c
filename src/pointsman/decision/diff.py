"""The difference between two decisions of one request, with reasons.

Pure. The first decision is the one that served; the second is another policy's, on the same turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from pointsman.capabilities import CapabilityDecision
from pointsman.decision.decision import Decision
from pointsman.vocabulary import ModelQuery, ModelReply, Stage, Tier

__all__ = ["PARTS", "REFUSED", "AsDecided", "Verdict", "changed", "reasons", "verdict"]

#: The parts of a decision that are compared.
PARTS: Final = ("tier", "model", "domains", "guidance", "capabilities")

#: Stands for the model of a request that no model can serve.
REFUSED: Final = "(refused)"


class Verdict(msgspec.Struct, frozen=True):
    """The answers of one policy for a turn."""

    tier: Tier | None = None
    model: str | None = None  # first of the chain, or ``REFUSED``
    domains: str | None = None  # signature
    rule: str | None = None  # of the domains' memory
    guidance: str | None = None  # the classifiers that fired
    capabilities: str | None = None  # names selected, and behind a bar the tools passed on where not all are


def verdict(decision: Decision) -> Verdict:
    """Return the parts of a decision, short enough to compare."""
    domains, guidance = decision.domains, decision.guidance
    return Verdict(
        tier=decision.tier.tier if decision.tier else None,
        model=decision.chain[0] if decision.chain else REFUSED if decision.refused else None,
        domains=domains.signature if domains else None,
        rule=domains.rule if domains else None,
        guidance="+".join(each.classifier for each in guidance.firings) or None if guidance else None,
        capabilities=_capabilities(decision.capabilities),
    )


def _capabilities(decided: CapabilityDecision | None) -> str | None:
    if decided is None:
        return None
    selected, kept = " ".join(decided.selected), _passed_on(decided)
    return selected if kept is None else f"{selected} | {' '.join(sorted(kept))}"


def _passed_on(decided: CapabilityDecision) -> tuple[str, ...] | None:
    """The tools passed on; None where all are."""
    tools = decided.tools
    return None if tools is None or len(tools.kept) >= tools.offered else tools.kept


def changed(then: Verdict, now: Verdict) -> tuple[str, ...]:
    """The parts on which the policies differ. Without a ladder a policy names no model to compare."""
    return tuple(
        part
        for part in PARTS
        if getattr(then, part) != getattr(now, part) and not (part == "model" and now.model is None)
    )


def reasons(then: Decision, now: Decision, parts: tuple[str, ...]) -> Iterator[str]:
    """Answers of the second policy that the first did not give, for the parts that changed."""
    if "tier" in parts and then.tier and now.tier and then.tier.score != now.tier.score:
        yield f"score {now.tier.score:.3f}, then {then.tier.score:.3f}"
    said = (*then.reasons, *then.refused, *(then.tier.reasons if then.tier else ()))
    for reason in (*(now.tier.reasons if now.tier else ()), *now.reasons, *now.refused):
        if reason not in said:
            yield f"{reason.code}: {reason.detail}"
    if "model" in parts and "tier" not in parts and now.chain:
        tier = now.tier.tier if now.tier else now.input.model_asked
        yield f'"{now.chain[0]}" is first for {tier}, then "{"".join(then.chain[:1])}"'
    if "domains" in parts:
        rules = (side.rule if side else "off" for side in (now.domains, then.domains))
        yield "domains: rule {}, then {}".format(*rules)
    if "guidance" in parts and not (now.guidance and now.guidance.firings):
        yield "guidance: nothing fires now"
    if "capabilities" in parts:
        yield from _capability_reasons(then.capabilities, now.capabilities)


def _capability_reasons(then: CapabilityDecision | None, now: CapabilityDecision | None) -> Iterator[str]:
    if now is None or then is None:
        yield "capabilities: off now" if now is None else "capabilities: off then"
        return
    before, after = _passed_on(then), _passed_on(now)
    for text, names, others in (
        ("selected now", now.selected, then.selected),
        ("selected then", then.selected, now.selected),
        ("tools passed on now", after or (), before or ()),
        ("tools passed on then", before or (), after or ()),
    ):
        if only := [name for name in names if name not in others]:
            yield f"capabilities: {text}: {', '.join(_scored(name, now, then) for name in only)}"
    if (before is None) != (after is None):
        yield f"capabilities: all tools are passed on {'then' if before is None else 'now'}"
    if now.strategy != then.strategy:
        yield f"capabilities: strategy {now.strategy}, then {then.strategy}"
    said = {(reason.code, reason.detail) for reason in then.reasons}
    for reason in now.reasons:
        if (reason.code, reason.detail) not in said:
            yield f"{reason.code}: {reason.detail}"


def _scored(name: str, *decided: CapabilityDecision) -> str:
    score = next((each.scores[name] for each in decided if name in each.scores), None)
    return name if score is None else f"{name} ({score:.2f})"


_ANSWERS: Final = {True: "yes", False: "no"}


class AsDecided:
    """Answers the second policy's questions from the first decision, and remembers how: no model is asked."""

    def __init__(self, then: Decision) -> None:
        self._tier = then.tier
        asked = then.capabilities.asked_model if then.capabilities else ()
        self._judged: Final = {each.name: each for each in asked}
        self.answered = ""  # "record", "no-model"; empty: nothing was asked

    def __call__(self, need: ModelQuery) -> ModelReply:
        """Answer with the tier a model had verified, or that there is no model to ask."""
        if need.kind == "verify_tier" and self._tier and self._tier.stage is Stage.VERIFIED:
            self.answered = "record"
            return ModelReply(self._tier.tier)
        if need.kind == "judge_capability" and (judged := self._judged.get(need.about)):
            self.answered = "record"
            return ModelReply("" if judged.needed is None else _ANSWERS[judged.needed], error=judged.error)
        self.answered = self.answered or "no-model"
        return ModelReply(error="no-model")
