"""Exports: LiteLLM's and OpenTelemetry's as the programs wrote them, hosted services' by their schema."""

from __future__ import annotations

import csv
import io
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from pointsman import Pointsman
from pointsman.cli import app
from pointsman.stores.ledger import Attempt, PolicyText, ShadowAnswer, SqliteLedger

EXPORTS = Path(__file__).parent / "logs/exports"
OWN_PRICES = """
[upstreams.openai]
base_url = "http://127.0.0.1:9/v1"
formats = ["chat"]
[tiers]
simple = "cheap"
medium = "cheap"
complex = "cheap"
reasoning = "cheap"
[models.cheap]
upstream = "openai"
id = "my-own"
input_per_million = 0.9
output_per_million = 10
"""


def audit(*files: Path) -> dict[str, Any]:
    ran = CliRunner().invoke(app, ["audit", *map(str, files), "--json"])
    assert ran.exit_code == 0, ran.output + repr(ran.exception)
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def written(folder: Path, rows: list[dict[str, Any]], kind: str) -> Path:
    """Rows as CSV, as a JSON array or as JSON lines."""
    file = folder / f"export.{kind}"
    if kind == "csv":
        out = io.StringIO()
        table = csv.DictWriter(out, rows[0])
        table.writeheader()
        table.writerows(
            {name: json.dumps(v) if isinstance(v, dict) else v for name, v in row.items()} for row in rows
        )
        file.write_text(out.getvalue())
    elif kind == "json":
        file.write_text(json.dumps(rows, indent=1))
    else:
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.mark.parametrize("name", ["litellm.json", "litellm.csv"])
def test_spend_logs_of_litellm_have_what_the_upstream_counted(name: str) -> None:
    found = {each["id"]: each for each in audit(EXPORTS / name)["sessions"]}
    openai, anthropic = found["s-openai"], found["s-anthro"]
    tokens = ("requests", "input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens")
    assert [openai[each] for each in tokens] == [3, 7_172, 4_608, 0, 18]
    assert [anthropic[each] for each in tokens] == [3, 7_180, 4_608, 2_560, 18]
    spend = [each["spend"] for each in json.loads((EXPORTS / "litellm.json").read_text())]
    assert openai["spent"] + anthropic["spent"] == pytest.approx(sum(spend), abs=2e-6)
    assert (openai["client"], openai["project"]) == ("litellm", "shop")


@pytest.mark.parametrize(
    "changed",
    [
        {"call_type": "aembedding"},
        {"call_type": "aget_responses"},
        {"status": "failure"},
        {"cache_hit": "True", "spend": 0.0},
    ],
)
def test_rows_of_litellm_that_asked_no_model(tmp_path: Path, changed: dict[str, Any]) -> None:
    rows = json.loads((EXPORTS / "litellm.json").read_text())
    rows[0] |= changed
    found = audit(written(tmp_path, rows, "jsonl"))
    assert found["total"]["requests"] == 5
    assert "1 rows are no answered request" in found["notes"][0]


def test_spans_of_opentelemetry_have_what_the_upstream_counted() -> None:
    (found,) = audit(EXPORTS / "otel.jsonl")["sessions"]
    assert (found["project"], found["requests"], list(found["models"])) == ("shop-agent", 3, ["gpt-4o-mini"])
    assert (found["input_tokens"], found["output_tokens"]) == (7_161, 18)


