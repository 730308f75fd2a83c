"""Guidance in agents made with LangChain's ``create_agent`` (extra ``langchain``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pointsman.errors import MissingExtra
from pointsman.guidance import GuidancePolicy

if TYPE_CHECKING:
    from langchain_core.language_models.chat_models import BaseChatModel

    from pointsman.integrations.langchain.middleware import GuidanceMiddleware

__all__ = ["guidance_middleware"]


def guidance_middleware(
    policy: GuidancePolicy | None = None,
    *,
    stronger_model: BaseChatModel | None = None,
    judge_model: BaseChatModel | None = None,
) -> GuidanceMiddleware:
    """Make the middleware for ``create_agent(..., middleware=[...])``.

    Args:
        policy: what may be said, and when; default: the default policy, speaking.
        stronger_model: used from the rung ``raise_tier`` on, until a person speaks.
        judge_model: answers the questions of model classifiers, each within its timeout; by default nobody is
            asked, and they abstain.

    Raises:
        MissingExtra: LangChain is not installed.
    """
    try:
        from pointsman.integrations.langchain.judge import judged_by
        from pointsman.integrations.langchain.middleware import GuidanceMiddleware
    except ImportError as error:
        raise MissingExtra("langchain", needed_for="the LangChain middleware") from error
    return GuidanceMiddleware(policy, stronger_model, judged_by(judge_model) if judge_model else None)
