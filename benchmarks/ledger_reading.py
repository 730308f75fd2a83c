"""What lists, searches, sums and pages cost in a ledger of a million decisions, and what its writer pays.

.venv/bin/python benchmarks/ledger_reading.py [ROWS] [FILE]

A file that is there is read as it is; else it is written through the ledger, an answer a decision, the last
one now, and read as soon as that is done. CPU of this process and times of the wall: the first of each, for
which the file's pages leave the memory of the machine before, and of five more the median and the worst.
Pages are made by a gateway in this process, with all that a browser gets of them and with the garbage
collector as a gateway sets it; the console is loaded before, by a page that reads nothing. The list is paged
to its middle. Exits with 1 where a page fails.
"""

import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from msgspec.structs import replace

from pointsman.config.shapes import demo_config
from pointsman.gateway.serve import tune_process
from pointsman.prices import Prices
from pointsman.stores.ledger import Attempt, DecisionFilter, Entry, Outcome, Retention, SqliteLedger
from pointsman.testing import a_decision
from pointsman.vocabulary import ModelSpec, Tier

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.consoles import Browser, console_gateway, console_state

ROWS = 1_000_000
ROUNDS = 5
DAYS = 30
BEGAN = time.time() - DAYS * 86_400 + 1_800  # all of them within the last 30 days
MODELS = {
    name: ModelSpec(name, "demo", name, input_per_million=price, output_per_million=price * 4)
    for name, price in (("small", 0.2), ("middle", 1.0), ("large", 5.0))
}


def entries(rows: int) -> Iterator[Entry]:
    draw = random.Random(1)
    plain = a_decision("d", at=BEGAN)
    for number in range(rows):
        at = BEGAN + number * DAYS * 86_400 / rows
        session = f"session-{number // 400:06}-{draw.randrange(20)}"
        tier = draw.choice(tuple(Tier))
        model = draw.choice(tuple(MODELS))
        asked = replace(plain.input, arrived_at=at, session=session, signals=tuple(draw.sample(SIGNALS, 4)))
        name = f"{number:012x}"
        assert plain.tier is not None
        yield replace(
            plain, id=name, input=asked, chain=(model,), abstained=() if number % 50 else plain.abstained,
            tier=replace(plain.tier, tier=tier),
        )  # fmt: skip
        used = {"input_tokens": draw.randrange(200, 60_000), "output_tokens": draw.randrange(10, 4_000)}
        tried = {"status": 200, "started_at": at, "first_byte_ms": 300.0, "total_ms": 2_000.0}
        yield Attempt(decision=name, number=1, model=model, upstream="main", **used, **tried)  # type: ignore[arg-type]
        if number % 1_000 == 0:
            yield Outcome(decision=name, score=1.0, label="good", at=at)


SIGNALS = [f"default/group{number % 12}/signal {number}" for number in range(200)]


def write(path: Path, rows: int) -> None:
    ledger = SqliteLedger(path, retention=Retention(None, None))
    began = time.process_time()
    source = entries(rows)
    while batch := list(islice(source, 5_000)):
        for entry in batch:
            ledger.append(entry)
        ledger.flush()
    spent = time.process_time() - began
    ledger.close()
    print(f"written: {rows:,} decisions with an answer each, {spent / rows * 1e6:.0f} µs of CPU each, in all")


