"""The summary of each command, so that ``pointsman --help`` imports no command.

``tests/cli/test_start.py`` compares each sentence with the first paragraph of the command's own help.
"""

from __future__ import annotations

from itertools import chain
from typing import Final

__all__ = ["COMMANDS", "HEADINGS", "MODULES"]

#: Heading of ``pointsman --help`` -> command -> summary. A command is registered by the module of its name,
#: or the one that ``MODULES`` names.
HEADINGS: Final = {
    "Run an agent": {
        "claude": "Run Claude Code through a gateway; arguments are Claude Code's own.",
        "codex": "Run Codex through a gateway; arguments are Codex's own.",
        "opencode": "Run opencode through a gateway; arguments are opencode's own.",
        "qwen": "Run Qwen Code through a gateway; arguments are Qwen Code's own.",
        "aider": "Run aider through a gateway; arguments are aider's own.",
    },
    "Serve agents": {
        "serve": "Start the gateway. Set an agent's base URL to it; nothing else in the agent changes.",
        "ext-proc": "Decide for Envoy: serve its external processing filter over gRPC.",
        "open": "Open the console of the gateway that runs, or the page of one decision, in a browser.",
        "config": "Check, show or write the configuration file, or print its JSON Schema.",
        "trust": "Trust the configuration of a folder: the code that it runs, and the secrets that it uses.",
        "keys": "Make, list or revoke the keys of callers.",
        "models": "Models: list and show what is known, update the catalogue.",
        "router": "Show the routing, choose the classifier model, run the doctor.",
        "decisions": "List, show or export decisions.",
        "sessions": "List, show or delete session memory.",
        "ledger": "Copy ledgers between files and databases; migrate them.",
        "mcp": "Serve decide, explain, decisions and label to an MCP client over standard input and output.",
        "hook": "Guidance through the hooks of an agent.",
    },
    "Decide": {
        "explain": "Explain the decision for a prompt: signals, weights, and what would have changed it.",
        "classify": (
            'Classify prompts: JSON lines {"id", "text"} or {"id", "messages", "format"} in, '
            "one line each out."
        ),
        "select": 'Select capabilities: JSON lines {"id", "task"} in, {"id", "selected", "scores", …} out.',
        "watch": "Show where guidance would fire in recorded runs: one JSON line per firing.",
        "run": "Execute one task and print the answer; the router's moves go to standard error.",
    },
    "Learn and measure": {
        "audit": "Audit the logs of agents on this machine: costs, and where agents were stuck.",
        "outcomes": "Import, derive, judge and export outcomes of decisions.",
        "fit": "Train on your own outcomes.",
        "eval": "Evaluate routers and classifiers on labelled data.",
        "replay": (
            "Decide recorded requests again under another policy, oldest first, and report the changes."
        ),
        "report": (
            "Report savings, change, roles, projects, kinds, escalation, drift, shadow, agreement and "
            "guidance."
        ),
    },
    "Patterns and descriptions": {
        "lexicon": "Check the patterns of a lexicon, a tier profile or a domain file.",
        "domains": "Evaluate and check a file of task domains.",
        "capabilities": "Capabilities: list and check them.",
    },
}
#: Command -> the module of several.
MODULES: Final = dict.fromkeys(HEADINGS["Run an agent"], "launch")
COMMANDS: Final = tuple(chain.from_iterable(HEADINGS.values()))
