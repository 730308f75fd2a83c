"""Routes other than those for agents: health, metrics, models, decisions, outcomes, and their description."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, cast
from urllib.parse import unquote

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from pointsman.decoding import UNREADABLE
from pointsman.errors import (
    CallerError,
    Forbidden,
    MalformedRequest,
    MethodNotAllowed,
    StoreUnavailable,
    TooLarge,
    TooManyOutcomes,
    UnknownDecision,
    shown,
)
from pointsman.gateway._inbound import CallerLeft, check_no_query, read_bytes
from pointsman.gateway._limits import check_changer, check_reader, seen_by
from pointsman.gateway._live_state import LiveState, open_circuits
from pointsman.gateway._local_replies import PATHS_HINT, error_code, request_line
from pointsman.gateway._metrics import Metrics
from pointsman.model_choice.chains import FALLBACK_CHAIN, Pool
from pointsman.printable import printable, printable_json
from pointsman.stores.ledger.outcome_reports import read_report
from pointsman.stores.ledger.runs import run_record
from pointsman.tiers import asks_to_decide, forced_tier
from pointsman.vocabulary import ModelSpec, Tier
from pointsman.wire import FORMATS, Fault, guess_wire

__all__ = ["OPEN_PATHS", "Readiness", "build_routes", "model_list", "model_page"]

log = logging.getLogger(__name__)

#: Paths that ask for no key: a load balancer has none. Compared as they stand on the wire.
OPEN_PATHS: Final = frozenset(
    {b"/", b"/health", b"/healthz", b"/health/live", b"/health/ready", b"/favicon.ico"}
)

#: Seconds: load balancers ask every 5 to 30.
_WATCHED: Final = 60.0

#: Paths of Google's API, to which the Gemini CLI and Google's SDKs post.
_GEMINI: Final = re.compile(r"/models/[^/]+:[a-zA-Z]*[gG]enerateContent|/v1(?:beta|alpha)/")

_OUTCOME_BYTES: Final = 16 << 10  # a score, a label and a comment of a page

_CODES: Final[Mapping[type[CallerError], str]] = {
    TooLarge: "too_large",
    TooManyOutcomes: "too_many_outcomes",
    UnknownDecision: "unknown_decision",
}


class Readiness:
    """Whether a load balancer should send requests, and when one last asked."""

    def __init__(self) -> None:
        self.is_draining = False
        self.asked_at: float | None = None  # seconds of ``time.monotonic``

    def asked(self) -> None:
        """Note a readiness request."""
        self.asked_at = time.monotonic()

    @property
    def is_watched(self) -> bool:
        """Whether there was a request within the last minute."""
        return self.is_recent(self.asked_at)

    @staticmethod
    def is_recent(asked_at: float | None) -> bool:
        """Whether the last request was at most a minute ago."""
        return asked_at is not None and time.monotonic() - asked_at < _WATCHED


def build_routes(metrics: Metrics, readiness: Readiness) -> Starlette:
    """Return the application of these routes; the ``LiveState`` to serve with comes with each request."""

    async def ready(request: Request) -> Response:
        readiness.asked()
        return _ready(_state(request), is_draining=readiness.is_draining)

    async def show_metrics(request: Request) -> Response:
        check_no_query(request.scope["query_string"])
        if (access := _state(request).access) is not None:
            check_reader(access, request.state.caller, "/metrics")
        page, media_type = await metrics.page_of_all(request.headers.get("accept", ""))
        return Response(page, media_type=media_type)

    routes = [
        Route("/", _root, methods=["GET"]),  # Starlette answers HEAD wherever it answers GET
        *(Route(path, _alive) for path in ("/health", "/healthz", "/health/live")),
        Route("/health/ready", ready),
        Route("/metrics", show_metrics),
        Route("/openapi.json", _openapi),
        Route("/docs", _docs, include_in_schema=False),
        Route("/favicon.ico", _icon, include_in_schema=False),
    ]
    for prefix in ("", "/v1"):
        routes += [
            Route(prefix + "/models", _models),
            Route(prefix + "/models/{name:path}", _model),
            Route(prefix + "/decisions/{id}", _decision),
            Route(prefix + "/decisions/{id}/outcome", _outcome, methods=["POST"]),
        ]
    return Starlette(
        routes=routes,
        exception_handlers={
            404: _missing,
            405: _other_method,
            StoreUnavailable: _unavailable,
            Forbidden: _refused,
            MalformedRequest: _refused,
        },
    )


def _state(request: Request) -> LiveState:
    state: LiveState = request.state.live  # put there by ``app.Gateway``
    return state


async def _root(request: Request) -> Response:
    config = _state(request).config
    if config.console.enabled and "text/html" in request.headers.get("accept", ""):
        return RedirectResponse("/console", 303)
    return _json(
        {"name": "pointsman", "endpoints": sorted(f"/v1{wire.path.decode()}" for wire in FORMATS.values())}
    )


async def _alive(_: Request) -> Response:
    return _json({"status": "ok"})


def _ready(state: LiveState, *, is_draining: bool) -> Response:
    upstreams = {target.upstream for target in state.targets.values()}
    # No longer than until a probe may be sent: without requests no circuit breaker closes.
    now = time.monotonic()
    is_unserved = bool(upstreams) and all(each.breaker.is_pausing(now) for each in upstreams)
    status = "draining" if is_draining else "unserved" if is_unserved else "ok"
    return _json(
        {
            "status": status,
            "models": len(state.targets),
            "open_circuits": open_circuits(state),
            "failing": sorted(state.faults),  # the log says why: this path asks for no key
        },
        200 if status == "ok" else 503,
    )


async def _models(request: Request) -> Response:
    return _json(model_list(_state(request)))


async def _model(request: Request) -> Response:
    found = model_page(unquote(request.path_params["name"]), _state(request))
    return _json(found) if found else _not_found(request, "there is no such model; see /v1/models")


def _openapi(request: Request) -> Response:  # not async: the first one builds it
    check_no_query(request.scope["query_string"])
    from pointsman.gateway._openapi import openapi_json

    return Response(openapi_json(), media_type="application/json")


def _decision(request: Request) -> Response:  # not async: the ledger reads a file, so in a thread
    check_no_query(request.scope["query_string"])
    ledger = _state(request).runtime.ledger
    ledger.flush()
    wanted, caller = request.path_params["id"], seen_by(_state(request).access, request.state.caller)
    found = ledger.get(wanted, caller=caller)
    if found is None:
        run = None if caller else run_record(ledger, wanted)  # a run came with no key
        return _json(run) if run else _not_found(request, "there is no decision or run with this id")
    belonging = {name: getattr(ledger, name)(wanted) for name in ("attempts", "outcomes", "shadows")}
    return _json({"decision": found, **belonging})


async def _outcome(request: Request) -> Response:
    decision, access = request.path_params["id"], _state(request).access
    if access is not None:
        check_changer(access, request.state.caller)
    check_no_query(request.scope["query_string"])
    try:
        body = await read_bytes(request.receive, dict(request.scope["headers"]), _OUTCOME_BYTES)
        caller = seen_by(access, request.state.caller)
        ordinary = caller if access is not None and access.has_roles else ""
        outcome = read_report(body, decision=decision, at=time.time(), caller=ordinary)
        add = partial(_state(request).runtime.ledger.add_outcome, caller=caller)
        await run_in_threadpool(add, outcome)  # it reads a file
    except CallerError as error:
        return _error(request, Fault(error.status, error.message, _CODES[type(error)]))
    except CallerLeft:
        return Response(status_code=400)  # which nobody reads
    except (ValueError, *UNREADABLE) as error:
        return _error(request, Fault(400, f"not an outcome: {printable(str(error))}", "malformed_request"))
    return Response(status_code=202)


async def _docs(_: Request) -> Response:
    return RedirectResponse("/openapi.json", 303)


async def _icon(_: Request) -> Response:
    return Response(status_code=204)  # the console's pages name their own


async def _missing(request: Request, _: Exception) -> Response:
    path = shown(request.scope["path"])
    of_google = "; Gemini's own API is not served" if _GEMINI.search(path) else ""
    return _not_found(request, f"unknown path {path}{of_google}; {PATHS_HINT}")


async def _other_method(request: Request, error: Exception) -> Response:
    allowed = ", ".join(sorted((cast("HTTPException", error).headers or {})["Allow"].split(", ")))
    refusal = MethodNotAllowed(request.method, allowed=allowed)
    answer = _error(request, Fault(refusal.status, str(refusal), "method_not_allowed"))
    answer.headers["allow"] = allowed
    return answer


async def _refused(request: Request, error: Exception) -> Response:
    refusal = cast("CallerError", error)
    return _error(request, Fault(refusal.status, str(refusal), error_code(refusal)))


async def _unavailable(request: Request, error: Exception) -> Response:
    log.warning("%s", error)  # with the file's name, which is not the caller's business
    return _error(request, Fault(503, "the ledger cannot be read or written", "store_unavailable"))


def _json(value: object, status: int = 200) -> Response:
    text = printable_json(msgspec.json.encode(value).decode())
    return Response(text, status, media_type="application/json")


def _not_found(request: Request, message: str) -> Response:
    return _error(request, Fault(404, message, "not_found"))


def _error(request: Request, fault: Fault) -> Response:
    wire = guess_wire((name for name, _ in request.headers.raw), request.scope["path"])
    who = request_line(request.scope, dict(request.headers.raw))
    log.info("%s refused with status %d: %s", who, fault.status, fault.message)
    again = {} if fault.status >= 500 else {"x-should-retry": "false"}
    return Response(wire.error(fault), fault.status, again, media_type="application/json")


#: OpenRouter's names of prices per token, which it writes as decimal numbers in text.
_PRICES: Final = {
    "prompt": "input_per_million",
    "completion": "output_per_million",
    "input_cache_read": "cached_input_per_million",
    "input_cache_write": "cache_write_per_million",
}


def model_list(state: LiveState) -> dict[str, Any]:
    """Return what can be asked for by a fixed name: ``auto``, the tiers, the models, and exact aliases."""
    names = dict.fromkeys(["auto", *(tier.lower() for tier in Tier), *state.targets, *state.names.exact])
    data = [_entry(name, state) for name in names]
    ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"]}
    return {"object": "list", "data": data, "has_more": False, **ends}


def model_page(name: str, state: LiveState) -> dict[str, Any] | None:
    """Return the entry of a name; None if no model would serve it."""
    if not name or not state.names.serves(name):
        return None
    return _entry(name.removeprefix("pointsman/"), state)


def _entry(name: str, state: LiveState) -> dict[str, Any]:
    models = [state.targets[each].model for each in _serving(name, state) if each in state.targets]
    return {
        "id": name,
        "object": "model",
        "type": "model",
        "created": 0,
        "created_at": "1970-01-01T00:00:00Z",
        "display_name": name,
        "owned_by": "pointsman",
        **_limits(models),
        **_pricing(models),
    }


def _serving(name: str, state: LiveState) -> Iterable[str]:
    """Configured names of the models that may serve a name."""
    tier, pools = forced_tier(name), state.pools
    if tier is None and not asks_to_decide(name):
        named = state.names.resolve(name)
        if named is None:
            return ()
        if named.target.model:
            return [named.target.model]
        tier = named.target.tier
    if tier is None:
        return _of(pools.values())
    near = next((pools[step] for step in FALLBACK_CHAIN[tier] if step in pools), ())
    return _of([pools.get(tier, near)])


def _of(pools: Iterable[Pool]) -> Iterable[str]:
    return dict.fromkeys(entry.model for pool in pools for entry in pool)


def _limits(models: Sequence[ModelSpec]) -> dict[str, int]:
    """The smallest context window and output limit of the models that may serve, where any is known."""
    windows = [model.context_window for model in models if model.context_window is not None]
    outputs = [model.max_output_tokens for model in models if model.max_output_tokens is not None]
    found: dict[str, int] = {}
    if windows:
        found |= dict.fromkeys(("context_length", "context_window", "max_input_tokens"), min(windows))
    if outputs:
        found |= dict.fromkeys(("max_output_tokens", "max_tokens"), min(outputs))
    return found


def _pricing(models: Sequence[ModelSpec]) -> dict[str, Mapping[str, str]]:
    """The prices, where all models that may serve have the same, known ones."""
    found = [_per_token(model) for model in models]
    if not found or not found[0] or any(each != found[0] for each in found):
        return {}
    return {"pricing": found[0]}


def _per_token(model: ModelSpec) -> dict[str, str]:
    if not model.is_priced:
        return {}
    values = {name: getattr(model, field) for name, field in _PRICES.items()}
    return {
        name: f"{value / 1e6:.12f}".rstrip("0").rstrip(".")
        for name, value in values.items()
        if value is not None
    }