def evict(path: Path) -> None:
    """Let the pages of a file leave the memory of the machine."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measured(name: str, read: Callable[[], object], path: Path) -> None:
    evict(path)
    cpu, wall = zip(*(timed(read) for _ in range(ROUNDS + 1)), strict=True)
    warm, usual, worst = statistics.median(cpu[1:]), statistics.median(wall[1:]), max(wall[1:])
    cold = f"cold {cpu[0]:6.0f} ms of CPU, {wall[0]:6.0f} of the wall"
    print(f"{name:<46} {cold}; then {warm:6.1f}, {usual:6.1f}, worst {worst:6.1f}", flush=True)


def timed(read: Callable[[], object]) -> tuple[float, float]:
    """Milliseconds of CPU and of the wall."""
    cpu, wall = time.process_time(), time.perf_counter()
    read()
    return (time.process_time() - cpu) * 1e3, (time.perf_counter() - wall) * 1e3


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    with tempfile.TemporaryDirectory() as directory:
        path = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(directory) / "ledger.sqlite"
        if not path.exists():
            write(path, rows)
        print(f"{path.stat().st_size / 1e6:,.0f} MB")
        read_all(SqliteLedger(path, retention=Retention(None, None)), rows, path)


def read_all(ledger: SqliteLedger, rows: int, path: Path) -> None:
    priced: dict[str, Prices] = {**MODELS}
    newest = ledger.search(DecisionFilter(), limit=1).rows[0].at
    deep = newest - DAYS * 43_200
    session = f"session-{rows // 800:06}-7"
    for name, wanted, before in (
        ("newest 100", DecisionFilter(), None),
        ("100 after 5,000 pages", DecisionFilter(), (deep, "~")),
        ("search: tier and model", DecisionFilter(tier="COMPLEX", model="large"), None),
        ("search: abstained, one in 50", DecisionFilter(abstained=True), None),
        ("search: labelled, one in 1,000", DecisionFilter(labelled=True), None),
        ("search: a signal, one in 50", DecisionFilter(signal=SIGNALS[7]), None),
        ("search: cost at least 0.3", DecisionFilter(cost_at_least=0.3), None),
        ("search: a session", DecisionFilter(session=session), None),
        ("search: a tier that no row has", DecisionFilter(tier="NONE"), None),
        ("search: a signal that no row has", DecisionFilter(signal="none"), None),
    ):
        measured(name, lambda w=wanted, b=before: ledger.search(w, before=b, models=priced), path)  # type: ignore[misc]
    measured("a session in order", lambda: ledger.session(session), path)
    measured("totals of all days", ledger.totals, path)
    measured("totals of the last day", lambda: ledger.totals(since=newest - 86_400), path)
    demo = demo_config()
    config = replace(demo, models={**demo.models, **MODELS})
    browser = Browser(console_gateway(config, ledger))
    browser.gateway.replace(console_state(config, browser))
    tune_process()
    measured("the console's first page", lambda: got(browser, "/try"), path)
    some = ledger.search(DecisionFilter(), before=(deep, "~"), limit=1).rows[0]
    known = {"deep": f"{deep!r}_~", "decision": some.id, "session": some.session, "day": f"{deep:.0f}"}
    for page in PAGES:
        measured(f"page {page}", lambda p=page: got(browser, p.format(**known)), path)  # type: ignore[misc]
    browser.close()


PAGES = (
    "",
    "?last=24h",
    "?last=7d",
    "?last=30d",
    "/home.json",
    "/now",
    "/now.json",
    "/change?from={day}",
    "/decisions",
    "/decisions?limit=1000",
    "/decisions.csv?limit=1000",
    "/decisions?before={deep}",
    *(
        f"/decisions?{asked}"
        for asked in (
            "session={session}",
            "caller=nobody",
            "tier=COMPLEX&model=large",
            "tier=NONE",
            "model=large",
            "role=main",
            "project=none",
            "client=OpenAI",
            "domain=coding",
            "domain=none",
            "signal=default/group7/signal 7",
            "signal=none",
            "classifier=loop",
            "capability=none",
            "label=good",
            "text=python",
            "stuck=yes",
            "stuck=no",
            "downgraded=yes",
            "abstained=yes",
            "abstained=no",
            "labelled=yes",
            "labelled=no&label=x",
            "last=7d&status=200",
            "status=500",
            "cost=0.3",
            "cost=99",
            "last=24h",
            "until={day}",
            "tier=COMPLEX&signal=none&cost=99",
        )
    ),
    "/decisions/{decision}",
    "/decisions/{decision}.json",
    "/sessions",
    "/sessions?stuck=yes",
    "/sessions?last=1h",
    "/sessions/{session}",
    "/savings",
    "/savings.json",
    "/savings?last=24h",
    "/savings?last=7d",
    "/savings?zone=2",
    "/savings?baseline=middle",
    "/quality",
    "/quality.json",
    "/policy",
    "/label",
    "/try",
    "/keys",
)


def got(browser: Browser, path: str) -> None:
    answer = browser.get(f"/console{path}")
    if answer.status != 200:
        sys.exit(f"{path}: {answer.status} {answer.body[:3000]!r}")


if __name__ == "__main__":
    main()
