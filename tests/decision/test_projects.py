"""The tier of a project: where it counts, what is observed, exploration, and replay."""

import msgspec
import pytest

from pointsman import Pointsman, project_key
from pointsman.decision.engine import Decided, Engine
from pointsman.decision.memory import Memory
from pointsman.decision.policy import Policy
from pointsman.drivers import drive, no_model
from pointsman.errors import ConfigError
from pointsman.factory import build_engine
from pointsman.tiers import ProjectPolicy, builtin_profile, read_projects
from pointsman.tiers.projects import Cell, Projects, cell_name
from pointsman.vocabulary import AgentRequest, AgentRole, Mode, ModelSpec, Purpose, Stage, Tier, WireFormat
from pointsman.wire.request import read_request

MODELS = {name: ModelSpec(name, "main", f"v-{name}") for name in ("small", "large")}
TIERS = {Tier.SIMPLE: "small", Tier.COMPLEX: "large"}
PROOF = (
    "Prove by induction, step by step, that the square root of 2 is irrational; derive every lemma formally."
)
CELLS = {
    cell_name("p-easy"): Cell(80, {}, {"simple": 0.97}, "simple"),
    cell_name("p-hard"): Cell(80, {}, {"simple": 0.1, "complex": 0.99}, "complex"),
    cell_name("p-hard", role="subagent"): Cell(40, {}, {"simple": 0.95}, "simple"),
    cell_name(project_key("", "the|shop")): Cell(80, {}, {"complex": 0.99}, "complex"),
    cell_name("p-unknown"): Cell(3, {}, {"simple": 0.6}),
}
FOUND = Projects(target=0.9, keep=True, certainty=0.9, made_at=0.0, cells=CELLS)


def engine(mode: Mode = Mode.ON, explore: float = 0.0) -> Engine:
    projects = ProjectPolicy(projects=FOUND, mode=mode, explore=explore)
    policy = Policy(profile=builtin_profile("default"), models=MODELS, tier_models=TIERS, projects=projects)
    return build_engine(policy)


def asking(project: str, text: str, session: str = "s", model: str = "auto", **more: object) -> AgentRequest:
    body = {"model": model, "messages": [{"role": "user", "content": text}]}
    request = read_request(WireFormat.CHAT, body, session=session)
    return msgspec.structs.replace(request, project=project, role=AgentRole.MAIN, **more)


def decide(by: Engine, request: AgentRequest, memory: Memory | None = None) -> Decided:
    return drive(by.decide(request, memory or Memory(), "d"), no_model)


@pytest.mark.parametrize(
    ("project", "text", "more", "model"),
    [
        ("p-easy", PROOF, {}, "small"),
        ("p-hard", "hello", {}, "large"),
        ("p-hard", "hello", {"purpose": Purpose.TOOL_ITERATION}, "large"),
        ("p-hard", PROOF, {"role": AgentRole.SUBAGENT, "purpose": Purpose.MESSAGE}, "small"),
        ("p-unknown", PROOF, {}, "large"),
        ("p-other", "hello", {}, "small"),
        ("", "hello", {}, "small"),
        ("p-hard", "hello", {"model": "small"}, "small"),  # a model asked for by name
        ("p-easy", "hello", {"model": "complex"}, "large"),
        ("p-hard", "hello", {"role": AgentRole.HELPER, "purpose": Purpose.TITLE}, "small"),
    ],
)
def test_where_the_tier_of_a_project_counts(
    project: str, text: str, more: dict[str, object], model: str
) -> None:
    given = dict(more)
    named = str(given.pop("model", "auto"))
    request = msgspec.structs.replace(asking(project, text, model=named), **given)
    assert decide(engine(), request).decision.chain[0] == model


def test_the_decision_says_what_it_knows() -> None:
    decision = decide(engine(), asking("p-easy", PROOF)).decision
    assert decision.tier is not None
    assert decision.tier.stage is Stage.PROJECT
    said = {reason.code: reason.detail for reason in decision.reasons}["projects.tier"]
    assert said == (
        "SIMPLE reaches 0.9 of the best tier's success with probability 0.97, by "
        "80 outcomes of its own and 10 borrowed of each model"
    )


def test_observing_changes_nothing() -> None:
    decision = decide(engine(Mode.OBSERVE), asking("p-easy", PROOF)).decision
    assert decision.chain[0] == "large"
    assert "projects.observe" in {reason.code for reason in decision.reasons}


def test_exploration_is_a_share_of_messages_and_the_same_in_a_replay() -> None:
    by = engine(explore=0.25)
    decisions = [decide(by, asking("p-hard", "hello", f"s{n}")).decision for n in range(200)]
    explored = [each for each in decisions if each.reasons[0].code == "projects.explore"]
    assert 30 <= len(explored) <= 70
    assert {each.chain[0] for each in explored} == {"small"}
    for then in decisions[:20]:
        again = drive(by.decide(by.reader.recall(then, Memory()), Memory(), "d"), no_model).decision
        assert again.chain == then.chain


def test_a_file_is_read_or_refused() -> None:
    assert read_projects(msgspec.json.encode(FOUND), "f") == FOUND
    for data in (b"{}", b"[", msgspec.json.encode(msgspec.structs.replace(FOUND, format=2))):
        with pytest.raises(ConfigError, match="f"):
            read_projects(data, "f")


SHOP = project_key("", "/home/a/shop")


def test_a_program_names_its_project() -> None:
    with Pointsman(engine().policy) as pointsman:
        assert pointsman.decide("hello", project="the|shop").chain[0] == "large"
        assert pointsman.decide("hello").chain[0] == "small"
        for name, key in (("/home/a/shop", SHOP), ("/home/a/shop/", SHOP), (SHOP, SHOP)):
            assert pointsman.explain("hello", project=name).decision.input.project == key
        assert pointsman.decide("hello", project="SECRET").input.project.startswith("p-")
