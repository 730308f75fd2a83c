"""The job that the page Label begins: fit a router and boundaries on the labels, use them, take them back."""

from __future__ import annotations

import importlib.util
import logging
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from pointsman.config import Config
from pointsman.config.edit import write_file
from pointsman.config.files import read
from pointsman.console._view import GatewayView, Missing, Page, Redirect, Unusable, Visit
from pointsman.encoders.learned_routers import load_learned_router
from pointsman.errors import Overloaded, PointsmanError
from pointsman.reports.labels import count_pairs
from pointsman.reports.outcomes import prompts, scored
from pointsman.stores.ledger.port import Search

__all__ = ["Fits", "can_fit", "is_in_use"]

log = logging.getLogger(__name__)

#: Fits that are kept.
_KEPT: Final = 8
#: Seconds that one command may take.
_PATIENCE: Final = 600.0
#: Share of the stronger model's quality to keep, where the form names none.
_QUALITY: Final = 0.95
#: What the configuration was before the fit in use, and what that wrote, beside it.
_BEFORE: Final = ".before-fit"
_WRITTEN: Final = ".after-fit"

_State = Literal["running", "done", "refused", "failed"]
_encode: Final = msgspec.json.Encoder().encode


class _Job:
    """One fit, while it runs and after."""

    def __init__(self, file: Path, quality: float) -> None:
        self.id: Final = secrets.token_hex(8)
        self.file: Final = file  # the gateway's configuration
        self.quality: Final = quality
        self.begun_at: Final = time.time()
        self.base: Final = read(file)  # the configuration that the policy changes
        self.router: Final = file.with_name(f"{file.stem}.learned-router-{self.id}.json")
        self.policy = ""  # the configuration with the fitted policy; empty: there is nothing to use
        self.state: _State = "running"
        self.models: tuple[str, ...] = ()  # weak, strong
        self.prompts = 0
        self.said: list[str] = []  # by the commands, with the figures
        self.error = ""  # why there is nothing to use


class _Refused(PointsmanError):
    """These labels give no policy to use."""


