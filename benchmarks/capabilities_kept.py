"""Which capabilities are selected, and which tools are passed on, of three, fifteen and a hundred and fifty.

    .venv/bin/python benchmarks/capabilities_kept.py [ENCODER ...]

Encoders: none, static, sentence; by default none. Three and fifteen: hand-written sets
(``selection/small.py``). A hundred and fifty: the intents of CLINC150 with ten examples each, and the first
150 tools of MetaTool by name with their descriptions alone, from ../shared/data (or $POINTSMAN_SHARED/data).
Every task is decided as the gateway decides it. "Chance" selects, or passes on, as many at random for each
task. On sets marked *chosen on* the settings were chosen. On those marked *looked at* they were not, but the
rule that each joined request needs a tool of its own was made after a look at them. All others are only
reported: the held-aside third of the public queries, and small sets. The default threshold was chosen on
other queries of CLINC150 and MetaTool.
"""

import sys
from collections.abc import Sequence
from math import comb
from typing import Any

from selection.data import clinc150, held_aside, metatool, two_tools
from selection.small import (
    FIFTEEN_CHOSEN,
    FIFTEEN_REPORTED,
    FIFTEEN_THIRD,
    THREE_CHOSEN,
    THREE_REPORTED,
    SmallSet,
)

from pointsman import Pointsman
from pointsman.capabilities import Capability, CapabilityPolicy, CapabilityRegistry, TaskClassifierGuide
from pointsman.capabilities import ClassifierExample as Example
from pointsman.decision.policy import Policy
from pointsman.tiers import builtin_profile

#: Tasks of a public set, and all out-of-scope ones.
TASKS = 300
#: ``[capabilities] tools`` by the number of tools offered.
AT_MOST = {15: 5, 150: 16}

Task = tuple[str, frozenset[str]]
Found = list[tuple[frozenset[str], frozenset[str]]]  # what each task needs, and what it got


def sample(tasks: Sequence[Task]) -> list[Task]:
    """Every so-manieth of the held-aside third."""
    aside = [task for task in tasks if held_aside(task[0])]
    return aside[:: max(1, -(-len(aside) // TASKS))]


def pointsman(encoder: Any, registry: CapabilityRegistry, tools: int | None = None) -> Pointsman:
    policy = CapabilityPolicy(registry=registry, encoder=encoder)
    return Pointsman(Policy(profile=builtin_profile("default"), capabilities=policy, tools=tools))


def registry_of(small: SmallSet) -> CapabilityRegistry:
    return CapabilityRegistry(
        Capability(
            name, TaskClassifierGuide(text, [Example(each, result=True) for each in small.examples[name]])
        )
        for name, text in small.descriptions.items()
    )


def selected(points: Pointsman, tasks: Sequence[Task]) -> Found:
    found: Found = []
    for text, needed in tasks:
        decided = points.select(text)
        assert decided is not None
        found.append((needed, frozenset(decided.selected)))
    return found


def passed_on(points: Pointsman, tools: dict[str, str], tasks: Sequence[Task]) -> Found:
    offered = [
        {"type": "function", "function": {"name": name, "description": text}} for name, text in tools.items()
    ]
    found: Found = []
    for text, needed in tasks:
        body = {"model": "auto", "messages": [{"role": "user", "content": text}], "tools": offered}
        decided = points.decide(body, dry_run=True).capabilities
        assert decided is not None
        kept = decided.tools.kept if decided.tools else tuple(tools)
        found.append((needed, frozenset(kept)))
    return found


def print_selected(title: str, count: int, found: Found) -> None:
    with_need = [(needed, got) for needed, got in found if needed]
    all_needed = sum(len(needed) for needed, _ in with_need)
    hits = sum(len(needed & got) for needed, got in with_need)
    chance = sum(len(needed) * len(got) / count for needed, got in with_need)
    unneeded = sum(len(got - needed) for needed, got in with_need)
    print(f"{title}\n    needed selected {hits} of {all_needed}, chance {chance:.1f}; unneeded {unneeded}")
    none = [got for needed, got in found if not needed]
    if none:
        print(f"    of {len(none)} tasks that need none, {sum(map(bool, none))} select something")


def print_passed_on(title: str, count: int, found: Found) -> None:
    cut = [(needed, got) for needed, got in found if len(got) < count]
    chance = sum(comb(count - len(needed), len(got) - len(needed)) / comb(count, len(got))
                 if len(got) >= len(needed) else 0.0 for needed, got in cut)  # fmt: skip
    hits = sum(needed <= got for needed, got in cut)
    mean = sum(len(got) for _, got in cut) / len(cut) if cut else 0.0
    whole = len(found) - len(cut)
    print(f"{title}, at most {AT_MOST[count]}\n    all needed kept in {hits + whole} of {len(found)} tasks:")
    print(f"    cut in {len(cut)}, to {mean:.1f} tools, with all needed in {hits}, chance {chance:.1f};")
    print(f"    all passed on in {whole}")


def main(encoder: str) -> None:
    print(f"\n## Encoder {encoder}\n\nSelected\n")
    for small, note in ((THREE_CHOSEN, " (chosen on)"), (THREE_REPORTED, "")):
        tasks = [(text, frozenset(needed)) for text, needed in small.tasks]
        print_selected(f"{small.name}{note}", 3, selected(pointsman(encoder, registry_of(small)), tasks))
    data = clinc150()
    tasks = sample(data.queries) + [(text, frozenset[str]()) for text in data.far]
    print_selected("150, CLINC150", 150, selected(pointsman(encoder, data.registry(10)), tasks))
    print("\nTools passed on\n")
    for small, note in (
        (FIFTEEN_CHOSEN, " (chosen on)"),
        (FIFTEEN_REPORTED, " (looked at)"),
        (FIFTEEN_THIRD, ""),
    ):
        tasks = [(text, frozenset(needed)) for text, needed in small.tasks]
        points = pointsman(encoder, CapabilityRegistry(()), AT_MOST[15])
        print_passed_on(f"{small.name}{note}", 15, passed_on(points, small.descriptions, tasks))
    tools = dict(sorted(metatool().instructions.items())[:150])
    for title, queries in (("one tool", sample(metatool().queries)), ("two tools (looked at)", two_tools())):
        points = pointsman(encoder, CapabilityRegistry(()), AT_MOST[150])
        wanted = [task for task in queries if task[1] <= set(tools)]
        print_passed_on(f"150, MetaTool, {title}", 150, passed_on(points, tools, wanted))


if __name__ == "__main__":
    for each in sys.argv[1:] or ("none",):
        main(each)
