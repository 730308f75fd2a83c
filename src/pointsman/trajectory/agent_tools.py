"""Names of the tools of today's agents, by what a call of them does: the one table for every heuristic.

Names are compared in lower case. Sources: the agents' packages and pages of November 2026, among them Claude
Code 2.1.330, Codex 0.169, Gemini CLI and Qwen Code. A shell is in no row but its own: its name does not say
what its command does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["AGENT_TOOLS", "LOOKING", "PLANNING", "READING_ON", "Names"]

Names = frozenset[str]

#: Agent -> kind of call -> names. ``look`` reads or searches, and changes nothing: several such calls fit
#: into one turn. ``plan`` keeps the list of tasks. ``read_on`` waits for a command that was started before.
AGENT_TOOLS: Final[Mapping[str, Mapping[str, str]]] = {
    "Claude Code": {
        "look": "Read Grep Glob LS NotebookRead WebFetch WebSearch",
        "plan": "TodoWrite TaskCreate TaskUpdate",
        "read_on": "BashOutput TaskOutput KillShell",
    },
    "Codex": {
        "look": "read_file list_dir grep_files view_image web_search",
        "plan": "update_plan",
        "read_on": "write_stdin",
    },
    "opencode": {"look": "read grep glob list webfetch websearch", "plan": "todowrite"},
    "Gemini CLI": {
        "look": "read_file read_many_files list_directory glob grep_search search_file_content web_fetch "
        "google_web_search",
        "plan": "write_todos tracker_create_task tracker_update_task",
    },
    "Qwen Code": {
        "look": "read_file read_many_files list_directory glob grep_search web_fetch web_search",
        "plan": "todo_write",
    },
    "Copilot": {
        "look": "view grep glob web_fetch read_file list_dir file_search grep_search semantic_search "
        "list_code_usages fetch_webpage",
        "plan": "update_todo manage_todo_list",
        "read_on": "read_bash write_bash get_terminal_output",
    },
    "Cline": {"look": "read_file search_files list_files list_code_definition_names web_fetch"},
    # docs/sources/guidance-classifiers.md, "Heuristic classifiers"
    "the founding document": {"look": "read_file search grep"},
}


def _of_all(kind: str) -> Names:
    return frozenset(name for each in AGENT_TOOLS.values() for name in each.get(kind, "").lower().split())


LOOKING: Final = _of_all("look")
PLANNING: Final = _of_all("plan")
READING_ON: Final = _of_all("read_on")
