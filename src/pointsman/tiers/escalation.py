"""Raises the tier of a user message once, when the agent is in trouble; and begins on a cheaper tier.

Trouble is what guidance calls stuck, or more tool calls than own successful runs ever needed. Pure.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from pointsman.text.extract import draw
from pointsman.vocabulary import Mode, Tier

__all__ = [
    "ENOUGH_RUNS",
    "RAISED",
    "EscalationPolicy",
    "Trouble",
    "handover",
    "source_of",
    "start_of",
    "trouble_of",
]

#: Successful runs of a source below which nothing is said of the length of a run: with 20, one further
#: success in 21 is longer than the longest of them.
ENOUGH_RUNS: Final = 20
#: Codes of the request at which the tier is raised; later requests of the message have `escalation.stays`.
RAISED: Final = frozenset({"escalation.stuck", "escalation.long"})
#: Stands for every project.
_EVERY: Final = "*"


class EscalationPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When the tier is raised for the rest of a user message; needs `[guidance]`. Without it: never."""

    mode: Annotated[
        Mode, Meta(description="`observe` records when the tier would be raised; `on` raises it.")
    ] = Mode.OBSERVE
    control: Annotated[
        Annotated[float, Meta(ge=0, le=1)],
        Meta(description="Share of user messages in the control group, in which the tier is not raised."),
    ] = 0.1
    seed: Annotated[int, Meta(description="Random seed of the control group.")] = 0
    stuck: Annotated[bool, Meta(description="Whether a hint of guidance that is due raises the tier.")] = True
    longest: Annotated[
        dict[str, int],
        Meta(
            description="Tool calls of a user message after which the tier is raised, by `PROJECT|MODEL`; "
            "`pointsman report escalation` prints them from own successful runs."
        ),
    ] = {}
    cheap_first: Annotated[
        tuple[str, ...],
        Meta(description='Projects whose user messages begin on the tier `start`; `"*"` for all.'),
    ] = ()
    start: Annotated[
        Literal["simple", "medium", "complex"], Meta(description="The tier on which they begin.")
    ] = "simple"


class Trouble(NamedTuple):
    """The reason to raise the tier."""

    kind: Literal["stuck", "long"]
    why: str
    is_control: bool


def source_of(project: str, model: str) -> str:
    """What lengths of runs are compared within: a model in a project."""
    return f"{project}|{model}"


def trouble_of(
    policy: EscalationPolicy, *, calls: int, stuck: str, project: str, model: str, message: str
) -> Trouble | None:
    """Return the trouble of a request; None without trouble.

    Args:
        policy: Thresholds of trouble.
        calls: Tool calls since the user message.
        stuck: What guidance found; empty: nothing.
        project: Its key.
        model: Configured name of the model in use.
        message: Key by which the control group is drawn: the same on every tool iteration.
    """
    limit = policy.longest.get(source_of(project, model))
    if stuck and policy.stuck:
        return Trouble("stuck", stuck, _is_control(policy, message))
    if limit is not None and calls > limit:
        why = f'{calls} tool calls; successful runs of "{model}" here have at most {limit}'
        return Trouble("long", why, _is_control(policy, message))
    return None


def start_of(policy: EscalationPolicy, project: str) -> Tier | None:
    """The tier on which a user message of a project begins; None where cheap first is not for it."""
    chosen = policy.mode is Mode.ON and not {project, _EVERY}.isdisjoint(policy.cheap_first)
    return Tier(policy.start.upper()) if chosen else None


def handover(calls: int, errors: int) -> str:
    """Return the message to the model that takes over; the history shows it the failed attempts."""
    return (
        f"Another model worked on this task until now and did not get on: {calls} tool calls since the "
        f"user's message, {errors} of which failed. You take over. Check what it assumed before you go on, "
        "and do not repeat what failed."
    )


def _is_control(policy: EscalationPolicy, message: str) -> bool:
    """Whether a user message is in the control group: drawn alike everywhere and always."""
    return draw("escalation", policy.seed, message) < policy.control
