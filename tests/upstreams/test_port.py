"""Values that the configuration and the gateway share."""

import pickle

import pytest

from pointsman.upstreams.port import Secret, UpstreamSpec, hash_key


def test_a_secret_never_shows_itself() -> None:
    spec = UpstreamSpec(name="main", base_url="https://llm.example.com/v1", api_key=Secret("sk-canary"))
    assert "sk-canary" not in f"{spec} {spec!r} {spec.api_key} {spec.api_key!r}"
    assert spec.api_key is not None
    assert spec.api_key.reveal() == "sk-canary"


def test_a_secret_shows_its_reference_and_cannot_be_pickled() -> None:
    secret = Secret("sk-canary", reference="${MAIN_API_KEY}")
    assert (str(secret), repr([secret])) == ("${MAIN_API_KEY}", "[Secret(${MAIN_API_KEY})]")
    assert secret == Secret("sk-canary")
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(secret)


def test_equal_keys_have_equal_digests() -> None:
    assert hash_key("a") == hash_key("a") != hash_key("b")
