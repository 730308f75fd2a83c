"""Checks of a request before any page is made, and the headers of every answer."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request

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


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a posted form; of a repeated one the last. Lines end as elsewhere.

    Raises:
        TooLarge: it has too many bytes or fields.
    """
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BYTES:
            raise TooLarge(f"a form of the console has at most {MOST_BYTES} bytes")
    try:
        pairs = parse_qsl(
            body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=_MOST_FIELDS
        )
    except ValueError:
        raise TooLarge(f"a form of the console has at most {_MOST_FIELDS} fields") from None
    # A browser ends the lines of a text area with "\r\n".
    return {name: value.replace("\r\n", "\n") for name, value in pairs}
