"""Jobs that pages begin: replays under another policy, and fits of a router and boundaries on the labels.

Of each kind one runs at a time, in a thread that lets requests go first; the commands of a fit are processes.
"""

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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Generic, Literal, TypeVar

import msgspec

from pointsman.config import Config
from pointsman.config.edit import changing, write_file
from pointsman.config.files import read
from pointsman.console._view import GatewayView, Missing, Page, Redirect, Unusable, Visit
from pointsman.decision.engine import Engine
from pointsman.encoders.learned_routers import load_learned_router
from pointsman.errors import Overloaded, PointsmanError
from pointsman.reports.labels import count_pairs
from pointsman.reports.outcomes import prompts, scored
from pointsman.reports.quality import read_curve
from pointsman.reports.replay_period import ReplayDiff, replay_period
from pointsman.reports.usage import answer_costs
from pointsman.stores.ledger.port import Search
from pointsman.stores.ledger.reading import DecisionFilter

log = logging.getLogger(__name__)

#: Jobs of each kind that are kept.
_KEPT: Final = 8
#: Seconds of a pause after ``replay_period.STEP`` decisions: requests are decided in the same process.
_PAUSE: Final = 0.02
#: Seconds that one command of a fit may take.
_PATIENCE: Final = 600.0
#: Share of the stronger model's quality to keep, where the form names none.
_QUALITY: Final = 0.95
#: What the configuration was before the fit in use, and what that wrote, in the same folder.
_BEFORE: Final = ".before-fit"
_WRITTEN: Final = ".after-fit"

State = Literal["running", "done", "cancelled", "refused", "failed"]
_encode: Final = msgspec.json.Encoder().encode


class Job:
    """One job, while it runs and after."""

    def __init__(self) -> None:
        self.id: Final = secrets.token_hex(8)
        self.begun_at: Final = time.time()
        self.state: State = "running"  # set last, after all that was found
        self.error = ""  # why it gave nothing


J = TypeVar("J", bound=Job)


class _Jobs(Generic[J]):
    """The jobs of one kind of one gateway."""

    kind = ""

    def __init__(self) -> None:
        self._jobs: Final[OrderedDict[str, J]] = OrderedDict()
        self._lock: Final = threading.Lock()

    def all(self) -> list[J]:
        """The stored ones, the latest first."""
        return list(reversed(self._jobs.values()))

    def get(self, number: str) -> J:
        """Return one of them.

        Raises:
            Missing: there is none.
        """
        if (job := self._jobs.get(number)) is None:
            page = "Label" if self.kind == "fit" else "Policy"
            raise Missing(
                f"there is no such {self.kind} (any more)", hint=f"begin it again on the page {page}"
            )
        return job

    def _start(self, job: J, work: Callable[[J], State], hint: str) -> None:
        """Begin a job; ``hint`` is what to do while another one runs.

        Raises:
            Overloaded: another one runs.
        """
        with self._lock:
            if any(each.state == "running" for each in self._jobs.values()):
                raise Overloaded(f"a {self.kind} runs already", hint=hint)
            self._jobs[job.id] = job
        while len(self._jobs) > _KEPT:
            self._drop(self._jobs.popitem(last=False)[1])
        named = f"console-{self.kind}"
        threading.Thread(target=self._run, args=(job, work), name=named, daemon=True).start()

    def _run(self, job: J, work: Callable[[J], State]) -> None:
        state: State = "failed"
        try:
            state = work(job)
        except _Refused as error:
            job.error, state = error.message, "refused"
        except PointsmanError as error:
            job.error = str(error)
        except Exception:
            log.exception("a %s failed", self.kind)
            job.error = "it failed inside the console; the log says why"
        job.state = state
        if state != "done":
            self._drop(job)

    def _drop(self, job: J) -> None:
        """Remove the files of a job that is forgotten, or gave nothing."""


class ReplayJob(Job):
    """One replay, while it runs and after."""

    def __init__(self, engine: Engine, since: float, until: float) -> None:
        super().__init__()
        self.engine: Final = engine
        self.since: Final = since
        self.until: Final = until
        self.total = 0
        self.done = 0
        self.is_asked_to_end = False
        self.found: ReplayDiff | None = None

    @property
    def share(self) -> float:
        """How much is done, from 0 to 1."""
        return min(1.0, self.done / self.total) if self.total else 0.0


