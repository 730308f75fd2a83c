"""The pages ``/v1/models`` and ``/v1/models/{name}``: names to ask for, with context window and price.

Each client reads its own fields: OpenAI's and Anthropic's SDKs, and agents that know OpenRouter's list.
Unknown fields are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pointsman.gateway._live_state import LiveState
from pointsman.model_choice.chains import FALLBACK_CHAIN
from pointsman.model_choice.pools import Pool
from pointsman.tiers import asks_to_decide, forced_tier
from pointsman.vocabulary import ModelSpec, Tier

__all__ = ["model_list", "model_page"]

#: OpenRouter's names of prices per token, which it writes as decimal numbers in text.
_PRICES: Final = {
    "prompt": "input_per_million",
    "completion": "output_per_million",
    "input_cache_read": "cached_input_per_million",
    "input_cache_write": "cache_write_per_million",
}


def model_list(state: LiveState) -> dict[str, Any]:
    """Return what can be asked for by a fixed name: ``auto``, the tiers, the models, and exact aliases."""
    names = dict.fromkeys(["auto", *(tier.lower() for tier in Tier), *state.targets, *state.names.exact])
    data = [_entry(name, state) for name in names]
    ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"]}
    return {"object": "list", "data": data, "has_more": False, **ends}


def model_page(name: str, state: LiveState) -> dict[str, Any] | None:
    """Return the entry of a name; None if no model would serve it."""
    if not name or not state.names.serves(name):
        return None
    return _entry(name.removeprefix("pointsman/"), state)


def _entry(name: str, state: LiveState) -> dict[str, Any]:
    models = [state.targets[each].model for each in _serving(name, state) if each in state.targets]
    return {
        "id": name,
        "object": "model",
        "type": "model",
        "created": 0,
        "created_at": "1970-01-01T00:00:00Z",
        "display_name": name,
        "owned_by": "pointsman",
        **_limits(models),
        **_pricing(models),
    }


def _serving(name: str, state: LiveState) -> Iterable[str]:
    """Configured names of the models that may serve a name."""
    tier, pools = forced_tier(name), state.pools
    if tier is None and not asks_to_decide(name):
        named = state.names.resolve(name)
        if named is None:
            return ()
        if named.target.model:
            return [named.target.model]
        tier = named.target.tier
    if tier is None:
        return _of(pools.values())
    near = next((pools[step] for step in FALLBACK_CHAIN[tier] if step in pools), ())
    return _of([pools.get(tier, near)])


def _of(pools: Iterable[Pool]) -> Iterable[str]:
    return dict.fromkeys(entry.model for pool in pools for entry in pool)


def _limits(models: Sequence[ModelSpec]) -> dict[str, int]:
    """The smallest context window and output limit of the models that may serve, where any is known."""
    windows = [model.context_window for model in models if model.context_window is not None]
    outputs = [model.max_output_tokens for model in models if model.max_output_tokens is not None]
    found: dict[str, int] = {}
    if windows:
        found |= dict.fromkeys(("context_length", "context_window", "max_input_tokens"), min(windows))
    if outputs:
        found |= dict.fromkeys(("max_output_tokens", "max_tokens"), min(outputs))
    return found


def _pricing(models: Sequence[ModelSpec]) -> dict[str, Mapping[str, str]]:
    """The prices, where all models that may serve have the same, known ones."""
    found = [_per_token(model) for model in models]
    if not found or not found[0] or any(each != found[0] for each in found):
        return {}
    return {"pricing": found[0]}


def _per_token(model: ModelSpec) -> dict[str, str]:
    if not model.is_priced:
        return {}
    values = {name: getattr(model, field) for name, field in _PRICES.items()}
    return {name: _decimal(value / 1e6) for name, value in values.items() if value is not None}


def _decimal(value: float) -> str:
    return f"{value:.12f}".rstrip("0").rstrip(".")
