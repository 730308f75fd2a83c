"""Access to the console: roles, checks of each request, sessions of browsers, and the token of each change.

The cookie holds a random session and never a key. Without keys there is no login: the gateway then listens on
loopback alone, and one token, drawn at the start, guards the changes (docs/decisions/0163).
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import ClientDisconnect, Request

from pointsman.access import grants
from pointsman.config import Config
from pointsman.errors import Forbidden, MalformedRequest, Overloaded, RoleForbids, TooLarge, Unauthorized
from pointsman.remembering import Bounded
from pointsman.upstreams.port import hash_key

ConsoleRole: TypeAlias = Literal["viewer", "admin", ""]

#: Posted forms that change nothing for others: what a viewer may send.
_OF_VIEWERS = ("/console/logout", "/console/try", "/console/try.json", "/console/try.csv")


def console_role(config: Config, caller: str) -> ConsoleRole:
    """Return the console role of a caller; empty if it may not open the console.

    Without keys everybody on this machine is an admin; so are the keys that [console] ``callers`` names, and
    the only caller there is. Others are what their role says. A key that is no longer valid is nothing.
    """
    if not config.server.keys:
        return "admin"
    grant = grants({caller: config.keys[caller]}, config.teams).get(caller) if caller in config.keys else None
    if grant is not None:
        try:
            grant.admit(time.time())
        except Forbidden:
            return ""
        if grant.role == "admin":
            return "admin"
    if caller in config.console.callers:
        return "admin"
    if grant is not None and grant.role == "viewer":
        return "viewer"
    callers = {config.server.caller(number) for number in range(len(config.server.keys))}
    return "admin" if callers == {caller} and not config.console.callers else ""


def check_change(role: ConsoleRole, path: str) -> None:
    """Refuse a change by a viewer.

    Raises:
        RoleForbids: it is one.
    """
    if role == "viewer" and path not in _OF_VIEWERS and not path.endswith("/again"):
        raise RoleForbids(
            "a viewer changes nothing here", hint='role = "admin" in [keys.NAME] lets a key do that'
        )


#: Bytes of a posted form: a policy or a whole request to try.
MOST_BYTES: Final = 256 << 10
_MOST_FIELDS: Final = 64

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS: Final = (
    (b"content-security-policy", _POLICY.encode()),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


def check_origin(request: Request) -> None:
    """Keep pages of other origins out. Which hosts may be asked for without keys is the gateway's to check.

    Raises:
        Unauthorized: the page that asks is of another origin.
    """
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host", ""):
        raise Unauthorized("this request comes from a page of another origin")
    if request.method == "POST" and request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise Unauthorized("this form comes from a page of another origin")


async def read_form(request: Request, most: int = MOST_BYTES) -> dict[str, str]:
    """Return the fields of a posted form; of a repeated one the last. Lines end as elsewhere.

    Args:
        request: Posts it.
        most: Bytes that it may have.

    Raises:
        TooLarge: it has too many bytes or fields.
        MalformedRequest: the connection ended before it did.
    """
    body, declared = bytearray(), request.headers.get("content-length", "")
    is_too_large = declared.isdecimal() and int(declared) > most
    try:
        if not is_too_large:
            async for piece in request.stream():
                body += piece
                if is_too_large := len(body) > most:
                    break
    except ClientDisconnect:
        raise MalformedRequest("the form did not arrive whole") from None
    if is_too_large:
        raise TooLarge(f"this form has at most {most} bytes")
    try:
        pairs = parse_qsl(
            body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=_MOST_FIELDS
        )
    except ValueError:
        raise TooLarge(f"a form of the console has at most {_MOST_FIELDS} fields") from None
    # A browser ends the lines of a text area with "\r\n".
    return {name: value.replace("\r\n", "\n") for name, value in pairs}


#: Bytes of a login, and seconds in which it must arrive: nothing is known of who sends it.
_LOGIN_BYTES: Final = 4 << 10
_LOGIN_SECONDS: Final = 10.0
#: Logins that may be arriving. Beyond them the oldest ends, so that nobody keeps an operator out: the form of
#: a browser comes with its head.
_MOST_ARRIVING: Final = 32


class LoginForms:
    """Reads the forms of callers that are not known yet. For one event loop."""

    def __init__(self) -> None:
        self._arriving: Final[dict[asyncio.Timeout, None]] = {}  # the oldest first

    async def read(self, request: Request) -> dict[str, str]:
        """Return the fields of a login.

        Raises:
            TooLarge: it has too many bytes or fields.
            MalformedRequest: it did not arrive, or not in time.
            Overloaded: it had not arrived when too many others began.
        """
        if len(self._arriving) >= _MOST_ARRIVING:
            self._end_oldest()
        limit = asyncio.timeout(_LOGIN_SECONDS)
        self._arriving[limit] = None
        try:
            async with limit:
                return await read_form(request, _LOGIN_BYTES)
        except TimeoutError:
            if limit not in self._arriving:
                raise Overloaded("too many logins are in progress", hint="sign in again") from None
            raise MalformedRequest("the form did not arrive in time", hint="sign in again") from None
        finally:
            self._arriving.pop(limit, None)

    def _end_oldest(self) -> None:
        oldest = next(iter(self._arriving))
        del self._arriving[oldest]
        if not oldest.expired():
            oldest.reschedule(0.0)  # has passed


COOKIE: Final = "pointsman_console"

#: Browsers that are signed in at once; the one that signed in first is signed out.
MOST_SESSIONS: Final = 256
#: Wrong keys a minute and address after which it is told to wait: nobody mistypes so often. A key has 256
#: bits, so this limits no guessing, and a right key is always taken: nobody locks an operator out.
MOST_FAILURES: Final = 30
#: Addresses whose wrong keys are counted at a time.
_ADDRESSES: Final = 1_000
_MINUTE: Final = 60.0
#: Random bytes of a session and of a token.
_BYTES: Final = 32

_CALLERS: Final = (
    'role = "viewer" or "admin" in [keys.NAME], or [console] callers = ["…"], lets a valid key open it'
)


class Session(NamedTuple):
    """A browser that may see the console."""

    id: str  # the value of its cookie; empty where no key is asked for
    token: str  # what every change must carry
    caller: str = ""  # name of the key it signed in with
    ends: float = 0.0  # seconds of the clock

    def check_token(self, presented: str) -> None:
        """Raise ``Unauthorized`` where a change does not carry the token."""
        if not hmac.compare_digest(presented.encode(), self.token.encode()):
            raise Unauthorized(
                "this form belongs to another session of the console", hint="load the page again"
            )


class Logins:
    """The sessions of one gateway. Lost at its end: then people sign in again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock: Final = clock
        self._sessions: Final = Bounded[str, Session](MOST_SESSIONS)
        #: When a wrong key came from an address, within the last minute.
        self._failures: Final = Bounded[str, deque[float]](_ADDRESSES)
        self._local: Final = Session("", secrets.token_urlsafe(_BYTES))

    def find(self, cookie: str, config: Config) -> Session | None:
        """Return the session of a browser; None if it must sign in first."""
        if not config.server.keys:
            return self._local
        session = self._sessions.get(cookie) if cookie else None
        if session is None:
            return None
        if session.ends <= self._clock() or not console_role(config, session.caller):
            self.end(session)
            return None
        return session

    def begin(self, key: str, config: Config, address: str = "") -> Session:
        """Sign a browser in, which calls from an address.

        Raises:
            Unauthorized: the key is wrong, or may not open the console.
        """
        now = self._clock()
        caller = _caller(key, config)
        if not caller:
            if self._has_failed(address, now):
                raise Unauthorized("too many wrong keys were entered", hint="wait for a minute")
            raise Unauthorized("this is no key of the gateway", hint="valid keys are listed under [server]")
        if not console_role(config, caller):
            raise Unauthorized(f"the key of {caller} may not open the console", hint=_CALLERS)
        ends = now + config.console.login_hours * 3600
        session = Session(secrets.token_urlsafe(_BYTES), secrets.token_urlsafe(_BYTES), caller, ends)
        self._sessions.keep(session.id, session)
        return session

    def _has_failed(self, address: str, now: float) -> bool:
        """Count a wrong key; return whether too many came from this address."""
        times = self._failures.get(address, deque(maxlen=MOST_FAILURES + 1))
        self._failures.keep(address, times)
        times.append(now)
        return len(times) > MOST_FAILURES and now - times[0] < _MINUTE

    def end(self, session: Session) -> None:
        """Sign a browser out."""
        self._sessions.pop(session.id, None)


def _caller(key: str, config: Config) -> str:
    """Return the name of the key; empty for none. Every key is compared, so that the time reveals nothing."""
    digest = hash_key(key.strip())
    matches = [hmac.compare_digest(digest, known) for known in config.server.keys]
    return config.server.caller(matches.index(True)) if True in matches else ""
