"""Python programs in processes of their own, forked from one that has imported the vendors' SDKs once.

An SDK takes a second of CPU to import, and a line for it is run thirty times.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

_SDKS = ["openai.resources.chat", "openai.resources.responses", "anthropic.resources.messages"]
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(_SDKS)


class Program(NamedTuple):
    """A started program, and the files of its output."""

    process: multiprocessing.process.BaseProcess
    directory: tempfile.TemporaryDirectory[str]

    def output(self, timeout: float) -> tuple[str, str]:
        """Its standard output and standard error, once it has ended."""
        self.process.join(timeout)
        assert self.process.exitcode is not None, f"it runs for more than {timeout} seconds"
        with self.directory as name:
            return (Path(name) / "out").read_text("utf-8"), (Path(name) / "err").read_text("utf-8")


def start(code: str) -> Program:
    """Start ``python -c CODE`` in this directory and environment."""
    directory = tempfile.TemporaryDirectory()
    process = _FORKS.Process(target=_run, args=(code, dict(os.environ), str(Path.cwd()), directory.name))
    process.start()
    return Program(process, directory)


def _run(code: str, environment: Mapping[str, str], here: str, output: str) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(here)
    for name, descriptor in (("out", 1), ("err", 2)):
        os.dup2(os.open(Path(output) / name, os.O_WRONLY | os.O_CREAT), descriptor)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
    try:
        exec(compile(code, "<line>", "exec"), {"__name__": "__main__"})
    except Exception:  # noqa: BLE001 - whatever a line raises is its output
        traceback.print_exc()
        raise SystemExit(1) from None
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
