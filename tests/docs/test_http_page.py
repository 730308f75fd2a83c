"""The page of routes, errors and metrics names all there are, and no other."""

import re
from pathlib import Path

import pytest
from starlette.routing import Route

from pointsman.config import Config
from pointsman.errors import CallerError, Overloaded
from pointsman.gateway._decide import DECISION_PATHS
from pointsman.gateway._failures import _KINDS
from pointsman.gateway._live_state import build_live_state
from pointsman.gateway._local_replies import error_code
from pointsman.gateway._routes import OPEN_PATHS
from pointsman.gateway.app import Gateway
from pointsman.gateway.metric_table import METRICS
from pointsman.upstreams.relayed_headers import REQUEST, REQUEST_PREFIXES, RESPONSE, RESPONSE_PREFIXES
from pointsman.wire import FORMATS
from support.deciders import ScriptedDecider

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "http.md").read_text(encoding="utf-8")
GATEWAY = ROOT / "src" / "pointsman" / "gateway"


def test_every_route() -> None:
    served = Gateway(build_live_state(ScriptedDecider(), Config()))
    routes = [route for route in served.routes.router.routes if isinstance(route, Route)]
    assert len(routes) == len(served.routes.router.routes)
    paths = {route.path.replace(":path", "") for route in routes}
    paths |= {f"/v1{wire.path.decode()}" for wire in FORMATS.values()}
    paths |= {f"/v1{wire.token_path.decode()}" for wire in FORMATS.values() if wire.token_path}
    paths |= {path.decode() for path in DECISION_PATHS}
    written = set(re.findall(r"(?:GET|HEAD|POST) (/[^`,]*)`", PAGE))
    assert written == {path for path in paths if f"/v1{path}" not in paths}
    for path in OPEN_PATHS:
        assert re.search(rf"^\| .*`GET {path.decode()}`.* \| no \|", PAGE, re.MULTILINE), path


def test_every_error_code() -> None:
    """Codes stand in the source as arguments of a fault or refusal, or are made of an error's class."""
    kinds = [*CallerError.__subclasses__(), Overloaded]
    codes = {error_code(kind("")) for each in kinds for kind in (each, *each.__subclasses__())}
    codes |= {f"upstream_{kind}" for kind in ("cut", *_KINDS.values())}
    for file in GATEWAY.glob("*.py"):
        faults = re.findall(r"(?:Fault|Refused)\((?:[^()]|\([^()]*\))*\)", file.read_text(encoding="utf-8"))
        codes |= {code for fault in faults for code in re.findall(r'[ (]"([a-z]+(?:_[a-z]+)+)"', fault)}
    section = PAGE.partition("## Errors\n")[2].partition("## Errors after")[0]
    assert set(re.findall(r"^\| [^|]*\| `(\w+)` \|", section, re.MULTILINE)) - {"code"} == codes


def test_every_metric() -> None:
    shown = Gateway(build_live_state(ScriptedDecider(), Config())).metrics.page().decode()
    names = set(re.findall(r"^# TYPE (pointsman_\w+)", shown, re.MULTILINE))
    section = PAGE.partition("## Metrics\n")[2]
    assert set(re.findall(r"^\| `(pointsman_\w+)`", section, re.MULTILINE)) == names


def test_every_label_of_a_metric() -> None:
    section = PAGE.partition("## Metrics\n")[2]
    for name, spec in METRICS.items():
        suffix = "_total" if spec.kind == "counter" else ""
        (cell,) = re.findall(rf"^\| `pointsman_{name}{suffix}` \|([^|]*)\|", section, re.MULTILINE)
        assert tuple(re.findall(r"(?:^|, )`(\w+)`", re.sub(r"\([^)]*\)", "", cell).strip())) == spec.labels


@pytest.mark.parametrize(
    ("heading", "names", "prefixes"),
    [
        ("## Headers of a request", REQUEST, REQUEST_PREFIXES),
        ("## Headers of a response", RESPONSE, RESPONSE_PREFIXES),
    ],
)
def test_every_header_that_is_relayed(
    heading: str, names: frozenset[bytes], prefixes: tuple[bytes, ...]
) -> None:
    section = PAGE.partition(f"{heading}\n")[2].partition("\n## ")[0]
    for name in (*map(bytes.decode, names), *(f"{prefix.decode()}…" for prefix in prefixes)):
        assert f"`{name}`" in section, name
