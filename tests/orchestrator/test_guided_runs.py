"""Guidance inside runs: the steps of a stuck run reach it, and its hint the node that plans."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pointsman import Pointsman
from pointsman.capabilities import CapabilityRegistry, SelectionPolicy, Strategy, capability
from pointsman.cli import app
from pointsman.decision.decision import Decision, run_of
from pointsman.guidance import Arm
from pointsman.orchestrator import Agent, Application
from pointsman.orchestrator._tiered_model import TieredModel
from pointsman.orchestrator.langgraph import build_graph, new_turn
from pointsman.orchestrator.machine import ClassifiedError, ErrorSeverity, Limits, RetryPolicy
from pointsman.orchestrator.progress import conversation_of, refused, succeeded, with_step
from pointsman.testing import ScriptedModel
from pointsman.vocabulary import AgentRole, Prompt

CONFIG = """
[upstreams.main]
base_url = "http://127.0.0.1:1/v1"
[models]
small = { upstream = "main", id = "small-1" }
large = { upstream = "main", id = "large-1" }
[tiers]
simple = "small"
reasoning = "large"
[ledger]
path = "ledger.sqlite"
[domains]
mode = "on"
[capabilities]
file = "capabilities.json"
strategy = "local"
{more}
[guidance]
control = 0.0
"""
CAPABILITIES = [
    {
        "name": "act",
        "instructions": "Open and repair the configuration file",
        "examples": [{"query": "Repair config.yaml"}, {"query": "Fix the configuration"}],
    },
    {"name": "mail", "instructions": "Send e-mail", "examples": [{"query": "Email Ida"}]},
]
TASK = "Please fix this bug: the configuration file of the API cannot be opened"
PATIENT = Limits(
    max_planning_attempts=8, max_reclassifications=0, default_policy=RetryPolicy(0, 0.0), max_steps=60
)


def said(prompt: Prompt) -> str:
    if "Plan how" in prompt.system:
        return json.dumps({"steps": [{"capability": "act", "context_key": "done", "task_objective": "go"}]})
    return '{"is_match": true}' if "one capability" in prompt.system else "fine"


def written(folder: Path, guidance: str = 'mode = "on"', more: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "capabilities.json").write_text(json.dumps(CAPABILITIES))
    file = folder / "pointsman.toml"
    file.write_text(CONFIG.replace("{more}", more) + guidance)
    return file


class Stuck:
    """A run whose only capability fails ``times`` times in the same way."""

    def __init__(self, folder: Path, guidance: str = 'mode = "on"', *, times: int = 7) -> None:
        file = written(folder, guidance)
        self.pointsman = Pointsman.from_config(file)
        self.small, self.large = ScriptedModel(said), ScriptedModel(said)
        left = [None] * times

        async def act(step: Any, results: Any) -> str:
            if left:
                left.pop()
                raise ClassifiedError(ErrorSeverity.REPLANNING, "cannot open config.yaml: no such file")
            return "done"

        model = TieredModel(self.pointsman.runtime, {"small": self.small, "large": self.large})
        registry = CapabilityRegistry([capability("act", "Activate for every action")(act)])
        policy = SelectionPolicy(strategy=Strategy.LLM)
        made = Application(registry, model, policy=policy, limits=PATIENT)
        self.application = self.pointsman.application(made)

    def run(self, task: str = "act") -> dict[str, Any]:
        return asyncio.run(Agent(self.application).run(task, session="s"))

    def graph(self, task: str = "act") -> dict[str, Any]:
        return dict(asyncio.run(build_graph(self.application).ainvoke(new_turn(task, session="s"))))

    @property
    def plans(self) -> list[str]:
        """The questions for a plan, as the models got them."""
        both = [*self.small.asked, *self.large.asked]
        return [prompt.text for prompt in both if "Plan how" in prompt.system]

    @property
    def decisions(self) -> list[Decision]:
        """Those of the plans."""
        found = self.pointsman.runtime.ledger.decisions(session="s", newest_first=False, limit=None)
        return [each for each in found if run_of(each)[1] == "orchestrator"]


@pytest.fixture
def stuck(tmp_path: Path) -> Iterator[Callable[..., Stuck]]:
    made: list[Stuck] = []

    def make(*args: Any, **kwargs: Any) -> Stuck:
        made.append(Stuck(tmp_path, *args, **kwargs))
        return made[-1]

    yield make
    for each in made:
        each.pointsman.close()


Make = Callable[..., Stuck]


@pytest.mark.parametrize("langgraph", [False, True])
def test_a_stuck_run_gets_a_hint_at_the_node_that_plans(stuck: Make, langgraph: bool) -> None:
    trial = stuck()
    state = trial.graph() if langgraph else trial.run()
    assert state["control_outcome"] == "respond"
    spoke = [decision for decision in trial.decisions if decision.guidance and decision.guidance.firing]
    assert spoke
    first = spoke[0]
    assert first.guidance is not None
    assert first.guidance.firing is not None
    assert (first.guidance.arm, first.guidance.firing.delivered) == (Arm.TREATED, True)
    assert [len(decision.input.steps) for decision in trial.decisions[:4]] == [0, 1, 1, 1]
    assert {decision.input.role for decision in trial.decisions} == {AgentRole.SUBAGENT}
    at = trial.decisions.index(first)
    assert trial.plans[:at] == ["act"] * at
    assert trial.plans[at].startswith("act\n\n")
    assert trial.plans[at + 1].startswith(trial.plans[at])  # a hint stays at its place


def test_a_run_that_goes_well_gets_none(stuck: Make) -> None:
    trial = stuck(times=0)
    trial.run()
    assert trial.plans == ["act"]
    [decision] = trial.decisions
    assert decision.guidance is not None
    assert not decision.guidance.firings


@pytest.mark.parametrize("guidance", ['mode = "observe"', 'mode = "off"'])
def test_nothing_is_added_where_guidance_only_observes_or_is_off(stuck: Make, guidance: str) -> None:
    trial = stuck(guidance)
    trial.run()
    assert set(trial.plans) == {"act"}
    fired = [decision for decision in trial.decisions if decision.guidance and decision.guidance.firings]
    assert bool(fired) == ("observe" in guidance)


def test_a_stuck_run_is_planned_by_a_model_of_the_next_tier(stuck: Make) -> None:
    trial = stuck('mode = "on"\nescalate = ["raise_tier"]')
    trial.run()
    assert any("Plan how" in prompt.system for prompt in trial.large.asked)
    raised = [any(r.code == "guidance.raise-tier" for r in each.reasons) for each in trial.decisions]
    assert raised == sorted(raised)
    assert True in raised


def test_guidance_may_end_a_run_and_the_person_is_told_why(stuck: Make) -> None:
    trial = stuck('mode = "on"\nescalate = ["stop"]')
    state = trial.run()
    assert state["control_outcome"] == "error"
    assert "stuck and was stopped" in state["response"]
    last = trial.decisions[-1]
    assert last.guidance is not None
    assert last.guidance.stop
    assert not trial.pointsman.runtime.ledger.attempts(last.id)


def replayed(ledger: Path, policy: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What ``pointsman replay --json`` prints: its lines, and the summary."""
    result = CliRunner().invoke(app, ["replay", str(ledger), "--policy", str(policy), "--json"])
    assert result.exit_code == 0, result.output
    *lines, last = map(json.loads, result.stdout.splitlines())
    return lines, last["summary"]


