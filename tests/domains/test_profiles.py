"""Model profiles: which domains' guidance is off for a model."""

from types import SimpleNamespace
from typing import Any

import pytest

from pointsman.compat.domains import build_enrichment_plan, load_model_profile, model_name
from pointsman.domains import default_domains, parse_profile
from pointsman.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "disabled"),
    [
        ("{}", set()),
        ('{"disabled_domains": ["bugfix"]}', {"bugfix"}),
        ('{"bst": {"disabled_domains": ["bugfix"]}}', {"bugfix"}),
        ('{"bst": {"disabled_domains": ["codegen"]}, "disabled_domains": ["bugfix"]}', {"coding"}),
        ('{"bst": {"disabled_domains": []}, "disabled_domains": ["bugfix"]}', set()),
        ('{"bst": {}, "disabled_domains": ["git", "git_ops"]}', {"git_ops"}),
        ('{"bst": null, "disabled_domains": ["unheard_of"]}', {"unheard_of"}),
    ],
)
def test_what_a_profile_disables(text: str, disabled: set[str]) -> None:
    assert parse_profile(text, default_domains()).disabled == disabled


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "p.json: not JSON: "),
        ("{", "p.json: not JSON: "),
        ("[]", "p.json: a model profile is a JSON object"),
        ('{"disabled_domains": "bugfix"}', 'p.json: "disabled_domains" must be a list of domain names'),
        ('{"bst": {"disabled_domains": [1]}}', 'p.json: "disabled_domains" must be a list of domain names'),
    ],
)
def test_a_broken_profile_is_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_profile(text, default_domains(), place="p.json")
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"chat_model": "Qwen3-14B"}, "Qwen3-14B"),
        ({}, ""),
        (SimpleNamespace(chat_model=SimpleNamespace(name="Qwen3-14B")), "Qwen3-14B"),
        (SimpleNamespace(chat_model="Qwen3-14B"), "Qwen3-14B"),
        (SimpleNamespace(), ""),
        (None, ""),
    ],
)
def test_where_an_agent_keeps_the_name_of_its_model(config: Any, name: str) -> None:
    assert model_name(SimpleNamespace(config=config)) == name


def test_a_profile_is_read_by_the_name_of_the_model(caplog: pytest.LogCaptureFixture) -> None:
    agent = SimpleNamespace(config={"chat_model": "Qwen3-14B"})
    texts = {"Qwen3-14B": '{"bst": {"disabled_domains": ["bugfix"]}}'}
    profile = load_model_profile(agent, texts.get)
    assert profile == {"bst": {"disabled_domains": ["bugfix"]}}
    plan = build_enrichment_plan(
        {"domain": "coding", "confidence": 1}, {"domain": "bugfix", "confidence": 1}, profile
    )
    assert plan["reason_secondary_skipped"] == "disabled_in_profile"
    assert caplog.text == ""


@pytest.mark.parametrize("text", ["{", "[]", '"x"', '{"disabled_domains": 3}'])
def test_a_broken_profile_is_a_warning_and_disables_nothing(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    agent = SimpleNamespace(config={"chat_model": "Qwen3-14B"})
    assert load_model_profile(agent, lambda _: text) is None
    assert "Profile of Qwen3-14B is invalid, all enrichment stays enabled" in caplog.text
