"""What ``pointsman`` prints without a command: the summary of each, and at first what is on this machine.

``pointsman --help`` imports no command and no configuration.

``tests/cli/test_start.py`` compares each sentence with the first paragraph of the command's own help.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

#: Heading of ``pointsman --help`` -> command -> summary. A command is an object of the module of its
#: name, or the one that ``PLACES`` names.
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
#: Command -> ``module:object`` in this package, where it is not a module and an object of the command's name.
PLACES: Final = {
    **dict.fromkeys(HEADINGS["Run an agent"], "launch:agents"),
    "ext-proc": "serve:ext_proc",
    "open": "serve:open_page",
    "mcp": "serve:serve_tools",
    "trust": "config:trust_file",
    "keys": "config:keys",
    "explain": "explain:explain_text",
    "lexicon": "patterns:lexicon",
    "domains": "patterns:domains",
    "capabilities": "patterns:capabilities",
    "eval": "eval:evaluate",
}
COMMANDS: Final = tuple(chain.from_iterable(HEADINGS.values()))


#: Columns of what was looked for, and of what was found.
_KIND: Final = 15
_FOUND: Final = 44


class _Found(NamedTuple):
    kind: str
    names: list[str]
    command: str


def is_first_time() -> bool:
    """Whether there is neither a configuration nor a ledger."""
    from pointsman.config import find
    from pointsman.config.files import state_file

    return find() is None and not state_file("ledger.sqlite").exists()


def welcome() -> Iterator[str]:
    """Yield the lines. They look at this machine alone: programs, variables, local servers and logs."""
    yield "Pointsman decides for each request of an agent which model serves it, and sees when it is stuck."
    yield ""
    for found in _on_this_machine():
        names = ", ".join(found.names) or "none"
        yield f"  {found.kind:<{_KIND}}{names:<{_FOUND}}{found.command if found.names else ''}".rstrip()
    yield ""
    yield "Without any of them: pointsman serve --demo. All commands: pointsman --help"
    yield "Only this machine was looked at. Nothing was sent or written, and nothing is downloaded later."


def _on_this_machine() -> Iterator[_Found]:
    from pointsman.audit import Collection, Home, sources
    from pointsman.cli.launch import AGENTS
    from pointsman.config.draft import find_local, find_providers

    logs = Collection(Home.at(None), sources()).found()
    yield _Found("Logs", [f"{name} ({count:,})" for name, count in logs.items()], "pointsman audit")
    agents = [name for name in AGENTS if shutil.which(name)]
    keys = [found.variable for found in find_providers(os.environ)]
    servers = [found.name for found in find_local()]
    launched = f"pointsman {agents[0]}" if agents and (keys or servers) else "needs a key or a model server"
    yield _Found("Agents", agents, launched)
    yield _Found("Keys", keys, "pointsman config init && pointsman serve")
    yield _Found("Model servers", servers, "pointsman config init --local && pointsman serve")
