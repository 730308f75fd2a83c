"""The Ledger port: where decisions, attempts and outcomes are appended, off the request path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, Protocol

import msgspec

from pointsman.agreement import Compared, Result
from pointsman.decision.decision import Decision
from pointsman.decision.diff import Verdict
from pointsman.prices import Prices
from pointsman.stores.ledger.reading import (
    NO_PRICES,
    DecisionFilter,
    DecisionRow,
    Page,
    Position,
    Reason,
    Spender,
    Totals,
)
from pointsman.wire.format import CompletionSummary

__all__ = [
    "COMPARED",
    "MAX_POLICY",
    "MAX_TEXT",
    "NOT_ASKED",
    "Attempt",
    "ComparedAnswers",
    "Entry",
    "Ledger",
    "Outcome",
    "Outcomes",
    "Owner",
    "PassedRequest",
    "PolicyText",
    "PolicyUse",
    "PromptText",
    "Record",
    "RunEntry",
    "Search",
    "Shadow",
    "ShadowAnswer",
    "ShadowDecision",
    "Upkeep",
    "Writes",
    "may_be_paid",
]

#: Most characters stored of a prompt: a full queue of ten thousand such texts still fits into memory.
MAX_TEXT: Final = 32_000
#: Characters of a stored policy: that of a hundred models has some 20,000.
MAX_POLICY: Final = 200_000

#: Errors of attempts that did not ask their model, and what to say of them.
NOT_ASKED: Final = {
    "breaker": "not asked: its circuit breaker is open",
    "held": "not asked: its upstream had asked to wait (Retry-After)",
    "credential": "not asked: its upstream takes the caller's own credential, and there was none",
    "budget": "not asked: the budget of the key or its team has no room for it",
    "rate": "not asked: a rate limit of the key or its team is used up",
    "translation": "not asked: the request cannot be translated for it",
}
#: Error of an attempt whose whole answer was compared with another model's and not sent. It is paid for.
COMPARED: Final = "compared"

#: Errors of calls that may be paid for, although they ended before their usage came.
_MAYBE_PAID: Final = frozenset({"timeout", "cut", "malformed", "too_large", "disconnect", "cancelled"})


class Attempt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One try of one model for one decision."""

    decision: str  # id
    number: int  # from 1
    model: str  # configured name
    upstream: str
    status: int  # HTTP status; 0 when none arrived
    #: "timeout", "busy", "connect", "stale", "cut", "malformed", "too_large", "status", ""; of an answer that
    #: was read and not sent, ``COMPARED``; or one of ``NOT_ASKED``. Never a body or a key.
    error: str = ""
    started_at: float  # seconds since the epoch
    first_byte_ms: float | None = None
    total_ms: float
    input_tokens: int | None = None  # as the upstream reported them
    cached_tokens: int | None = None
    output_tokens: int | None = None
    written_tokens: int | None = None  # of the input, to the provider's cache
    written_1h_tokens: int | None = None  # of these, kept for an hour
    estimated: bool = False  # some of the tokens: the caller left before the upstream reported them
    translated: str = ""  # what changed, as "chat->messages; changed=seed"; empty: sent as it came


