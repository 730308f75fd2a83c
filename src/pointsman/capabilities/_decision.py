"""Decision about the capabilities of one request, and the session's memory of it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pointsman.capabilities._policy import Strategy
from pointsman.capabilities._select import AskedCapability
from pointsman.vocabulary import Reason


class OfferedTool(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A tool that a request offers, without its words."""

    name: str
    description: str  # digest of the description, eight hexadecimals


class ToolDecision(msgspec.Struct, frozen=True, gc=False):
    """Which of the tools offered are passed on."""

    offered: int
    kept: tuple[str, ...]  # names, in the request's order
    refused: tuple[str, ...] = ()  # tools called although they had not been passed on: they must not run


class CapabilityDecision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The capabilities selected for a request, and why.

    Selected once per user message. In the requests that continue the work on it (``continued``) the selection
    is unchanged, and neither offers nor scores are recorded again.
    """

    strategy: Strategy
    selected: tuple[str, ...] = ()  # always-active ones first, then by registry and by the request's order
    offered: tuple[OfferedTool, ...] = ()  # candidates that are tools of the request, in its order
    scores: Mapping[str, float] = {}  # probability of each judged candidate, rounded to four digits
    reasons: tuple[Reason, ...] = ()
    asked_model: tuple[AskedCapability, ...] = ()
    abstained: str = ""  # why a model or the local score did not judge: "unavailable: timeout"
    bypass: bool = False  # selection was off: everything is selected
    continued: bool = False
    of_run: bool = False  # the run whose question this is has selected them
    command: str = ""  # in-band command of this request: "/caps:off"
    scoring: str = ""  # version of what gave the scores, the tools offered aside
    called: tuple[str, ...] = ()  # tools called since the request before
    forced: str = ""  # the tool that the request demands
    tools: ToolDecision | None = None  # None: all tools offered are passed on
    requests: int = 1  # that the task joins: "the forecast for Rome, and mail it to Ida" are two

    @property
    def result(self) -> str:
        """How the selection went, in a word: for metrics and the log."""
        if self.continued:
            return "continued"
        if self.bypass:
            return "bypassed"
        if self.abstained:
            return "abstained"
        return "selected" if self.selected else "none"


class CapabilityMemory(msgspec.Struct, frozen=True, omit_defaults=True):
    """Session memory of the latest selection."""

    key: str = ""  # identity of the user message it was made for, and its command
    offer: str = ""  # digest of the names offered
    selected: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()  # tools passed on; empty: all
    bypassed: bool = False  # the selection was off for this message
    bypass: bool | None = None  # what a command has set for the session
    called: tuple[str, ...] = ()  # names of all tools called so far
    counted: int = 0  # messages searched for them
    offered: tuple[str, ...] = ()  # tools offered: in a replay alone
