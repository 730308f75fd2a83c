"""Asks models for decisions: cached, within a budget, with a timeout."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Container, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import msgspec

from pointsman.decision.policy import Policy
from pointsman.errors import MissingKey, UpstreamError, UpstreamUnavailable
from pointsman.model_choice.chains import pools
from pointsman.model_choice.fitness import BYTES_PER_TOKEN
from pointsman.remembering import Bounded
from pointsman.stores.workers import ALONE, Worker
from pointsman.tiers import Spending, Verification, cache_key
from pointsman.upstreams import ChatModel, ModelAnswer, ask_metered
from pointsman.vocabulary import ModelQuery, ModelReply, ModelSpec, Prompt, Tier

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from concurrent.futures import Future

__all__ = [
    "MAX_PARALLEL",
    "Allowance",
    "Ask",
    "AskingThread",
    "ModelInThread",
    "Questions",
    "ask_models",
    "ask_nobody",
    "ask_together",
    "asked_model",
    "build_questions",
    "question_price",
]

#: Stands for a model that the caller of the library asks, at the caller's cost.
_CALLERS: Final = ModelSpec("", "", "", input_per_million=0.0, output_per_million=0.0)

#: Answers remembered where no policy says how many.
CACHE: Final = Verification().cache

#: Seconds to wait for connections to close.
_CLOSING: Final = 5.0

#: Questions to models asked at the same time.
MAX_PARALLEL: Final = 5

_UNLIMITED: Final = Verification()

_log: Final = logging.getLogger("pointsman.guidance")

Result = TypeVar("Result")
Ask = Callable[[ModelQuery], Coroutine[Any, Any, ModelReply]]


async def ask_nobody(need: ModelQuery) -> ModelReply:  # noqa: ARG001 - the shape of Ask
    """Answer for a policy without a model to ask."""
    return ModelReply(error="no-model", was_asked=False)


class AskingThread:
    """Asks models on a separate event loop, for callers with another loop or with none.

    Connections belong to the loop that opened them. Here they outlive the loops of the caller, who may run
    one after another.
    """

    def __init__(self, ask: Ask, close: Callable[[], None]) -> None:
        """Take what answers queries, and what closes its connections; both run in the thread."""
        self._answer = ask
        self._close = close
        self._running: tuple[AbstractEventLoop, Thread] | None = None
        self._lock = Lock()

    def ask(self, query: ModelQuery) -> ModelReply:
        """Answer a query, and wait for it in this thread."""
        return self._submit(self._answer(query)).result()

    async def ask_async(self, query: ModelQuery) -> ModelReply:
        """Answer a query without blocking the caller's event loop."""
        return await self.run(self._answer(query))

    async def run(self, asking: Coroutine[Any, Any, Result]) -> Result:
        """Run what asks a model in the thread, without blocking the caller's event loop."""
        import asyncio

        return await asyncio.wrap_future(self._submit(asking))

    def wait(self, asking: Coroutine[Any, Any, Result], timeout: float) -> Result:
        """Run it in the thread, and wait for at most ``timeout`` seconds.

        Raises:
            TimeoutError: it takes longer; it is cancelled, as far as it lets itself be.
        """
        future = self._submit(asking)
        try:
            return future.result(timeout)
        except TimeoutError:
            future.cancel()
            raise

    def close(self) -> None:
        """Close the connections and end the thread; a later query starts another."""
        with self._lock:
            running, self._running = self._running, None
        if running is not None:
            loop, thread = running
            loop.call_soon_threadsafe(loop.stop)
            thread.join(_CLOSING)

    def _submit(self, answering: Coroutine[Any, Any, Result]) -> Future[Result]:
        import asyncio

        with self._lock:
            if self._running is None:
                loop = asyncio.new_event_loop()
                thread = Thread(target=self._run, args=(loop,), name="pointsman-questions", daemon=True)
                self._running = loop, thread
                thread.start()
            return asyncio.run_coroutine_threadsafe(answering, self._running[0])

    def _run(self, loop: AbstractEventLoop) -> None:
        from asyncio import sleep

        try:
            loop.run_forever()
            self._close()
            loop.run_until_complete(sleep(0))  # transports close in the next round of the loop
        finally:
            loop.close()


