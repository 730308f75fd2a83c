"""Whatever is sent, the answer is one of the caller's format: an answer, or an error that says why."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pointsman.config import Config
from pointsman.decision.policy import DomainPolicy, Policy
from pointsman.factory import build_engine, default_policy
from pointsman.gateway._live_state import build_live_state
from pointsman.guidance import GuidancePolicy
from pointsman.runtime import Runtime
from pointsman.stores.ledger import MemoryLedger
from pointsman.stores.sessions import MemorySessions
from pointsman.tiers import builtin_profile
from pointsman.upstreams.port import DEMO_URL, ServerSpec, UpstreamSpec
from pointsman.vocabulary import Mode, ModelSpec, Tier, WireFormat
from pointsman.wire import FORMATS
from support.requests_by_format import PATHS
from support.servers import gateway

pytestmark = pytest.mark.integration

#: Names and words that some format gives a meaning to, so that odd values stand where they are read.
READ = """
type role content text name id input output arguments tool_calls tool_call_id call_id function tool_use_id
is_error tools tool_choice functions parameters image_url source cache_control
"""
SAID = """
user assistant tool system developer function message function_call function_call_output reasoning tool_use
tool_result text input_text required any auto none <system-reminder>
"""
TOP_LEVEL = """
tool_choice functions system instructions metadata stream store previous_response_id conversation prompt
max_tokens model
"""
NAMES = st.sampled_from(READ.split())
WORDS = st.sampled_from(SAID.split()) | st.text(max_size=8)
ODD: st.SearchStrategy[object] = st.sampled_from(
    [None, True, 0, -1, 1.5, 2**70, "", [], {}, "\ud83d", "\x00"]
)
VALUES = st.recursive(
    ODD | WORDS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(max_size=4), inner, max_size=5)
    ),
    max_leaves=12,
)
ITEMS = st.lists(st.dictionaries(NAMES, VALUES, max_size=6) | VALUES, max_size=5)
TOOLS = st.just(
    [
        {"type": "function", "name": "bash", "function": {"name": "bash"}, "input_schema": {}},
        {"type": "function", "name": "read", "function": {"name": "read"}, "input_schema": {}},
    ]
)
TOP = st.dictionaries(st.sampled_from(TOP_LEVEL.split()), VALUES, max_size=5)


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    """A gateway with everything on."""
    models = {"small": ModelSpec("small", "demo", "small"), "large": ModelSpec("large", "demo", "large")}
    domains = default_policy().domains
    assert domains is not None
    policy = Policy(
        profile=builtin_profile("default"),
        models=models,
        tier_models={tier: "large" if tier is Tier.REASONING else "small" for tier in Tier},
        domains=DomainPolicy(domains=domains.domains, mode=Mode.ON),
        guidance=GuidancePolicy(mode=Mode.ON),
        tools=1,
    )
    runtime = Runtime(build_engine(policy), sessions=MemorySessions(), ledger=MemoryLedger())
    config = Config(
        models=models, upstreams={"demo": UpstreamSpec("demo", DEMO_URL)}, server=ServerSpec(port=0)
    )
    with (
        gateway(build_live_state(runtime, config)) as running,
        httpx.Client(base_url=running.url, trust_env=False) as client,
    ):
        yield client


@settings(suppress_health_check=list(HealthCheck))
@given(wire=st.sampled_from(list(WireFormat)), top=TOP, items=ITEMS, tools=TOOLS | VALUES)
def test_an_answer_or_an_error_of_the_callers_format(
    client: httpx.Client,
    caplog: pytest.LogCaptureFixture,
    wire: WireFormat,
    top: dict[str, Any],
    items: Any,
    tools: Any,
) -> None:
    body = {"model": "auto", "max_tokens": 9, FORMATS[wire].items: items, "tools": tools, **top}
    got = client.post(
        PATHS[wire], content=json.dumps(body).encode(), headers={"content-type": "application/json"}
    )
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR], caplog.text
    assert got.status_code in {200, 400, 404}
    if got.status_code != 200:
        assert FORMATS[wire].is_error(got.content)
        assert got.json()["error"]["message"]
