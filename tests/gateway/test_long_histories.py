"""What is looked at of a request that nothing is known of does not grow with its history."""

import json

import pytest

from pointsman.vocabulary import AgentRequest, WireFormat
from pointsman.wire.request import JsonHistory, read_request
from pointsman.wire.request import session_fingerprint as fingerprint


def turn_of(message: dict[str, str], count: int) -> AgentRequest:
    body = {"model": "auto", "messages": [message] * count}
    return read_request(WireFormat.CHAT, json.dumps(body).encode())


def decoded(agent_request: AgentRequest) -> int:
    assert isinstance(agent_request.history, JsonHistory)
    return sum(message is not None for message in agent_request.history._decoded)


@pytest.mark.parametrize("role", ["system", "assistant", "tool"])
def test_a_session_is_named_by_the_first_messages(role: str) -> None:
    message = {"role": role, "content": "again"}
    agent_request = turn_of(message, 5_000)
    assert fingerprint(agent_request) == fingerprint(turn_of(message, 6_000))
    assert decoded(agent_request) <= 100


def test_the_words_of_the_system_stand_in_the_first_messages() -> None:
    assert turn_of({"role": "system", "content": "be brief"}, 5_000).system.count("be brief") == 100
