"""What may be passed on: no server, however it decodes a path, is asked outside the ``base_url``."""

from __future__ import annotations

import posixpath
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pointsman.errors import CallerError, NotFound
from pointsman.gateway._passing import passed_path

#: Parts that attacks on paths are made of, and some of honest ones.
PARTS = [
    *(
        "/",
        "//",
        "\\",
        ".",
        "..",
        "...",
        ";",
        "%",
        "%2e",
        "%2E",
        "%2f",
        "%5c",
        "%25",
        "%252e",
        "%3b",
        "%00",
        "%0d%0a",
    ),
    *("%c0%ae", "%ef%bc%8f", "%e2%80%ae", "%20", "files", "a", "~", "@", ":", "é", "%c3%a9", "?", "#"),
]


def readings(path: bytes) -> set[bytes]:
    """What servers make of a path: decoded up to three times, cut at ``;``, with backslashes as slashes."""
    found = {path}
    for _ in range(3):
        found |= {unquote_to_bytes(one) for one in found}
    found |= {b"/".join(segment.partition(b";")[0] for segment in one.split(b"/")) for one in found}
    found |= {one.replace(b"\\", b"/") for one in found}
    return found


@given(st.lists(st.sampled_from(PARTS), max_size=8).map("".join))
@example("files/%2e%2e%5c../admin")
def test_every_reading_of_a_path_stays_below_the_base_url(rest: str) -> None:
    path = f"/v1/{rest}".encode()
    try:
        below = passed_path(path, b"")
    except CallerError:
        return
    assert path == b"/v1" + below
    for one in readings(b"/base/v1" + below):
        assert posixpath.normpath(one).startswith(b"/base/v1/"), one
        assert one.count(b"/") == path.count(b"/") + 1, "no reading has another segment"
        assert not any(byte < 32 or byte == 127 for byte in one)


@pytest.mark.parametrize(
    "path",
    [
        b"/v1/chat/completions/",
        b"/v1/Chat/Completions",
        b"/v1/%63hat/completions",
        b"/v1/chat/%63ompletions/",
        b"/v1/responses/",
        b"/v1/RESPONSES",
        b"/v1/message%73",
        b"/v1/messages/count_tokens/",
        b"/v1/messages/count%5ftokens",
        b"/v1/%6dodels",
        b"/v1/Models/x",
        b"/v1/d%65cisions/d-1",
        b"/v1/v1/chat/completions",
    ],
)
def test_no_spelling_of_an_own_path_goes_past_the_decision(path: bytes) -> None:
    """An upstream that decodes, or takes any case, would serve a request that nobody routed."""
    with pytest.raises(NotFound, match="this spelling of the path is not served"):
        passed_path(path, b"")


@pytest.mark.parametrize(
    "path",
    [
        b"/v1/threads/t1/messages",
        b"/v1/chat/completions/chatcmpl-1/messages",
        b"/v1/conversations/c/responses",
        b"/v1/engines/x/chat/completions",
    ],
)
def test_a_path_that_ends_as_an_own_one_is_another(path: bytes) -> None:
    assert passed_path(path, b"") == path.removeprefix(b"/v1")


@given(st.binary(max_size=20))
def test_any_bytes(rest: bytes) -> None:
    try:
        below = passed_path(b"/v1/" + rest, rest)
    except CallerError:
        return
    assert below == b"/" + rest + (b"?" + rest if rest else b"")
    assert below.isascii()
    assert b" " not in below


@pytest.mark.parametrize(
    "path",
    [
        b"/v1/files/file-AbC_1.2~3",
        b"/v1/fine_tuning/jobs/ft:gpt-4o:org::id/cancel",
        b"/v1/files/a%20b",
        b"/v1/files/%C3%A9",
        b"/v1/files/.hidden",
        b"/v1/files/a..b",
    ],
)
def test_identifiers_of_providers(path: bytes) -> None:
    assert passed_path(path, b"a=%2F..%2F&b[]=1") == path[3:] + b"?a=%2F..%2F&b[]=1"
