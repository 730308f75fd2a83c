"""What a decision behind Envoy costs beside the gateway's own, and whether both decide alike.

    .venv/bin/python benchmarks/ext_proc.py [--requests 1000] [--data ../shared/data] [--rounds 5]

First, recorded requests are decided by the gateway through its ASGI interface and by the external processor
over real gRPC, each with a ledger of its own, in the same order: what was read of the request, tier, chain of
models, domains, texts added, reasons and the body sent are compared. The requests are recorded dialogues and
prompts in all three formats, and the steps of recorded runs of agents, from ``--data``. Then both serve short
requests as processes of their own, round after round; printed is the least CPU per request of all rounds, and
the ratio to the gateway's own. Linux: reads /proc. Needs the extra ``extproc``.
"""

import argparse
import asyncio
import contextlib
import gzip
import itertools
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc
import msgspec
from loopback.load import load
from loopback.processes import Server, free_port

from gateway import POINTSMAN, short
from pointsman import Decision
from pointsman.config import Config, DomainsSpec, GuidanceSpec
from pointsman.config.serving import ExtProcSpec
from pointsman.config.shapes import demo_config
from pointsman.ext_proc.server import ExtProcServer, gateway_for
from pointsman.gateway.app import Gateway
from pointsman.gateway.build import Builder
from pointsman.upstreams.port import Call, Exchange
from pointsman.vocabulary import Mode

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from support.envoy import DUPLEX, ScriptedEnvoy  # noqa: E402 - the scripted Envoy of the tests
from support.in_process import ask  # noqa: E402

PATHS: Final = ("/v1/chat/completions", "/v1/responses", "/v1/messages")
ANSWERS: Final = {
    PATHS[0]: {
        "id": "1",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 1},
    },
    PATHS[1]: {"id": "1", "object": "response", "status": "completed", "output": [],
               "usage": {"input_tokens": 9, "output_tokens": 1}},
    PATHS[2]: {"id": "1", "type": "message", "role": "assistant", "content": [], "stop_reason": "end_turn",
               "usage": {"input_tokens": 9, "output_tokens": 1}},
}  # fmt: skip


CONCURRENCY: Final = 16
#: Of a recorded message.
KEPT: Final = ("role", "content", "tool_calls", "tool_call_id", "name")


class Recorded(NamedTuple):
    """One request."""

    path: str
    session: str
    body: bytes


class Answered:
    """An upstream's answer that is there (``Exchange``)."""

    def __init__(self, body: bytes) -> None:
        self.status = 200
        self.headers = [(b"content-type", b"application/json")]
        self._body = body

    async def read(self) -> bytes:
        return self._body

    async def next(self) -> bytes:
        return b""

    def close(self) -> None:
        """There is nothing to close."""


