"""What own outcomes say of each project, and of the tier that is good enough for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Final

import msgspec

from pointsman.model_choice.chains import chances_of
from pointsman.printable import Block, Column, TextTable
from pointsman.remembering import grouped
from pointsman.reports.outcomes import scores_of
from pointsman.reports.usage import answered, session_of
from pointsman.stores.ledger import Record
from pointsman.tiers.projects import ANY, PRIOR, Cell, Projects, name_of, named_cell

if TYPE_CHECKING:
    from pointsman.learning.projects import ProjectOutcome

__all__ = ["CONDITION", "ProjectReport", "outcomes_of", "seen_in", "uses"]

#: What the certainty of a tier rests on: rules that choose by length give the cheaper model easier messages.
CONDITION: Final = (
    "the probabilities hold if chance decided which message each model got (exploration, shadow); where "
    "rules decided, the cheaper model was measured on easier messages, and its tier may be named wrongly"
)
_BORROWED: Final = (
    f"they count {PRIOR:g} outcomes borrowed for each model (of other projects, or of the whole project); a "
    "tier is good enough only where its own outcomes alone reach the target with that probability too; old "
    "outcomes count less, and those of one session as far as they differ"
)
#: The role of requests that go on with a user message: outcomes are about the message.
_ITERATION: Final = "tool_iteration"
_MESSAGE: Final = "message"
_EXPLORED: Final = "projects.explore"
#: Codes of the reasons of decisions in which a project had a say.
_CODES: Final = ("projects.tier", _EXPLORED, "projects.observe")


def outcomes_of(records: Iterable[Record]) -> Iterator[ProjectOutcome]:
    """Yield the mean outcome of each user message and model of records, which come oldest first."""
    from pointsman.learning.projects import ProjectOutcome  # needs the extra ``fit``

    first: dict[tuple[str, ...], ProjectOutcome] = {}
    said: dict[tuple[str, ...], list[float]] = {}
    chosen: set[tuple[str, ...]] = set()  # those whose model a rule or a policy chose
    for record in records:
        asked = record.decision.input
        if not asked.project:
            continue
        role = name_of(asked.role, asked.purpose) or ANY
        role = _MESSAGE if role == _ITERATION else role
        turn = f"{asked.session}#{asked.user_message}" if asked.user_message else record.decision.id
        for model, score in scores_of(record, judged=False):
            key = (asked.project, role, model, turn)
            said.setdefault(key, []).append(score)
            first.setdefault(
                key,
                ProjectOutcome(
                    id=record.decision.id,
                    project=asked.project,
                    model=model,
                    score=score,
                    at=asked.arrived_at,
                    role=role,
                    caller=asked.caller,
                    session=session_of(record.decision),
                ),
            )
            if not _by_chance(record, model):
                chosen.add(key)
    for turn_of, each in first.items():
        yield msgspec.structs.replace(each, score=fmean(said[turn_of]), by_chance=turn_of not in chosen)


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


def seen_in(records: Iterable[Record]) -> dict[str, tuple[str, str]]:
    """The name of each project, and the programs seen in it, by its key."""
    asked = (record.decision.input for record in records)
    found = grouped((each.project, each) for each in asked if each.project)
    return {
        project: (
            next((each.project_name for each in seen if each.project_name), ""),
            " ".join(sorted({each.client for each in seen} - {""})),
        )
        for project, seen in found.items()
    }


@dataclass(frozen=True, slots=True)
class ProjectReport:
    """The cells of projects, and the use of projects in a record."""

    found: Projects
    seen: Mapping[str, tuple[str, str]]  # as ``seen_in`` gives it
    counts: Mapping[str, int]  # as ``uses`` gives them
    most: int | None = None  # projects that are shown, those with the most outcomes, without their kinds

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return {"projects": self.found, "requests": self.counts}

    def blocks(self) -> Iterator[Block]:
        """The report for a person: a row for each cell and model."""
        goal = (
            f"{self.found.target:g} of the last tier's success"
            if self.found.keep
            else (f"success {self.found.target:g}")
        )
        yield f"good enough: {goal}, with probability {self.found.certainty:g}"
        yield f"{CONDITION}; {_BORROWED}"
        yield TextTable(_COLUMNS, list(self._rows()))
        used = ", ".join(
            f"{code.partition('.')[2]} {self.counts[code]:,}" for code in _CODES if self.counts.get(code)
        )
        requests = f"{self.counts['requests']:,} requests of projects"
        yield f"{requests}; decided by project: {used}" if used else requests

    def _cells(self) -> Iterable[tuple[str, Cell]]:
        if self.most is None:
            return self.found.cells.items()
        whole = [
            (name, cell) for name, cell in self.found.cells.items() if named_cell(name)[1:] == (ANY, ANY)
        ]
        return sorted(whole, key=lambda each: -each[1].outcomes)[: self.most]

    def _rows(self) -> Iterator[tuple[object, ...]]:
        """The models of each cell; figures of the cell as a whole are in the row of the first."""
        for name, cell in self._cells():
            project, kind, role = named_cell(name)
            chances = ", ".join(f"{tier} {chance:.2f}" for tier, chance in cell.chance.items())
            title, programs = self.seen.get(project, ("", ""))
            whole = (programs, project) if kind == role == ANY else ("", "")
            verdict = (cell.tier or "none known", chances or "nothing known", *whole)
            for model, (successes, outcomes, mean) in cell.models.items():
                share = successes / outcomes if outcomes else None
                tier, *rest = verdict
                yield title or project, kind, role, tier, model, outcomes, share, mean, *rest
                verdict = ("", "", "", "")


_COLUMNS: Final = (
    Column("project", whole=True),
    Column("kind"),
    Column("role"),
    Column("good enough"),
    Column("model"),
    Column("outcomes", right=True, show="{:.1f}".format),
    *(Column(name, right=True, show="{:.2f}".format) for name in ("success", "expected")),
    Column("chance of each tier"),
    Column("programs"),
    Column("key", whole=True),
)