@pytest.mark.parametrize(
    ("attributes", "whole"),
    [
        ({"gen_ai.provider.name": "openai", "gen_ai.usage.cache_read.input_tokens": 900}, 1_000),
        ({"gen_ai.provider.name": "anthropic", "gen_ai.usage.cache_read.input_tokens": 900}, 1_000),
        ({"gen_ai.system": "anthropic", "gen_ai.usage.cache_read_input_tokens": 900}, 1_900),
        ({"gen_ai.provider.name": "aws", "gen_ai.usage.cache_read.input_tokens": 1_200}, 2_200),
    ],
)
def test_whether_input_includes_cached_tokens(tmp_path: Path, attributes: dict[str, Any], whole: int) -> None:
    known = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.usage.input_tokens": 1_000,
        "gen_ai.usage.output_tokens": 5,
    }
    listed = [
        {"key": name, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for name, value in (known | attributes).items()
    ]
    span = {"traceId": "t", "spanId": "s", "endTimeUnixNano": "1795406880450102557", "attributes": listed}
    tool = span | {"attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "execute_tool"}}]}
    file = tmp_path / "spans.json"
    file.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span, tool]}]}]}))
    (found,) = audit(file)["sessions"]
    assert (found["requests"], found["input_tokens"]) == (1, whole)


def test_spans_of_one_answer_are_one_request_and_ids_given_again_are_others(tmp_path: Path) -> None:
    """Two layers may report one answer; a local server numbers its answers from 0 to 999."""

    def span(number: int, id_: str, output: int) -> dict[str, Any]:
        attributes = {"gen_ai.operation.name": "chat", "gen_ai.response.id": id_}
        counts = {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": output}
        listed = [{"key": name, "value": {"stringValue": value}} for name, value in attributes.items()]
        listed += [{"key": name, "value": {"intValue": str(value)}} for name, value in counts.items()]
        return {"traceId": "t", "spanId": f"s{number}", "endTimeUnixNano": "1795406880450102557"} | {
            "attributes": listed
        }

    spans = [span(1, "resp_1", 5), span(2, "resp_1", 5), span(3, "chatcmpl-7", 5), span(4, "chatcmpl-7", 9)]
    file = tmp_path / "spans.json"
    file.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}))
    assert audit(file)["total"]["requests"] == 3


@pytest.mark.parametrize(
    ("attributes", "requests"),
    [
        ({"openinference.span.kind": "LLM", "llm.model_name": "m"}, 2),
        ({"openinference.span.kind": "AGENT", "llm.model_name": "m"}, 1),
        ({"openinference.span.kind": "CHAIN"}, 1),
        ({"gen_ai.request.model": "m"}, 2),
        ({"agent_name": "shop", "model_name": "m"}, 1),
    ],
)
def test_a_span_with_the_sums_of_those_within_is_no_request(
    tmp_path: Path, attributes: dict[str, str], requests: int
) -> None:
    def span(id_: str, own: dict[str, str]) -> dict[str, Any]:
        listed = [{"key": name, "value": {"stringValue": value}} for name, value in own.items()]
        name = "llm.token_count.prompt" if "openinference.span.kind" in own else "gen_ai.usage.input_tokens"
        listed.append({"key": name, "value": {"intValue": "100"}})
        return {"traceId": "t", "spanId": id_, "attributes": listed}

    asked = span("s1", {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"})
    file = tmp_path / "spans.json"
    spans = {"spans": [asked, span("s2", attributes)]}
    file.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [spans]}]}))
    assert audit(file)["total"]["requests"] == requests


def test_rows_without_an_id_are_several(tmp_path: Path) -> None:
    (row,) = (each for name, each, _ in HOSTED if name == "openrouter")
    row = row | {"generation_id": ""}
    assert audit(written(tmp_path, [row, row], "csv"))["total"]["requests"] == 2


