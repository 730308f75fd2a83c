"""Which proxy an upstream is reached through."""

from __future__ import annotations

import pytest

from pointsman.errors import ConfigError
from pointsman.upstreams.port import ProxyUrl, UpstreamSpec
from pointsman.upstreams.proxies import parse_proxy, proxy_of

HTTPS = "https://api.example.com/v1"
HTTP = "http://api.example.com/v1"


def chosen(url: str, env: dict[str, str], proxy: str | None = None) -> str | None:
    spec = UpstreamSpec("up", url, proxy=None if proxy is None else ProxyUrl(proxy))
    found = proxy_of(spec, env)
    return None if found is None else str(found)


@pytest.mark.parametrize(
    ("url", "env", "proxy"),
    [
        (HTTPS, {}, None),
        (HTTPS, {"HTTPS_PROXY": "http://p:1"}, "p:1"),
        (HTTPS, {"https_proxy": "http://p:1", "HTTPS_PROXY": "http://q:2"}, "p:1"),
        (HTTPS, {"https_proxy": "", "HTTPS_PROXY": "http://q:2"}, "q:2"),
        (HTTPS, {"HTTP_PROXY": "http://p:1"}, None),
        (HTTP, {"HTTP_PROXY": "http://p:1"}, "p:1"),
        (HTTP, {"HTTPS_PROXY": "http://p:1"}, None),
        (HTTP, {"ALL_PROXY": "http://p:1"}, "p:1"),
        (HTTPS, {"all_proxy": "http://p:1", "HTTPS_PROXY": "http://q:2"}, "q:2"),
        (HTTPS, {"HTTPS_PROXY": "p"}, "p:80"),
        (HTTPS, {"HTTPS_PROXY": "https://P.example"}, "p.example:443"),
        ("http://127.0.0.1:11434/v1", {"HTTP_PROXY": "http://p:1"}, None),
        ("http://[::1]:11434/v1", {"HTTP_PROXY": "http://p:1"}, None),
        ("http://localhost:11434/v1", {"ALL_PROXY": "http://p:1"}, None),
        ("http://localhost.example.com/v1", {"ALL_PROXY": "http://p:1"}, "p:1"),
    ],
)
def test_a_proxy_of_the_environment(url: str, env: dict[str, str], proxy: str | None) -> None:
    assert chosen(url, env) == proxy


@pytest.mark.parametrize(
    ("no_proxy", "url", "direct"),
    [
        ("api.example.com", HTTPS, True),
        ("API.Example.com", HTTPS, True),
        ("example.com", HTTPS, True),
        (".example.com", HTTPS, True),
        ("*.example.com", HTTPS, True),
        ("*", HTTPS, True),
        ("a.org, example.com", HTTPS, True),
        ("example.com:443", HTTPS, True),
        ("example.com:80", HTTPS, False),
        ("example.com:80", HTTP, True),
        ("ample.com", HTTPS, False),
        ("example", HTTPS, False),
        ("", HTTPS, False),
        (",", HTTPS, False),
        (".", HTTPS, False),
        ("api.example.com.evil.org", HTTPS, False),
        ("10.0.0.0/8", "https://10.1.2.3/v1", True),
        ("10.0.0.0/8", "https://11.1.2.3/v1", False),
        ("10.0.0.0/8", "https://10.example.com/v1", False),
        ("10.1.2.3", "https://10.1.2.3:8443/v1", True),
        ("10.1.2.3:8443", "https://10.1.2.3:8443/v1", True),
        ("10.1.2.3:443", "https://10.1.2.3:8443/v1", False),
        ("fd00::/8", "https://[fd00::1]/v1", True),
        ("[fd00::1]", "https://[fd00::1]/v1", True),
    ],
)
def test_what_needs_no_proxy(no_proxy: str, url: str, direct: bool) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        assert (chosen(url, {"all_proxy": "http://p:1", name: no_proxy}) is None) == direct


@pytest.mark.parametrize(("own", "proxy"), [("http://own:3", "own:3"), ("", None)])
def test_an_upstreams_own_proxy_comes_first(own: str, proxy: str | None) -> None:
    env = {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}
    assert chosen(HTTPS, env, own) == proxy
    assert chosen("http://127.0.0.1/v1", env, own) == proxy


def test_credentials_are_decoded_and_never_shown() -> None:
    proxy = parse_proxy("http://user:p%40ss@p:1", "proxy")
    assert proxy.authorization is not None
    assert proxy.authorization.reveal() == "Basic dXNlcjpwQHNz"  # user:p@ss
    shown = f"{proxy} {proxy!r}"
    assert str(proxy) == "p:1"
    assert "ss" not in shown
    assert "dXNl" not in shown


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (
            "socks5://user:canary@p:1",
            'environment variable ALL_PROXY: proxies of the scheme "socks5" are not supported',
        ),
        ("http://user:canary@p:99999", "environment variable ALL_PROXY is not a proxy address"),
        ("http://user:canary@", "environment variable ALL_PROXY is not a proxy address"),
        ("http://user:canary@[::1", "environment variable ALL_PROXY is not a proxy address"),
        ("http://user:canary@p:0", "environment variable ALL_PROXY is not a proxy address"),
    ],
)
def test_a_wrong_address_names_the_setting_and_not_the_password(address: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        chosen(HTTPS, {"ALL_PROXY": address})
    assert caught.value.message == message
    assert "canary" not in f"{caught.value} {caught.value.hint}"
    with pytest.raises(ConfigError, match=r'upstream "up": proxy'):
        chosen(HTTPS, {}, address)
