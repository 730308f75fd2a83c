"""The request to an upstream: the caller's, with the model name, injections and API key replaced."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from secrets import token_hex
from typing import Any, Final, NamedTuple

import msgspec

from pointsman.access import Hold, Spending
from pointsman.decision.decision import Decision
from pointsman.decoding import UNREADABLE
from pointsman.errors import CallerError, LimitReached, PreviousResponseNotFound, Unauthorized
from pointsman.gateway._conversation_memory import ConversationMemory, Watch
from pointsman.gateway._credentials import caller_credentials
from pointsman.gateway._failures import Failure
from pointsman.gateway._inbound import InboundRequest
from pointsman.gateway._injections import injections, kept_tools
from pointsman.gateway._metrics import LowerTiers, Metrics
from pointsman.gateway._reading import AnswerKeeper
from pointsman.gateway.upstream import Target, Upstream, upstream_headers, without_providers
from pointsman.model_choice.chains import Pool
from pointsman.model_choice.fitness import BYTES_PER_TOKEN, tokens_with_images
from pointsman.offload import offload, offload_large
from pointsman.stores.ledger.port import Attempt, Writes
from pointsman.upstreams.port import Call, Headers
from pointsman.vocabulary import LARGE, AgentRequest, ModelSpec, Parameters, Tier
from pointsman.wire import FORMATS, Body, Format, Usage
from pointsman.wire.body import Edit, Span
from pointsman.wire.reasoning import Cleaned, OwnReasoning, SignedTurn
from pointsman.wire.responses.stored_conversation import previous_response, with_items
from pointsman.wire.translate import Translated, translate_request, upstream_format

__all__ = [
    "DecidedRequest",
    "Prepared",
    "Site",
    "model_edit",
    "whole_number",
]

#: Output tokens that are reserved at most, whatever a request says: more than any answer has.
_MOST_TOKENS: Final = 1_000_000_000

_RETRIED: Final = b"x-stainless-retry-count"

_decode_options: Final = msgspec.json.Decoder(dict[str, Any] | None).decode


def model_edit(body: Body, place: Span | None, model: bytes) -> Edit:
    """Return the edit that replaces the model's name by one, as JSON, or inserts it first if absent."""
    if place is not None:
        return place, model
    start = body.raw.index(b"{") + 1
    return (start, start), b'"model":' + model + (b"," if not body.is_empty else b"")


class Prepared(msgspec.Struct, frozen=True):
    """A request as one model's upstream gets it."""

    call: Call
    wire: Format  # in which the upstream is asked, and answers
    translated: Translated | None = None  # None: that is the caller's
    changes: str = ""  # what is not as the caller sent it, for the caller and the ledger


def whole_number(member: msgspec.Raw | None) -> int | None:
    """Return a member as a whole number, ``1e5`` too; 0 if it is absent, None for anything else."""
    if member is None or (text := bytes(member)) == b"null":
        return 0
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return None
    return int(number) if number.is_integer() else None


def _overlaps(edit: Edit, others: Sequence[Edit]) -> bool:
    (start, end), _ = edit
    return any(other_start < end and start < other_end for (other_start, other_end), _ in others)


def _number(member: msgspec.Raw | None) -> int:
    """A member as a whole number; 0 if it is absent or not one, which the upstream judges."""
    try:
        return 0 if member is None else int(bytes(member))
    except ValueError:
        return 0


def _limited(given: Parameters | None, limit: int) -> Parameters:
    """The parameters of a tier within a model's output limit."""
    if given is None:
        return Parameters(max_tokens=limit)
    if given.max_tokens is not None and given.max_tokens <= limit:
        return given
    budget = given.thinking_budget
    fits = budget is None or budget < limit
    return msgspec.structs.replace(given, max_tokens=limit, thinking_budget=budget if fits else None)


class Site(NamedTuple):
    """The parts of a gateway that all requests share, under every configuration."""

    metrics: Metrics
    memory: ConversationMemory
    lower_tiers: LowerTiers


