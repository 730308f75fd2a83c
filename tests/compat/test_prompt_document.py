"""The blocks of the founding document on prompt classification: none is Python, two are held against ours."""

from math import exp
from pathlib import Path
from typing import Final

import pytest

from pointsman.text import extract
from pointsman.wire.request import request_from_text
from support.founding import block, keys
from support.tier_profiles import bench

DOCUMENT: Final = "prompt-classifier.md"
DECISION: Final = Path(__file__).parents[2] / "docs" / "decisions" / "0135-code-of-the-founding-documents.md"
#: Named in the decision, with the reason.
NO_CODE: Final = ("Architecture", "Configuration")
#: Source: docs/sources/prompt-classifier.md, "Tier boundaries".
BOUNDARIES: Final = (0.0, 0.15, 0.35)


@pytest.mark.parametrize("text", ["hello", "a function to sort an array", "deploy the api", "x" * 300])
def test_the_documents_formula_gives_the_confidence_of_profile_seed(text: str) -> None:
    formula = block(DOCUMENT, "Confidence Calculation").text.splitlines()[1].partition("=")[2]
    decision = bench("seed").by_rules(text)
    distance = min(abs(decision.score - boundary) for boundary in BOUNDARIES)
    assert decision.confidence == pytest.approx(eval(formula, {"exp": exp, "x": distance}), abs=1e-6)


def test_the_packed_conversation_of_the_document_leaves_its_last_message() -> None:
    packed = block(DOCUMENT, "Three extraction cases").text
    assert extract(request_from_text(packed)).text == packed.splitlines()[-1].strip()


def test_every_block_is_used_or_named_in_the_decision() -> None:
    used = ("Confidence Calculation", "Three extraction cases")
    assert sorted(keys(DOCUMENT)) == sorted((*NO_CODE, *used))
    decision = DECISION.read_text(encoding="utf-8")
    assert all(f'- "{name}" is' in decision for name in NO_CODE)
