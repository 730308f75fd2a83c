"""The source's ``LLMClassifier``, which asks a model in the thread that classifies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from threading import BoundedSemaphore, Thread
from typing import Final

from pointsman import guidance
from pointsman.vocabulary import ModelQuery, ModelReply

__all__ = ["MAX_WAITING", "LLMClassifier"]

#: Questions under way in one process. One that was given up on keeps its thread until the model answers.
MAX_WAITING: Final = 8
_free: Final = BoundedSemaphore(MAX_WAITING)


@dataclass(frozen=True, slots=True)
class LLMClassifier(guidance.LLMClassifier):
    """Delegates the judgement to a small, fast model, by ``ask`` or by an overridden ``_call_model``.

    An answer is waited for no longer than ``timeout_ms``, and any failure abstains. With neither way to ask,
    the driver of the decision asks.
    """

    ask: Callable[[ModelQuery], ModelReply] | None = None

    def _call_model(self, summary: str) -> str | ModelReply:
        """Return what the model says about a summary of the run. May raise anything. For subclasses."""
        return self.ask(self._query(summary)) if self.ask else ModelReply(error="no-model")

    def _asked(self, query: ModelQuery) -> ModelReply | None:
        if self.ask is None and type(self)._call_model is LLMClassifier._call_model:
            return None
        try:
            said = _within(self.timeout_ms / 1000, partial(self._call_model, query.text))
        except TimeoutError:
            return ModelReply(error="timeout")
        except Exception as error:  # noqa: BLE001 - fail open: a model that cannot be asked is not a "no"
            return ModelReply(error=f"failed: {type(error).__name__}")
        return said if isinstance(said, ModelReply) else ModelReply(str(said))


def _within(seconds: float, call: Callable[[], str | ModelReply]) -> str | ModelReply:
    """Run a call in a thread of its own and wait for it.

    Raises:
        TimeoutError: it takes longer, or too many calls are under way.
    """
    if not _free.acquire(blocking=False):
        raise TimeoutError
    answers: SimpleQueue[str | ModelReply | BaseException] = SimpleQueue()

    def run() -> None:
        try:
            answers.put(call())
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            answers.put(error)
        finally:
            _free.release()

    Thread(target=run, name="pointsman-llm-classifier", daemon=True).start()
    try:
        answer = answers.get(timeout=seconds)
    except Empty:
        raise TimeoutError from None
    if isinstance(answer, BaseException):
        raise answer
    return answer
