"""Task domains inside Agent Zero: functions that the plugin's extension calls before every prompt.

Agent Zero builds the prompt first and calls ``before_main_llm_call`` afterwards, so text added there never
reaches the model; and ``extras_persistent`` is printed into every prompt. Hence the hook
``message_loop_prompts_after``, ``extras_temporary`` for the guidance, and only small values in it.

Nothing here imports Agent Zero: agents and loop data are duck-typed. The plugin itself is the folder
``integrations/agent_zero/pointsman_domains`` of the repository.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import Any, Final

import msgspec

from pointsman.domains import PERMISSIVE, DomainMemory, DomainTracker, ModelProfile, default_domains
from pointsman.domains.data import disabled_domains
from pointsman.evidence import Scanner
from pointsman.stores.pattern_cache import open_scanner

__all__ = [
    "COMPOUND_KEY",
    "DOMAIN_KEY",
    "EXTRAS_KEY",
    "FAILURES_KEY",
    "LABEL",
    "MEMORY_KEY",
    "PROFILES",
    "enrich",
    "load_model_profile",
    "model_name",
    "read_model_profile",
]

#: ``agent.data`` keys; Agent Zero does not save those that begin with an underscore.
MEMORY_KEY: Final = "_pointsman_domains"
FAILURES_KEY: Final = "_pointsman_domains_failures"

#: The guidance's key in ``extras_temporary``, which Agent Zero empties after every prompt.
EXTRAS_KEY: Final = "task_domain"

#: Where evaluation profiles are kept, one ``MODEL.json`` each.
#: Source: docs/sources/compound-domains.md, "Model profile loading".
PROFILES: Final = Path("/a0/usr/profiles")

_log: Final = logging.getLogger("pointsman.integrations.agent_zero")

#: Shared-state keys: the primary domain alone, and the whole classification.
DOMAIN_KEY: Final = "_bst_domain"
COMPOUND_KEY: Final = "_bst_compound"

#: Before every line for the prompt and for the log, as readers of Agent Zero's log expect it.
LABEL: Final = "[BST] "

_domains_log: Final = logging.getLogger("pointsman.domains")


def enrich(agent: Any, loop_data: Any, *, profiles: Path = PROFILES) -> None:
    """Decide the domains of the current user message and add their guidance to the prompt being built.

    Call it from ``message_loop_prompts_after``. Tool iterations on one user message get the same guidance
    again; deciding happens once. A failure is logged and counted in the agent's data, and leaves the prompt
    as it is.
    """
    try:
        _enrich(agent, loop_data, profiles)
    except Exception:  # noqa: BLE001 - the agent's work goes on without guidance
        agent.set_data(FAILURES_KEY, (agent.get_data(FAILURES_KEY) or 0) + 1)
        _log.exception("%sNo domain guidance for this prompt", LABEL)


def _enrich(agent: Any, loop_data: Any, profiles: Path) -> None:
    message = loop_data.user_message
    if message is None:
        return
    scanner, tracker = _classifier()
    text = _words(message.content)
    decision, memory = tracker.decide(
        scanner.scan(text), _memory(agent), _key(message, text), _profile(agent, tracker, profiles)
    )
    agent.set_data(MEMORY_KEY, msgspec.to_builtins(memory))
    loop_data.extras_persistent[DOMAIN_KEY] = decision.effective.primary.domain
    loop_data.extras_persistent[COMPOUND_KEY] = decision.to_dict()
    if decision.enrichment:
        loop_data.extras_temporary[EXTRAS_KEY] = decision.enrichment


@cache
def _classifier() -> tuple[Scanner, DomainTracker]:
    domains = default_domains()
    scanner = open_scanner(domains.signals())
    return scanner, DomainTracker(domains, scanner.table, label=LABEL)


def _memory(agent: Any) -> DomainMemory:
    stored = agent.get_data(MEMORY_KEY)
    return msgspec.convert(stored, DomainMemory) if stored else DomainMemory()


def _words(content: Any) -> str:
    """The user's words in a message: plain text, or a field of the template that Agent Zero filled in."""
    if isinstance(content, Mapping):
        return str(content.get("user_message") or content.get("user_intervention") or "")
    return content if isinstance(content, str) else ""


def _key(message: Any, text: str) -> str:
    """The message's id. Versions without ids get a digest: the same words twice in a row are one message."""
    identity = getattr(message, "id", None)
    return str(identity) if identity else blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()


def load_model_profile(agent: Any, *, profiles: Path = PROFILES) -> dict[str, Any] | None:
    """The evaluation profile of the agent's chat model, or None when there is none or it is broken."""

    def read(model: str) -> str | None:
        if ".." in PurePosixPath(model).parts or model.startswith("/"):
            return None  # a model's name is no way out of the folder
        path = profiles / f"{model}.json"
        return path.read_text("utf-8") if path.is_file() else None

    return read_model_profile(agent, read)


def _profile(agent: Any, tracker: DomainTracker, profiles: Path) -> ModelProfile:
    profile = load_model_profile(agent, profiles=profiles)
    if profile is None:
        return PERMISSIVE
    disabled = frozenset(tracker.domains.resolve(name) for name in disabled_domains(profile))
    return ModelProfile(model_name(agent), disabled)


def model_name(agent: Any) -> str:
    """The name of an agent's chat model; empty when it has none."""
    config = getattr(agent, "config", None)
    model = config.get("chat_model", "") if isinstance(config, Mapping) else getattr(config, "chat_model", "")
    return str(model if isinstance(model, str) else getattr(model, "name", ""))


def read_model_profile(agent: Any, read: Callable[[str], str | None] | None = None) -> dict[str, Any] | None:
    """The profile of the agent's chat model, or None: nothing is disabled then.

    Args:
        agent: has ``config``, a mapping or an object, with ``chat_model``: a name, or an object with one.
        read: returns the profile text of a model name, or None. Without it there is no profile;
            ``load_model_profile`` reads ``/a0/usr/profiles``.

    A broken profile is logged as a warning and counts as none.
    """
    model = model_name(agent)
    text = read(model) if read and model else None
    if text is None:
        return None
    try:
        profile = json.loads(text)
        disabled_domains(profile)
    except (ValueError, TypeError, AttributeError) as error:
        _domains_log.warning(
            "%sProfile of %s is invalid, all enrichment stays enabled: %s", LABEL, model, error
        )
        return None
    return dict(profile)
