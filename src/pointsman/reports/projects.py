"""What own outcomes say of each project, and of the tier that is good enough for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from pointsman.model_choice.pools import chances_of
from pointsman.printable import Block, Column, TextTable
from pointsman.reports.outcomes import scores_of
from pointsman.reports.usage import answered
from pointsman.stores.ledger import Record
from pointsman.tiers.projects import ANY, Projects, name_of, named_cell

if TYPE_CHECKING:
    from pointsman.learning.projects import ProjectOutcome

__all__ = ["CONDITION", "clients_of", "outcomes_of", "project_blocks", "uses"]

#: What the certainty of a tier rests on: rules that choose by length give the cheaper model easier messages.
CONDITION: Final = (
    "the probabilities hold if chance decided which message each model got (exploration, shadow); where "
    "rules decided, the cheaper model was measured on easier messages, and its tier may be named wrongly"
)
#: The role of requests that go on with a user message: outcomes are about the message.
_ITERATION: Final = "tool_iteration"
_MESSAGE: Final = "message"
_EXPLORED: Final = "projects.explore"
#: Codes of the reasons of decisions in which a project had a say.
_CODES: Final = ("projects.tier", _EXPLORED, "projects.observe")


def outcomes_of(
    records: Iterable[Record], kind_of: Callable[[Record], str] | None = None
) -> Iterator[ProjectOutcome]:
    """Yield one outcome for each user message and model of records: the mean of its outcomes.

    Args:
        records: Oldest first.
        kind_of: The kind of a prompt; None: kinds are not distinguished.
    """
    from pointsman.learning.projects import ProjectOutcome  # needs the extra ``fit``

    said: dict[tuple[str, ...], list[tuple[float, float, str, str]]] = {}
    chosen: set[tuple[str, ...]] = set()  # those whose model a rule or a policy chose
    for record in records:
        asked = record.decision.input
        if not asked.project:
            continue
        role = name_of(asked.role, asked.purpose) or ANY
        role = _MESSAGE if role == _ITERATION else role
        turn = f"{asked.session}#{asked.user_message}" if asked.user_message else record.decision.id
        for model, score in scores_of(record, judged=False):
            kind = kind_of(record) if kind_of else ANY
            key = (asked.project, kind, role, model, turn)
            said.setdefault(key, []).append((score, asked.arrived_at, record.decision.id, asked.caller))
            if not _by_chance(record, model):
                chosen.add(key)
    for (project, kind, role, model, turn), scores in said.items():
        yield ProjectOutcome(
            id=scores[0][2],
            project=project,
            model=model,
            score=sum(score for score, *_ in scores) / len(scores),
            at=scores[0][1],
            kind=kind,
            role=role,
            caller=scores[0][3],
            by_chance=(project, kind, role, model, turn) not in chosen,
        )


def _by_chance(record: Record, model: str) -> bool:
    """Whether exploration or the share of the shadow model decided that a model answers."""
    answer = answered(record.attempts)
    if answer is None:
        return False
    if answer.model != model:
        return True  # of a shadow's answer: which messages it gets is drawn
    reasons = record.decision.reasons
    return any(reason.code == _EXPLORED for reason in reasons) or bool(chances_of(reasons))


def uses(records: Iterable[Record]) -> dict[str, int]:
    """Count the decisions in which a project had a say, by the code of its reason, and all of a project."""
    counts = {"requests": 0, **dict.fromkeys(_CODES, 0)}
    for record in records:
        counts["requests"] += bool(record.decision.input.project)
        for reason in record.decision.reasons:
            if reason.code in counts:
                counts[reason.code] += 1
    return counts


def clients_of(records: Iterable[Record]) -> dict[str, str]:
    """The programs seen in each project."""
    seen: dict[str, set[str]] = {}
    for record in records:
        if client := record.decision.input.client:
            seen.setdefault(record.decision.input.project, set()).add(client)
    return {project: " ".join(sorted(clients)) for project, clients in seen.items()}


def project_blocks(found: Projects, names: Mapping[str, str], counts: Mapping[str, int]) -> Iterator[Block]:
    """The report for a person: a row for each cell and model.

    Args:
        found: The cells.
        names: Clients seen in a project, by its key.
        counts: As ``uses`` gives them.
    """
    goal = f"{found.target:g} of the last tier's success" if found.keep else f"success {found.target:g}"
    yield f"good enough: {goal}, with probability {found.certainty:g}"
    yield CONDITION
    yield TextTable(_COLUMNS, list(_rows(found, names)))
    said = ", ".join(f"{code.partition('.')[2]} {counts[code]:,}" for code in _CODES if counts.get(code))
    yield f"{counts['requests']:,} requests of projects{'; decided by project: ' + said if said else ''}"


def _rows(found: Projects, names: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """The models of each cell; figures of the cell as a whole are in the row of the first."""
    for name, cell in found.cells.items():
        project, kind, role = named_cell(name)
        chances = ", ".join(f"{tier} {chance:.2f}" for tier, chance in cell.chance.items()) or "nothing known"
        client = names.get(project, "") if kind == role == ANY else ""
        verdict: tuple[str, ...] = (cell.tier or "none known", chances, client)
        for model, (successes, outcomes, mean) in cell.models.items():
            share = f"{successes / outcomes:.2f}" if outcomes else "-"
            yield project, kind, role, model, f"{outcomes:.1f}", share, f"{mean:.2f}", *verdict
            verdict = ("", "", "")


_COLUMNS: Final = (
    Column("project", whole=True),
    Column("kind"),
    Column("role"),
    Column("model"),
    *(Column(name, right=True) for name in ("outcomes", "success", "expected")),
    Column("good enough"),
    Column("chance of each tier"),
    Column("programs"),
)
