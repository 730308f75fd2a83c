"""A secret stays one."""

import hashlib
import pickle

import pytest

from pointsman.config import Secret


def test_every_way_of_printing_gives_the_reference() -> None:
    secret = Secret("canary", reference="${MAIN_API_KEY}")
    printed = [str(secret), repr(secret), f"{secret}", f"{secret!r:>40}", f"{[secret]}"]
    assert not any("canary" in text for text in printed)
    assert str(secret) == "${MAIN_API_KEY}"


def test_a_secret_cannot_be_pickled() -> None:
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(Secret("canary"))


def test_a_key_matches_itself_and_its_hash_only() -> None:
    hashed = Secret("sha256:" + hashlib.sha256(b"canary").hexdigest().upper())
    for key in (Secret("canary"), hashed):
        assert key.matches("canary")
        assert not key.matches("canar")
        assert not key.matches("")
        assert not key.matches("\udcff")
    assert hashed == Secret("canary")
    assert hash(hashed) == hash(Secret("canary"))
    assert hashed != "canary"


def test_a_hash_cannot_be_sent_upstream() -> None:
    assert Secret("canary").reveal() == "canary"
    with pytest.raises(ValueError, match="hash"):
        Secret("sha256:00").reveal()
