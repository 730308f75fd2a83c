"""Settings that a model accepts, by its name: a request has no other sign of them.

A name may have a provider's prefix (``openai/gpt-5``). A model that is not known here gets the
settings that most servers take. Source: docs/notebook/0125.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Final

from pointsman.vocabulary import WireFormat
from pointsman.wire.constructs import Report
from pointsman.wire.conversation import Conversation

__all__ = [
    "effort_of_budget",
    "is_openai",
    "is_openai_reasoning",
    "openai_effort",
    "openai_effort_off",
    "thinks_adaptively",
    "thinks_harder",
]


# Settings that chat completions and Responses have in common, written for OpenAI's bounds.
#: Characters of ``user`` that OpenAI takes; Claude Code names its users in 150.
_MAX_USER: Final = 64


def openai_user(user: str, report: Report) -> str:
    """Return the end user's name; of one that is too long, the SHA-256 digest."""
    if len(user) <= _MAX_USER:
        return user
    report.meet("user")
    return hashlib.sha256(user.encode("utf-8", "surrogatepass")).hexdigest()


def openai_sampling(asked: Conversation, report: Report) -> dict[str, float | None]:
    """Return ``temperature`` and ``top_p``. A model that reasons takes 1 alone, which is the default."""
    values = {"temperature": asked.temperature, "top_p": asked.top_p}
    if report.source is not report.target and is_openai_reasoning(asked.model):
        for name, value in values.items():
            if value is not None and value != 1:
                report.meet(name)
                values[name] = None
    return values


def openai_effort_of(asked: Conversation, report: Report) -> str:
    """Return the effort of reasoning in a word the model knows; empty if it takes none."""
    budget = asked.thinking_budget
    if asked.effort and budget != 0:
        if report.source is not WireFormat.MESSAGES:
            return asked.effort
        effort = openai_effort(asked.model, asked.effort)
        if effort != asked.effort:
            report.meet("effort_max")
        return effort
    if budget is None:
        return ""
    report.meet("thinking_budget")
    return effort_of_budget(budget) if budget > 0 else openai_effort_off(asked.model)


#: OpenAI's own models; gpt-oss runs on servers of others.
_OPENAI: Final = re.compile(r"(?:^|/)(?:o\d|codex-|chatgpt-)|(?<![a-z0-9])gpt-(?!oss)")
#: OpenAI's models that reason: they refuse ``max_tokens``. gpt-5-chat does not reason, and takes both.
_REASONING: Final = re.compile(
    r"(?:^|/)(?:o\d|codex-)|(?<![a-z0-9])gpt-(?:[5-9]|\d\d)(?!.*-chat)"  # a deployment's name may hold it
)
#: Those that know the efforts "xhigh" and "max".
_XHIGH: Final = re.compile(r"(?<![a-z0-9])gpt-(?:5\.1-codex-max|5\.[2-9]|[6-9]|\d\d)")
_MAX: Final = re.compile(r"(?<![a-z0-9])gpt-(?:5\.[6-9]|[6-9]|\d\d)")
#: Those that can be told not to reason at all, and those before them, which can be told to do so least.
_OFF: Final = re.compile(r"(?<![a-z0-9])gpt-(?:5\.[1-9]|[6-9]|\d\d)(?!.*-(?:codex|pro|chat))")
_LEAST: Final = re.compile(r"(?<![a-z0-9])gpt-5(?:-mini|-nano)?(?:-\d{4}-\d\d-\d\d)?$")
#: Claude by name and version: ``claude-opus-4-6``, ``anthropic/claude-sonnet-4.6``, ``claude-opus-5``.
_CLAUDE: Final = re.compile(r"claude-(?:[a-z]+)-(\d{1,2})(?:[-.](\d{1,2})(?!\d))?")
_MYTHOS: Final = "claude-mythos"
#: Greatest thinking budget of an effort, in tokens; beyond the last it is high (constructs: thinking_budget).
_BUDGETS: Final = ((4_096, "low"), (16_384, "medium"))
_NAMES: Final = 256  # whose answer is remembered

#: Efforts that not every model knows, and the models that do.
_EFFORTS: Final = {"xhigh": _XHIGH, "max": _MAX}

_ADAPTIVE: Final = (4, 6)  # the first version of Claude that decides itself how long it thinks
_HARDER: Final = (4, 7)  # the first that knows the effort "xhigh"


@lru_cache(_NAMES)
def is_openai(model: str) -> bool:
    """Whether a chat request for this model may hold system messages anywhere."""
    return _OPENAI.search(model) is not None


@lru_cache(_NAMES)
def is_openai_reasoning(model: str) -> bool:
    """Whether a chat request for this model must name ``max_completion_tokens``."""
    return _REASONING.search(model) is not None


def effort_of_budget(budget: int) -> str:
    """Return the effort that a thinking budget in tokens amounts to."""
    return next((effort for most, effort in _BUDGETS if budget <= most), "high")


def openai_effort(model: str, effort: str) -> str:
    """Return an effort of Messages in a word that this model of chat or Responses knows."""
    return _openai_effort(model, effort) if effort in _EFFORTS else effort


@lru_cache(_NAMES)
def openai_effort_off(model: str) -> str:
    """Return the effort that switches reasoning off, or down if it cannot be off; else empty."""
    if _OFF.search(model):
        return "none"
    return "minimal" if _LEAST.search(model) else ""


@lru_cache(_NAMES)
def _openai_effort(model: str, effort: str) -> str:
    if _EFFORTS[effort].search(model):
        return effort
    return openai_effort(model, "xhigh") if effort == "max" else "high"


@lru_cache(_NAMES)
def thinks_adaptively(model: str) -> bool:
    """Whether a model of Messages takes ``thinking: {"type": "adaptive"}`` and an effort."""
    return _version(model) >= _ADAPTIVE


@lru_cache(_NAMES)
def thinks_harder(model: str) -> bool:
    """Whether a model of Messages knows the effort "xhigh"."""
    return _version(model) >= _HARDER


def _version(model: str) -> tuple[int, int]:
    found = _CLAUDE.search(model)
    if found is None:
        return _HARDER if _MYTHOS in model else (0, 0)
    return int(found[1]), int(found[2] or 0)
