"""What translating costs: a request of 91 kB from Messages to chat, and a chunk of a streamed answer back.

    .venv/bin/python benchmarks/translation.py

Baseline, in the same run and interleaved: decoding the same JSON into plain objects and encoding it again.
Beside it every library found installed that translates the same way and can be called from Python: litellm,
llm-babel, llm-rosetta, ant2oai. They take and return plain objects; decoding and encoding these, by our own
library, counts for them as well. CPU medians in microseconds; on a busy machine trust the ratios. Asked for:
150 µs a request, 2 µs a chunk.

Install peers beside this project in an environment of their own:

    python -m venv /tmp/peers && /tmp/peers/bin/pip install . litellm llm-babel llm-rosetta ant2oai
    /tmp/peers/bin/python benchmarks/translation.py
"""

import importlib
import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import msgspec

from pointsman.vocabulary import WireFormat
from pointsman.wire.translate import StreamTranslation, Translated, translate_request

ROUNDS = 40
CHUNKS = 2000


def request(kilobytes: int = 91) -> bytes:
    """A Messages request of an agent: its system text, 15 tools, calls and their results."""
    properties = {
        f"option_{n}": {"type": "string", "description": "what this option does " * 3} for n in range(5)
    }
    tools = [
        {
            "name": f"tool_{n}",
            "description": "Does one thing to a file and says what came of it. " * 6,
            "input_schema": {"type": "object", "properties": properties, "required": ["option_0"]},
        }
        for n in range(15)
    ]
    body: dict[str, object] = {
        "model": "big",
        "max_tokens": 8000,
        "system": [{"type": "text", "text": "You are a coding agent. " * 400}],
        "tools": tools,
        "stream": True,
    }
    messages: list[dict[str, object]] = [{"role": "user", "content": "find out why the build is slow"}]
    size, turn = len(json.dumps(body)), 0
    while size < kilobytes * 1000 - 1800:
        call = {
            "type": "tool_use",
            "id": f"toolu_{turn}",
            "name": f"tool_{turn % 15}",
            "input": {"option_0": f"f{turn}"},
        }
        text = " ".join(f"line {turn * 7919 % 1009} took {i * turn % 977} ms;" for i in range(70))
        result = {"type": "tool_result", "tool_use_id": f"toolu_{turn}", "content": text}
        pair: list[dict[str, object]] = [
            {"role": "assistant", "content": [{"type": "text", "text": "I look."}, call]},
            {"role": "user", "content": [result]},
        ]
        messages += pair
        size += len(json.dumps(pair))
        turn += 1
    return json.dumps({**body, "messages": messages}, separators=(",", ":")).encode()


