"""The hook under a policy: every part is decided at each event, recorded, and replayed without a change."""

import json
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from pointsman.capabilities import CapabilityPolicy, Strategy, parse_capabilities
from pointsman.cli import app
from pointsman.decision.decision import Decision
from pointsman.decision.policy import DomainPolicy, Policy
from pointsman.domains import default_domains
from pointsman.factory import build_engine, default_policy
from pointsman.guidance import DecisionPoint, GuidancePolicy, Mode, ProviderSpec
from pointsman.integrations.hooks import HookState, read_event
from pointsman.integrations.hooks.decisions import decide_event
from pointsman.model_calls import build_questions
from pointsman.reports.replay import Replay
from pointsman.runtime import Runtime
from pointsman.stores.ledger import MemoryLedger
from pointsman.stores.sessions import MemorySessions
from pointsman.tiers import EscalationPolicy, RoleTiers, Verification
from pointsman.vocabulary import AgentRole, ModelQuery, ModelReply, ModelSpec, Purpose, Stage, Tier
from pointsman.wire.project import project_key

FIX = "now fix this bug in the login function of the API"
UNSURE = "Compare the two plans of the city and say which costs less in ten years"
MODELS = {name: ModelSpec(name, "up", name) for name in ("small", "large")}
CAPABILITIES = json.dumps(
    [
        {"name": "weather", "instructions": "Weather", "examples": [{"query": "Will it rain?"}]},
        {"name": "code", "instructions": "Edit code", "examples": [{"query": "fix this bug in the API"}]},
    ]
).encode()
PROVIDER = ProviderSpec(
    classifier="sensitive_content", text="Do not print it.", point=DecisionPoint.PRE_TOOL_EXECUTION
)


def a_policy(**given: Any) -> Policy:
    parts: dict[str, Any] = {
        "tier_models": {Tier.SIMPLE: "small", Tier.REASONING: "large"},
        "domains": DomainPolicy(domains=default_domains(), mode=Mode.ON),
        "guidance": GuidancePolicy(mode=Mode.ON),
        "capabilities": CapabilityPolicy(
            strategy=Strategy.LOCAL, registry=parse_capabilities(CAPABILITIES, "test")
        ),
    }
    return Policy(profile=default_policy().profile, models=MODELS, **{**parts, **given})


ENGINE = build_engine(a_policy())


class Hook:
    """A hook whose every event is a process of its own: nothing but the file and the ledger is kept."""

    def __init__(self, directory: Path, policy: Policy | None = None) -> None:
        self.engine = build_engine(policy) if policy else ENGINE
        self.ledger = MemoryLedger()
        self.file = directory / "hook.sqlite"
        self.asked: list[ModelQuery] = []

    def ask(self, query: ModelQuery) -> ModelReply:
        self.asked.append(query)
        return ModelReply("REASONING")

    def at(self, name: str, **fields: Any) -> Any:
        data = json.dumps({"session_id": "s", "hook_event_name": name, **fields}).encode()
        runtime = Runtime(
            self.engine,
            sessions=MemorySessions(),
            ledger=self.ledger,
            questions=build_questions(self.engine.policy),
        )
        return decide_event(read_event(data), HookState(self.file, clock=lambda: 1e9), runtime, self.ask)

    def failed(self, number: int, **fields: Any) -> Any:
        call = {"tool_name": "Bash", "tool_input": {"command": f"cat {number}"}, "error": "no such file"}
        return self.at("PostToolUseFailure", **{**call, **fields})

    @property
    def decided(self) -> list[Decision]:
        return sorted(self.ledger.decisions(), key=lambda each: (each.input.session, each.input.messages))


def test_the_words_of_a_prompt_stand_until_somebody_speaks(tmp_path: Path) -> None:
    hook = Hook(tmp_path)
    hook.at("UserPromptSubmit", prompt=FIX)
    hook.failed(1)
    hook.at("UserPromptSubmit", prompt="Then show that it ends, and how long each of its steps takes. " * 20)
    hook.failed(2)
    tiers = [each.tier.tier for each in hook.decided if each.tier]
    assert tiers == [Tier.MEDIUM, Tier.MEDIUM, Tier.COMPLEX, Tier.COMPLEX]
    assert [each.chain[0] for each in hook.decided] == ["small", "small", "large", "large"]
    assert [each.domains.signature for each in hook.decided if each.domains][:2] == ["bugfix+coding"] * 2
    selected = [each.capabilities for each in hook.decided]
    assert [each.continued for each in selected if each] == [False, True, False, True]
    assert [each.called for each in selected if each] == [(), ("Bash",), (), ("Bash",)]
    assert hook.file.read_bytes().count(b"login function") == 0  # no words are kept


