"""Asking a model on behalf of a decision: within a budget, within a time, and never twice the same."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping

from pointsman.errors import UpstreamError
from pointsman.models.port import ChatModel, Prompt
from pointsman.tiers.verification import cache_key
from pointsman.types import Answer, Need

__all__ = ["Asker"]


class Asker:
    """Answers needs with chat models; every failure is an ``Answer`` that says which."""

    def __init__(self, models: Mapping[str, ChatModel], *, default: str = "", cache: int = 4_096) -> None:
        """Take models by configured name; ``default`` answers needs that name none."""
        self._models = models
        self._default = default
        self._capacity = cache
        self._cache: OrderedDict[str, str] = OrderedDict()

    async def __call__(self, need: Need) -> Answer:
        """Return a model's answer; one that was given before costs nothing."""
        key = cache_key(need)
        if known := self._cache.get(key):
            self._cache.move_to_end(key)
            return Answer(known)
        model = self._models.get(need.model or self._default)
        if model is None:
            return Answer(error="no-model")
        answer = await _complete(model, need)
        if answer.ok:
            self._cache[key] = answer.text
            if len(self._cache) > self._capacity:
                self._cache.popitem(last=False)
        return answer


async def _complete(model: ChatModel, need: Need) -> Answer:
    prompt = Prompt(system=need.system, text=need.text, max_tokens=need.max_tokens, labels=need.labels)
    began = time.perf_counter()
    try:
        text = await model.complete(prompt, timeout=need.timeout_ms / 1000)
    except UpstreamError as error:
        return Answer(error=str(error), elapsed_ms=(time.perf_counter() - began) * 1e3)
    return Answer(text, elapsed_ms=(time.perf_counter() - began) * 1e3)
