"""The Agent Zero plugin, against a double that keeps the order "prompt built, then hook"."""

import asyncio
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pointsman.compat.domains import DOMAIN_CONFIGS
from pointsman.integrations import agent_zero
from pointsman.testing.agent_zero import AgentZeroDouble, ExtensionDouble

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "integrations" / "agent_zero" / "pointsman_domains"
HOOK = "message_loop_prompts_after"
EXTENSION = PLUGIN / "extensions" / "python" / HOOK / "_55_pointsman_domains.py"
INVESTIGATE = "Investigate Oracle's filings through the EDGAR API"


def load_plugin(monkeypatch: pytest.MonkeyPatch, where: str) -> type[ExtensionDouble]:
    """Load the plugin's extension as Agent Zero does, ``Extension`` being importable from ``where``."""
    parents = where.split(".")
    for depth in range(1, len(parents) + 1):
        name = ".".join(parents[:depth])
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules[where].Extension = ExtensionDouble  # type: ignore[attr-defined]
    spec = importlib.util.spec_from_file_location("_55_pointsman_domains", EXTENSION)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.PointsmanDomains  # type: ignore[no-any-return]


@pytest.fixture(params=["helpers.extension", "python.helpers.extension"])
def extension(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type[ExtensionDouble]:
    return load_plugin(monkeypatch, request.param)


def converse(agent: AgentZeroDouble, *messages: str, iterations: int = 1) -> list[str]:
    for message in messages:
        asyncio.run(agent.monologue(message, iterations=iterations))
    return agent.prompts


def test_the_guidance_reaches_the_prompt(extension: type[ExtensionDouble]) -> None:
    (prompt,) = converse(AgentZeroDouble({HOOK: [extension]}), INVESTIGATE)
    assert "[BST] Domain: investigation" in prompt
    assert "[BST] Secondary context: coding" in prompt


def test_text_added_at_the_hook_of_the_original_never_reaches_the_model(
    extension: type[ExtensionDouble],
) -> None:
    """Why the plugin does not use ``before_main_llm_call``: the double shows the fault it avoids."""
    (prompt,) = converse(AgentZeroDouble({"before_main_llm_call": [extension]}), INVESTIGATE)
    assert "[BST]" not in prompt


def test_tool_iterations_reuse_the_result(extension: type[ExtensionDouble]) -> None:
    agent = AgentZeroDouble({HOOK: [extension]})
    prompts = converse(agent, INVESTIGATE, iterations=5)
    assert len(set(prompts)) == 1
    assert prompts[0].count("[BST] Domain:") == 1
    assert agent.loop_data.extras_persistent["_bst_compound"]["momentum_turns"] == 1
    converse(agent, INVESTIGATE, INVESTIGATE)
    assert agent.loop_data.extras_persistent["_bst_compound"]["momentum_turns"] == 3


def test_memory_lives_between_messages_in_the_agents_data(extension: type[ExtensionDouble]) -> None:
    agent = AgentZeroDouble({HOOK: [extension]})
    *_, last = converse(agent, INVESTIGATE, INVESTIGATE, INVESTIGATE, "ls -la", "yes, go ahead")
    assert "[BST] Domain: investigation" in last
    stored = agent.get_data("_pointsman_domains")
    assert json.loads(json.dumps(stored))["pair"]["primary"] == "investigation"


def test_both_keys_are_written_and_neither_holds_a_pattern(extension: type[ExtensionDouble]) -> None:
    agent = AgentZeroDouble({HOOK: [extension]})
    (prompt,) = converse(agent, INVESTIGATE)
    state = agent.loop_data.extras_persistent
    assert state["_bst_domain"] == "investigation"
    compound = state["_bst_compound"]
    assert compound["secondary"]["domain"] == "coding"
    assert set(compound) == {
        "primary",
        "secondary",
        "compound_signature",
        "momentum_turns",
        "enrichment_plan",
    }
    assert len(json.dumps(compound)) < 600
    assert not re.search(r"\\\\|\(\?|\\b|\\w|\[\^", prompt)
    assert not any(pattern in prompt for config in DOMAIN_CONFIGS.values() for pattern in config["signals"])


def test_small_talk_at_the_start_adds_no_guidance(extension: type[ExtensionDouble]) -> None:
    agent = AgentZeroDouble({HOOK: [extension]})
    (prompt,) = converse(agent, "hello there")
    assert "[BST]" not in prompt
    assert agent.loop_data.extras_persistent["_bst_domain"] == "conversation"


def test_messages_without_ids_are_told_apart_by_their_words(extension: type[ExtensionDouble]) -> None:
    agent = AgentZeroDouble({HOOK: [extension]}, message_ids=False)
    converse(agent, INVESTIGATE, "Investigate who owns it, through the API", iterations=3)
    assert agent.loop_data.extras_persistent["_bst_compound"]["momentum_turns"] == 2


@pytest.mark.parametrize(
    ("content", "domain"),
    [
        ("debug the crash", "bugfix"),
        ({"user_message": "debug the crash", "system_message": ["plan the sprint"]}, "bugfix"),
        ({"user_intervention": "debug the crash"}, "bugfix"),
        ({"attachments": ["debug the crash"]}, "conversation"),
        (["debug the crash"], "conversation"),
    ],
)
def test_only_the_persons_words_are_read(content: Any, domain: str) -> None:
    agent = AgentZeroDouble({})
    loop_data = SimpleNamespace(
        user_message=SimpleNamespace(id="1", content=content), extras_persistent={}, extras_temporary={}
    )
    agent_zero.enrich(agent, loop_data)
    assert loop_data.extras_persistent["_bst_domain"] == domain


def test_no_user_message_changes_nothing() -> None:
    loop_data = SimpleNamespace(user_message=None, extras_persistent={}, extras_temporary={})
    agent_zero.enrich(AgentZeroDouble({}), loop_data)
    assert loop_data.extras_persistent == loop_data.extras_temporary == {}


def test_a_failure_leaves_the_prompt_alone_and_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    agent = AgentZeroDouble({})
    agent.set_data(agent_zero.MEMORY_KEY, {"momentum": "many"})
    loop_data = SimpleNamespace(
        user_message=SimpleNamespace(id="1", content="debug it"), extras_persistent={}, extras_temporary={}
    )
    agent_zero.enrich(agent, loop_data)
    agent_zero.enrich(agent, loop_data)
    assert loop_data.extras_temporary == {}
    assert agent.get_data(agent_zero.FAILURES_KEY) == 2
    assert "No domain guidance for this prompt" in caplog.text


@pytest.mark.parametrize(
    ("profile", "guided"),
    [
        (None, True),
        ('{"bst": {"disabled_domains": ["codegen"]}}', True),
        ('{"bst": {"disabled_domains": ["investigation"]}}', False),
        ('{"disabled_domains": ["osint"]}', False),
        ('{"bst": {"disabled_domains": []}, "disabled_domains": ["investigation"]}', True),
        ("{broken", True),
        ('{"disabled_domains": "investigation"}', True),
    ],
)
def test_the_models_profile_decides(
    tmp_path: Path, profile: str | None, guided: bool, caplog: pytest.LogCaptureFixture
) -> None:
    if profile is not None:
        (tmp_path / "openai").mkdir()
        (tmp_path / "openai" / "small.json").write_text(profile)
    agent = AgentZeroDouble({}, model="openai/small")
    loop_data = SimpleNamespace(
        user_message=SimpleNamespace(id="1", content=INVESTIGATE), extras_persistent={}, extras_temporary={}
    )
    agent_zero.enrich(agent, loop_data, profiles=tmp_path)
    text = loop_data.extras_temporary.get(agent_zero.EXTRAS_KEY, "")
    assert ("investigation" in text) is guided
    broken = profile is not None and ("broken" in profile or '"investigation"}' in profile)
    assert ("is invalid, all enrichment stays enabled" in caplog.text) is broken


@pytest.mark.parametrize("model", ["../secret", "/etc/secret", "a/../../secret", ""])
def test_a_models_name_is_no_way_out_of_the_folder(tmp_path: Path, model: str) -> None:
    (tmp_path / "secret.json").write_text("{}")
    agent = AgentZeroDouble({}, model=model)
    assert agent_zero.load_model_profile(agent, profiles=tmp_path / "profiles") is None


def test_without_pointsman_the_plugin_warns_and_does_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "pointsman.integrations.agent_zero", None)
    extension = load_plugin(monkeypatch, "helpers.extension")
    (prompt,) = converse(AgentZeroDouble({HOOK: [extension]}), INVESTIGATE)
    assert "[BST]" not in prompt
    assert "pip install pointsman" in caplog.text