def test_the_file_holds_no_word_of_an_error_and_is_private(tmp_path: Path) -> None:
    hook = Hook(tmp_path)
    hook.at("UserPromptSubmit", prompt=f"CANARY {FIX}")
    for number in range(4):
        answer = hook.failed(number, error="Exit code 1\nCANARY: no such file")
        assert (answer is not None) == (number == 2)
    assert b"CANARY" not in hook.file.read_bytes()
    assert stat.S_IMODE(hook.file.stat().st_mode) == 0o600


def test_a_sub_agent_is_of_its_session(tmp_path: Path) -> None:
    hook = Hook(tmp_path)
    hook.at("UserPromptSubmit", prompt=FIX)
    hook.failed(1, agent_id="sub")
    assert {each.input.session for each in hook.ledger.decisions(session="s")} == {"s", "s:sub"}


def test_nothing_is_escalated_at_an_event(tmp_path: Path) -> None:
    """Claude Code goes on with its own model: nobody takes over, and no run counts as raised."""
    hook = Hook(tmp_path, a_policy(escalation=EscalationPolicy(mode=Mode.ON, control=0.0)))
    hook.at("UserPromptSubmit", prompt=FIX)
    for number in range(4):
        hook.failed(number)
    assert [each.chain[0] for each in hook.decided] == ["small"] * 5
    found = [reason.code for each in hook.decided for reason in each.reasons if "escalation" in reason.code]
    assert found == ["escalation.observe"]
    assert {one.source for each in hook.decided for one in each.injections} == {"domains", "guidance"}


def test_an_event_tells_project_and_purpose(tmp_path: Path) -> None:
    hook = Hook(tmp_path, a_policy(roles=RoleTiers(plan="reasoning"), verify=Verification(margin=0.5)))
    hook.at("UserPromptSubmit", prompt=FIX, cwd="/home/a/shop", permission_mode="plan")
    hook.failed(1, cwd="/home/a/shop/api", permission_mode="plan")
    hook.at("UserPromptSubmit", prompt=FIX, cwd="/home/a/shop/api", permission_mode="default")
    hook.failed(2, cwd="/home/a/other", agent_id="sub")
    asked = [each.input for each in hook.decided]
    shop, other = project_key("", "/home/a/shop"), project_key("", "/home/a/other")
    assert [each.project for each in asked] == [shop, shop, shop, other]
    goes_on = Purpose.TOOL_ITERATION
    assert [each.purpose for each in asked] == [Purpose.PLAN, goes_on, Purpose.MESSAGE, goes_on]
    tiers = [(each.tier.tier, each.tier.stage) for each in hook.decided[:3] if each.tier]
    verified = (Tier.REASONING, Stage.VERIFIED)  # of the prompt that is no plan: only there a model is asked
    assert tiers == [(Tier.REASONING, Stage.ROLE), (Tier.MEDIUM, Stage.RULES), verified]
    assert [each.chain[0] for each in hook.decided[:2]] == [
        "large"
    ] * 2  # it stays in a tool loop, as at the gateway
    assert ["login function" in query.text for query in hook.asked] == [True]
    records = sorted(
        hook.ledger.records(), key=lambda each: (each.decision.input.session, each.decision.input.messages)
    )
    assert [line.changed for line in Replay(hook.engine).turns(records)] == [()] * 4


def test_an_event_is_no_recorded_request(tmp_path: Path) -> None:
    hook = Hook(tmp_path)
    for number in range(3):
        hook.failed(number, agent_id="sub")
    hook.at("UserPromptSubmit", prompt=FIX, agent_id="sub")
    hook.failed(4, agent_id="sub")
    said = [
        [reason.detail for reason in each.reasons if reason.code == "agent.subagent"] for each in hook.decided
    ]
    failure, spoken = ["the hook PostToolUseFailure"], ["the hook UserPromptSubmit"]
    assert said == [failure, failure, failure, spoken, failure]
    unseen = [[reason.code for reason in each.abstained] for each in hook.decided]
    assert unseen == [["evidence.unseen"]] * 3 + [[]] * 2


