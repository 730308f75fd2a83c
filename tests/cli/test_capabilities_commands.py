"""``pointsman select``, ``capabilities`` and ``run``, as a person runs them."""

import asyncio
import json
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from pointsman import Pointsman
from pointsman.capabilities import LocalScorer, Selector
from pointsman.cli import app
from pointsman.cli.tasks import answer_lines
from pointsman.config import load
from pointsman.gateway.build import Builder
from pointsman.model_calls import ask_nobody
from pointsman.orchestrator import load_capabilities
from pointsman.runtime import Runtime
from pointsman.upstreams.port import DEMO_URL

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "assistant.py")
CAPABILITIES = [
    {
        "name": "weather",
        "instructions": "Activate when user requests weather information",
        "examples": [
            {"query": "What's the weather like?", "result": True, "reason": "Direct weather request"},
            {"query": "Will it rain tomorrow?", "result": True},
            {"query": "What time is it?", "result": False, "reason": "Time request, not weather"},
        ],
        "provides": [],
        "requires": ["PLACE"],
        "always_active": False,
    },
    {"name": "place", "instructions": "Find a town on the map", "provides": ["PLACE"]},
    {
        "name": "mail",
        "instructions": "Read and send e-mail",
        "examples": [{"query": "Email Ida", "result": True}],
    },
    {"name": "respond", "instructions": "ModelReply", "always_active": True},
]


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "capabilities.json"
    path.write_text(json.dumps(CAPABILITIES))
    return str(path)


def run(*arguments: str, lines: str = "") -> Result:
    return CliRunner().invoke(app, list(arguments), input=lines)


TASK = json.dumps({"id": 7, "task": "what is the weather like today"})


@pytest.mark.parametrize("encoder", ["none", "static"])
def test_select_writes_the_contracts_fields(file: str, encoder: str) -> None:
    result = run("select", "--capabilities", file, "--strategy", "local", "--encoder", encoder, lines=TASK)
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert list(answer) == ["id", "selected", "scores", "asked_model", "abstained"]
    assert answer["id"] == 7
    assert answer["selected"] == ["respond", "weather", "place"]
    assert list(answer["scores"]) == ["weather", "place", "mail"]
    assert answer["asked_model"] == []
    assert answer["abstained"] is None


def test_without_a_model_what_is_asked_is_unavailable(file: str) -> None:
    result = run("select", "--capabilities", file, "--strategy", "llm", lines=TASK)
    answer = json.loads(result.stdout)
    assert answer["asked_model"] == ["weather", "place", "mail"]
    assert answer["abstained"] == "unavailable: no-model"
    everything = run("select", "--capabilities", file, "--strategy", "llm", "--on-failure", "all", lines=TASK)
    assert len(json.loads(everything.stdout)["selected"]) == 4


def test_an_interrupt_is_heard_between_two_lines(file: str, tmp_path: Path) -> None:
    """Where no model is asked nothing waits, and what never waits cannot be cancelled."""
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text('{"task": "send the invoice"}\n' * 50, encoding="utf-8")
    registry = load_capabilities(Path(file))

    async def interrupted() -> None:
        running = asyncio.create_task(
            answer_lines(tasks, Selector(registry, LocalScorer(registry)), ask_nobody)
        )
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(interrupted())


def test_the_threshold_decides(file: str) -> None:
    def selected(threshold: str) -> list[str]:
        options = ("--capabilities", file, "--strategy", "local", "--threshold", threshold)
        return list(json.loads(run("select", *options, lines=TASK).stdout)["selected"])

    assert selected("0") == ["respond", "weather", "place", "mail"]
    assert selected("1") == ["respond"]


def test_a_malformed_line_does_not_stop_the_rest(file: str) -> None:
    result = run("select", "--capabilities", file, "--strategy", "local", lines=f'{{"id": 1}}\n\n{TASK}\n')
    bad, good = map(json.loads, result.stdout.splitlines())
    assert bad["error"]["line"] == 1
    assert good["id"] == 7
    assert result.exit_code == 1


