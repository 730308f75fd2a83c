"""The reference page of translation shows the table that the translation obeys."""

import importlib.util
from pathlib import Path

from pointsman.vocabulary import WireFormat
from pointsman.wire.constructs import CONSTRUCTS, Kind

ROOT = Path(__file__).parents[2]


def test_the_page_is_printed_from_the_table() -> None:
    path = ROOT / "scripts" / "translation_reference.py"
    spec = importlib.util.spec_from_file_location("translation_reference", path)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.render() in script.PAGE.read_text("utf-8"), "run scripts/translation_reference.py"


def test_every_construct_belongs_to_a_format_and_says_why() -> None:
    for name, construct in CONSTRUCTS.items():
        assert construct.fields.keys() <= set(WireFormat), name
        assert construct.fields, name
        for fate in construct.fates.values():
            assert fate.how or fate.kind is Kind.EXACT, name
