"""What Agent Zero's agents and shared state look like: keys, and the profile of an agent's chat model."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from pointsman.domains.data import disabled_domains

__all__ = ["COMPOUND_KEY", "DOMAIN_KEY", "LABEL", "load_model_profile", "model_name"]

#: Shared-state keys: the primary domain alone, and the whole classification.
DOMAIN_KEY: Final = "_bst_domain"
COMPOUND_KEY: Final = "_bst_compound"

#: Before every line for the prompt and for the log, as readers of Agent Zero's log expect it.
LABEL: Final = "[BST] "

_log: Final = logging.getLogger("pointsman.domains")


def model_name(agent: Any) -> str:
    """The name of an agent's chat model; empty when it has none."""
    config = getattr(agent, "config", None)
    model = config.get("chat_model", "") if isinstance(config, Mapping) else getattr(config, "chat_model", "")
    return str(model if isinstance(model, str) else getattr(model, "name", ""))


def load_model_profile(agent: Any, read: Callable[[str], str | None] | None = None) -> dict[str, Any] | None:
    """The profile of the agent's chat model, or None: nothing is disabled then.

    Args:
        agent: has ``config``, a mapping or an object, with ``chat_model``: a name, or an object with one.
        read: returns the profile text of a model name, or None. Without it there is no profile;
            ``pointsman.integrations.agent_zero`` reads ``/a0/usr/profiles``.

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
        _log.warning("%sProfile of %s is invalid, all enrichment stays enabled: %s", LABEL, model, error)
        return None
    return dict(profile)
