"""The gate at "done" over recorded runs: how many failed and successful runs it would tell, by evidence.

    python benchmarks/done_gate.py ../shared/data/trajectories/step_features.jsonl.gz

Such runs hold hashes: which tool was called and whether it failed, and no command. So a shell command counts
as a program, a test run among them, and two kinds of evidence survive: the last one after the edits failed
(``command_failed``), and nothing was run after the last edit (``not_run``). ``last_call`` is the plainer rule
"the last call failed". Per source, with the 95 % interval of Wilson; never pooled, because the rate belongs
to the source.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter
from pathlib import Path

from pointsman.learning.intervals import wilson
from pointsman.trajectory.agent_tools import EDITING, SHELLS
from pointsman.trajectory.checks import Checks, Failing
from pointsman.trajectory.step import Action

#: Tools that end a run of SWE-agent: what they return is no evidence.
_ENDS = frozenset({"submit"})


def evidence(steps: list[dict[str, object]]) -> list[str]:
    """What the gate would find at the end of a run of hashes."""
    checks, last = Checks(Failing()), False
    for step in steps:
        name, failed = str(step["tool"]).lower(), bool(step["err"])
        if name in _ENDS:
            continue
        known = Action.EDIT if name in EDITING else Action.RUN if name in SHELLS else Action.OTHER
        checks.take(known, not failed, frozenset(), str(step["args"]))
        last = failed
    found = checks.unfinished()
    return [*([found.value] if found else []), *(["last_call"] if last else [])]


def main(file: Path) -> None:
    told: Counter[tuple[str, bool, str]] = Counter()
    runs: Counter[tuple[str, bool]] = Counter()
    with gzip.open(file) as lines:
        for line in lines:
            run = json.loads(line)
            key = (str(run["source"]), bool(run["success"]))
            runs[key] += 1
            told.update((*key, kind) for kind in evidence(run["steps"]))
    for source in sorted({source for source, _ in runs}):
        for kind in ("command_failed", "not_run", "last_call"):
            shown = []
            for success in (False, True):
                count, of = told[source, success, kind], runs[source, success]
                low, high = wilson(count, of)
                outcome = "successful" if success else "failed"
                shown.append(f"{count} of {of} {outcome} ({count / of:.1%} [{low:.1%}, {high:.1%}])")
            print(f"{source:28}{kind:16}{', '.join(shown)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
