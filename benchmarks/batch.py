"""Parquet batches: CPU time beside a loop over lines, scaling over two processes, and memory over the rows.

    .venv/bin/python benchmarks/batch.py speed [ROWS]    # CPU time per text: lines, and Parquet by one worker
    .venv/bin/python benchmarks/batch.py scaling [ROWS]  # two workers beside one, alternating
    .venv/bin/python benchmarks/batch.py memory [ROWS] [WORKERS]  # resident memory over many short rows

Each command runs as a process of its own. Its start, measured with a single row, is taken off. CPU times are
those of the whole process tree.
"""

import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

WORDS = [
    "fix",
    "the",
    "bug",
    "in",
    "my",
    "parser",
    "please",
    "write",
    "a",
    "proof",
    "that",
    "this",
    "api",
    "scales",
    "what",
    "is",
    "hello",
    "explain",
    "kubernetes",
    "json",
    "design",
    "translate",
    "summarise",
    "refactor",
    "function",
    "test",
    "deploy",
    "investigate",
    "compare",
    "why",
    "how",
    "list",
    "three",
    "names",
]
ROUNDS = int(os.environ.get("ROUNDS", "5"))
#: Rows of a row group, as DuckDB writes them.
ROW_GROUP = 122_880
#: Words of a short row at most.
SHORT = 6
SAMPLES = 10


class Run(NamedTuple):
    seconds: float
    cpu: float


def texts(rows: int, longest: int = 30) -> Iterator[str]:
    drawn = random.Random(1)
    return (" ".join(drawn.choices(WORDS, k=drawn.randint(2, longest))) for _ in range(rows))


def write_parquet(path: Path, rows: int, row_group: int, longest: int = 30) -> None:
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    drawn = texts(rows, longest)
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, row_group):
            ids = range(start, min(start + row_group, rows))
            table = pa.table({"id": list(ids), "text": [next(drawn) for _ in ids]}, schema)
            writer.write_table(table, row_group_size=row_group)


def write_lines(path: Path, rows: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(
            json.dumps({"id": number, "text": text}) + "\n" for number, text in enumerate(texts(rows))
        )


def run(*arguments: object) -> Run:
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "pointsman", "classify", *map(str, arguments)]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(time.perf_counter() - started, cpu)


def speed(folder: Path, rows: int) -> None:
    write_lines(folder / "all.jsonl", rows)
    write_lines(folder / "one.jsonl", 1)
    write_parquet(folder / "all.parquet", rows, ROW_GROUP)
    write_parquet(folder / "one.parquet", 1, ROW_GROUP)
    loop: list[float] = []
    batch: list[float] = []
    for number in range(ROUNDS):
        loop.append((run(folder / "all.jsonl").cpu - run(folder / "one.jsonl").cpu) / rows)
        of_all, of_one = (
            run("--in", folder / f"{name}.parquet", "--out", folder / f"{name}{number}", "--workers", 1).cpu
            for name in ("all", "one")
        )
        batch.append((of_all - of_one) / rows)
    for name, found in (("loop over lines", loop), ("Parquet, 1 worker", batch)):
        each = statistics.median(found)
        print(f"{name:20}{1e6 * each:8.1f} µs of CPU a text{1 / each:10,.0f} texts a second and core")
    ratios = [a / b for a, b in zip(loop, batch, strict=True)]
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    print(f"Parquet beside the loop: {statistics.median(ratios):.2f} times as many, {spread}")


def scaling(folder: Path, rows: int) -> None:
    """Time with the start, as a person waits; CPU without it: two workers are three processes."""
    write_parquet(folder / "all.parquet", rows, max(rows // 16, 1))
    write_parquet(folder / "two.parquet", 2, 1)

    def of(name: str, number: int, workers: int) -> Run:
        out = folder / f"{name}-{number}-{workers}"
        return run("--in", folder / f"{name}.parquet", "--out", out, "--workers", workers)

    by_time, by_cpu = [], []
    for number in range(ROUNDS):
        one, two = (of("all", number, workers) for workers in (1, 2))
        start_of_one, start_of_two = (of("two", number, workers).cpu for workers in (1, 2))
        by_time.append(one.seconds / two.seconds)
        by_cpu.append(2 * (one.cpu - start_of_one) / (two.cpu - start_of_two))
        shown = "   ".join(
            f"{name} {of.seconds:6.1f} s, {of.cpu:6.1f} s of CPU" for name, of in (("one", one), ("two", two))
        )
        load = os.getloadavg()[0]
        print(f"{shown}   by time {by_time[-1]:.2f}, by CPU {by_cpu[-1]:.2f}   load {load:.1f}", flush=True)
    print(
        f"two workers do {statistics.median(by_time):.2f} times the work of one;"
        f" {statistics.median(by_cpu):.2f} times by CPU, with a core for each"
    )


def memory(folder: Path, rows: int, workers: int) -> None:
    began = time.perf_counter()
    write_parquet(folder / "all.parquet", rows, ROW_GROUP, SHORT)
    size = (folder / "all.parquet").stat().st_size / 1e6
    print(f"{rows:,} rows, {size:,.0f} MB of Parquet, written in {time.perf_counter() - began:.0f} s")
    command = [sys.executable, "-m", "pointsman", "classify", "--in", str(folder / "all.parquet"),
               "--out", str(folder / "out"), "--workers", str(workers)]  # fmt: skip
    began = time.perf_counter()
    sampled: list[tuple[int, list[float]]] = []
    with subprocess.Popen(command) as running:
        ended = threading.Event()
        sampler = threading.Thread(target=sample, args=(running.pid, folder / "out", ended, sampled))
        sampler.start()
        code = running.wait()
        ended.set()
        sampler.join()
    seconds, parts = time.perf_counter() - began, len(list((folder / "out").glob("*.parquet")))
    print(
        f"exit code {code}, {seconds:.0f} s, {rows / seconds:,.0f} rows a second, {parts} parts,"
        f" load {os.getloadavg()[0]:.1f}"
    )
    for tenth in range(SAMPLES):
        inside = [each for done, each in sampled if tenth <= SAMPLES * done / (parts + 1) < tenth + 1]
        if inside:
            parent, largest = (
                max(each[0] for each in inside),
                max(max(each[1:], default=0.0) for each in inside),
            )
            print(f"{tenth + 1:3} of {SAMPLES}: parent {parent:6.0f} MB, largest worker {largest:6.0f} MB")


def sample(pid: int, out: Path, ended: threading.Event, sampled: list[tuple[int, list[float]]]) -> None:
    """Parts done, and the resident memory of the process and of those it started, in MB."""
    while not ended.wait(1.0):
        children = Path(f"/proc/{pid}/task/{pid}/children")
        try:
            pids = [pid, *map(int, children.read_text().split())]
            sampled.append((len(list(out.glob("part-*"))), [resident(each) for each in pids]))
        except (OSError, ValueError):
            continue


def resident(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def main() -> None:
    what = sys.argv[1] if len(sys.argv) > 1 else "speed"
    with tempfile.TemporaryDirectory() as folder:
        if what == "memory":
            rows, workers = [*map(int, sys.argv[2:4]), *(10_000_000, 2)[max(len(sys.argv) - 2, 0) :]]
            memory(Path(folder), rows, workers)
        else:
            {"speed": speed, "scaling": scaling}[what](
                Path(folder), int(sys.argv[2]) if len(sys.argv) > 2 else 50_000
            )


if __name__ == "__main__":
    main()
