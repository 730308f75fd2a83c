"""Parameters of a tier in each wire format: what is written, what is capped, and what stays byte for byte."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.vocabulary import Parameters, WireFormat
from pointsman.wire.models import with_parameters
from pointsman.wire.translate import translate_request

CHAT, RESPONSES, MESSAGES = WireFormat.CHAT, WireFormat.RESPONSES, WireFormat.MESSAGES
HIGH = Parameters(effort="high")
SONNET, NEW = "claude-sonnet-4-5", "claude-opus-4-7"
ON = {"type": "enabled", "budget_tokens": 24_576}
SUMMED = {"type": "adaptive", "display": "summarized"}
SAID = [{"role": "user", "content": "Hi"}]
CALL = {"type": "tool_use", "id": "t1", "name": "read", "input": {}}
THOUGHT = {"type": "thinking", "thinking": "…", "signature": "c2ln"}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "1"}]}
ANSWER = {"role": "assistant", "content": [{"type": "text", "text": "Done"}]}
LOOP = [*SAID, {"role": "assistant", "content": [CALL]}, RESULT]
LOOP_THOUGHT = [*SAID, {"role": "assistant", "content": [THOUGHT, CALL]}, RESULT]


def changed(
    wire: WireFormat, body: dict[str, Any], parameters: Parameters, *, translated: bool = False
) -> dict[str, Any]:
    """The members that differ afterwards; None for one that is gone."""
    found = json.loads(with_parameters(wire, json.dumps(body).encode(), parameters, translated=translated))
    names = sorted({*body, *found})
    return {name: found.get(name) for name in names if body.get(name) != found.get(name)}


@pytest.mark.parametrize(
    ("wire", "body", "parameters", "expected"),
    [
        (CHAT, {}, HIGH, {"reasoning_effort": "high"}),
        (CHAT, {"reasoning_effort": "low"}, HIGH, {"reasoning_effort": "high"}),
        (CHAT, {"reasoning_effort": "high"}, HIGH, {}),
        (CHAT, {}, Parameters(effort="none"), {"reasoning_effort": "none"}),
        (CHAT, {}, Parameters(thinking_budget=4_096), {"reasoning_effort": "low"}),
        (CHAT, {}, Parameters(thinking_budget=4_097), {"reasoning_effort": "medium"}),
        (CHAT, {}, Parameters(thinking_budget=16_385), {"reasoning_effort": "high"}),
        (CHAT, {}, Parameters(thinking_budget=2_048, effort="high"), {"reasoning_effort": "high"}),
        (CHAT, {}, Parameters(temperature=0.0), {"temperature": 0.0}),
        (CHAT, {"temperature": 1}, Parameters(temperature=0.5), {"temperature": 0.5}),
        (CHAT, {}, Parameters(max_tokens=100), {"max_tokens": 100}),
        (CHAT, {"model": "gpt-5"}, Parameters(max_tokens=100), {"max_completion_tokens": 100}),
        (CHAT, {"max_tokens": 200}, Parameters(max_tokens=100), {"max_tokens": 100}),
        (CHAT, {"max_tokens": 50}, Parameters(max_tokens=100), {}),
        (CHAT, {"max_tokens": None}, Parameters(max_tokens=100), {"max_tokens": 100}),
        (CHAT, {"max_tokens": "many"}, Parameters(max_tokens=100), {}),
        (CHAT, {"max_completion_tokens": 200}, Parameters(max_tokens=100), {"max_completion_tokens": 100}),
        (RESPONSES, {}, HIGH, {"reasoning": {"effort": "high"}}),
        (
            RESPONSES,
            {"reasoning": {"effort": "low", "summary": "auto"}},
            HIGH,
            {"reasoning": {"effort": "high", "summary": "auto"}},
        ),
        (RESPONSES, {"reasoning": None}, HIGH, {"reasoning": {"effort": "high"}}),
        (RESPONSES, {}, Parameters(max_tokens=100), {"max_output_tokens": 100}),
        (RESPONSES, {"max_output_tokens": 99}, Parameters(max_tokens=100), {}),
        (RESPONSES, {}, Parameters(temperature=0.5), {"temperature": 0.5}),
    ],
)
def test_chat_and_responses(
    wire: WireFormat, body: dict[str, Any], parameters: Parameters, expected: dict[str, Any]
) -> None:
    assert changed(wire, body, parameters) == expected


@pytest.mark.parametrize(
    ("body", "parameters", "expected"),
    [
        ({}, HIGH, {"thinking": ON}),
        ({}, Parameters(effort="low"), {"thinking": {**ON, "budget_tokens": 2_048}}),
        ({}, Parameters(thinking_budget=10_000), {"thinking": {**ON, "budget_tokens": 10_000}}),
        ({"max_tokens": 8_000}, HIGH, {"thinking": {**ON, "budget_tokens": 4_000}}),
        ({"max_tokens": 2_047}, HIGH, {}),  # half of it is less than the least budget
        ({"max_tokens": 64_000}, Parameters(max_tokens=8_000), {"max_tokens": 8_000}),
        (
            {"max_tokens": 64_000},
            Parameters(effort="high", max_tokens=8_000),
            {"max_tokens": 8_000, "thinking": {**ON, "budget_tokens": 4_000}},
        ),
        (  # the caller's own thinking stays on under a lowered limit
            {"thinking": {**ON, "budget_tokens": 10_000}},
            Parameters(max_tokens=8_000),
            {"max_tokens": 8_000, "thinking": {**ON, "budget_tokens": 4_000}},
        ),
        (
            {"thinking": {**ON, "budget_tokens": 10_000}},
            Parameters(max_tokens=1_000),
            {"max_tokens": 2_048, "thinking": {**ON, "budget_tokens": 1_024}},
        ),
        ({"thinking": {"type": "disabled"}}, HIGH, {"thinking": ON}),
        ({"thinking": ON}, Parameters(effort="none"), {"thinking": {"type": "disabled"}}),
        ({}, Parameters(effort="minimal"), {}),
        ({"temperature": 0.2, "top_k": 5, "top_p": 0.5}, HIGH,
         {"thinking": ON, "temperature": None, "top_k": None, "top_p": None}),
        ({"temperature": 1, "top_p": 0.97}, HIGH, {"thinking": ON}),
        ({}, Parameters(effort="high", temperature=0.2), {"thinking": ON}),
        ({}, Parameters(temperature=0.2), {"temperature": 0.2}),
        ({"tool_choice": {"type": "any"}}, HIGH, {}),
        ({"tool_choice": {"type": "auto"}}, HIGH, {"thinking": ON}),
        ({"messages": [*SAID, {"role": "assistant", "content": "It is"}]}, HIGH, {}),
        # A turn goes on in the mode it began in.
        ({"messages": LOOP}, HIGH, {}),
        ({"messages": LOOP_THOUGHT}, HIGH, {"thinking": ON}),
        ({"messages": LOOP, "thinking": {"type": "disabled"}}, HIGH, {}),
        ({"messages": LOOP_THOUGHT, "thinking": ON}, Parameters(effort="none"), {}),
        ({"messages": LOOP, "thinking": ON}, Parameters(effort="none"), {"thinking": {"type": "disabled"}}),
        ({"messages": [*LOOP, ANSWER, *SAID]}, HIGH, {"thinking": ON}),
        ({"messages": [*LOOP_THOUGHT, ANSWER, *LOOP]}, HIGH, {}),  # another turn has thought, not this one
        ({"messages": [*LOOP, *SAID]}, HIGH, {}),  # words beside a result are of the same user message
        ({"messages": [*LOOP_THOUGHT, *LOOP[1:]]}, HIGH, {"thinking": ON}),  # thinking began the turn
        ({"messages": [*LOOP, *LOOP[1:], *LOOP[1:]]}, HIGH, {}),
        # Models that decide themselves how long they think.
        ({"model": NEW}, HIGH, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}),
        ({"model": NEW}, Parameters(thinking_budget=2_000),
         {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
        ({"model": "claude-opus-4-6"}, Parameters(effort="xhigh"),
         {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}),
        ({"model": NEW, "messages": LOOP}, HIGH, {"output_config": {"effort": "high"}}),
        ({"model": NEW, "messages": LOOP}, Parameters(effort="none"), {}),
        (
            {"model": NEW, "thinking": SUMMED, "output_config": {"format": 1}},
            HIGH,
            {"output_config": {"format": 1, "effort": "high"}},
        ),
    ],
)  # fmt: skip
def test_messages(body: dict[str, Any], parameters: Parameters, expected: dict[str, Any]) -> None:
    whole = {"model": SONNET, "max_tokens": 32_000, "messages": SAID, **body}
    assert changed(MESSAGES, whole, parameters) == expected


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        (Parameters(effort="minimal"), {"output_config": {"effort": "minimal"}}),
        (Parameters(thinking_budget=3_000), {"thinking": {"type": "enabled", "budget_tokens": 3_000}}),
        (Parameters(max_tokens=100), {"max_tokens": 100}),
    ],
)
def test_messages_that_will_be_translated(parameters: Parameters, expected: dict[str, Any]) -> None:
    whole = {"model": "gpt-5", "max_tokens": 32_000, "messages": SAID}
    assert changed(MESSAGES, whole, parameters, translated=True) == expected


BODIES: dict[WireFormat, dict[str, Any]] = {
    CHAT: {"model": "m", "messages": SAID},
    RESPONSES: {"model": "m", "input": "Hi"},
    MESSAGES: {"model": "m", "max_tokens": 64_000, "messages": SAID},
}


@pytest.mark.parametrize("caller", WireFormat)
@pytest.mark.parametrize(
    ("upstream", "parameters", "expected"),
    [
        (CHAT, Parameters(effort="minimal"), {"reasoning_effort": "minimal"}),
        (CHAT, Parameters(thinking_budget=3_000), {"reasoning_effort": "low"}),
        (RESPONSES, HIGH, {"reasoning": {"effort": "high"}}),
        (RESPONSES, Parameters(max_tokens=100), {"max_output_tokens": 100}),
        (MESSAGES, HIGH, {"thinking": ON}),
        (MESSAGES, Parameters(thinking_budget=3_000), {"thinking": {**ON, "budget_tokens": 3_000}}),
        (MESSAGES, Parameters(max_tokens=100, temperature=0.5), {"max_tokens": 100, "temperature": 0.5}),
    ],
)
def test_what_an_upstream_of_another_format_gets(
    caller: WireFormat, upstream: WireFormat, parameters: Parameters, expected: dict[str, Any]
) -> None:
    if caller is upstream:
        return
    body = json.dumps(BODIES[caller]).encode()
    own = with_parameters(caller, body, parameters, translated=True)
    sent = json.loads(translate_request(caller, upstream, own, budget=parameters.thinking_budget).body)
    assert {name: sent.get(name) for name in expected} == expected


@given(
    st.sampled_from(list(WireFormat)),
    st.builds(
        Parameters,
        effort=st.sampled_from([None, "none", "low", "high", "max"]),
        max_tokens=st.none() | st.integers(1, 10**6),
        temperature=st.none() | st.floats(0, 2),
    ),
    st.integers(1, 10**6),
)
def test_the_conversation_stays_byte_for_byte(wire: WireFormat, parameters: Parameters, limit: int) -> None:
    """Also the odd numbers and spaces of it, on which a prompt cache depends; and no limit is raised."""
    item = "input" if wire is RESPONSES else "messages"
    name = {CHAT: "max_tokens", RESPONSES: "max_output_tokens", MESSAGES: "max_tokens"}[wire]
    said = '[ {"role":"user", "content":"\\u00e9 1.0", "n": 1.50e1} ]'
    body = f'{{"{item}": {said}, "model": "m", "{name}": {limit}}}'.encode()
    sent = with_parameters(wire, body, parameters, translated=False)
    assert said.encode() in sent
    found = json.loads(sent)
    assert found[name] == min(limit, parameters.max_tokens or limit)
    thinking = found.get("thinking", {})
    if wire is MESSAGES and thinking.get("type") == "enabled":
        assert 1_024 <= thinking["budget_tokens"] < limit


def test_half_a_surrogate_is_no_reason_to_fail() -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"\\ud800"}]}'
    assert json.loads(with_parameters(CHAT, body, HIGH, translated=False))["reasoning_effort"] == "high"


@given(
    st.sampled_from([None, ON, {"type": "disabled"}]),
    st.lists(
        st.tuples(st.sampled_from(["high", "low", "none"]), st.integers(0, 4), st.booleans()),
        min_size=1,
        max_size=4,
    ),
)
def test_no_turn_changes_its_mode_of_thinking(
    sent: dict[str, Any] | None, turns: list[tuple[str, int, bool]]
) -> None:
    """A caller in a loop of tool calls, with another tier in each turn; a model thinks once a turn."""
    messages: list[dict[str, Any]] = []
    for effort, calls, beside in turns:
        messages.append({"role": "user", "content": "And then?"})
        modes = []
        for number in range(calls + 1):
            body: dict[str, Any] = {"model": SONNET, "max_tokens": 32_000, "messages": messages}
            if sent:
                body["thinking"] = sent
            given_ = Parameters(effort=effort)  # type: ignore[arg-type]
            asked = json.loads(with_parameters(MESSAGES, json.dumps(body).encode(), given_, translated=False))
            thinks = asked.get("thinking", {}).get("type") == "enabled"
            modes.append(thinks)
            thought = [THOUGHT] if thinks and number == 0 else []
            said = [CALL] if number < calls else [{"type": "text", "text": "Done"}]
            messages.append({"role": "assistant", "content": [*thought, *said]})
            if number < calls:
                messages.append(RESULT)
                if beside:
                    messages.append({"role": "user", "content": "By the way"})
        assert set(modes) == {effort != "none"}
