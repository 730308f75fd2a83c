"""How well rankings do on sources and tasks that they were not made from.

    .venv/bin/python benchmarks/left_out.py [--json FILE]

Reads ../shared/data/tiers (or $POINTSMAN_SHARED/data/tiers); needs the extras ``static`` and ``fit``. Prints
the APGR of random, length, both rule profiles, kinds beside length and beside ``default``: with each source
left out of the kinds, and with each task left out (the same task of another source too). Copies of what is
left out are left out as well, whichever source has them. ``nine_models`` and ``agent_tasks`` are means over
the pairs of models whose stronger one gains at least .05.

Heads are learned routers of ``fit tiers --features kinds`` with so many labels. Where a source is left out of
the kinds, the labels are of the task itself, and the other prompts are ranked; where a task is left out, they
are of the other tasks of its source. Their columns are the difference to length on the same prompts, over at
most six of the pairs of models, or four draws of the labels where there is one pair; "-" where there are too
few prompts, or no other task of these models. The last lines are differences to length, with intervals over
tasks drawn whole, and the worst task. Rows in brackets are parts or mixtures, and count in no mean.
"""

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path

import numpy as np
from bootstrap import bootstrap
from heads import Found, at_home, elsewhere
from outcome_tasks import ODD, Pair, Remembering, Task, kinds_without, task, tasks
from scipy.stats import norm
from tiers_quality import Row, rows

from pointsman.learning.metrics import Interval, gap_curve
from pointsman.learning.rankers import by_kinds, by_length, by_rules
from pointsman.tiers.kinds import Kinds

#: Tasks of several sources that are one task.
SAME = {"gsm8k": "gsm", "math-l5": "math"}


def same_task(name: str, other: str) -> bool:
    """Whether two names are of one task, in whatever source."""
    return SAME.get(name, name) == SAME.get(other, other)


#: MMLU without its two odd subjects.
PART = "(mmlu without two subjects)"

#: What heads may lose of length's APGR.
LOSS = -0.01

Values = dict[str, float]  # ranking -> APGR, or head -> its difference to length


def measured(one: Task, kinds: Kinds) -> Values:
    """Mean APGR over the pairs of a task, by ranking."""
    default = by_rules(one.prompts, "default")
    rankings = {
        "random": np.zeros(len(one.prompts)),
        "length": by_length(one.prompts),
        "seed": by_rules(one.prompts, "seed"),
        "default": default,
        **by_kinds(one.prompts, kinds, default),
    }
    found: dict[str, list[float]] = {name: [] for name in rankings}
    for _, places, weak, strong in one.pairs:
        for name, scores in rankings.items():
            found[name].append(float(gap_curve(scores[places], weak, strong).apgr))
    return {name: statistics.fmean(values) for name, values in found.items()}


def without_odd(mmlu: Task) -> Task:
    """The task MMLU of ``strong_weak`` without its two odd subjects."""
    odd = [row.get("domain") in ODD for row in rows("strong_weak") if row["bench"] == "mmlu"]
    kept = [at for at in range(len(odd)) if not odd[at]]
    ((models, _, weak, strong),) = mmlu.pairs
    return Task(
        mmlu.source,
        PART,
        [mmlu.texts[at] for at in kept],
        [mmlu.prompts[at] for at in kept],
        [],
        [Pair(models, list(range(len(kept))), weak[kept], strong[kept])],
        [mmlu.outcomes[at] for at in kept],
    )


def parts_of(one: Task, *, unseen: bool) -> list[Task]:
    """A task, and what is printed beside it and counts in no mean: its name stands in brackets."""
    if (one.source, one.name) == ("strong_weak", "mmlu"):
        both = rows("strong_weak")
        mixed = task(
            "strong_weak", "(mmlu and gsm8k)", both, [outcomes_of_two(row) for row in both], learn=False
        )
        return [one, without_odd(one), *([] if unseen else [mixed])]
    if (one.source, one.name) == ("nine_models", "openbook_qa") and not unseen:
        every = rows("nine_models")
        return [
            one,
            task("nine_models", "(all of nine_models)", every, [r["scores"] for r in every], learn=False),
        ]
    return [one]


