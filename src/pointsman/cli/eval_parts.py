"""``pointsman eval domains``, ``capabilities``, ``guidance``: evaluate the other three decisions."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from pointsman.cli.domains import DomainsFile, load_domains, reports_on, table_lines
from pointsman.cli.options import JsonOption
from pointsman.cli.output import FAILED, echo, needs_extra, print_json, read_lines, report_error
from pointsman.cli.select import EncoderName
from pointsman.cli.watch import read_run
from pointsman.cli.watch import table_lines as guidance_lines
from pointsman.decoding import UNREADABLE, why_unreadable
from pointsman.encoders import load_encoder
from pointsman.errors import CallerError, ConfigError
from pointsman.guidance import GuidancePolicy, Guide, Mode
from pointsman.learning.guidance import Summary, replay

if TYPE_CHECKING:
    from pointsman.learning.metrics import Interval
    from pointsman.learning.selection import Selections

__all__ = ["capabilities", "domains", "guidance"]

JsonLines = Annotated[Path, typer.Argument(help="JSON lines, optionally gzipped.")]
Seed = Annotated[int, typer.Option(help="Random seed of the bootstrap.")]


def domains(
    file: JsonLines,
    domains: DomainsFile = None,
    encoder: EncoderName = "none",
    seed: Seed = 0,
    as_json: JsonOption = False,
) -> None:
    """Evaluate domain memory on labelled dialogues, with confidence intervals over dialogues.

    Baselines: no memory, momentum as in the source document, carry-on-null. A line has dialogue_id, turn,
    text and domain, and may have speaker (only "user" is read) and switch.
    """
    with needs_extra("fit", "pointsman eval domains"):
        from pointsman.learning.metrics import ratio_interval

    reports = reports_on(file, load_domains(domains), encoder, spread=partial(ratio_interval, seed=seed))
    if as_json:
        print_json({"rows": reports})
    else:
        echo("\n".join(table_lines(reports)))


def capabilities(
    file: JsonLines,
    descriptions: Annotated[
        Path | None, typer.Option(help='JSON {"name": "description"}; default: the names alone.')
    ] = None,
    examples: Annotated[
        int, typer.Option(min=0, help="Examples per capability, from tasks outside the holdout.")
    ] = 10,
    encoder: EncoderName = "none",
    seed: Seed = 0,
    as_json: JsonOption = False,
) -> None:
    """Evaluate the selection of capabilities, beside four baselines.

    Baselines: TF-IDF, the nearest example, the most frequent class, chance. A line has task (or text, query)
    and capabilities (or label, tool), and may have split. Without split, one line in five is held out and the
    others are examples. Label "oos" means out of scope.
    """
    with needs_extra("fit", "pointsman eval capabilities"):
        from pointsman.learning.selection import evaluate_selection, read_labelled

    found = evaluate_selection(
        read_labelled(read_lines(file), str(file)),
        described=_descriptions(descriptions) if descriptions else {},
        examples=examples,
        encoder=load_encoder(encoder),
        seed=seed,
    )
    if as_json:
        print_json(found)
    else:
        echo("\n".join(_selection_lines(found)))


def guidance(file: JsonLines, as_json: JsonOption = False) -> None:
    """Evaluate guidance on recorded runs, by source and outcome, beside four simple rules.

    A line has "id" and either "messages" and "format" (chat, responses, messages) or "steps", and may have
    "source" and "success". A malformed line is reported, and the exit code is then 1.
    """
    guide, counts, failed = Guide(GuidancePolicy(mode=Mode.ON)), Summary(), False
    for number, raw in read_lines(file):
        try:
            run = read_run(raw)
            counts.add(run, replay(run, guide))
        except CallerError as error:
            failed = True
            report_error(ConfigError(str(error), place=f"{file}:{number}"))
    if as_json:
        print_json({"rows": counts.rows()})
    else:
        echo("\n".join(guidance_lines(counts.rows())))
    if failed:
        raise typer.Exit(FAILED)


def _descriptions(file: Path) -> dict[str, str]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, str])
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", place=str(file)) from error
    except UNREADABLE as error:
        raise ConfigError(f"not descriptions by name: {why_unreadable(error)}", place=str(file)) from error


def _selection_lines(found: Selections) -> list[str]:
    lines = [f"{'':12}{'n':>6}  {'the likeliest is needed':>26}  {'all needed in the first five':>28}"]
    lines += [
        f"{row.selector:12}{row.n:>6}  {_shown(row.first):>26}  {_shown(row.first_five):>28}"
        for row in found.rows
    ]
    chosen = found.selected
    parts = {
        "exactly right": chosen.exact,
        "needed ones selected": chosen.recall,
        "nothing selected where nothing serves": chosen.rejected,
        "calibration error": chosen.error,
    }
    shown = ", ".join(f"{name} {value:.3f}" for name, value in parts.items() if value is not None)
    return [
        *lines,
        f"{found.capabilities} capabilities, up to {found.examples} examples each",
        f"pointsman at its threshold of {found.threshold}, {chosen.tasks} tasks: {shown}",
    ]


def _shown(found: Interval) -> str:
    return f"{found.value:.3f} ({found.low:.3f} .. {found.high:.3f})"
