"""Decides for a host: a framework or gateway that uses its own choice if Pointsman cannot decide.

Every adapter asks through this, and none decides anything itself: the result is the decision that a gateway
of the same configuration makes, in the same ledger and sessions.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from hashlib import blake2b
from threading import Lock
from typing import Any, Final, TypeVar

import msgspec

from pointsman.api import Pointsman
from pointsman.decision.decision import Decision
from pointsman.decoding import encoded
from pointsman.model_calls import AskingThread, ask_nobody
from pointsman.model_choice.chains import FALLBACK_CHAIN
from pointsman.remembering import grouped
from pointsman.vocabulary import Tier, WireFormat
from pointsman.wire import FORMATS
from pointsman.wire.items import mark, with_texts

__all__ = ["TIMEOUT", "Host", "added_texts", "chosen_model", "session_name", "stop_text", "with_added_texts"]

Model = TypeVar("Model")
Result = TypeVar("Result")

#: Seconds that a decision may take. It takes microseconds, unless a store or a model that verifies is slow.
TIMEOUT: Final = 2.0
#: Seconds until a configuration that could not be read is read again.
_RETRY: Final = 60.0
#: Seconds that the first decision may wait for configuration and patterns: a cold start takes some.
_LOADING: Final = 30.0
#: What is waited longer for a thread than for the decision in it.
_GRACE: Final = 0.5
#: Kinds of failure that are told apart.
_MOST_KINDS: Final = 100
#: Characters of a failure that are logged, and of a session's name that is kept as it is.
_SHOWN: Final = 300
_LONGEST_NAME: Final = 200

#: Tiers as programs write them: as the documentation does, and as ``Tier`` and the console do.
_TIER_NAMES: Final = frozenset(spelled for tier in Tier for spelled in (tier.lower(), tier.value))

log = logging.getLogger("pointsman.integrations")


class Host:
    """One host, and the ``Pointsman`` that decides for it.

    Every failure is counted in ``failures`` by its kind, and the first of each kind is logged.
    """

    def __init__(
        self,
        name: str,
        points: Pointsman | Callable[[], Pointsman] | None = None,
        *,
        timeout: float = TIMEOUT,
        texts: bool = False,
        models: Collection[str] = (),
    ) -> None:
        """Make ready; nothing is read before the first decision.

        Args:
            name: Of the host, for the log.
            points: What decides, or what makes it; by default ``Pointsman.from_config()``.
            timeout: Seconds after which the host continues without a decision.
            texts: Whether the adapter adds the texts of a decision; without it none is recorded as given.
            models: Names by which ``chosen_model`` finds models. The log names those that no decision can.
        """
        self.failures: Counter[str] = Counter()
        self._name = name
        self._timeout = timeout
        self._loading = max(_LOADING, timeout)
        self._texts = texts
        self._names: Final = models
        self._points: Pointsman | None = None
        self._is_own = not isinstance(points, Pointsman)
        self._given: Final = points or Pointsman.from_config
        self._lock = Lock()
        self._retry_at = float("-inf")  # seconds of ``time.monotonic``
        self._thread = AskingThread(ask_nobody, lambda: None)

    def close(self) -> None:
        """Close the engine made here; one that was passed in stays open."""
        self._thread.close()
        with self._lock:
            points = self._points
        if points is not None and self._is_own:
            points.close()

    async def decide(
        self,
        request: str | Mapping[str, Any],
        *,
        format: WireFormat = WireFormat.CHAT,  # noqa: A002 - the façade's name
        session: str | None = None,
        caller: str = "",
    ) -> Decision | None:
        """Decide a request; None if the host must use its own choice.

        Args:
            request: A text, or a request body as a mapping.
            format: Of the body.
            session: Names the conversation; None: by how it begins.
            caller: Caller of the request, of several.
        """
        return await self._try(
            lambda points: points.decide_async(request, format=format, session=session, caller=caller)
        )

    def decide_sync(
        self,
        request: str | Mapping[str, Any],
        *,
        format: WireFormat = WireFormat.CHAT,  # noqa: A002 - the façade's name
        session: str | None = None,
        caller: str = "",
    ) -> Decision | None:
        """Decide a request for a host without an event loop, in a thread. As ``decide``."""
        try:
            if self._points is None:
                self._thread.wait(self._ready(), self._loading + _GRACE)
            deciding = self.decide(request, format=format, session=session, caller=caller)
            return self._thread.wait(deciding, self._timeout + _GRACE)
        except Exception as error:  # noqa: BLE001 - fail open: the host goes on; ``failures`` counts
            self.failed(error)
        return None

    async def report(self, decision: str, score: float, *, label: str = "", comment: str = "") -> bool:
        """Record how a decision turned out; False on failure. As ``Pointsman.record_outcome``."""

        async def recorded(points: Pointsman) -> bool:
            await points.record_outcome_async(decision, score, label=label, comment=comment)
            return True

        return await self._try(recorded) or False

    async def _try(self, work: Callable[[Pointsman], Awaitable[Result]]) -> Result | None:
        """Do a piece of work within the time; None on any failure."""
        try:
            points = self._points or await self._ready()
            async with asyncio.timeout(self._timeout):
                return await work(points)
        except Exception as error:  # noqa: BLE001 - fail open: the host goes on; ``failures`` counts
            self.failed(error)
        return None

    async def _ready(self) -> Pointsman:
        async with asyncio.timeout(self._loading):
            return await asyncio.to_thread(self._made)

    def _made(self) -> Pointsman:
        """Make what decides. One that could not be made is tried again after a minute."""
        with self._lock:
            if self._points is None:
                if time.monotonic() < self._retry_at:
                    raise NotReadyError
                self._retry_at = time.monotonic() + _RETRY
                points = self._given if isinstance(self._given, Pointsman) else self._given()
                made = points.without_changes(texts=self._texts)
                made.decide("", dry_run=True)  # imports what the first decision needs, outside of its time
                self._points = made
                known = {*_TIER_NAMES, *made.runtime.engine.policy.models}
                if unknown := ", ".join(f'"{each}"' for each in self._names if each not in known):
                    log.warning(
                        "%s never asks the models named %s: neither a tier (%s) nor of [models]",
                        self._name,
                        unknown,
                        ", ".join(map(str.lower, Tier)),
                    )
            return self._points

    def failed(self, error: Exception) -> None:
        """Count a failure, and log the first of its kind."""
        kind = type(error).__name__
        if isinstance(error, NotReadyError) or (
            kind not in self.failures and len(self.failures) >= _MOST_KINDS
        ):
            return
        self.failures[kind] += 1
        if self.failures[kind] == 1:
            slow = f"no decision within {self._timeout:g} s"
            why = slow if isinstance(error, TimeoutError) else f"{kind}: {error}"
            log.warning("%s goes on with its own choice: %s; not logged again", self._name, why[:_SHOWN])


class NotReadyError(Exception):
    """What decides could not be made a moment ago; that was logged then."""


def chosen_model(decision: Decision | None, models: Mapping[str, Model]) -> Model | None:
    """Return the host's model for a decision; None: the host's own choice.

    Args:
        decision: None: there is none.
        models: The host's, by configured name or by tier. In this order: the first of the decision's chain,
            the tier, the others of the chain, and the next tiers.
    """
    if decision is None:
        return None
    tiers = FALLBACK_CHAIN[decision.tier.tier] if decision.tier else ()
    spelled = [name for step in tiers for name in (step.lower(), step.value)]
    names = (*decision.chain[:1], *spelled[:2], *decision.chain[1:], *spelled[2:])
    return next((models[name] for name in names if name in models), None)


def added_texts(decision: Decision | None) -> dict[int, str]:
    """Return the texts that a decision adds, marked, by the index of the message to which each is appended.

    Those of earlier requests of the session are among them: a host sends its history without them.
    """
    if decision is None:
        return {}
    added = [(each.index, each.added) for each in decision.standing]
    if decision.injections:
        added.append((decision.input.messages - 1, decision.injections))
    found = grouped((index, mark(each.source, each.text)) for index, texts in added for each in texts)
    return {index: "\n\n".join(texts) for index, texts in found.items()}


def stop_text(decision: Decision | None) -> str:
    """Return the words that end a run stopped by guidance; empty if it continues."""
    guidance = decision.guidance if decision else None
    return guidance.stop_message if guidance else ""


def session_name(*parts: str) -> str | None:
    """Return the name of a session from a host's data; None without any.

    A name longer than any host's is replaced by its digest.
    """
    name = "/".join(filter(None, parts))
    if len(name) > _LONGEST_NAME:
        return "s-" + blake2b(name.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
    return name or None


def with_added_texts(
    wire: WireFormat, items: Sequence[Mapping[str, Any]], texts: Mapping[int, str]
) -> list[Any]:
    """Return the items of a conversation with texts at the end of some, as the gateway adds them.

    Args:
        wire: Of the items.
        items: Messages, or items of Responses. They stay as they are.
        texts: By index, from ``added_texts``. One that has no place is left out.
    """
    found: list[Any] = []
    for index, item in enumerate(items):
        if text := texts.get(index):
            changed = with_texts(FORMATS[wire], encoded(item, str), [text])
            found += msgspec.json.decode(b"[%b]" % changed)
        else:
            found.append(item)
    return found