def test_a_calibration_for_another_encoder_is_refused(file: str, tmp_path: Path) -> None:
    calibration = tmp_path / "calibration.json"
    calibration.write_text('{"index": "kernel/other", "slope": 1, "rival": 1, "intercept": 1}')
    result = run("select", "--capabilities", file, "--calibration", str(calibration), lines=TASK)
    assert 'for the index "kernel/other"' in str(result.exception)
    for text in ("[]", "nonsense"):
        calibration.write_text(text)
        assert run("select", "--capabilities", file, "--calibration", str(calibration), lines=TASK).exit_code
    assert run(
        "select", "--capabilities", file, "--calibration", str(tmp_path / "gone"), lines=TASK
    ).exit_code


def test_list_shows_order_and_version(file: str) -> None:
    listed = run("capabilities", "list", "--capabilities", file)
    assert listed.stdout.splitlines()[1].startswith("weather  3 examples")
    assert listed.stdout.splitlines()[-1].startswith("4 capabilities, version ")
    as_json = json.loads(run("capabilities", "list", "--capabilities", file, "--json").stdout)
    assert [row["name"] for row in as_json["capabilities"]] == ["weather", "place", "mail", "respond"]
    assert "0 capabilities" in run("capabilities", "list").stdout  # no installed package offers any here


