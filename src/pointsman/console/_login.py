"""Access to the console: sessions of browsers, and the token that each change must carry.

The cookie holds a random session and never a key. Without keys there is no login: the gateway then listens on
loopback alone, and one token, drawn at the start, guards the changes (docs/decisions/0163).
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, NamedTuple

from pointsman.config import Config
from pointsman.console._roles import console_role
from pointsman.errors import Unauthorized
from pointsman.upstreams.port import hash_key

__all__ = ["COOKIE", "Logins", "Session"]

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
        self._sessions: Final[OrderedDict[str, Session]] = OrderedDict()
        #: When a wrong key came from an address, within the last minute.
        self._failures: Final[OrderedDict[str, deque[float]]] = OrderedDict()
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
        self._sessions[session.id] = session
        while len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return session

    def _has_failed(self, address: str, now: float) -> bool:
        """Count a wrong key; return whether too many came from this address."""
        times = self._failures.setdefault(address, deque(maxlen=MOST_FAILURES + 1))
        self._failures.move_to_end(address)
        while len(self._failures) > _ADDRESSES:
            self._failures.popitem(last=False)
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