def test_the_plugin_has_the_layout_of_agent_zero() -> None:
    manifest = (PLUGIN / "plugin.yaml").read_text()
    assert {line.split(":")[0] for line in manifest.splitlines()} >= {"title", "description", "version"}
    assert EXTENSION.is_file()


CHECKOUT = os.environ.get("AGENT_ZERO_ROOT", "")


@pytest.mark.skipif(not CHECKOUT, reason="needs AGENT_ZERO_ROOT, a checkout of Agent Zero")
def test_a_real_checkout_calls_the_hooks_in_this_order() -> None:
    source = (Path(CHECKOUT) / "agent.py").read_text("utf-8")
    prepare = source[source.index("async def prepare_prompt") :]
    assert prepare.index(HOOK) < prepare.index("extras_temporary") < prepare.index("extras_temporary.clear()")
    loop = source[source.index("async def monologue") :]
    assert loop.index("self.prepare_prompt(") < loop.index('"before_main_llm_call"')


@pytest.mark.skipif(not CHECKOUT, reason="needs AGENT_ZERO_ROOT, a checkout of Agent Zero")
def test_a_real_checkout_can_import_the_extension() -> None:
    """In a process of its own, with Agent Zero's folder on the path and its ``Extension`` as the base."""
    script = (
        "import importlib.util, sys; sys.path.insert(0, sys.argv[1])\n"
        "spec = importlib.util.spec_from_file_location('_55_pointsman_domains', sys.argv[2])\n"
        "module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module)\n"
        "print([base.__module__ for base in module.PointsmanDomains.__mro__])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, CHECKOUT, str(EXTENSION)], capture_output=True, text=True, check=False
    )
    if "No module named" in done.stderr:
        pytest.skip(f"Agent Zero's own dependencies are missing: {done.stderr.splitlines()[-1]}")
    assert "helpers.extension" in done.stdout