def outcomes_of_two(row: Row) -> dict[str, float]:
    return {"weak": row["weak"], "strong": row["strong"]}


def heads(found: Found) -> Values:
    return {
        f"head {count}": statistics.fmean(each.value for each in values) if values else float("nan")
        for count, values in found.items()
    }


def table(
    title: str,
    every: list[Task],
    left_out: Callable[[Task, Task], bool],
    encoder: Remembering,
    *,
    unseen: bool,
) -> dict[str, Values]:
    found: dict[str, Values] = {}
    cases: list[Interval] = []
    for one in every:
        if not one.pairs:
            continue
        kinds = kinds_without(every, lambda other, one=one: left_out(one, other), encoder)  # type: ignore[misc]
        parts = parts_of(one, unseen=unseen)
        siblings = [each for each in every if each.source == one.source and each.name != one.name]
        for part in parts:
            label = part.name if part.name.startswith("(") else f"{one.source} {one.name}"
            learned = elsewhere(part, siblings, kinds, encoder) if unseen else at_home(part, kinds, encoder)
            found[label] = measured(part, kinds) | heads(learned)
            if part is one:
                cases += [each for values in learned.values() for each in values]
    show(title, found)
    print(harm(cases))
    return found


def harm(cases: list[Interval]) -> str:
    """In how many cases a head is shown to rank below length by more than ``LOSS``.

    Among many cases some are below by chance. Holm's correction (1979) keeps the chance that any is counted
    wrongly at .025.
    """
    chances = sorted(
        norm.cdf((each.value - LOSS) / max((each.high - each.low) / 3.92, 1e-9)) for each in cases
    )
    single = sum(each.high < LOSS for each in cases)
    holm = next((n for n, p in enumerate(chances) if p > 0.025 / (len(chances) - n)), len(chances))
    return f"heads below length {LOSS:+.2f}: shown in {single} of {len(cases)} cases, {holm} after Holm"


def show(title: str, found: dict[str, Values]) -> None:
    print(f"\n{title}\n")
    names = list(next(iter(found.values())))
    print(f"{'':34}" + "".join(f"{name:>17}" for name in names))
    whole = [values for label, values in found.items() if not label.startswith("(")]
    lines = dict(found)
    for label, figure in (("mean of tasks", statistics.fmean), ("worst", min)):
        lines[label] = {name: figure(known(whole, name)) for name in names}
    for label, values in lines.items():
        print(f"{label:34}" + "".join(cell(name, values[name]) for name in names))
    for name in names:
        if name not in {"random", "length"}:
            print(differences(name, whole))


def cell(name: str, value: float) -> str:
    if np.isnan(value):
        return f"{'-':>17}"
    return f"{value:+17.3f}" if name.startswith("head") else f"{value:17.3f}"


def known(whole: list[Values], name: str) -> list[float]:
    return [values[name] for values in whole if not np.isnan(values[name])]


def differences(name: str, whole: list[Values]) -> str:
    head = name.startswith("head")
    each = known(whole, name) if head else [values[name] - values["length"] for values in whole]
    gains = np.array(each)
    drawn = bootstrap(lambda at: float(gains[at].mean()), len(gains))
    return (
        f"{name} - length, {len(gains)} tasks: {drawn.value:+.3f} [{drawn.low:+.3f}, {drawn.high:+.3f}], "
        f"worst {gains.min():+.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    every, encoder = tasks(), Remembering()
    out = {
        "source": table(
            "Each source left out; heads of labels of the task itself",
            every,
            lambda one, other: one.source == other.source,
            encoder,
            unseen=False,
        ),
        "task": table(
            "Each task left out; heads of labels of the other tasks of its source",
            every,
            lambda one, other: same_task(one.name, other.name),
            encoder,
            unseen=True,
        ),
    }
    if asked.json:
        asked.json.write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
