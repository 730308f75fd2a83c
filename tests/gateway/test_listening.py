"""The address that a process serves, as it is written and bound."""

import pytest

from pointsman import ConfigError
from pointsman.gateway.listening import address, bound


@pytest.mark.parametrize(
    ("host", "written"),
    [
        ("127.0.0.1", "127.0.0.1:80"),
        ("localhost", "localhost:80"),
        ("::1", "[::1]:80"),
        ("[::1]", "[::1]:80"),
        ("::", "[::]:80"),
    ],
)
def test_an_ipv6_address_is_written_in_brackets(host: str, written: str) -> None:
    assert address(host, 80) == written


@pytest.mark.parametrize("host", ["2001:db8::1", "[2001:db8::1]"])  # of RFC 3849: no machine has it
def test_an_address_of_another_machine_is_a_clear_error(host: str) -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on \[2001:db8::1\]:0: ") as refused:
        bound(host, 0)
    assert "[server] host and port" in refused.value.hint
