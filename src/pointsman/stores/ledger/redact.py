"""The stored form of prompts, by text mode; and redaction of keys and e-mail addresses.

Every pattern has bounded repetition, behind a literal or a character it cannot repeat, so that the time
is linear in the text. Shapes of keys: their vendors' documentation and the rule set of
gitleaks (MIT), of which these are the ones that occur in prompts.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from msgspec.structs import replace

from pointsman.decision.decision import Decision, Injection, TextMode
from pointsman.decoding import whole_text
from pointsman.stores.ledger.port import MAX_TEXT, RunEntry

__all__ = ["LONGEST", "kept_decision", "kept_step", "kept_text", "redact"]

#: Characters of the longest thing taken out: redacting this much beyond a cut leaves no half of a key.
LONGEST: Final = 10_000

#: By a literal that every such key contains, in lower case.
_KEYS: Final = {
    "sk-": r"\bsk-[A-Za-z0-9_-]{16,200}",  # OpenAI, Anthropic, OpenRouter and their imitators
    "akia": r"\bAKIA[A-Z0-9]{16}\b",  # AWS
    "asia": r"\bASIA[A-Z0-9]{16}\b",
    "aiza": r"\bAIza[A-Za-z0-9_-]{35}",  # Google
    "gh": r"\bgh[pousr]_[A-Za-z0-9]{36,255}",  # GitHub
    "github_pat_": r"\bgithub_pat_[A-Za-z0-9_]{22,255}",
    "glpat-": r"\bglpat-[A-Za-z0-9_-]{20,100}",  # GitLab
    "xox": r"\bxox[abposr]-[A-Za-z0-9-]{10,200}",  # Slack
    "hf_": r"\bhf_[A-Za-z0-9]{30,100}",  # Hugging Face
    "eyj": r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,1000}",  # JWT
}
_PRIVATE_KEY: Final = (
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[A-Za-z0-9+/=\s]{0,8000}(?:-----END [A-Z ]{0,30}-----)?"
)
_BEARER: Final = r"(?i:\bbearer[ \t]{1,4})[A-Za-z0-9._~+/=-]{16,4000}"
#: ``password = …``, ``"api_key": "…"``; the name stays, the value goes.
_ASSIGNED: Final = (
    r"(?P<name>(?:\b|_)(?i:passw(?:or)?d|secret|token|api[_-]?key|access[_-]?key)[\"']?"
    r"[ \t]{0,4}[:=][ \t]{0,4})"
    r"(?:\"[^\"\n]{4,500}\"|'[^'\n]{4,500}'|[^\s\"',;]{4,500})"
)
_EMAIL: Final = r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}"

#: Literals one of which every match contains, in lower case; the pattern to remove; its replacement. The
#: search for the literals first makes an ordinary text forty times cheaper.
_RULES: Final[tuple[tuple[tuple[str, ...], re.Pattern[str], str], ...]] = (
    (("private key-----",), re.compile(_PRIVATE_KEY), "[key]"),
    *(((literal,), re.compile(pattern), "[key]") for literal, pattern in _KEYS.items()),
    (("bearer",), re.compile(_BEARER), "Bearer [key]"),
    (("passw", "secret", "token", "key"), re.compile(_ASSIGNED), r"\g<name>[key]"),
    (("@",), re.compile(_EMAIL), "[e-mail]"),
)


#: Text that hints quote comes from outside, and contains no quotation mark itself (``guidance.providers``).
_QUOTED: Final = re.compile(r'"[^"]{0,4000}"')
#: The stored form in mode "hash"; it may pass twice, on its way through a spill file.
_HASHED: Final = re.compile(r"sha256:[0-9a-f]{64}")

_LEFT_OUT: Final = '"…"'


def redact(text: str) -> str:
    """Return a text without keys, passwords and e-mail addresses."""
    lowered = text.lower()
    for literals, pattern, replacement in _RULES:
        if any(literal in lowered for literal in literals):
            text = pattern.sub(replacement, text)
    return text


def kept_text(text: str, mode: TextMode) -> str | None:
    """Return the stored form of a prompt; None for nothing. A stored form maps to itself."""
    # A lone surrogate, which JSON can smuggle in, has no UTF-8 and would be refused by any store.
    clean = whole_text(text)
    match mode:
        case "off":
            return None
        case "hash":
            if _HASHED.fullmatch(clean):
                return clean
            return "sha256:" + hashlib.sha256(clean[:MAX_TEXT].encode()).hexdigest()
        case "redacted":
            return redact(clean[: MAX_TEXT + LONGEST])[:MAX_TEXT]
        case "full":
            return clean[:MAX_TEXT]


def kept_decision(decision: Decision, mode: TextMode) -> Decision:
    """Return the stored form of a decision.

    The text that was added to the request is the program's and is stored in every mode. Its quotes of an
    error are not the program's: they are stored as words are.
    """
    if not decision.injections or mode == "full":
        return decision
    kept = redact if mode == "redacted" else _unquoted
    return replace(
        decision, injections=tuple(Injection(each.source, kept(each.text)) for each in decision.injections)
    )


def _unquoted(text: str) -> str:
    return _QUOTED.sub(_LEFT_OUT, text)


def kept_step(entry: RunEntry, mode: TextMode) -> RunEntry:
    """Return the stored form of a step of a run: its message is stored as words are."""
    if not entry.message:
        return entry
    return replace(entry, message=kept_text(entry.message, mode) or "")
