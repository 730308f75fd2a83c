"""A request goes on from a translated answer by ``previous_response_id``, as OpenAI's own would."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from pointsman.gateway._conversation_memory import ConversationMemory
from pointsman.vocabulary import AgentRequest, WireFormat
from pointsman.wire import FORMATS, Body
from pointsman.wire.body import MAX_VALUES
from pointsman.wire.reasoning import MAX_PARTS, own_reasoning
from pointsman.wire.request import read_request
from support.strict_upstreams import CALLERS, CHAT, MESSAGES, RESPONSES, TOOL_RESULT
from support.switching import Switching, switching

NOW = 1_000.0
OTHERS = pytest.mark.parametrize("upstream", [CHAT, MESSAGES])


def body(given: Any = "hello", **members: Any) -> Body:
    return Body(FORMATS[RESPONSES], json.dumps({"model": "auto", "input": given, **members}).encode())


def request(asked: Body, session: str = "s", at: float = NOW) -> AgentRequest:
    return read_request(RESPONSES, asked, session=session, arrived_at=at)


def said(text: str, role: str = "assistant") -> dict[str, Any]:
    return {"type": "message", "role": role, "content": text}


def answer(name: str, *items: Any) -> list[bytes]:
    return [json.dumps({"id": name, "output": items or [said(name)]}).encode()]


def whole(kept: ConversationMemory, given: Any, name: str, at: float = NOW) -> Any:
    """The items that a request stands for; None where what it goes on from is not known."""
    asked = body(given, previous_response_id=name)
    found = kept.continued_whole(asked, at)
    if found is None:
        return None
    assert found.session == "s"
    read = json.loads(found.whole(asked).raw)
    assert read["previous_response_id"] is None
    return read["input"]


def turn(
    kept: ConversationMemory, given: Any, name: str, before: str = "", *items: Any, at: float = NOW
) -> None:
    """Keep one turn as the gateway does."""
    asked = body(given, previous_response_id=before or None)
    kept.keep_whole(request(asked, at=at), asked, kept.continued_whole(asked, at), answer(name, *items))


@pytest.mark.parametrize("given", ["hello", [said("hello", "user")]])
def test_a_conversation_is_put_together(given: Any) -> None:
    kept = ConversationMemory()
    turn(kept, given, "r1")
    turn(kept, "more", "r2", "r1")
    hello, more, last = said("hello", "user"), said("more", "user"), said("last", "user")
    assert whole(kept, "last", "r2") == [hello, said("r1"), more, said("r2"), last]
    assert whole(kept, [last], "r1") == [hello, said("r1"), last], "an earlier answer is gone on from as well"
    assert whole(kept, [], "r1") == [hello, said("r1")]
    assert whole(kept, "last", "r3") is None


def test_a_fork_leaves_the_other_way_alone() -> None:
    kept = ConversationMemory()
    turn(kept, "a", "r1")
    turn(kept, "b", "r2", "r1")
    turn(kept, "c", "r3", "r1")
    turn(kept, "d", "r4", "r2")
    a, d = said("a", "user"), said("d", "user")
    assert whole(kept, [], "r3") == [a, said("r1"), said("c", "user"), said("r3")]
    assert whole(kept, [], "r4") == [a, said("r1"), said("b", "user"), said("r2"), d, said("r4")]


def test_reasoning_of_the_translation_is_left_out() -> None:
    kept = ConversationMemory()
    turn(kept, "a", "r1", "", {"type": "reasoning", "id": "rs_translated_1", "summary": []}, said("b"))
    assert whole(kept, [], "r1") == [said("a", "user"), said("b")]


def test_nothing_is_kept_where_nothing_is_to_be_stored() -> None:
    kept = ConversationMemory()
    asked = body(store=False)
    kept.keep_whole(request(asked), asked, None, answer("r1"))
    assert kept.held == 0


def test_it_is_forgotten_after_a_day() -> None:
    kept = ConversationMemory()
    turn(kept, "a", "r1")
    turn(kept, "b", "r2", "r1", at=NOW + 80_000)
    assert whole(kept, [], "r1", at=NOW + 160_000)
    assert whole(kept, [], "r2", at=NOW + 170_000) is None
    assert kept.held == 0


def test_the_one_unused_longest_makes_room() -> None:
    kept = ConversationMemory(size=100_000)
    for number in range(20):
        turn(kept, "x" * 8_000, f"r{number}")
        assert whole(kept, [], "r0")
        assert kept.held <= 100_000
    assert whole(kept, [], "r5") is None
    assert whole(kept, [], "r19")


def test_one_conversation_takes_a_quarter_at_most() -> None:
    kept = ConversationMemory(size=100_000)
    for number in range(10):
        turn(kept, "x" * 5_000, f"r{number}", f"r{number - 1}")
        assert kept.held <= 25_000
    assert whole(kept, [], "r0") is None


def test_items_of_a_session_do_not_push_out_the_conversation_that_it_has() -> None:
    kept, asked = ConversationMemory(size=100_000), body()
    turn(kept, "x" * 8_000, "r0")
    assert whole(kept, [], "r0")
    items = [said("y" * 1_000) | {"id": f"i{number}"} for number in range(100)]
    kept.keep_items(request(asked), asked, answer("r1", *items), translated=True)
    assert kept.held <= 25_000
    assert whole(kept, [], "r0")


def test_of_very_many_items_the_latest_are_kept() -> None:
    """Those that are forgotten at once are not looked for one by one."""
    kept, asked = ConversationMemory(size=400_000), body()
    for start in range(0, 10_000, 2_000):
        items = [said("x") | {"id": f"i{number}"} for number in range(start, start + 2_000)]
        kept.keep_items(request(asked), asked, answer("r1", *items), translated=True)
    assert 90_000 < kept.held <= 100_000
    known = kept.items_weight(request(asked))
    named = body([{"type": "item_reference", "id": name} for name in ("i0", "i9999")])
    found = json.loads(kept.put_back(request(asked), named).raw)["input"]
    assert (known > 0, [each["type"] for each in found]) == (True, ["item_reference", "message"])


@pytest.mark.parametrize(
    ("items", "values", "is_kept"),
    [(MAX_PARTS, MAX_VALUES, True), (MAX_PARTS + 1, 0, False), (1, 8 * MAX_VALUES, False)],
)
def test_of_an_answer_of_more_items_or_values_than_any_nothing_is_kept(
    items: int, values: int, is_kept: bool
) -> None:
    kept, asked = ConversationMemory(), body()
    output = [said("x") | {"id": f"i{number}"} for number in range(items)]
    whole = json.dumps({"id": "r1", "output": output, "more": [0] * values}).encode()
    kept.keep_items(request(asked), asked, [whole], translated=True)
    assert bool(kept.held) is is_kept


def test_of_an_answer_of_very_many_thoughts_some_authors_are_kept() -> None:
    kept, reader = ConversationMemory(), own_reasoning(FORMATS[RESPONSES])
    assert reader is not None
    thoughts = [
        {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": f"x{number}"}
        for number in range(2 * MAX_PARTS)
    ]
    [whole] = answer("r1", *thoughts)
    kept.watch(reader, "s", "up", NOW)(whole)
    assert 100 * MAX_PARTS < kept.held < 200 * MAX_PARTS


def test_an_id_that_a_server_gives_twice_is_nobodys() -> None:
    kept = ConversationMemory()
    turn(kept, "mine", "r1")
    turn(kept, "yours", "r1")
    assert whole(kept, [], "r1") is None
    turn(kept, "theirs", "r1")
    assert whole(kept, [], "r1") is None


# On the wire.


def asked(running: Switching, **members: Any) -> httpx.Response:
    request = CALLERS[RESPONSES]().request()
    del request["store"]
    named = {"model": "m0", **request, **members}
    return httpx.post(f"{running.url}/v1/responses", json=named, timeout=60, trust_env=False)


def outputs(response: dict[str, Any]) -> list[dict[str, Any]]:
    calls = [item["call_id"] for item in response["output"] if item["type"] == "function_call"]
    return [{"type": "function_call_output", "call_id": call, "output": TOOL_RESULT} for call in calls]


@pytest.mark.integration
@OTHERS
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_chain_in_front_of_an_upstream_that_keeps_nothing(upstream: WireFormat, stream: bool) -> None:
    with switching(upstream) as running:
        provider, given, before = running.providers[0], [said("Question 1?", "user")], None
        for number in range(4):
            got = asked(running, input=given, previous_response_id=before, stream=stream)
            assert got.status_code == 200, got.text
            last = got.text.split("data: ")[-1] if stream else got.text
            answered = json.loads(last)
            answered = answered["response"] if stream else answered
            given = outputs(answered) or [said(f"Question {number}?", "user")]
            before = answered["id"]
            sent = json.loads(provider.server.asked[-1].body)
            assert len(sent["messages"]) == 2 * number + 1 + (upstream is CHAT) * ((number + 1) // 2)
            assert len(provider.returned[-1]) == (2 * number if upstream is MESSAGES else 0), "its reasoning"
        sessions = {turn.session for turn in running.decider.turns}
        assert len(sessions) == 1
        metrics = httpx.get(f"{running.url}/metrics", trust_env=False).text
        assert 'pointsman_continued_total{before="known"} 3' in metrics


@pytest.mark.integration
@OTHERS
def test_an_unknown_answer_is_refused_in_openais_words(upstream: WireFormat) -> None:
    with switching(upstream) as running:
        got = asked(running, input="hello", previous_response_id="resp_x")
    assert got.status_code == 400
    assert got.json()["error"] == {
        "message": "Previous response with id 'resp_x' not found.",
        "type": "invalid_request_error",
        "param": "previous_response_id",
        "code": "previous_response_not_found",
    }


@pytest.mark.integration
def test_a_chain_goes_on_at_a_provider_of_the_callers_own_format() -> None:
    with switching(MESSAGES, RESPONSES) as running:
        first = asked(running, input="hello").json()
        got = asked(running, model="m1", input=outputs(first), previous_response_id=first["id"])
        assert got.status_code == 200, got.text
        sent = json.loads(running.providers[1].server.asked[-1].body)
        assert [item["type"] for item in sent["input"]] == [
            "message", "message", "function_call", "function_call",
            "function_call_output", "function_call_output",
        ]  # fmt: skip


@pytest.mark.integration
def test_answers_of_a_server_that_numbers_them_are_told_apart() -> None:
    with switching(CHAT) as running:
        ids = []
        for words in ("mine", "yours"):
            running.providers[0].count = 0
            ids.append(asked(running, input=[said(words, "user")]).json()["id"])
        for name, words in zip(ids, ("mine", "yours"), strict=True):
            assert asked(running, input=[said("more", "user")], previous_response_id=name).status_code == 200
            sent = json.loads(running.providers[0].server.asked[-1].body)
            assert sent["messages"][0]["content"] == words


def test_copies_of_one_conversation_do_not_push_out_another_sessions() -> None:
    kept = ConversationMemory(100_000)
    asked = body("other")
    kept.keep_whole(request(asked, session="t"), asked, None, answer("resp_other"))
    turn(kept, "x" * 15_000, "resp_1")
    for number in range(2, 12):  # each goes on from the first: a copy
        turn(kept, "more", f"resp_{number}", "resp_1")
    assert kept.continued_whole(body("go on", previous_response_id="resp_other"), NOW) is not None
    assert kept.held <= 100_000 / 4 + 5_000
    assert whole(kept, "again", "resp_11") is not None
