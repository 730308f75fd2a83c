"""Pointsman inside your own process: two thin drivers over one engine.

The name costs what its signatures need; the engine is imported by the first ``Pointsman()``. A program that
only refers to the class, or imports it on a path it may not take, does not pay for it (docs/decisions/0092).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pointsman.vocabulary import AgentRequest, ModelQuery, ModelReply, WireFormat

if TYPE_CHECKING:
    from pointsman.decision.decision import Decision
    from pointsman.decision.policy import Policy
    from pointsman.model_calls import Ask
    from pointsman.stores.ledger import Ledger
    from pointsman.stores.sessions import SessionStore

__all__ = ["Pointsman"]


class Pointsman:
    """Decides requests: a text, or a request body of one of the three wire formats.

    >>> Pointsman().decide("Hello!").tier.tier.name
    'SIMPLE'
    """

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        ask: Callable[[ModelQuery], ModelReply] | None = None,
        ask_async: Ask | None = None,
        sessions: SessionStore | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        """Make ready to decide.

        Args:
            policy: What decides; by default the profile ``default`` and the eleven domains, observed.
            ask: Answers the model queries of ``decide``; by default nobody is asked.
            ask_async: Answers the model queries of ``decide_async``; by default nobody is asked.
            sessions: Where memory is kept; by default in this process.
            ledger: Where decisions are appended; by default the last 10,000 in memory.
        """
        from pointsman.drivers import no_model
        from pointsman.factory import build_engine, build_questions, default_policy
        from pointsman.model_calls import ask_nobody
        from pointsman.runtime import Runtime
        from pointsman.stores.ledger import MemoryLedger
        from pointsman.stores.sessions import MemorySessions

        policy = policy or default_policy()
        self.runtime = Runtime(
            build_engine(policy),
            sessions=MemorySessions() if sessions is None else sessions,
            ledger=MemoryLedger() if ledger is None else ledger,
            ask=ask_async or ask_nobody,
            questions=build_questions(policy),
        )
        self._ask = ask or no_model

    def decide(
        self,
        request: str | Mapping[str, Any],
        *,
        format: WireFormat | str = WireFormat.CHAT,  # noqa: A002 - the name the contract uses
        session: str = "",
    ) -> Decision:
        """Decide one request in this thread.

        Args:
            request: The person's text, or a request body as a mapping.
            format: The body's wire format: ``chat``, ``responses`` or ``messages``.
            session: Names the conversation; without it nothing is remembered.

        Raises:
            MalformedRequest: the body is not of the format's shape.
            UnknownModel: the body asks for a model that is neither a tier nor configured.
        """
        return self.runtime.decide_sync(_request(request, WireFormat(format), session), self._ask)

    async def decide_async(
        self,
        request: str | Mapping[str, Any],
        *,
        format: WireFormat | str = WireFormat.CHAT,  # noqa: A002 - as above
        session: str = "",
    ) -> Decision:
        """Decide one request without blocking the event loop. Arguments and errors as in ``decide``."""
        return await self.runtime.decide(_request(request, WireFormat(format), session))


def _request(request: str | Mapping[str, Any], wire: WireFormat, session: str) -> AgentRequest:
    from pointsman.wire.request import read_request, request_from_text

    if isinstance(request, str):
        return request_from_text(request, session=session, arrived_at=time.time())
    return read_request(wire, request, session=session, arrived_at=time.time())
