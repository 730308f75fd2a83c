"""``pointsman fit capabilities``: calibrate the selection on labelled tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from pointsman.cli.options import JsonOption
from pointsman.cli.output import echo, needs_extra, print_json, read_lines, save, writable
from pointsman.cli.select import CapabilitiesFile, EncoderName
from pointsman.encoders import load_encoder
from pointsman.learning.capabilities import CalibrationReport, fit_capabilities, read_tasks
from pointsman.orchestrator import load_capabilities

__all__ = ["capabilities"]


def capabilities(
    *,
    data: Annotated[Path, typer.Option(help='JSON lines: {"task", "capabilities": [name, …]}.')],
    capabilities: CapabilitiesFile,
    out: Annotated[Path, typer.Option(help="Output file of the calibration.")],
    encoder: EncoderName = "none",
    as_json: JsonOption = False,
) -> None:
    """Calibrate the selection of capabilities, and report results on held-out tasks.

    Use the result with pointsman select --calibration and the same --encoder.
    """
    writable(out)
    registry = load_capabilities(capabilities)
    tasks = read_tasks(read_lines(data), str(data))
    with needs_extra("fit", "pointsman fit capabilities"):
        fitted = fit_capabilities(registry, tasks, encoder=load_encoder(encoder))
    save(out, msgspec.json.format(msgspec.json.encode(fitted.calibration.to_json()), indent=2))
    if as_json:
        print_json({"calibration": str(out), "before": fitted.before, "after": fitted.after})
        return
    echo(f"{'':24}{'exact':>8}{'recall':>8}{'rejected':>10}{'error':>8}")
    echo(_line("guides' own", fitted.before))
    echo(_line("fitted, unseen tasks", fitted.after))
    echo(f"{fitted.after.tasks} tasks; calibration written to {out}")


def _line(name: str, report: CalibrationReport) -> str:
    shares = [report.exact, report.recall, report.rejected, report.error]
    cells = ["–" if share is None else f"{share:.3f}" for share in shares]
    widths = (8, 8, 10, 8)
    return name.ljust(24) + "".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