class Noting:
    """Answers at once, and keeps what it was sent (``UpstreamClient``)."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def send(self, call: Call) -> Exchange:
        self.bodies.append(call.body)
        return Answered(json.dumps(ANSWERS["/v1" + call.path.decode()]).encode())

    def close(self) -> None:
        """There is nothing to close."""


def rows(file: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def said_in(data: Path) -> Iterator[Recorded]:
    """Yield the turns of recorded dialogues: a session goes on with its earlier texts."""
    said: dict[str, list[str]] = {}
    for name in ("sgd_multidomain", "bfcl_multi_turn"):
        for row in rows(data / "domains" / f"{name}.jsonl.gz"):
            if row["speaker"] == "user":
                session = row["dialogue_id"]
                said.setdefault(session, []).append(row["text"])
                path = PATHS[sum(session.encode()) % len(PATHS)]
                yield Recorded(path, session, json.dumps(body(path, said[session][-8:])).encode())


def prompts(data: Path) -> Iterator[Recorded]:
    """Yield single prompts, in all three formats."""
    for name in ("tier_labels", "agent_tasks", "difficulty"):
        for number, row in enumerate(rows(data / "tiers" / f"{name}.jsonl.gz")):
            path = PATHS[number % len(PATHS)]
            yield Recorded(path, f"{name}-{number}", json.dumps(body(path, [row["prompt"]])).encode())


def steps(data: Path) -> Iterator[Recorded]:
    """Yield the requests of recorded runs of agents: one after each message of a person or a tool."""
    for row in rows(data / "trajectories" / "tau_bench_airline.jsonl.gz"):
        messages = [{key: each[key] for key in KEPT if each.get(key) is not None} for each in row["messages"]]
        for count, message in enumerate(messages, 1):
            if message["role"] in {"user", "tool"}:
                whole = {"model": "auto", "messages": messages[:count]}
                yield Recorded(PATHS[0], row["id"], json.dumps(whole).encode())


def requests(data: Path, count: int) -> list[Recorded]:
    """Return recorded requests, a third of each kind, in the order in which they were recorded."""
    share = -(-count // 3)
    kinds = [list(itertools.islice(kind(data), share)) for kind in (said_in, steps)]
    many = list(prompts(data))
    kinds.append(many[:: max(len(many) // share, 1)][:share])
    return [each for kind in kinds for each in kind][:count]


def body(path: str, said: Sequence[str]) -> dict[str, Any]:
    """A conversation in which the person said some texts."""
    turns: list[dict[str, Any]] = []
    for text in said:
        turns += [{"role": "user", "content": text}, {"role": "assistant", "content": "Done."}]
    if path == PATHS[1]:
        return {"model": "auto", "input": turns[:-1], "store": False}
    more = {"max_tokens": 1_000} if path == PATHS[2] else {}
    return {"model": "auto", "messages": turns[:-1], **more}


def configured(folder: Path) -> Config:
    found = demo_config()
    return msgspec.structs.replace(
        found,
        ledger=msgspec.structs.replace(found.ledger, path=folder / "ledger.sqlite", text="off"),
        guidance=GuidanceSpec(mode=Mode.ON, control=0.0),
        domains=DomainsSpec(mode=Mode.ON),
        ext_proc=ExtProcSpec(port=0),
    )


def compared(decision: Decision) -> tuple[object, ...]:
    """What must be the same of two decisions: all but id and times."""
    asked = msgspec.structs.replace(
        decision.input, arrived_at=0.0, traceparent="", size=0, client="", project=""
    )
    return (
        asked,
        decision.tier,
        decision.chain,
        decision.injections,
        decision.standing,
        decision.domains,
        decision.reasons,
        decision.policy,
    )


def decisions(gateway: Gateway) -> list[Decision]:
    ledger = gateway.state.runtime.ledger
    ledger.flush()
    return list(ledger.decisions(limit=None, newest_first=False))


class Spent(NamedTuple):
    """Of one way: decisions in order, and bodies sent."""

    decisions: list[Decision]
    bodies: list[bytes]


def answer(path: str) -> tuple[int, dict[str, str], list[bytes]]:
    """Return the answer of an upstream: status, headers, parts of the body."""
    return 200, {}, [json.dumps(ANSWERS[path]).encode()]


async def over_http(recorded: Sequence[Recorded], folder: Path) -> Spent:
    builder = Builder(lambda: configured(folder))
    gateway, client = Gateway(builder()), Noting()
    for upstream in gateway.state.upstreams.values():
        upstream.client = client
    for each in recorded:
        got = await ask(gateway, each.path, each.body, {"x-session-id": each.session})
        if got.status != 200:
            raise SystemExit(f"{each.path}: {got.status} {got.body!r}")
    found = await asyncio.to_thread(decisions, gateway)
    builder.close()
    return Spent(found, client.bodies)


async def behind_envoy(recorded: Sequence[Recorded], folder: Path, mode: int) -> Spent:
    builder = Builder(lambda: configured(folder))
    spec = configured(folder).ext_proc
    gateway = gateway_for(builder(), spec)
    server = ExtProcServer(gateway, spec)
    await server.start()
    bodies = []
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        envoy = ScriptedEnvoy(channel)
        for each in recorded:
            response = answer(each.path)
            found = await envoy.process(
                each.body,
                path=each.path,
                headers={"x-session-id": each.session},
                mode=mode,
                response=response,
            )
            await server.settled()  # what it remembers is kept for the next
            if found.immediate is not None:
                raise SystemExit(f"{each.path}: {found.immediate}")
            bodies.append(each.body if found.body is None else found.body)
    made = await asyncio.to_thread(decisions, gateway)
    await server.stop()
    builder.close()
    return Spent(made, bodies)


def compare(recorded: Sequence[Recorded]) -> int:
    """Print how many requests are decided and sent alike, and return how many are not."""
    worst = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ways = [folder / way for way in ("http", "buffered", "duplex")]
        for way in ways:
            way.mkdir()
        plain = asyncio.run(over_http(recorded, ways[0]))
        for way, mode in ((ways[1], 2), (ways[2], DUPLEX)):
            seen = asyncio.run(behind_envoy(recorded, way, mode))
            pairs = zip(plain.decisions, seen.decisions, strict=True)
            alike = sum(compared(ours) == compared(theirs) for ours, theirs in pairs)
            sent = sum(ours == theirs for ours, theirs in zip(plain.bodies, seen.bodies, strict=True))
            print(f"{way.name}: {alike} of {len(recorded)} decided alike, {sent} bodies sent alike")
            worst = max(worst, len(recorded) - min(alike, sent))
    tiers = {str(each.tier.tier) for each in plain.decisions if each.tier}
    added = sum(bool(each.injections) for each in plain.decisions)
    sessions = {each.session for each in recorded}
    print(f"{len(sessions)} sessions, tiers {', '.join(sorted(tiers))}, {added} with text added")
    return worst


#: Lets every message go on: what gRPC and the messages alone cost.
ECHO: Final = """
import asyncio, sys, grpc
from pointsman.ext_proc import messages as proto
from pointsman.ext_proc._envoy import continued

