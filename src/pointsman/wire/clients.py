"""Known marks of the clients' requests: one table for each client, with the source of its marks."""

from __future__ import annotations

from typing import Final, NamedTuple

from pointsman.vocabulary import Purpose

__all__ = ["CLIENTS", "Client", "Mark"]


class Mark(NamedTuple):
    """The marks of one kind of request. All that are given must be there; of several texts, any."""

    purpose: Purpose
    shown: str  # what is seen, for a person
    system: tuple[str, ...] = ()  # near the beginning of the system prompt
    inside: str = ""  # anywhere in the system prompt
    words: tuple[str, ...] = ()  # the client's own text in the last user message begins so
    notes: tuple[str, ...] = ()  # in a system message beside it
    header: tuple[bytes, bytes] | None = None  # name, and what its value holds
    without_tools: bool = False
    output: int = 0  # most tokens of an answer, at most so many
    is_main: bool = False  # a turn of the conversation all the same


class Client(NamedTuple):
    """One client. Its requests change with its versions: ``read`` names those that were examined, and how."""

    name: str
    read: str
    marks: tuple[Mark, ...]  # the first that matches counts
    subagents: tuple[bytes, ...] = ()  # headers that its sub-agents alone send
    stated_subagents: tuple[tuple[bytes, bytes], ...] = ()  # header and value by which a sub-agent is stated
    #: By what its requests are known: one of these headers, the beginning of the user agent, or a text near
    #: the beginning of the system prompt. The words of its marks count in its own requests alone.
    headers: tuple[bytes, ...] = ()
    agent: bytes = b""
    system: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()  # what stands before the working directory; the first found counts


CLAUDE_CODE: Final = Client(
    name="Claude Code",
    read="versions 2.1.197 and 2.1.330 on 22 November 2026: requests of `claude -p` and of a session in a "
    "terminal recorded behind a base URL, and the texts that the program holds for the others",
    subagents=(b"x-claude-code-agent-id", b"x-claude-code-parent-agent-id"),
    headers=(b"x-claude-code-session-id",),
    agent=b"claude-cli/",
    system=("x-anthropic-billing-header:", "You are Claude Code", "Claude Agent SDK"),
    folders=("Primary working directory: ", "Working directory: "),
    marks=(
        Mark(
            Purpose.TITLE,
            "Claude Code asks for a title",
            system=("You are naming a coding session", "Generate a concise, sentence-case title"),
            without_tools=True,
        ),
        Mark(
            Purpose.TITLE,
            "Claude Code asks for a title and a branch",
            words=("You are coming up with a succinct title and git branch name",),
            without_tools=True,
        ),
        Mark(
            Purpose.TOPIC,
            "Claude Code asks for the topic",
            system=("Analyze if this message indicates a new conversation topic",),
            without_tools=True,
        ),
        Mark(
            Purpose.SUMMARY,
            "Claude Code asks what tool calls did",
            system=("Write a short summary label describing what these tool calls",),
            without_tools=True,
        ),
        Mark(
            Purpose.SUMMARY,
            "Claude Code asks about a web page",
            words=("Web page content:",),
            without_tools=True,
        ),
        Mark(
            Purpose.CHECK,
            "Claude Code asks whether an action may run",
            system=(
                "You are a security monitor for autonomous AI coding agents",
                "<policy_spec>",
                "You are evaluating a hook condition in Claude Code",
                "You are evaluating a hook in Claude Code",
                "You are evaluating a stop-condition hook in Claude Code",
                "You are verifying a stop condition in Claude Code",
            ),
        ),
        Mark(
            Purpose.COMPACTION,
            "Claude Code compacts the conversation",
            system=("You are a helpful AI assistant tasked with summarizing conversations",),
        ),
        Mark(
            Purpose.COMPACTION,
            "Claude Code compacts the conversation",
            words=(
                "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.",
                "Your task is to create a detailed summary of",
            ),
        ),
        Mark(
            Purpose.SIDE,
            "Claude Code asks beside the conversation",
            words=(
                "[SUGGESTION MODE: ",
                "The user stepped away and is coming back. Recap in under",
                "Describe your most recent action in 3-5 words",
                "Generate a short kebab-case name (2-4 words)",
                "<system-reminder>This is a side question from the user.",
            ),
        ),
        Mark(
            Purpose.SIDE,
            "Claude Code chooses memories, or reads a date",
            system=(
                "You are selecting memories that will be useful to Claude Code",
                "You are a date/time parser that converts natural language",
            ),
            without_tools=True,
        ),
        Mark(
            Purpose.PROBE,
            "Claude Code asks whether key, quota or model are valid",
            words=("quota", "test", "Hi", "."),
            without_tools=True,
            output=1,
        ),
        Mark(
            Purpose.PLAN,
            "Claude Code's sub-agent that plans",
            system=("You are a software architect and planning specialist for Claude Code",),
            is_main=True,
        ),
        Mark(
            Purpose.PLAN,
            "Claude Code is in plan mode",
            words=("<system-reminder>\nPlan mode is active", "Plan mode is active"),
            is_main=True,
        ),
        Mark(
            Purpose.PLAN,
            "Claude Code is in plan mode",
            notes=("Plan mode is active. The user",),
            is_main=True,
        ),
    ),
)


