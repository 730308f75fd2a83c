"""What is put back of a conversation that the provider keeps reads as the whole would."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pointsman.text import extract
from pointsman.trajectory import opening_of
from pointsman.vocabulary import AgentRequest, Role, WireFormat
from pointsman.wire.request import read_request
from pointsman.wire.responses.stored_conversation import StoredConversation, stored_conversation

WORDS = st.sampled_from(["run the tests", "now fix it", "<system-reminder>x</system-reminder>", ""])
IDS = st.sampled_from(["c1", "c2", "c3"])

SAID = st.builds(
    lambda role, text: {"role": role, "content": text}, st.sampled_from(["user", "system"]), WORDS
)
OUTPUT = st.builds(lambda n, text: {"type": "function_call_output", "call_id": n, "output": text}, IDS, WORDS)
CALL = st.builds(
    lambda n, text: {"type": "function_call", "call_id": n, "name": "bash", "arguments": text}, IDS, WORDS
)
ANSWERED = st.builds(lambda text: {"type": "message", "role": "assistant", "content": text}, WORDS)
THOUGHT = st.just({"type": "reasoning", "summary": []})

ROUNDS = st.lists(
    st.tuples(
        st.lists(SAID | OUTPUT | CALL, min_size=1, max_size=3),
        st.lists(CALL | ANSWERED | THOUGHT, min_size=1, max_size=3),
    ),
    min_size=1,
    max_size=4,
)


def read(items: list[Any], earlier: StoredConversation | None = None) -> AgentRequest:
    return read_request(WireFormat.RESPONSES, json.dumps({"input": items}).encode(), earlier=earlier)


@given(rounds=ROUNDS, last=st.lists(SAID | OUTPUT, min_size=1, max_size=2))
def test_a_continued_turn_reads_as_the_whole(
    rounds: list[tuple[list[Any], list[Any]]], last: list[Any]
) -> None:
    earlier, sent = None, []
    for asked, answer in rounds:
        request = read(asked, earlier)
        answered = [json.dumps(item).encode() for item in answer]
        earlier = stored_conversation(request, answered, extract(request).index)
        sent += asked + answer
    continued, whole = read(last, earlier), read(sent + last)
    assert len(continued.history) == len(whole.history)
    assert extract(continued) == extract(whole)
    assert continued.system == whole.system
    assert opening_of(continued.history) == opening_of(whole.history)
    for position in range(len(sent) - len(rounds[-1][1]) - 1, len(whole.history)):
        assert continued.history[position].results == whole.history[position].results
        assert continued.history[position].calls == whole.history[position].calls


def test_images_and_long_results_are_not_kept() -> None:
    picture = {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 100_000}
    asked = [{"role": "user", "content": [{"type": "input_text", "text": "what is this?"}, picture]}]
    first = stored_conversation(read(asked), [b'{"type":"function_call","call_id":"c1","name":"see"}'], 0)
    assert first.weight < 500
    assert first.size > 100_000
    result = {"type": "function_call_output", "call_id": "c1", "output": "x" * 100_000}
    second = stored_conversation(read([result], first), [], 0)
    assert second.weight < 21_000
    agent_request = read([{"role": "user", "content": "and now?"}], second)
    assert agent_request.features == {"vision"}
    assert agent_request.size > 200_000
    assert [agent_request.history.role(n) for n in range(4)] == [
        Role.USER,
        Role.ASSISTANT,
        Role.TOOL,
        Role.USER,
    ]
