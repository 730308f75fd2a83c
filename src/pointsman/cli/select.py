"""``pointsman select``: select the capabilities of tasks. JSON lines in, JSON lines out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

from pointsman.capabilities import (
    Calibration,
    LocalScorer,
    OnFailure,
    Selection,
    SelectionPolicy,
    Selector,
    Strategy,
)
from pointsman.cli.options import ConfigOption
from pointsman.cli.output import FAILED, config_file, json_line, needs_extra, read_lines
from pointsman.config.load import load
from pointsman.decoding import UNREADABLE, why_unreadable
from pointsman.encoders import load_encoder
from pointsman.errors import ConfigError
from pointsman.model_calls import Ask, ask_models, ask_nobody
from pointsman.orchestrator import answer_batches, load_capabilities

__all__ = ["answer_lines", "register"]


class Task(msgspec.Struct, frozen=True):
    """One line of input."""

    task: str
    id: Any = None


_decode: Final = msgspec.json.Decoder(Task).decode

CapabilitiesFile = Annotated[Path, typer.Option("--capabilities", help="JSON list of capabilities.")]
EncoderName = Annotated[str, typer.Option("--encoder", help="none, static or sentence.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(select)


def select(
    file: Annotated[Path | None, typer.Argument(help="JSON lines; default: standard input.")] = None,
    *,
    capabilities: CapabilitiesFile,
    strategy: Annotated[Strategy, typer.Option(help="Local score, model, or both.")] = Strategy.HYBRID,
    encoder: EncoderName = "none",
    threshold: Annotated[
        float | None, typer.Option(help="Probability from which a capability is selected.", min=0, max=1)
    ] = None,
    calibration: Annotated[
        Path | None, typer.Option(help="File written by pointsman fit capabilities.")
    ] = None,
    on_failure: Annotated[
        OnFailure, typer.Option(help="Fallback when no model is available.")
    ] = OnFailure.LOCAL,
    model: Annotated[str, typer.Option(help="Configured model that judges uncertain capabilities.")] = "",
    config: ConfigOption = None,
) -> None:
    """Select capabilities: JSON lines {"id", "task"} in, {"id", "selected", "scores", …} out.

    A malformed line gives an error object in its place, and processing continues; the exit code is then 1.
    """
    import asyncio

    registry = load_capabilities(capabilities)
    scorer = LocalScorer(registry, load_encoder(encoder), read_calibration(calibration))
    limit = SelectionPolicy().threshold if threshold is None else threshold
    policy = SelectionPolicy(strategy=strategy, threshold=limit, on_failure=on_failure)
    ask = _ask(model, config) if model else ask_nobody
    if not asyncio.run(answer_lines(file, Selector(registry, scorer, policy), ask)):
        raise typer.Exit(FAILED)


def read_calibration(file: Path | None) -> Calibration | None:
    """Read a calibration file.

    Raises:
        ConfigError: it cannot be read or is something else.
    """
    if file is None:
        return None
    try:
        return Calibration.from_json(msgspec.json.decode(file.read_bytes(), type=dict[str, Any]))
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", place=str(file)) from error
    except UNREADABLE as error:
        raise ConfigError(f"not JSON: {why_unreadable(error)}", place=str(file)) from error


def _ask(model: str, config: Path | None) -> Ask:
    """A driver that asks the configured model."""
    with needs_extra("gateway", needed_for="asking a model"):
        from pointsman.upstreams.chat_model import chat_models
        from pointsman.upstreams.connections import Connections
    loaded = load(config_file(config))
    if model not in loaded.models:
        raise ConfigError(f'no model "{model}"', hint=f"configured: {', '.join(loaded.models) or 'none'}")
    return ask_models(chat_models(loaded.models, loaded.upstreams, Connections()), default=model)


async def answer_lines(file: Path | None, selector: Selector, ask: Ask) -> bool:
    """Answer every line. Returns whether all were valid."""
    from asyncio import sleep

    good = True
    for number, raw in read_lines(file):
        try:
            task = _decode(raw)
        except UNREADABLE as error:
            good = False
            typer.echo(json_line({"error": {"line": number, "message": why_unreadable(error)}}))
            continue
        await sleep(0)  # where Ctrl-C is heard: without a model nothing else waits
        selection = await answer_batches(selector.select(task.task), ask)
        typer.echo(json_line({"id": task.id, **_as_json(selection)}))
    return good


def _as_json(selection: Selection) -> dict[str, object]:
    return {
        "selected": selection.selected,
        "scores": {name: round(score, 4) for name, score in selection.scores.items()},
        "asked_model": selection.asked_model,
        "abstained": selection.abstained or None,
    }
