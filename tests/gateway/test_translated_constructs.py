"""What agents send today reaches an upstream of another format, and comes back in a form they know."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from pointsman.vocabulary import WireFormat
from pointsman.wire.translate import translated_formats
from support.servers import Asked, ScriptedUpstream, gateway, reply, state_for
from support.translation import CHAT, MESSAGES, RESPONSES, SAMPLES, payloads
from support.translation import TEXT as ANSWER

pytestmark = pytest.mark.integration

Json = dict[str, Any]
PLAIN, CALLING = [False], [True]  # an answer without and with calls
USER = {"role": "user", "content": "hi"}


class Run:
    """A gateway in front of one upstream of one format."""

    def __init__(self, url: str, server: ScriptedUpstream) -> None:
        self.url = url
        self.server = server

    def post(self, caller: WireFormat, body: Json) -> httpx.Response:
        return httpx.post(self.url + SAMPLES[caller].path, json={"model": "auto", **body}, timeout=60)

    @property
    def sent(self) -> Json:
        """What the upstream was asked last."""
        found: Json = json.loads(self.server.asked[-1].body)
        return found


@contextmanager
def in_front_of(
    upstream: WireFormat, answer: Json | list[Json] | None = None, model: str = "model-0", **spec: Any
) -> Iterator[Run]:
    """A gateway in front of an upstream that gives an answer, or a stream of events."""

    async def answering(_: Asked, send: Any) -> None:
        found = SAMPLES[upstream].answer(*PLAIN) if answer is None else answer
        if not isinstance(found, list):
            await reply(send, 200, json.dumps(found).encode())
            return
        events = [f"event: {each.get('type', '')}\ndata: {json.dumps(each)}\n\n" for each in found]
        ending = "data: [DONE]\n\n" if upstream is CHAT else ""
        stream = ("content-type", "text/event-stream")
        await reply(send, 200, ("".join(events) + ending).encode(), stream)

    server, spoken = ScriptedUpstream(answering), frozenset({upstream})
    with server.running() as url:
        known = {"formats": spoken, "translated": translated_formats(spoken), "model_id": model, **spec}
        state = state_for(f"{url}/v1", **known)
        with gateway(state) as gate:
            yield Run(gate.url, server)


def chat_call(name: str, arguments: Json, at: int = 0) -> Json:
    """A chat answer that calls one tool."""
    call = {
        "id": f"c{at}",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments)},
    }
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}


def messages(*messages: Json, **more: Any) -> Json:
    return {"max_tokens": 99, "messages": [*messages], **more}


def said(*blocks: Json) -> Json:
    return {"role": "assistant", "content": list(blocks)}


TEXT = {"type": "text", "text": "Looked."}
FALLBACK = {"type": "fallback", "from": {"model": "claude-fable-5"}, "to": {"model": "claude-opus-5"}}


@pytest.mark.parametrize("upstream", [CHAT, RESPONSES])
def test_a_fallback_block_is_left_out(upstream: WireFormat) -> None:
    with in_front_of(upstream) as run:
        answer = run.post(MESSAGES, messages(USER, said(FALLBACK, TEXT), USER))
        assert answer.status_code == 200, answer.text
        assert answer.headers["x-pointsman-translated"].endswith("changed=fallback_block")
        assert "fallback" not in json.dumps(run.sent)
        assert json.dumps(run.sent).count("Looked.") == 1


@pytest.mark.parametrize("upstream", [CHAT, RESPONSES])
def test_a_compaction_is_sent_as_its_summary(upstream: WireFormat) -> None:
    compaction = {"type": "compaction", "content": "So far: all done.", "encrypted_content": "x"}
    old = {"role": "user", "content": "an old question"}
    with in_front_of(upstream) as run:
        answer = run.post(MESSAGES, messages(old, said(TEXT, compaction, TEXT), USER))
        assert answer.status_code == 200, answer.text
        assert answer.headers["x-pointsman-translated"].endswith("changed=compaction_block")
        items = run.sent["messages" if upstream is CHAT else "input"]
        assert [item["role"] for item in items] == ["user", "assistant", "user"]
        sent = json.dumps(items)
        assert "So far: all done." in json.dumps(items[0])
        assert "an old question" not in sent, "the API ignores what a compaction stands for"
        assert sent.count("Looked.") == 1


def test_a_compaction_that_failed_changes_nothing() -> None:
    with in_front_of(CHAT) as run:
        answer = run.post(MESSAGES, messages(USER, said({"type": "compaction", "content": None}, TEXT), USER))
        assert answer.status_code == 200, answer.text
        assert "changed" not in answer.headers["x-pointsman-translated"]
        assert [each["content"] for each in run.sent["messages"]] == ["hi", "Looked.", "hi"]


def test_a_computer_of_messages_is_a_function() -> None:
    tool = {
        "type": "computer_20251124",
        "name": "computer",
        "display_width_px": 1024,
        "display_height_px": 768,
    }
    click = {"action": "left_click", "coordinate": [3, 4]}
    with in_front_of(CHAT, chat_call("computer", click)) as run:
        answer = run.post(MESSAGES, messages(USER, tools=[tool]))
        assert answer.status_code == 200, answer.text
        [offered] = run.sent["tools"]
        assert offered["function"]["name"] == "computer"
        assert "1024 pixels wide and 768 high" in offered["function"]["description"]
        assert "coordinate" in offered["function"]["parameters"]["properties"]
        [block] = answer.json()["content"]
        assert (block["type"], block["name"], block["input"]) == ("tool_use", "computer", click)


OPERATION = {"type": "update_file", "path": "a.txt", "diff": "@@\n-a\n+b"}
CLICK = {"type": "click", "button": "left", "x": 3, "y": 4}
#: A tool of Responses that the caller runs: the arguments with which a model calls it as a function; the
#: members of the call that comes back; the item of its result; and what a model reads of that.
BUILT_IN: dict[str, tuple[Json, Json, Json, tuple[str, ...]]] = {
    "shell": (
        {"commands": ["ls"], "timeout_ms": 500},
        {"type": "shell_call", "action": {"commands": ["ls"], "timeout_ms": 500}},
        {
            "type": "shell_call_output",
            "output": [
                {"stdout": "a.txt", "stderr": "warned", "outcome": {"type": "exit", "exit_code": 3}},
                {"stdout": "b", "stderr": "", "outcome": {"type": "timeout"}},
            ],
        },
        ("a.txt", "warned", "exit code 3", "timed out"),
    ),
    "apply_patch": (
        OPERATION,
        {"type": "apply_patch_call", "operation": OPERATION},
        {"type": "apply_patch_call_output", "status": "failed", "output": "no such file"},
        ("Error: no such file",),
    ),
    "computer": (
        {"actions": [CLICK]},
        {"type": "computer_call", "actions": [CLICK], "pending_safety_checks": []},
        {
            "type": "computer_call_output",
            "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,iVBORw0KGgo="},
        },
        ("iVBORw0KGgo=",),
    ),
}


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("tool", BUILT_IN)
def test_a_tool_that_the_caller_runs_is_a_function_and_back(tool: str, streamed: bool) -> None:
    arguments, wanted, result, words = BUILT_IN[tool]
    answer: Any = chat_call(tool, arguments)
    if streamed:
        call = {"index": 0, **answer["choices"][0]["message"]["tool_calls"][0]}
        choice = {"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}
        end = {"index": 0, "delta": {}, "finish_reason": "tool_calls"}
        answer = [{**answer, "choices": [choice]}, {**answer, "choices": [end]}]
    with in_front_of(CHAT, answer) as run:
        asked = {"input": "hi", "tools": [{"type": tool}], "tool_choice": {"type": tool}, "stream": streamed}
        got = run.post(RESPONSES, asked)
        assert got.status_code == 200, got.text
        assert got.headers["x-pointsman-translated"].endswith("changed=client_tool")
        assert run.sent["tools"][0]["function"]["name"] == tool
        assert run.sent["tool_choice"] == {"type": "function", "function": {"name": tool}}
        response = payloads(got.content)[-1]["response"] if streamed else got.json()
        [item] = response["output"]
        assert {name: item[name] for name in wanted} == wanted
        assert item["call_id"] == "c0"
        # The next turn: the call and its result.
        given = {"input": [USER, item, {**result, "call_id": "c0"}], "tools": [{"type": tool}]}
        run.server.asked.clear()
        assert run.post(RESPONSES, given).status_code == 200
        _, called, returned, *shown = run.sent["messages"]
        assert json.loads(called["tool_calls"][0]["function"]["arguments"]) == arguments
        assert returned["tool_call_id"] == "c0"
        for word in words:
            assert word in json.dumps([returned, *shown])


def test_malformed_arguments_of_such_a_call_are_shown_to_the_caller() -> None:
    answer = chat_call("shell", {})
    answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = "ls -l"
    with in_front_of(CHAT, answer) as run:
        got = run.post(RESPONSES, {"input": "hi", "tools": [{"type": "shell"}]})
        assert got.json()["output"][0]["action"] == {"commands": ["ls -l"]}


def test_a_tool_reference_is_reported() -> None:
    call = {"type": "tool_use", "id": "c", "name": "search", "input": {}}
    found = {"type": "tool_reference", "tool_name": "find"}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [found]}]}
    with in_front_of(CHAT) as run:
        answer = run.post(MESSAGES, messages(USER, said(call), result))
        assert answer.headers["x-pointsman-translated"].endswith("changed=result_block")
        assert "find" in run.sent["messages"][-1]["content"]


NULLS = {
    ".stop_sequence",
    ".stop_details",
    ".container",
    *(f".usage.{each}" for each in ("cache_creation", "output_tokens_details", "server_tool_use")),
    ".usage.inference_geo",
}


def nulls(value: object, path: str = "") -> Iterator[str]:
    """The places of a JSON value that hold null."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from nulls(each, f"{path}.{name}")
    elif isinstance(value, list):
        for each in value:
            yield from nulls(each, path)
    elif value is None:
        yield path