def test_a_prompt_gets_the_text_of_its_domains_when_they_change(tmp_path: Path) -> None:
    """The agent keeps what it was told in its own transcript."""
    hook = Hook(tmp_path)
    answers = []
    for prompt in (FIX, "thanks", FIX, "now let's investigate Acme Corporation", FIX):
        answers.append(hook.at("UserPromptSubmit", prompt=prompt))
        hook.failed(1)
    assert [bool(answer) for answer in answers] == [True, False, False, True, True]
    assert "Domain: bugfix" in answers[0]["hookSpecificOutput"]["additionalContext"]
    assert "Domain: investigation" in answers[3]["hookSpecificOutput"]["additionalContext"]


def test_without_a_prompt_the_decision_says_so(tmp_path: Path) -> None:
    hook = Hook(tmp_path)
    hook.failed(1, agent_id="sub")
    [decision] = hook.decided
    assert [reason.code for reason in decision.abstained] == ["evidence.unseen"]
    assert decision.input.session == "s:sub"
    assert decision.input.role is AgentRole.SUBAGENT


def test_one_verification_for_a_prompt_and_its_budget_over_all_events(tmp_path: Path) -> None:
    verify = Verification(model="small", margin=0.5, share=0.5)
    hook = Hook(tmp_path, a_policy(verify=verify))
    hook.at("UserPromptSubmit", prompt=UNSURE)
    hook.failed(1)
    assert [query.kind for query in hook.asked] == ["verify_tier"]
    assert [each.tier.stage for each in hook.decided if each.tier] == [Stage.VERIFIED] * 2
    hook.at("UserPromptSubmit", prompt=UNSURE.replace("city", "town"), session_id="a")
    assert len(hook.asked) == 2  # 1 of 3 events had asked
    hook.at("UserPromptSubmit", prompt=UNSURE.replace("city", "state"), session_id="b")
    assert len(hook.asked) == 2  # 2 of 4 have
    last = next(each for each in hook.decided if each.input.session == "b")
    assert "tiers.abstained.llm-skipped" in [reason.code for reason in last.abstained]


@pytest.mark.parametrize("verify", [None, Verification(model="small", margin=0.5, share=1.0)])
def test_replay_of_events_changes_nothing(tmp_path: Path, verify: Verification | None) -> None:
    guidance = GuidancePolicy(mode=Mode.ON, providers=(PROVIDER,))
    hook = Hook(tmp_path, a_policy(guidance=guidance, verify=verify))
    for prompt in (FIX, UNSURE, "thanks"):
        hook.at("UserPromptSubmit", prompt=prompt)
        for number in range(6):
            secret = {"tool_name": "Bash", "tool_input": {"command": "export API_KEY=1"}}
            hook.at("PreToolUse", **secret)
            hook.failed(number)
    fired = [each.guidance for each in hook.decided if each.guidance and each.guidance.firings]
    assert len(fired) > 10
    records = sorted(hook.ledger.records(), key=lambda each: each.decision.input.messages)
    assert len(records) == 39
    again = list(Replay(build_engine(hook.engine.policy)).turns(records))
    assert [line.changed for line in again] == [()] * 39
    capabilities = a_policy().capabilities
    assert capabilities
    strict = msgspec.structs.replace(capabilities, threshold=0.99)
    other = a_policy(guidance=guidance, verify=verify, capabilities=strict)
    changed = [line.changed for line in Replay(build_engine(other)).turns(records) if line.changed]
    assert changed
    assert set(changed) == {("capabilities",)}


CONFIGURED = """
[upstreams.a]
base_url = "http://127.0.0.1:9/v1"
api_key = "${NOT_SET_ANYWHERE}"
[models]
small = { upstream = "a", id = "small-1" }
[tiers]
simple = "small"
verify = { model = "small", margin = 0.5 }
[domains]
mode = "on"
[guidance]
mode = "on"
[ledger]
path = "ledger.sqlite"
"""


def test_the_command_decides_and_records_without_the_keys(tmp_path: Path) -> None:
    file = tmp_path / "pointsman.toml"
    file.write_text(CONFIGURED)
    sent = json.dumps({"session_id": "s", "hook_event_name": "UserPromptSubmit", "prompt": FIX})
    arguments = ["--state", str(tmp_path / "s.sqlite"), "--config", str(file), "--control", "1.0"]
    result = CliRunner().invoke(app, ["hook", "claude-code", *arguments], input=sent)
    assert result.exit_code == 0, result.stderr
    assert "Domain: bugfix" in json.loads(result.stdout)["hookSpecificOutput"]["additionalContext"]
    assert "no model is asked" in result.stderr
    assert "NOT_SET_ANYWHERE" in result.stderr
    listed = CliRunner().invoke(app, ["decisions", "list", "--config", str(file), "--json"])
    assert "UserPromptSubmit" in listed.stdout
