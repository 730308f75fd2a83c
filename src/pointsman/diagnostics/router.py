"""The ``/router`` command: show, ``classifier MODEL``, doctor; on the terminal and in band.

Source: docs/sources/prompt-classifier.md, "Configuration".
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pointsman.config import Config, examine
from pointsman.config.edit import set_value, write_file
from pointsman.config.files import read
from pointsman.config.trust import check_trust
from pointsman.decoding import syntax_error
from pointsman.diagnostics._doctor import Check, diagnose
from pointsman.diagnostics.aliases import describe_aliases, describe_taken_ids, list_aliases, taken_ids
from pointsman.errors import ConfigError, did_you_mean
from pointsman.vocabulary import ModelSpec, Tier

__all__ = ["USAGE", "answer_in_band", "choose_classifier", "describe_check", "describe_routing"]

USAGE = "/router [show] | /router classifier MODEL | /router doctor"

_VERIFY = ("tiers", "verify", "model")


def describe_routing(config: Config) -> str:
    """Return which model serves which tier, how the tier is decided, and what other names mean."""
    tiers = config.tiers
    lines = [f"profile {tiers.profile}, from {config.source or 'no file'}"]
    for tier in Tier:
        lines += _tier(config, tier)
    if verify := tiers.verify:
        money = "" if verify.money_per_day is None else f", {verify.money_per_day:g} a day"
        margin = "the profile's margin" if verify.margin is None else f"margin {verify.margin:g}"
        lines.append(
            f"classifier {verify.model}: {margin}, "
            f"at most {verify.share:.0%} of requests{money}, {verify.timeout_ms} ms"
        )
    else:
        lines.append("classifier none: the rules decide alone")
    selecting = config.capabilities.effective_mode
    lines.append(f"guidance {config.guidance.mode}, domains {config.domains.mode}, capabilities {selecting}")
    lines.extend(describe_aliases(list_aliases(config)))
    lines.extend(describe_taken_ids(taken_ids(config)))
    return "\n".join(lines)


def choose_classifier(file: Path, wanted: str) -> str:
    """Make another model the one that is asked when the rules are unsure; returns its configured name.

    Args:
        file: the configuration; comments and everything else in it stay as they are.
        wanted: a configured name, or the id of a configured model.

    Raises:
        ConfigError: no such model is configured, it cannot be asked, or the file cannot be changed.
    """
    text = read(file)
    check_trust(file, text)
    name = _configured(_models(text, file), wanted)
    edited = set_value(text, _VERIFY, json.dumps(name))
    before = {_without_place(error) for error in examine(file, text=text).errors}
    for error in examine(file, text=edited).errors:
        if _without_place(error) not in before:
            raise error
    write_file(file, edited)
    return name


def describe_check(check: Check) -> str:
    """Return a check as one line, and its way out as another."""
    mark = "ok  " if check.ok else "note" if check.is_advice else "FAIL"
    line = f"{mark} {check.name}: {check.detail}"
    return f"{line}\n     hint: {check.hint}" if check.hint else line


def answer_in_band(text: str, config: Config, file: Path | None) -> str:
    """Answer what follows ``/router`` in a message. Upstreams are not asked: the caller waits for this.

    Raises:
        ConfigError: as ``choose_classifier``.
    """
    match text.split():
        case [] | ["show"]:
            return describe_routing(config)
        case ["classifier", wanted] if file is not None:
            return f'classifier is now "{choose_classifier(file, wanted)}"'
        case ["doctor"]:
            return "\n".join(describe_check(check) for check in diagnose(file, ask_upstreams=False))
        case _:
            return USAGE


def _tier(config: Config, tier: Tier) -> Iterator[str]:
    """A line for each model of a tier."""
    pool = config.tiers.pools.get(tier, ())
    if not pool:
        yield f"  {tier:<9}  -"
    for place, entry in enumerate(pool):
        model = config.models[entry.model]
        share = f", weight {entry.weight:g}" if entry.weight is not None else ""
        given = f", {entry.parameters}" if entry.parameters else ""
        line = f"{model.name}: {model.id} at {model.upstream}, {_prices(model)}{share}{given}"
        yield f"  {'' if place else tier:<9}  {line}"


def _prices(model: ModelSpec) -> str:
    if model.input_per_million is None or model.output_per_million is None:
        return "price unknown"
    return f"{model.input_per_million:g} in, {model.output_per_million:g} out"


def _models(text: str, file: Path) -> Mapping[str, Any]:
    try:
        models = tomllib.loads(text).get("models")
    except tomllib.TOMLDecodeError as error:
        message, line = syntax_error(error, text)
        raise ConfigError(message, place=f"{file}:{line}") from None
    return models if isinstance(models, dict) else {}


def _configured(models: Mapping[str, Any], wanted: str) -> str:
    ids = {model.get("id"): name for name, model in models.items() if isinstance(model, dict)}
    if name := wanted if wanted in models else ids.get(wanted):
        return name
    near = did_you_mean(wanted, [*models, *filter(None, ids)])
    raise ConfigError(f'unknown model "{wanted}"{near}', hint=f"configured: {', '.join(models) or 'none'}")


def _without_place(error: ConfigError) -> str:
    return str(error).removeprefix(error.place)
