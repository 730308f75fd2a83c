"""Guides, matches, prompts and the registry: what is kept, what is refused."""

import pytest

from pointsman.capabilities import (
    Capability,
    CapabilityMatch,
    CapabilityRegistry,
    ClassificationPromptBuilder,
    ClassifierExample,
    TaskClassifierGuide,
    capability,
)
from pointsman.errors import ConfigError


def test_the_seeds_weather_guide() -> None:
    guide = TaskClassifierGuide(
        instructions="Activate when user requests weather information",
        examples=[
            ClassifierExample(query="What's the weather like?", result=True, reason="Direct weather request"),
            ClassifierExample(query="What time is it?", result=False, reason="Time request, not weather"),
        ],
    )
    assert guide.positives == ("What's the weather like?",)
    assert guide.negatives == ("What time is it?",)
    builder = ClassificationPromptBuilder()
    prompt = builder.get_system_instructions(
        capability_instructions=guide.instructions,
        classifier_examples=builder.format_examples(guide.examples),
    )
    assert "Activate when user requests weather information" in prompt
    assert '- "What time is it?" -> false (Time request, not weather)' in prompt
    assert '{"is_match": true or false' in prompt


def test_a_guide_may_have_no_examples_but_no_empty_ones() -> None:
    assert ClassificationPromptBuilder.format_examples(()) == "(none)"
    with pytest.raises(ValueError, match="needs a query"):
        ClassifierExample(query=" ", result=True)


@pytest.mark.parametrize(
    ("text", "match", "reason"),
    [
        ('{"is_match": true, "reason": "rain"}', True, "rain"),
        ('{"is_match": false}', False, ""),
        ('```json\n{"is_match": true}\n```', True, ""),
        ('Sure: {"is_match": false, "reason": null} as asked', False, ""),
        ("Yes.", True, ""),
        ("`false`", False, ""),
    ],
)
def test_answers_that_can_be_read(text: str, match: bool, reason: str) -> None:
    assert CapabilityMatch.parse(text) == CapabilityMatch(is_match=match, reason=reason)


@pytest.mark.parametrize("text", ["", "yes and no", "{}", '{"is_match": 1}', '["is_match"]', "}{"])
def test_answers_that_cannot(text: str) -> None:
    with pytest.raises(ValueError, match="the answer"):
        CapabilityMatch.parse(text)


def test_a_template_can_be_replaced_and_is_tried_at_once() -> None:
    short = ClassificationPromptBuilder("{capability_instructions}|{classifier_examples}|{previous_failure}")
    assert short.get_system_instructions("a", "b") == "a|b|"
    assert "it broke" in short.get_system_instructions("a", "b", "it broke")
    for wrong in ("{task}", "{", '{"is_match"}'):
        with pytest.raises(ConfigError, match="template cannot be filled"):
            ClassificationPromptBuilder(wrong)


def test_the_decorator_declares_a_capability_and_keeps_its_work() -> None:
    @capability("echo", "Repeat what was said", provides=["TEXT"], always_active=True)
    async def echo(step: object, context: object) -> str:
        return "echo"

    assert isinstance(echo, Capability)
    assert (echo.name, echo.provides, echo.always_active) == ("echo", ("TEXT",), True)
    assert echo.classifier_guide.instructions == "Repeat what was said"
    assert echo.work is not None


def test_the_registry_keeps_order_finds_by_name_and_refuses_twins() -> None:
    one, two = (Capability(name, TaskClassifierGuide(name), always_active=name == "b") for name in "ab")
    registry = CapabilityRegistry([one, two])
    assert [each.name for each in registry.get_all_capabilities()] == ["a", "b"]
    assert registry.get_always_active_capability_names() == ["b"]
    assert registry.get_capability("a") is one
    assert registry.get_capability("c") is None
    assert "a" in registry
    assert len(registry) == 2
    with pytest.raises(ConfigError, match='two capabilities are called "a"'):
        CapabilityRegistry([one, one])
    with pytest.raises(ConfigError, match="needs a name"):
        Capability(" ", TaskClassifierGuide("x"))


def test_the_version_changes_with_content_and_only_then() -> None:
    def version(**guide: object) -> str:
        made = TaskClassifierGuide(**({"instructions": "x"} | guide))  # type: ignore[arg-type]
        return CapabilityRegistry([Capability("a", made)]).version

    assert version() == version()
    assert version() != version(instructions="y")
    assert version() != version(examples=[ClassifierExample("q", result=True)])
    assert version(examples=[ClassifierExample("q", result=True)]) != version(
        examples=[ClassifierExample("q", result=False)]
    )