HOSTED: list[tuple[str, dict[str, Any], tuple[int, int, int, float]]] = [
    (
        "openrouter",
        {
            "generation_id": "gen-1",
            "created_at": "2026-11-20T10:00:00Z",
            "cost_total": "0.01",
            "byok_usage_inference": "0.002",
            "tokens_prompt": "1000",
            "tokens_completion": "20",
            "tokens_reasoning": "5",
            "tokens_cached": "900",
            "model_permaslug": "openai/gpt-5",
            "provider_name": "OpenAI",
            "app_name": "shop",
        },
        (1_000, 900, 20, 0.012),
    ),
    (
        "langfuse",
        {
            "id": "o1",
            "traceId": "t1",
            "type": "GENERATION",
            "startTime": "2026-11-20 10:00:00.000000",
            "endTime": "2026-11-20 10:00:02.000000",
            "providedModelName": "claude-sonnet-4-5",
            "usageDetails": {"input": 100, "cache_read_input_tokens": 900, "output": 20},
            "totalCost": 0.01,
            "sessionId": "s1",
        },
        (1_000, 900, 20, 0.01),
    ),
    (
        "helicone",
        {
            "request_id": "r1",
            "request_created_at": "2026-11-20T10:00:00Z",
            "response_status": 200,
            "response_model": "claude-sonnet-4-5",
            "provider": "ANTHROPIC",
            "prompt_tokens": 100,
            "prompt_cache_read_tokens": 900,
            "completion_tokens": 20,
            "costUSD": 0.01,
            "request_properties": {"Helicone-Session-Id": "s1"},
        },
        (1_000, 900, 20, 0.01),
    ),
]


@pytest.mark.parametrize("kind", ["csv", "json", "jsonl"])
@pytest.mark.parametrize(("name", "row", "figures"), HOSTED, ids=[each[0] for each in HOSTED])
def test_an_export_by_its_schema(
    tmp_path: Path, name: str, row: dict[str, Any], figures: tuple[int, int, int, float], kind: str
) -> None:
    (found,) = audit(written(tmp_path, [row], kind))["sessions"]
    assert found["client"] == name
    tokens = (found["input_tokens"], found["cached_tokens"], found["output_tokens"])
    assert (*tokens, found["spent"]) == figures
    assert (found["started"] or "").startswith("2026-11-20T10:00:0")


@pytest.mark.parametrize("none", [None, 0])
def test_costs_of_an_export_count_where_it_has_them(tmp_path: Path, none: int | None) -> None:
    """The other request costs by the catalogue 100 tokens at $3 a million, 900 at $0.30 and 20 at $15."""
    (row,) = (each for name, each, _ in HOSTED if name == "langfuse")
    rows = [row, row | {"id": "o2", "totalCost": none}]
    (found,) = audit(written(tmp_path, rows, "jsonl"))["sessions"]
    assert found["spent"] == pytest.approx(0.01 + 0.00087, abs=1e-6)


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"input": 100, "input_cached_tokens": 900, "output": 15, "output_reasoning_tokens": 5}, (900, 0)),
        (
            {"input": 100, "cache_read_input_tokens": 700, "cache_creation_input_tokens": 200, "output": 20},
            (700, 200),
        ),
        ({"input": 100, "input_cache_read": 700, "input_cache_creation": 200, "output": 20}, (700, 200)),
        (
            {
                "input": 100,
                "input_cache_read": 700,
                "input_cache_write_5m": 200,
                "output": 20,
                "total": 1_020,
            },
            (700, 200),
        ),
        ({"input": 100, "input_audio_tokens": 900, "output": 10, "output_audio_tokens": 10}, (0, 0)),
    ],
)
def test_usage_types_of_langfuse_add_up(
    tmp_path: Path, usage: dict[str, int], tokens: tuple[int, int]
) -> None:
    (row,) = (each for name, each, _ in HOSTED if name == "langfuse")
    (found,) = audit(written(tmp_path, [row | {"usageDetails": usage}], "jsonl"))["sessions"]
    assert (found["input_tokens"], found["output_tokens"]) == (1_000, 20)
    assert (found["cached_tokens"], found["cache_write_tokens"]) == tokens


