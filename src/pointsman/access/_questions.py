"""Questions to models that a request causes: its key pays for them, and has to be allowed to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pointsman.access._spending import Hold, Spending
from pointsman.decision.permission import is_permitted
from pointsman.errors import LimitReached, StoreUnavailable
from pointsman.model_calls import Ask
from pointsman.model_choice.choice import BYTES_PER_TOKEN
from pointsman.vocabulary import ModelQuery, ModelReply, ModelSpec, Permission
from pointsman.wire.base import Usage

__all__ = ["PaidQuestions"]


class PaidQuestions:
    """Reserves for each question at the key of the request, before the model is asked (``runtime.Payer``)."""

    def __init__(
        self,
        spending: Spending,
        permission: Permission | None,
        asked_model: Callable[[ModelQuery], ModelSpec | None],
        spent: Callable[[float], None],
    ) -> None:
        """Put together who pays.

        Args:
            spending: The limits of the key.
            permission: Which models it may use.
            asked_model: Returns the model that a question goes to; None where there is none.
            spent: Is told what each question cost.
        """
        self._spending: Final = spending
        self._permission: Final = permission
        self._asked_model: Final = asked_model
        self._spent: Final = spent

    def refuses(self, query: ModelQuery) -> ModelReply | None:
        """Return why a question is not asked, as far as that is known at once; None where it may be."""
        model, permission = self._asked_model(query), self._permission
        if model is None:
            return None  # nobody will be asked
        if permission is not None and not is_permitted(model.name, permission):
            return _refused("not-permitted")
        if permission is not None and permission.priced and not model.is_priced:
            return _refused("no-price")
        is_free = not model.cost(1, 0, 1)
        return _refused("budget") if self._spending.is_spent and not is_free else None

    async def ask(self, ask: Ask, query: ModelQuery) -> ModelReply:
        """Reserve for a question, ask it, and settle."""
        model = self._asked_model(query)
        if model is None:
            return await ask(query)
        read = (len(query.system.encode()) + len(query.text.encode())) // BYTES_PER_TOKEN + 1
        try:
            hold = await self._spending.reserve(model, read, query.max_tokens)
        except (LimitReached, StoreUnavailable):
            return _refused("budget")
        try:
            reply = await ask(query)
        except BaseException:
            self._settle(hold, "disconnect", Usage())
            raise
        error = "" if reply.ok else "timeout" if reply.was_asked else "connect"
        self._settle(hold, error, Usage(reply.input_tokens, None, reply.output_tokens))
        return reply

    def _settle(self, hold: Hold, error: str, usage: Usage) -> None:
        if cost := hold.finish(error, usage):
            self._spent(cost)


def _refused(why: str) -> ModelReply:
    return ModelReply(error=why, was_asked=False)
