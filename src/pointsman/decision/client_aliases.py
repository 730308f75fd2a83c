"""The aliases that are in effect after an operator's own: the model names that today's clients send.

Names of main models become ``auto``. Names of models that clients use for small calls (titles, summaries of
tool use, file search) become ``simple``. Read from the clients in November 2026; versions and evidence are in
docs/how-to/agents.md. A pattern begins with ``*`` where clients put the provider before the name
(``anthropic/…`` of opencode and Cline, ``us.anthropic.…`` of Bedrock) and ends with ``*`` for dates and
suffixes (``-20251001``, ``-latest``, ``[1m]``, ``:free``).
"""

from __future__ import annotations

from typing import Final

__all__ = ["CLIENT_ALIASES", "CLIENT_DEFAULTS"]

CLIENT_ALIASES: Final[tuple[tuple[str, str], ...]] = (
    # Claude Code 2.1: sub-agent "Explore" and small calls: claude-haiku-4-5-20251001; Anthropic SDK
    ("*claude*haiku*", "simple"),
    ("claude-instant*", "simple"),
    # A name that /v1/models lists: Claude Code and Claude Desktop keep no id of it without "claude" inside
    ("claude-auto", "auto"),
    # Claude Code 2.1: claude-opus-4-8, claude-sonnet-4-6[1m], claude-fable-5; opencode: anthropic/claude-…;
    # Cursor and OpenRouter: claude-4.5-sonnet, anthropic/claude-sonnet-4.6
    ("*claude-*", "auto"),
    # Codex 0.169: "fast and affordable model for easier tasks"
    ("*gpt-*-luna*", "simple"),
    # opencode 1.18 names sessions by the newest "gpt-nano"; mini and nano of the OpenAI SDK
    ("*gpt-*-nano*", "simple"),
    ("*gpt-*-mini*", "simple"),
    ("codex-mini*", "simple"),
    # Codex 0.169: gpt-6.1-sol, gpt-6-astra, gpt-5.6-terra, gpt-daybreak-blue-latest, codex-auto-review;
    # OpenAI SDK, Cursor, Cline: gpt-4o, openai/gpt-5.5. Not "gpt-*": gpt-oss, gpt-image and gpt-realtime are
    # other things.
    ("*gpt-3*", "auto"),
    ("*gpt-4*", "auto"),
    ("*gpt-5*", "auto"),
    ("*gpt-6*", "auto"),
    ("gpt-daybreak*", "auto"),
    ("chatgpt-*", "auto"),
    ("codex-*", "auto"),
    # OpenAI SDK: o3, o4-mini, and with a provider before it
    ("o1*", "auto"),
    ("o3*", "auto"),
    ("o4*", "auto"),
    ("*/o1*", "auto"),
    ("*/o3*", "auto"),
    ("*/o4*", "auto"),
    # Cline 3.0 and opencode 1.18: google/gemini-2.5-pro, gemini-3.5-flash
    ("*gemini-*flash*", "simple"),
    ("*gemini-*", "auto"),
)

#: Names that clients send unless they are told otherwise: how the client's name in ``User-Agent`` begins, and
#: a pattern. From such a client the exact id of a configured model may mean no more than its default, so it
#: resolves by the aliases above. Versions as there.
CLIENT_DEFAULTS: Final[tuple[tuple[str, str], ...]] = (
    ("claude-cli", "claude-opus-*"),  # Claude Code 2.1.197: claude-opus-4-8; 2.1.330: claude-opus-5-5
    ("codex", "gpt-*-sol*"),  # Codex 0.169: gpt-6.1-sol
    ("opencode", "claude-sonnet-*"),  # opencode 1.18.33: claude-sonnet-4-6, or gpt-5.6-terra
    ("opencode", "gpt-*-terra*"),
)
