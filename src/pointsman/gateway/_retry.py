"""Retry policy: which failures are retried, and the backoff."""

from __future__ import annotations

import email.utils
import math
import random
import time
from collections.abc import Mapping
from typing import Final

from pointsman.upstreams.port import Headers

__all__ = ["backoff", "is_credentials_error", "is_retryable", "retry_after"]

#: First pause and longest pause in seconds: those of the OpenAI and Anthropic SDKs.
_FIRST: Final = 0.5
_LONGEST: Final = 8.0

#: Below 500, what may pass by itself: request timeout, conflict (a lock), too early, too many requests.
_TRANSIENT: Final = frozenset({408, 409, 425, 429})
#: The upstream refused the gateway's own key or account; nothing the caller sends can change that.
_CREDENTIALS: Final = frozenset({401, 402, 403})


def is_retryable(status: int) -> bool:
    """Whether the same request may succeed a little later."""
    return status >= 500 or status in _TRANSIENT


def is_credentials_error(status: int) -> bool:
    """Whether the operator's key, not the caller's request, was refused."""
    return status in _CREDENTIALS


def backoff(tries: int) -> float:
    """Return seconds to wait after ``tries`` failures in a row.

    Exponential, with a random half, so that requests which failed together do not come back together.
    """
    pause: float = min(_FIRST * 2 ** (tries - 1), _LONGEST)
    return pause * random.uniform(0.5, 1.0)


def retry_after(headers: Headers) -> float | None:
    """Return the seconds an upstream asks to wait; None when it does not say.

    ``retry-after-ms`` is OpenAI's; ``retry-after`` holds seconds or a date (RFC 9110, section 10.2.3).
    """
    try:
        seconds = _asked(dict(headers))
    except (ValueError, OverflowError):
        return None
    return max(seconds, 0.0) if seconds is not None and math.isfinite(seconds) else None


def _asked(headers: Mapping[bytes, bytes]) -> float | None:
    if milliseconds := headers.get(b"retry-after-ms"):
        return float(milliseconds) / 1000
    value = headers.get(b"retry-after", b"").decode("latin-1").strip()
    if not value:
        return None
    if value.replace(".", "", 1).isdigit():
        return float(value)
    return email.utils.parsedate_to_datetime(value).timestamp() - time.time()
