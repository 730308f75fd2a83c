"""What is remembered of callers' words is short: caches count entries, and a caller chooses their length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pointsman.capabilities import _ngrams
from pointsman.errors import Unauthorized
from pointsman.gateway import _inbound
from pointsman.remembering import remembered
from pointsman.tiers import decision as _model_ids
from pointsman.trajectory import _events
from pointsman.upstreams import relayed_headers
from pointsman.wire import models, project

LONG = "x" * 10_000


def test_short_words_are_remembered_and_few_of_them() -> None:
    asked: list[str] = []

    def length(word: str) -> int:
        asked.append(word)
        return len(word)

    known = remembered(length, most=3, longest=5)
    assert [known("a"), known("bb"), known("a"), known("a")] == [1, 2, 1, 1]
    assert asked == ["a", "bb"]
    assert [known("123456"), known("123456")] == [6, 6]
    assert asked == ["a", "bb", "123456", "123456"], "too long"
    for word in ("c", "d", "c", "d"):
        known(word)
    assert asked[4:] == ["c", "d", "c"], "once it is full it begins anew"
    assert len(known.__self__) == 2  # type: ignore[attr-defined]


#: What is remembered by a dictionary, a long word, and what is said of it.
BY_WORD: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "client_of": (project.client_of, b"cli/1 " + LONG.encode(), "cli"),
    "goes_up": (relayed_headers.goes_up, b"x-stainless-" + LONG.encode(), True),
    "name_down": (relayed_headers.name_down, b"x-powered-by-" + LONG.encode(), b""),
    "forced_tier": (_model_ids.forced_tier, LONG, None),
    "asks_to_decide": (_model_ids.asks_to_decide, LONG, False),
    "pieces": (_ngrams._pieces, LONG, _ngrams._pieces_of(LONG)),
}


@pytest.mark.parametrize(("function", "word", "says"), BY_WORD.values(), ids=BY_WORD)
def test_a_long_word_is_not_remembered(function: Any, word: Any, says: Any) -> None:
    assert function(word) == says
    assert max(map(len, function.__self__), default=0) <= 512


#: What is remembered by ``lru_cache``: a call with a long word, what it says, and the cache.
BY_COUNT: dict[str, tuple[Callable[[], Any], Any, Any]] = {
    "effort": (lambda: models.openai_effort("gpt-5", LONG), LONG, models._openai_effort),
}


@pytest.mark.parametrize(("call", "says", "cache"), BY_COUNT.values(), ids=BY_COUNT)
def test_a_long_word_never_reaches_the_cache(call: Callable[[], Any], says: Any, cache: Any) -> None:
    before = cache.cache_info()
    assert call() == says
    assert cache.cache_info() == before


def test_a_host_that_is_refused_is_not_remembered() -> None:
    before = _inbound._check_host.cache_info().currsize
    for host in (b"localhost:1" + b"1" * 10_000, b"rebound.example"):
        with pytest.raises(Unauthorized):
            _inbound._check_host(host, "127.0.0.1")
    assert _inbound._check_host.cache_info().currsize == before


def test_two_tools_whose_names_begin_alike_are_remembered_once() -> None:
    _events._named_for_polling.cache_clear()
    assert _events.is_polling(f"wait {LONG}a", "{}")
    assert _events.is_polling(f"wait {LONG}b", "{}")
    assert _events._named_for_polling.cache_info().currsize == 1
