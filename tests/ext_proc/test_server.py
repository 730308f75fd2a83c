"""The external processor over real gRPC, asked by a scripted Envoy in each mode."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import msgspec
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from pointsman import ConfigError
from pointsman.agreement import AgreementPolicy
from pointsman.config import Config, GuidanceSpec
from pointsman.config.serving import ExtProcSpec
from pointsman.config.shapes import demo_config
from pointsman.ext_proc import messages as proto
from pointsman.ext_proc.server import ExtProcServer, check_bind, gateway_for
from pointsman.gateway.app import Gateway
from pointsman.gateway.build import Builder
from pointsman.stores.ledger.port import Attempt
from pointsman.upstreams.port import Limits, ServerSpec, hash_key
from support.envoy import BUFFERED, DUPLEX, NONE, STREAMED, Processed, ScriptedEnvoy
from support.in_process import ask

KEY = "pm-very-secret"
WORDS = "Prove that there are infinitely many primes, step by step, and analyse each assumption."
ANSWER = json.dumps(
    {
        "id": "1",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 90, "completion_tokens": 7},
    }
).encode()
EVENTS = [
    b'data: {"choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n',
    b'data: {"choices":[],"usage":{"prompt_tokens":90,"completion_tokens":7}}\n\ndata: [DONE]\n\n',
]
OK: tuple[int, dict[str, str], list[bytes]] = (200, {}, [ANSWER])

pytestmark = pytest.mark.integration


class Behind:
    """A processor, an Envoy before it, and what was written down."""

    def __init__(self, server: ExtProcServer, gateway: Gateway, envoy: ScriptedEnvoy) -> None:
        self.server = server
        self.gateway = gateway
        self.envoy = envoy

    async def attempts(self, decision: str) -> tuple[Attempt, ...]:
        await self.server.settled()
        ledger = self.gateway.state.runtime.ledger
        await asyncio.to_thread(ledger.flush)
        return ledger.attempts(decision)

    def counted(self, result: str) -> bool:
        line = f'pointsman_ext_proc_total{{result="{result}"}} 1.0'
        return line in self.gateway.metrics.page().decode()


def configured(
    folder: Path, spec: ExtProcSpec, server: ServerSpec, answer_bytes: int = 1 << 20, **more: Any
) -> Config:
    found = demo_config()
    upstreams = {
        name: msgspec.structs.replace(each, answer_bytes=answer_bytes)
        for name, each in found.upstreams.items()
    }
    return msgspec.structs.replace(
        found,
        upstreams=upstreams,
        **more,
        ledger=msgspec.structs.replace(found.ledger, path=folder / "demo.sqlite"),
        ext_proc=spec,
        server=server,
        guidance=GuidanceSpec(mode=found.guidance.mode, control=0.0),
    )


@asynccontextmanager
async def behind(
    folder: Path,
    spec: ExtProcSpec | None = None,
    server: ServerSpec | None = None,
    answer_bytes: int = 1 << 20,
    **more: Any,
) -> AsyncIterator[Behind]:
    spec = spec or ExtProcSpec(port=0)
    server = server or ServerSpec(drain=60.0)
    builder = Builder(lambda: configured(folder, spec, server, answer_bytes, **more))
    gateway = gateway_for(builder(), spec)
    served = ExtProcServer(gateway, spec)
    await served.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{served.port}") as channel:
            yield Behind(served, gateway, ScriptedEnvoy(channel))
    finally:
        await served.stop()
        builder.close()


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))


def chat(text: str = WORDS, **more: Any) -> bytes:
    return json.dumps({"model": "auto", "messages": [{"role": "user", "content": text}], **more}).encode()


MODES = [
    pytest.param({}, id="buffered"),
    pytest.param({"says_modes": False}, id="unsaid"),
    pytest.param({"mode": DUPLEX, "response_mode": DUPLEX, "chunk": 40}, id="full duplex"),
    pytest.param({"mode": DUPLEX, "response_mode": NONE, "trailers": True, "chunk": 40}, id="with trailers"),
    pytest.param({"response_mode": STREAMED}, id="streamed response"),
]


@pytest.mark.parametrize("modes", MODES)
def test_a_request_is_decided_and_its_usage_written_down(tmp_path: Path, modes: dict[str, Any]) -> None:
    async def test() -> None:
        async with behind(tmp_path) as here:
            found = await here.envoy.process(chat(), response=OK, **modes)
            assert found.immediate is None
            assert found.clears_route
            sent = found.request_headers
            assert sent["x-ai-eg-model"] == sent["x-pointsman-model"] == "demo-large"
            assert sent["x-pointsman-tier"] == "REASONING"
            assert found.body is not None
            assert json.loads(found.body) == json.loads(chat()) | {"model": "demo-large"}
            assert sent["content-length"] == str(len(found.body))
            assert found.response_headers["x-pointsman-decision-id"] == sent["x-pointsman-decision-id"]
            assert found.removed == ["accept-encoding"]
            (attempt,) = await here.attempts(sent["x-pointsman-decision-id"])
            assert (attempt.model, attempt.status, attempt.error) == ("demo-large", 200, "")
            shows = modes.get("response_mode") != NONE
            assert (attempt.input_tokens, attempt.output_tokens) == ((90, 7) if shows else (None, None))
            assert here.counted("decided")
            if modes.get("response_mode") == DUPLEX:
                assert found.response_body == ANSWER

    run(test)


def test_no_model_is_asked_past_envoy(tmp_path: Path) -> None:
    """Once, [agreement] sent prompts to its cheap models itself, and answered with what they agreed on."""
    table = AgreementPolicy(cheap=("demo-small", "demo-large"), incomparable="first", loops=True)

    async def test() -> None:
        async with behind(tmp_path, agreement={"all": table}) as here:
            found = await here.envoy.process(chat(), response=OK)
            assert found.immediate is None
            (attempt,) = await here.attempts(found.request_headers["x-pointsman-decision-id"])
            assert (attempt.model, attempt.output_tokens) == ("demo-large", 7)

    run(test)


@pytest.mark.parametrize("mode", [BUFFERED, STREAMED, DUPLEX])
@pytest.mark.parametrize(("size", "error"), [(1_000, ""), (999, "too_large")])
def test_a_long_answer_is_not_held(tmp_path: Path, mode: int, size: int, error: str) -> None:
    """Once, an endless one was held until the memory was gone."""
    parts = [ANSWER, b" " * (1_000 - len(ANSWER))]
    parts = [b"".join(parts)] if mode == BUFFERED else parts

    async def test() -> None:
        async with behind(tmp_path, answer_bytes=size) as here:
            found = await here.envoy.process(chat(), response=(200, {}, parts), response_mode=mode)
            (attempt,) = await here.attempts(found.request_headers["x-pointsman-decision-id"])
            assert (attempt.error, attempt.output_tokens) == (error, None if error else 7)

    run(test)


@pytest.mark.parametrize("mode", [STREAMED, DUPLEX])
def test_a_stream_that_ends_in_a_part_too_long_to_hold_is_no_whole_one(tmp_path: Path, mode: int) -> None:
    """Its end was taken for that of the answer, which then had no usage and no error."""
    parts = [EVENTS[0], b": " + b"x" * 2_000 + b"\n\n" + EVENTS[1]]
    response = (200, {"content-type": "text/event-stream"}, parts)

    async def test() -> None:
        async with behind(tmp_path, answer_bytes=1_000) as here:
            found = await here.envoy.process(chat(stream=True), response=response, response_mode=mode)
            (attempt,) = await here.attempts(found.request_headers["x-pointsman-decision-id"])
            assert attempt.error == "too_large"

    run(test)


@pytest.mark.parametrize("mode", [STREAMED, DUPLEX], ids=["streamed", "full duplex"])
def test_the_usage_of_a_stream_is_read_at_its_end(tmp_path: Path, mode: int) -> None:
    async def test() -> None:
        async with behind(tmp_path) as here:
            response = (200, {"content-type": "text/event-stream"}, EVENTS)
            found = await here.envoy.process(chat(stream=True), response=response, response_mode=mode)
            (attempt,) = await here.attempts(found.request_headers["x-pointsman-decision-id"])
            assert (attempt.error, attempt.input_tokens, attempt.output_tokens) == ("", 90, 7)
            assert found.response_body == (b"".join(EVENTS) if mode == DUPLEX else b"")

    run(test)


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        pytest.param((503, {}, [b'{"error": {"message": "busy"}}']), (503, "status"), id="failed"),
        pytest.param((429, {"retry-after": "5"}, [b"{}"]), (429, "status"), id="rate limit"),
        pytest.param((200, {"content-encoding": "gzip"}, [b"\x1f\x8b"]), (200, ""), id="compressed"),
        pytest.param((200, {}, [b"no json"]), (200, "malformed"), id="malformed"),
        pytest.param(None, (0, "disconnect"), id="caller left"),
    ],
)
def test_outcomes_are_written_down(tmp_path: Path, response: Any, expected: tuple[int, str]) -> None:
    async def test() -> None:
        async with behind(tmp_path) as here:
            for _ in range(2):  # an upstream that failed is decided for again: Envoy judges
                found = await here.envoy.process(chat(), response=response)
                (attempt,) = await here.attempts(found.request_headers["x-pointsman-decision-id"])
                assert (attempt.status, attempt.error) == expected

    run(test)


@pytest.mark.parametrize("mode", [2, DUPLEX], ids=["buffered", "full duplex"])
@pytest.mark.parametrize(
    ("body", "headers", "status", "code"),
    [
        (chat(model="gtp"), {"authorization": f"Bearer {KEY}"}, 404, "model_not_found"),
        (chat(), {}, 401, "invalid_api_key"),
        (chat(), {"x-api-key": "wrong"}, 401, "invalid_api_key"),
    ],
)
def test_a_refusal_is_answered_at_once(
    tmp_path: Path, body: bytes, headers: dict[str, str], status: int, code: str, mode: int
) -> None:
    async def test() -> None:
        server = ServerSpec(keys=(hash_key(KEY),), names=("team",), drain=60.0)
        async with behind(tmp_path, server=server) as here:
            found = await here.envoy.process(body, headers=headers, mode=mode)
            assert found.immediate.status.code == status
            assert json.loads(found.immediate.body)["error"]["code"] == code
            sent = {option.header.key for option in found.immediate.headers.set_headers}
            assert "content-type" in sent
            assert "content-length" not in sent
            assert here.counted("answered")

    run(test)


@pytest.mark.parametrize("mode", [2, DUPLEX], ids=["buffered", "full duplex"])
@pytest.mark.parametrize(
    ("body", "more", "why"),
    [
        pytest.param(chat("x" * 3_000), {}, "too_large", id="large"),
        pytest.param(b"{no json", {}, "unknown_format", id="no JSON"),
        pytest.param(b'{"inputs": "x"}', {}, "unknown_format", id="another format"),
        pytest.param(
            chat(), {"headers": {"content-type": "text/plain"}}, "unknown_format", id="another type"
        ),
        pytest.param(chat(), {"path": "/v1/embeddings"}, "other_path", id="another path"),
        pytest.param(chat(), {"method": "PUT"}, "other_path", id="another method"),
    ],
)
def test_what_is_not_decided_goes_on_as_it_came(
    tmp_path: Path, body: bytes, more: dict[str, Any], why: str, mode: int
) -> None:
    async def test() -> None:
        server = ServerSpec(limits=Limits(body_bytes=2_000), drain=60.0)
        async with behind(tmp_path, server=server) as here:
            found = await here.envoy.process(body, mode=mode, chunk=700, response=OK, **more)
            assert found.immediate is None
            assert found.body == (body if mode == DUPLEX else None)
            assert (found.request_headers, found.removed, found.clears_route) == ({}, [], False)
            assert found.response_headers == {}
            assert here.counted(why)

    run(test)


@pytest.mark.parametrize(
    ("more", "why"),
    [({"mode": NONE}, "body_mode"), ({"mode": STREAMED}, "body_mode"), ({"body": b""}, "no_body")],
)
def test_without_a_whole_body_nothing_is_decided(tmp_path: Path, more: dict[str, Any], why: str) -> None:
    async def test() -> None:
        async with behind(tmp_path) as here:
            asked: dict[str, Any] = {"body": chat(), "chunk": 30, "response": OK} | more
            found = await here.envoy.process(**asked)
            assert (found.immediate, found.body, found.request_headers) == (None, None, {})
            assert here.counted(why)

    run(test)


def test_names_and_headers_are_as_configured(tmp_path: Path) -> None:
    async def test() -> None:
        spec = ExtProcSpec(port=0, model_headers=("X-Gateway-Model-Name", "x-model"), replace_body=False)
        async with behind(tmp_path, spec) as here:
            found = await here.envoy.process(chat(), response=OK)
            assert found.body is None
            assert found.request_headers["x-gateway-model-name"] == "demo-large"
            assert found.request_headers["x-model"] == "demo-large"
            duplex = await here.envoy.process(chat(), mode=DUPLEX)
            assert duplex.body == chat()

    run(test)


def test_a_proxy_that_does_not_say_its_mode_is_told_of(tmp_path: Path) -> None:
    async def test() -> None:
        async with behind(tmp_path, ExtProcSpec(port=0, body_mode="full_duplex")) as here:
            found = await here.envoy.process(
                chat(), mode=DUPLEX, response_mode=DUPLEX, says_modes=False, chunk=40, response=OK
            )
            assert found.request_headers["x-ai-eg-model"] == "demo-large"
            assert found.response_body == ANSWER
        async with behind(tmp_path, ExtProcSpec(port=0, body_mode="buffered")) as here:
            assert (await here.envoy.process(chat(), says_modes=True, response=OK)).clears_route

    run(test)


def test_nobody_sets_our_headers_and_our_key_goes_nowhere(tmp_path: Path) -> None:
    async def test() -> None:
        server = ServerSpec(keys=(hash_key(KEY),), names=("team",), drain=60.0)
        async with behind(tmp_path, server=server) as here:
            sent = {"authorization": f"Bearer {KEY}", "x-pointsman-why": "me", "x-pointsman-tier": "SIMPLE"}
            found = await here.envoy.process(chat(), headers=sent, response=OK)
            assert found.removed == ["accept-encoding", "x-pointsman-why", "authorization"]
            assert found.request_headers["x-pointsman-tier"] == "REASONING"
            theirs = {"x-pointsman-key": KEY, "authorization": "Bearer their-own"}
            found = await here.envoy.process(chat(), headers=theirs, response=OK)
            assert found.removed == ["accept-encoding", "x-pointsman-key"]

    run(test)


def test_a_stuck_agent_gets_its_hint_through_envoy(tmp_path: Path) -> None:
    def call(number: int) -> list[dict[str, Any]]:
        function = {"name": "bash", "arguments": json.dumps({"command": f"make test{number}"})}
        tool = {"id": f"c{number}", "type": "function", "function": function}
        return [
            {"role": "assistant", "content": None, "tool_calls": [tool]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": "Error: exit code 2\nmake: *** failed"},
        ]

    async def test() -> None:
        async with behind(tmp_path) as here:
            said: list[dict[str, Any]] = [{"role": "user", "content": "Make the tests pass."}]
            hinted = 0
            for number in range(8):
                body = json.dumps({"model": "auto", "messages": said}).encode()
                found = await here.envoy.process(body, headers={"x-session-id": "s"}, response=OK)
                assert found.body is not None
                hinted += json.loads(found.body)["messages"] != said
                said += call(number)
            assert hinted
            page = here.gateway.metrics.page().decode()
            assert 'result="given"' in page

    run(test)


def test_requests_beside_each_other_keep_apart(tmp_path: Path) -> None:
    async def one(here: Behind, number: int) -> Processed:
        words = WORDS if number % 2 else "Hello!"
        mode = DUPLEX if number % 3 else 2
        headers = {"x-session-id": f"s{number}"}
        return await here.envoy.process(chat(words), headers=headers, mode=mode, response=OK)

    async def test() -> None:
        async with behind(tmp_path) as here:
            found = await asyncio.gather(*(one(here, number) for number in range(40)))
            models = [each.request_headers["x-pointsman-model"] for each in found]
            assert models == ["demo-small", "demo-large"] * 20
            assert len({each.request_headers["x-pointsman-decision-id"] for each in found}) == 40

    run(test)


def test_the_decisions_are_the_gateways(tmp_path: Path) -> None:
    """The same requests, in the same order, decided over HTTP and behind Envoy."""
    asked: list[tuple[str, dict[str, Any]]] = [
        ("Hello!", {}),
        (WORDS, {}),
        ("Write a function that parses a date.", {"tools": []}),
        ("Thanks!", {}),
        ("Refactor the module and explain the trade-offs of both designs in detail.", {}),
        (WORDS, {"model": "simple"}),
        ("What is the capital of France?", {"stream": True}),
    ]
    requests = [
        (chat(text, **more), {"x-session-id": f"s{number % 3}"}) for number, (text, more) in enumerate(asked)
    ]

    async def test() -> None:
        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()
        plain = Builder(lambda: configured(tmp_path / "a", ExtProcSpec(), ServerSpec()))
        gateway = Gateway(plain())
        over_http = []
        for body, headers in requests:
            answer = await ask(gateway, "/v1/chat/completions", body, headers)
            over_http.append((answer.headers["x-pointsman-tier"], answer.headers["x-pointsman-model"]))
        plain.close()
        async with behind(tmp_path / "b") as here:
            seen = [
                await here.envoy.process(body, headers=headers, response=OK) for body, headers in requests
            ]
        sent = [each.request_headers for each in seen]
        assert [(each["x-pointsman-tier"], each["x-pointsman-model"]) for each in sent] == over_http

    run(test)


def test_health_and_a_graceful_end(tmp_path: Path) -> None:
    """A request in progress is finished after the end has begun, and health says that it ends."""

    async def test() -> None:
        async with (
            behind(tmp_path) as here,
            grpc.aio.insecure_channel(f"127.0.0.1:{here.server.port}") as channel,
        ):
            check = health_pb2_grpc.HealthStub(channel)
            asked = health_pb2.HealthCheckRequest(service=proto.SERVICE)
            assert (await check.Check(asked)).status == health_pb2.HealthCheckResponse.SERVING
            watching = check.Watch(asked)
            assert (await watching.read()).status == health_pb2.HealthCheckResponse.SERVING
            open_ = here.envoy.begin()
            await open_.write(here.envoy.first())
            await open_.read()
            ending = asyncio.create_task(here.server.stop())
            assert (await watching.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
            body = {"body": chat(), "end_of_stream": True}
            await open_.write(proto.ProcessingRequest(request_body=body))
            answer = await open_.read()
            assert answer.request_body.response.clear_route_cache
            await open_.done_writing()
            watching.cancel()
            await ending

    run(test)


@pytest.mark.parametrize(
    ("spec", "works"),
    [
        (ExtProcSpec(), True),
        (ExtProcSpec(host="::1"), True),
        (ExtProcSpec(host="0.0.0.0"), False),
        (ExtProcSpec(host="0.0.0.0", insecure=True), True),
        (ExtProcSpec(host="0.0.0.0", certificate=Path("a"), private_key=Path("b")), True),
    ],
)
def test_a_public_address_needs_tls(spec: ExtProcSpec, works: bool) -> None:
    if works:
        check_bind(spec)
        return
    with pytest.raises(ConfigError, match="without TLS"):
        check_bind(spec)


def test_over_tls_with_a_clients_certificate(tmp_path: Path) -> None:
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    ours, theirs = authority.issue_cert("localhost"), authority.issue_cert("envoy.example")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    ours.private_key_pem.write_to_path(tmp_path / "key.pem")
    ours.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")

    async def test() -> None:
        spec = ExtProcSpec(
            port=0,
            certificate=tmp_path / "cert.pem",
            private_key=tmp_path / "key.pem",
            client_ca=tmp_path / "ca.pem",
        )
        async with behind(tmp_path, spec) as here:
            credentials = grpc.ssl_channel_credentials(
                authority.cert_pem.bytes(), theirs.private_key_pem.bytes(), theirs.cert_chain_pems[0].bytes()
            )
            address = f"localhost:{here.server.port}"
            async with grpc.aio.secure_channel(address, credentials) as channel:
                found = await ScriptedEnvoy(channel).process(chat(), response=OK)
                assert found.request_headers["x-pointsman-model"] == "demo-large"
            anonymous = grpc.ssl_channel_credentials(authority.cert_pem.bytes())
            async with grpc.aio.secure_channel(address, anonymous) as channel:
                with pytest.raises(grpc.aio.AioRpcError):
                    await ScriptedEnvoy(channel).process(chat())

    run(test)


def test_a_certificate_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    spec = ExtProcSpec(certificate=tmp_path / "none.pem", private_key=tmp_path / "none.pem")
    with pytest.raises(ConfigError, match=r"none\.pem: No such file"):
        ExtProcServer(gateway_for(Builder(demo_config)(), spec), spec)


def test_a_gateway_that_fails_lets_the_request_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise RuntimeError("of the gateway")

    async def test() -> None:
        async with behind(tmp_path) as here:
            monkeypatch.setattr(here.gateway.state.runtime, "decide", fail)
            found = await here.envoy.process(chat(), mode=DUPLEX, chunk=50, response=OK)
            assert (found.immediate, found.body, found.request_headers) == (None, chat(), {})
            monkeypatch.setattr(Gateway, "__call__", fail)
            found = await here.envoy.process(chat(), response=OK)
            assert (found.immediate, found.body, found.request_headers) == (None, None, {})
            assert 'pointsman_ext_proc_total{result="failed"} 2.0' in here.gateway.metrics.page().decode()

    run(test)


def test_bodies_that_wait_are_bounded_together(tmp_path: Path) -> None:
    async def test() -> None:
        limits = Limits(body_bytes=2_000, total_body_bytes=1)
        async with behind(tmp_path, server=ServerSpec(limits=limits, drain=60.0)) as here:
            waiting = [here.envoy.begin() for _ in range(2)]
            for stream in waiting:  # each holds its request until the body has come
                first = here.envoy.first()
                first.protocol_config.request_body_mode = DUPLEX
                await stream.write(first)
                part = {"body": b"x" * 1_900}
                await stream.write(proto.ProcessingRequest(request_body=part))
            while here.gateway.bodies.held < 3_800:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)
            found = await here.envoy.process(chat("x" * 1_700), mode=DUPLEX, response=OK)
            assert (found.immediate, found.body) == (None, chat("x" * 1_700))
            assert here.counted("overloaded")
            for stream in waiting:
                stream.cancel()
            await here.server.settled()

    run(test)


def test_trailers_of_a_response_end_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with behind(tmp_path) as here:
            found = await here.envoy.process(
                chat(), response=OK, response_mode=DUPLEX, response_trailers=True
            )
            assert found.kinds[-1] == "response_trailers"
            (attempt,) = await here.attempts(found.request_headers["x-pointsman-decision-id"])
            assert (attempt.error, attempt.output_tokens) == ("", 7)

    run(test)
