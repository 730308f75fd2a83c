"""What translating costs: a request of 91 kB from Messages to chat, and a chunk of a streamed answer back.

    .venv/bin/python benchmarks/translation.py

Baseline, in the same run and interleaved: decoding the same JSON into plain objects and encoding it again.
CPU medians in microseconds; on a busy machine trust the ratios. Asked for: 150 µs a request, 2 µs a chunk.
"""

import json
import statistics
import time
from collections.abc import Callable

import msgspec

from pointsman.vocabulary import WireFormat
from pointsman.wire.translate import StreamTranslation, Translated, translate_request

ROUNDS = 200
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
    started = time.process_time_ns()
    run()
    return (time.process_time_ns() - started) / 1e3


def stream(translated: Translated, blocks: list[bytes]) -> None:
    translation = StreamTranslation(translated)
    for block in blocks:
        translation.feed(block)


def plain(blocks: list[bytes]) -> None:
    for block in blocks:
        msgspec.json.encode(msgspec.json.decode(block[6:]))


def main() -> None:
    body, blocks = request(), chunks(CHUNKS)
    translated = translate_request(WireFormat.MESSAGES, WireFormat.CHAT, body)
    runs: dict[str, tuple[Callable[[], object], float]] = {
        "request": (lambda: translate_request(WireFormat.MESSAGES, WireFormat.CHAT, body), 1),
        "request, plain JSON": (lambda: msgspec.json.encode(msgspec.json.decode(body)), 1),
        "chunk": (lambda: stream(translated, blocks), CHUNKS),
        "chunk, plain JSON": (lambda: plain(blocks), CHUNKS),
    }
    found: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(ROUNDS):
        for name, (run, parts) in runs.items():
            if parts == 1 or number % 10 == 0:
                found[name].append(cpu_us(run) / parts)
    median = {name: statistics.median(times) for name, times in found.items()}
    print(f"request of {len(body) / 1000:.0f} kB, Messages to chat; chunk, chat to Messages")
    for name, time_ in median.items():
        print(f"{name:22} {time_:9.2f} µs")
    for name in ("request", "chunk"):
        print(f"{name}: {median[name] / median[f'{name}, plain JSON']:.2f} times plain JSON")


if __name__ == "__main__":
    main()