async def ask_together(
    ask: Ask, needs: Sequence[ModelQuery], *, at_once: int = MAX_PARALLEL
) -> Sequence[ModelReply]:
    """Ask several questions together, at most ``at_once`` at a time; replies are in order."""
    import asyncio

    gate = asyncio.Semaphore(at_once)

    async def one(need: ModelQuery) -> ModelReply:
        async with gate:
            return await ask(need)

    return await asyncio.gather(*map(one, needs))


class Allowance(NamedTuple):
    """What questions of one kind may cost."""

    money_per_day: float  # in US dollars
    price: Callable[[ModelQuery], float | None]  # of a question at most; None where it is unknown


@dataclass(slots=True)
class _Account:
    """Today's spending, which the policies before and after a reload share."""

    spending: Spending = field(default_factory=Spending)


class Questions:
    """Cache of answers, and cost of questions so far."""

    def __init__(
        self,
        budget: Verification | None = None,
        *,
        price: float | None = 0.0,
        allowances: Mapping[str, Allowance] | None = None,
    ) -> None:
        """Start with nothing asked.

        Args:
            budget: What verifying tiers may cost; None allows none.
            price: Of one verification at most, in US dollars; None if unknown.
            allowances: What questions of other kinds may cost, by kind; by default they have no limit.
        """
        self.is_limited = budget is not None or bool(allowances)  # else requests need not be counted
        self._allowances = allowances or {}
        self._budget = budget
        self._price = price
        self._answers = Bounded[str, str](CACHE if budget is None else budget.cache)
        self._account = _Account()

    @property
    def spending(self) -> Spending:
        """Questions and cost of today."""
        return self._account.spending

    def share_spending(self, other: Questions) -> None:
        """Count on one account with ``other``: what either has spent today is spent for both."""
        self._account = other._account

    def resume(self, spending: Spending) -> None:
        """Continue with the spending of an earlier process."""
        self._account.spending = spending

    def count_request(self, now: float) -> None:
        """Count a request, whether or not it asks. ``now`` is in seconds since the epoch."""
        if self.is_limited:
            self._account.spending = (self._budget or _UNLIMITED).request(self.spending, now)

    def settled(self, need: ModelQuery) -> ModelReply | None:
        """The answer given before, or a refusal for want of budget; None if a model must be asked."""
        known = self._answers.use(cache_key(need))
        if known is not None:
            return ModelReply(known)
        if need.kind != "verify_tier":
            return self._refused(need)
        if self._budget is None or self._budget.refuses(self.spending, self._price):
            return ModelReply(error="budget")
        self._account.spending = self._budget.ask(self.spending, self._price)
        return None

    def _refused(self, need: ModelQuery) -> ModelReply | None:
        """Count the possible cost of a question, or refuse it if that is too high or unknown."""
        allowance = self._allowances.get(need.kind)
        if allowance is None:
            return None
        price, spent = allowance.price(need), self.spending.others.get(need.kind, 0.0)
        if price is None or spent + price > allowance.money_per_day:
            return ModelReply(error="budget")
        others = {**self.spending.others, need.kind: spent + price}
        self._account.spending = msgspec.structs.replace(self.spending, others=others)
        return None

    def keep(self, need: ModelQuery, answer: ModelReply) -> None:
        """Remember an answer; a failure is worth another try next time."""
        if answer.ok:
            self._answers.keep(cache_key(need), answer.text)


class ModelInThread:
    """A chat model that is asked in an ``AskingThread``: from any event loop, one after another."""

    def __init__(self, model: ChatModel, thread: AskingThread) -> None:
        self._model = model
        self._thread = thread

    async def complete(self, prompt: Prompt, *, timeout: float) -> str:
        """Return the model's text; raises as the model does."""
        return await self._thread.run(self._model.complete(prompt, timeout=timeout))

    async def ask(self, prompt: Prompt, *, timeout: float) -> ModelAnswer:
        """Return the model's text, and its usage where the model reports it; raises as the model does."""
        return await self._thread.run(ask_metered(self._model, prompt, timeout=timeout))