class Outcome(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The outcome of a decision, reported by a person or derived."""

    decision: str  # id
    score: float | None = None  # 0 bad … 1 good
    label: str = ""
    source: str = "api"  # "api", "import", "caller:…", "implicit:…", "judge:…"
    comment: str = ""
    at: float = 0.0  # seconds since the epoch
    model: str = ""  # the model of the answer, if a shadow's; empty: the answer that the caller got
    cost: float = 0.0  # of the judgement, in US dollars, where a model judged


class PromptText(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The user's words behind a decision. Append them always: the ledger's text mode is applied to them."""

    decision: str  # id
    text: str  # cut to ``MAX_TEXT`` characters when stored


class ShadowDecision(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag_field="kind", tag="policy"):
    """What another policy would have decided."""

    decision: str  # id of the one that served
    at: float  # seconds since the epoch
    policy: str  # version hash of the other policy
    verdict: Verdict = Verdict()
    changed: tuple[str, ...] = ()  # of ``diff.PARTS``
    why: tuple[str, ...] = ()
    asks: str = ""  # how its question was answered: "record", "no-model"; empty: it asked nothing
    error: str = ""  # class of the error for which it decided nothing
    elapsed_us: float = 0.0


class ShadowAnswer(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag_field="kind", tag="model"):
    """Another model's answer to the same request. It is not sent to the caller."""

    decision: str  # id
    at: float  # seconds since the epoch
    model: str  # configured name
    upstream: str
    status: int = 0  # HTTP status; 0 when none arrived
    error: str = ""  # class of failure, as of an attempt; "cancelled" when the gateway ended first
    first_byte_ms: float | None = None
    total_ms: float = 0.0
    input_tokens: int | None = None  # as the upstream reported them
    cached_tokens: int | None = None
    output_tokens: int | None = None
    written_tokens: int | None = None  # of the input, to the provider's cache
    written_1h_tokens: int | None = None  # of these, kept for an hour
    said: CompletionSummary = CompletionSummary()
    text: str | None = None  # its words, if they are stored
    beside: CompletionSummary | None = None  # of the caller's answer; None when it was too long to read
    beside_text: str | None = None


def may_be_paid(call: Attempt | ShadowAnswer) -> bool:
    """Whether the provider may have counted tokens of a call, reported or not."""
    return call.status // 100 == 2 or call.error in _MAYBE_PAID


class ComparedAnswers(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag_field="kind", tag="agreement"):
    """Result of asking two cheap models and comparing their answers. It holds no text of the answers."""

    decision: str  # id
    at: float  # seconds since the epoch
    rule: str  # name of the [agreement.NAME] table
    cheap: tuple[str, str]  # configured names; the first serves where they agree
    strong: str = ""  # that answered instead; empty where none did
    result: Result
    compared: Compared = Compared.NOTHING
    detail: str = ""  # in words, with names of tools: "same call of `edit_file`, 2 arguments"
    #: Whether the strong model's answer is the same as that of each cheap one; None where not compared.
    strong_same: tuple[bool | None, bool | None] = (None, None)
    drawn: bool = False  # for the control share
    before: int = 0  # disagreements of the session until then
    elapsed_ms: float = 0.0  # until it was known who serves

    def line(self) -> str:
        """The same in words, for a person."""
        pair = " and ".join(self.cheap)
        others = f"; {self.strong} served" if self.strong else ""
        return f"agreement ({self.rule}): {pair}: {self.result}: {self.detail}{others}"


class PassedRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A request that was passed on to an upstream as it came. No decision belongs to it."""

    id: str  # its ``x-request-id`` where the caller gave none
    at: float  # seconds since the epoch
    upstream: str
    method: str
    path: str  # as sent to the gateway, without the query
    status: int = 0  # as the caller got it; 0 when it left before
    error: str = ""  # class of failure, as of an attempt; "refused" when the gateway did not pass it on
    bytes_in: int = 0  # of the body
    bytes_out: int = 0  # of the answer's body
    first_byte_ms: float | None = None
    total_ms: float = 0.0
    caller: str = ""  # name of the key it came with; empty: none was asked for
    team: str = ""  # that of the key


class Owner(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The owner of an object that an upstream stores: an answer, a conversation, a file, a batch."""

    object: str  # digest of its id, which whoever knows it could use
    caller: str  # name of the key that made it
    at: float  # seconds since the epoch


class RunEntry(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One step of an agent's run: the router's choice, a selection of capabilities, or a refusal.

    An entry of the same run and number replaces the one before it: a graph that resumes from a checkpoint
    may repeat its last step.
    """

    run: str  # id
    number: int  # position in the run, from 1
    session: str
    at: float  # seconds since the epoch
    kind: Literal["move", "retry", "selection", "refusal"]
    node: str  # the next node; the node that selected; the refused one
    code: str  # of the reason: "routing.retry"
    detail: str = ""  # the reason in words, without ``message``
    message: str = ""  # of a failing node or a model: stored according to the ledger's text mode
    delay: float = 0.0  # seconds waited first
    selected: tuple[str, ...] = ()
    scores: Mapping[str, float] = {}  # probability of each judged capability
    asked_model: tuple[str, ...] = ()  # capabilities that a model was asked about
    abstained: str = ""  # why the selection is no judgement


class PolicyText(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A policy as a configuration writes it, without secrets. Stored once, with the first decision by it."""

    version: str  # hash, as in ``Decision.policy``
    text: str  # TOML; not stored beyond ``MAX_POLICY`` characters


class PolicyUse(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """When a policy decided."""

    version: str  # hash
    first: float  # arrival of a decision by it, seconds since the epoch
    last: float
    decisions: int  # made by it, those removed since included
    has_text: bool  # False: only its version is known


Shadow = ShadowDecision | ShadowAnswer | ComparedAnswers
Entry = Decision | Attempt | Outcome | PromptText | Shadow | PassedRequest | RunEntry | Owner | PolicyText


class Record(msgspec.Struct, frozen=True, gc=False):
    """One decision and all that belongs to it."""

    decision: Decision
    attempts: tuple[Attempt, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    text: str | None = None
    shadows: tuple[Shadow, ...] = ()


class Writes(Protocol):
    """Where entries are appended. Append never blocks and never raises: lost entries are counted."""

    def append(self, entry: Entry, /) -> None:
        """Queue one entry."""

    def flush(self) -> None:
        """Write everything queued; for shutdown and tests."""

    def close(self) -> None:
        """Flush and release the store."""


class Search(Protocol):
    """The reading side of a ledger: reads see everything appended before.

    Reading may wait for the disk, so an event loop reads in a thread. All methods raise ``StoreUnavailable``
    when the store cannot be read.
    """

    def get(self, decision_id: str, /, *, caller: str = "") -> Decision | None:
        """Return a decision by id; of one caller alone when named."""

    def attempts(self, decision_id: str, /) -> tuple[Attempt, ...]:
        """Return a decision's attempts in order."""

    def outcomes(self, decision_id: str, /) -> tuple[Outcome, ...]:
        """Return a decision's outcomes in order of arrival."""

    def shadows(self, decision_id: str, /) -> tuple[Shadow, ...]:
        """Return the decisions and answers of shadow policies and models, and comparisons, in order."""

    def text(self, decision_id: str, /) -> str | None:
        """Return the stored text of a decision: by text mode nothing, ``sha256:…``, or words."""

    def decisions(
        self, *, limit: int | None = 100, session: str = "", newest_first: bool = True
    ) -> Iterator[Decision]:
        """Yield decisions by arrival, of a session with its sub-agents'; all when ``limit`` is None."""

    def records(
        self,
        *,
        limit: int | None = None,
        session: str = "",
        since: float | None = None,
        newest_first: bool = False,
    ) -> Iterator[Record]:
        """Yield ``decisions`` with their entries; oldest first from ``since``, seconds since the epoch."""

    def records_of(
        self, decisions: Sequence[str], /, *, since: float = ..., with_text: bool = False
    ) -> Mapping[str, Record]:
        """Return decisions with their entries by their ids, those that are there.

        Args:
            decisions: Their ids.
            since: No decision arrived before this time, in seconds since the epoch; default: any may have.
            with_text: Only those with a stored text.
        """

    def search(
        self,
        wanted: DecisionFilter,
        *,
        before: Position | None = None,
        limit: int = 100,
        models: Mapping[str, Prices] = NO_PRICES,
    ) -> Page:
        """Return a page of the decisions that meet a filter, the newest first.

        Decisions that have no summary yet are left out (``unsummarized``).

        Args:
            wanted: The filter.
            before: ``Page.next`` of the page before.
            limit: Most rows, ``MOST_ROWS`` at most.
            models: Prices by configured name, for ``cost_at_least``.
        """

    def session(self, session: str, /) -> tuple[DecisionRow, ...]:
        """Return the first ``MOST_ROWS`` decisions of a session and its sub-agents, the oldest first."""

    def totals(self, *, since: float = ..., until: float = ..., zone: int = 0) -> Totals:
        """Return the sums of a period, which begins and ends with whole hours, by days.

        Args:
            since: Its first second, since the epoch.
            until: The second after it.
            zone: Hours by which the reader's clock is ahead of UTC: where a day begins.
        """

    def spenders(self, *, since: float, until: float) -> Mapping[Spender, Totals]:
        """Return the sums of a period for each project, program, caller and role; not by hour, nor by tier.

        It reads every row of the period, some 40 ms for 100,000.

        Args:
            since: Its first second, since the epoch.
            until: The second after it.
        """

    def unsummarized(self) -> int:
        """Return how many decisions ``search``, ``session`` and ``totals`` do not know yet.

        They were written by an earlier version; a running gateway reads them in its pauses.
        """

    def count(self) -> int:
        """Return how many decisions there are."""

    def policies(self) -> tuple[PolicyUse, ...]:
        """Return the policies that decided, the one that did so last first."""

    def policy(self, version: str, /) -> str | None:
        """Return the text of a policy; None if it is not stored."""

    def passed(self, *, limit: int | None = 100, newest_first: bool = True) -> Iterator[PassedRequest]:
        """Yield requests that were passed on as they came, newest first; all when ``limit`` is None."""

    def owner(self, object: str, /) -> str | None:  # noqa: A002 - as in ``Owner``
        """Return the caller of the first ``Owner`` of an object; None if it has none."""

    def owners(self) -> Iterator[Owner]:
        """Yield the owner of every object, in order of creation."""

    def run(self, run_id: str, /) -> tuple[RunEntry, ...]:
        """Return the recorded steps of an agent's run, in order."""

    def runs(
        self, *, limit: int | None = 100, session: str = "", newest_first: bool = True
    ) -> Iterator[tuple[RunEntry, ...]]:
        """Yield runs of agents, each as ``run`` gives it, the newest first; of one session when named."""


class Outcomes(Protocol):
    """Where outcomes are reported from outside."""

    def add_outcome(self, outcome: Outcome, /, *, caller: str = "") -> None:
        """Queue an outcome reported from outside. May wait for the disk, as reading does.

        ``append`` is for outcomes that the program itself derives; this is for those of a caller or a file.

        Args:
            outcome: The reported outcome.
            caller: The reporter, which may report only on decisions of that caller. Empty: on all.

        Raises:
            UnknownDecision: there is no such decision of the caller's, neither written nor waiting to be.
            TooManyOutcomes: the decision has ``MAX_OUTCOMES`` already, whoever reported them.
            StoreUnavailable: whether it has cannot be read, or the outcome cannot be queued.
        """


class Upkeep(Protocol):
    """The state of a ledger, for metrics and diagnostics."""

    @property
    def waiting(self) -> int:
        """Entries appended and not yet written."""

    @property
    def lost(self) -> int:
        """Entries that could not be stored, since the start."""

    @property
    def removed(self) -> Mapping[Reason, int]:
        """How many decisions, and other entries that belong to none, retention removed since the start."""

    @property
    def fault(self) -> str:
        """Why entries cannot be written just now; empty when all is well."""


class Ledger(Writes, Search, Outcomes, Upkeep, Protocol):
    """A ledger has all four ports. A function that needs one of them takes that one."""