class Replays(_Jobs[ReplayJob]):
    """The replays of one gateway."""

    kind = "replay"

    def begin(self, ledger: Search, engine: Engine, since: float | None, until: float | None) -> str:
        """Begin a replay of the decisions of a period, and return its id.

        Raises:
            Overloaded: another one runs.
            Unusable: the period has no decisions.
        """
        begins, ends = since or 0.0, until or time.time()
        if not ledger.search(DecisionFilter(since=begins, until=ends), limit=1).rows:
            raise Unusable("there is no decision in this period", hint="choose a longer one")
        job = ReplayJob(engine, begins, ends)
        self._start(job, lambda job: self._replay(ledger, job), "wait for it, or cancel it")
        return job.id

    def cancel(self, number: str) -> None:
        """End a replay at its next pause."""
        if (job := self._jobs.get(number)) is not None:
            job.is_asked_to_end = True

    def close(self) -> None:
        """End all."""
        for job in self._jobs.values():
            job.is_asked_to_end = True

    def _replay(self, ledger: Search, job: ReplayJob) -> State:
        def progress(done: int, about: int) -> bool:
            job.done, job.total = done, about
            time.sleep(_PAUSE)
            return not job.is_asked_to_end

        job.found = replay_period(ledger, job.engine, since=job.since, until=job.until, progress=progress)
        return "done" if job.found.is_complete else "cancelled"


class FitJob(Job):
    """One fit, while it runs and after."""

    def __init__(self, file: Path, quality: float, aim: float) -> None:
        super().__init__()
        self.file: Final = file  # the gateway's configuration
        self.quality: Final = quality  # share of the dearer model's that is to be shown
        self.aim: Final = aim  # share that the boundaries are chosen for, at least as much
        self.is_unshown = False  # boundaries were chosen, and are not shown to meet the target
        self.safer: float | None = None  # a higher share to aim at then
        self.base: Final = read(file)  # the configuration that the policy changes
        self.router: Final = file.with_name(f"{file.stem}.learned-router-{self.id}.json")
        self.policy = ""  # the configuration with the fitted policy; empty: there is nothing to use
        self.models: tuple[str, ...] = ()  # weak, strong
        self.prompts = 0
        self.said: list[str] = []  # by the commands, with the figures

    @property
    def is_used(self) -> bool:
        """Whether this fit wrote the configuration."""
        return bool(self.policy) and _next_to(self.file, _BEFORE).is_file() and read(self.file) == self.policy


class _Refused(PointsmanError):
    """These labels give no policy to use."""