def test_check_names_what_makes_selection_worse(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(
        json.dumps(
            [
                {
                    "name": "a",
                    "instructions": " ",
                    "examples": [{"query": "x"}, {"query": "X", "result": False}],
                },
                {"name": "b", "instructions": "b", "requires": ["MAP"], "examples": [{"query": "x"}]},
                {"name": "c", "instructions": "c", "always_active": True},
            ]
        )
    )
    result = run("capabilities", "check", "--capabilities", str(path))
    assert result.exit_code == 1
    findings = [line for line in result.stdout.splitlines() if ": " in line]
    assert findings[:6] == [
        "a: no instructions; say when it is needed",
        "a: 1 examples of when it is needed; 5 make scores reliable",
        "b: 1 examples of when it is needed; 5 make scores reliable",
        "b: requires MAP, which nothing provides; only the context can hold it",
        'a: "x" is an example both ways',
        'a, b: "x" is an example for each of them',
    ]
    path.write_text(json.dumps([{"name": "c", "instructions": "c", "always_active": True}]))
    assert run("capabilities", "check", "--capabilities", str(path)).exit_code == 0


#: The founding document's kind of registry: two capabilities with five examples each.
SMALL = [
    {
        "name": "current_weather",
        "instructions": "Activate when user requests weather information",
        "examples": [
            {"query": query}
            for query in (
                "What's the weather like?",
                "How is the weather in Rome?",
                "Will the weather be good tomorrow?",
                "Tell me the weather forecast",
                "Is the weather nice in Oslo?",
            )
        ],
    },
    {
        "name": "send_mail",
        "instructions": "Activate when user wants an e-mail sent",
        "examples": [
            {"query": query}
            for query in (
                "Send an e-mail to Ida",
                "Send Tom an e-mail about the meeting",
                "Write an e-mail to the office",
                "E-mail the report to my boss",
                "Please send this as an e-mail",
            )
        ],
    },
    {"name": "respond", "instructions": "Answer the user", "always_active": True},
]


def test_check_measures_the_registry_that_it_is_given(tmp_path: Path) -> None:
    path = tmp_path / "small.json"
    path.write_text(json.dumps(SMALL))
    good = run("capabilities", "check", "--capabilities", str(path))
    assert good.exit_code == 0, good.stdout
    assert [line.split()[:4] for line in good.stdout.splitlines()[1:3]] == [
        ["current_weather", "5", "of", "5"],
        ["send_mail", "5", "of", "5"],
    ]
    everything = run("capabilities", "check", "--capabilities", str(path), "--threshold", "0")
    assert everything.exit_code == 1
    assert "send_mail: 40 of 40 ordinary tasks select it, as " in everything.stdout
    nothing = run("capabilities", "check", "--capabilities", str(path), "--threshold", "1")
    assert "send_mail: 0 of its 5 examples select it when left out" in nothing.stdout


def test_a_small_registry_selects_nothing_for_ordinary_tasks(tmp_path: Path) -> None:
    """What was found: 13 of 20 ordinary tasks selected weather, mail or both."""
    (tmp_path / "small.json").write_text(json.dumps(SMALL))
    file = tmp_path / "pointsman.toml"
    file.write_text('[capabilities]\nfile = "small.json"\n')
    tasks = [
        "fix the failing test in parser.py",
        "What is the capital of Peru?",
        "refactor the login module",
        "explain how a hash table works",
        "Add type hints to the functions in utils.py",
    ]
    with Pointsman.from_config(file) as points:
        found = [points.select(task) for task in (*tasks, "how will the weather be in Bergen?")]
    assert [each.selected for each in found if each] == [("respond",)] * 5 + [("respond", "current_weather")]


def test_an_approval_that_nobody_can_give_says_so() -> None:
    """Standard input is closed, as in a pipeline."""
    result = run("run", "Email Ida that I am late", "--app", EXAMPLE)
    assert result.exit_code == 1
    assert "needs a person's approval, and standard input is closed; --yes approves" in result.output


def test_run_prints_the_answer_and_reports_the_way() -> None:
    result = run("run", "What is the weather like in Rome?", "--app", EXAMPLE)
    assert result.exit_code == 0
    assert "sunshine" in result.stdout
    assert "weather: step 2 of 3" in result.stderr


def test_run_asks_before_it_sends() -> None:
    refused = run("run", "Email Ida that I am late", "--app", EXAMPLE, lines="n\nn\n")
    assert refused.exit_code == 1
    assert "did not allow send_mail" in refused.stdout
    sent = run("run", "Email Ida that I am late", "--app", EXAMPLE, "--yes", "--json")
    assert json.loads(sent.stdout)["capability_context_data"]["send_mail"]["value"] == "sent"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the ledger of a command without a configuration is."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("task", "said"), [("What is 17 * 23?", "391"), ("What time is it now?", "20")])
def test_run_has_an_application_of_its_own(state: Path, task: str, said: str) -> None:
    result = run("run", task, "--session", "ida")
    assert (result.exit_code, said in result.stdout) == (0, True), result.output
    assert "no model can be asked" in result.stderr


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        ("", "[upstreams.openai] has formats responses, and a question takes chat, messages"),
        ("forward_auth = true", "[upstreams.openai] takes the caller's own credential"),
    ],
)
def test_a_run_whose_models_cannot_be_asked_says_why(
    state: Path, monkeypatch: pytest.MonkeyPatch, edit: str, why: str
) -> None:
    """As `config init` writes it for OpenAI: a model is configured, and another file would not help."""
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    assert run("config", "init").exit_code == 0
    if edit:
        file = state / "pointsman.toml"
        file.write_text(file.read_text().replace('api_key = "${OPENAI_API_KEY}"', edit))
        assert run("trust", "pointsman.toml", "--yes").exit_code == 0
    result = run("run", "/chat hello")
    assert f"no model can be asked, so results are repeated as they are: {why}" in result.stderr
    assert f"No capability applies, and no model can be asked: {why}" in result.stdout
    assert ('formats = ["chat"]' in result.stdout) is not bool(edit)
    assert "config init" not in result.output


