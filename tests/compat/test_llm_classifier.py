"""The classifier that asks a model in its own thread: overriding, timeout, and the model it means."""

import asyncio
import logging
from pathlib import Path
from threading import Event

import pytest

from pointsman.compat import guidance as _llm_classifier
from pointsman.compat.guidance import LLMClassifier
from pointsman.config import load
from pointsman.factory import build_ask
from pointsman.guidance import (
    DiagnosticSignalProvider,
    GuidanceContext,
    GuidanceMemory,
    GuidancePolicy,
    GuidanceProviderConfig,
    Guide,
)
from pointsman.guidance import LLMClassifier as AskingNobody
from pointsman.model_calls import ask_models
from pointsman.testing import ScriptedModel, build_context_with_errors, build_trajectory
from pointsman.upstreams.connections import Connections
from pointsman.vocabulary import Mode, ModelQuery, ModelReply

CONTEXT = build_context_with_errors(2)
CONFIGURATION = """
[upstreams.demo]
base_url = "demo:"
[models.small]
id = "small"
upstream = "demo"
[models.judge]
id = "judge"
upstream = "demo"
[tiers]
simple = "small"
medium = "small"
complex = "small"
reasoning = "small"
{tiers}
[[guidance.providers]]
provider = "diagnostic_signal"
classifier = {{ name = "llm", model = "judge" }}
"""


def test_a_subclass_asks_in_its_own_way() -> None:
    asked: list[str] = []

    class Own(LLMClassifier):
        def _call_model(self, summary: str) -> str:
            asked.append(summary)
            return "yes"

    classifier = Own(timeout_ms=60_000)
    assert classifier.classify(CONTEXT).relevant
    assert classifier.classify(CONTEXT).relevant
    assert len(asked) == 1  # the answer is remembered
    assert "failure 1" in asked[0]


@pytest.mark.parametrize("failure", [TimeoutError(), ConnectionError(), ValueError("x"), KeyboardInterrupt()])
def test_a_subclass_that_raises_abstains(failure: BaseException) -> None:
    class Own(LLMClassifier):
        def _call_model(self, summary: str) -> str:
            raise failure

    if isinstance(failure, Exception):
        assert Own(timeout_ms=60_000).classify(CONTEXT).abstained
    else:
        with pytest.raises(type(failure)):
            Own(timeout_ms=60_000).classify(CONTEXT)


def test_an_answer_is_waited_for_no_longer_than_the_timeout() -> None:
    answered = Event()

    def ask(query: ModelQuery) -> ModelReply:
        answered.wait()
        return ModelReply("yes")

    try:
        result = LLMClassifier(timeout_ms=1, ask=ask).classify(CONTEXT)
    finally:
        answered.set()
    assert (result.abstained, result.reason) == (True, "llm(claude-3-haiku): timeout")


def test_questions_that_are_never_answered_are_bounded() -> None:
    answered, started = Event(), []

    def ask(query: ModelQuery) -> ModelReply:
        started.append(query)
        answered.wait()
        return ModelReply("yes")

    classifier = LLMClassifier(timeout_ms=1, ask=ask)
    try:
        results = [classifier.classify(CONTEXT) for _ in range(_llm_classifier.MAX_WAITING + 3)]
    finally:
        answered.set()
    assert all(result.abstained for result in results)
    assert len(started) <= _llm_classifier.MAX_WAITING


@pytest.mark.parametrize("kind", [AskingNobody, LLMClassifier])
def test_without_a_way_to_ask_the_driver_is_asked(kind: type[AskingNobody]) -> None:
    classifier = kind(timeout_ms=70)
    query = classifier.classify(CONTEXT).query
    assert query is not None
    assert query.timeout_ms == 70
    told = GuidanceContext(None, CONTEXT.trajectory, answers={query: ModelReply("yes")})
    assert classifier.classify(told).relevant


def test_the_default_model_is_the_drivers_where_no_model_has_that_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    small = ScriptedModel("yes")
    query = AskingNobody().classify(CONTEXT).query
    assert query is not None
    ask = ask_models({"small": small}, default="small")
    with caplog.at_level(logging.WARNING, "pointsman.guidance"):
        assert [asyncio.run(ask(query)).text for _ in range(2)] == ["yes", "yes"]
    assert [record.message for record in caplog.records] == [
        'guidance: no model "claude-3-haiku" is configured; "small" is asked'
    ]


def test_a_model_of_the_default_name_is_asked_where_there_is_one() -> None:
    haiku, small = ScriptedModel("no"), ScriptedModel("yes")
    query = AskingNobody().classify(CONTEXT).query
    assert query is not None
    ask = ask_models({"small": small, "claude-3-haiku": haiku}, default="small")
    assert asyncio.run(ask(query)).text == "no"
    assert small.asked == []


def test_without_a_default_an_unknown_model_is_unavailable() -> None:
    query = AskingNobody().classify(CONTEXT).query
    assert query is not None
    assert asyncio.run(ask_models({"small": ScriptedModel("yes")})(query)).error == "no-model"


def test_a_guide_takes_one_that_asks_by_itself() -> None:
    classifier = LLMClassifier(timeout_ms=60_000, ask=lambda query: ModelReply("yes"))
    guide = Guide(
        GuidancePolicy(mode=Mode.ON), (GuidanceProviderConfig(DiagnosticSignalProvider(), classifier),)
    )
    steps = guide.decide(CONTEXT.trajectory, GuidanceMemory(), session="s")
    with pytest.raises(StopIteration) as ended:
        next(steps)
    assert ended.value.value[0].injection
    assert not build_trajectory().tool_call_count


@pytest.mark.parametrize(
    ("tiers", "asked"),
    [
        ("", "small"),  # tier SIMPLE's model
        ('verify = { model = "judge" }', "judge"),
    ],
)
def test_the_drivers_default_is_the_model_that_verifies_or_tier_simples(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, tiers: str, asked: str
) -> None:
    file = tmp_path / "pointsman.toml"
    file.write_text(CONFIGURATION.format(tiers=tiers))
    query = AskingNobody().classify(CONTEXT).query
    assert query is not None
    connections = Connections()

    async def answered() -> ModelReply:
        try:
            return await build_ask(load(file), connections)(query)
        finally:
            connections.close()

    assert asyncio.run(answered()).ok
    assert f'"{asked}" is asked' in caplog.text
