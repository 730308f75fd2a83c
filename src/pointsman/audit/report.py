"""The report of an audit: findings, for programs and for people."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from pointsman.audit.figures import SessionFigures, Spent
from pointsman.audit.money import Money, Pricing, variable_of
from pointsman.audit.policies import PolicyVerdict, policy_blocks
from pointsman.audit.savings import HOUSEKEEPING_CHANGE, MOVES_CHANGE, STUCK_CHANGE, TOOLS_CHANGE
from pointsman.audit.tables import (
    DIVISIONS,
    by,
    cost,
    dearest,
    tokens,
    trouble_blocks,
    what_was_blocks,
)
from pointsman.audit.verdict import Verdict, amount, amounts, period, verdict
from pointsman.errors import PointsmanError
from pointsman.jsonl import numbered_lines
from pointsman.printable import Block, counted
from pointsman.remembering import grouped, summed

__all__ = ["AuditReport", "Change", "Label", "changes", "changes_blocks", "labelled", "read_labels"]

_MOST: Final = 3
#: Dollars below which a change is not worth a line.
_LEAST: Final = 0.005
_PLUGINS: Final = "~/.config/opencode/plugin"
_ON: Final = '[guidance] mode = "on"; escalate = ["stop"] there also ends a run that the hint does not help'
_PRINTED: Final = f"add what this prints to {{}}; with --config FILE it follows {_ON}"
#: Prints, or installs, what adds a hint to an agent that is stuck, by client.
_HOOKS: Final = {
    "claude-code": (_PRINTED.format("~/.claude/settings.json"), "pointsman hook claude-code install"),
    "codex": (_PRINTED.format("~/.codex/hooks.json"), "pointsman hook codex install"),
    "opencode": (
        "a plugin adds it",
        f"mkdir -p {_PLUGINS} && pointsman hook opencode install > {_PLUGINS}/pointsman.js",
    ),
}
#: How the gateway makes other changes.
_GATEWAY: Final = {
    HOUSEKEEPING_CHANGE: "the gateway serves them with tier SIMPLE",
    MOVES_CHANGE: "the gateway counts the loss of a cache before it changes the model",
}
#: Tools that are named in a command.
_TOOLS: Final = 8


class Change(NamedTuple):
    """One change."""

    what: str
    worth: str  # with its certainty
    command: str  # one line of a shell that runs as it is


def changes(
    found: Verdict, sessions: Sequence[SessionFigures], arguments: str = "--from-audit"
) -> tuple[Change, ...]:
    """Name at most three changes: sure savings first, then savings shown by outcomes, then experiments.

    Args:
        found: Known savings.
        sessions: The sessions read.
        arguments: With which ``config init`` reads the same logs, as words of a shell.
    """
    made = [*_sure(found, sessions, arguments), *_outcomes(found, arguments), *_unknown(found, arguments)]
    return tuple(made[:_MOST])


def changes_blocks(made: Sequence[Change]) -> Iterator[Block]:
    """Changes as lines, so that a command can be copied."""
    if made:
        yield ""
        yield "The changes worth most on these logs:"
    for at, each in enumerate(made, start=1):
        yield f"{at}. {each.what} ({each.worth})"
        yield f"   {each.command}"


def _gateway(arguments: str) -> str:
    return f"pointsman config init {arguments} && pointsman serve"


def _sure(found: Verdict, sessions: Sequence[SessionFigures], arguments: str) -> Iterator[Change]:
    for each in found.sure:
        if each.dollars < _LEAST:
            continue
        how, command = _command(each.what, sessions, _gateway(arguments))
        worth = amount(each.dollars, each.worth)
        if each.what == STUCK_CHANGE:  # a hint stops nothing
            yield Change(f"a hint when an agent is stuck: {how}", f"at most {worth}", command)
        else:
            yield Change(f"{each.what}: {how}", f"{worth}, sure", command)


def _command(what: str, sessions: Sequence[SessionFigures], gateway: str) -> tuple[str, str]:
    """How a change is made, and the command."""
    if what == STUCK_CHANGE:
        client = _most(Counter(of.client for of in sessions if of.stuck))
        return _HOOKS.get(client, (f"the gateway adds it with {_ON}", gateway))
    return _without_tools(sessions, gateway) if what == TOOLS_CHANGE else (_GATEWAY[what], gateway)


def _without_tools(sessions: Sequence[SessionFigures], gateway: str) -> tuple[str, str]:
    called = {name for of in sessions for name in of.calls_by_tool}
    offered = (each for of in sessions for each in of.unused_tools.items())
    unused = Counter(summed((each for each in offered if each[0] not in called), 0))
    clients = Counter(summed(((of.client, sum(of.unused_tools.values())) for of in sessions), 0))
    names = ",".join(name for name, _ in unused.most_common(_TOOLS))
    client = _most(clients)
    if client == "claude-code":
        return "start the client without them", f"claude --disallowedTools {shlex.quote(names)}"
    return f'the gateway cuts them with [capabilities] mode = "on"; {client} offers {names}', gateway


def _most(counted: Counter[str]) -> str:
    return counted.most_common(1)[0][0] if counted else ""


def _outcomes(found: Verdict, arguments: str) -> Iterator[Change]:
    for each in found.claimed:
        yield Change(
            f"use {each.cheap} in place of {each.dear}, in the projects compared: name it under [tiers]",
            f"{amounts([each])}, by outcomes",
            _gateway(arguments),
        )


def _unknown(found: Verdict, arguments: str) -> Iterator[Change]:
    """Yield one change for every cheaper model, whichever models did the work."""
    for cheap, own in grouped((each.cheap, each) for each in found.stakes).items():
        dear = " and ".join(each.dear for each in own)
        needs = f", which needs {variable}" if (variable := variable_of(cheap)) else ""
        yield Change(
            f"learn whether {cheap} would do the work of {dear}: ask it in the background{needs}",
            f"unknown, {amount(sum(each.dollars for each in own), sum(each.worth for each in own))} at stake",
            _gateway(f"{arguments} --shadow {shlex.quote(cheap)}"),
        )


#: Notes that a person is shown; ``--json`` has all.
_NOTES: Final = 20


@dataclass(slots=True, kw_only=True)
class AuditReport:
    """All figures of one audit."""

    place: str  # a home directory, or files
    sessions: Sequence[SessionFigures]
    found: dict[str, int]  # logs by source
    pricing: Pricing
    notes: Sequence[str] = ()
    copies: int = 0
    empty: Mapping[str, int] = field(default_factory=dict)  # logs without a request, by source
    since: float = 0.0
    arguments: str = "--from-audit"  # of ``config init``, so that it reads the same logs
    policies: Sequence[PolicyVerdict] = ()  # other policies on the same logs
    margin: float = 0.0  # of success, within which a model is good enough

    def total(self) -> tuple[Spent, Money]:
        """Sums over all sessions."""
        spent = sum((of.total() for of in self.sessions), Spent())
        return spent, sum(map(self.pricing.session, self.sessions), Money())

    def verdict(self) -> Verdict:
        """Known savings."""
        return verdict(self.sessions, self.pricing, self.margin)

    def to_json(self) -> dict[str, object]:
        """Plain values. Tokens are those of the log; with a bound if they are too low."""
        spent, money = self.total()
        found = self.verdict()
        return {
            "sentence": found.sentence,
            "changes": [each._asdict() for each in changes(found, self.sessions, self.arguments)],
            "verdict": found.to_json(),
            "policies": [each.to_json() for each in self.policies],
            "place": self.place,
            "found": self.found,
            "total": {"sessions": len(self.sessions), **_spent(spent), **money.to_json()},
            "prices_as_of": str(self.pricing.as_of) if self.pricing.as_of else None,
            "sessions": [_session(each, self.pricing) for each in self.sessions],
            **{f"by_{what}": self._divided(what) for what in DIVISIONS},
            "dearest_sessions": [of.id for of, _ in dearest(self.sessions, self.pricing)],
            "requests_copied": self.copies,
            "logs_without_requests": dict(self.empty),
            "notes": list(self.notes),
        }

    def _divided(self, what: str) -> list[dict[str, object]]:
        return [
            {"name": group.name, "sessions": group.sessions, **_spent(group.spent), **group.money.to_json()}
            for group in by(self.sessions, self.pricing, what)
        ]

    def blocks(self) -> Iterable[Block]:
        """Lines and tables."""
        found = self.verdict()
        if self.sessions:
            yield found.sentence
            yield ""
        yield from self._found_lines()
        if self.sessions:
            yield from what_was_blocks(self.sessions, self.pricing)
            yield from trouble_blocks(self.sessions, self.pricing)
            yield ""
            yield from found.blocks()
            yield from policy_blocks(self.policies)
            yield from changes_blocks(changes(found, self.sessions, self.arguments))
        yield from self._unknown_lines()

    def _found_lines(self) -> Iterator[Block]:
        spent, money = self.total()
        clients = Counter(of.client for of in self.sessions)
        named = ", ".join(f"{count} of {name}" for name, count in clients.most_common()) or "none"
        first, last = period(self.sessions) or ("", "")
        days = (f" on {first}" if first == last else f" from {first} to {last}") if first else ""
        yield (
            f"Sessions in {self.place}: {named}. {counted(spent.requests, 'request')}{days}, "
            f"{tokens(spent.input_tokens)} tokens in, {tokens(spent.output_tokens)} out: {cost(money)}."
        )
        if self.copies:
            stand = (
                "stands in more than one log and counts"
                if self.copies == 1
                else ("stand in more than one log and count")
            )
            yield f"{counted(self.copies, 'request')} {stand} once."

    def _unknown_lines(self) -> Iterator[Block]:
        """Gaps of the figures."""
        yield ""
        yield from self.caveats()
        yield from self.notes[:_NOTES]
        if len(self.notes) > _NOTES:
            yield f"{len(self.notes) - _NOTES} more notes: see --json."

    def caveats(self) -> Iterator[str]:
        """What holds for all figures."""
        spent, money = self.total()
        own = ", or those of a ledger's configuration" if any(of.prices for of in self.sessions) else ""
        yield f"Prices are list prices as of {self.pricing.as_of}{own}, without long-context surcharges."
        yield f"Days and times are those of this machine's zone, {time.strftime('%Z')}."
        if money.models:
            names = ", ".join(sorted(money.models))
            yield f"Without a price, so in no amount: {names}. pointsman models update may know it."
        if spent.uncertain:
            bound = spent.output_at_most
            yield (
                f"Counts that the client wrote too early or rounded: {counted(spent.uncertain, 'request')}."
                + (
                    f" All output is {spent.output_tokens:,} tokens as logged, {bound:,} at most."
                    if bound > spent.output_tokens
                    else ""
                )
            )
        unlogged = {of.client: of.not_logged for of in self.sessions if of.not_logged}
        for client, kinds in sorted(unlogged.items()):
            yield f"Not logged by {client}, so in no figure: {', '.join(kinds)}."
        for name, count in self.empty.items():
            yield f"Without a request to count: {counted(count, 'log')} of {name}."


def _session(of: SessionFigures, pricing: Pricing) -> dict[str, object]:
    total = of.total()
    by_model = summed(((part.split.model, part.spent) for part in of.parts), Spent())
    return {
        "id": of.id,
        "client": of.client,
        "version": of.version or None,
        "project": of.project,
        "project_name": of.project_name,
        "files": list(of.files),
        "started": _time(of.started),
        "ended": _time(of.ended),
        "models": {name: _spent(spent) for name, spent in by_model.items()},
        **_spent(total),
        **pricing.session(of).to_json(),
        "turns": of.turns,
        "sub_agents": of.sub_agents,
        "tool_calls": of.tool_calls,
        "failed_calls": of.failed_calls,
        "stuck": of.stuck,
        "signs": {sign.detector: sign.episodes for sign in of.signs},
        "after_first_sign": pricing.money(of.after_sign, of.client).to_json(),
        "solved": of.solved,
        "solved_by": of.solved_by or None,
        "tests_failing": any(outcome.tests_failing for outcome in of.outcomes[-1:]),
        "edits_after_green": sum(outcome.edits_after_green for outcome in of.outcomes),
        "calls_by_tool": {
            name: {"calls": made, "failed": failed} for name, (made, failed) in of.calls_by_tool.items()
        },
        "unused_tools": of.unused_tools,
        "cache_misses": [
            {"cause": miss.cause, "model": miss.model, "count": miss.count, "tokens": miss.tokens}
            for miss in of.misses
        ],
        "prompt_tokens_estimated": of.where,
        "not_logged": list(of.not_logged),
        "notes": list(of.notes),
    }


def _spent(spent: Spent) -> dict[str, object]:
    return {
        "requests": spent.requests,
        "input_tokens": spent.input_tokens,
        "cached_tokens": spent.cached_tokens,
        "cache_write_tokens": spent.written_tokens,
        "output_tokens": spent.output_tokens,
        "output_tokens_at_most": spent.output_at_most,
        "uncertain_requests": spent.uncertain,
    }


def _time(at: float) -> str | None:
    return datetime.fromtimestamp(at, UTC).isoformat() if at else None


# Outcomes that a person gives to sessions whose logs do not prove them.

_EXPECTED = 'one JSON object per line is expected, such as {"session": "139b477c", "solved": true}'


class Label(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A person's label of one session."""

    session: str
    solved: bool


def read_labels(file: Path) -> dict[str, bool]:
    """Read outcomes by session; of two of one session the later holds.

    Raises:
        PointsmanError: the file cannot be read, or a line is no label.
    """
    found: dict[str, bool] = {}
    for number, line in numbered_lines(file):
        try:
            label = msgspec.json.decode(line, type=Label)
        except msgspec.DecodeError as error:
            raise PointsmanError(f"{file}, line {number}: {error}", hint=_EXPECTED) from error
        found[label.session] = label.solved
    return found


def labelled(
    sessions: Iterable[SessionFigures], labels: dict[str, bool]
) -> tuple[Sequence[SessionFigures], Sequence[str]]:
    """Give sessions their labels, which override the log's outcomes, and name labels without a session."""
    given = [
        of
        if of.id not in labels
        else msgspec.structs.replace(
            of,
            solved=labels[of.id],
            solved_by="label",
            stuck=of.stuck and not labels[of.id],
            after_stuck=() if labels[of.id] else of.after_stuck,
        )
        for of in sessions
    ]
    return given, sorted(labels.keys() - {of.id for of in given})
