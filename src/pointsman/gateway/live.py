"""Live requests for ``pointsman router doctor --live``: each model, in each wire format, with each feature.

The requests pass through the gateway itself, inside this process: the answers are those that a caller would
get, translated or not. Nothing is retried, no other model is tried, and no store is touched.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgspec

from pointsman.config import Config
from pointsman.decision.policy import Policy
from pointsman.decoding import UNREADABLE
from pointsman.errors import ConfigError
from pointsman.factory import build_engine
from pointsman.gateway._live_state import build_live_state
from pointsman.gateway._local_replies import CapturedAnswer, whole_body
from pointsman.gateway.app import Gateway
from pointsman.gateway.upstream import header_value
from pointsman.runtime import Runtime
from pointsman.stores.ledger import MemoryLedger
from pointsman.stores.sessions import MemorySessions
from pointsman.tiers import builtin_profile
from pointsman.upstreams.connections import Connections
from pointsman.upstreams.port import Timeouts, UpstreamSpec
from pointsman.vocabulary import WireFormat
from pointsman.wire import FORMATS
from pointsman.wire.format import Ending, error_message

__all__ = [
    "OUTPUT_TOKENS",
    "TOTAL_SECONDS",
    "Feature",
    "LiveRequest",
    "LiveResult",
    "plan",
    "send_all",
    "write_request",
]

#: The most an answer may have: enough for a reasoning model to reach a word, a fraction of a cent elsewhere.
OUTPUT_TOKENS: Final = 256
_PROMPT: Final = "Reply with the single word ready."
_TOOL_PROMPT: Final = "Call the tool report with status ready."
_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"status": {"type": "string"}},
    "required": ["status"],
}
_TOOL: Final[Mapping[str, Any]] = {"name": "report", "description": "Report a status."}


class Feature(StrEnum):
    """Feature that a request tries."""

    PLAIN = "plain"
    STREAM = "stream"
    TOOLS = "tools"


class LiveRequest(NamedTuple):
    """One request to send."""

    model: str  # configured name
    upstream: str
    format: WireFormat
    is_native: bool  # else it is translated
    feature: Feature


def plan(config: Config, model: str = "") -> list[LiveRequest]:
    """Return the requests to send: those that the configuration lets a model serve.

    None goes to an upstream with ``forward_auth``: only a caller has the credential.

    Args:
        config: The configuration.
        model: Configured name of the only model to ask; empty for all.

    Raises:
        ConfigError: it is not configured.
    """
    if model and model not in config.models:
        raise ConfigError(
            f'unknown model "{model}"', hint=f"configured: {', '.join(config.models) or 'none'}"
        )
    models = [config.models[model]] if model else config.models.values()
    asked = [each for each in models if not config.upstreams[each.upstream].forward_auth]
    return [
        LiveRequest(each.name, each.upstream, wire, wire in each.formats, feature)
        for each in asked
        for wire in WireFormat
        if each.takes(wire)
        for feature in Feature
        if feature is not Feature.TOOLS or each.features is None or "tools" in each.features
    ]


def write_request(request: LiveRequest) -> bytes:
    """Return the body of a request."""
    prompt = _TOOL_PROMPT if request.feature is Feature.TOOLS else _PROMPT
    said = {"messages": [{"role": "user", "content": prompt}]}
    match request.format:
        case WireFormat.CHAT:
            body = {**said, "max_completion_tokens": OUTPUT_TOKENS}
            tools = {"tools": [{"type": "function", "function": {**_TOOL, "parameters": _SCHEMA}}]}
            choice: object = "required"
        case WireFormat.RESPONSES:
            body = {"input": prompt, "max_output_tokens": OUTPUT_TOKENS, "store": False}
            tools = {"tools": [{"type": "function", **_TOOL, "parameters": _SCHEMA}]}
            choice = "required"
        case WireFormat.MESSAGES:
            body = {**said, "max_tokens": OUTPUT_TOKENS}
            tools = {"tools": [{**_TOOL, "input_schema": _SCHEMA}]}
            choice = {"type": "any"}
    if request.feature is Feature.TOOLS:
        body |= {**tools, "tool_choice": choice}
    if request.feature is Feature.STREAM:
        body["stream"] = True
    return msgspec.json.encode({"model": request.model, **body})


#: Seconds that one answer may take: a local server may have to load the model first.
PATIENCE: Final = 60.0
#: Seconds after which no further request is sent.
TOTAL_SECONDS: Final = 600.0
#: Characters of an error that are shown.
_SHOWN: Final = 300


class LiveResult(msgspec.Struct, frozen=True):
    """Result of a request."""

    model: str
    upstream: str
    format: WireFormat
    native: bool
    feature: Feature
    ok: bool
    status: int  # 0: none came
    seconds: float
    detail: str = ""  # why it failed, or what was changed in translation


async def send_all(
    config: Config, requests: Sequence[LiveRequest], done: Callable[[LiveResult], None]
) -> list[LiveResult]:
    """Send the requests, and return the results in the same order.

    One after the other to an upstream, because a local server serves one model at a time; to different
    upstreams at once.

    Args:
        config: Of the gateway.
        requests: From ``plan``.
        done: Called with each result as it comes.
    """
    sender = _Sender(config)
    by_upstream: dict[str, list[LiveRequest]] = defaultdict(list)
    for request in requests:
        by_upstream[request.upstream].append(request)
    results: dict[LiveRequest, LiveResult] = {}

    async def send_in_turn(mine: Sequence[LiveRequest]) -> None:
        for request in mine:
            results[request] = await sender.send(request)
            done(results[request])

    try:
        async with asyncio.TaskGroup() as tasks:
            for mine in by_upstream.values():
                tasks.create_task(send_in_turn(mine))
    finally:
        sender.close()
    return [results[request] for request in requests]


class _Sender:
    """Sends one request at a time through a separate gateway."""

    def __init__(self, config: Config) -> None:
        upstreams = {name: _once(spec) for name, spec in config.upstreams.items()}
        self._config = Config(models=config.models, upstreams=upstreams)
        self._connections = Connections()
        policy = Policy(profile=builtin_profile("default"), models=config.models)
        self._runtime = Runtime(build_engine(policy), sessions=MemorySessions(), ledger=MemoryLedger())
        self._until = time.monotonic() + TOTAL_SECONDS

    async def send(self, request: LiveRequest) -> LiveResult:
        """Send a request; whatever goes wrong is a result."""
        if time.monotonic() > self._until:
            return _result(request, 0, 0.0, f"not sent: {TOTAL_SECONDS:g} seconds have passed")
        # A state of its own for each: what failed before must not have opened a circuit breaker.
        state = build_live_state(self._runtime, self._config, connections=self._connections)
        began = time.perf_counter()
        answer = CapturedAnswer()
        try:
            async with asyncio.timeout(PATIENCE):
                await Gateway(state)(_scope(request), whole_body(write_request(request)), answer)
        except TimeoutError:
            return _result(request, 0, time.perf_counter() - began, f"no answer in {PATIENCE:g} seconds")
        seconds = time.perf_counter() - began
        translated = dict(answer.headers).get(b"x-pointsman-translated", b"").decode("latin-1")
        return _result(request, answer.status, seconds, _complaint(request, answer), translated)

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()
        self._runtime.close()


def _once(spec: UpstreamSpec) -> UpstreamSpec:
    patience = Timeouts(min(spec.timeouts.connect, PATIENCE), PATIENCE, PATIENCE)
    return msgspec.structs.replace(spec, retries=0, timeouts=patience)


def _result(
    request: LiveRequest, status: int, seconds: float, complaint: str, translated: str = ""
) -> LiveResult:
    return LiveResult(
        request.model,
        request.upstream,
        request.format,
        request.is_native,
        request.feature,
        ok=not complaint,
        status=status,
        seconds=round(seconds, 3),
        detail=complaint or translated,
    )


def _complaint(request: LiveRequest, answer: CapturedAnswer) -> str:
    """Fault of an answer; empty if there is none."""
    wire = FORMATS[request.format]
    if answer.status != 200:
        return _message(answer.body) or "no error message"
    if request.feature is Feature.STREAM:
        ending = wire.end((answer.body,)).ending
        if ending in {Ending.REFUSED, Ending.CUT}:
            return _message(answer.body) or "the stream ended before its closing mark"
    try:
        summary, text = wire.completion(answer.body)
    except UNREADABLE:
        return f"the answer is not of the format {request.format}"
    if request.feature is Feature.TOOLS and not summary.tools:
        return f"no tool call, but: {_cut(text)}" if text else "no tool call"
    return "" if summary.finish or summary.tools or text else "an empty answer"


def _message(body: bytes) -> str:
    """The message of an error, of whichever format."""
    for line in body.replace(b"data:", b"\n").splitlines():
        with suppress(*UNREADABLE):
            if message := error_message(line):
                return _cut(message)
    return ""


def _cut(text: str) -> str:
    return header_value(text, _SHOWN).decode()


def _scope(request: LiveRequest) -> dict[str, Any]:
    wire = FORMATS[request.format]
    path = "/v1" + wire.path.decode()
    own = wire.model_call.headers if wire.model_call else ()
    return {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"content-type", b"application/json"), (b"host", b"localhost"), *own],
    }
