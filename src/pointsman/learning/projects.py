"""Learns which tier is good enough for a project from the project's outcomes.

Of every project, kind of prompt, role and model the success is a Beta posterior. Its prior is that of the
level above with ``PRIOR`` pseudo-outcomes: a cell with few outcomes has the project's estimate, a project
with few has the model's over all projects of its caller, and a model without any ``START``. Outcomes count
less the older they are, and those of one session as far as they differ. A tier is named only where its own
outcomes alone, from a uniform prior, reach the target with the certainty as well: what is borrowed may
speak against a tier, and is no reason to save.
Source of the shrinkage by pseudo-counts: Gelman et al., "Bayesian Data Analysis", third edition, section 5.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter, mul
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from scipy.special import betainc
from scipy.stats import beta

from pointsman.errors import PointsmanError
from pointsman.jsonl import decoded, numbered_lines
from pointsman.learning.metrics import Floats, independent_count
from pointsman.tiers.projects import ANY, PRIOR, SEPARATOR, Cell, Projects, cell_name, named_cell
from pointsman.vocabulary import DAY
from pointsman.wire.project import named_project

__all__ = ["HALF_LIFE", "PRIOR", "START", "Beta", "ProjectOutcome", "chance_above", "chance_kept",
           "fit_projects", "posteriors", "read_project_outcomes"]  # fmt: skip

#: Mean success of a model of which nothing is known.
START: Final = 0.5
#: Days after which an outcome counts half.
HALF_LIFE: Final = 90.0
#: Points at which an integral over a success from 0 to 1 is taken: its error is below 1/1000.
_POINTS: Final = 1_001


class ProjectOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How well a model did on one user message of a project. Also a line of a file of such outcomes."""

    id: str
    project: str
    model: str  # configured name
    score: float  # 0 to 1
    at: float = 0.0  # seconds since the epoch
    kind: str = ANY
    role: str = ANY
    caller: str = ""  # name of the key it came with; empty: none was asked for
    by_chance: bool = False  # whether chance decided that this model answers: exploration, shadow
    session: str = ""  # its outcomes are alike; empty: this one stands for itself


class Beta(msgspec.Struct, frozen=True):
    """A posterior of a success."""

    a: float
    b: float
    successes: float  # own, decayed
    outcomes: float

    @property
    def mean(self) -> float:
        """The success that is expected."""
        return self.a / (self.a + self.b)

    @property
    def alone(self) -> Beta:
        """By its own outcomes alone, from a uniform prior."""
        failures = self.outcomes - self.successes
        return Beta(1 + self.successes, 1 + failures, self.successes, self.outcomes)


def read_project_outcomes(file: Path) -> list[ProjectOutcome]:
    """Read outcomes from JSON lines; their projects are named as the library's are: ``named_project``.

    Raises:
        PointsmanError: the file cannot be read, a line is wrong, or two lines contradict each other.
    """
    decode = msgspec.json.Decoder(ProjectOutcome).decode
    found: dict[tuple[str, str], tuple[ProjectOutcome, str]] = {}
    for place, line in decoded(numbered_lines(file), decode, file):
        row = msgspec.structs.replace(line, project=named_project(line.project))
        if not 0 <= row.score <= 1:
            raise PointsmanError(f'{place}: "score" must be from 0 to 1, not {row.score:g}')
        if SEPARATOR in row.kind + row.role:
            raise PointsmanError(f'{place}: "kind" and "role" may not hold "{SEPARATOR}"')
        key = (row.id, row.model)
        known = found.get(key)
        if known is not None and known[0].score != row.score:
            raise PointsmanError(
                f'{place}: "{row.id}" has score {row.score:g} for "{row.model}", and {known[0].score:g} '
                f"at {known[1]}",
                hint="give each outcome a unique id, or delete one of the two lines",
            )
        found[key] = (row, place)
    return [row for row, _ in found.values()]


def posteriors(
    outcomes: Sequence[ProjectOutcome], *, half_life: float = HALF_LIFE
) -> dict[str, dict[str, Beta]]:
    """Return the posterior of every model in every cell, by ``cell_name`` and model.

    The levels are: the model everywhere (``*|*|*``, of a caller with a key ``*|*|*|CALLER``), in the
    project, in a kind or a role of it, in both. Outcomes of one caller change no estimate of another's.

    Args:
        outcomes: In any order.
        half_life: Age in days at which an outcome counts half, seen from the latest one.
    """
    latest = max((each.at for each in outcomes), default=0.0)
    said: dict[tuple[str, str], list[tuple[float, float, str]]] = {}  # weight, score, session
    widest: dict[str, str] = {}  # by project
    for number, each in enumerate(outcomes):
        above = widest.setdefault(each.project, cell_name(ANY) + (f"|{each.caller}" if each.caller else ""))
        weight = 0.5 ** (max(latest - each.at, 0.0) / DAY / half_life)
        for name in dict.fromkeys((above, *_cells(each))):
            own = said.setdefault((name, each.model), [])
            own.append((weight, each.score, each.session or f"#{number}"))
    sums = {key: _sums(own) for key, own in said.items()}
    found: dict[str, dict[str, Beta]] = {}
    models = sorted({model for _, model in sums})
    for name in sorted({name for name, _ in sums}, key=lambda name: (-name.count(ANY), name)):
        found[name] = {model: _shrunk(name, model, sums, found, widest) for model in models}
    return found