async def process(_, context):
    while (message := await context.read()) is not grpc.aio.EOF:
        await context.write(continued(message.WhichOneof("request")))

async def main():
    server = grpc.aio.server()
    handler = grpc.stream_stream_rpc_method_handler(
        process, proto.ProcessingRequest.FromString, proto.ProcessingResponse.SerializeToString)
    service = grpc.method_handlers_generic_handler(proto.SERVICE, {"Process": handler})
    server.add_generic_rpc_handlers((service,))
    server.add_insecure_port("127.0.0.1:" + sys.argv[1])
    await server.start()
    await server.wait_for_termination()

asyncio.run(main())
"""


class Processes(NamedTuple):
    """What is compared, each a process of its own."""

    gateway: Server
    processor: Server
    echo: Server


async def ask_processor(port: int, count: int, mode: int, *, decides: bool = True) -> None:
    """Send requests to the processor, some at once, over one connection as Envoy does."""
    waiting = iter([short() for _ in range(count)])
    response = answer(PATHS[0])

    async def worker(envoy: ScriptedEnvoy) -> None:
        for each in waiting:
            found = await envoy.process(each, mode=mode, response=response)
            if decides != ("x-ai-eg-model" in found.request_headers):
                raise SystemExit(f"not decided: {found.immediate}")

    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        envoy = ScriptedEnvoy(channel)
        await asyncio.gather(*(worker(envoy) for _ in range(CONCURRENCY)))


def spent_by(servers: Processes, way: str, count: int) -> float:
    """Return microseconds of CPU per request of one server's whole process."""
    server = {"gateway": servers.gateway, "protocol alone": servers.echo}.get(way, servers.processor)
    before = server.cpu()
    if way == "gateway":
        load(server.port, (short() for _ in range(count)), CONCURRENCY)
    elif way == "protocol alone":
        asyncio.run(ask_processor(server.port, count, 2, decides=False))
    else:
        asyncio.run(ask_processor(server.port, count, DUPLEX if way == "full duplex" else 2))
    return (server.cpu() - before) / count * 1e6


def cost(rounds: int, count: int) -> None:
    """Print the CPU per request of both, as processes."""
    ways = ("gateway", "protocol alone", "buffered", "full duplex")
    spent: dict[str, list[float]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stopping:
        servers = started(Path(name), stopping)
        for round_ in range(-1, rounds):  # the first one warms up
            for way in ways:
                found = spent_by(servers, way, count)
                if round_ >= 0:
                    spent[way].append(found)
    print("\n| CPU per request of the whole process | µs | ratio to the gateway's own |")
    print("|---|---|---|")
    for way in ways:
        least = min(spent[way])
        print(f"| {way} | {least:.0f} | {least / min(spent['gateway']):.2f} |")


def started(folder: Path, stopping: contextlib.ExitStack) -> Processes:
    """Start the upstream of the gateway, the gateway and the processor."""
    env = {**os.environ, "BENCH_KEY": "sk-bench"}
    up = free_port()
    script = Path(__file__).parent / "loopback" / "upstream.py"

    def start(name: str, command: list[str], port: int) -> Server:
        server = Server(name, [sys.executable, *command], port, env, folder / f"{name}.log")
        stopping.callback(server.stop)
        server.wait()
        return server

    start("upstream", [str(script), str(up), "1", "0"], up)
    servers = []
    at = free_port()
    echo = start("echo", ["-c", ECHO, str(at)], at)
    for name in ("serve", "ext-proc"):
        (own := folder / name).mkdir()
        file = own / "pointsman.toml"
        file.write_text(POINTSMAN.format(url=f"http://127.0.0.1:{up}/v1", folder=own))
        port = free_port()
        command = ["-m", "pointsman", name, "--config", str(file), "--port", str(port)]
        servers.append(start(name, command, port))
    gateway, processor = servers
    return Processes(gateway, processor, echo)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=1_000)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    recorded = requests(asked.data, asked.requests)
    differing = compare(recorded)
    if asked.rounds:
        cost(asked.rounds, 400)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
