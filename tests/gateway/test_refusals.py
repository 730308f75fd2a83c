"""What gets a clear error, on the wire: the status, the words, and the caller's own format."""

from collections.abc import Iterator

import httpx
import pytest

from pointsman.types import WireFormat

from .formats import PATHS, request
from .running import gateway, setup_for

pytestmark = pytest.mark.integration

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with gateway(setup_for()) as running, httpx.Client(base_url=running.url, trust_env=False) as client:
        yield client


@pytest.mark.parametrize("wire", WireFormat)
def test_a_request_without_a_model(client: httpx.Client, wire: WireFormat) -> None:
    """The providers refuse it too; a client's own mistake must not become an answer here."""
    body = request(wire)
    del body["model"]
    got = client.post(PATHS[wire], json=body)
    assert got.status_code == 400
    assert got.json()["error"]["message"] == 'the request names no model; "auto" lets the gateway choose'
