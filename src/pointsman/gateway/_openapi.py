"""The OpenAPI document of the gateway's own endpoints, as ``/openapi.json`` sends it.

``openapi.json`` in this folder holds the paths, and the shapes that no struct has. The other schemas come
from the structs that the handlers read and write; ``tests/gateway/test_openapi.py`` compares the paths with
the routes, and real answers with the schemas.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from pointsman import __version__
from pointsman.gateway._decide import DecisionPage, TextRequest
from pointsman.stores.ledger.outcome_reports import ReportedOutcome
from pointsman.stores.ledger.port import Attempt, Outcome, ShadowAnswer, ShadowDecision
from pointsman.stores.ledger.runs import RunRecord
from pointsman.tiers import Explanation

_STRUCTS: Final = (DecisionPage, TextRequest, Explanation, ReportedOutcome, Attempt, Outcome, ShadowAnswer,
                   ShadowDecision, RunRecord)  # fmt: skip


def openapi_document() -> dict[str, Any]:
    """Return the document as plain values (OpenAPI 3.1)."""
    document: dict[str, Any] = msgspec.json.decode(Path(__file__).with_name("openapi.json").read_bytes())
    document["info"]["version"] = __version__
    components = document["components"]
    _, schemas = msgspec.json.schema_components(_STRUCTS, ref_template="#/components/schemas/{name}")
    components["schemas"] = schemas | components["schemas"]
    return document


@cache
def openapi_json() -> bytes:
    """Return the document as JSON."""
    return msgspec.json.encode(openapi_document())