def test_a_run_is_listed_and_shown(state: Path) -> None:
    assert run("run", "What is 17 * 23?", "--session", "ida").exit_code == 0
    listed = run("decisions", "list", "--session", "ida").stdout
    line = listed.splitlines()[1]
    assert line.split()[3] == "run"
    assert line.endswith(" task_extraction > classifier > orchestrator > calculate > respond > __end__")
    short = json.loads(run("decisions", "list", "--json").stdout)
    assert (short["session"], short["last"], short["retries"]) == ("ida", "routing.finished", 0)
    shown = run("decisions", "show", short["run"]).stdout
    assert "move to classifier: routing.no_selection: no capabilities selected yet" in shown
    assert "selected calculate (" in shown
    entries = json.loads(run("decisions", "show", short["run"], "--json").stdout)["entries"]
    assert [entry["number"] for entry in entries] == list(range(1, short["entries"] + 1))
    assert not run("decisions", "list", "--session", "nobody").stdout


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_run_asks_configured_models_and_is_shown_beside_its_decisions(state: Path, store: str) -> None:
    (state / "pointsman.toml").write_text(
        f'[upstreams.demo]\nbase_url = "{DEMO_URL}"\n[models.small]\nupstream = "demo"\nid = "small"\n'
        "input_per_million = 1.0\noutput_per_million = 2.0\n"
        f'[tiers]\nsimple = "small"\n[ledger]\npath = "l.sqlite"\n[sessions]\nstore = "{store}"\n'
        'path = "s.sqlite"\n'
    )
    result = run("run", "/chat hello", "--session", "ida")
    assert result.exit_code == 0, result.output
    assert "no model was called" in result.stdout
    kinds = [
        set(json.loads(line)) >= {"run", "way"}
        for line in run("decisions", "list", "--json").stdout.splitlines()
    ]
    assert sorted(kinds) == [False, True]
    session = json.loads(run("sessions", "show", "ida").stdout)
    [taken] = [found["usage"] for found in session["runs"]]
    assert (taken["questions"], taken["attempts"], taken["without_usage"]) == (1, 1, 0)
    assert min(taken["input_tokens"], taken["output_tokens"]) > 0
    shown = run("decisions", "show", session["runs"][0]["run"]).stdout
    assert f"1 questions, {taken['input_tokens']} tokens in and {taken['output_tokens']} out" in shown
    assert "; cost " in shown
    lines = [json.loads(line) for line in run("decisions", "export", "--runs").stdout.splitlines()]
    assert [set(line) & {"decision", "run"} for line in lines] == [{"decision"}, {"run"}]
    assert (lines[1]["usage"], lines[1]["session"]) == (taken, "ida")
    assert len(run("decisions", "export").stdout.splitlines()) == 1
    assert [found["way"] for found in session["runs"]] == [["respond", "__end__"]]
    assert ("turns" in session) == (store == "sqlite")
    assert run("sessions", "show", "nobody").exit_code


def test_a_configured_model_is_asked(file: str, tmp_path: Path) -> None:
    config = tmp_path / "pointsman.toml"
    config.write_text(
        f'[upstreams.demo]\nbase_url = "{DEMO_URL}"\n[models.small]\nupstream = "demo"\nid = "small"\n'
    )
    options = ("--capabilities", file, "--strategy", "llm", "--config", str(config))
    result = run("select", *options, "--model", "small", lines=TASK)
    assert result.exit_code == 0, result.exception
    answer = json.loads(result.stdout)
    # The demo upstream answers, but not what was asked for: that is no judgement.
    assert answer["abstained"] == "unavailable: the answer is neither JSON nor yes or no"
    assert 'no model "large"' in str(run("select", *options, "--model", "large", lines=TASK).exception)


