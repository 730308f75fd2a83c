"""What lists, searches, sums and pages cost in a ledger of a million decisions, and what its writer pays.

.venv/bin/python benchmarks/ledger_reading.py [ROWS] [FILE]

A file that is there is read as it is; else it is written through the ledger, an answer a decision, the last
one now, and read as soon as that is done. Times of the wall, the median and the worst of ten; the first of
each is told apart, since nothing of it is in memory. Pages are made by a gateway in this process, with all
that a browser gets of them; the list is paged to its middle.
"""

import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from msgspec.structs import replace

from pointsman.gateway.build import demo_config
from pointsman.prices import Prices
from pointsman.stores.ledger import Attempt, DecisionFilter, Entry, Outcome, Retention, SqliteLedger
from pointsman.testing import a_decision
from pointsman.vocabulary import ModelSpec, Tier

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.consoles import Browser, console_gateway, console_state

ROWS = 1_000_000
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


def measured(name: str, read: Callable[[], object]) -> None:
    times = []
    for _ in range(10):
        began = time.perf_counter()
        read()
        times.append((time.perf_counter() - began) * 1e3)
    print(
        f"{name:<46} {times[0]:8.1f} ms first {statistics.median(times):8.1f} median {max(times):8.1f} worst"
    )


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    with tempfile.TemporaryDirectory() as directory:
        path = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(directory) / "ledger.sqlite"
        if not path.exists():
            write(path, rows)
        print(f"{path.stat().st_size / 1e6:,.0f} MB")
        read_all(SqliteLedger(path, retention=Retention(None, None)), rows)


def read_all(ledger: SqliteLedger, rows: int) -> None:
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
        measured(name, lambda w=wanted, b=before: ledger.search(w, before=b, models=priced))  # type: ignore[misc]
    measured("a session in order", lambda: ledger.session(session))
    measured("totals of all days", ledger.totals)
    measured("totals of the last day", lambda: ledger.totals(since=newest - 86_400))
    demo = demo_config()
    config = replace(demo, models={**demo.models, **MODELS})
    browser = Browser(console_gateway(config, ledger))
    browser.gateway.replace(console_state(config, browser))
    for path in PAGES:
        measured(f"page {path}", lambda p=path: got(browser, p.format(deep=f"{deep!r}_~")))  # type: ignore[misc]
    browser.close()


PAGES = (
    "", "/now.json", "/decisions", "/decisions?before={deep}", "/decisions?tier=COMPLEX&model=large",
    "/decisions?last=7d&status=200", "/decisions?signal=none", "/decisions?abstained=yes",
    "/decisions?cost=0.3", "/savings", "/savings.json", "/savings?last=24h", "/policy", "/label", "/quality",
)  # fmt: skip


def got(browser: Browser, path: str) -> None:
    answer = browser.get(f"/console{path}")
    if answer.status != 200:
        raise SystemExit(f"{path}: {answer.status} {answer.body[:300]!r}")


if __name__ == "__main__":
    main()
