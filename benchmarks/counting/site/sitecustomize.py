"""Counts opcodes and calls by thread and file in the process that imports it (and in its children).

Python imports this module at the start of every process whose ``PYTHONPATH`` holds its folder. It does
nothing unless ``$POINTSMAN_COUNT`` names a folder. With ``$POINTSMAN_COUNT_MODULES`` the process writes the
names of its modules there when it ends. With ``$POINTSMAN_COUNT_FUNCTIONS`` it counts by function instead of
by file. It listens on the Unix socket ``PID`` in that folder, one line for each request:

    start    trace the main thread from now on; other threads, and children, are traced from their beginning
    hold     let no writer of a store begin a batch
    held     answer when a writer waits for that
    release  let them go on
    idle     answer when the event loop waits
    quiet    answer when no thread has anything left to do
    counts   the counts so far, as JSON
    modules  the names of all modules, as JSON

The main thread of the first process runs the event loop. What its tasks and callbacks execute is counted by
the function that begins each turn of the loop (``root``), so that timers can be told from requests.
"""

import atexit
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

Local = Callable[[FrameType, str, Any], None]

FOLDER = os.environ.get("POINTSMAN_COUNT", "")
FUNCTIONS = os.environ.get("POINTSMAN_COUNT_FUNCTIONS", "")
#: Functions in which a thread that has nothing to do waits; of a lock, only without a timeout.
WAITS_FOR_EVER = ("wait", "_worker", "accept")
#: Where the Python code is that runs an event loop.
RUNNERS = ("asyncio/runners.py", "uvicorn/_compat.py", "uvloop/__init__.py")
#: The function of a store's thread that writes what has gathered.
HELD = "BatchWriter._drain"


class Counter:
    """Counts of one process: opcodes, Python calls by (thread, root, code); C calls by thread."""

    def __init__(self) -> None:
        self.cells: dict[tuple[str, str, CodeType], list[int]] = {}
        self.locals: dict[tuple[str, str, CodeType], Local] = {}
        self.c_calls: dict[tuple[str, str], int] = {}  # by thread and root
        self.base: FrameType | None = None  # runs the event loop; each turn begins right above it
        self.root = ""
        self.turns: dict[str, int] = {}  # of the loop, by root
        self.held = threading.Event()
        self.gate = threading.Event()
        self.gate.set()
        self.threads: dict[int, str] = {}  # native id: name, of all that were traced

    def of_thread(self) -> Callable[[FrameType, str, Any], Local | None]:
        """Return the trace function of the current thread."""
        thread = threading.current_thread()
        name = thread.name if thread is not threading.main_thread() or is_child() else "loop"
        self.threads[threading.get_native_id()] = name

        def trace(frame: FrameType, event: str, _: Any) -> Local | None:  # noqa: ARG001 - the interpreter's signature
            code = frame.f_code
            if name == "loop" and (frame.f_back is self.base or frame.f_back is None):
                self.root = f"{place(code)}:{code.co_qualname}"
                self.turns[self.root] = self.turns.get(self.root, 0) + 1
            if code.co_qualname == HELD and not self.gate.is_set():
                self.held.set()
                self.gate.wait()
            key = (name, self.root if name == "loop" else "", code)
            if (local := self.locals.get(key)) is None:
                local = self._local(key)
            self.cells[key][1] += 1
            frame.f_trace_opcodes = True
            frame.f_trace_lines = False
            return local

        c_calls = self.c_calls

        def profile(frame: FrameType, event: str, _: Any) -> None:  # noqa: ARG001 - the interpreter's signature
            if event == "c_call":
                key = (name, self.root if name == "loop" else "")
                c_calls[key] = c_calls.get(key, 0) + 1

        sys.setprofile(profile)
        return trace

    def _local(self, key: tuple[str, str, CodeType]) -> Local:
        cell = self.cells[key] = [0, 0]

        def local(frame: FrameType, event: str, _: Any) -> None:  # noqa: ARG001 - the interpreter's signature
            if event == "opcode":
                cell[0] += 1

        self.locals[key] = local
        return local

    def begin_thread(self, frame: FrameType, event: str, argument: Any) -> Local | None:
        """Trace a thread that begins (``threading.settrace``)."""
        trace = self.of_thread()
        sys.settrace(trace)
        return trace(frame, event, argument)

    def begin_loop(self, _: int, frame: FrameType | None) -> None:
        """Trace the main thread; a signal handler, called while the loop waits."""
        while frame is not None and not frame.f_code.co_filename.endswith(RUNNERS):
            frame = frame.f_back
        self.base = frame
        sys.settrace(self.of_thread())

    def counts(self) -> dict[str, Any]:
        """Return all counts, and what each thread has asked the system to write."""
        found: dict[tuple[str, str, str], list[int]] = {}
        for (thread, root, code), cell in list(self.cells.items()):
            counted = f"{place(code)}:{code.co_qualname}" if FUNCTIONS else place(code)
            total = found.setdefault((thread, root, counted), [0, 0])
            total[0] += cell[0]
            total[1] += cell[1]
        written = {name: [0, 0] for name in self.threads.values()}
        for native, name in list(self.threads.items()):
            calls, size = writes(native)
            written[name][0] += calls
            written[name][1] += size
        c_calls = [[*key, number] for key, number in list(self.c_calls.items())]
        rows = [[*key, *cell] for key, cell in found.items()]
        return {"rows": rows, "turns": self.turns, "c_calls": c_calls, "written": written}

    def is_idle(self) -> bool:
        """Whether the event loop waits."""
        return is_child() or sys._current_frames()[threading.main_thread().ident or 0] is self.base

    def is_quiet(self) -> bool:
        """Whether every thread waits for ever, and nobody has woken it."""
        own = (threading.get_ident(), 0 if is_child() else threading.main_thread().ident)
        return self.is_idle() and all(
            waits(frame) for thread, frame in sys._current_frames().items() if thread not in own
        )