@pytest.mark.parametrize(("cost", "dollars"), [("0", 0.0), ("", 0.000438)])
def test_openrouter_bills_nothing_for_a_free_model(tmp_path: Path, cost: str, dollars: float) -> None:
    (row,) = (each for name, each, _ in HOSTED if name == "openrouter")
    row = row | {"cost_total": cost, "byok_usage_inference": cost}
    (found,) = audit(written(tmp_path, [row], "csv"))["sessions"]
    assert (found["spent"], found["unpriced_requests"]) == (pytest.approx(dollars, abs=1e-6), 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "is no export that is known: it has a, b"),
        ("", "has no rows"),
        ("[]", "has no rows"),
        ('{"date": "2026-11-20", "requests": 3, "model": "m"}', "has sums of days, not requests"),
        ("[{]", "not JSON"),
    ],
)
def test_an_export_of_the_wrong_kind(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "export"
    file.write_text(text)
    ran = CliRunner().invoke(app, ["audit", str(file)])
    assert ran.exit_code != 0
    assert message in str(ran.exception)
    assert str(file) in str(ran.exception)


@pytest.mark.parametrize(
    ("name", "message"),
    [("c.jsonl", "is a copy of a ledger"), ("c.jsonl.gz", "is compressed"), ("c.parquet", "is Parquet")],
)
def test_a_copy_of_a_ledger_says_how_it_is_read(tmp_path: Path, name: str, message: str) -> None:
    copied = tmp_path / name
    ledger = a_ledger(tmp_path / "ledger", "large")
    assert CliRunner().invoke(app, ["ledger", "copy", str(ledger), str(copied)]).exit_code == 0
    refused = str(CliRunner().invoke(app, ["audit", str(copied)]).exception)
    assert refused.startswith(f"{copied} {message}")
    assert f"pointsman ledger copy {copied} FILE.sqlite" in refused


def test_a_first_row_longer_than_the_header(tmp_path: Path) -> None:
    header, first, *rest = (EXPORTS / "litellm.csv").read_text().splitlines()
    file = tmp_path / "export.csv"
    file.write_text("\n".join([header, f"{first},more", *rest]))
    assert audit(file)["total"] == audit(EXPORTS / "litellm.csv")["total"]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    ran = CliRunner().invoke(app, ["audit", str(tmp_path / "none.csv")])
    assert "No such file" in str(ran.exception)


def a_ledger(
    file: Path,
    model: str,
    prices: str = OWN_PRICES,
    *,
    upstream: str = "openai",
    policy: str = "p",
    tokens: Any = None,
    **asked: str,
) -> Path:
    """A ledger of one more request, that a model answered."""
    ledger = SqliteLedger(file)
    decision = Pointsman().decide("Hello!")
    asking = msgspec.structs.replace(decision.input, **asked)
    decision = msgspec.structs.replace(decision, input=asking, policy=policy)
    ledger.append(PolicyText(version=decision.policy, text=prices))
    ledger.append(decision)
    ledger.append(
        Attempt(
            decision=decision.id,
            number=1,
            model=model,
            upstream=upstream,
            status=200,
            started_at=1_795_000_000.0,
            total_ms=5.0,
            **(tokens or {"input_tokens": 1_000, "cached_tokens": 900, "output_tokens": 10}),
        )
    )
    ledger.close()
    return file


@pytest.mark.parametrize(("model", "counted"), [("gpt-5", "gpt-5"), ("cheap", "my-own")])
def test_a_ledger_of_our_own(model: str, counted: str, tmp_path: Path) -> None:
    """A model has the price that the policy of its decision states, and else that of the catalogue."""
    (found,) = audit(a_ledger(tmp_path / "ledger.sqlite", model))["sessions"]
    assert (found["client"], found["requests"], found["cached_tokens"]) == ("pointsman", 1, 900)
    assert list(found["models"]) == [counted]
    assert found["spent"] == pytest.approx(0.0010 if model == "cheap" else 0.0003375, abs=1e-6)


def test_a_cache_has_no_more_tokens_than_the_input_in_the_audit_of_a_ledger_too(tmp_path: Path) -> None:
    """Some servers leave what was read from the cache out of the input: reports take it as part of that."""
    tokens = {"input_tokens": 1_000, "cached_tokens": 1_500, "written_tokens": 800, "output_tokens": 10}
    file = tmp_path / "ledger.sqlite"
    cached = OWN_PRICES + "cached_input_per_million = 0.1\ncache_write_per_million = 2\n"
    (found,) = audit(a_ledger(file, "cheap", cached, tokens=tokens))["sessions"]
    told = CliRunner().invoke(app, ["report", "savings", "--ledger", str(file), "--json"])
    assert found["spent"] == pytest.approx(json.loads(told.stdout)["paid"], abs=1e-6)
    assert found["spent"] == pytest.approx(0.0002)


def test_a_ledger_of_an_earlier_version_stays_as_it_is(tmp_path: Path) -> None:
    """It was brought to the schema of this version, under the gateway that writes it."""
    earlier = Path(__file__).parents[1] / "stores/ledger/data/ledger_2cff89a.sqlite"
    (file := tmp_path / "ledger.sqlite").write_bytes(earlier.read_bytes())
    assert sum(each["requests"] for each in audit(file)["sessions"]) == 42
    assert file.read_bytes() == earlier.read_bytes()
    assert list(tmp_path.iterdir()) == [file]


def test_the_policy_of_a_ledger_runs_no_code(tmp_path: Path) -> None:
    """The ledger may be another's: the application that its policy named was run, a class imported."""
    (tmp_path / "theirs.py").write_text(
        f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).touch()\n"
    )
    named = f'{OWN_PRICES}[capabilities]\napplication = "{tmp_path}/theirs.py"\n'
    (found,) = audit(a_ledger(tmp_path / "ledger.sqlite", "cheap", named))["sessions"]
    assert found["spent"] == pytest.approx(0.0010, abs=1e-6), "at the prices of that policy"
    assert not (tmp_path / "ran").exists()


