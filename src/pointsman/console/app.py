"""The console as an ASGI application: access, the choice of the page, and its format."""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from pointsman.console import _decision, _home, _lists, _now, _policy, _quality, _savings, _session, _try
from pointsman.console._filters import FILTERS, PERIOD
from pointsman.console._home import Kept
from pointsman.console._jobs import Fits, Replays
from pointsman.console._keys import keys_page, make_key
from pointsman.console._label import Labels
from pointsman.console._login import (
    COOKIE,
    HEADERS,
    LoginForms,
    Logins,
    Session,
    check_change,
    check_origin,
    console_role,
    read_form,
)
from pointsman.console._now import Live
from pointsman.console._render import STATIC, render
from pointsman.console._view import GatewayView, Missing, Page, Redirect, Visit
from pointsman.errors import Overloaded, PointsmanError, Unauthorized
from pointsman.printable import csv_text, printable_json

__all__ = ["Console"]

log = logging.getLogger(__name__)

#: Pages that are made at once, in threads of their own, and those that may wait for one.
_THREADS: Final = 2
_WAITING: Final = 32
#: Seconds that a page may take, its wait included.
_PATIENCE: Final = 30.0

#: Bytes from which on a body is compressed, and how hard.
_WORTH_PACKING: Final = 1_000
_LEVEL: Final = 6

#: Files by their ending. Nothing else is served.
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

_LOG: Final = "the gateway's log says why; requests of agents are served as ever"

#: Query parameters of the pages that have some.
_PARAMETERS: Final[Mapping[str, Sequence[str]]] = {
    "": ("last",),
    "/change": ("from", "to"),
    "/decisions": (*FILTERS, "before", "limit"),
    "/sessions": _lists.SESSION_FILTERS,
    "/sessions/{id:path}": ("version",),
    "/savings": ("baseline", "zone", *PERIOD),
    "/policy": ("version",),
    "/try": ("request", "format"),
}

Handler = Callable[[Visit], Page | Redirect]
_Endpoint = Callable[[Request], Awaitable[Response]]


