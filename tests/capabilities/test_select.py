"""Selection: the seed's flow, three strategies, failure policies, bypass, cache, and what an outage is."""

import json
from collections.abc import Callable, Hashable
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from pointsman.capabilities import (
    CapabilityRegistry,
    ClassificationPromptBuilder,
    LocalScorer,
    Selection,
    SelectionPolicy,
    SelectionUnavailable,
    Selector,
    Strategy,
)
from pointsman.encoders import load_encoder
from pointsman.errors import ConfigError
from pointsman.remembering import Bounded
from pointsman.vocabulary import ModelQuery, ModelReply
from support.capabilities import JUDGE, REGISTRY, drive, select

WEATHER_TASK = "What's the weather like?"


def yes_to(*words: str) -> Callable[[ModelQuery], ModelReply]:
    """A model that says yes to capabilities whose instructions hold one of the words."""

    def answer(need: ModelQuery) -> ModelReply:
        match = any(word in need.system.split("Examples:")[0] for word in words)
        return ModelReply(json.dumps({"is_match": match, "reason": "because"}))

    return answer


def test_the_seeds_task_selects_weather_and_what_it_requires() -> None:
    selection, asked = select(WEATHER_TASK, strategy="local")
    assert selection.selected == ("respond", "current_weather", "geocode")
    assert not asked
    assert not selection.abstained
    assert any(
        reason.detail == "geocode provides COORDINATES for current_weather" for reason in selection.reasons
    )


def test_a_kind_the_context_holds_pulls_nobody_in() -> None:
    selector = Selector(REGISTRY, JUDGE, SelectionPolicy(strategy=Strategy.LOCAL))
    selection, _ = drive(selector.select(WEATHER_TASK, held=["COORDINATES"]), lambda need: ModelReply())
    assert selection.selected == ("respond", "current_weather")


def test_several_capabilities_may_be_selected_and_so_may_none() -> None:
    both, _ = select("x", yes_to("weather", "e-mail"), strategy="llm")
    assert {"current_weather", "mail"} <= set(both.selected)
    none, _ = select("x", yes_to(), strategy="llm")
    assert none.selected == ("respond",)
    assert not none.abstained


def test_llm_asks_about_every_capability_that_is_not_always_active_in_one_batch() -> None:
    selector = Selector(REGISTRY, JUDGE, SelectionPolicy(strategy=Strategy.LLM))
    batch = next(selector.select(WEATHER_TASK))
    assert len(batch) == 4
    assert all(
        need.text == WEATHER_TASK and WEATHER_TASK not in need.system.replace('- "' + WEATHER_TASK, "")
        for need in batch
    )


def test_examples_are_in_the_prompt_in_the_guides_order_every_time() -> None:
    _, first = select(WEATHER_TASK, yes_to(), strategy="llm")
    _, second = select(WEATHER_TASK, yes_to(), strategy="llm")
    assert first == second
    assert (
        '- "What\'s the weather like?" -> true (Direct weather request)\n- "Will it rain' in first[0].system
    )


def test_a_failure_is_carried_into_every_question() -> None:
    selector = Selector(REGISTRY, JUDGE, SelectionPolicy(strategy=Strategy.LLM))
    batch = next(
        selector.select(WEATHER_TASK, failure="Capability mail requested reclassification: no inbox")
    )
    assert all("mail requested reclassification: no inbox" in need.system for need in batch)


def test_hybrid_asks_only_where_the_score_is_unsure() -> None:
    _, sure = select(WEATHER_TASK, yes_to("weather"), strategy="hybrid", unsure=(0.1, 0.9))
    assert not sure
    selection, asked = select(WEATHER_TASK, yes_to(), strategy="hybrid", unsure=(0.0, 1.0), max_questions=2)
    assert len(asked) == 2
    assert len(selection.asked_model) == 2
    assert "current_weather" in selection.asked_model  # the likeliest are asked about first


def test_a_models_verdict_beats_the_score() -> None:
    refused, _ = select(WEATHER_TASK, yes_to(), strategy="llm")
    assert refused.scores["current_weather"] > 0.5
    assert "current_weather" not in refused.selected
    assert any(
        reason.detail == "current_weather: a model says not needed: because" for reason in refused.reasons
    )


OUTAGE = ModelReply(error="timeout")


@pytest.mark.parametrize("strategy", ["llm", "hybrid"])
@pytest.mark.parametrize(
    ("on_failure", "selected"),
    [
        ("local", {"respond", "current_weather", "geocode"}),
        ("none", {"respond"}),
        ("all", {"respond", "current_weather", "clock", "mail", "geocode"}),
        ("always_active", {"respond"}),
        ("list", {"respond", "clock"}),
    ],
)
def test_an_outage_is_the_policys_answer_and_is_called_unavailable(
    strategy: str, on_failure: str, selected: set[str]
) -> None:
    selection, _ = select(
        WEATHER_TASK,
        lambda need: OUTAGE,
        strategy=strategy,
        unsure=(0.0, 1.0),
        on_failure=on_failure,
        fallback=("clock", "gone"),
    )
    assert set(selection.selected) == selected
    assert selection.abstained == "unavailable: timeout"
    assert not any(reason.code == "capabilities.model" for reason in selection.reasons)


