"""Settings that chat completions and Responses have in common, written for OpenAI's bounds."""

from __future__ import annotations

import hashlib
from typing import Final

from pointsman.vocabulary import WireFormat
from pointsman.wire.constructs import Report
from pointsman.wire.conversation import Conversation
from pointsman.wire.models import effort_of_budget, is_openai_reasoning, openai_effort, openai_effort_off

__all__ = ["openai_effort_of", "openai_sampling", "openai_user"]

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
    """Return the effort of reasoning in a word the model knows; empty where none is to be sent."""
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
