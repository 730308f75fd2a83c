"""Public sets from a loopback server and from a folder; predictions as RouterArena's checker wants them."""

import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from pointsman.errors import ConfigError, PointsmanError
from pointsman.learning.datasets import PromptOutcome, read_outcomes
from support.benchmarks import benchmark

DATASETS, ROUTERARENA = benchmark("public_sets"), benchmark("routerarena")
SETS = DATASETS.SETS

HEAD = "prompt,mixtral-8x7b-instruct-v0.1,gpt-4-1106-preview"
CONTENT = {
    "routellm-gsm8k": f'{HEAD},more\n"Two\nlines, and a comma",True,False,x\nsecond,False,True,y\n',
    "clinc150": '{"train": [["say hello in French", "translate"]], "oos_val": [["how high is up", "oos"]]}',
    "banking77": 'text,category\n"Where, please, is my card?",card_arrival\n',
    "metatool": "Query,Tool\nfind me a paper,ResearchFinder\n",
}
ROWS: dict[str, list[dict[str, Any]]] = {
    "routellm-gsm8k": [
        {
            "bench": "gsm8k",
            "domain": "gsm8k",
            "prompt": "Two\nlines, and a comma",
            "weak": True,
            "strong": False,
        },
        {"bench": "gsm8k", "domain": "gsm8k", "prompt": "second", "weak": False, "strong": True},
    ],
    "clinc150": [
        {"text": "say hello in French", "label": "translate", "split": "train"},
        {"text": "how high is up", "label": "oos", "split": "oos_val"},
    ],
    "banking77": [
        {"text": "Where, please, is my card?", "label": "card_arrival", "split": "train"},
        {"text": "Where, please, is my card?", "label": "card_arrival", "split": "test"},
    ],
    "metatool": [{"query": "find me a paper", "tool": "ResearchFinder"}],
}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in CONTENT.items():
        for file in SETS[name].files:
            place = tmp_path / "sets" / file
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(content, encoding="utf-8")
    return tmp_path / "sets"


