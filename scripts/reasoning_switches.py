"""One conversation at two strict providers in turn, in each format: what reasoning each of them gets back.

Both providers sign their reasoning and answer a 400 to any that they did not write, as Anthropic and OpenAI
do; chat has none. The conversation holds tool calls, and changes its provider between two turns and in the
middle of one. Everything stays on this machine.

    python scripts/reasoning_switches.py [--stream]

``back``: pieces of its own reasoning that the first provider got in the last request, of all it has written.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from pointsman.vocabulary import WireFormat
from support.strict_upstreams import CALLERS, CHAT, MESSAGES, RESPONSES
from support.switching import switching

FORMATS = (CHAT, RESPONSES, MESSAGES)
#: Which provider answers which request.
ORDER = (0, 0, 0, 1, 1, 0, 0, 1, 0, 0)
#: Pieces of reasoning in an answer.
PIECES = {CHAT: 0, RESPONSES: 1, MESSAGES: 2}


def line(caller: WireFormat, first: WireFormat, second: WireFormat, *, stream: bool) -> str:
    agent, thought, refused = CALLERS[caller](), 0, 0
    with switching(first, second) as running:
        home = running.providers[0]
        for number in ORDER:
            written = thought * PIECES[first]
            try:
                running.ask(agent, number, stream=stream)
            except AssertionError:
                refused += 1
                break
            thought += home.thought[-1] if number == 0 else 0
        back = f"{len(home.returned[-1])} of {written}" if PIECES[first] else "none written"
    return f"{caller:<10} {first:<10} {second:<10} {refused:>7}   {back}"


def main() -> None:
    stream = "--stream" in sys.argv[1:]
    print(f"{'caller':<10} {'first':<10} {'second':<10} refused   back")
    for caller, first, second in itertools.product(FORMATS, repeat=3):
        print(line(caller, first, second, stream=stream), flush=True)


if __name__ == "__main__":
    main()
