"""Pointsman as a library: every decision, synchronous and asynchronous.

The name costs what its signatures need; the engine is imported by the first ``Pointsman()``. A program that
only refers to the class, or imports it on a path it may not take, does not pay for it (docs/decisions/0092).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, Self

from pointsman.vocabulary import AgentRequest, ModelQuery, ModelReply, WireFormat

if TYPE_CHECKING:
    from pathlib import Path

    from pointsman.capabilities import CapabilityDecision
    from pointsman.config import Config
    from pointsman.decision.decision import Decision
    from pointsman.decision.policy import Policy
    from pointsman.diagnostics.explained import Explained
    from pointsman.guidance import GuidanceDecision
    from pointsman.model_calls import Ask, AskingThread
    from pointsman.orchestrator import Application
    from pointsman.stores.ledger import Ledger
    from pointsman.stores.sessions import SessionStore
    from pointsman.upstreams.connections import Connections

__all__ = ["Pointsman"]


#: Marks of the objects that msgspec writes by itself.
_WRITTEN: Final = ("__dataclass_fields__", "__struct_fields__", "__attrs_attrs__")


class Pointsman:
    """Decides requests: a text, messages, or a request body of one of the three wire formats.

    >>> Pointsman().decide("Hello!").tier.tier.name
    'SIMPLE'
    """

    _config: Config | None = None  # these three by a configuration
    _asking: AskingThread | None = None
    _connections: Connections | None = None

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        ask: Callable[[ModelQuery], ModelReply] | None = None,
        ask_async: Ask | None = None,
        sessions: SessionStore | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        """Make ready to decide.

        Args:
            policy: What decides; by default the profile ``default`` and the eleven domains, observed.
            ask: Answers the model queries of ``decide``; by default no model is asked.
            ask_async: Answers the model queries of ``decide_async``; by default no model is asked.
            sessions: The store of session memory; by default in this process.
            ledger: Where decisions are appended; by default the last 10,000 in memory.
        """
        from pointsman.drivers import no_model
        from pointsman.factory import build_engine, default_policy
        from pointsman.model_calls import ask_nobody, build_questions
        from pointsman.runtime import Runtime
        from pointsman.stores.ledger import MemoryLedger
        from pointsman.stores.sessions import MemorySessions

        policy = _no_file(policy) or default_policy()
        self.runtime = Runtime(
            build_engine(policy),
            sessions=MemorySessions() if sessions is None else sessions,
            ledger=MemoryLedger() if ledger is None else ledger,
            ask=ask_async or ask_nobody,
            questions=build_questions(policy),
        )
        self._ask = ask or no_model

    @classmethod
    def from_config(cls, file: Path | str | None = None) -> Self:
        """Make ready to decide as a gateway with this configuration: its policy, models, ledger and sessions.

        Questions to models are asked on a separate event loop, in a thread that starts with the first
        one. Close the object, or use it in a ``with`` statement: the ledger writes in batches.

        Args:
            file: A ``pointsman.toml``; by default the one that the command line finds.

        Raises:
            ConfigError: there is no file, or it is wrong.
        """
        from pathlib import Path

        from pointsman.config import find, load
        from pointsman.errors import ConfigError
        from pointsman.factory import build_ask, build_runtime, keep_policy
        from pointsman.model_calls import AskingThread
        from pointsman.upstreams.connections import Connections

        found = find() if file is None else Path(file)
        if found is None:
            raise ConfigError("there is no pointsman.toml", hint="pointsman config init writes one")
        config = load(found)
        connections = Connections()
        asking = AskingThread(build_ask(config, connections), connections.close)
        built = build_runtime(config)
        keep_policy(built, config)
        self = cls.__new__(cls)
        self.runtime = built.with_policy(built.engine, ask=asking.ask_async, questions=built.questions)
        self._ask = asking.ask
        self._config, self._asking, self._connections = config, asking, connections
        return self

    def without_changes(self, *, texts: bool = False) -> Self:
        """Return one for a host that applies less of a decision than a gateway does.

        What it cannot apply is not recorded as given. It shares stores, models and today's spending with this
        one, and cuts no tools.

        Args:
            texts: Whether the host adds the texts of a decision; without it guidance and domains observe.
        """
        from copy import copy

        from pointsman.factory import build_engine
        from pointsman.model_calls import build_questions

        runtime = self.runtime
        policy = runtime.engine.policy.without_changes(texts=texts)
        if policy == runtime.engine.policy:
            return self
        other = copy(self)
        engine, questions = build_engine(policy), build_questions(policy)
        other.runtime = runtime.with_policy(engine, ask=runtime.ask, questions=questions)
        return other

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Write what waits, and close the stores and the connections to models."""
        if self._asking is not None:
            self._asking.close()
        self.runtime.close()

    def decide(
        self,
        request: str | Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        format: WireFormat | str = WireFormat.CHAT,  # noqa: A002 - the name the contract uses
        session: str | None = "",
        project: str = "",
        caller: str = "",
        dry_run: bool = False,
    ) -> Decision:
        """Decide one request in this thread.

        Args:
            request: The person's text, messages (objects of the providers' SDKs too), or a body as a mapping.
            format: The wire format of messages or body: ``chat``, ``responses`` or ``messages``.
            session: Names the conversation; empty: nothing is remembered. None: by how the conversation
                begins, as the gateway names one that no client does.
            project: The project: a directory, free text, or a key as ``project_key`` returns it.
                Outcomes and ``[tiers.projects]`` go by the key, and nothing else of it is recorded.
            caller: The caller; sessions of callers are separate.
            dry_run: Ask no model, and record and remember nothing; the decision has no id.

        Raises:
            MalformedRequest: the body is not of the format's shape.
            UnknownModel: the body asks for a model that is neither a tier nor configured.
            ValueError: there is no such format, or the name of the caller holds a slash.
        """
        read = _request(request, format, session, project, caller)
        if dry_run:
            return self.runtime.preview(read).decision
        return self.runtime.decide_sync(read, self._ask)

    async def decide_async(
        self,
        request: str | Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        format: WireFormat | str = WireFormat.CHAT,  # noqa: A002 - as above
        session: str | None = "",
        project: str = "",
        caller: str = "",
    ) -> Decision:
        """Decide one request without blocking the event loop. Arguments and errors as in ``decide``."""
        return await self.runtime.decide(_request(request, format, session, project, caller))

    def explain(
        self,
        request: str | Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        format: WireFormat | str = WireFormat.CHAT,  # noqa: A002 - as above
        session: str = "",
        project: str = "",
    ) -> Explained:
        """Explain what would be decided: no model is asked, and nothing is recorded or remembered.

        Arguments and errors as in ``decide``.
        """
        from pointsman.diagnostics.explained import explain_request

        read = self.runtime.read(_request(request, format, session, project))
        return explain_request(self.runtime.engine, read, self.runtime.memories.load(session), self._config)

    async def explain_async(
        self,
        request: str | Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        format: WireFormat | str = WireFormat.CHAT,  # noqa: A002 - as above
        session: str = "",
        project: str = "",
    ) -> Explained:
        """Explain in a thread, because it takes up to some 200 milliseconds. As ``explain``."""
        from asyncio import to_thread

        return await to_thread(self.explain, request, format=format, session=session, project=project)

    def select(self, task: str) -> CapabilityDecision | None:
        """Select those of the configured capabilities that a task needs (``[capabilities] file``).

        Nothing is recorded. A request with tools gets its selection from ``decide``.

        Args:
            task: The task in words.

        Returns:
            Names, scores and reasons; None where no capabilities are configured.
        """
        return self.runtime.select_sync(task, self._ask)

    async def select_async(self, task: str) -> CapabilityDecision | None:
        """Select capabilities without blocking the event loop. As ``select``."""
        return await self.runtime.select(task)

    def guide(
        self,
        request: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        format: WireFormat | str = WireFormat.CHAT,  # noqa: A002 - as above
        session: str = "",
    ) -> GuidanceDecision | None:
        """Decide whether the agent of a request is stuck, and what to tell it; nothing else is decided.

        The session remembers the hint; nothing is recorded. In one session use this or ``decide``.

        Args:
            request: The request body as a mapping.
            format: Its wire format: ``chat``, ``responses`` or ``messages``.
            session: Names the conversation; without it nothing is remembered.

        Returns:
            The guidance, whose ``injection`` is the text for the end of the prompt; None if it is off.

        Raises:
            MalformedRequest: the body is not of the format's shape.
        """
        return self.runtime.guide_sync(_request(request, format, session), self._ask)

    async def guide_async(
        self,
        request: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        format: WireFormat | str = WireFormat.CHAT,  # noqa: A002 - as above
        session: str = "",
    ) -> GuidanceDecision | None:
        """Decide guidance without blocking the event loop. As ``guide``."""
        return await self.runtime.guide(_request(request, format, session))

    def application(self, application: Application) -> Application:
        """Return an application of agents with its open settings, for ``Agent`` and ``build_graph``.

        Its runs are recorded in the ledger. Without a model each question is a decision and asks
        the configured model of its tier; with the default limits those of the configuration hold.
        """
        from pointsman.model_calls import ModelInThread

        config, asking, connections = self._config, self._asking, self._connections
        if config is None or asking is None or connections is None:
            return application.configured(self.runtime)
        from pointsman.upstreams.chat_model import chat_models

        models = chat_models(config.models, config.upstreams, connections)
        within = {name: ModelInThread(model, asking) for name, model in models.items()}
        return application.configured(self.runtime, within, config)

    def record_outcome(
        self,
        decision: str,
        score: float | None = None,
        *,
        label: str = "",
        comment: str = "",
        model: str = "",
    ) -> None:
        """Record how a decision turned out.

        Args:
            decision: Its id.
            score: From 0, bad, to 1, good.
            label: A word for it; required without a score.
            comment: Up to 4,000 characters.
            model: Model of the answer, if a shadow model answered too.

        Raises:
            UnknownDecision: the ledger holds no decision of this id.
            TooManyOutcomes: the decision has all the outcomes it may have.
            ValueError: a value is out of bounds; the message names it.
        """
        from pointsman.stores.ledger.outcome_reports import report

        outcome = report(decision, score=score, label=label, comment=comment, model=model, at=time.time())
        self.runtime.ledger.add_outcome(outcome)

    async def record_outcome_async(
        self,
        decision: str,
        score: float | None = None,
        *,
        label: str = "",
        comment: str = "",
        model: str = "",
    ) -> None:
        """Record an outcome in a thread, because the ledger reads a file. As ``record_outcome``."""
        from asyncio import to_thread

        given = {"label": label, "comment": comment, "model": model}
        await to_thread(self.record_outcome, decision, score, **given)