@pytest.mark.parametrize("calls", [False, True], ids=["text", "calls"])
@pytest.mark.parametrize("upstream", [CHAT, RESPONSES])
def test_an_answer_holds_null_only_where_strict_clients_take_it(upstream: WireFormat, calls: bool) -> None:
    """The Vercel AI SDK refuses ``"citations": null``; the API's schema requires what is null here."""
    spoken = SAMPLES[upstream]
    with in_front_of(upstream, spoken.answer(calls)) as run:
        got = run.post(MESSAGES, messages(USER))
        assert set(nulls(got.json())) <= NULLS
    stream = [
        json.loads(event.split(b"data: ", 1)[1]) for event in spoken.events(calls) if b"[DONE]" not in event
    ]
    with in_front_of(upstream, stream) as run:
        got = run.post(MESSAGES, messages(USER, stream=True))
        allowed = {f".message{place}" for place in NULLS} | {".message.stop_reason", ".delta.stop_sequence"}
        assert {place for event in payloads(got.content) for place in nulls(event)} <= allowed


NEW = {"brand_new_2026_12": {}, "tools": [{"name": "f", "input_schema": {"type": "object"}, "brand_new": 1}]}


def test_an_unknown_field_is_left_out_and_named() -> None:
    with in_front_of(CHAT) as run:
        answer = run.post(MESSAGES, messages(USER, **NEW))
        assert answer.status_code == 200, answer.text
        changed = answer.headers["x-pointsman-translated"].partition("changed=")[2]
        assert changed == "unknown:brand_new_2026_12,unknown:tools.brand_new"
        assert "brand_new" not in json.dumps(run.sent)


