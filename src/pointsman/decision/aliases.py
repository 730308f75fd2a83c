"""Resolves the model name of a request by aliases, by the configured models, and by the providers' own ids.

An alias is a pattern and a target. In a pattern ``*`` matches any characters, also none; every other
character matches itself (Claude Code's ``[1m]`` is no character class). A target is ``auto``, a tier, a
configured model, the exact pattern of another alias, or ``refuse``. The first pattern that matches counts.
The exact id of a configured model goes before the aliases that are shipped, unless the client is known to
send it by default (docs/decisions/0122).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from pointsman.errors import ConfigError
from pointsman.tiers import asks_to_decide, forced_tier
from pointsman.vocabulary import ModelSpec, Reason, Tier

__all__ = [
    "CLIENT_ALIASES",
    "CLIENT_DEFAULTS",
    "LONGEST_NAME",
    "LONGEST_SHOWN",
    "REFUSE",
    "Aliases",
    "ModelNames",
    "Named",
    "Target",
    "first_of_each",
    "follow",
    "matches",
]


# The aliases that are in effect after an operator's own: the model names that today's clients send.
#
# Names of main models become auto. Names of models that clients use for small calls (titles, summaries of
# tool use, file search) become simple. Read from the clients in November 2026; versions and evidence are in
# docs/how-to/agents.md. A pattern begins with * where clients put the provider before the name (anthropic/…
# of opencode and Cline, us.anthropic.… of Bedrock) and ends with * for dates and suffixes (-20251001,
# -latest, [1m], :free).


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


#: Patterns and their targets, in the order in which they are tried.
Aliases: TypeAlias = tuple[tuple[str, str], ...]

#: The target that makes a name unknown.
REFUSE: Final = "refuse"
#: Characters of a name that aliases look at: twice the longest id of a catalogue. A longer name matches none.
LONGEST_NAME: Final = 256
#: Characters of an unknown model's name that are repeated to the caller; OpenRouter's longest are half of it.
LONGEST_SHOWN: Final = 128
#: Names kept with what they resolve to. They come from strangers, so there is a bound.
_KEPT: Final = 256
_OWN_PREFIX: Final = "pointsman/"
_ANY: Final = "*"
_BY_DEFAULT: Final = ": the client sends it unless told otherwise"


class Target(msgspec.Struct, frozen=True, gc=False):
    """The target of a name. With neither tier nor model: ``auto``, unless it is refused."""

    tier: Tier | None = None
    model: str = ""  # configured name
    is_refused: bool = False

    def __str__(self) -> str:
        """The target as it is written in a configuration."""
        if self.is_refused:
            return REFUSE
        return self.model or (self.tier.lower() if self.tier else "auto")


class Named(msgspec.Struct, frozen=True, gc=False):
    """The target that a request's model name resolves to, and the alias."""

    target: Target
    pattern: str = ""  # of the alias; empty where no alias was needed
    reason: Reason | None = None


