"""The object for LiteLLM's classifier slot, without LiteLLM: what it is handed looks like this."""

import asyncio
import copy
import sys
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pointsman.errors import MissingExtra
from pointsman.integrations import litellm as adapter
from pointsman.integrations.litellm import METADATA, Classifier
from support.hosts import HARD, PATIENCE, FailingPoints, SlowPoints, not_there, two_models

HAS_LITELLM = find_spec("litellm") is not None


HASH = "0123456789abcdef"


def context(text: str = HARD, **metadata: Any) -> Any:
    return SimpleNamespace(structured_messages=[{"role": "user", "content": text}], metadata=metadata)


def test_tiers_have_the_names_of_litellms(tmp_path: Path) -> None:
    with two_models(tmp_path) as points:
        classifier = Classifier(points, timeout=PATIENCE)
        assert asyncio.run(classifier.classify(context())) == "REASONING"
        assert asyncio.run(classifier.classify(context("Hello!"))) == "SIMPLE"


def test_reasons_are_written_where_there_is_room(tmp_path: Path) -> None:
    with two_models(tmp_path) as points:
        classifier = Classifier(points, timeout=PATIENCE)
        asked = context()
        asked.metadata[METADATA] = {}
        asyncio.run(classifier.classify(asked))
        told = asked.metadata[METADATA]
        points.runtime.ledger.flush()
        assert points.runtime.ledger.get(told["id"]) is not None
    assert (told["tier"], told["stage"], told["reasons"]) == (
        "REASONING",
        "override",
        ["reasoning override (2 markers)"],
    )
    assert told["signals"]


@pytest.mark.parametrize(
    ("metadata", "session", "caller"),
    [
        ({"session_id": "one"}, "one", ""),
        ({"headers": {"x-session-id": "two"}}, "two", ""),
        ({"headers": {"session_id": "three"}}, "three", ""),
        ({"session_id": "one", "user_api_key_hash": HASH + "0123"}, f"{HASH}/one", HASH),
        ({"session_id": 5, "headers": "none"}, "f-", ""),
        ({}, "f-", ""),
    ],
)  # fmt: skip
def test_sessions_and_callers(tmp_path: Path, metadata: dict[str, Any], session: str, caller: str) -> None:
    with two_models(tmp_path) as points:
        asyncio.run(Classifier(points, timeout=PATIENCE).classify(context(**metadata)))
        points.runtime.ledger.flush()
        given = next(iter(points.runtime.ledger.decisions(limit=None))).input
    assert given.session.startswith(session)
    assert given.caller == caller


@pytest.mark.parametrize("points", [FailingPoints, SlowPoints, not_there], ids=["raises", "slow", "absent"])
def test_litellm_classifies_by_itself_where_there_is_no_decision(points: Any) -> None:
    classifier = Classifier(points, timeout=0.01 if points is SlowPoints else PATIENCE)
    with closing(classifier.host):
        assert asyncio.run(classifier.classify(context())) is None


def test_a_copy_of_the_configuration_holds_the_same_classifier() -> None:
    classifier = Classifier(not_there)
    assert copy.deepcopy({"classifier_plugin": classifier})["classifier_plugin"] is classifier


def test_the_callback_makes_room_for_reasons_and_sends_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a double of the module that it takes its base class from; the proxy's test has the real one."""
    logger: Any = ModuleType("litellm.integrations.custom_logger")
    logger.CustomLogger = object
    for name in ("litellm", "litellm.integrations"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "litellm.integrations.custom_logger", logger)
    adapter._reasons.cache_clear()
    callback = adapter.reasons
    assert adapter.reasons is callback
    adapter._reasons.cache_clear()
    data: dict[str, Any] = {"metadata": {"pointsman": "a client's own"}}

    async def called(**told: str) -> dict[str, str]:
        await callback.async_pre_call_hook(None, None, data, "completion")
        data["metadata"]["pointsman"].update(told)
        sent: dict[str, str] = await callback.async_post_call_response_headers_hook(data, None, None, x=1)
        return sent

    assert asyncio.run(called()) == {}
    assert asyncio.run(called(id="d-1", tier="SIMPLE", confidence="1")) == {
        "x-pointsman-decision-id": "d-1",
        "x-pointsman-tier": "SIMPLE",
    }
    data.clear()
    assert asyncio.run(callback.async_pre_call_hook(None, None, {}, "completion")) == {}
    assert asyncio.run(callback.async_post_call_response_headers_hook({}, None, None)) == {}


@pytest.mark.skipif(HAS_LITELLM, reason="LiteLLM is installed here")
def test_the_callback_needs_litellm() -> None:
    with pytest.raises(MissingExtra) as raised:
        _ = adapter.reasons
    assert raised.value.hint == "pip install 'pointsman[litellm]'"
    with pytest.raises(AttributeError):
        _ = adapter.nothing