@pytest.mark.parametrize("caller", [MESSAGES, CHAT])
def test_an_upstream_may_refuse_unknown_fields(caller: WireFormat) -> None:
    upstream = RESPONSES if caller is CHAT else CHAT
    with in_front_of(upstream, unknown="refuse") as run:
        answer = run.post(caller, messages(USER, brand_new_2026_12={}))
        error = answer.json()["error"]
        assert answer.status_code == 400
        assert '"brand_new_2026_12" is not known' in error["message"]
        assert 'upstream "up0"' in error["message"]
        assert '[upstreams.up0] unknown = "drop"' in error["message"]
        assert not run.server.asked
        assert run.post(caller, messages(USER)).status_code == 200


def test_a_limit_of_a_task_and_what_is_shown_are_reported() -> None:
    settings = {
        "output_config": {"effort": "low", "task_budget": {"type": "tokens", "total": 20_000}},
        "thinking": {"type": "adaptive", "display": "omitted"},
    }
    with in_front_of(CHAT) as run:
        answer = run.post(MESSAGES, messages(USER, **settings))
        changed = answer.headers["x-pointsman-translated"].partition("changed=")[2]
        assert changed == "task_budget,thinking_display"
        assert run.sent["reasoning_effort"] == "low"


def events_of(upstream: WireFormat, *, calls: bool = False) -> list[Json]:
    """A stream of one format as the data of its events."""
    return payloads(b"".join(SAMPLES[upstream].events(calls)))


