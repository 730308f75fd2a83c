"""What a request must be before any page is made, and the headers that every answer carries."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request

from pointsman.config import Config, is_loopback
from pointsman.errors import TooLarge, Unauthorized

__all__ = ["HEADERS", "check_origin", "read_form"]

#: Bytes of a posted form: a policy or a whole request to try.
MOST_BYTES: Final = 256 << 10
_MOST_FIELDS: Final = 64

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS: Final = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


def check_origin(request: Request, config: Config) -> None:
    """Keep other sites out, and names that were made to resolve to this machine.

    Raises:
        Unauthorized: the page that asks is of another origin, or without keys the name is not this machine's.
    """
    host = request.headers.get("host", "")
    if not config.server.keys and not _is_local(f"//{host}"):
        raise Unauthorized(
            "a gateway without keys shows its console under this machine's own names alone",
            hint='open it as http://127.0.0.1, or set keys = ["${POINTSMAN_KEY}"] under [server]',
        )
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != host:
        raise Unauthorized("this request comes from a page of another origin")
    if request.method == "POST" and request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise Unauthorized("this form comes from a page of another origin")


def _is_local(address: str) -> bool:
    try:
        host = urlsplit(address).hostname
    except ValueError:
        return False
    return host is not None and is_loopback(host)


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a posted form; of a repeated one the last.

    Raises:
        TooLarge: it has too many bytes or fields.
    """
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BYTES:
            raise TooLarge(f"a form of the console has at most {MOST_BYTES} bytes")
    try:
        pairs = parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise TooLarge(f"a form of the console has at most {_MOST_FIELDS} fields") from None
    return dict(pairs)