_CODEX_METADATA: Final = b"x-codex-turn-metadata"  # JSON, as Codex writes it: without spaces
_CODEX_SUBAGENT: Final = b"x-openai-subagent"

CODEX: Final = Client(
    name="Codex",
    read="version 0.169.0 of 22 November 2026: requests of `codex exec` recorded behind a base URL, with and "
    "without compaction, and the texts that the program holds for the others",
    subagents=(_CODEX_SUBAGENT, b"x-codex-parent-thread-id"),
    headers=(_CODEX_METADATA,),
    agent=b"codex",
    folders=("<cwd>",),
    marks=(
        Mark(Purpose.COMPACTION, "Codex compacts", header=(_CODEX_METADATA, b'"request_kind":"compaction"')),
        Mark(Purpose.COMPACTION, "Codex compacts", header=(_CODEX_SUBAGENT, b"compact")),
        Mark(
            Purpose.COMPACTION,
            "Codex compacts",
            words=("You are performing a CONTEXT CHECKPOINT COMPACTION.",),
        ),
        Mark(Purpose.SUMMARY, "Codex writes its memory", header=(_CODEX_SUBAGENT, b"memory_consolidation")),
        Mark(
            Purpose.SUMMARY,
            "Codex writes its memory",
            system=("## Memory Writing Agent: Phase 1", "## Memory Writing Agent: Phase 2"),
        ),
        Mark(Purpose.CHECK, "Codex asks whether an action may run", header=(_CODEX_SUBAGENT, b"guardian")),
        Mark(
            Purpose.CHECK,
            "Codex asks whether an action may run",
            system=("You are judging one planned coding-agent action.",),
        ),
        Mark(
            Purpose.PLAN,
            "Codex is in plan mode",
            notes=("<collaboration_mode># Plan Mode", "<collaboration_mode>\n# Plan Mode"),
            is_main=True,
        ),
    ),
)


OPENCODE: Final = Client(
    name="opencode",
    read="version 1.18.33 of 22 November 2026: requests of `opencode run` recorded behind a base URL, "
    "and the texts that the program holds for the others",
    subagents=(b"x-parent-session-id",),
    headers=(b"x-session-affinity", b"x-opencode-session"),
    agent=b"opencode/",
    system=("You are OpenCode",),
    folders=("Workspace root folder: ", "Working directory: "),
    marks=(
        Mark(
            Purpose.TITLE,
            "opencode asks for a title",
            system=("You are a title generator.",),
            without_tools=True,
        ),
        Mark(
            Purpose.SUMMARY,
            "opencode asks for a summary of a session",
            system=("Summarize what was done in this conversation. Write like a pull request",),
            without_tools=True,
        ),
        Mark(
            Purpose.COMPACTION,
            "opencode compacts the conversation",
            system=("You are a context summarization agent.",),
        ),
        Mark(
            Purpose.COMPACTION,
            "opencode compacts the conversation",
            words=("Create a new anchored summary from the conversation history",),
        ),
        Mark(
            Purpose.PLAN,
            "opencode's agent that plans",
            words=(
                "<system-reminder>\n# Plan Mode - System Reminder",
                "<system-reminder>\nPlan mode is active",
            ),
            is_main=True,
        ),
    ),
)