def asked_model(need: ModelQuery, known: Container[str], default: str) -> str:
    """Return the name of the model that a question goes to; it may be none that is known.

    Args:
        need: The question. A classifier of guidance may name a model that is not configured: its class has a
            separate default, which is rarely a configured name.
        known: Models that can be asked.
        default: For questions that name none.
    """
    name = need.model or default
    return default if need.kind == "guidance" and name not in known else name


def ask_models(models: Mapping[str, ChatModel], *, default: str = "") -> Ask:
    """Return a function that answers needs with chat models; every failure is a ``ModelReply``.

    Args:
        models: By configured name.
        default: Name of the model for needs that name none; see ``asked_model``.
    """
    replaced: set[str] = set()

    async def ask(need: ModelQuery) -> ModelReply:
        name = asked_model(need, models, default)
        model = models.get(name)
        if model is None:
            return ModelReply(error="no-model", was_asked=False)
        if name != (need.model or default) and need.model not in replaced:
            replaced.add(need.model)
            _log.warning('guidance: no model "%s" is configured; "%s" is asked', need.model, default)
        prompt = Prompt(system=need.system, text=need.text, max_tokens=need.max_tokens, labels=need.labels)
        began = time.perf_counter()
        try:
            text, used = await ask_metered(model, prompt, timeout=need.timeout_ms / 1000)
        except MissingKey:
            elapsed = (time.perf_counter() - began) * 1e3
            return ModelReply(error="no-key", elapsed_ms=elapsed, was_asked=False)
        except UpstreamError as error:
            was_asked = not isinstance(error, UpstreamUnavailable)
            elapsed = (time.perf_counter() - began) * 1e3
            return ModelReply(error=str(error), elapsed_ms=elapsed, was_asked=was_asked)
        elapsed = (time.perf_counter() - began) * 1e3
        read, written = (None, None) if used is None else (used.input, used.output)
        return ModelReply(text, elapsed_ms=elapsed, input_tokens=read, output_tokens=written)

    return ask


def build_questions(policy: Policy, worker: Worker = ALONE) -> Questions:
    """Return the budget of a policy's verification, with nothing asked yet: this process's part of it."""
    verify, share = policy.verify, 1 / worker.of
    if verify is not None and verify.money_per_day is not None and not worker.is_alone:
        verify = msgspec.structs.replace(verify, money_per_day=verify.money_per_day * share)
    allowances = {
        kind: each._replace(money_per_day=each.money_per_day * share)
        for kind, each in _allowances(policy).items()
    }
    return Questions(verify, price=question_price(policy), allowances=allowances)


def _allowances(policy: Policy) -> dict[str, Allowance]:
    """What classifiers of guidance and the selection of capabilities may ask for, by kind of question."""
    simple = next((entry.model for entry in pools(policy.tier_models).get(Tier.SIMPLE, ())), "")
    default = policy.models.get(policy.verify.model if policy.verify else simple, _CALLERS)

    def price(need: ModelQuery) -> float | None:
        model = policy.models.get(need.model, default)
        read = (len(need.system) + len(need.text)) / BYTES_PER_TOKEN
        return model.cost(read, 0, need.max_tokens)

    limits = {
        "guidance": policy.guidance.money_per_day if policy.guidance else None,
        "judge_capability": policy.capabilities.money_per_day if policy.capabilities else None,
    }
    return {kind: Allowance(most, price) for kind, most in limits.items() if most is not None}


def question_price(policy: Policy) -> float | None:
    """Return what verifying one tier costs at most, in US dollars; None where unknown."""
    if policy.verify is None:
        return 0.0
    rules = policy.profile.verification
    model = policy.models.get(policy.verify.model, _CALLERS)
    # What goes in is the rubric and the cut text, what comes out a label.
    read = (len(rules.rubric) + rules.cut) / BYTES_PER_TOKEN
    return model.cost(read, 0, rules.max_tokens)
