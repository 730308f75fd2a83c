"""Codex asks for a compaction of the conversation; a model of another provider writes a summary."""

import json
from typing import Any

import pytest

from pointsman.vocabulary import WireFormat
from pointsman.wire.constructs import Untranslatable
from pointsman.wire.responses.stored_conversation import with_summaries
from pointsman.wire.translate import StreamTranslation, Translated, translate_answer, translate_request
from support.translation import payloads

CHAT, RESPONSES, MESSAGES = WireFormat.CHAT, WireFormat.RESPONSES, WireFormat.MESSAGES
USER = {"type": "message", "role": "user", "content": "hello"}
TOOL = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
SUMMARY = "The user said hello, über."


def asked(upstream: WireFormat, *items: Any, **members: Any) -> Translated:
    body = {"model": "m", "input": items, "tools": [TOOL], **members}
    return translate_request(RESPONSES, upstream, json.dumps(body).encode())


def chunk(delta: Any, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "c", "model": "m", "choices": [choice]}).encode() + b"\n\n"


def compaction() -> dict[str, Any]:
    message = {"role": "assistant", "content": SUMMARY}
    answer = {"id": "c", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    request = asked(CHAT, USER, {"type": "compaction_trigger"})
    [item] = json.loads(translate_answer(request, json.dumps(answer).encode()).body)["output"]
    found: dict[str, Any] = item
    return found


@pytest.mark.parametrize("upstream", [CHAT, MESSAGES])
def test_the_model_is_asked_for_a_summary_and_may_call_nothing(upstream: WireFormat) -> None:
    translated = asked(upstream, USER, {"type": "compaction_trigger"})
    sent = json.loads(translated.body)
    assert "Write a summary" in json.dumps(sent["messages"][-1])
    assert sent["tool_choice"] in ("none", {"type": "none"})
    assert "compaction_trigger" in translated.changed


@pytest.mark.parametrize("upstream", [CHAT, MESSAGES])
def test_the_summary_comes_back_as_words(upstream: WireFormat) -> None:
    item = compaction()
    assert item["type"] == "compaction"
    sent = json.loads(asked(upstream, item, USER).body)
    assert SUMMARY in json.dumps(sent["messages"][0], ensure_ascii=False)
    assert sent.get("tool_choice") not in ("none", {"type": "none"})


def test_a_stream_holds_one_item() -> None:
    translation = StreamTranslation(asked(CHAT, USER, {"type": "compaction_trigger"}, stream=True))
    call = {"index": 0, "id": "c1", "function": {"name": "f", "arguments": "{}"}}
    told = b"".join(
        translation.feed(block)
        for block in (
            chunk({"reasoning_content": "hm"}),
            chunk({"content": SUMMARY[:9]}),
            chunk({"content": SUMMARY[9:]}),
            chunk({"tool_calls": [call]}, "stop"),
            b"data: [DONE]\n\n",
            b"",
        )
    )
    events = payloads(told)
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "output_item.done",
        "completed",
    ]
    assert events[3]["item"] == events[4]["response"]["output"][0]
    assert events[3]["item"]["encrypted_content"] == compaction()["encrypted_content"]


def test_an_upstream_that_speaks_responses_is_sent_the_words_too() -> None:
    body = json.dumps({"model": "m", "input": [compaction(), USER]}).encode()
    first, second = json.loads(with_summaries(body))["input"]
    assert (first["role"], second) == ("user", USER)
    assert SUMMARY in first["content"]


@pytest.mark.parametrize("content", ["gAAAA", "pointsman-summary:*", "pointsman-summary:gA==", ""])
def test_a_compaction_of_anothers_is_refused_by_name(content: str) -> None:
    item = {"type": "compaction", "encrypted_content": content}
    body = json.dumps({"model": "m", "input": [item, USER]}).encode()
    assert with_summaries(body) is body
    with pytest.raises(Untranslatable, match="encrypted"):
        asked(CHAT, item, USER)
