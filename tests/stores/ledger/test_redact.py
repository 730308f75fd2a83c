"""What is kept of a prompt."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pointsman.decision.decision import Injection, TextMode
from pointsman.stores.ledger.port import MAX_TEXT
from pointsman.stores.ledger.redact import kept_decision, kept_text, redact
from pointsman.testing import a_decision

PRIVATE = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA+/=\nabc\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("use sk-proj-abcdefghij_KLMNOP-123", "use [key]"),
        ("sk-ant-api03-abcdefghijklmnop.", "[key]."),
        ("AKIAIOSFODNN7EXAMPLE", "[key]"),
        ("AIza" + 35 * "x", "[key]"),
        ("ghp_" + 36 * "a", "[key]"),
        ("github_pat_" + 30 * "a", "[key]"),
        ("glpat-" + 20 * "a", "[key]"),
        ("xoxb-1234567890-abc", "[key]"),
        ("hf_" + 34 * "a", "[key]"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0x.c2lnbmF0dXJl", "[key]"),
        ("Authorization: Bearer abcdefghijklmnop0123", "Authorization: Bearer [key]"),
        (f"before\n{PRIVATE}\nafter", "before\n[key]\nafter"),
        ("password = hunter22", "password = [key]"),
        ('{"api_key": "abcd1234"}', '{"api_key": [key]}'),
        ("DB_PASSWORD='correct horse'", "DB_PASSWORD=[key]"),
        ("ask jane.doe+x@mail.example.co.uk, please", "ask [e-mail], please"),
    ],
)
def test_taken_out(text: str, kept: str) -> None:
    assert redact(text) == kept


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens = 4096",
        "the tokenizer splits tokens",
        "a risk-averse mask-like task",
        "sk-short",
        "AKIA is a prefix",
        "password?",
        "password = abc",  # too short to be one
        "bearer of bad news",
        "see @decorator and a @ b",
        "user@localhost",
        "-----BEGIN PUBLIC KEY-----",
    ],
)
def test_not_touched(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    ("mode", "kept"),
    [
        ("off", None),
        ("hash", "sha256:" + hashlib.sha256(b"mail a@b.co").hexdigest()),
        ("redacted", "mail [e-mail]"),
        ("full", "mail a@b.co"),
    ],
)
def test_modes(mode: TextMode, kept: str | None) -> None:
    assert kept_text("mail a@b.co", mode) == kept


def test_a_cut_leaves_no_half_of_a_key() -> None:
    text = (MAX_TEXT - 10) * "x" + " sk-" + 40 * "a"
    kept = kept_text(text, "redacted")
    assert kept is not None
    assert kept.endswith("x [key]")
    assert kept_text(text, "full") == text[:MAX_TEXT]


@given(st.text(alphabet=st.characters(), max_size=50), st.sampled_from(["hash", "redacted", "full"]))
def test_what_is_kept_can_always_be_stored(text: str, mode: TextMode) -> None:
    kept = kept_text(text + "\ud800", mode)
    assert kept is not None
    kept.encode()


@pytest.mark.parametrize(
    "unit",
    ["sk-", "eyJ", "eyJ.", "a@", "token=", "bearer ", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "a.b-"],
)
def test_hostile_repetition_comes_back(unit: str) -> None:
    # No clock: a pattern that is not linear would take minutes here.
    assert redact(unit * (MAX_TEXT // len(unit))) is not None


@pytest.mark.parametrize(
    ("mode", "kept"),
    [
        ("off", 'The latest `edit` failed with: "…". Look at "…".'),
        ("hash", 'The latest `edit` failed with: "…". Look at "…".'),
        ("redacted", 'The latest `edit` failed with: "no [key]". Look at "it".'),
        ("full", 'The latest `edit` failed with: "no sk-0123456789abcdef". Look at "it".'),
    ],
)
def test_what_was_added_is_kept_and_its_quotes_as_words_are(mode: TextMode, kept: str) -> None:
    text = 'The latest `edit` failed with: "no sk-0123456789abcdef". Look at "it".'
    decision = replace(a_decision("d"), injections=(Injection("guidance", text),))
    assert kept_decision(decision, mode).injections == (Injection("guidance", kept),)
    plain = replace(decision, injections=())
    assert kept_decision(plain, mode) is plain
