"""Predictions in the format of RouterArena: which model the router would give each prompt of its set.

Two files go into ``router_inference`` of that project: ``config/NAME.json``, which lists the models, and
``predictions/NAME.json`` (``NAME-robustness.json`` for the changed prompts), one entry for each prompt.
Source of the format: its ``router_inference/generate_prediction_file.py`` and
``check_config_prediction_files.py`` (github.com/RouteWorks/RouterArena).

    .venv/bin/python benchmarks/routerarena.py router_data.json --router NAME --out router_inference
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from pointsman.cli.output import ConfigOption, config_file, echo
from pointsman.config import AnyKey, load
from pointsman.decision.engine import Engine
from pointsman.decision.memory import Memory
from pointsman.decision.policy import Policy
from pointsman.decoding import UNREADABLE, why_unreadable
from pointsman.drivers import drive, no_model
from pointsman.errors import ConfigError
from pointsman.factory import build_engine, build_policy
from pointsman.model_choice.chains import pools
from pointsman.wire.request import request_from_text

_SUFFIX: Final = "-robustness"


class Prompt(msgspec.Struct, frozen=True):
    """One entry of the set, ``router_data.json``, ``router_data_10.json`` or ``router_robustness.json``."""

    index: str = msgspec.field(name="global index")
    prompt_formatted: str = ""
    prompt: str = ""

    @property
    def words(self) -> str:
        """The prompt as the router gets it; their checker compares it letter by letter."""
        return self.prompt_formatted or self.prompt


def read_prompts(file: Path) -> list[Prompt]:
    """Read a set.

    Raises:
        ConfigError: the file cannot be read or is of another shape.
    """
    try:
        found = msgspec.json.decode(file.read_bytes(), type=list[Prompt])
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", place=str(file)) from error
    except UNREADABLE as error:
        raise ConfigError(f"not a set of RouterArena: {why_unreadable(error)}", place=str(file)) from error
    for at, each in enumerate(found):
        if not each.words:
            raise ConfigError(f"entry {at + 1} has no prompt", place=str(file))
    return found


def write_predictions(
    prompts: Sequence[Prompt], policy: Policy, router: str, folder: Path, *, robustness: bool = False
) -> tuple[Path, Path]:
    """Decide every prompt and write both files. Returns their paths: config, predictions.

    Raises:
        ConfigError: the policy names no models to choose from.
    """
    if not policy.tier_models:
        raise ConfigError("no model is named for a tier", hint="[tiers] simple = …, complex = …")
    engine = build_engine(policy)
    names = (entry.model for pool in pools(policy.tier_models).values() for entry in pool)
    ids = list(dict.fromkeys(policy.models[name].id for name in names))
    config = {"pipeline_params": {"router_name": router, "models": ids}}
    entries = [
        {
            "global index": each.index,
            "prompt": each.words,
            "prediction": _chosen(engine, each.words),
            "generated_result": None,
            "cost": None,
            "accuracy": None,
            "for_optimality": False,
        }
        for each in prompts
    ]
    suffix = _SUFFIX if robustness else ""
    files = folder / "config" / f"{router}.json", folder / "predictions" / f"{router}{suffix}.json"
    for file, content in zip(files, (config, entries), strict=True):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    return files


def _chosen(engine: Engine, prompt: str) -> str:
    """Id of the first model of the chain for a prompt without a conversation."""
    decision = drive(engine.decide(request_from_text(prompt), Memory(), ""), no_model).decision
    if not decision.chain:
        why = "; ".join(reason.detail for reason in decision.refused)
        raise ConfigError(f"no model can serve a prompt of the set: {why}", place="[models]")
    return engine.policy.models[decision.chain[0]].id


app = typer.Typer(add_completion=False)


@app.command()
def export(
    data: Annotated[Path, typer.Argument(help="Data set: router_data.json of RouterArena.")],
    *,
    router: Annotated[str, typer.Option(help="Name of the router in the output files.")],
    out: Annotated[Path, typer.Option(help="Output folder; gets config/ and predictions/.")],
    robustness: Annotated[
        bool, typer.Option("--robustness", help="The data set is router_robustness.json.")
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Write the model that the configured policy chooses for each prompt of a public data set.

    Predictions are model ids, so the configuration must use the ids of the data set.
    """
    policy = build_policy(load(config_file(config), AnyKey()))
    prompts = read_prompts(data)
    files = write_predictions(prompts, policy, router, out, robustness=robustness)
    echo(f"{len(prompts):,} predictions for routerarena: {files[0]}, {files[1]}")


if __name__ == "__main__":
    app()
