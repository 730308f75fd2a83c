"""The limits of a key applied to a request: before its decision, and for requests without a decision."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial

import msgspec

from pointsman.access import Access, Grant, PaidQuestions, Spending
from pointsman.decision.decision import Decision
from pointsman.errors import (
    Forbidden,
    LimitReached,
    MalformedRequest,
    Overloaded,
    RoleForbids,
    StoreUnavailable,
)
from pointsman.gateway._live_state import LiveState
from pointsman.gateway._metrics import Metrics
from pointsman.gateway._request import DecidedRequest, whole_number
from pointsman.vocabulary import AgentRequest
from pointsman.wire import Body, Format

__all__ = ["check_bounded", "check_changer", "check_counted", "check_passed", "check_reader",
           "decide_command", "decide_paid", "permitted", "seen_by", "settled",
           "with_permission"]  # fmt: skip


#: Tiers of service at the price of the model, or below it.
_USUAL_SERVICE = frozenset({b"null", b'"auto"', b'"default"', b'"flex"', b'"standard_only"'})
_OTHER_ROLE = 'role = "admin" in [keys.NAME] lets a key change what all callers have'


def permitted(
    access: Access, request: AgentRequest, metrics: Metrics
) -> tuple[AgentRequest, Spending | None]:
    """Return a request with what its key may use, and its limits; None for a key that may do everything.

    Raises:
        RoleForbids: the key is for the console.
        LimitReached: its rate limit is known to be used up.
    """
    grant = access.grants.get(request.caller)
    if grant is None:
        return request, None
    grant.check_role()
    spending = access.begin(grant)
    try:
        spending.check_rate()
    except LimitReached as error:
        metrics.count("limited", grant.name, grant.team, error.kind)
        raise
    return with_permission(access, request), spending


def with_permission(access: Access, request: AgentRequest) -> AgentRequest:
    """Return a request with the team of its key, and with the models that the key may use now."""
    grant = access.grants.get(request.caller)
    if grant is None:
        return request
    return msgspec.structs.replace(request, team=grant.team, permission=access.permission(grant))


def check_bounded(wire: Format, body: Body, spending: Spending) -> None:
    """Refuse a request with bounded cost or tokens if its usage cannot be known.

    Raises:
        MalformedRequest: a limit of output is no whole number, it is answered in the background, or it asks
            for a service whose price is not known.
    """
    kinds = {limit.kind for limit in spending.grant.limits}
    if not kinds & {"money", "tokens"}:
        return
    for name in (*wire.output_limits, "n"):
        if whole_number(body.member(name)) is None:
            raise MalformedRequest(f"{name} must be a whole number: this key has limits", param=name)
    if wire.is_stateful and body.is_true("background"):
        raise MalformedRequest(
            "background is not for a key with limits: what it uses is not seen",
            hint="leave background out",
            param="background",
        )
    service = body.member("service_tier")
    if "money" in kinds and service is not None and bytes(service) not in _USUAL_SERVICE:
        raise MalformedRequest(
            "this service_tier is not for a key with a budget: its price is not known",
            hint='service_tier = "auto", "default" or "flex"',
            param="service_tier",
        )


async def check_counted(access: Access, caller: str, metrics: Metrics) -> Grant | None:
    """Count a request for which no model works against the rate limit of its key.

    Raises:
        RoleForbids: the key is for the console.
        LimitReached: its rate limit is used up.
        Overloaded: the limits cannot be read.
    """
    grant = access.grants.get(caller)
    if grant is None:
        return None
    grant.check_role()
    await count(access.begin(grant), metrics)
    return grant


async def count(spending: Spending, metrics: Metrics) -> None:
    """Count a request against the rate limits of its key, before it is decided.

    Raises:
        LimitReached: one is used up.
        Overloaded: the limits cannot be read.
    """
    if not any(limit.kind == "requests" for limit in spending.grant.limits):
        return
    grant = spending.grant
    try:
        await spending.count_request()
    except LimitReached as error:
        metrics.count("limited", grant.name, grant.team, error.kind)
        raise
    except StoreUnavailable:
        raise _unavailable() from None


async def decide_paid(
    state: LiveState, request: AgentRequest, spending: Spending | None, metrics: Metrics
) -> Decision:
    """Count a request, and decide it; its key pays for the questions to models that this takes.

    Raises:
        LimitReached: its rate limit is used up, or its budget, and no model is free.
        Overloaded: the limits cannot be read.
        CallerError: as of ``Runtime.decide``.
    """
    if spending is None:
        return await state.runtime.decide(request)
    await count(spending, metrics)
    if state.asked_model is None:
        return await state.runtime.decide(request)
    if not any(
        target.model.is_priced and not target.model.cost(1, 0, 1) for target in state.targets.values()
    ):
        try:
            await spending.check_budget()
        except LimitReached as error:
            metrics.count("limited", request.caller, request.team, error.kind)
            raise
    spent = partial(_count_spent, metrics, request)
    return await state.runtime.decide(
        request, PaidQuestions(spending, request.permission, state.asked_model, spent)
    )


async def decide_command(state: LiveState, request: AgentRequest, metrics: Metrics) -> Decision:
    """Decide a request that holds nothing but a command, as its key may; raises as ``decide_paid``."""
    grant = None if state.access is None else state.access.grants.get(request.caller)
    if state.access is None or grant is None:
        return await state.runtime.decide(request)
    spending = state.access.begin(grant).beside()
    return await decide_paid(state, with_permission(state.access, request), spending, metrics)


def _count_spent(metrics: Metrics, request: AgentRequest, cost: float) -> None:
    metrics.count("spent", request.caller, request.team, by=cost)


async def check_passed(access: Access, caller: str, method: str, metrics: Metrics) -> str:
    """Do as ``check_counted`` for a request that is passed on as it came, and return the key's team.

    The cost and the model of such a request are not known: a key with bounded cost or models may only read
    and delete.

    Raises:
        RoleForbids: the key is for the console, or its cost or models are bounded.
        LimitReached: its rate limit is used up.
        Overloaded: the limits cannot be read.
    """
    grant = access.grants.get(caller)
    if grant is not None and method == "POST" and grant.bounds_cost:
        metrics.count("limited", grant.name, grant.team, "passthrough")
        raise RoleForbids(
            f'key "{caller}" has a budget, a token limit or a list of models, '
            "and what is passed on as it came has no known cost",
            hint="use the paths of models: /v1/chat/completions, /v1/responses or /v1/messages",
        )
    grant = await check_counted(access, caller, metrics)
    return grant.team if grant else ""


def check_reader(access: Access, caller: str, what: str) -> None:
    """Refuse what shows all callers to the key of a caller, where keys have roles.

    Raises:
        Forbidden: it is not.
    """
    grant = access.grants.get(caller)
    if access.has_roles and (grant is None or grant.role == "caller"):
        raise Forbidden(f"{what} is for viewers and admins", hint='role = "viewer" or "admin" in [keys.NAME]')


def check_changer(access: Access, caller: str) -> None:
    """Refuse a change by a viewer.

    Raises:
        RoleForbids: it is one.
    """
    grant = access.grants.get(caller)
    if grant is not None and grant.role == "viewer":
        raise RoleForbids(f'key "{caller}" is for reading: its role is "viewer"', hint=_OTHER_ROLE)


def seen_by(access: Access | None, caller: str) -> str:
    """Return the key with the decisions that a key may read: itself, or empty for all (viewer and admin)."""
    grant = access.grants.get(caller) if access is not None else None
    return caller if grant is None or grant.role == "caller" else ""


async def settled(request: DecidedRequest, answering: Awaitable[int], spending: Spending) -> int:
    """Answer a request; settle at its end the reservations still open.

    Under a limit on money or tokens a stream reports its usage: without it, reasoning that the upstream does
    not show would not count.

    Raises:
        Overloaded: its limits cannot be read, and requests are then refused.
    """
    try:
        if any(limit.kind != "requests" for limit in spending.grant.limits):
            request.hides_usage = request.report_usage()
        return await answering
    except StoreUnavailable:
        raise _unavailable() from None
    finally:
        spending.end()


def _unavailable() -> Overloaded:
    """Return the answer while limits cannot be read. Only the log has the cause: it may name a file."""
    return Overloaded("the limits of this key cannot be checked now", hint="send the request again later")
