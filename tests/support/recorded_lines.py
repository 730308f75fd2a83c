"""Recorded decisions as lines of an export, and another policy to replay them under."""

from pathlib import Path

from pointsman import Pointsman
from pointsman.stores.ledger import MemoryLedger
from pointsman.stores.ledger.export import Format, export

SAID = ("Hello!", "Fix the bug in the parser", "yes, go on", "Prove it step by step", "What is 2+2?")


def recorded(sessions: int = 7, turns: int = 6) -> list[str]:
    """Lines of an export: turns of some sessions, interleaved, and some without a session."""
    ledger = MemoryLedger()
    pointsman = Pointsman(ledger=ledger)
    for turn in range(turns):
        for session in range(sessions):
            pointsman.decide(SAID[(turn + session) % len(SAID)], session=f"s{session}" if session else "")
    return [line.rstrip("\n") for line in export(ledger.records(), Format.JSONL)]


def policy_file(folder: Path) -> Path:
    file = folder / "seed.toml"
    file.write_text('[tiers]\nprofile = "seed"\n')
    return file