def is_child() -> bool:
    return os.environ.get("POINTSMAN_COUNT_FIRST") != str(os.getpid())


def place(code: CodeType) -> str:
    """Return the file of some code: below its package, or the standard library."""
    file = code.co_filename
    for mark in ("/site-packages/", "/src/", "/lib/python3"):
        if mark in file:
            file = file.rpartition(mark)[2]
            return file if mark != "/lib/python3" else "stdlib/" + file.partition("/")[2]
    return file


def writes(native: int) -> tuple[int, int]:
    """Return writing system calls of a thread, and their bytes (Linux)."""
    try:
        lines = Path(f"/proc/self/task/{native}/io").read_text().split()
    except OSError:  # it has ended
        return 0, 0
    return int(lines[lines.index("syscw:") + 1]), int(lines[lines.index("wchar:") + 1])


def waits(frame: FrameType) -> bool:
    """Whether a thread's innermost frame waits without a timeout and has not been woken."""
    if frame.f_code.co_name not in WAITS_FOR_EVER:
        return False
    known = frame.f_locals
    if "waiter" not in known or exports(frame):
        return True
    return known["timeout"] is None and known["waiter"] in known["self"]._waiters


def until(reached: Callable[[], bool]) -> None:
    """Return when something holds at three looks in a row."""
    looks = 0
    while looks < 3:
        time.sleep(0.002)
        looks = looks + 1 if reached() else 0


def exports(frame: FrameType | None) -> bool:
    """Whether a thread sends traces: it looks up again and again, for work that no request waits for."""
    while frame is not None and "/opentelemetry/" not in frame.f_code.co_filename:
        frame = frame.f_back
    return frame is not None


def answer(counter: Counter, asked: str) -> object:
    if asked == "start":
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR2)
    elif asked == "hold":
        counter.held.clear()
        counter.gate.clear()
    elif asked == "held":
        counter.held.wait(60)
    elif asked == "release":
        counter.gate.set()
    elif asked in ("idle", "quiet"):
        until(counter.is_idle if asked == "idle" else counter.is_quiet)
    elif asked == "counts":
        return counter.counts()
    elif asked == "modules":
        return sorted(sys.modules)
    return "done"


def control(counter: Counter, listening: socket.socket) -> None:
    sys.settrace(None)
    while True:
        connection, _ = listening.accept()
        with connection, connection.makefile("rw") as lines:
            for line in lines:
                lines.write(json.dumps(answer(counter, line.strip())) + "\n")
                lines.flush()


def write_modules() -> None:
    Path(FOLDER, "modules.json").write_text(json.dumps(sorted(sys.modules)))


def begin() -> None:
    if os.environ.get("POINTSMAN_COUNT_MODULES"):
        os.environ.pop("POINTSMAN_COUNT_MODULES")  # children are not asked
        atexit.register(write_modules)
        return
    os.environ.setdefault("POINTSMAN_COUNT_FIRST", str(os.getpid()))
    counter = Counter()
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(Path(FOLDER, str(os.getpid()))))
    listening.listen()
    threading.Thread(target=control, args=(counter, listening), name="control", daemon=True).start()
    threading.settrace(counter.begin_thread)
    if is_child():
        sys.settrace(counter.of_thread())
    else:
        signal.signal(signal.SIGUSR2, counter.begin_loop)


if FOLDER:
    begin()
