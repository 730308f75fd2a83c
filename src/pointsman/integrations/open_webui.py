"""A filter function for Open WebUI: chooses the model of a message, and makes its thumbs outcomes.

The installed file is ``integrations/open_webui/pointsman_filter.py`` of the repository, which
hands its calls to ``ChatFilter``. Nothing here imports Open WebUI: bodies, users and feedback are what its
published function interface states (``inlet``, ``Valves``, ``open_webui.models.feedbacks``). Tried with a
double of that interface, not with the program.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from pointsman.api import Pointsman
from pointsman.integrations.host import (
    TIMEOUT,
    Host,
    added_texts,
    chosen_model,
    session_name,
    with_added_texts,
)
from pointsman.remembering import Bounded
from pointsman.vocabulary import WireFormat

__all__ = ["ChatFilter", "Feedback"]

#: Messages whose decisions are remembered, and ratings that were reported.
_MOST: Final = 10_000
#: Seconds between two looks at the ratings of a user: Open WebUI reads all, with a copy of each chat.
_EVERY: Final = 30.0
_SCORES: Final = {"1": 1.0, "-1": 0.0}
_LABEL, _COMMENT = 200, 4_000  # characters that an outcome takes


class Feedback(Protocol):
    """A rating: ``open_webui.models.feedbacks.FeedbackModel``."""

    id: str
    data: dict[str, Any] | None  # rating: 1 or -1; reason, comment
    meta: dict[str, Any] | None  # message_id
    updated_at: int


#: Returns the ratings of a user, by id; it may be a coroutine function.
Ratings = Callable[[str], Any]


class ChatFilter:
    """Process a message before the model."""

    def __init__(
        self,
        models: Mapping[str, str],
        points: Pointsman | Callable[[], Pointsman] | None = None,
        *,
        ratings: Ratings | None = None,
        hints: bool = True,
        timeout: float = TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make ready; nothing is read before the first message.

        Args:
            models: Ids of Open WebUI's models, by configured name or by tier.
            points: What decides, or what makes it; by default ``Pointsman.from_config()``.
            ratings: Returns a user's thumbs; None: they become no outcomes.
            hints: Whether texts of the decision are added.
            timeout: Seconds after which a message is sent to the user's model.
            clock: Seconds; for tests.
        """
        self.host = Host("Open WebUI", points, timeout=timeout, texts=hints, models=models)
        self._models: Final = models
        self._ratings: Final = ratings
        self._hints: Final = hints
        self._clock: Final = clock
        self._decisions = Bounded[str, str](_MOST)  # by message
        self._reported = Bounded[str, str](_MOST)  # ratings, by id
        self._looked = Bounded[str, float](_MOST)  # by user

    async def inlet(
        self, body: dict[str, Any], user: Mapping[str, Any] | None, metadata: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """Decide a message: return the body with another model and hints. The given one stays as it is."""
        person, about = str((user or {}).get("id") or "").replace("/", "-"), metadata or {}
        await self._collect(person)
        asked = {name: body[name] for name in ("messages", "tools") if body.get(name)}
        decision = await self.host.decide(
            {"model": "auto", **asked}, session=session_name(str(about.get("chat_id") or "")), caller=person
        )
        if decision is None:
            return body
        if message := str(about.get("message_id") or ""):
            self._decisions.keep(message, decision.id)
        model = chosen_model(decision, self._models)
        changed = body if model is None else {**body, "model": model}
        if self._hints and (texts := added_texts(decision)):
            changed = {**changed, "messages": with_added_texts(WireFormat.CHAT, body["messages"], texts)}
        return changed

    async def _collect(self, person: str) -> None:
        """Report ratings since the last check; at most every half minute."""
        now = self._clock()
        if self._ratings is None or not self._decisions or now < self._looked.get(person, now):
            return
        self._looked.keep(person, now + _EVERY)
        try:
            found = self._ratings(person)
            ratings: Iterable[Feedback] = await found if inspect.isawaitable(found) else found
            for each in ratings:
                await self._report(each)
        except Exception as error:  # noqa: BLE001 - fail open: the message goes on; ``host.failures`` counts
            self.host.failed(error)

    async def _report(self, rating: Feedback) -> None:
        data, about = rating.data or {}, rating.meta or {}
        decision = self._decisions.get(str(about.get("message_id") or ""))
        score = _SCORES.get(str(data.get("rating")))
        said = f"{rating.updated_at} {score}"
        if decision is None or score is None or self._reported.get(rating.id) == said:
            return
        self._reported.keep(rating.id, said)
        label, comment = str(data.get("reason") or ""), str(data.get("comment") or "")
        await self.host.report(decision, score, label=label[:_LABEL], comment=comment[:_COMMENT])
