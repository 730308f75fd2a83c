"""Checks that a request uses only objects of its caller: by its path, and by ids in its body.

Needed if several callers share an upstream's key. An object of another caller and one of unknown origin get
the same answer.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final
from urllib.parse import parse_qsl, unquote

import msgspec

from pointsman.access import Ownership
from pointsman.decoding import UNREADABLE
from pointsman.errors import CallerError, NotFound, PreviousResponseNotFound, TooLarge, WrongContentType
from pointsman.offload import offload_large
from pointsman.wire.format import Member
from pointsman.wire.names import named_texts
from pointsman.wire.responses.stored_conversation import answered, conversation_id, previous_response

__all__ = [
    "AnswerClaim",
    "MadeObject",
    "check_continued",
    "check_model_request",
    "check_path",
    "check_references",
    "check_type",
    "makes_object",
    "object_id",
]

#: Segments of paths that name no object. Any other is taken for an id: a word that is missing here costs a
#: 404, an id that stood here would be anybody's. Source: the API references of OpenAI and Anthropic.
_WORDS: Final = frozenset({
    "active", "assistants", "audio", "batches", "cancel", "checkpoints", "completions", "compact",
    "complete", "content", "containers", "conversations", "count_tokens", "edits", "embeddings", "events",
    "file_batches", "files", "fine_tuning", "generations", "graders", "images", "input_items",
    "input_tokens", "items", "jobs", "messages", "moderations", "parts", "pause", "permissions", "rerank",
    "responses", "results", "resume", "run", "runs", "score", "search", "skills", "speech", "steps",
    "submit_tool_outputs", "threads", "transcriptions", "translations", "uploads", "validate", "variations",
    "vector_stores", "versions", "videos",
})  # fmt: skip
#: First segments below which nothing is kept: answers to their requests may have ids that mean nothing.
_STATELESS: Final = frozenset(
    {"audio", "completions", "embeddings", "images", "moderations", "rerank", "score"}
)

#: Members that hold ids of objects, alone or in a list, wherever in a body. Source: as above.
_REFERENCES: Final = frozenset({
    "assistant_id", "batch_id", "container", "container_id", "file", "file_id", "file_ids", "input_file_id",
    "output_file_id", "skill_id", "thread_id", "training_file", "upload_id", "validation_file",
    "vector_store_id", "vector_store_ids",
})  # fmt: skip
#: What a request goes on from, in the same way.
_CONTINUED: Final = frozenset({"conversation", "conversation_id", "previous_response_id", "response_id"})
_NAMES: Final = _REFERENCES | _CONTINUED
#: Those that a request to a model may hold, and what such a request then contains in lower case: without the
#: letters that have a further lower case (the long s, the Kelvin sign), or with a character that is escaped
#: without need, as a name could be.
_MODEL_REFERENCES: Final = frozenset({"container", "file_id", "file_ids", "skill_id", "vector_store_ids"})
_MARKS: Final = (b"file_id", b'"container"', b"ill_id", b"tore_id")
_ESCAPED: Final = re.compile(rb"\\u(?:00[2-7]|017f|212a)")
#: Types of bodies that are passed on where callers are kept apart: one is read, in the other files are sent.
_TYPES: Final = frozenset({b"application/json", b"multipart/form-data"})
_OTHER_CHARSET: Final = re.compile(rb"charset(?!\*?=\"?utf-?8\b)")
#: Ids that are looked up of one request: a batch of files has 500 at most.
_MOST: Final = 1_000
#: What an item of an answer contains that names a container, and how many of one answer are noted.
_CONTAINER: Final = b'"container_id"'
_MOST_CONTAINERS: Final = 20


def _nothing(_: str) -> bool:
    return False


async def check_path(ownership: Ownership, caller: str, method: str, path: bytes) -> None:
    """Refuse a path or a query that names another caller's object, or a path that lists those of all.

    Args:
        ownership: The known owners.
        caller: Name of the key.
        method: Of the request.
        path: Below the upstream's ``base_url``, with the query.

    Raises:
        NotFound: the object is not the caller's.
        StoreUnavailable: its owner cannot be read.
    """
    path, _, query = path.partition(b"?")
    if query and (found := _named_in_query(query)):
        await _refuse_others(ownership, caller, found)
    name = object_id(path)
    if not name:
        if method == "POST":
            return  # which makes one, or none
        raise NotFound(
            "the objects that an upstream keeps are not listed here: they are of all keys",
            hint="name an object by its id",
        )
    if not await ownership.belongs(caller, name):
        raise NotFound(f'there is no object "{name}"', hint="ids are known to the key that made them")


def object_id(path: bytes) -> str:
    """Return the id of the object that a path names, the outermost of several; empty if it names none."""
    segments = path.strip(b"/").split(b"/")
    named = (each for each in segments[1:] if each.decode("ascii", "replace") not in _WORDS)
    return unquote(next(named, b"").decode("ascii", "replace"))


def makes_object(path: bytes) -> bool:
    """Whether the answer to a POST may name an object that was made."""
    return path.strip(b"/").partition(b"/")[0].decode("ascii", "replace") not in _STATELESS


def check_type(headers: Mapping[bytes, bytes]) -> None:
    """Refuse a body that may be read at the upstream and not here: it could name any object.

    Args:
        headers: The caller's, by name.

    Raises:
        WrongContentType: it is neither JSON nor a form, compressed, or in another encoding than UTF-8.
    """
    kind, _, parameters = headers.get(b"content-type", b"").lower().partition(b";")
    is_utf8 = _OTHER_CHARSET.search(parameters) is None
    if (
        kind.strip() not in _TYPES
        or not is_utf8
        or headers.get(b"content-encoding", b"identity") != b"identity"
    ):
        raise WrongContentType(
            "with keys of several callers a body must be JSON in UTF-8 or a form, and not compressed",
            hint="send 'Content-Type: application/json' or 'multipart/form-data', and no 'Content-Encoding'",
        )


async def check_continued(
    ownership: Ownership, caller: str, member: Member, knows: Callable[[str], bool] = _nothing
) -> None:
    """Refuse a request that continues an object the caller has not made, as its provider would.

    Args:
        ownership: The known owners.
        caller: Name of the key.
        member: Of the request's body.
        knows: Whether the caller is known to have made something, without a look into the ledger.

    Raises:
        PreviousResponseNotFound: the response is not the caller's.
        NotFound: the conversation is not.
        StoreUnavailable: whose they are cannot be read.
    """
    name = previous_response(member)
    if name and not knows(name) and not await ownership.belongs(caller, name):
        message = f"Previous response with id '{name}' not found."  # in OpenAI's words
        raise PreviousResponseNotFound(message, param="previous_response_id")
    name = conversation_id(member)
    if name and not knows(name) and not await ownership.belongs(caller, name):
        raise NotFound(f"Conversation with id '{name}' not found.", param="conversation")


async def check_model_request(ownership: Ownership, caller: str, body: bytes) -> None:
    """Do as ``check_references`` for a request to a model, most of which name no object.

    ``check_continued`` checks the object it continues.
    """
    lower = body.lower()  # some readers compare names without regard to case
    if any(mark in lower for mark in _MARKS) or (b"\\u" in lower and _ESCAPED.search(lower)):
        await check_references(ownership, caller, body, _MODEL_REFERENCES)


async def check_references(
    ownership: Ownership, caller: str, body: bytes, names: frozenset[str] = _NAMES
) -> None:
    """Refuse a body that names another caller's object, wherever in it.

    An id of unknown origin is left to the upstream.

    Args:
        ownership: The known owners.
        caller: Name of the key.
        body: JSON; its type was checked (``check_type``).
        names: The members to check.

    Raises:
        NotFound: one is another's.
        MalformedRequest: it is not JSON: the upstream could find ids in it that the gateway does not.
        TooLarge: it names more objects than are looked up, or is too large or deep to be looked through.
        StoreUnavailable: whose they are cannot be read.
    """
    found = await offload_large(len(body), named_texts, body, names)
    await _refuse_others(ownership, caller, found)


def _named_in_query(query: bytes) -> set[str]:
    """Return the ids under the names of references: ``file_id=a``, ``file_ids[]=a``, ``file_ids=a,b``."""
    pairs = parse_qsl(query.decode("ascii", "replace").replace(";", "&"))
    named = (value for name, value in pairs if name.partition("[")[0].casefold() in _NAMES)
    return {each for value in named for each in value.split(",")}


async def _refuse_others(ownership: Ownership, caller: str, found: set[str]) -> None:
    if len(found) > _MOST:
        raise TooLarge(f"the request names more than {_MOST} objects", hint="send several requests")
    if found and await ownership.is_anothers(caller, found):
        raise NotFound("there is no object with one of the ids that the request names")


class _WithId(msgspec.Struct, gc=False):
    id: str


_decode_made: Final = msgspec.json.Decoder(_WithId).decode


class MadeObject:
    """Reads the answer to a request that may have made an object, and notes its owner."""

    _LONGEST: Final = 256 << 10  # bytes of an answer about one object; that of a large answer is 100 kB

    def __init__(self, ownership: Ownership, caller: str) -> None:
        self._ownership = ownership
        self._caller = caller
        self._held: bytes | None = b""

    def read(self, part: bytes) -> bytes:
        """Take a part, and return what may be sent on."""
        if self._held is None:
            return part
        self._held += part
        if len(self._held) <= self._LONGEST and self._held.lstrip()[:1] in {b"{", b""}:
            return b""
        part, self._held = self._held, None
        return part

    def end(self) -> bytes:
        """Note the object, and return the bytes held."""
        held, self._held = self._held or b"", None
        with suppress(*UNREADABLE):
            self._ownership.claim(self._caller, _decode_made(held).id, time.time())
        return held


class AnswerClaim:
    """Notes the owner of a stored answer at its beginning: its caller may leave and ask for it later.

    The containers in which its code has run are noted at its end. The other items of an answer are not: there
    may be hundreds.
    """

    def __init__(self, ownership: Ownership, caller: str, at: float) -> None:
        self._claim = partial(ownership.claim, caller, at=at)
        self._is_made = False

    def read(self, *parts: bytes) -> None:
        """Look for the answer's id in its first events, its last, or the whole of it."""
        found = answered(parts)
        if found is None:
            return
        if not self._is_made:
            self._claim(found[0])
            self._is_made = True
        for name in self._containers(found[1]):
            self._claim(name)

    def _containers(self, items: Sequence[bytes]) -> set[str]:
        named: set[str] = set()
        for item in items:
            if _CONTAINER in item and len(named) < _MOST_CONTAINERS:
                with suppress(CallerError):  # an upstream's item that is not strict JSON
                    named |= named_texts(item, {"container_id"})
        return named