class DecidedRequest:
    """A request and its decision: builds the call for whichever model is tried, and records attempts.

    Only the model's name and the decision's injections and tools differ from the caller's request, unless the
    model's upstream speaks another format.
    """

    attempts = 0  # tries of an upstream
    rows = 0  # the same, and the models that were not asked
    answered: Target | None = None  # the model, once one does
    hides_usage = False  # the upstream is to report usage in a stream, and the caller did not ask for that
    overhead = 0.0  # seconds from its arrival to the first try
    left_out: tuple[tuple[Target, Failure], ...] = ()  # in the order of asking
    _given_to: str | None = None  # name of the upstream that is sent the caller's own credential
    _translated: tuple[Target, Prepared] | None = None  # the latest: it is sent again on a retry
    _edits: Sequence[Edit] = ()

    def __init__(
        self,
        inbound: InboundRequest,
        turn: AgentRequest,
        decision: Decision,
        ledger: Writes,
        pools: Mapping[Tier, Pool],
        site: Site,
        own: OwnReasoning | None = None,
        spending: Spending | None = None,
        keeper: AnswerKeeper | None = None,
    ) -> None:
        """Take in a decided request.

        Args:
            inbound: The request.
            turn: As it was read.
            decision: Of it.
            ledger: Where its attempts are written.
            pools: The models of each tier.
            site: Shared with other requests.
            own: If its session may have been at another upstream before.
            spending: The limits of its key; None: it has none.
            keeper: Stores its answer for requests that continue it; None: nothing does.
        """
        wire, body = inbound.wire, inbound.body
        self.wire = wire
        self.body = body
        self.decision = decision
        self.spending = spending
        self.keeper = keeper
        self.streams = body.is_true("stream")  # it asks for a stream
        self.inbound = inbound
        self.ledger = ledger
        self.pools = pools
        self.site = site
        self.turn = turn
        self._own = own
        if decision.injections or decision.standing:
            self._edits = injections(wire, body, decision)
        selected = decision.capabilities
        if selected is not None and selected.tools is not None:
            self._edits = [*self._edits, *kept_tools(body, selected.tools)]

    def report_usage(self) -> bool:
        """Let a chat stream report its usage, by which costs are known and limits on them settled.

        Returns:
            Whether the caller did not ask for it (``hides_usage``).
        """
        if self.hides_usage or self.wire.format != "chat":
            return self.hides_usage
        body, stream = self.body, self.body.member("stream")
        if stream is None or bytes(stream) in {b"false", b"null", b"0"}:  # others than true stream at some
            return False
        option = body.member("stream_options")
        try:
            options = None if option is None else _decode_options(option)
        except UNREADABLE:
            return False  # for the upstream to refuse
        asked = {**(options or {}), "include_usage": True}
        if asked == options:
            return False
        place = body.span("stream_options")
        if place is None:
            start = body.raw.index(b"{") + 1  # not empty: it has "stream"
            new = b'"stream_options":' + msgspec.json.encode(asked) + b","
            self._edits = [*self._edits, ((start, start), new)]
        else:
            self._edits = [*self._edits, (place, msgspec.json.encode(asked))]
        return True

    @property
    def client_is_retrying(self) -> bool:
        """Whether the client tries again by itself, as its SDK counts: one owner of retries is enough."""
        return self.inbound.headers.get(_RETRIED, b"0") != b"0"

    def unchanged(self, target: Target) -> Prepared | None:
        """Return the request with the model's name and the injections, and else as sent.

        None if it needs more changes or checks, or the body is large: see ``prepare``.
        """
        wire, body = self.wire, self.body
        if wire.format not in target.as_sent or self._own is not None or self.decision.parameters:
            return None
        if len(body.raw) > LARGE:
            return None
        if (place := body.span("model")) is not None and not self._edits:
            view = memoryview(body.raw)
            changed = b"".join((view[: place[0]], target.id, view[place[1] :]))
        else:
            changed = body.edited([model_edit(body, place, target.id), *self._edits])
        return Prepared(self._call(target.upstream, changed), wire, None, "")

    def _call(self, upstream: Upstream, body: bytes, credential: Headers = ()) -> Call:
        """Return the call of an upstream of the caller's format; ``credential`` is the caller's own."""
        wire, inbound = self.wire, self.inbound
        sent = upstream_headers(inbound.all_headers, upstream.relayed.taken, inbound.caller)
        sent += upstream.headers[wire.format]
        if wire.model_call is not None and (required := wire.model_call.headers):
            sent += [pair for pair in required if pair[0] not in inbound.headers]
        if credential:
            sent += credential
        path = wire.path + b"?" + inbound.query if inbound.query else wire.path
        return Call(path, sent, body, b"POST", None, self.streams)

    async def prepare(self, target: Target) -> Prepared:
        """Return the request as this model's upstream gets it.

        Raises:
            CallerError: the upstream speaks another format, into which the request cannot be translated.
            Unauthorized: the upstream takes the caller's own credential, and there is none.
        """
        edits = [model_edit(self.body, self.body.span("model"), target.id), *self._edits]
        wire, upstream = self.wire, target.upstream
        is_native = wire.format in target.model.formats
        given: Parameters | None = None
        changed: tuple[str, ...] = ()
        if is_native and self._own is not None and (cleaned := await self._cleaned(self._own, target)):
            # A message of which reasoning is taken out takes no text; one behind such an item goes with it.
            edits = [each for each in edits if not _overlaps(each, cleaned.edits)] + cleaned.edits
            changed = cleaned.changed
        edit, size = self.body.edited, len(self.body.raw)
        body = edit(edits) if size <= LARGE else await offload(size, edit, edits)
        parameters, model = self.decision.parameters, target.model
        if parameters or model.max_output_tokens is not None:
            given = parameters.get(model.name)
            if (limit := self._output_limit(model, is_native=is_native)) is not None:
                given = _limited(given, limit)
                changed += ("max_tokens",)
            if given is not None:
                body = await self._with_parameters(body, given, translated=not is_native)
        if not is_native:
            return await self._translate(target, body, given, changed)
        credential = self._credentials(target) if upstream.spec.forward_auth else ()
        changes = f"{wire.format}->{wire.format}; changed={','.join(changed)}" if changed else ""
        return Prepared(self._call(upstream, body, credential), wire, None, changes)

    def _output_limit(self, model: ModelSpec, *, is_native: bool) -> int | None:
        """The output limit of a model, if the caller asks for more and did not choose the model.

        Agents ask for as much as the model they have in mind writes; others refuse that. A request for a
        model by name stays as it is.
        """
        limit = model.max_output_tokens
        if limit is None or (is_native and self.decision.input.model_asked in {model.name, model.id}):
            return None
        asked = max(_number(self.body.member(name)) for name in self.wire.output_limits)
        return limit if asked > limit else None

    async def _cleaned(self, own: OwnReasoning, target: Target) -> Cleaned | None:
        """Return the edits that leave the target's own reasoning alone; None where all of it is."""
        turn, upstream = self.turn, target.upstream
        origin = self.site.memory.origin(own, turn.session, upstream.spec, self.body, turn.arrived_at)
        if origin is None:
            return None
        try:
            cleaned = await offload_large(len(self.body.raw), own.clean, self.body, origin)
        except UNREADABLE:  # for the upstream to refuse
            return None
        return cleaned if cleaned.changed else None

    async def reserve(self, model: ModelSpec, *, beside: bool = False) -> Hold | None:
        """Reserve the possible usage of a model's answer in the caller's limits; None if it has none.

        Args:
            model: The target of the request.
            beside: As a shadow model, which counts no request.

        Raises:
            LimitReached: a limit has no room.
            StoreUnavailable: the limits cannot be read, and requests are then refused.
        """
        spending = self.spending
        if spending is None:
            return None
        if beside:
            spending = spending.beside()
        asked = max(whole_number(self.body.member(name)) or 0 for name in self.wire.output_limits)
        given = self.decision.parameters.get(model.name)
        limits = [asked, given.max_tokens if given else None, model.max_output_tokens]
        if asked <= 0:
            limits[0] = spending.output_tokens
        output = min(limit for limit in limits if limit is not None)
        answers = max(whole_number(self.body.member("n")) or 0, 1)
        output = min(output * answers, _MOST_TOKENS)
        return await spending.reserve(model, _input_tokens(self.turn, self.body), output)

    def settle(self, hold: Hold, error: str, usage: Usage, *, estimated: bool = False) -> None:
        """Settle the reservation of an attempt, and count its cost."""
        cost = hold.finish(error, usage, estimated=estimated)
        if cost:
            self.site.metrics.count("spent", self.turn.caller, self.turn.team, by=cost)

    def count_limit(self, error: CallerError) -> None:
        """Count a refusal, if it is by a limit of the caller."""
        if isinstance(error, LimitReached):
            self.site.metrics.count("limited", self.turn.caller, self.turn.team, error.kind)

    def watch(self, target: Target) -> Watch | None:
        """Return a reader of the reasoning in an answer relayed as it is; None if it holds none."""
        own, turn = self._own, self.turn
        if own is None:
            return None
        if own.asked and own.asked not in self.body and not self.decision.parameters:
            return None  # it was not to think
        return self.site.memory.watch(own, turn.session, target.upstream.spec.name, turn.arrived_at)

    def _credentials(self, target: Target) -> Headers:
        """The caller's own credential, for one upstream that speaks a format of the same provider's.

        Raises:
            Unauthorized: there is none, it is another provider's, or another upstream was given it.
        """
        name = target.upstream.spec.name
        is_kin = self.wire.auth in {FORMATS[wire].auth for wire in target.model.formats}
        if self._given_to not in {None, name} or not is_kin:
            raise Unauthorized(
                f'upstream "{name}" is not sent this caller\'s credential: it is for another provider',
                hint="it goes to one upstream, which takes the key in the way of the caller's format",
            )
        self._given_to = name
        return caller_credentials(self.inbound.all_headers, self.inbound.keys)

    async def _with_parameters(self, body: bytes, given: Parameters, *, translated: bool) -> bytes:
        from pointsman.wire.models import with_parameters

        return await offload_large(
            len(body), partial(with_parameters, self.wire.format, body, given, translated=translated)
        )

    async def _translate(
        self, target: Target, body: bytes, given: Parameters | None, changed: tuple[str, ...]
    ) -> Prepared:
        """Translate the body that would be sent in the caller's format, without its query and its headers."""
        if self._translated is not None and self._translated[0] is target:
            return self._translated[1]
        if self.wire.is_stateful and (name := previous_response(self.body.member)):
            message = f"Previous response with id '{name}' not found."  # in OpenAI's words
            raise PreviousResponseNotFound(message, param="previous_response_id")
        if self.keeper is not None and (find := self.keeper.find_item) is not None:
            body = with_items(body, find)
        wire = FORMATS[upstream_format(self.wire.format, target.model.formats)]
        now = int(time.time())
        budget = given.thinking_budget if given else None
        turn, upstream = self.turn, target.upstream.spec.name
        recall = self.site.memory.recall(turn.session, upstream, turn.arrived_at)
        strict = upstream if target.upstream.spec.unknown == "refuse" else ""
        work = partial(translate_request, self.wire.format, wire.format, body, recall, now, budget, strict)
        translated = work() if len(body) <= LARGE else await offload(len(body), work)
        if self.wire.is_stateful:
            # Who knows the id of an answer can go on from it: nobody may guess one.
            translated = translated._replace(unique=token_hex(16))
        if changed:
            translated = translated._replace(changed=translated.changed + changed)
        inbound = self.inbound
        sent = without_providers(
            upstream_headers(inbound.all_headers, target.upstream.relayed.taken, inbound.caller)
        )
        if wire.model_call:
            sent += wire.model_call.headers
        sent += target.upstream.headers[wire.format]
        if target.upstream.spec.forward_auth:
            sent += self._credentials(target)
        call = Call(wire.path, sent, translated.body, streams=self.streams)
        prepared = Prepared(call, wire, translated, str(translated))
        self._translated = target, prepared
        return prepared

    def keep_translated(self, target: Target, turn: SignedTurn, answer: Sequence[bytes]) -> None:
        """Store a translated answer: its reasoning for its upstream, and items the caller may refer to."""
        asked = self.turn
        self.site.memory.keep_turn(asked.session, target.upstream.spec.name, turn, asked.arrived_at)
        if self.keeper is not None:
            self.keeper.translated(answer)

    def record(self, attempt: Attempt) -> None:
        """Write an attempt down, and count it."""
        self.ledger.append(attempt)
        self.site.metrics.seen(attempt)


def _input_tokens(turn: AgentRequest, body: Body) -> int:
    """Estimate the tokens of the input: a quarter of its bytes, except with images."""
    if "vision" in turn.features:
        return tokens_with_images(turn)
    return len(body.raw) // BYTES_PER_TOKEN + 1