def _no_file(policy: Policy | None) -> Policy | None:
    if isinstance(policy, (str, PathLike)):
        raise TypeError(f"a policy is no file: Pointsman.from_config({str(policy)!r}) reads one")
    return policy


def _request(
    request: str | Mapping[str, Any] | Sequence[Mapping[str, Any]],
    format: WireFormat | str,  # noqa: A002 - as above
    session: str | None,
    project: str = "",
    caller: str = "",
) -> AgentRequest:
    from msgspec.structs import replace

    from pointsman.decoding import whole_text
    from pointsman.wire import FORMATS
    from pointsman.wire.project import named_project
    from pointsman.wire.request import of_caller, read_request, request_from_text, session_fingerprint

    caller = whole_text(caller)
    if "/" in caller:
        raise ValueError("the name of a caller holds no slash")
    if format not in FORMATS:
        raise ValueError(f'format "{format}" is none of {", ".join(FORMATS)}')
    wire = WireFormat(format)
    now = time.time()
    if isinstance(request, str):
        read = request_from_text(request, arrived_at=now)
    elif isinstance(request, Sequence):
        _check_messages(request, wire)
        body = FORMATS[wire].body(list(request), "")
        read = read_request(wire, body, arrived_at=now, caller=caller)
    else:
        if isinstance(request, Mapping):
            _check_messages(request.get("input" if wire is WireFormat.RESPONSES else "messages"), wire)
        read = read_request(wire, request, arrived_at=now, caller=caller)
    session = session_fingerprint(read) if session is None else whole_text(str(session))
    more = {"session": session and of_caller(caller, session), "caller": caller}
    return replace(read, **more, **({"project": named_project(project)} if project else {}))


def _check_messages(given: object, wire: WireFormat) -> None:
    """Refuse a list of what no format has, which would be read as an empty prompt."""
    from pointsman.errors import MalformedRequest

    messages = given if isinstance(given, Sequence) and not isinstance(given, str) else ()
    if wrong := next((type(each).__name__ for each in messages if not _is_message(each, wire)), ""):
        holds = f"{type(given).__name__} of {wrong}"
        raise MalformedRequest(f"a request is a text, a body or messages, which have roles, not a {holds}")


def _is_message(given: object, wire: WireFormat) -> bool:
    """Whether a request may hold it: a mapping, or an object for one that is written as one, as SDKs have."""
    is_written = any(hasattr(given, each) for each in ("model_dump", *_WRITTEN))
    is_item = wire is WireFormat.RESPONSES and hasattr(given, "type")
    is_item = is_item and not hasattr(given, "response_metadata")  # as LangChain's messages have, and a type
    return isinstance(given, Mapping) or (is_written and (hasattr(given, "role") or is_item))
