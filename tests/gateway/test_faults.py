"""Three in ten answers of an upstream are broken, and no caller notices."""

import socket

import httpx
import pytest

from support.faulty_upstream import FAULTS, healthy, run
from support.requests_by_format import PATHS, request
from support.servers import ScriptedUpstream, gateway, state_for

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(("retries", "requests"), [(0, 200), (1, 160)])
def test_a_healthy_model_makes_good_what_another_breaks(retries: int, requests: int) -> None:
    result = run(requests, seed=20 + retries, retries=retries)
    assert result.bad == []
    assert result.requests == requests
    assert set(result.broken) == set(FAULTS)
    assert set(result.errors) >= {"cut", "timeout", "status", "malformed"}
    assert max(result.attempts) <= 2 + retries
    # a request that met no fault took one try
    assert result.attempts[1] >= requests - sum(result.broken.values())


def test_a_closed_port_is_tried_a_few_times_and_then_not_touched() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
    with (
        ScriptedUpstream(healthy).running() as url,
        gateway(state_for(closed, f"{url}/v1")) as running,
        httpx.Client(base_url=running.url, trust_env=False) as client,
    ):
        answers = [client.post(PATHS[wire], json=request(wire)) for wire in list(PATHS) * 5]
        ready = client.get("/health/ready").json()
    assert {got.status_code for got in answers} == {200}
    assert [int(got.headers["x-pointsman-attempts"]) for got in answers] == [2] * 10 + [1] * 5
    assert ready["open_circuits"] == ["up0"]
