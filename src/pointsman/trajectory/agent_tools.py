"""Names of the tools of today's agents, by the effect of a call: the one table for every heuristic.

Names are compared in lower case. Sources: the agents' packages and pages of November 2026, among them Claude
Code 2.1.330, Codex 0.169, Gemini CLI and Qwen Code. A shell's name does not say what its command does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["AGENT_TOOLS", "EDITING", "LOOKING", "PLANNING", "READING_ON", "SHELLS", "Names"]

Names = frozenset[str]

#: Agent -> kind of call -> names. ``look`` reads or searches, and changes nothing: several such calls fit
#: into one turn. ``plan`` keeps the list of tasks. ``read_on`` waits for a command that was started before.
#: ``edit`` changes a file, and ``shell`` runs a command.
AGENT_TOOLS: Final[Mapping[str, Mapping[str, str]]] = {
    "Claude Code": {
        "look": "Read Grep Glob LS NotebookRead WebFetch WebSearch",
        "plan": "TodoWrite TaskCreate TaskUpdate",
        "read_on": "BashOutput TaskOutput KillShell",
        "edit": "Edit MultiEdit Write NotebookEdit",
        "shell": "Bash",
    },
    "Codex": {
        "look": "read_file list_dir grep_files view_image web_search",
        "plan": "update_plan",
        "read_on": "write_stdin",
        "edit": "apply_patch",
        "shell": "shell exec_command local_shell shell_command container.exec",
    },
    "opencode": {
        "look": "read grep glob list webfetch websearch",
        "plan": "todowrite",
        "edit": "edit write patch apply_patch",
        "shell": "bash",
    },
    "Gemini CLI": {
        "look": "read_file read_many_files list_directory glob grep_search search_file_content web_fetch "
        "google_web_search",
        "plan": "write_todos tracker_create_task tracker_update_task",
        "edit": "replace write_file edit",
        "shell": "run_shell_command",
    },
    "Qwen Code": {
        "look": "read_file read_many_files list_directory glob grep_search web_fetch web_search",
        "plan": "todo_write",
        "edit": "edit write_file",
        "shell": "run_shell_command",
    },
    "Copilot": {
        "look": "view grep glob web_fetch read_file list_dir file_search grep_search semantic_search "
        "list_code_usages fetch_webpage",
        "plan": "update_todo manage_todo_list",
        "read_on": "read_bash write_bash get_terminal_output",
        "edit": "edit create apply_patch insert_edit_into_file replace_string_in_file create_file",
        "shell": "bash run_in_terminal",
    },
    "Cline": {
        "look": "read_file search_files list_files list_code_definition_names web_fetch",
        "edit": "write_to_file replace_in_file apply_diff insert_content search_and_replace",
        "shell": "execute_command",
    },
    "OpenHands": {"edit": "str_replace_editor", "shell": "execute_bash terminal"},
    "SWE-agent": {"edit": "edit create insert str_replace_editor", "shell": "bash"},
    "Cursor": {"edit": "edit_file search_replace", "shell": "run_terminal_cmd"},
    # the editors and shells of providers' own tools, of MCP servers and of Goose
    "general": {
        "edit": "str_replace str_replace_based_edit_tool text_editor edit_file patch edit_block",
        "shell": "run_command terminal execute_shell_command",
    },
    # docs/sources/guidance-classifiers.md, "Heuristic classifiers"
    "the founding document": {"look": "read_file search grep"},
}


def _of_all(kind: str) -> Names:
    return frozenset(name for each in AGENT_TOOLS.values() for name in each.get(kind, "").lower().split())


LOOKING: Final = _of_all("look")
PLANNING: Final = _of_all("plan")
READING_ON: Final = _of_all("read_on")
EDITING: Final = _of_all("edit")
SHELLS: Final = _of_all("shell")