def chunks(count: int) -> list[bytes]:
    """A streamed answer of chat completions, one event a block."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "big"}
    found = []
    for n in range(count):
        choice = {"index": 0, "delta": {"content": f" word{n}"}, "finish_reason": None}
        found.append(
            b"data: " + json.dumps({**head, "choices": [choice]}, separators=(",", ":")).encode() + b"\n\n"
        )
    return found


def cpu_us(run: Callable[[], object]) -> float:
    started = time.thread_time_ns()  # a peer has threads of its own
    run()
    return (time.thread_time_ns() - started) / 1e3


def stream(translated: Translated, blocks: list[bytes]) -> None:
    translation = StreamTranslation(translated)
    for block in blocks:
        translation.feed(block)


def plain(blocks: list[bytes]) -> None:
    for block in blocks:
        msgspec.json.encode(msgspec.json.decode(block[6:]))


class Peer(NamedTuple):
    """Another library: what it makes of a request, and of the chunks of a stream, as plain objects."""

    name: str
    request: Callable[[Any], object]
    stream: Callable[[list[Any]], object] | None


def of(module: str, *names: str) -> list[Any]:
    """What another library calls these."""
    found = importlib.import_module(module)
    return [getattr(found, name) for name in names]


def litellm() -> Peer:
    adapters = "litellm.llms.anthropic.pass_through.adapters"
    [adapter] = of(f"{adapters}.transformation", "LiteLLMAnthropicMessagesAdapter")
    [wrapper] = of(f"{adapters}.streaming_iterator", "AnthropicStreamWrapper")
    [chunk_of] = of("litellm.types.utils", "ModelResponseStream")

    def stream(chunks: list[Any]) -> object:
        return list(wrapper((chunk_of(**chunk) for chunk in chunks), model="big"))

    return Peer("litellm", adapter().translate_anthropic_to_openai, stream)


def llm_babel() -> Peer:
    translate, translate_stream = of("llm_transform.registry", "translate", "translate_stream")
    return Peer(
        "llm-babel",
        lambda body: translate("anthropic-messages", "openai-chat", body),
        lambda chunks: translate_stream("openai-chat", "anthropic-messages", chunks),
    )


def llm_rosetta() -> Peer:
    theirs, ours = (made() for made in of("llm_rosetta", "AnthropicConverter", "OpenAIChatConverter"))
    [context] = of("llm_rosetta.converters.base.context", "StreamContext")

    def stream(chunks: list[Any]) -> object:
        read, written = context(), context()
        return [
            theirs.stream_response_to_provider(event, written)
            for chunk in chunks
            for event in ours.stream_response_from_provider(chunk, read)
        ]

    return Peer(
        "llm-rosetta", lambda body: ours.request_to_provider(theirs.request_from_provider(body)), stream
    )


def ant2oai() -> Peer:
    [parse] = of("a2o.converters.parser", "parse_anthropic_request")
    [convert] = of("a2o.converters.request", "convert_anthropic_to_openai")
    return Peer("ant2oai", lambda body: convert(parse(body)), None)  # its stream is bound to its server


def peers() -> Iterator[Peer]:
    """Those that are installed."""
    for make in (litellm, llm_babel, llm_rosetta, ant2oai):
        with suppress(ImportError):
            yield make()


def of_peer(peer: Peer, body: bytes) -> None:
    msgspec.json.encode(peer.request(msgspec.json.decode(body)), enc_hook=dict)


def stream_of_peer(stream: Callable[[list[Any]], object], blocks: list[bytes]) -> None:
    msgspec.json.encode(stream([msgspec.json.decode(block[6:]) for block in blocks]), enc_hook=str)


def measured(runs: dict[str, tuple[Callable[[], object], int]], rounds: int) -> dict[str, float]:
    """The median of each, in turn so that what else the machine does meets all alike.

    Five in a row: the first of them finds the caches of the processor filled by another library.
    """
    found: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, (run, parts) in runs.items():
            found[name] += [cpu_us(run) / parts for _ in range(5)]
    return {name: statistics.median(times) for name, times in found.items()}


def show(title: str, median: dict[str, float]) -> None:
    print(title)
    base = median["plain JSON"]
    for name, time_ in median.items():
        print(f"  {name:14} {time_:10.2f} µs  {time_ / base:8.2f} times plain JSON")


def main() -> None:
    body, blocks = request(), chunks(CHUNKS)
    translated = translate_request(WireFormat.MESSAGES, WireFormat.CHAT, body)
    others = list(peers())
    requests: dict[str, tuple[Callable[[], object], int]] = {
        "pointsman": (lambda: translate_request(WireFormat.MESSAGES, WireFormat.CHAT, body), 1),
        "plain JSON": (lambda: msgspec.json.encode(msgspec.json.decode(body)), 1),
    }
    streams: dict[str, tuple[Callable[[], object], int]] = {
        "pointsman": (lambda: stream(translated, blocks), CHUNKS),
        "plain JSON": (lambda: plain(blocks), CHUNKS),
    }
    for peer in others:
        requests[peer.name] = partial(of_peer, peer, body), 1
        if peer.stream is not None:
            streams[peer.name] = partial(stream_of_peer, peer.stream, blocks), CHUNKS
    show(f"request of {len(body) / 1000:.0f} kB, Messages to chat", measured(requests, ROUNDS))
    show("chunk of a stream, chat to Messages", measured(streams, 4))


if __name__ == "__main__":
    main()
