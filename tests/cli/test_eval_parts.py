"""``pointsman eval domains``, ``capabilities``, ``guidance``: figures with intervals, beside baselines."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from pointsman.cli import app
from pointsman.errors import ConfigError
from pointsman.learning.capabilities import Labelled
from pointsman.learning.intervals import wilson
from pointsman.learning.metrics import ratio_interval

TASKS = {
    "weather": ["will it rain today", "is it sunny in Rome", "how warm is it outside", "does it snow in May"],
    "clock": ["what time is it", "what is the time in Rome", "how late is it now", "tell me the hour"],
    "mail": [
        "send an email to Ben",
        "write a mail to my boss",
        "reply to the letter",
        "email the report to Ann",
    ],
}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["eval", *arguments])


def written(file: Path, rows: list[dict[str, Any]]) -> str:
    file.write_text("\n".join(map(json.dumps, rows)))
    return str(file)


def tasks(split: bool = True) -> list[dict[str, Any]]:
    rows = [
        {"text": text, "label": name, **({"split": "val" if at == 0 else "train"} if split else {})}
        for name, texts in TASKS.items()
        for at, text in enumerate(texts)
    ]
    return [*rows, {"text": "prove the theorem", "label": "oos", **({"split": "oos_val"} if split else {})}]


def dialogues(count: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for number in range(count):
        words = (
            "Investigate the filings",
            "yes, go on" if number % 3 else "hello there",
            "Now plan the sprint",
        )
        names = ("investigation", "investigation", "planning")
        rows += [
            {"dialogue_id": str(number), "turn": at, "text": text, "domain": name, "switch": at == 2}
            for at, (text, name) in enumerate(zip(words, names, strict=True))
        ]
    return rows


@pytest.mark.slow
def test_domains_have_an_interval_for_every_figure(tmp_path: Path) -> None:
    file = written(tmp_path / "turns.jsonl", dialogues(30))
    rows = json.loads(run("domains", file, "--json").stdout)["rows"]
    assert [row["strategy"] for row in rows] == [
        "no memory",
        "seed momentum as given",
        "carry-on-null",
        "default",
    ]
    for row in rows:
        assert {"accuracy", "switch_accuracy", "changes", "missed", "coverage"} <= set(row["intervals"])
        for field, (low, high) in row["intervals"].items():
            assert low <= row[field] <= high
    assert " .. " in run("domains", file).stdout
    again = json.loads(run("domains", file, "--json").stdout)["rows"]
    assert again == rows


def test_whole_dialogues_are_drawn() -> None:
    """Ten turns that are always alike say as much as one."""
    low, high = ratio_interval([(10.0, 10), (0.0, 10)] * 20)
    alone_low, alone_high = ratio_interval([(1.0, 1), (0.0, 1)] * 20)
    assert (low, high) == (alone_low, alone_high)
    tight_low, tight_high = ratio_interval([(1.0, 1), (0.0, 1)] * 200)
    assert tight_high - tight_low < (high - low) / 2


def test_figures_that_are_all_right_have_an_interval(tmp_path: Path) -> None:
    """Of four dialogues, and of four tasks: both printed an interval from 1 to 1."""
    low, high = ratio_interval([(3.0, 3)] * 4)
    assert low == pytest.approx(wilson(4, 4)[0])
    assert high == 1.0
    delays = ratio_interval([(4.0, 1), (0.0, 1)])  # no share: turns until a label is right
    assert delays == (0.0, 4.0)

    rows = [
        {"task": f"{word} to {name}", "capabilities": [word], "split": "test" if name == "ida" else "train"}
        for word in ("mail", "rain")
        for name in ("bob", "ida", "kim")
    ]
    file = written(tmp_path / "tasks.jsonl", rows)
    found = json.loads(run("capabilities", file, "--json").stdout)["rows"]
    own = next(row for row in found if row["selector"] == "pointsman")
    assert own["first"] == {"value": 1.0, "low": pytest.approx(wilson(2, 2)[0]), "high": 1.0}


def test_capabilities_beside_their_baselines(tmp_path: Path) -> None:
    file = written(tmp_path / "tasks.jsonl", tasks())
    found = json.loads(run("capabilities", file, "--json").stdout)
    rows = {row["selector"]: row for row in found["rows"]}
    assert list(rows) == ["pointsman", "TF-IDF", "majority", "random"]
    assert {row["n"] for row in rows.values()} == {3}
    assert rows["random"]["first"]["value"] == pytest.approx(1 / 3)
    assert rows["majority"]["first"]["value"] == pytest.approx(1 / 3)
    assert rows["pointsman"]["first"]["value"] >= rows["majority"]["first"]["value"]
    assert found["selected"]["tasks"] == 4
    assert found["selected"]["rejected"] in {0, 1}
    shown = run("capabilities", file, "--examples", "2").stdout
    assert "3 capabilities, up to 2 examples each" in shown
    assert "nothing selected where nothing serves" in shown


def test_without_a_split_one_task_in_five_is_judged(tmp_path: Path) -> None:
    rows = [
        {**row, "text": f"{word} {row['text']}"}
        for row in tasks(split=False)
        for word in ("now", "then", "well", "so", "please", "hello", "quick", "friend")
    ]
    judged = [row["text"] for row in rows if Labelled(text=row["text"]).judged]
    assert len(rows) / 10 < len(judged) < len(rows) / 3
    file = written(tmp_path / "tasks.jsonl", rows)
    assert json.loads(run("capabilities", file, "--json").stdout)["selected"]["tasks"] == len(judged)


def test_descriptions_name_capabilities_that_no_task_needs(tmp_path: Path) -> None:
    file = written(tmp_path / "tasks.jsonl", tasks())
    about = tmp_path / "about.json"
    about.write_text('{"weather": "rain and sun", "music": "plays songs"}')
    found = json.loads(run("capabilities", file, "--descriptions", str(about), "--json").stdout)
    assert found["capabilities"] == 4
    about.write_text("[]")
    assert "not descriptions by name" in str(
        run("capabilities", file, "--descriptions", str(about)).exception
    )
    assert "cannot be read" in str(
        run("capabilities", file, "--descriptions", str(tmp_path / "no")).exception
    )


@pytest.mark.parametrize(
    ("row", "needed"),
    [
        ({"task": "t", "capabilities": ("a", "b")}, {"a", "b"}),
        ({"text": "t", "label": "a"}, {"a"}),
        ({"text": "t", "label": "oos"}, set()),
        ({"query": "t", "tool": "a"}, {"a"}),
        ({"query": "t", "tool": ("a", "b")}, {"a", "b"}),
        ({"task": "t", "capabilities": ()}, set()),
    ],
)
def test_labels_of_every_public_set_are_read(row: dict[str, Any], needed: set[str]) -> None:
    assert Labelled(**row).words == "t"
    assert Labelled(**row).needed == needed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there are no tasks"),
        ('{"label": "a"}', 'tasks.jsonl:1: a line needs a "task"'),
        ('{"text": 3}', "tasks.jsonl:1: Expected `str`"),
        ('{"text": "x", "label": "oos", "split": "val"}', "no labelled task is left to judge"),
    ],
)
def test_files_that_cannot_be_measured(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "tasks.jsonl").write_text(text)
    error = run("capabilities", str(tmp_path / "tasks.jsonl")).exception
    assert isinstance(error, ConfigError)
    assert message in str(error)


STEP = {"tool": "ls", "args": "x", "args_len": 1, "res": "r", "res_len": 1, "err": True, "err_sig": "e"}
STUCK = {"id": "1", "source": "a", "success": False, "steps": [{"turn": at, **STEP} for at in range(6)]}


def test_guidance_by_source_with_intervals(tmp_path: Path) -> None:
    file = written(tmp_path / "runs.jsonl", [STUCK, {**STUCK, "id": "2", "steps": [{"turn": 0, **STEP}]}])
    rows = {row["rule"]: row for row in json.loads(run("guidance", file, "--json").stdout)["rows"]}
    assert rows["policy"]["fired"] == rows["same call three times"]["fired"] == 1
    assert (rows["policy"]["low"], rows["policy"]["high"]) == pytest.approx((0.095, 0.905), abs=0.01)
    assert "1 (50.0%, 9.5% .. 90.5%)" in run("guidance", file).stdout


def test_a_malformed_run_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    file.write_text(json.dumps(STUCK) + '\n{"id": "2"}')
    result = run("guidance", str(file))
    assert result.exit_code == 1
    assert "runs.jsonl:2: a run needs either" in result.stderr
    assert "policy" in result.stdout
