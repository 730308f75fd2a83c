"""The header ``traceparent``: what is valid, and what is recorded of it."""

import pytest

from pointsman.wire.project import TraceParent, read_traceparent, traceparent_of

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize(
    ("sent", "recorded"),
    [
        (f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-01"),
        (f"00-{TRACE}-{SPAN}-00", f"00-{TRACE}-{SPAN}-00"),
        (f"cc-{TRACE}-{SPAN}-01-what-comes", f"00-{TRACE}-{SPAN}-01"),  # a later version
        (f"00-{TRACE}-{SPAN}-01-more", ""),
        (f"ff-{TRACE}-{SPAN}-01", ""),
        (f"00-{'0' * 32}-{SPAN}-01", ""),
        (f"00-{TRACE}-{'0' * 16}-01", ""),
        (f"00-{TRACE.upper()}-{SPAN}-01", ""),
        (f"00-{TRACE}-{SPAN}", ""),
        (f" 00-{TRACE}-{SPAN}-01", ""),
        (f"cc-{TRACE}-{SPAN}-01-{'x' * 300}", ""),
        ("", ""),
        ("\xff" * 55, ""),
    ],
)
def test_what_is_recorded(sent: str, recorded: str) -> None:
    assert read_traceparent(sent.encode("latin-1")) == recorded


@pytest.mark.parametrize(("flags", "sampled"), [("00", False), ("01", True), ("02", False), ("03", True)])
def test_the_parts_of_a_recorded_one(flags: str, sampled: bool) -> None:
    assert traceparent_of(f"00-{TRACE}-{SPAN}-{flags}") == TraceParent(TRACE, SPAN, sampled)


def test_none_is_recorded() -> None:
    assert traceparent_of("") is None