def test_runs_are_replayed_without_a_change_and_their_selections_stand_under_another_policy(
    stuck: Make, tmp_path: Path
) -> None:
    trial = stuck()
    for task in (TASK, "now email Ida that it is repaired", "thanks"):
        trial.run(task)
    trial.pointsman.close()
    ledger = tmp_path / "ledger.sqlite"
    lines, summary = replayed(ledger, tmp_path / "pointsman.toml")
    assert any(line["then"]["guidance"] for line in lines)
    assert (summary["turns"], summary["replayed"], summary["changed"]) == (len(lines), len(lines), {})
    other = written(tmp_path / "other", more="threshold = 0.999")
    _, summary = replayed(ledger, other)
    assert summary["changed"] == {}  # a run's selections are its own: docs/notebook/0136


def parts(decision: Decision) -> dict[str, Any]:
    """The four parts, and what follows from them."""
    names = ("policy", "tier", "domains", "guidance", "capabilities", "chain", "injections", "refused")
    return {name: getattr(decision, name) for name in names}


def test_a_stuck_run_is_decided_alike_under_asyncio_under_langgraph_and_in_the_library(
    stuck: Make, tmp_path: Path
) -> None:
    plain = stuck()
    state = plain.run(TASK)
    decided = [parts(decision) for decision in plain.decisions]
    everything = [parts(each) for each in plain.pointsman.runtime.ledger.decisions(limit=None)]
    plain.pointsman.close()
    (tmp_path / "ledger.sqlite").unlink()
    graph = stuck()
    graph.graph(TASK)
    assert [parts(each) for each in graph.pointsman.runtime.ledger.decisions(limit=None)] == everything
    graph.pointsman.close()
    (tmp_path / "ledger.sqlite").unlink()
    with Pointsman.from_config(tmp_path / "pointsman.toml") as library:
        for number in range(len(decided)):
            steps = {"capability_steps": state["capability_steps"][:number]}
            library.decide({"messages": conversation_of(TASK, steps)}, session="s:orchestrator")
        asked = [parts(each) for each in library.runtime.ledger.decisions(newest_first=False)]
    alone = [{**each, "capabilities": None} for each in decided]
    assert [{**each, "capabilities": None} for each in asked] == alone  # the run's selection is its own
    assert all(decided[-1][name] is not None for name in ("tier", "domains", "guidance", "capabilities"))
    assert any(each["guidance"].firing for each in decided)


def test_the_steps_of_a_run_are_bounded_and_a_refusal_is_no_failure() -> None:
    state: dict[str, Any] = {}
    for number in range(130):
        update = {"capability_context_data": {"k": {"capability": "act", "value": f"{number} " + "x" * 900}}}
        state |= succeeded(state, "act", update, 0.0)
    state |= refused(state, "act")
    assert len(state["capability_steps"]) == 100
    messages = conversation_of("go", state)
    assert len(messages) == 201
    assert messages[-1]["content"] == "Error: declined by the user"
    assert max(len(each["content"] or "") for each in messages) == 500
    assert messages[-3]["content"].startswith("129 ")
    assert with_step(state, "classifier", "no", failed=True) == {}
