"""A policy that names an encoder lets example utterances speak."""

import pytest

from pointsman import encoders
from pointsman.config import Config, DomainsSpec
from pointsman.domains import DomainMemory, DomainTracker
from pointsman.errors import MissingExtra
from pointsman.factory import build_engine, build_policy


def test_the_configured_encoder_reaches_the_tracker() -> None:
    config = Config(domains=DomainsSpec(examples="static"))
    engine = build_engine(build_policy(config))
    tracker = engine._tracker
    assert isinstance(tracker, DomainTracker)
    evidence = engine.scanner.scan("the page shows nothing when I press the button")
    decision, _ = tracker.decide(evidence, DomainMemory(), "1")
    assert decision.to_json()["raw"] == {"primary": "bugfix", "secondary": None, "source": "examples"}


def test_a_policy_with_examples_is_another_policy() -> None:
    plain, compared = (
        build_policy(Config(domains=DomainsSpec(examples=name))).version() for name in ("none", "static")
    )
    assert plain != compared


def test_a_missing_extra_is_named_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise MissingExtra("static", needed_for="the encoder")

    monkeypatch.setitem(encoders.ENCODERS, "static", missing)
    with pytest.raises(MissingExtra, match="the encoder"):
        build_engine(build_policy(Config(domains=DomainsSpec(examples="static"))))