@pytest.fixture
def address(folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def run(name: str, *arguments: str) -> Result:
    app = {"datasets": DATASETS.app, "export": ROUTERARENA.app}[name]
    return CliRunner().invoke(app, arguments)


@pytest.mark.parametrize("name", CONTENT)
def test_a_set_becomes_the_lines_its_command_reads(
    name: str, folder: Path, address: str, tmp_path: Path
) -> None:
    for place in (str(folder), address, f"{address}/"):
        out = tmp_path / "set.jsonl"
        result = run("datasets", "--get", name, "--from", place, "--out", str(out))
        assert result.exit_code == 0, result.output
        assert [json.loads(line) for line in out.read_text().splitlines()] == ROWS[name]
        assert SETS[name].licence in result.stdout


def test_subjects_are_domains(folder: Path, tmp_path: Path) -> None:
    mmlu = SETS["routellm-mmlu"]
    assert len(mmlu.files) == 57
    for file in mmlu.files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(f"{HEAD}\nq,False,True\n")
    out = tmp_path / "set.jsonl"
    assert run("datasets", "--get", "routellm-mmlu", "--from", str(folder), "--out", str(out)).exit_code == 0
    assert read_outcomes(out)[0] == PromptOutcome("q", 0.0, 1.0, "abstract_algebra", "mmlu")


def test_the_list_names_origin_and_licence_and_fetches_nothing() -> None:
    shown = run("datasets").stdout
    for each in SETS.values():
        assert f"{each.name} " in shown
        assert each.repository in shown
    assert [row["name"] for row in json.loads(run("datasets", "--json").stdout)["rows"]] == list(SETS)


def test_what_cannot_be_had_names_the_place_and_the_way_out(
    folder: Path, address: str, tmp_path: Path
) -> None:
    out = ["--out", str(tmp_path / "x")]
    (folder / "data" / "data_full.json").unlink()
    missing = run("datasets", "--get", "clinc150", "--from", address, *out).exception
    assert isinstance(missing, PointsmanError)
    assert f"cannot fetch {address}/data/data_full.json: File not found" in str(missing)
    assert "git clone" in missing.hint
    closed = run("datasets", "--get", "clinc150", "--from", "http://127.0.0.1:9", *out).exception
    assert "cannot fetch http://127.0.0.1:9/data/data_full.json: " in str(closed)
    absent = run("datasets", "--get", "clinc150", "--from", str(folder), *out).exception
    assert "cannot read" in str(absent)
    (folder / "data" / "data_full.json").write_text("[]")
    wrong = run("datasets", "--get", "clinc150", "--from", str(folder), *out).exception
    assert "are not those of clinc150" in str(wrong)
    assert "known are routellm-mmlu" in run("datasets", "--get", "nothing").exception.hint  # type: ignore[union-attr]
    assert not (tmp_path / "x").exists()


CONFIG = """
[upstreams.main]
base_url = "http://127.0.0.1:9/v1"
[models.small]
upstream = "main"
id = "gpt-4o-mini"
[models.large]
upstream = "main"
id = "claude-3-haiku-20240307"
[tiers]
simple = "small"
complex = "large"
"""

SET = [
    {
        "global index": "AIME_112",
        "prompt_formatted": "prove step by step, then design a distributed database é",
    },
    {"global index": "ArcMMLU_12", "prompt": "hello"},
]


def checked(predictions: list[dict[str, Any]], config: dict[str, Any], wanted: list[dict[str, str]]) -> None:
    """The checks of RouterArena's own checker, in our words."""
    assert len([each for each in predictions if not each.get("for_optimality", False)]) == len(wanted)
    prompts = {each["global index"]: each.get("prompt_formatted") or each.get("prompt") for each in wanted}
    for each in predictions:
        assert each["prompt"] == prompts[each["global index"]]
        assert each["prediction"] in config["pipeline_params"]["models"]


@pytest.mark.parametrize("suffix", ["", "-robustness"])
def test_predictions_pass_the_checks_of_routerarena(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "pointsman.toml").write_text(CONFIG)
    (tmp_path / "router_data.json").write_text(json.dumps(SET))
    result = run(
        "export",
        str(tmp_path / "router_data.json"),
        "--router",
        "pointsman",
        "--out",
        str(tmp_path / "router_inference"),
        "--config",
        str(tmp_path / "pointsman.toml"),
        *(["--robustness"] if suffix else []),
    )
    assert result.exit_code == 0, result.output
    config = json.loads((tmp_path / "router_inference/config/pointsman.json").read_text())
    text = (tmp_path / f"router_inference/predictions/pointsman{suffix}.json").read_text(encoding="utf-8")
    assert config == {
        "pipeline_params": {
            "router_name": "pointsman",
            "models": ["gpt-4o-mini", "claude-3-haiku-20240307"],
        }
    }
    predictions = json.loads(text)
    checked(predictions, config, SET)
    assert list(predictions[0]) == [
        "global index",
        "prompt",
        "prediction",
        "generated_result",
        "cost",
        "accuracy",
        "for_optimality",
    ]
    assert [each["prediction"] for each in predictions] == ["claude-3-haiku-20240307", "gpt-4o-mini"]
    assert "é" in text
    assert text.startswith("[\n  {\n    ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", "not a set of RouterArena"),
        ('[{"prompt": "p"}]', "not a set of RouterArena"),
        ('[{"global index": "a"}]', "entry 1 has no prompt"),
    ],
)
def test_a_file_that_is_no_set(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "pointsman.toml").write_text(CONFIG)
    (tmp_path / "set.json").write_text(content)
    names = ["--router", "r", "--out", str(tmp_path), "--config", str(tmp_path / "pointsman.toml")]
    error = run("export", str(tmp_path / "set.json"), *names).exception
    assert isinstance(error, ConfigError)
    assert message in str(error)
    assert "cannot be read" in str(run("export", str(tmp_path / "absent.json"), *names).exception)


def test_a_policy_without_models_predicts_nothing(tmp_path: Path) -> None:
    (tmp_path / "pointsman.toml").write_text("[tiers]\n")
    (tmp_path / "set.json").write_text(json.dumps(SET))
    names = ["--router", "r", "--out", str(tmp_path), "--config", str(tmp_path / "pointsman.toml")]
    assert "no model is named" in str(run("export", str(tmp_path / "set.json"), *names).exception)