#: The text is "It is sunny in Rome, über 30°.", and its stream is cut behind "It is sun".
STOPS = [
    (["sunny"], "It is ", "sunny"),
    (["never", "Rome", " in R"], "It is sunny", " in R"),
    (["°.", "30"], "It is sunny in Rome, über ", "30"),
    (["It"], "", "It"),
    (["sunnier"], ANSWER, ""),
    (["°.!"], ANSWER, ""),
]


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("stops", "text", "met"), STOPS)
@pytest.mark.parametrize("caller", [CHAT, MESSAGES])
def test_a_stop_sequence_is_kept_by_the_gateway(
    caller: WireFormat, stops: list[str], text: str, met: str, streamed: bool
) -> None:
    name = "stop" if caller is CHAT else "stop_sequences"
    answer: Any = events_of(RESPONSES) if streamed else None
    with in_front_of(RESPONSES, answer) as run:
        body = messages(USER, stream=streamed, **{name: stops, "stream_options": {"include_usage": True}})
        got = run.post(caller, body)
        assert got.status_code == 200, got.text
        assert got.headers["x-pointsman-translated"].endswith("changed=stop")
        assert "stop" not in run.sent
    spoken = SAMPLES[caller]
    found = spoken.read_stream(payloads(got.content)) if streamed else spoken.read(got.json())
    assert found.text == text
    assert found.tokens == (110, 7), "the usage is the upstream's"
    if caller is CHAT:
        assert found.stop == "stop"
    else:
        assert found.stop == ("stop_sequence" if met else "end_turn")
        assert (f'"stop_sequence":"{met}"' in got.text) == bool(met)
    assert (got.content.count(spoken.closing) == 1) == streamed


def test_chat_gets_four_stop_sequences() -> None:
    with in_front_of(CHAT) as run:
        got = run.post(MESSAGES, messages(USER, stop_sequences=["sunny", "a", "b", "c", "d"]))
        assert run.sent["stop"] == ["sunny", "a", "b", "c"]
        assert got.headers["x-pointsman-translated"].endswith("changed=stop")


def test_a_call_behind_a_stop_sequence_is_left_out() -> None:
    item = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
    said_ = {**item, "content": [{"type": "output_text", "text": "Action: STOP", "annotations": []}]}
    call = {
        "type": "function_call",
        "id": "f",
        "call_id": "c",
        "name": "f",
        "arguments": "{}",
        "status": "completed",
    }
    answer = {**SAMPLES[RESPONSES].answer(*PLAIN), "output": [said_, call]}
    with in_front_of(RESPONSES, answer) as run:
        got = run.post(MESSAGES, messages(USER, stop_sequences=["STOP"])).json()
        assert got["content"] == [{"type": "text", "text": "Action: ", "citations": []}]
        assert (got["stop_reason"], got["stop_sequence"]) == ("stop_sequence", "STOP")


CUT = '{"city":'  # the arguments of the second call, as far as the limit let them come


def cut_whole(upstream: WireFormat) -> Json:
    """An answer whose second call the output limit cut off."""
    answer: Json = json.loads(json.dumps(SAMPLES[upstream].answer(*CALLING)))
    if upstream is CHAT:
        choice = answer["choices"][0]
        choice["finish_reason"] = "length"
        choice["message"]["tool_calls"][1]["function"]["arguments"] = CUT
    elif upstream is RESPONSES:
        answer |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
        calls = [item for item in answer["output"] if item["type"] == "function_call"]
        calls[1] |= {"arguments": CUT, "status": "incomplete"}
    else:
        answer["stop_reason"] = "max_tokens"
        answer["content"][-1]["input"] = {}
    return answer