#: It offers no tools and names no session.
AIDER: Final = Client(
    name="aider",
    read="version 0.86.2 of February 2026: requests recorded behind a base URL, and its prompts",
    marks=(
        Mark(
            Purpose.SUMMARY,
            "aider asks for a commit message",
            system=("You are an expert software engineer that generates concise, one-line Git commit",),
            without_tools=True,
        ),
        Mark(
            Purpose.COMPACTION,
            "aider compacts the conversation",
            system=("*Briefly* summarize this partial conversation about programming.",),
            without_tools=True,
        ),
        Mark(
            Purpose.PLAN,
            "aider's architect",
            system=("Act as an expert architect engineer and provide direction to your editor engineer.",),
            without_tools=True,
            is_main=True,
        ),
        Mark(
            Purpose.EDIT,
            "aider's editor",
            system=(
                "Act as an expert software developer who edits source code.",
                "Act as an expert software developer and make changes to source code.",
            ),
            without_tools=True,
            is_main=True,
        ),
        Mark(
            Purpose.MESSAGE,
            "aider's conversation",
            system=("Act as an expert software developer.", "Act as an expert code analyst."),
            without_tools=True,
            is_main=True,
        ),
    ),
)


CLINE: Final = Client(
    name="Cline",
    read="version 3.0.65 of November 2026: requests of its command line recorded behind a base URL",
    folders=("Working Directory: ",),
    marks=(
        Mark(
            Purpose.PLAN,
            "Cline is in plan mode",
            system=("You are Cline,",),
            inside="# Plan Mode\n\nYou are in Plan mode.",
            is_main=True,
        ),
        Mark(Purpose.MESSAGE, "Cline's conversation", system=("You are Cline,",), is_main=True),
    ),
)


_INTERACTION: Final = b"x-interaction-type"

#: It states the role in headers, and names no session.
COPILOT: Final = Client(
    name="Copilot CLI",
    read="version 1.0.102 of November 2026: requests of `copilot -p` with a provider of one's own recorded "
    "behind a base URL, and the values of the header that the program holds",
    headers=(_INTERACTION, b"x-initiator"),
    stated_subagents=((_INTERACTION, b"conversation-subagent"),),
    folders=("* Current working directory: ",),
    marks=(
        Mark(Purpose.COMPACTION, "Copilot compacts", header=(_INTERACTION, b"conversation-compaction")),
        Mark(
            Purpose.HELPER, "Copilot's background request", header=(_INTERACTION, b"conversation-background")
        ),
    ),
)


#: It names no session, and sends helper requests after each turn.
QWEN_CODE: Final = Client(
    name="Qwen Code",
    read="version 0.15.10 of November 2026: requests of `qwen -p` recorded behind a base URL, and the texts "
    "that the program holds for the others",
    agent=b"QwenCode/",
    system=("You are Qwen Code,",),
    folders=("I'm currently working in the directory: ",),
    marks=(
        Mark(
            Purpose.SUMMARY,
            "Qwen Code updates its memory",
            system=(
                "You are now acting as the managed memory extraction subagent",
                "You are performing a managed memory dream",
                "You are reviewing this conversation to extract reusable skills.",
            ),
        ),
        Mark(
            Purpose.HELPER,
            "Qwen Code chooses memories",
            system=("You are selecting memories that will be useful to an AI coding assistant",),
        ),
        Mark(
            Purpose.TITLE,
            "Qwen Code asks for a title",
            system=(
                "Generate a concise, sentence-case title (3-7 words) that captures what this programming-",
                "Generate a short kebab-case name (2-4 words) that captures the main topic",
            ),
        ),
        Mark(
            Purpose.SUMMARY,
            "Qwen Code asks for a recap of a session",
            system=("You generate session recaps for a programming assistant CLI.",),
        ),
        Mark(
            Purpose.COMPACTION,
            "Qwen Code compacts the conversation",
            system=(
                "You are the component that summarizes internal chat history into a given structure.",
                "You are a specialized context summarizer that creates a comprehensive markdown summary",
            ),
        ),
        Mark(
            Purpose.SIDE,
            "Qwen Code asks beside the conversation",
            words=(
                "[SUGGESTION MODE: ",
                "Analyze *only* the content and structure of your immediately preceding response",
            ),
        ),
    ),
)


CLIENTS: Final = (CLAUDE_CODE, CODEX, OPENCODE, AIDER, CLINE, COPILOT, QWEN_CODE)