class Fits:
    """The fits of one gateway: one at a time, in separate processes, so that requests are served."""

    def __init__(self) -> None:
        self._jobs: Final[OrderedDict[str, _Job]] = OrderedDict()
        self._lock: Final = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._is_closed = False

    def begin(self, visit: Visit) -> Redirect:
        """Begin a fit on all labels of the ledger."""
        view = visit.view
        file = _file(view.config)
        with self._lock:
            if any(job.state == "running" for job in self._jobs.values()):
                raise Overloaded("a fit runs already", hint="wait for it; the page Label names it")
            job = _Job(file, _share(visit.form.get("quality", "")))
            self._jobs[job.id] = job
            while len(self._jobs) > _KEPT:
                _drop(self._jobs.popitem(last=False)[1])
        threading.Thread(target=self._run, args=(view, job), name="console-fit", daemon=True).start()
        return Redirect(f"/console/fits/{job.id}")

    def page(self, visit: Visit) -> Page:
        """Show how far a fit is, its figures, or why it gives nothing to use."""
        job = self._job(visit)
        data = {"state": job.state, "models": job.models, "prompts": job.prompts, "lines": job.said,
                "error": job.error, "is_usable": bool(job.policy), "is_used": _is_used(job)}  # fmt: skip
        return Page("fit.html", {"job": job, **data}, data)

    def use(self, visit: Visit) -> Redirect:
        """Write the policy of a fit into the configuration, which the gateway then reads again."""
        job = self._job(visit)
        if not job.policy:
            raise Unusable("this fit gives no policy to use", hint=job.error)
        if read(job.file) != job.base:
            raise Unusable(f"{job.file} has changed since the fit began", hint="fit again, and use that")
        write_file(_beside(job.file, _BEFORE), job.base)
        write_file(_beside(job.file, _WRITTEN), job.policy)
        write_file(job.file, job.policy)
        log.info("the policy of a fit on %d prompts is written to %s", job.prompts, job.file)
        return Redirect(f"/console/fits/{job.id}")

    def take_back(self, visit: Visit) -> Redirect:
        """Write the configuration as it was before the fit in use, also of a gateway that ran before."""
        file = _file(visit.view.config)
        if not is_in_use(visit.view.config):
            before = _beside(file, _BEFORE)
            hint = f"{before} is what it was before" if before.is_file() else "no fit is in use"
            raise Unusable(f"{file} is not what a fit wrote", hint=hint)
        write_file(file, read(_beside(file, _BEFORE)))
        _beside(file, _WRITTEN).unlink(missing_ok=True)
        log.info("%s is as it was before the fit", file)
        return Redirect("/console/label")

    def latest(self) -> str:
        """The id of the latest fit; empty without one."""
        return next(reversed(self._jobs), "")

    def close(self) -> None:
        """End the one that runs."""
        self._is_closed = True
        if self._process is not None:
            self._process.kill()

    def _job(self, visit: Visit) -> _Job:
        job = self._jobs.get(visit.parts["id"])
        if job is None:
            raise Missing("there is no such fit (any more)", hint="begin it again on the page Label")
        return job

    def _run(self, view: GatewayView, job: _Job) -> None:
        try:
            with tempfile.TemporaryDirectory(prefix="pointsman-fit-") as folder:
                data = Path(folder) / "outcomes.jsonl"
                job.models, job.prompts = _export(view.ledger, view.config, data)
                self._fit(job, data)
            job.state = "done"
        except _Refused as error:
            job.error, job.state = error.message, "refused"
        except PointsmanError as error:
            job.error, job.state = f"{error.message}; {error.hint}" if error.hint else error.message, "failed"
        except Exception:
            log.exception("a fit failed")
            job.error, job.state = "it failed inside the console; the log says why", "failed"
        if job.state != "done":
            _drop(job)

    def _fit(self, job: _Job, data: Path) -> None:
        named = (f"--data={data}", f"--weak={job.models[0]}", f"--strong={job.models[1]}")
        self._command(job, "tiers", *named, "--out", str(job.router))
        if not load_learned_router(job.router).claim.improves:
            raise _Refused("the labels show no improvement over the rivals named above: nothing to use")
        out = job.file.with_name(f".{job.file.stem}.fit-{job.id}.toml")  # paths in it are relative to it
        try:
            cut = ("--learned-router", str(job.router), "--config", str(job.file))
            target = ("--quality", str(job.quality), "--out", str(out))
            self._command(job, "policy", *named, *cut, *target)
            job.policy = read(out)
        finally:
            out.unlink(missing_ok=True)

    def _command(self, job: _Job, *arguments: str) -> None:
        """Run one ``pointsman fit`` in a separate process; its output is shown.

        Raises:
            _Refused: it gives no result; with its message.
        """
        command = [sys.executable, "-m", "pointsman", "fit", *arguments]
        self._process = process = subprocess.Popen(  # noqa: S603 - our own command, without a shell
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        if self._is_closed:
            process.kill()
        try:
            said, wrong = process.communicate(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise _Refused(f"fit {arguments[0]} took longer than {_PATIENCE:g} seconds") from None
        finally:
            self._process = None
        job.said += said.splitlines()
        if process.returncode:
            raise _Refused(_words(wrong) or f"fit {arguments[0]} chose nothing: its last line says why")


def _words(wrong: str) -> str:
    return "; ".join(line.strip() for line in wrong.splitlines() if line.strip())[:2_000]


def _export(ledger: Search, config: Config, data: Path) -> tuple[tuple[str, str], int]:
    """Write what ``outcomes export`` writes of the two models that most prompts have labels of.

    Raises:
        _Refused: there are too few, or it is unknown which of the models is the cheaper one.
    """
    found = [each for record in ledger.records() if (each := scored(record, callers=False)) is not None]
    pairs = count_pairs(found)
    if pairs.missing_for_policy:
        raise _Refused(
            f"{pairs.prompts} prompts with labels of two models are too few: {pairs.missing_for_policy} more "
            f"for a policy; {pairs.single} have labels of one model alone"
        )
    rows = list(prompts(found, pairs.models))
    data.write_bytes(b"\n".join(map(_encode, rows)) + b"\n")
    return _by_price(config, pairs.models), len(rows)


def _by_price(config: Config, models: Sequence[str]) -> tuple[str, str]:
    costs = {}
    for name in models:
        spec = config.models.get(name)
        cost = spec.cost(1_000, 0, 1_000) if spec is not None else None
        if cost is None:
            raise _Refused(f'"{name}" has no price, or is not configured: a policy weighs quality with money')
        costs[name] = cost
    weak, strong = sorted(models, key=lambda name: (costs[name], name))
    return weak, strong


def _file(config: Config) -> Path:
    if not config.source:
        raise Unusable(
            "this gateway has no configuration file to write a policy to",
            hint="start it with --config; pointsman config init writes one",
        )
    return Path(config.source)


def _share(text: str) -> float:
    try:
        share = float(text) if text.strip() else _QUALITY
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise Unusable(f'the quality to keep is a share above 0, up to 1, not "{text[:40]}"')
    return share


def _beside(file: Path, suffix: str) -> Path:
    return file.with_name(file.name + suffix)


def is_in_use(config: Config) -> bool:
    """Whether a fit wrote a configuration, and the one before it is stored."""
    if not config.source:  # the demo's stands in no file
        return False
    file = Path(config.source)
    files = (file, _beside(file, _WRITTEN), _beside(file, _BEFORE))
    return all(map(Path.is_file, files)) and read(file) == read(files[1])


def can_fit() -> bool:
    """Whether the extra ``fit`` is installed."""
    return importlib.util.find_spec("sklearn") is not None


def _is_used(job: _Job) -> bool:
    return bool(job.policy) and _beside(job.file, _BEFORE).is_file() and read(job.file) == job.policy


def _drop(job: _Job) -> None:
    """Remove the router of an unused fit."""
    if not _is_used(job):
        job.router.unlink(missing_ok=True)
