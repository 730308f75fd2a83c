"""CPU time of a whole decision with kinds of prompts on and off, and what the extra ``static`` installs.

    .venv/bin/python benchmarks/kinds_cost.py [--messages 2000]

A fresh message has words that were not seen; a tool iteration has those of the message before. Off and on
take turns message by message. Times are means over all messages; on a busy machine trust the ratios.
"""

import argparse
import random
import time
from importlib.metadata import distribution
from pathlib import Path

from decision import fresh_text
from pointsman.decision.engine import Engine
from pointsman.decision.memory import Memory
from pointsman.decision.policy import Policy
from pointsman.drivers import drive, no_model
from pointsman.encoders.learned_routers import load_kinds
from pointsman.factory import build_engine, read_profile
from pointsman.wire.request import request_from_text

CHARACTERS = 100
WARM_UP = 200


def spent(engine: Engine, text: str) -> float:
    """CPU seconds of one decision."""
    request = request_from_text(text)
    start = time.process_time_ns()
    drive(engine.decide(request, Memory(), ""), no_model)
    return (time.process_time_ns() - start) / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--messages", type=int, default=2_000)
    asked = parser.parse_args()
    profile = read_profile("default")
    engines = {
        "off": build_engine(Policy(profile=profile)),
        "on": build_engine(Policy(profile=profile, kinds=load_kinds("default"))),
    }
    dice = random.Random(0)
    sums = {(kinds, what): 0.0 for kinds in engines for what in ("fresh message", "tool iteration")}
    for number in range(WARM_UP + asked.messages):
        text = fresh_text(CHARACTERS, dice)
        for kinds, engine in engines.items():
            for what in ("fresh message", "tool iteration"):
                seconds = spent(engine, text)
                if number >= WARM_UP:
                    sums[kinds, what] += seconds
    for what in ("fresh message", "tool iteration"):
        off, on = (1e6 * sums[kinds, what] / asked.messages for kinds in ("off", "on"))
        print(f"{what}: kinds off {off:.1f} us, on {on:.1f} us, ratio {on / off:.2f}")
    for name in ("wordllama", "tokenizers", "numpy"):
        files = distribution(name).files or []
        size = sum(
            path.stat().st_size for file in files for path in [Path(str(file.locate()))] if path.is_file()
        )
        print(f"{name} {distribution(name).version}: {size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
