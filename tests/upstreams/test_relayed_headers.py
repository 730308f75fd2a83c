"""Which headers are relayed, by name: what must reach the other side beside what must not."""

import pytest

from pointsman.upstreams.relayed_headers import HeaderNames, goes_up, name_down, name_problems

#: As Claude Code, Codex, opencode, Cline, the SDKs of OpenAI and Anthropic, and tracing libraries send them.
UP = """
accept anthropic-beta anthropic-version anthropic-dangerous-direct-browser-access http-referer idempotency-key
openai-beta originator prefer range session_id session-id conversation_id traceparent tracestate user-agent
version x-app x-claude-code-session-id x-client-request-id x-codex-turn-metadata x-codex-beta-features
x-openai-subagent x-parent-session-id x-request-id x-session-affinity x-session-id x-stainless-arch
x-stainless-retry-count x-title
"""
NOT_UP = """
authorization x-api-key api-key x-goog-api-key x-portkey-api-key openai-organization openai-project
chatgpt-account-id openai-api-key anthropic-api-key anthropic-auth-token x-openai-session-token cookie
proxy-authorization forwarded x-forwarded-for x-forwarded-host x-forwarded-user via x-real-ip true-client-ip
cf-connecting-ip cf-access-jwt-assertion x-original-url x-rewrite-url x-http-method-override host expect te
trailer connection upgrade content-length content-type accept-encoding origin referer x-pointsman-key
x-amz-security-token x-goog-user-project openai openai_beta sec-fetch-site baggage
"""
DOWN = """
anthropic-organization-id anthropic-ratelimit-requests-remaining cf-ray content-type content-disposition
content-range openai-model openai-organization openai-processing-ms openai-version request-id retry-after
retry-after-ms x-codex-primary-used-percent x-ms-region x-oai-request-id x-openai-internal
x-ratelimit-limit-tokens x-ratelimit-reset-requests
"""
NOT_DOWN = """
access-control-allow-origin access-control-allow-credentials access-control-expose-headers alt-svc
clear-site-data connection content-length content-security-policy cross-origin-opener-policy date keep-alive
link location nel origin-trial permissions-policy proxy-authenticate public-key-pins refresh report-to server
service-worker-allowed set-cookie set-cookie2 sourcemap strict-transport-security te trailer transfer-encoding
upgrade vary via www-authenticate x-accel-buffering x-accel-redirect x-frame-options x-lighttpd-send-file
x-pointsman-model x-powered-by x-reproxy-url x-sendfile x-should-retry
"""


@pytest.mark.parametrize("name", UP.split())
def test_what_goes_up(name: str) -> None:
    assert goes_up(name.encode())


@pytest.mark.parametrize("name", NOT_UP.split())
def test_what_does_not_go_up(name: str) -> None:
    assert not goes_up(name.encode())


@pytest.mark.parametrize("name", DOWN.split())
def test_what_goes_down(name: str) -> None:
    assert name_down(name.encode()) == name.encode()


@pytest.mark.parametrize("name", NOT_DOWN.split())
def test_what_does_not_go_down(name: str) -> None:
    assert name_down(name.encode()) == b""


def test_the_upstreams_request_id_has_a_name_of_its_own() -> None:
    assert name_down(b"x-request-id") == b"x-pointsman-upstream-request-id"


def test_configured_names() -> None:
    names = HeaderNames([b"X-Acme-Tenant", b"x-team-*"])
    assert b"x-acme-tenant" in names
    assert b"x-team-" in names
    assert b"x-team-red" in names
    assert b"x-acme-tenant-2" not in names
    assert b"x-teams" not in names
    assert not HeaderNames()


def test_what_belongs_to_a_credential_goes_with_it() -> None:
    assert not HeaderNames.taken((), forward_auth=False)
    names = HeaderNames.taken(["x-mine"], forward_auth=True)
    for name in (b"x-mine", b"openai-organization", b"openai-project", b"chatgpt-account-id"):
        assert name in names
    assert b"x-goog-api-key" not in names


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("x-acme", ""),
        ("X-Acme-*", ""),
        ("x-goog-api-key", ""),
        ("cookie", ""),
        ("", "neither the name"),
        ("*", "neither the name"),
        ("x *", "neither the name"),
        ("x-*-y", "neither the name"),
        ("Authorization", "not for a setting"),
        ("x-api-key", "not for a setting"),
        ("x-api-*", "not for a setting"),
        ("x-*", "not for a setting"),
        ("x-pointsman-tier", "not for a setting"),
        ("x-point*", "not for a setting"),
        ("x-pointsman-key*", "not for a setting"),
        ("content-length", "not for a setting"),
        ("transfer-*", "not for a setting"),
    ],
)
def test_names_that_can_be_configured(name: str, says: str) -> None:
    problems = list(name_problems(["accept", name]))
    if says:
        [(place, message)] = problems
        assert place == 1
        assert says in message
    else:
        assert problems == []