def cut_stream(upstream: WireFormat) -> list[Json]:
    """The same as a stream."""
    if upstream is CHAT:
        calls = cut_whole(CHAT)["choices"][0]["message"]["tool_calls"]
        deltas = [{"tool_calls": [{"index": at, **call}]} for at, call in enumerate(calls)]
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        return [
            *({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas),
            {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]},
        ]
    whole = cut_whole(upstream)
    if upstream is RESPONSES:
        begun = {**whole, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
        events: list[Json] = [{"type": "response.created", "response": begun}]
        for at, item in enumerate(whole["output"]):
            added = {**item, "status": "in_progress"} | ({"arguments": ""} if "arguments" in item else {})
            events.append({"type": "response.output_item.added", "output_index": at, "item": added})
            events.append({"type": "response.output_item.done", "output_index": at, "item": item})
        events.append({"type": "response.incomplete", "response": whole})
        return [{"sequence_number": at, **event} for at, event in enumerate(events)]
    start = {**whole, "content": [], "stop_reason": None}
    events = [{"type": "message_start", "message": start}]
    for at, block in enumerate(whole["content"]):
        begin = {**block, "input": {}}
        last = at == len(whole["content"]) - 1
        piece = {"type": "input_json_delta", "partial_json": CUT if last else json.dumps(block["input"])}
        events.append({"type": "content_block_start", "index": at, "content_block": begin})
        events.append({"type": "content_block_delta", "index": at, "delta": piece})
        events.append({"type": "content_block_stop", "index": at})
    stop = {"stop_reason": "max_tokens", "stop_sequence": None}
    events.append({"type": "message_delta", "delta": stop, "usage": {"output_tokens": 7}})
    return [*events, {"type": "message_stop"}]


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("upstream", SAMPLES)
@pytest.mark.parametrize("caller", SAMPLES)
def test_a_call_cut_by_the_output_limit_ends_as_cut(
    caller: WireFormat, upstream: WireFormat, streamed: bool
) -> None:
    answer: Any = cut_stream(upstream) if streamed else cut_whole(upstream)
    asked = {**SAMPLES[caller].request(), "stream": streamed}
    with in_front_of(upstream, answer) as run:
        got = run.post(caller, asked)
        assert got.status_code == 200, got.text
    events = payloads(got.content) if streamed else [got.json()]
    if caller is CHAT:
        finishes = [choice.get("finish_reason") for each in events for choice in each["choices"]]
        assert list(filter(None, finishes)) == ["length"]
    elif caller is MESSAGES:
        stops = [each.get("delta", each).get("stop_reason") for each in events]
        assert list(filter(None, stops)) == ["max_tokens"]
    else:
        response = events[-1].get("response", events[-1])
        assert (response["status"], response["incomplete_details"]) == (
            "incomplete",
            {"reason": "max_output_tokens"},
        )
        calls = [item for item in response["output"] if item["type"] == "function_call"]
        assert [item["status"] for item in calls] == ["completed", "incomplete"]
        done = [each["item"]["status"] for each in events if each.get("type") == "response.output_item.done"]
        assert done[-1:] == (["incomplete"] if streamed else [])


THINKING = {"thinking": {"type": "enabled", "budget_tokens": 5_000}, "max_tokens": 9_000}
OFF = {"thinking": {"type": "disabled"}}
#: Caller, upstream, the model's id, what is asked, and the members that reach the upstream.
EFFORTS: list[tuple[WireFormat, WireFormat, str, Json, Json]] = [
    (MESSAGES, CHAT, "m", {"output_config": {"effort": "low"}}, {"reasoning_effort": "low"}),
    (MESSAGES, CHAT, "m", THINKING, {"reasoning_effort": "medium"}),
    (MESSAGES, CHAT, "m", OFF, {"reasoning_effort": None}),
    (MESSAGES, CHAT, "gpt-5.4", OFF, {"reasoning_effort": "none"}),
    (MESSAGES, CHAT, "gpt-5-mini", OFF, {"reasoning_effort": "minimal"}),
    (MESSAGES, CHAT, "gpt-5.4-codex", OFF, {"reasoning_effort": None}),
    (MESSAGES, RESPONSES, "m", {"output_config": {"effort": "high"}}, {"reasoning": {"effort": "high"}}),
    (MESSAGES, RESPONSES, "m", THINKING, {"reasoning": {"effort": "medium"}}),
    (MESSAGES, RESPONSES, "gpt-5.4", OFF, {"reasoning": {"effort": "none"}}),
    (CHAT, RESPONSES, "m", {"reasoning_effort": "low"}, {"reasoning": {"effort": "low"}}),
    (RESPONSES, CHAT, "m", {"reasoning": {"effort": "low"}}, {"reasoning_effort": "low"}),
    (CHAT, MESSAGES, "m", THINKING, {"thinking": THINKING["thinking"]}),
    (
        CHAT,
        MESSAGES,
        "claude-opus-4-7",
        THINKING,
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "medium"}},
    ),
    (
        CHAT,
        MESSAGES,
        "claude-opus-4-6",
        {"reasoning_effort": "low"},
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
    ),
    (
        RESPONSES,
        MESSAGES,
        "claude-opus-4-7",
        {"reasoning": {"effort": "high", "summary": "auto"}},
        {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "high"}},
    ),
]


@pytest.mark.parametrize(("caller", "upstream", "model", "asked", "sent"), EFFORTS)
def test_effort_and_thinking_reach_every_format(
    caller: WireFormat, upstream: WireFormat, model: str, asked: Json, sent: Json
) -> None:
    body = {"input": "hi"} if caller is RESPONSES else messages(USER)
    with in_front_of(upstream, model=model) as run:
        assert run.post(caller, {**body, **asked}).status_code == 200
        assert {name: run.sent.get(name) for name in sent} == sent