class Console:
    """The pages of one gateway. ``view`` is asked for each request: a reload is seen at once."""

    def __init__(self, view: Callable[[], GatewayView]) -> None:
        self._view: Final = view
        self._logins: Final = Logins()
        self._forms: Final = LoginForms()
        self._threads: Final = ThreadPoolExecutor(_THREADS, "console")
        self._places: Final = asyncio.Semaphore(_WAITING)
        self._live: Final = Live(view, self._in_thread)
        self._replays: Final = Replays()
        self._fits: Final = Fits()
        self._app: Final = Starlette(routes=self._routes())

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request below ``/console``."""

        async def send_guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        await self._app(scope, receive, send_guarded)

    def close(self) -> None:
        """End the streams of events, replays, fits, and the threads that make pages."""
        self._live.close()
        self._replays.close()
        self._fits.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _routes(self) -> list[Route]:
        labels, fits, replays = Labels(self._fits), self._fits, self._replays
        home = partial(_home.home, kept=Kept())
        pages: dict[str, Handler] = {
            "": home,
            "/now": _now.now,
            "/change": partial(_home.changes, kept=Kept()),
            "/decisions": _lists.decisions,
            "/decisions/{id}": _decision.decision,
            "/sessions": _lists.sessions,
            "/sessions/{id:path}": _session.session,
            "/savings": _savings.savings_page,
            "/quality": partial(_quality.quality, kept=Kept()),
            "/policy": partial(_policy.policy, replays=replays),
            "/policy/replays/{id}": partial(_policy.progress, replays=replays),
            "/label": labels.page,
            "/fits/{id}": fits.page,
            "/try": _try.try_it,
            "/keys": keys_page,
        }
        changes: dict[str, Handler] = {
            "/decisions/{id}/outcome": partial(_decision.set_outcome, note=labels.note),
            "/decisions/{id}/again": _decision.decide_again,
            "/policy/replay": partial(_policy.replay, replays=replays),
            "/policy/replays/{id}/cancel": partial(_policy.cancel, replays=replays),
            "/label/{id}": labels.label,
            "/fits": fits.begin,
            "/keys": make_key,
            "/fits/{id}/use": fits.use,
            "/fits/back": fits.take_back,
            "/try": _try.try_it,
        }
        routes = [
            Route("/console/static/{name:path}", _static),
            Route("/console/login", self._login, methods=["GET", "POST"]),
            Route("/console/logout", self._endpoint(self._logout, "html"), methods=["POST"]),
            Route("/console/events", self._events),
            *(
                Route(f"/console/{name}.{ending}", self._endpoint(handler, ending, known))
                for name, handler, known in (("now", _now.last_hour, ()), ("home", home, ("last",)))
                for ending in ("json", "csv")
            ),
        ]
        for path, handler in pages.items():
            known, endings = _PARAMETERS.get(path, ()), ("json", "csv") if path else ()
            routes += [
                Route(f"/console{path}.{each}", self._endpoint(handler, each, known)) for each in endings
            ]
            routes.append(Route(f"/console{path}", self._endpoint(handler, "html", known)))
        for ending in ("json", "csv"):  # what is tried may be too long for an address
            answered = self._endpoint(_try.try_it, ending)
            routes.insert(0, Route(f"/console/try.{ending}", answered, methods=["POST"]))
        for path, handler in changes.items():
            routes.append(Route(f"/console{path}", self._endpoint(handler, "html"), methods=["POST"]))
        return [*routes, Route("/console/{rest:path}", self._endpoint(_nothing, "html", None))]

    def _endpoint(self, handler: Handler, ending: str, known: Sequence[str] | None = ()) -> _Endpoint:
        """Return what answers. ``known``: query parameters of the page; None where no page is."""

        async def answer(request: Request) -> Response:
            view = self._view()
            try:
                session = self._admit(request, view)
                if session is None:
                    return _to_login(request, ending)
                form: Mapping[str, str] = {}
                if request.method == "POST":
                    form = await read_form(request)
                    session.check_token(form.get("token", ""))
                    check_change(console_role(view.config, session.caller), request.url.path)
                visit = _visit(request, view, session, form)
                if known is not None:
                    visit.check_query(known)
                is_packed = "gzip" in request.headers.get("accept-encoding", "")
                made = partial(_answered, handler, visit, ending, is_packed=is_packed)
                answered: Response = await self._in_thread(made)
            except PointsmanError as error:
                return _failed(request, view, error, ending)
            except Exception:
                log.exception("the console failed at %s", request.url.path)
                return _failed(request, view, PointsmanError("the console failed", hint=_LOG), ending)
            return answered

        return answer

    def _admit(self, request: Request, view: GatewayView) -> Session | None:
        check_origin(request)
        return self._logins.find(request.cookies.get(COOKIE, ""), view.config)

    async def _in_thread(self, call: Callable[[], Any]) -> Any:
        """Run what reads the ledger beside the event loop, and never as many at once as requests need."""
        if self._places.locked():
            raise Overloaded("the console makes as many pages as it may", hint="load the page again later")
        async with self._places:
            loop = asyncio.get_running_loop()
            try:
                return await asyncio.wait_for(loop.run_in_executor(self._threads, call), _PATIENCE)
            except TimeoutError:
                raise Overloaded(
                    f"this page took longer than {_PATIENCE:g} seconds", hint="ask for a shorter time"
                ) from None

    async def _events(self, request: Request) -> Response:
        view = self._view()
        try:
            if self._admit(request, view) is None:
                return Response(status_code=401)
            return self._live.stream(partial(self._watches, request))
        except PointsmanError as error:
            return Response(error.message, error.status, media_type="text/plain")

    def _watches(self, request: Request) -> bool:
        """Whether live events may go on: the console is on, and the browser signed in."""
        view = self._view()
        return view.config.console.enabled and self._admit(request, view) is not None

    async def _login(self, request: Request) -> Response:
        view, onward = self._view(), _onward(request.query_params.get("to", ""))
        try:
            check_origin(request)
            if not view.config.server.keys:
                return RedirectResponse("/console", 303)
            if request.method == "GET":
                return _html(render("login.html", {"to": onward, "error": None}))
            form = await self._forms.read(request)
            onward = _onward(form.get("to", ""))
            address = request.client.host if request.client else ""
            session = self._logins.begin(form.get("key", ""), view.config, address)
        except PointsmanError as error:
            log.info("the console refused a login: %s", error.message)
            return _html(render("login.html", {"to": onward, "error": error}), error.status)
        answer = RedirectResponse(onward, 303)
        is_safe = request.url.scheme == "https" or request.headers.get("origin", "").startswith("https:")
        answer.set_cookie(
            COOKIE, session.id, path="/console", secure=is_safe, httponly=True, samesite="strict"
        )
        return answer

    def _logout(self, visit: Visit) -> Redirect:
        self._logins.end(visit.session)
        return Redirect("/console/login")


def _visit(request: Request, view: GatewayView, session: Session, form: Mapping[str, str]) -> Visit:
    scheme = "https" if request.headers.get("origin", "").startswith("https:") else request.url.scheme
    return Visit(
        view,
        session,
        f"{scheme}://{request.headers.get('host', '')}",
        request.url.path,
        {name: str(value) for name, value in request.path_params.items()},
        request.query_params.multi_items(),
        form,
    )


def _answered(handler: Handler, visit: Visit, ending: str, *, is_packed: bool) -> Response:
    answer = _made(handler, visit, ending)
    return _packed(answer) if is_packed else answer


def _packed(answer: Response) -> Response:
    """Compress a body, in the thread that made it.

    A page holds the token of its session beside text of callers. What such text does to the size is seen by
    nobody who may not see the page: another site's requests come without the cookie (``SameSite=Strict``).
    """
    if len(answer.body) >= _WORTH_PACKING:
        answer.body = gzip.compress(answer.body, _LEVEL, mtime=0)
        answer.headers["content-length"] = str(len(answer.body))
        answer.headers["content-encoding"] = "gzip"
    answer.headers["vary"] = "accept-encoding"
    return answer


def _made(handler: Handler, visit: Visit, ending: str) -> Response:
    made = handler(visit)
    if isinstance(made, Redirect):
        return RedirectResponse(made.to, 303)
    if ending == "json":
        return _json(made.data, made.status)
    if ending == "csv":
        if made.table is None:
            raise PointsmanError("this view is no table", hint="its JSON is at the same address with .json")
        return Response(csv_text([made.table]), made.status, media_type="text/csv; charset=utf-8")
    return _html(
        render(made.template, {**_frame(visit.view, visit.session, visit.path), **made.context}), made.status
    )


def _frame(view: GatewayView, session: Session, path: str) -> dict[str, object]:
    """Values of the frame around every page."""
    role = console_role(view.config, session.caller)
    return {
        "path": path,
        "token": session.token,
        "signed_in": session.caller,
        "faults": view.faults,
        "is_admin": role == "admin",
    }


def _json(value: object, status: int) -> Response:
    text = printable_json(msgspec.json.encode(value).decode())
    return Response(text, status, media_type="application/json")


def _html(text: str, status: int = 200) -> Response:
    return Response(text, status, {"cache-control": "no-store"}, media_type="text/html; charset=utf-8")


def _failed(request: Request, view: GatewayView, error: PointsmanError, ending: str) -> Response:
    """Answer with an error, in the requested format."""
    if error.status >= 500:
        log.warning("the console cannot show %s: %s", request.url.path, error)
    if ending != "html":
        body = {"error": {"message": error.message, "hint": error.hint}}
        return _json(body, error.status)
    session = Session("", "")
    frame = _frame(view, session, request.url.path)
    return _html(
        render("error.html", {**frame, "error": error, "bare": isinstance(error, Unauthorized)}), error.status
    )


def _to_login(request: Request, ending: str) -> Response:
    if ending != "html":
        return Response(b'{"error":{"message":"sign in first"}}', 401, media_type="application/json")
    to = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(
        f"/console/login?to={quote(to if request.method == 'GET' else '/console', safe='')}", 303
    )


def _onward(to: str) -> str:
    """Return where to go after the login: a page of the console, never another site."""
    return to if to == "/console" or (to.startswith("/console/") and "\\" not in to) else "/console"


def _nothing(visit: Visit) -> Page:
    raise Missing(f"the console has no page {visit.path}")


async def _static(request: Request) -> Response:
    file = STATIC / request.path_params["name"]
    kind = _TYPES.get(file.suffix)
    if kind is None or STATIC not in file.resolve().parents or not file.is_file():
        return Response(status_code=404)
    return _static_answer(file, kind, is_packed="gzip" in request.headers.get("accept-encoding", ""))


@cache
def _static_answer(file: Path, kind: str, *, is_packed: bool) -> Response:
    headers = {"cache-control": "public, max-age=31536000, immutable"}
    answer = Response(file.read_bytes(), 200, headers, media_type=kind)
    return _packed(answer) if is_packed else answer
