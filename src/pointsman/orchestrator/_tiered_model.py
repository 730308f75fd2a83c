"""Questions of a run, each asked of the model that the engine chooses for it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from pointsman.decision.decision import Decision, run_mark
from pointsman.decoding import whole_text
from pointsman.errors import UpstreamError, UpstreamTimeout, UpstreamUnavailable
from pointsman.orchestrator._facts import ClassifiedError, ErrorSeverity
from pointsman.orchestrator.progress import conversation_of
from pointsman.runtime import Runtime
from pointsman.stores.ledger.port import Attempt
from pointsman.upstreams import ChatModel, ask_metered
from pointsman.vocabulary import OF_SUBAGENT, AgentRequest, AgentRole, Prompt, WireFormat
from pointsman.wire.conversation import Usage
from pointsman.wire.request import read_request, request_from_text

#: The node that answers the person. Its question is their turn of the conversation; all others are helper
#: calls, which leave the memory of the session as it is.
_ANSWERS: Final = "respond"
#: The node that plans steps. Its questions are a conversation beside the person's, as those of a sub-agent.
_PLANS: Final = "orchestrator"


class TieredModel:
    """A chat model that is all the configured ones: the tier of each question selects one.

    Each question is a decision in the ledger under the run's session, and each try of a model an attempt.
    The models of the fallback chain are tried in order.
    """

    def __init__(
        self,
        runtime: Runtime,
        models: Mapping[str, ChatModel],
        *,
        node: str = "",
        state: Mapping[str, Any] | None = None,
    ) -> None:
        """Take what decides, the models by configured name, and where in a run the questions arise."""
        self._runtime = runtime
        self._models = models
        self._node = node
        self._state = state or {}

    def at(self, node: str, state: Mapping[str, Any]) -> TieredModel:
        """The same for the questions of one node of a run."""
        return TieredModel(self._runtime, self._models, node=node, state=state)

    async def complete(self, prompt: Prompt, *, timeout: float) -> str:
        """Return the text of the first model of the chain that gives one.

        Raises:
            UpstreamError: no model can serve the question, or all of them failed: then the last one's.
            ClassifiedError: CRITICAL where guidance ends the run.
        """
        state = self._state
        request = replace(
            self._request(prompt),
            active=tuple(state.get("planning_active_capabilities") or ()),
            all_active=bool(state.get("control_capability_bypass")),
        )
        decision = await self._runtime.decide(request)
        _check_not_stopped(decision)
        asked = _with_injections(prompt, decision)
        failure = UpstreamError(_nobody(decision))
        for number, name in enumerate([name for name in decision.chain if name in self._models], start=1):
            try:
                return await self._try(name, number, decision.id, asked, timeout)
            except UpstreamError as error:
                failure = error
        raise failure

    async def _try(self, name: str, number: int, decision: str, prompt: Prompt, timeout: float) -> str:
        began, started, failed, used, status = time.time(), time.perf_counter(), "cancelled", Usage(), 0
        try:
            text, reported = await ask_metered(self._models[name], prompt, timeout=timeout)
            used = reported or used
            failed, status = "", 200
        except UpstreamError as error:
            failed, status = _class_of(error), error.answered
            raise
        finally:
            self._runtime.ledger.append(
                Attempt(
                    decision=decision,
                    number=number,
                    model=name,
                    upstream=self._runtime.engine.policy.models[name].upstream,
                    status=status,
                    error=failed,
                    started_at=began,
                    total_ms=(time.perf_counter() - started) * 1e3,
                    input_tokens=used.input,
                    cached_tokens=used.cached,
                    output_tokens=used.output,
                    written_tokens=used.written,
                    written_1h_tokens=used.written_1h,
                )
            )
        return text

    def _request(self, prompt: Prompt) -> AgentRequest:
        session, now = str(self._state.get("control_session_id") or ""), time.time()
        if self._node == _PLANS:
            return self._planning(prompt, session, now)
        messages = self._state.get("messages") or []
        if self._node != _ANSWERS or not messages:
            request = request_from_text(prompt.text, system=prompt.system, session=session, arrived_at=now)
            return replace(request, role=AgentRole.HELPER, role_mark=self._mark())
        said = [{"role": each["role"], "content": _clean(each["content"])} for each in messages]
        body = {"messages": [{"role": "system", "content": _clean(prompt.system)}, *said]}
        request = read_request(WireFormat.CHAT, body, session=session, arrived_at=now)
        return replace(request, role=AgentRole.MAIN, role_mark=self._mark())

    def _planning(self, prompt: Prompt, session: str, now: float) -> AgentRequest:
        """The question for a plan continues the conversation of the run's steps, which guidance reads."""
        steps = conversation_of(_clean(prompt.text), self._state)
        body = {"messages": [{"role": "system", "content": _clean(prompt.system)}, *steps]}
        own = session and session + OF_SUBAGENT + self._node
        request = read_request(WireFormat.CHAT, body, session=own, arrived_at=now)
        return replace(request, role=AgentRole.SUBAGENT, role_mark=self._mark())

    def _mark(self) -> str:
        return run_mark(self._node or "a question", str(self._state.get("control_run_id") or "-"))


def in_run(model: ChatModel, node: str, state: Mapping[str, Any]) -> ChatModel:
    """The model for the questions of one node of a run; one that is asked directly stays as it is."""
    return model.at(node, state) if isinstance(model, TieredModel) else model


def _with_injections(prompt: Prompt, decision: Decision) -> Prompt:
    """The prompt with the injected text.

    A run's steps are one conversation, and the prompt represents all of it: injections of its earlier
    messages is added again. Of a talk with a person the latest text of each source is: their domains may be
    others now.
    """
    added = [*(one for each in decision.standing for one in each.added), *decision.injections]
    if decision.input.role is not AgentRole.SUBAGENT:
        added = list({each.source: each for each in added}.values())
    if not added:
        return prompt
    return replace(prompt, text="\n\n".join((prompt.text, *(each.text for each in added))))


def _check_not_stopped(decision: Decision) -> None:
    guidance = decision.guidance
    if guidance is not None and guidance.stop and guidance.firing:
        why = f"the run is stuck and was stopped: {guidance.firing.reason}"
        raise ClassifiedError(ErrorSeverity.CRITICAL, why)


def _nobody(decision: Decision) -> str:
    why = "; ".join(reason.detail for reason in decision.refused)
    chosen = ", ".join(decision.chain)
    return f"no model can be asked: {why or (chosen and f'{chosen} cannot') or 'no tier has one'}"


def _class_of(error: UpstreamError) -> str:
    if isinstance(error, UpstreamTimeout):
        return "timeout"
    if error.answered:
        return "status"
    return "busy" if isinstance(error, UpstreamUnavailable) else "status"


def _clean(text: object) -> str:
    return whole_text(str(text))