def test_an_outage_may_raise() -> None:
    with pytest.raises(SelectionUnavailable, match="timeout"):
        select(WEATHER_TASK, lambda need: OUTAGE, strategy="llm", on_failure="raise")


def test_one_failed_question_leaves_the_other_verdicts_standing() -> None:
    def answer(need: ModelQuery) -> ModelReply:
        return OUTAGE if "e-mail" in need.system else yes_to("time of day")(need)

    selection, _ = select("x", answer, strategy="llm", on_failure="all")
    assert set(selection.selected) == {"respond", "clock", "mail"}
    assert selection.abstained


@pytest.mark.parametrize("text", ["", "perhaps", '{"is_match": "yes"}', '{"match": true}', "{broken"])
def test_an_unreadable_answer_is_unavailable_not_no(text: str) -> None:
    selection, _ = select(WEATHER_TASK, lambda need: ModelReply(text), strategy="llm", on_failure="none")
    assert selection.abstained.startswith("unavailable: the answer")


def test_bypass_selects_everything_in_registry_order() -> None:
    selection, asked = select("anything", bypass=True)
    assert selection.selected == ("current_weather", "clock", "mail", "geocode", "respond")
    assert not asked
    by_command = Selector(REGISTRY, JUDGE).select("anything", bypass=True)
    assert drive(by_command, lambda need: ModelReply())[0].selected == selection.selected


def test_the_cache_knows_the_task_and_the_failure_and_forgets_outages() -> None:
    cache = Bounded[Hashable, Selection](2)
    selector = Selector(REGISTRY, JUDGE, SelectionPolicy(strategy=Strategy.LLM), cache=cache)
    drive(selector.select("x"), lambda need: OUTAGE)
    assert len(cache) == 0
    first, asked = drive(selector.select("x"), yes_to("weather"))
    assert asked
    again, asked = drive(selector.select("x"), yes_to())
    assert again == first
    assert not asked
    _, asked = drive(selector.select("x", failure="it broke"), yes_to())
    assert asked
    _, asked = drive(selector.select("y"), yes_to())
    assert asked
    assert len(cache) == 2


@pytest.mark.parametrize("encoder", ["none", "static"])
def test_an_empty_registry_selects_nothing(encoder: str) -> None:
    empty = CapabilityRegistry([])
    scorer = LocalScorer(empty, load_encoder(encoder))
    selection, _ = drive(Selector(empty, scorer).select("x"), lambda need: ModelReply())
    assert selection.selected == ()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"strategy": "guess"}, 'unknown strategy "guess"'),
        ({"on_failure": "shrug"}, 'unknown on_failure "shrug"'),
        ({"unsure": (0.9, 0.1)}, "unsure band"),
        ({"threshold": 1.5}, "threshold"),
        ({"max_questions": 0}, "max_questions"),
    ],
)
def test_a_wrong_policy_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SelectionPolicy(**wrong)


@given(
    task=st.text(max_size=80),
    strategy=st.sampled_from(["local", "hybrid", "llm"]),
    on_failure=st.sampled_from(["local", "none", "all", "always_active", "list"]),
    texts=st.lists(st.sampled_from(['{"is_match": true}', "no", "", "?"]), min_size=1, max_size=8),
)
def test_a_selection_is_ordered_known_and_holds_what_is_always_active(
    task: str, strategy: str, on_failure: str, texts: list[str]
) -> None:
    replies = iter(texts * 8)
    selection, asked = select(
        task,
        lambda need: ModelReply(next(replies)),
        strategy=strategy,
        on_failure=on_failure,
        unsure=(0.0, 1.0),
    )
    order = ["respond", "current_weather", "clock", "mail", "geocode"]
    assert list(selection.selected) == [name for name in order if name in selection.selected]
    assert selection.selected[0] == "respond"
    assert len(asked) <= (0 if strategy == "local" else 5)
    if "current_weather" in selection.selected:
        assert "geocode" in selection.selected


def test_ones_own_template_is_what_a_model_is_asked_with() -> None:
    prompts = ClassificationPromptBuilder("Needed? {capability_instructions}{classifier_examples}")
    selector = Selector(REGISTRY, JUDGE, SelectionPolicy(strategy=Strategy.LLM), prompts)
    _, asked = drive(selector.select("x"), yes_to())
    assert asked
    assert all(need.system.startswith("Needed? ") for need in asked)
