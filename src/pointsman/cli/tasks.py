"""``pointsman select`` and ``run``: choose the capabilities of tasks, and execute one task with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

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
    Switches,
    parse_calibration,
    parse_commands,
    take_switch,
)
from pointsman.cli.output import (
    FAILED,
    ConfigOption,
    config_file,
    echo,
    json_line,
    needs_extra,
    print_json,
    read_config,
    read_lines,
    require_model,
)
from pointsman.config import CapabilitiesSpec, load
from pointsman.config.applications import load_registry
from pointsman.decoding import UNREADABLE, why_unreadable
from pointsman.encoders import load_encoder
from pointsman.errors import ConfigError
from pointsman.model_calls import Ask, ask_models, ask_nobody
from pointsman.orchestrator import answer_batches, load_capabilities

if TYPE_CHECKING:
    from pointsman.api import Pointsman
    from pointsman.orchestrator import Agent, Application


class Task(msgspec.Struct, frozen=True):
    """One line of input."""

    task: str
    id: Any = None


_decode: Final = msgspec.json.Decoder(Task).decode

CapabilitiesFile = Annotated[Path, typer.Option("--capabilities", help="JSON list of capabilities.")]
EncoderName = Annotated[str, typer.Option("--encoder", help="none, static or sentence.")]


def select(
    file: Annotated[Path | None, typer.Argument(help="JSON lines; default: standard input.")] = None,
    *,
    capabilities: Annotated[
        Path | None, typer.Option(help="JSON list of capabilities; default: the configured one.")
    ] = None,
    strategy: Annotated[
        Strategy | None, typer.Option(help="Local score, model, or both; default: configured, or local.")
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="none, static or sentence; default: configured, or none.")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Probability from which a capability is selected.", min=0, max=1)
    ] = None,
    calibration: Annotated[
        Path | None, typer.Option(help="File written by pointsman fit capabilities.")
    ] = None,
    on_failure: Annotated[
        OnFailure | None,
        typer.Option(help="Fallback when no model is available; default: configured, or local."),
    ] = None,
    model: Annotated[str, typer.Option(help="Configured model that judges uncertain capabilities.")] = "",
    config: ConfigOption = None,
) -> None:
    """Select capabilities: JSON lines {"id", "task"} in, {"id", "selected", "scores", …} out.

    Options that are not given default to [capabilities] of the configuration. A malformed line gives an error
    object in its place, and processing continues; the exit code is then 1.
    """
    import asyncio

    configured = read_config(config)
    table = configured.capabilities
    source = capabilities or table.file
    if source is None and not table.application:
        raise ConfigError(
            "no capabilities are named", hint="--capabilities FILE, or file or application in [capabilities]"
        )
    given = {"strategy": strategy, "threshold": threshold, "on_failure": on_failure, "model": model or None}
    policy = _selection(table, {name: value for name, value in given.items() if value is not None})
    if model and policy.strategy is Strategy.LOCAL:
        raise ConfigError(f'strategy "local" asks no model: "{model}"', hint="--strategy hybrid, or llm")
    registry = (load_capabilities(source) if source else load_registry(table.application)).activated(
        table.always_active
    )
    fitted = read_calibration(calibration or table.calibration)
    scorer = LocalScorer(registry, load_encoder(encoder or table.encoder), fitted)
    ask = _asking(policy.model, config) if policy.model else ask_nobody
    commands = bool(configured.source) and configured.server.router_command
    if not asyncio.run(answer_lines(file, Selector(registry, scorer, policy), ask, commands=commands)):
        raise typer.Exit(FAILED)


def _selection(table: CapabilitiesSpec, given: Mapping[str, Any]) -> SelectionPolicy:
    """Return the policy of the file, overridden by the options."""
    configured = {name: getattr(table, name) for name in SelectionPolicy.__struct_fields__}
    return SelectionPolicy(**{**configured, **given})


def read_calibration(file: Path | None) -> Calibration | None:
    """Read a calibration file.

    Raises:
        ConfigError: it cannot be read or is something else.
    """
    if file is None:
        return None
    try:
        return parse_calibration(file.read_bytes(), str(file))
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", place=str(file)) from error


def _asking(model: str, config: Path | None) -> Ask:
    """A driver that asks the configured model."""
    with needs_extra("gateway", needed_for="asking a model"):
        from pointsman.upstreams.chat_model import chat_models
        from pointsman.upstreams.connections import Connections
    loaded = load(config_file(config))
    require_model(loaded, model)
    return ask_models(chat_models(loaded.models, loaded.upstreams, Connections()), default=model)


async def answer_lines(file: Path | None, selector: Selector, ask: Ask, *, commands: bool = False) -> bool:
    """Answer every line. Returns whether all were valid; with ``commands`` a task may begin with one."""
    from asyncio import sleep

    good = True
    for number, raw in read_lines(file):
        try:
            task = _decode(raw)
        except UNREADABLE as error:
            good = False
            echo(json_line({"error": {"line": number, "message": why_unreadable(error)}}))
            continue
        await sleep(0)  # where Ctrl-C is heard: without a model nothing else waits
        command, text = take_switch(task.task) if commands else ("", task.task)
        bypass = Switches.of(parse_commands(command)[0]).capability_bypass
        selection = await answer_batches(selector.select(text, bypass=bypass), ask)
        echo(json_line({"id": task.id, **_as_json(selection)}))
    return good


def _as_json(selection: Selection) -> dict[str, object]:
    return {
        "selected": selection.selected,
        "scores": {name: round(score, 4) for name, score in selection.scores.items()},
        "asked_model": selection.asked_model,
        "abstained": selection.abstained or None,
    }


def run(
    task: Annotated[str, typer.Argument(help="The task; may begin with /caps:off, /task:off or /chat.")],
    *,
    app: Annotated[
        Path | None,
        typer.Option(
            help="Python file that defines `application`; default: the configured one, else the built-in one."
        ),
    ] = None,
    session: Annotated[
        str, typer.Option(help="Session in the ledger; default: one for this run alone.")
    ] = "",
    config: ConfigOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Approve every step that needs approval.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the final state as JSON.")] = False,
) -> None:
    """Execute one task and print the answer; the router's moves go to standard error.

    Each question of an application that sets no model asks the configured model of its tier. The run
    is recorded in the ledger. The exit code is 0 when the task was answered and 1 when the run ended in an
    error.
    """
    import asyncio

    from pointsman.orchestrator import Agent

    with _application(app, config) as application:
        agent = Agent(application, approve=_agree if yes else _ask)
        state = asyncio.run(_follow(agent, task, session))
    if as_json:
        print_json(state)
    else:
        echo(state.get("response") or "")
    echo(f"pointsman decisions show {state['control_run_id']}", err=True)
    if state["control_outcome"] not in ("respond", "clarify"):
        raise typer.Exit(FAILED)


@contextmanager
def _application(file: Path | None, config: Path | None) -> Iterator[Application]:
    """The application named or built in, with the configured models, limits and ledger."""
    from pointsman.orchestrator import load_application
    from pointsman.orchestrator.default_application import NO_MODEL, OfflineModel, default_application
    from pointsman.upstreams.chat_model import unasked

    settings = read_config(config)
    named = str(file) if file else settings.capabilities.application
    chosen = load_application(named) if named else default_application()
    with _pointsman(config) as pointsman:
        application = pointsman.application(chosen)
        if application.model is None:
            why = unasked(settings.models, settings.upstreams) or NO_MODEL
            echo(f"no model can be asked, so results are repeated as they are: {why}", err=True)
            application = replace(application, model=OfflineModel(why))
        yield application


def _pointsman(config: Path | None) -> Pointsman:
    """As configured; without a configuration the default policy, and the ledger in its usual place."""
    from pointsman.api import Pointsman
    from pointsman.config import find
    from pointsman.config.files import state_file
    from pointsman.stores.ledger import SqliteLedger

    found = config or find()
    if found is None:
        return Pointsman(ledger=SqliteLedger(state_file("ledger.sqlite")))
    with needs_extra("gateway", needed_for="asking the configured models"):
        return Pointsman.from_config(found)


async def _follow(agent: Agent, task: str, session: str) -> Mapping[str, Any]:
    state: Mapping[str, Any] = {}
    async for progress in agent.stream(task, session=session):
        move = progress.move
        wait = f" after {move.delay:g} s" if move.delay else ""
        echo(f"{move.next}{wait}: {move.reason.detail}", err=True)
        state = progress.state
    return state


async def _ask(name: str, step: Mapping[str, Any]) -> bool:
    import asyncio

    from pointsman.orchestrator.machine import ClassifiedError, ErrorSeverity

    try:
        return await asyncio.to_thread(typer.confirm, f"Run {name} for {json_line(step)}?", err=True)
    except typer.Abort:
        why = f"{name} needs a person's approval, and standard input is closed; --yes approves every step"
        raise ClassifiedError(ErrorSeverity.CRITICAL, why) from None


async def _agree(name: str, step: Mapping[str, Any]) -> bool:  # noqa: ARG001 - the shape of Approve
    return True
