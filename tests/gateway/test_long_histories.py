"""What is looked at of a request that nothing is known of does not grow with its history."""

import json

import pytest

from pointsman.gateway.session_id import fingerprint
from pointsman.vocabulary import Turn, WireFormat
from pointsman.wire.history import JsonHistory
from pointsman.wire.request import turn_from_body


def turn_of(message: dict[str, str], count: int) -> Turn:
    body = {"model": "auto", "messages": [message] * count}
    return turn_from_body(WireFormat.CHAT, json.dumps(body).encode())


def decoded(turn: Turn) -> int:
    assert isinstance(turn.history, JsonHistory)
    return sum(message is not None for message in turn.history._decoded)


@pytest.mark.parametrize("role", ["system", "assistant", "tool"])
def test_a_session_is_named_by_the_first_messages(role: str) -> None:
    message = {"role": role, "content": "again"}
    turn = turn_of(message, 5_000)
    assert fingerprint(turn) == fingerprint(turn_of(message, 6_000))
    assert decoded(turn) <= 100


def test_the_words_of_the_system_stand_in_the_first_messages() -> None:
    assert turn_of({"role": "system", "content": "be brief"}, 5_000).system.count("be brief") == 100