class _Alias(msgspec.Struct, frozen=True, gc=False):
    pattern: str
    parts: tuple[str, ...]  # the text between the asterisks
    target: Target


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern, in which ``*`` matches any characters, matches a name."""
    return _matches(tuple(pattern.split(_ANY)), name)


def _matches(parts: tuple[str, ...], name: str) -> bool:
    """Linear in the name for each part between asterisks: nothing is tried twice."""
    first, *between = parts
    if not between:
        return name == first
    *middle, last = between
    end = len(name) - len(last)
    at = len(first)
    if end < at or not name.startswith(first) or not name.endswith(last):
        return False
    for part in middle:
        at = name.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True


class ModelNames:
    """Resolves names other than ``auto`` and the tiers, which mean the same under every policy."""

    def __init__(self, models: Mapping[str, ModelSpec], aliases: Aliases = ()) -> None:
        """Compile the aliases.

        Args:
            models: By configured name.
            aliases: The operator's, then those shipped.

        Raises:
            ConfigError: an alias points nowhere or in a circle.
        """
        self._models = models
        self._aliases = tuple(
            _Alias(pattern, tuple(pattern.split(_ANY)), _target(pattern, aliases, models))
            for pattern, _ in aliases
        )
        shipped = len(CLIENT_ALIASES) if aliases[-len(CLIENT_ALIASES) :] == CLIENT_ALIASES else 0
        #: How many of the aliases are the operator's.
        self._own = len(aliases) - shipped
        known = Counter(model.id for model in models.values())
        #: Configured names by the provider's id, where exactly one model has it.
        self._ids = {model.id: name for name, model in models.items() if known[model.id] == 1}
        self._resolve_kept = lru_cache(_KEPT)(self._resolve)

    @property
    def exact(self) -> tuple[str, ...]:
        """The aliases that are names rather than patterns, and are not refused; each once, in order."""
        names = [alias.pattern for alias in self._aliases if _ANY not in alias.pattern]
        served = (name for name in names if (found := self.resolve(name)) and not found.target.is_refused)
        return tuple(dict.fromkeys(served))

    def hidden_by(self, number: int) -> str:
        """The pattern before an alias that matches every name which the alias could match; empty if none.

        A pattern that matches another one's text matches every expansion of its asterisks.
        """
        pattern = self._aliases[number].pattern
        return next((alias.pattern for alias in self._aliases[:number] if _matches(alias.parts, pattern)), "")

    def resolve(self, name: str, client: str = "") -> Named | None:
        """Return the target of a name; None when it is unknown.

        Args:
            name: Of a model, as the request has it.
            client: The program that sends it, as its ``User-Agent`` names it.
        """
        by_default = bool(client) and name in self._ids and _is_default(name, client)
        return (self._resolve_kept if len(name) <= LONGEST_NAME else self._resolve)(name, by_default)

    def serves(self, name: str) -> bool:
        """Whether a request for this name is decided and relayed rather than refused."""
        if asks_to_decide(name) or forced_tier(name):
            return True
        found = self.resolve(name)
        return found is not None and not found.target.is_refused

    def _resolve(self, name: str, by_default: bool) -> Named | None:
        configured = name if name in self._models else name.removeprefix(_OWN_PREFIX)
        if configured in self._models:
            return Named(Target(model=configured))
        model = self._ids.get(name)
        aliases = self._aliases if model is None or by_default else self._aliases[: self._own]
        shown = name[:LONGEST_SHOWN]
        if len(name) <= LONGEST_NAME:
            for alias in aliases:
                if _matches(alias.parts, name):
                    why = f'"{shown}" matches the alias "{alias.pattern}" of {alias.target}'
                    why += _BY_DEFAULT if by_default else ""
                    return Named(alias.target, alias.pattern, Reason("routing.alias", why))
        if model is None:
            return None
        return Named(Target(model=model), reason=Reason("routing.id", f'"{shown}" is the id of "{model}"'))

    def default_ids(self) -> Iterator[tuple[str, str, str, Named]]:
        """Yield each id that a client sends by default: id, model, client, and its meaning there."""
        for id_, model in self._ids.items():
            for client, pattern in CLIENT_DEFAULTS:
                if (
                    matches(pattern, id_)
                    and (found := self.resolve(id_, client))
                    and found.target.model != model
                ):
                    yield id_, model, client, found

    def taken_ids(self) -> Iterator[tuple[str, str, Named]]:
        """Yield each id that means something else than its model: the id, the model, and its meaning."""
        for id_, model in self._ids.items():
            if (found := self.resolve(id_)) and found.pattern and found.target.model != model:
                yield id_, model, found


def _is_default(name: str, client: str) -> bool:
    """Whether a client is known to send a name by default."""
    sent = (pattern for begins, pattern in CLIENT_DEFAULTS if client.startswith(begins))
    return any(matches(pattern, name) for pattern in sent)


def follow(
    pattern: str, aliases: Mapping[str, str], models: Collection[str]
) -> tuple[list[str], Target | None]:
    """Follow an alias from its pattern to its target.

    Returns the names on the way, pattern first, and the target. Without a target the last name is unknown,
    or is on the way twice, which is a circle.
    """
    way = [pattern]
    while True:
        name = aliases[way[-1]]
        way.append(name)
        if (target := _known(name, models)) is not None:
            return way, target
        if name not in aliases or name in way[:-1]:
            return way, None


def _known(name: str, models: Collection[str]) -> Target | None:
    """The meaning of a target without other aliases; None if it can only be another alias."""
    if name == REFUSE:
        return Target(is_refused=True)
    if name in models:
        return Target(model=name)
    if tier := forced_tier(name):
        return Target(tier)
    return Target() if name and asks_to_decide(name) else None


def _target(pattern: str, aliases: Aliases, models: Collection[str]) -> Target:
    way, target = follow(pattern, first_of_each(aliases), models)
    if target is None:
        shown = " -> ".join(f'"{name}"' for name in way)
        what = "leads in a circle" if way[-1] in way[:-1] else "points nowhere"
        raise ConfigError(f"an alias {what}: {shown}")
    return target


def first_of_each(aliases: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Targets by pattern. Of two aliases with one pattern the first counts, as it does for a request."""
    found: dict[str, str] = {}
    for pattern, target in aliases:
        found.setdefault(pattern, target)
    return found