class Fits(_Jobs[FitJob]):
    """The fits of one gateway, in separate processes, so that requests are served."""

    kind = "fit"

    def __init__(self) -> None:
        super().__init__()
        self._process: subprocess.Popen[str] | None = None
        self._is_closed = False

    def begin(self, visit: Visit) -> Redirect:
        """Begin a fit on all labels of the ledger."""
        view = visit.view
        file = visit.config_file("policy")
        quality = _share(visit.form.get("quality", ""))
        job = FitJob(file, quality, max(quality, _share(visit.form.get("aim", ""), quality)))
        self._start(job, lambda job: self._fit(view, job), "wait for it; the page Label names it")
        return Redirect(f"/console/fits/{job.id}")

    def page(self, visit: Visit) -> Page:
        """Show how far a fit is, its figures, or why it gives nothing to use."""
        job = self.get(visit.parts["id"])
        data = {"state": job.state, "models": job.models, "prompts": job.prompts, "lines": job.said,
                "error": job.error, "is_usable": bool(job.policy), "is_used": job.is_used,
                "safer": job.safer}  # fmt: skip
        return Page("fit.html", {"job": job, "is_unshown": job.is_unshown, **data}, data)

    def use(self, visit: Visit) -> Redirect:
        """Write the policy of a fit into the configuration, which the gateway then reads again."""
        job = self.get(visit.parts["id"])
        if not job.policy:
            raise Unusable("this fit gives no policy to use", hint=job.error)
        with changing(job.file):
            if read(job.file) != job.base:
                raise Unusable(f"{job.file} has changed since the fit began", hint="fit again, and use that")
            write_file(_next_to(job.file, _BEFORE), job.base)
            write_file(_next_to(job.file, _WRITTEN), job.policy)
            write_file(job.file, job.policy)
        log.info("the policy of a fit on %d prompts is written to %s", job.prompts, job.file)
        return Redirect(f"/console/fits/{job.id}")

    def take_back(self, visit: Visit) -> Redirect:
        """Write the configuration as it was before the fit in use, also of a gateway that ran before."""
        file = visit.config_file("policy")
        with changing(file):
            if not is_in_use(visit.view.config):
                before = _next_to(file, _BEFORE)
                hint = f"{before} is what it was before" if before.is_file() else "no fit is in use"
                raise Unusable(f"{file} is not what a fit wrote", hint=hint)
            write_file(file, read(_next_to(file, _BEFORE)))
            _next_to(file, _WRITTEN).unlink(missing_ok=True)
        log.info("%s is as it was before the fit", file)
        return Redirect("/console/label")

    def close(self) -> None:
        """End the one that runs."""
        self._is_closed = True
        if self._process is not None:
            self._process.kill()

    def _fit(self, view: GatewayView, job: FitJob) -> State:
        with tempfile.TemporaryDirectory(prefix="pointsman-fit-") as folder:
            data, curve = Path(folder) / "outcomes.jsonl", Path(folder) / "curve.json"
            job.models, job.prompts = _export(view.ledger, view.config, data)
            named = (f"--data={data}", f"--weak={job.models[0]}", f"--strong={job.models[1]}")
            self._command(job, "tiers", *named, "--out", str(job.router))
            if not load_learned_router(job.router).claim.improves:
                raise _Refused("the router is not better than every rival below: nothing to use")
            out = job.file.with_name(f".{job.file.stem}.fit-{job.id}.toml")  # paths in it are relative to it
            try:
                cut = ("--learned-router", str(job.router), "--config", str(job.file))
                target = ("--quality", str(job.aim), "--show", str(job.quality))
                files = ("--out", str(out), "--curve", str(curve))
                self._command(job, "policy", *named, *cut, *target, *files)
                found = read_curve(curve).chosen
                if not (found and found.shown):
                    job.is_unshown, job.safer = True, found.aim if found else None
                    raise _Refused(found.verdict if found else "nothing was measured")
                job.policy = read(out)
            finally:
                out.unlink(missing_ok=True)
        return "done"

    def _drop(self, job: FitJob) -> None:
        """Remove the router of an unused fit."""
        if not job.is_used:
            job.router.unlink(missing_ok=True)

    def _command(self, job: FitJob, *arguments: str) -> None:
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
        job.said += [line for line in said.splitlines() if " written to " not in line]  # no file may stay
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
    costs = answer_costs(config.models)
    for name in models:
        if name not in costs:
            raise _Refused(f'"{name}" has no price, or is not configured: a policy weighs quality with money')
    weak, strong = sorted(models, key=lambda name: (costs[name], name))
    return weak, strong


def _share(text: str, default: float = _QUALITY) -> float:
    try:
        share = float(text) if text.strip() else default
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise Unusable(f'the quality to keep is a share above 0, up to 1, not "{text[:40]}"')
    return share


def _next_to(file: Path, suffix: str) -> Path:
    return file.with_name(file.name + suffix)


def is_in_use(config: Config) -> bool:
    """Whether a fit wrote a configuration, and the one before it is stored."""
    if not config.source:  # the demo's stands in no file
        return False
    file = Path(config.source)
    files = (file, _next_to(file, _WRITTEN), _next_to(file, _BEFORE))
    return all(map(Path.is_file, files)) and read(file) == read(files[1])


def can_fit() -> bool:
    """Whether the extra ``fit`` is installed."""
    return importlib.util.find_spec("sklearn") is not None
