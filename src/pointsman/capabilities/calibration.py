"""From raw scores to the probability that a capability is needed.

One logistic per registry, one offset per capability:

``p = sigmoid(slope · own score + rival · best other score + intercept + offset)``. The rival's term
matters: a score of 0.4 is a near certainty when the next is 0.05, and a coin toss when it is 0.4 too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pointsman.capabilities._ngrams import HeldOut
from pointsman.errors import ConfigError

__all__ = [
    "Calibration",
    "Observation",
    "default_calibration",
    "fit",
    "observe",
    "observe_held_out",
    "observe_unserved",
]


@dataclass(frozen=True, slots=True)
class Observation:
    """One capability's score for one task, the best score of the others, and whether the task needs it."""

    capability: int | None  # position in the registry; None for the mean of several
    own: float
    other: float
    needed: bool
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Calibration:
    """Parameters of the logistic. ``index`` names the kind of index they were fitted for."""

    index: str
    slope: float
    rival: float
    intercept: float
    offsets: Mapping[str, float] = field(default_factory=dict)  # by capability name
    registry: str = ""  # version of the registry it was fitted on; "" for defaults

    def probabilities(self, scores: Sequence[float], names: Sequence[str]) -> list[float]:
        """One probability per capability, in the order of ``names``."""
        offset = self.offsets.get
        return [
            _sigmoid(self.slope * own + self.rival * other + self.intercept + offset(name, 0.0))
            for (own, other), name in zip(pairs(scores), names, strict=True)
        ]

    def to_json(self) -> dict[str, Any]:
        """The calibration as JSON values, as ``pointsman fit capabilities`` writes it."""
        return {
            "kind": "capabilities",
            "index": self.index,
            "registry": self.registry,
            "slope": self.slope,
            "rival": self.rival,
            "intercept": self.intercept,
            "offsets": dict(self.offsets),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Calibration:
        """Read ``to_json`` back.

        Raises:
            ConfigError: a field is missing or no number.
        """
        try:
            return cls(
                index=str(value["index"]),
                slope=float(value["slope"]),
                rival=float(value["rival"]),
                intercept=float(value["intercept"]),
                offsets={str(name): float(each) for name, each in value.get("offsets", {}).items()},
                registry=str(value.get("registry", "")),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(
                f"not a calibration of capabilities: {error!r}",
                hint="write one with: pointsman fit capabilities",
            ) from None


#: Where no examples can be held out: fitted on instructions alone of CLINC150, MetaTool and BANKING77
#: together (docs/notebook/0052). The first that matches the beginning of an index's name applies.
_DEFAULTS: Final = (
    ("kernel/all-MiniLM", (66.0, -25.0, -4.6)),
    ("kernel/", (55.0, -18.0, -4.7)),
    ("lexical/", (26.0, -9.4, -4.6)),
)


def default_calibration(index: str) -> Calibration:
    """The calibration of an index nothing is known about."""
    for beginning, parameters in _DEFAULTS:
        if index.startswith(beginning):
            return Calibration(index, *parameters)
    raise ConfigError(
        f'no calibration for the encoder "{index}"',
        hint="fit one: pointsman fit capabilities",
    )


def pairs(scores: Sequence[float]) -> list[tuple[float, float]]:
    """Each score with the best of the others (0 if there is no other)."""
    best = max(scores, default=0.0)
    first = next((at for at, score in enumerate(scores) if score == best), -1)
    second = max((score for at, score in enumerate(scores) if at != first), default=0.0)
    return [(score, second if at == first else best) for at, score in enumerate(scores)]


def observe(
    scores: Sequence[float], needs: Collection[int], *, without: int | None = None
) -> list[Observation]:
    """Training rows of one task with known needs, as though the registry did not hold ``without``.

    The needed capabilities and their strongest rivals one by one; the many others as a single observation at
    their mean, or fitting would take a registry's size times longer to learn the same.
    """
    known = [at for at in range(len(scores)) if at != without]
    seen = dict(zip(known, pairs([scores[at] for at in known]), strict=True))
    ranked = sorted(known, key=lambda at: (-scores[at], at))
    strongest = {*needs, *ranked[: _RIVALS + len(needs)]}
    observations = [Observation(at, *seen[at], at in needs) for at in sorted(strongest)]
    rest = [at for at in known if at not in strongest]
    if rest:
        mean = sum(scores[at] for at in rest) / len(rest)
        observations.append(Observation(None, mean, seen[rest[0]][1], needed=False, weight=len(rest)))
    return observations


def observe_held_out(held_out: Iterable[HeldOut]) -> list[Observation]:
    """What guides teach about themselves.

    A positive example is seen twice: with its capability, and as though the registry did not hold it, which
    makes it a task that nothing serves. Without the second view low scores would never be met, and a task
    from another world would be given a probability that means nothing.
    """
    observations: list[Observation] = []
    for each in held_out:
        if not each.positive:
            own, other = pairs(each.scores)[each.capability]
            observations.append(Observation(each.capability, own, other, needed=False))
            continue
        observations += observe(each.scores, (each.capability,))
        absent = observe(each.scores, (), without=each.capability)
        observations += [replace(seen, weight=seen.weight * _NOTHING_SERVES) for seen in absent]
    return observations


def observe_unserved(held_out: Sequence[HeldOut], tasks: Iterable[Sequence[float]]) -> list[Observation]:
    """What ordinary tasks teach a registry that has examples: that most tasks need nothing of it.

    A task that scores as high as half of the examples may well be one that the registry serves: it is left
    out. So are all without examples: nothing would speak for a capability then.
    """
    from statistics import median  # only to calibrate

    own = [each.scores[each.capability] for each in held_out if each.positive]
    if not own:
        return []
    served = max(median(own), 0.0)
    return [seen for scores in tasks if max(scores) <= served for seen in observe(scores, ())]


def fit(
    observations: Sequence[Observation], start: Calibration, *, names: Sequence[str], registry: str = ""
) -> Calibration:
    """Fit the logistic by damped Newton; ``start`` is the centre of a weak Gaussian prior.

    With no observations the result is ``start``; with a handful it stays near it.
    """
    prior = (start.slope, start.rival, start.intercept)
    rows = [((each.own, each.other, 1.0), each.needed, each.weight) for each in observations]
    theta = list(prior)
    for _ in range(_NEWTON_STEPS):
        before, theta = theta, _newton(theta, prior, rows)
        if max(abs(now - was) for now, was in zip(theta, before, strict=True)) < _CONVERGED:
            break
    slope, rival, intercept = theta
    fitted = Calibration(start.index, slope, rival, intercept, registry=registry)
    return replace(fitted, offsets=_offsets(observations, fitted, names))


_RIVALS: Final = 3  # the rest are so far below that they carry no information
#: How many tasks that nothing serves are expected for each that something does: one in ten.
_NOTHING_SERVES: Final = 0.1
_NEWTON_STEPS: Final = 25  # the loss is convex; eight are usually enough
_HALVINGS: Final = 10  # a thousandth of a step that does not help is no step
_CONVERGED: Final = 0.01  # a slope moves by less: no probability changes in its third digit
#: Precision of the prior on slope, rival and intercept: as much as some ten observations say.
_PRIOR: Final = (0.02, 0.02, 0.2)
#: Precision of the prior on one capability's offset: a hundred of its examples move it half of the way.
_OFFSET_PRIOR: Final = 20.0

_Rows = Sequence[tuple[tuple[float, float, float], bool, float]]


def _newton(theta: list[float], prior: Sequence[float], rows: _Rows) -> list[float]:
    """One Newton step, halved until it lowers the loss."""
    gradient = [-weight * (now - was) for weight, now, was in zip(_PRIOR, theta, prior, strict=True)]
    hessian = [[_PRIOR[i] if i == j else 0.0 for j in range(3)] for i in range(3)]
    for x, needed, weight in rows:
        p = _sigmoid(_dot(theta, x))
        for i in range(3):
            gradient[i] += weight * (needed - p) * x[i]
            for j in range(3):
                hessian[i][j] += weight * p * (1 - p) * x[i] * x[j]
    step = _solve(hessian, gradient)
    now = _loss(theta, prior, rows)
    for _ in range(_HALVINGS):
        moved = [old + change for old, change in zip(theta, step, strict=True)]
        if _loss(moved, prior, rows) <= now:
            return moved
        step = [change / 2 for change in step]
    return theta


def _loss(theta: Sequence[float], prior: Sequence[float], rows: _Rows) -> float:
    penalty = sum(weight * (at - was) ** 2 / 2 for weight, at, was in zip(_PRIOR, theta, prior, strict=True))
    return penalty + sum(
        weight * _softplus(-_dot(theta, x) if needed else _dot(theta, x)) for x, needed, weight in rows
    )


def _dot(theta: Sequence[float], x: tuple[float, float, float]) -> float:
    return theta[0] * x[0] + theta[1] * x[1] + theta[2]


def _softplus(value: float) -> float:
    return max(value, 0.0) + math.log1p(math.exp(-abs(value)))


def _solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Gaussian elimination; the prior on the diagonal makes the matrix positive definite."""
    size = len(right)
    rows = [[*line, value] for line, value in zip(matrix, right, strict=True)]
    for at in range(size):
        for below in range(at + 1, size):
            factor = rows[below][at] / rows[at][at]
            rows[below] = [low - factor * high for low, high in zip(rows[below], rows[at], strict=True)]
    solution = [0.0] * size
    for at in reversed(range(size)):
        known = sum(rows[at][k] * solution[k] for k in range(at + 1, size))
        solution[at] = (rows[at][size] - known) / rows[at][at]
    return solution


def _offsets(
    observations: Sequence[Observation], fitted: Calibration, names: Sequence[str]
) -> dict[str, float]:
    """One Newton step per capability from offset 0, against its prior."""
    gradient = [0.0] * len(names)
    curvature = [_OFFSET_PRIOR] * len(names)
    theta = (fitted.slope, fitted.rival, fitted.intercept)
    for each in observations:
        if each.capability is None:
            continue
        p = _sigmoid(_dot(theta, (each.own, each.other, 1.0)))
        gradient[each.capability] += each.weight * (each.needed - p)
        curvature[each.capability] += each.weight * p * (1 - p)
    return {
        name: round(slope / bend, 4)
        for name, slope, bend in zip(names, gradient, curvature, strict=True)
        if slope
    }


def _sigmoid(value: float) -> float:
    return 0.5 * (1.0 + math.tanh(0.5 * value))  # no value overflows


# Ordinary tasks of people with an agent, hand-written: code, knowledge, text, small talk.
#
# A registry's own examples are all tasks that something in it serves. Most tasks of an agent are not, and a
# small registry cannot know them from its examples: without these, three capabilities with five examples each
# select something for twenty of twenty tasks that need none (benchmarks/capabilities_kept.py).


#: Part of the version of a scorer: other tasks here give other probabilities.
VERSION: Final = "ordinary/1"

#: Calibration takes these for tasks that nothing serves, but for those that score like an example.
CALIBRATING: Final = (
    "Rewrite this function so that it needs no recursion",
    "the last commit broke the build, please repair it",
    "What does the keyword yield do in Python?",
    "add a command line option for the output folder",
    "Who painted the Mona Lisa?",
    "why is this query so slow?",
    "Give me five ideas for a birthday present",
    "move the helper functions into a module of their own",
    "What is the largest planet?",
    "write a poem about the sea",
    "the form does not save my changes",
    "how do I make a pull request?",
    "explain the theory of relativity to a child",
    "Add a test for the case that the list is empty",
    "What happened in Berlin in 1989?",
    "clean up this code",
    "how can I learn to play chess?",
    "replace the deprecated call in the settings",
    "there is a typo in the title of the page",
    "summarise this article for me",
    "What does this error message mean?",
    "yes, please do that",
    "and now the same for the other class",
    "Is Pluto a planet?",
    "create a small web server with one route",
    "Which language is spoken in Brazil?",
    "write a letter of application for a job as a gardener",
    "the program crashes when the file is missing",
    "How old was Mozart when he died?",
    "sort the entries by date and remove duplicates",
    "describe the architecture of this project",
    "what is a good name for a cat?",
    "update the dependencies to their newest versions",
    "Why do leaves turn red in autumn?",
    "compare the two proposals and say which is better",
    "write a regular expression for a postal code",
    "the button is too small on a telephone",
    "make a table of the advantages and disadvantages",
    "Could you check whether this is correct?",
    "How does photosynthesis work?",
    "document the public functions of this package",
    "tell me a joke",
    "find the bug in the loop below",
    "continue where you stopped",
    "what did we decide about the naming?",
    "give the variables better names",
    "When was the printing press invented?",
    "generate some sample data for the demo",
    "translate this paragraph into German",
    "Which of the two solutions do you prefer?",
    "undo the change in the configuration",
    "how many people live in Japan?",
    "implement the interface for the new storage",
    "the memory grows with every request",
    "is this sentence grammatically correct?",
    "prepare the repository for the release",
    "What is the meaning of the word serendipity?",
    "use a set in place of the list",
    "hello",
    "no, that is not what I meant",
    "design a database for a library",
    "show me an example",
)

#: Nothing is fitted on these: ``pointsman capabilities check`` counts what they select.
CHECKING: Final = (
    "why does this loop never end?",
    "Add a comment to each of these functions",
    "What is the boiling point of helium?",
    "the tests pass here and fail on the server",
    "shorten the introduction to half a page",
    "Write a thank-you note to my teacher",
    "convert this script to Python 3",
    "who was the first woman in space?",
    "make the error messages easier to understand",
    "explain what a closure is",
    "the second column is cut off, please repair the layout",
    "Prove that there are infinitely many primes",
    "remove everything that is not used any more",
    'is there a better word for "nice"?',
    "what changed between the two versions?",
    "How do vaccines work?",
    "write the documentation of the new option",
    "ok, go ahead",
    "find out which commit introduced the problem",
    "what is the plural of octopus?",
    "use the new interface in all callers",
    "Give me a recipe for pancakes",
    "the application starts twice as slowly as last week",
    "Describe the plot of Hamlet in four sentences",
    "add a check that the number is positive",
    "what are the rules of cricket?",
    "put the constants into one place",
    "Why was the wall of China built?",
    "the log is full of warnings, what do they mean?",
    "propose a structure for my thesis",
    "merge the two classes into one",
    "How many bones does a person have?",
    "can this be done without a second query?",
    "write a slogan for a bicycle shop",
    "read the output above and tell me what went wrong",
    "what is your opinion?",
    "the icon has the wrong colour",
    "Invent a riddle about time",
    "make the class immutable",
    "that did not help, try something else",
)