def test_fit_capabilities_writes_what_select_reads(file: str, tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    rows = [
        {"task": f"is it raining in {town}", "capabilities": ["weather"]} for town in ("Rome", "Oslo", "Lima")
    ]
    rows += [{"task": f"write to {name}", "capabilities": ["mail"]} for name in ("Ida", "Ben", "Eva")]
    rows += [{"task": f"paint the {thing}"} for thing in ("wall", "door", "roof")]
    tasks.write_text("\n".join(map(json.dumps, rows)))
    out = tmp_path / "calibration.json"
    options = ("--capabilities", file, "--data", str(tasks), "--out", str(out))
    table = run("fit", "capabilities", *options)
    assert table.exit_code == 0, table.output
    assert "9 tasks; calibration written to" in table.stdout
    report = json.loads(run("fit", "capabilities", *options, "--json").stdout)
    assert report["after"]["tasks"] == 9
    selected = run(
        "select", "--capabilities", file, "--strategy", "local", "--calibration", str(out), lines=TASK
    )
    assert "weather" in json.loads(selected.stdout)["selected"]


def test_what_no_option_says_is_as_configured(file: str, tmp_path: Path) -> None:
    config = tmp_path / "pointsman.toml"
    config.write_text(
        f'[capabilities]\nfile = "{file}"\nthreshold = 1.0\nalways_active = ["mail"]\nbypass = false\n'
    )
    line = '{"id": 1, "task": "What\'s the weather like?"}\n'
    result = CliRunner().invoke(app, ["select", "--config", str(config)], input=line)
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert found["selected"] == ["mail", "respond"]
    assert (found["asked_model"], found["abstained"]) == ([], None)  # strategy local is the file's default
    lower = CliRunner().invoke(app, ["select", "--config", str(config), "--threshold", "0.01"], input=line)
    assert "weather" in json.loads(lower.output)["selected"]


def test_without_capabilities_select_says_where_to_name_them(tmp_path: Path) -> None:
    config = tmp_path / "pointsman.toml"
    config.write_text("")
    result = CliRunner().invoke(app, ["select", "--config", str(config)], input="")
    assert result.exit_code != 0
    assert "no capabilities are named" in str(result.exception)


def test_classify_selects_the_capabilities_of_a_configuration(file: str, tmp_path: Path) -> None:
    config = tmp_path / "pointsman.toml"
    config.write_text(f'[capabilities]\nfile = "{file}"\n')
    line = '{"id": 1, "text": "What\'s the weather like?"}\n'
    result = CliRunner().invoke(app, ["classify", "--config", str(config)], input=line)
    assert result.exit_code == 0, result.output
    part = json.loads(result.output)["capabilities"]
    assert part["selected"] == ["respond", "weather", "place"]
    assert part["scores"]["weather"] > part["scores"]["mail"]
    without = CliRunner().invoke(app, ["classify"], input=line)
    assert "capabilities" not in json.loads(without.output)


def test_explain_shows_what_is_selected_and_why(file: str, tmp_path: Path) -> None:
    config = tmp_path / "pointsman.toml"
    config.write_text(f'[capabilities]\nfile = "{file}"\n')
    asked = ["explain", "What's the weather like?", "--config", str(config)]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0, result.output
    assert "capabilities (strategy local): respond, weather, place" in result.output
    assert "capabilities.required: place provides PLACE for weather" in result.output
    plain = CliRunner().invoke(app, [*asked, "--json"])
    assert json.loads(plain.output)["capabilities"]["strategy"] == "local"


def test_the_gateway_select_and_run_read_the_configured_application(tmp_path: Path) -> None:
    config = tmp_path / "pointsman.toml"
    config.write_text(
        f'[upstreams.demo]\nbase_url = "{DEMO_URL}"\n[models]\nsmall = {{ upstream = "demo", id = "s" }}\n'
        '[tiers]\nsimple = "small"\n[ledger]\npath = "ledger.sqlite"\n'
        f'[capabilities]\nbypass = true\napplication = "{EXAMPLE}"\n'
    )
    result = run("select", "--config", str(config), lines=TASK)
    assert result.exit_code == 0, result.output
    names = ["find_place", "weather", "exchange_rate"]
    assert set(names) <= set(json.loads(result.stdout)["selected"])
    builder = Builder(partial(load, config))
    runtime = builder().runtime
    builder.close()
    assert isinstance(runtime, Runtime)
    policy = runtime.engine.policy.capabilities
    assert policy is not None
    assert set(names) <= {each.name for each in policy.registry.get_all_capabilities()}
    ran = run("run", "What is the weather like in Oslo?", "--config", str(config))
    assert "weather" in ran.stderr
