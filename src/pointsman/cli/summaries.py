"""The commands and what each does in a sentence, so that ``pointsman --help`` imports none of them.

``tests/cli/test_start.py`` compares each sentence with the first paragraph of the command's own help.
"""

from __future__ import annotations

from itertools import chain
from typing import Final

__all__ = ["COMMANDS", "HEADINGS"]

#: Heading of ``pointsman --help`` -> command -> summary. A command is registered by the module of its name.
HEADINGS: Final = {
    "Serve agents": {
        "serve": "Start the gateway. Point an agent's base URL at it; nothing else in the agent changes.",
        "config": "Check, show or write the configuration file.",
        "router": "Show the routing, choose the classifier, find faults.",
        "decisions": "List, show or export decisions.",
        "sessions": "List, show or forget what sessions remember.",
        "hook": "Guidance through an agent's own hooks.",
    },
    "Decide": {
        "explain": "Explain the decision for a prompt: what fired and why, and what would have changed it.",
        "classify": (
            'Classify prompts: JSON lines {"id", "text"} or {"id", "messages", "format"} in, '
            "one line each out."
        ),
        "select": 'Select capabilities: JSON lines {"id", "task"} in, {"id", "selected", "scores", …} out.',
        "watch": "Show where guidance would have spoken in recorded runs: one JSON line for each firing.",
        "run": "Carry out one task and print the answer; the router's moves go to standard error.",
    },
    "Learn and measure": {
        "outcomes": "What became of decisions.",
        "fit": "Learn from your own outcomes.",
        "eval": "Measure rankings and classifiers on labelled data.",
        "replay": (
            "Decide recorded turns again under another policy, the oldest first, and say what changes."
        ),
        "report": "What came of what was decided.",
    },
    "Patterns and descriptions": {
        "lexicon": "Patterns: check a lexicon, a tier profile or domains.",
        "domains": "Task domains: measure and check a domain file.",
        "capabilities": "Capabilities: list and check them.",
    },
}
COMMANDS: Final = tuple(chain.from_iterable(HEADINGS.values()))