def _sums(outcomes: Sequence[tuple[float, float, str]]) -> tuple[float, float]:
    """Successes and outcomes: so many as tell the mean as well as these, of which one session's are alike."""
    weights, scores, sessions = zip(*outcomes, strict=True)
    successes, count = sum(map(mul, weights, scores)), sum(weights)
    if len(set(sessions)) == len(sessions):
        return successes, count
    worth = independent_count(np.array(scores), np.unique(sessions, return_inverse=True)[1]) / len(scores)
    return worth * successes, worth * count


def _cells(each: ProjectOutcome) -> tuple[str, ...]:
    """The cells of its project that an outcome belongs to, the widest first; one may be named twice."""
    return (
        cell_name(each.project),
        cell_name(each.project, each.kind),
        cell_name(each.project, ANY, each.role),
        cell_name(each.project, each.kind, each.role),
    )


def _shrunk(
    name: str,
    model: str,
    sums: Mapping[tuple[str, str], Sequence[float]],
    found: Mapping[str, Mapping[str, Beta]],
    widest: Mapping[str, str],
) -> Beta:
    successes, count = sums.get((name, model), (0.0, 0.0))
    above = None if name.startswith(ANY) else _above(name, widest)
    mean = START if above is None else found[above][model].mean
    return Beta(successes + PRIOR * mean, count - successes + PRIOR * (1 - mean), successes, count)


def _above(name: str, widest: Mapping[str, str]) -> str:
    """The level above a cell of a project. A role is more informative than a kind."""
    project, kind, role = named_cell(name)
    if kind != ANY and role != ANY:
        return cell_name(project, ANY, role)
    if kind != ANY or role != ANY:
        return cell_name(project)
    return widest[project]


def chance_above(posterior: Beta, target: float) -> float:
    """The probability that a success exceeds a target."""
    return float(1.0 - betainc(posterior.a, posterior.b, min(max(target, 0.0), 1.0)))


def chance_kept(posterior: Beta, best: Beta, share: float) -> float:
    """The probability that a success exceeds a share of another's; the two are independent."""
    at: Floats = np.linspace(0.0, 1.0, _POINTS)
    middle = (at[1:] + at[:-1]) / 2
    weights = np.diff(beta.cdf(at, best.a, best.b))
    above = 1.0 - betainc(posterior.a, posterior.b, np.clip(share * middle, 0.0, 1.0))
    return float(np.sum(weights * above))


def fit_projects(
    outcomes: Sequence[ProjectOutcome],
    tiers: Mapping[str, Sequence[str]],
    *,
    target: float,
    keep: bool = False,
    certainty: float = 0.9,
    half_life: float = HALF_LIFE,
) -> Projects:
    """Choose for each cell the cheapest tier all of whose models are good enough with enough certainty.

    A tier is evaluated by outcomes of its models in the project. These alone must reach the target, and with
    those of others as a prior too: what others did is no reason to save.

    Args:
        outcomes: In any order.
        tiers: Models of each tier by its name in lower case, the cheapest first.
        target: The success that is good enough, or with ``keep``, the share of that of the last tier.
        keep: See ``target``.
        certainty: The probability with which it must be.
        half_life: Days after which an outcome counts half.

    Raises:
        PointsmanError: there is nothing to learn from, or no tier has a model.
    """
    if not outcomes:
        raise PointsmanError(
            "no outcome belongs to a project",
            hint="pointsman outcomes import adds outcomes; a decision has a project where its agent names "
            "its working directory",
        )
    if not tiers:
        raise PointsmanError("no tier has a model", hint="[tiers] names a model for each tier")
    found = posteriors(outcomes, half_life=half_life)
    cells = {
        name: _cell(models, tiers, target=target, keep=keep, certainty=certainty)
        for name, models in found.items()
        if named_cell(name).project != ANY
    }
    return Projects(
        target=target, keep=keep, certainty=certainty, made_at=max(each.at for each in outcomes), cells=cells
    )


def _cell(
    models: Mapping[str, Beta],
    tiers: Mapping[str, Sequence[str]],
    *,
    target: float,
    keep: bool,
    certainty: float,
) -> Cell:
    order = list(tiers)
    known = [each for name in tiers[order[-1]] if (each := models.get(name)) and each.outcomes]
    best = max(known, key=attrgetter("mean"), default=None)

    def chance(each: Beta, best: Beta | None) -> float:
        return chance_kept(each, best, target) if keep and best else chance_above(each, target)

    chances, good = {}, ""
    for tier in order[:-1] if keep else order:
        own = [models.get(name) for name in tiers[tier]]
        given = [each for each in own if each is not None and each.outcomes]
        if len(given) < len(own) or (keep and best is None):
            continue
        chances[tier] = round(min(chance(each, best) for each in given), 4)
        if not good and chances[tier] >= certainty:
            rivals = (best, best and best.alone)  # few outcomes of the last tier's do not make it worse
            alone = min(chance(each.alone, rival) for each in given for rival in rivals)
            good = tier if alone >= certainty else ""
    shown = {
        name: (round(each.successes, 3), round(each.outcomes, 3), round(each.mean, 4))
        for name, each in models.items()
        if each.outcomes
    }
    return Cell(round(sum(each.outcomes for each in models.values())), shown, chances, good)
