"""Example utterances: they speak where signals are silent, say so, and give way to memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pointsman.domains import (
    DomainDecision,
    DomainMemory,
    DomainSet,
    DomainTracker,
    Source,
    default_domains,
    parse_domains,
)
from pointsman.encoders import StaticEncoder
from pointsman.evidence import Scanner, SignalTable
from support.oracle import ReMatcher

DOMAINS = parse_domains(
    """
    extends = "none"
    [domains.music]
    class = "task"
    signals = {song = "song"}
    examples = ["play rock by this singer", "louder please"]
    [domains.travel]
    class = "task"
    signals = {flight = "flight"}
    examples = ["bring us to paris soon"]
    [domains.talk]
    class = "null"
    signals = {yes = "yes"}
    examples = ["that sounds good today"]
    """
)


class WordEncoder:
    """One dimension per word: cosine is the share of words in common, which can be counted by hand."""

    name = "words"

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._words: dict[str, int] = {}

    def encode(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        self.asked.extend(texts)
        rows = np.zeros((len(texts), 100), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.lower().split():
                row[self._words.setdefault(word, len(self._words))] = 1
            row /= max(float(np.linalg.norm(row)), 1.0)
        return rows


def converse(*messages: str, domains: DomainSet = DOMAINS, encoder: Any = None) -> list[DomainDecision]:
    table = SignalTable(domains.signals())
    scanner, memory, decisions = Scanner(table, ReMatcher(table)), DomainMemory(), []
    tracker = DomainTracker(domains, table, encoder)
    for number, message in enumerate(messages):
        decision, memory = tracker.decide(scanner.scan(message), memory, str(number))
        decisions.append(decision)
    return decisions


@pytest.mark.parametrize(
    ("message", "domain"),
    [
        ("play rock by this singer", "music"),
        ("play jazz by this band", "music"),  # 3 of 5 words
        ("play jazz for our band", "talk"),  # 1 of 5
        ("bring us that good singer", "talk"),  # nearest to two domains alike
        ("that sounds good tomorrow", "talk"),  # small talk
        ("nothing in common", "talk"),
        ("", "talk"),
    ],
)
def test_what_is_near_enough_where_memory_has_nothing(message: str, domain: str) -> None:
    (decision,) = converse(message, encoder=WordEncoder())
    assert decision.effective.primary.domain == domain


def test_what_an_example_decided_is_labelled(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="pointsman.domains"):
        (decision,) = converse("play rock by that singer", encoder=WordEncoder())
    part = decision.raw.primary
    assert part.source is Source.EXAMPLES
    assert part.signals == ("like: play rock by this singer",)
    assert part.confidence == 1
    assert decision.rule == "R2b"
    assert decision.to_json()["raw"] == {"primary": "music", "secondary": None, "source": "examples"}
    assert caplog.messages[0].startswith("music (1 example) | sig=music | momentum=1 |")


def test_signals_speak_first_and_small_talk_is_not_asked_about() -> None:
    encoder = WordEncoder()
    flight, yes = converse("a flight with rock by this singer", "yes", encoder=encoder)
    assert flight.raw.primary.source is Source.SIGNALS
    assert flight.effective.primary.domain == "travel"
    assert yes.rule == "R0"
    assert set(encoder.asked) == {text for domain in DOMAINS for text in domain.examples}


@pytest.mark.parametrize(
    ("message", "domain"),
    [
        ("bring us to paris now", "travel"),  # 4 of 5 words
        ("bring us to london now", "music"),  # 3 of 5: enough to start with, not against memory
    ],
)
def test_an_example_must_be_nearer_to_overrule_memory(message: str, domain: str) -> None:
    alone = converse(message, encoder=WordEncoder())[0]
    assert alone.effective.primary.domain == "travel"
    after = converse("a song", message, encoder=WordEncoder())[1]
    assert after.effective.primary.domain == domain


def test_without_an_encoder_or_without_examples_nothing_changes() -> None:
    (off,) = converse("play rock by this singer")
    assert off.effective.primary.domain == "talk"
    bare = parse_domains('extends = "none"\n[domains.music]\nclass = "task"\nsignals = {song = "song"}')
    (none,) = converse("play rock by this singer", domains=bare, encoder=WordEncoder())
    assert none.effective.primary.domain == "conversation"


def test_the_built_in_examples_find_their_own_domains() -> None:
    """With the encoder of the ``static`` extra, and the examples put a little differently."""
    domains, encoder = default_domains(), StaticEncoder()
    for message, domain in {
        "the page shows nothing when I press the button": "bugfix",
        "what is inside this folder?": "file_ops",
        "who is behind this corporation?": "investigation",
        "how long will it take us to get this done": "planning",
        "that sounds good to me": "conversation",
    }.items():
        (decision,) = converse(message, domains=domains, encoder=encoder)
        assert decision.effective.primary.domain == domain, message