def test_each_request_of_a_ledger_costs_what_its_own_policy_says(tmp_path: Path) -> None:
    file = tmp_path / "ledger.sqlite"
    dear = OWN_PRICES.replace("= 0.9", "= 9").replace("= 10", "= 100")
    for session, prices in (("one", OWN_PRICES), ("two", dear)):
        a_ledger(file, "cheap", prices, policy=session, session=session)
    assert [each["spent"] for each in audit(file)["sessions"]] == pytest.approx([0.001, 0.01])


@pytest.mark.parametrize(("provider", "unpriced"), [("mistral", 0), ("groq", 1)])
def test_a_model_that_a_policy_lacks_has_the_price_of_its_provider(
    provider: str, unpriced: int, tmp_path: Path
) -> None:
    """The upstream has a name of its own, and the model's does not say who made it."""
    named = OWN_PRICES.replace("[upstreams.openai]", f'[upstreams.corp]\nprovider = "{provider}"')
    named = named.replace('upstream = "openai"', 'upstream = "corp"')
    file = a_ledger(tmp_path / "ledger.sqlite", "ministral-8b-latest", named, upstream="corp")
    assert audit(file)["total"]["unpriced_requests"] == unpriced


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("cheap", "policy.toml moves none of 1 request to another model."),
        ("gone", "Not compared, for the catalogue has no price of the logged model: gone (1 request)"),
    ],
)
def test_a_replay_of_a_ledger_has_the_prices_of_its_configuration(
    model: str, said: str, tmp_path: Path
) -> None:
    """It asked the catalogue alone, and compared no model that only the configuration prices."""
    (tmp_path / "policy.toml").write_text(OWN_PRICES.replace("my-own", "another").replace("0.9", "0.1"))
    files = (a_ledger(tmp_path / "ledger.sqlite", model), "--policy", tmp_path / "policy.toml")
    ran = CliRunner().invoke(app, ["audit", *map(str, files)])
    assert "nothing can be compared, for no work was done by a model that is cheaper." in ran.stdout
    assert said in " ".join(ran.stdout.split())
    assert ("Not compared" in ran.stdout) is (model == "gone")


