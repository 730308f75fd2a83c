"""Reads a request body into an agent request, with its session and stored conversation."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from pointsman.access import Ownership
from pointsman.decoding import UNREADABLE
from pointsman.errors import MalformedRequest
from pointsman.gateway._conversation_memory import Continuation, ConversationMemory, KeptConversation
from pointsman.gateway._owned import AnswerClaim
from pointsman.gateway.upstream import Target
from pointsman.offload import offload
from pointsman.vocabulary import LARGE, OF_SUBAGENT, AgentRequest
from pointsman.wire import Body
from pointsman.wire.agent_role import read_role
from pointsman.wire.clients import CLIENTS
from pointsman.wire.project import client_of, project_key, read_project, read_traceparent
from pointsman.wire.request import of_caller, read_request, session_fingerprint
from pointsman.wire.responses.stored_conversation import StoredConversation, is_stored

__all__ = ["AnswerKeeper", "named_session", "read_turn"]

#: In order of trust. Codex sends the three after Claude Code's, under either spelling.
_HEADERS: Final = (
    b"x-session-id",
    b"x-claude-code-session-id",
    b"session-id",
    b"session_id",
    b"thread-id",
    b"x-session-affinity",
)
_NAMES: Final = frozenset(_HEADERS)
_OF_SUBAGENT: Final = OF_SUBAGENT.encode()
#: Those that agents alone send: ``x-session-id`` is a name that any program may choose.
_AGENTS: Final = (_NAMES - {b"x-session-id"}) | {name for client in CLIENTS for name in client.headers}
#: How the ``User-Agent`` of agents begins that send no such header.
_PROGRAMS: Final = tuple(
    client.agent.rstrip(b"/").decode() for client in CLIENTS if client.agent and not client.headers
)

#: How the system prompts of agents begin that name no session in a header, and offer tools.
_WITHOUT_HEADERS: Final = ("You are Cline,",)

#: What is kept as it was sent. Anything else, or longer than two UUIDs, is kept as a digest.
_PLAIN: Final = re.compile(rb"[A-Za-z0-9._:-]{1,80}")


class _Metadata(msgspec.Struct, gc=False):
    user_id: str = ""


_decode_metadata: Final = msgspec.json.Decoder(_Metadata).decode


async def read_turn(
    headers: Mapping[bytes, bytes],
    body: Body,
    memory: ConversationMemory,
    known: str = "",
    caller: str = "",
) -> tuple[AgentRequest, Continuation | None]:
    """Read a request, and the conversation that it continues if the provider stores that.

    Args:
        headers: The caller's, by name.
        body: The request.
        memory: Knows the conversations that a provider stores.
        known: The session it belongs to unless it names one itself; empty: not known.
        caller: Name of the key it came with.

    Raises:
        MalformedRequest: it names no model, or violates its format.
    """
    if body.member("model") is None and "prompt" not in body:  # a stored prompt may name one
        raise MalformedRequest(
            "the request names no model", hint='the model "auto" lets the gateway choose', param="model"
        )
    now, size = time.time(), len(body.raw)
    continuation = memory.continued(body, now, caller) if body.wire.is_stateful else None
    if session := named_session(headers, body):
        session = of_caller(caller, session)
    else:
        session = known or (continuation.session if continuation else "")
    earlier = continuation.earlier if continuation else None
    if size <= LARGE:
        return _request(headers, body, session, now, earlier, caller), continuation
    read = partial(_request, headers, body, session, now, earlier, caller)
    return await offload(size, read), continuation


def _request(
    headers: Mapping[bytes, bytes],
    body: Body,
    session: str,
    arrived_at: float,
    earlier: StoredConversation | None,
    caller: str,
) -> AgentRequest:
    """Read a request; its words name the session if nothing else does."""
    request = read_request(
        body.wire.format, body, session=session, arrived_at=arrived_at, earlier=earlier, caller=caller
    )
    client, system = client_of(headers.get(b"user-agent", b"")), request.system
    is_agent = not _AGENTS.isdisjoint(headers) or client.startswith(_PROGRAMS)
    is_agent = is_agent or system.startswith(_WITHOUT_HEADERS)
    role, purpose, mark = None, None, ""
    if is_agent or (system and not request.tools):
        role, purpose, mark = read_role(headers, request, body, is_agent=is_agent)
    project = name = ""
    if is_agent or role is not None:
        project, name = read_project(request, caller, client)
    elif caller or client:
        project = project_key(caller, "", client)
    return msgspec.structs.replace(
        request,
        client=client,
        role=role,
        purpose=purpose,
        role_mark=mark,
        project=project,
        project_name=name,
        traceparent=read_traceparent(headers[b"traceparent"]) if b"traceparent" in headers else "",
        session=session or of_caller(caller, session_fingerprint(request)),
    )


class AnswerKeeper:
    """Stores the answer to a request for requests that continue it, perhaps at another upstream."""

    def __init__(
        self,
        memory: ConversationMemory,
        note: Callable[[str], None] | None,
        ownership: Ownership,
        request: AgentRequest,
        sent: Body,
        body: Body,
        kept: KeptConversation | None,
        *,
        several: bool,
    ) -> None:
        """Prepare to store.

        Args:
            memory: Stores it.
            note: Registers this process as the holder of a name; None: it is the only process.
            ownership: Records the caller of an answer that a provider stores.
            request: The request.
            sent: Its body, as the caller sent it.
            body: Its body with the conversation or items that it refers to.
            kept: Of the translated conversation that it continues.
            several: There are several upstreams.
        """
        self._memory = memory
        self._note = note
        self._request = request
        self._sent = sent
        self._body = body
        self._kept = kept
        self._several = several
        self._claim: AnswerClaim | None = None
        if request.caller and is_stored(body.member):
            self._claim = AnswerClaim(ownership, request.caller, request.arrived_at)
        #: Finds an item that the request may name by its id, and that another upstream stores.
        self.find_item = memory.stored_items(request)

    def begun(self, first: bytes) -> None:
        """Read the beginning of an answer, or all of it, before it is sent; not of a translated one."""
        if self._claim is not None:
            self._claim.read(first)

    def completed(self, target: Target, answer: Sequence[bytes]) -> None:
        """Store an answer that has been sent: the whole body or the last events of a stream."""
        self._hold(self._memory.keep_response(self._request, self._body, target, answer))
        if self._claim is not None:
            self._claim.read(*answer)
        if self._several:
            self._memory.keep_items(self._request, self._body, answer, translated=False)

    def translated(self, answer: Sequence[bytes]) -> None:
        """Store a translated answer, as it goes to the caller."""
        self._hold((self._memory.keep_whole(self._request, self._sent, self._kept, answer),))
        self._memory.keep_items(self._request, self._body, answer, translated=True)

    def _hold(self, names: Sequence[str]) -> None:
        if self._note is not None:
            for name in names:
                self._note(name)


def named_session(headers: Mapping[bytes, bytes], body: Body) -> str:
    """Return the session as the caller names it; empty when it does not."""
    if not _NAMES.isdisjoint(headers):  # most clients send none
        for name in _HEADERS:
            if value := headers.get(name):
                value = _of_subagent(headers, value)
                return value.decode("ascii") if _PLAIN.fullmatch(value) else _digest(value)
    metadata = body.member("metadata")
    if metadata is None:
        return ""
    try:
        user = _decode_metadata(metadata).user_id
    except UNREADABLE:
        return ""
    # Claude Code puts the account in here as well, which is nobody's business.
    return _digest(user.encode("utf-8", "surrogatepass")) if user else ""


def _of_subagent(headers: Mapping[bytes, bytes], session: bytes) -> bytes:
    """A separate session for a sub-agent: its turns are not those of the conversation that began it.

    Claude Code and Codex send the session of the main conversation with every sub-agent's request; opencode
    gives each a session.
    """
    agent = headers.get(b"x-claude-code-agent-id")
    if agent is None and b"x-codex-parent-thread-id" in headers:
        agent = headers.get(b"thread-id")
    return session if agent is None or agent == session else session + _OF_SUBAGENT + agent


def _digest(value: bytes) -> str:
    return "s-" + hashlib.blake2b(value, digest_size=12).hexdigest()
