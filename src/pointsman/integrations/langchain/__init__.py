"""Guidance and model choice in agents made with LangChain's ``create_agent`` (extra ``langchain``).

The two are independent: guidance stores its memory in the agent's state, model choice decides with ledger and
sessions as a gateway does. Tried with LangChain 1.4.7 and LangGraph 1.2.22.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pointsman.errors import MissingExtra
from pointsman.guidance import GuidancePolicy

if TYPE_CHECKING:
    from langchain_core.language_models.chat_models import BaseChatModel

    from pointsman.api import Pointsman
    from pointsman.integrations.langchain.middleware import GuidanceMiddleware, RoutingMiddleware

__all__ = ["guidance_middleware", "routing_middleware"]

#: Seconds, as ``integrations.host.TIMEOUT``, which is not imported before it is needed.
_TIMEOUT = 2.0


def guidance_middleware(
    policy: GuidancePolicy | None = None,
    *,
    stronger_model: BaseChatModel | None = None,
    judge_model: BaseChatModel | None = None,
) -> GuidanceMiddleware:
    """Make the middleware for ``create_agent(..., middleware=[...])``.

    Args:
        policy: texts and conditions; default: the default policy, switched on.
        stronger_model: used from the rung ``raise_tier`` on, until a person speaks.
        judge_model: answers the questions of model classifiers, each within its timeout; by default none is
            asked, and they abstain.

    Raises:
        MissingExtra: LangChain is not installed.
    """
    try:
        from pointsman.integrations.langchain.middleware import GuidanceMiddleware, judged_by
    except ImportError as error:
        raise MissingExtra("langchain", needed_for="the LangChain middleware") from error
    return GuidanceMiddleware(policy, stronger_model, judged_by(judge_model) if judge_model else None)


def routing_middleware(
    models: Mapping[str, BaseChatModel | str],
    points: Pointsman | Callable[[], Pointsman] | None = None,
    *,
    timeout: float = _TIMEOUT,
) -> RoutingMiddleware:
    """Make the middleware that chooses the model of each call.

    Texts of a decision are not added: ``guidance_middleware`` adds hints.

    Args:
        models: By configured name or by tier; a name, as ``create_agent`` takes it, stands for its model. A
            call of a tier without one is served by the agent's own model.
        points: What decides, or what makes it; by default ``Pointsman.from_config()``.
        timeout: Seconds after which a call continues without a decision.

    Raises:
        MissingExtra: LangChain is not installed.
    """
    try:
        from langchain.chat_models import init_chat_model

        from pointsman.integrations.host import Host
        from pointsman.integrations.langchain.middleware import RoutingMiddleware
    except ImportError as error:
        raise MissingExtra("langchain", needed_for="the LangChain middleware") from error
    made = {
        name: init_chat_model(model) if isinstance(model, str) else model for name, model in models.items()
    }
    return RoutingMiddleware(made, Host("LangChain", points, timeout=timeout, models=models))