def test_models_that_a_ledger_alone_prices_are_compared_by_outcomes(tmp_path: Path) -> None:
    """No model of a server of one's own was: the catalogue has no price of either."""
    own = OWN_PRICES + OWN_PRICES[OWN_PRICES.index("[models.cheap]") :].replace("cheap", "dear").replace(
        "my-own", "my-dear").replace("0.9", "9").replace("10", "100")  # fmt: skip
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    labels = []
    for number in range(120):
        session, model = f"s{number}", ("cheap", "dear")[number % 2]
        decision = Pointsman().decide("Hello!")
        asked = msgspec.structs.replace(decision.input, session=session, project="p-1", project_name="shop")
        decision = msgspec.structs.replace(decision, input=asked)
        if not number:
            ledger.append(PolicyText(version=decision.policy, text=own))
        ledger.append(decision)
        ledger.append(
            Attempt(
                decision=decision.id, number=1, model=model, upstream="openai", status=200,
                started_at=1_795_000_000.0, total_ms=5.0, input_tokens=1_000 + number, output_tokens=10,
            )
        )  # fmt: skip
        labels.append({"session": session, "solved": model == "cheap"})
    ledger.close()
    given = [str(tmp_path / "ledger.sqlite"), "--labels", str(written(tmp_path, labels, "jsonl"))]
    said = " ".join(CliRunner().invoke(app, ["audit", *given]).stdout.split())
    assert "my-dear my-own 60 and 60" in said
    assert "By outcomes: $" in said


def test_a_price_that_no_model_has_compares_nothing(tmp_path: Path) -> None:
    absurd = OWN_PRICES.replace("0.9", "5e6")
    (found,) = audit(a_ledger(tmp_path / "ledger.sqlite", "cheap", absurd))["sessions"]
    assert found["spent"] == pytest.approx(5e6 * 1_000 / 1e6 + 0.0001)


@pytest.mark.parametrize("name", ["my-own", "gpt-5"])
def test_a_model_that_costs_nothing_by_the_policy_of_a_ledger(name: str, tmp_path: Path) -> None:
    """Its cost of 0 counted as unknown: no price, or that of the catalogue."""
    free = OWN_PRICES.replace("= 0.9", "= 0").replace("= 10", "= 0").replace("my-own", name)
    total = audit(a_ledger(tmp_path / "ledger.sqlite", "cheap", free))["total"]
    assert (total["spent"], total["unpriced_requests"]) == (0, 0)


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ({"project": "h-1", "project_name": "shop", "client": "aider"}, "shop"),
        ({"project": "c-1", "client": "aider"}, "aider"),  # no folder: the program, no hash
        ({"project": "c-1"}, "c-1"),
        ({"client": "aider"}, "(none)"),
    ],
)
def test_a_project_of_a_ledger_has_the_name_that_other_reports_give_it(
    asked: dict[str, str], name: str, tmp_path: Path
) -> None:
    (found,) = audit(a_ledger(tmp_path / "ledger.sqlite", "cheap", **asked))["sessions"]
    assert found["project_name"] == name


def test_answers_of_a_ledger_that_have_no_usage_are_named(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    decision = Pointsman().decide("Hello!")
    ledger.append(decision)
    for number, error in enumerate(("timeout", ""), start=1):  # of the first nothing is missing
        ledger.append(
            Attempt(
                decision=decision.id, number=number, model="m", upstream="u", status=200, error=error,
                started_at=1.0, total_ms=1.0,
            )
        )  # fmt: skip
    ledger.close()
    file = tmp_path / "ledger.sqlite"
    said = CliRunner().invoke(app, ["audit", str(file)]).stdout
    assert "1 answer without usage, so in no figure" in said
    assert "Without a request to count: 1 log of pointsman." in said
    for session in ("one", "two"):
        a_ledger(file, "cheap", session=session)
    with closing(SqliteLedger(file)) as again:
        for status in (200, 429):  # no answer is one that was refused
            again.append(ShadowAnswer(decision=decision.id, at=1.0, model="m", upstream="u", status=status))
    said = CliRunner().invoke(app, ["audit", str(file)]).stdout
    assert said.count("without usage, so in no figure") == 1
    assert said.count("1 answer of a shadow model, so in no figure") == 1
    assert "Not logged by pointsman, so in no figure: questions of verification" in said
