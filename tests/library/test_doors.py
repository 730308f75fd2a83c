"""What a person finds at one door, they find at the next: small things that were at one alone."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pointsman import Pointsman
from pointsman.cli import app
from pointsman.cli.output import report_error
from pointsman.config import load
from pointsman.decision.policy import Policy
from pointsman.errors import ConfigError, MalformedRequest, PointsmanError
from pointsman.guidance import (
    AllOfClassifier,
    ConsultationPromptProvider,
    DiagnosticSignalProvider,
    DoomLoopBreaker,
    ErrorStreakClassifier,
    GuidancePolicy,
    GuidanceProviderConfig,
    LLMClassifier,
    Mode,
    NotClassifier,
    ParallelToolReminder,
    SequentialWhenParallelClassifier,
    ThresholdClassifier,
)
from pointsman.tiers import builtin_profile

ASKED = "Write a function that sorts a list of dates"
MODELS = (
    '[upstreams.demo]\nbase_url = "demo:"\n'
    '[models]\nsmall = { upstream = "demo", id = "s" }\nlarge = { upstream = "demo", id = "l" }\n'
    '[tiers]\nsimple = "small"\ncomplex = "large"\nprofile = "seed"\n'
)
FAILED = [
    {"role": "user", "content": "fix this bug in the login function"},
    *[
        message
        for number in range(4)
        for message in (
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": f"c{number}",
                        "type": "function",
                        "function": {"name": "bash", "arguments": '{"c": "pytset"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": f"c{number}", "content": "Error: command not found: pytset"},
        )
    ],
]


def classified(*arguments: str, line: Any) -> dict[str, Any]:
    found = CliRunner().invoke(app, ["classify", *arguments], input=json.dumps(line) + "\n")
    assert found.exit_code == 0, found.output
    answer: dict[str, Any] = json.loads(found.stdout)
    return answer


def configured(tmp_path: Path, more: str = "") -> Path:
    file = tmp_path / "pointsman.toml"
    file.write_text(MODELS + more)
    return file


@pytest.mark.parametrize("text", [ASKED, "hello", "prove step by step that this terminates"])
def test_classify_decides_by_the_file_as_explain_and_the_library_do(tmp_path: Path, text: str) -> None:
    file = str(configured(tmp_path))
    line = classified("--config", file, line={"text": text})
    explained = CliRunner().invoke(app, ["explain", "--config", file, "--json", text])
    with Pointsman.from_config(file) as points:
        tier = points.decide(text, dry_run=True).tier
    assert tier is not None
    assert line["score"] == tier.score == json.loads(explained.stdout)["decision"]["score"]
    assert line["tier"] == tier.tier
    plain = classified(line={"text": ASKED})["score"]
    assert plain != classified("--config", file, line={"text": ASKED})["score"]  # another profile


def test_a_profile_beside_a_file_is_refused(tmp_path: Path) -> None:
    file = str(configured(tmp_path))
    found = CliRunner().invoke(app, ["classify", "--config", file, "--profile", "default"], input="")
    assert isinstance(found.exception, PointsmanError)
    assert "exclude each other; profile is a key of [tiers]" in str(found.exception)


def test_classify_and_explain_say_that_an_agent_is_stuck() -> None:
    line = classified(line={"messages": FAILED})
    assert line["guidance"][0]["classifier"] in {"error_streak", "doom_loop"}
    assert "guidance" not in classified(line={"messages": FAILED[:3]})
    with Pointsman() as points:
        shown = points.explain(FAILED).to_json()
    guidance = shown["guidance"]
    assert isinstance(guidance, dict)
    assert guidance["firing"]["classifier"] == line["guidance"][0]["classifier"]


@pytest.mark.parametrize("wire", ["chat", "messages", "responses"])
def test_messages_are_decided_without_a_body_around_them(wire: str) -> None:
    key = "input" if wire == "responses" else "messages"
    said = [{"role": "user", "content": ASKED}]
    with Pointsman() as points:
        bare, whole = points.decide(said, format=wire), points.decide({key: said}, format=wire)
    assert bare.tier == whole.tier
    assert bare.input.messages == whole.input.messages == 1


def test_the_way_out_is_in_the_text_of_an_error_and_on_the_command_line_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pointsman.toml"
    file.write_text('[upstreams.a]\nbase_url = "http://x/v1"\napi_key = "k"\n')
    with pytest.raises(ConfigError) as raised:
        load(file, {})
    assert raised.value.hint
    assert str(raised.value) == f"{raised.value.message}; {raised.value.hint}"
    report_error(raised.value)
    assert capsys.readouterr().err.count(raised.value.hint) == 1
    assert str(MalformedRequest("no body")) == "no body"


def test_no_command_is_called_batch_and_the_error_says_what_to_use() -> None:
    found = CliRunner().invoke(app, ["batch"])
    assert isinstance(found.exception, PointsmanError)
    assert "classify --in" in found.exception.hint


def test_a_log_line_has_score_and_signals(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="pointsman.decisions"), Pointsman() as points:
        decided = points.decide("prove step by step that this terminates").tier
    assert decided is not None
    [line] = [record.getMessage() for record in caplog.records]
    assert f"score={decided.score:.3f}" in line
    assert f"signals={','.join(decided.signals).replace(' ', '_')}" in line


@pytest.mark.parametrize(
    ("profile", "margin", "asks"),
    [
        ("seed", "", True),  # its own rule: confidence below .70
        ("seed", "margin = 0.2,", True),
        ("seed", "margin = 0.0,", False),
        ("default", "", False),
        ("default", "margin = 0.5,", True),
    ],
)
def test_a_margin_counts_in_every_profile(tmp_path: Path, profile: str, margin: str, asks: bool) -> None:
    file = tmp_path / "pointsman.toml"
    file.write_text(MODELS.replace('"seed"', f'"{profile}"') + f'verify = {{ {margin} model = "small" }}\n')
    text = "Write a function"
    assert classified("--config", str(file), line={"text": text})["needs_verification"] is asks


CAPABILITIES = [
    {
        "name": name,
        "instructions": text,
        "examples": [{"query": f"{verb} {what}"} for verb in verbs for what in whats],
    }
    for name, text, verbs, whats in (
        ("weather", "Tells the weather", ("how is the weather in", "weather forecast for"), ("Rome", "Oslo")),
        ("mail", "Sends an e-mail", ("send an e-mail to", "write an e-mail to"), ("Ida", "Tom")),
    )
]


def with_capabilities(tmp_path: Path, *, commands: bool = True) -> Path:
    (tmp_path / "capabilities.json").write_text(json.dumps(CAPABILITIES))
    on = "[server]\nrouter_command = true\n" if commands else ""
    return configured(tmp_path, f'[capabilities]\nfile = "capabilities.json"\n{on}')


@pytest.mark.parametrize(
    "command", ["/caps:off", "/CAPS:OFF", "/capabilities:false", "/caps:off:session", "/caps:off session\n"]
)
def test_a_command_counts_at_every_door_and_in_every_spelling(tmp_path: Path, command: str) -> None:
    file = with_capabilities(tmp_path)
    words = "how is the weather in Bergen?"
    text = f"{command} {words}" if not command.endswith("\n") else command + words
    line = classified("--config", str(file), line={"text": text})
    explained = CliRunner().invoke(app, ["explain", "--config", str(file), "--json", text])
    task = json.dumps({"id": 1, "task": text})
    chosen = CliRunner().invoke(app, ["select", "--config", str(file)], input=task + "\n")
    with Pointsman.from_config(file) as points:
        decided = points.decide(text, session="s").capabilities
        asked = points.decide([{"role": "user", "content": text}], dry_run=True).capabilities
        selected = points.select(text)
        after = points.decide("how is the weather in Bergen?", session="s").capabilities
        plain = points.select(words)
    assert plain is not None
    assert plain.selected == ("weather",)
    for part in (decided, asked, selected):
        assert part is not None
        assert (part.bypass, part.selected) == (True, ("weather", "mail"))
    assert line["extracted"] == json.loads(explained.stdout)["text"] == words
    assert line["capabilities"]["bypass"]
    assert json.loads(explained.stdout)["capabilities"]["bypass"]
    assert json.loads(chosen.stdout)["selected"] == ["weather", "mail"]
    assert after is not None
    assert after.bypass is ("session" in command)


def test_a_command_is_a_text_like_any_other_where_commands_are_not_enabled(tmp_path: Path) -> None:
    with Pointsman.from_config(with_capabilities(tmp_path, commands=False)) as points:
        decided = points.select("/caps:off how is the weather in Bergen?")
    assert decided is not None
    assert not decided.bypass


@pytest.mark.parametrize(
    "provider",
    [
        GuidanceProviderConfig(provider=DoomLoopBreaker()),
        GuidanceProviderConfig(provider=ConsultationPromptProvider(priority=7), cooldown_turns=2),
        GuidanceProviderConfig(ParallelToolReminder(), SequentialWhenParallelClassifier(threshold=2)),
        GuidanceProviderConfig(
            DiagnosticSignalProvider(),
            AllOfClassifier(
                (
                    ThresholdClassifier(ErrorStreakClassifier(threshold=2), 0.5),
                    NotClassifier(LLMClassifier(model="small")),
                )
            ),
            max_fires_per_session=1,
        ),
    ],
)
def test_providers_of_the_founding_document_convert(provider: GuidanceProviderConfig) -> None:
    policy = GuidancePolicy(mode=Mode.ON, providers=(provider,))  # type: ignore[arg-type]
    [spec] = policy.providers
    assert spec.version
    assert spec.priority == provider.provider.priority  # type: ignore[attr-defined]
    again = GuidancePolicy(mode=Mode.ON, providers=policy.providers)
    assert again == policy
    with Pointsman(Policy(profile=builtin_profile("default"), guidance=policy)) as points:
        assert points.decide(FAILED).guidance is not None


def test_a_provider_of_the_founding_document_speaks() -> None:
    provider = GuidanceProviderConfig(ConsultationPromptProvider(), ErrorStreakClassifier(threshold=2))
    policy = GuidancePolicy(mode=Mode.ON, control=0.0, default_providers=False, providers=(provider,))  # type: ignore[arg-type]
    with Pointsman(Policy(profile=builtin_profile("default"), guidance=policy)) as points:
        tool = {"type": "function", "function": {"name": "bash"}}
        said = points.decide({"messages": FAILED[:5], "tools": [tool]}).injections
    assert [each.source for each in said] == ["guidance"]


class Mine:
    name, category, priority = "mine", "own", 1


@pytest.mark.parametrize(
    ("provider", "named"),
    [
        (GuidanceProviderConfig(Mine()), "the class Mine"),  # type: ignore[arg-type]
        (GuidanceProviderConfig(DoomLoopBreaker(), Mine()), "the class Mine"),  # type: ignore[arg-type]
        (GuidanceProviderConfig(ParallelToolReminder(sequential_threshold=5)), "parameters of Parallel"),
        (GuidanceProviderConfig(DoomLoopBreaker(), max_per_turn=1), "max_per_turn"),
        ("doom_loop_breaker", "not a str"),
    ],
)
def test_a_provider_that_no_policy_can_hold_is_refused_by_name(provider: Any, named: str) -> None:
    with pytest.raises(ConfigError, match=named) as raised:
        GuidancePolicy(providers=(provider,))
    assert raised.value.hint


@pytest.mark.parametrize(
    ("table", "hint"),
    [
        ("[tiers]\nconfidence = 0.7", "verify = { margin"),
        ('[tiers]\nclassifier = "small"', 'verify = { model = "…" }'),
        ('[tiers]\nfallback = ["small"]', "each other's fallback"),
        ('[domains]\ndisabled_domains = ["coding"]', "profiles = DIR"),
        ("[domains]\nmomentum_threshold = 3", "cannot be set"),
        ("[guidance]\ndoom_loop = 3", "loop_repetitions"),
        ("[guidance]\nstall_threshold = 5", "stall"),
        ('[[guidance.providers]]\nclassifier = "doom_loop"\ntext = "x"\nmax_per_turn = 3', "one text"),
    ],
)
def test_a_key_of_a_founding_document_is_shown_its_place(tmp_path: Path, table: str, hint: str) -> None:
    file = tmp_path / "pointsman.toml"
    file.write_text(table + "\n")
    with pytest.raises(ConfigError) as raised:
        load(file, {})
    assert hint in raised.value.hint


@pytest.mark.parametrize("ask", ["decide", "explain"])
def test_a_format_that_there_is_not_is_named_beside_those_there_are(ask: str) -> None:
    with (
        Pointsman() as points,
        pytest.raises(ValueError, match='"openai" is none of chat, responses, messages'),
    ):
        getattr(points, ask)("Hello", format="openai")
