"""Public evaluation sets: origin, under which licence, and how their files become JSON lines.

Nothing is shipped and nothing is fetched unasked. A set is read from its origin or, where there is no
network, from a folder that holds the same files: a checkout of the repository named.

    .venv/bin/python benchmarks/public_sets.py [--get NAME] [--out FILE] [--from FOLDER] [--json]
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import quote, urlsplit

import msgspec
import typer

from pointsman.cli.output import JsonOption, echo, json_line, print_json
from pointsman.config.edit import write_file
from pointsman.errors import PointsmanError

#: Seconds for one file, and bytes it may have. The largest, GSM8K's answers in RouteLLM, has 2 MB.
TIMEOUT: Final = 30
LARGEST: Final = 64_000_000

Row = dict[str, object]
Files = Mapping[str, bytes]


@dataclass(frozen=True)
class PublicSet:
    """One set."""

    name: str
    about: str
    command: str  # which reads it
    licence: str
    repository: str
    origin: str  # folder of the repository as files
    files: tuple[str, ...]  # below the origin
    read: Callable[[Files], Iterator[Row]]


def rows_of(public: PublicSet, place: str = "") -> Iterator[Row]:
    """Yield the rows of a set, as the command that reads it takes them.

    Args:
        public: the set.
        place: folder or address that holds its files; default: its origin.

    Raises:
        PointsmanError: a file cannot be had, or has an unexpected content.
    """
    where = place or public.origin
    files = {name: _bytes(where, name, public) for name in public.files}
    try:
        yield from public.read(files)
    except (KeyError, ValueError, msgspec.MsgspecError, csv.Error) as error:
        raise PointsmanError(f"the files at {where} are not those of {public.name}: {error!r}") from error


def _bytes(where: str, name: str, public: PublicSet) -> bytes:
    if urlsplit(where).scheme not in {"http", "https"}:
        file = Path(where) / name
        try:
            return file.read_bytes()
        except OSError as error:
            raise PointsmanError(
                f"cannot read {file}: {error.strerror or error}",
                hint=f"--from names a checkout of {public.repository}",
            ) from error
    return _fetched(f"{where.rstrip('/')}/{quote(name)}", public)


def _fetched(address: str, public: PublicSet) -> bytes:
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    request = Request(address, headers={"User-Agent": "pointsman"})
    try:
        with urlopen(request, timeout=TIMEOUT) as answer:
            data: bytes = answer.read(LARGEST + 1)
    except (OSError, HTTPException) as error:
        if isinstance(error, HTTPError):
            error.close()  # it is the answer as well
        raise PointsmanError(
            f"cannot fetch {address}: {getattr(error, 'reason', error)}",
            hint=f"where there is a network: git clone {public.repository}; here: --from FOLDER",
        ) from error
    if len(data) > LARGEST:
        raise PointsmanError(f"{address} has more than {LARGEST:,} bytes")
    return data


def _table(data: bytes) -> Iterator[dict[str, str]]:
    return csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline=""))


_TRUTH: Final = {"True": True, "False": False}


def _routellm(files: Files) -> Iterator[Row]:
    for name, data in files.items():
        stem = Path(name).stem
        bench = stem.split("_", 1)[0]
        for line in _table(data):
            yield {
                "bench": bench,
                "domain": stem.removeprefix("mmlu_") if bench == "mmlu" else bench,
                "prompt": line["prompt"],
                "weak": _TRUTH[line["mixtral-8x7b-instruct-v0.1"]],
                "strong": _TRUTH[line["gpt-4-1106-preview"]],
            }


def _clinc(files: Files) -> Iterator[Row]:
    (data,) = files.values()
    for split, pairs in msgspec.json.decode(data, type=dict[str, list[tuple[str, str]]]).items():
        for text, label in pairs:
            yield {"text": text, "label": label, "split": split}


def _banking(files: Files) -> Iterator[Row]:
    for name, data in files.items():
        for line in _table(data):
            yield {"text": line["text"], "label": line["category"], "split": Path(name).stem}


def _metatool(files: Files) -> Iterator[Row]:
    (data,) = files.values()
    for line in _table(data):
        yield {"query": line["Query"], "tool": line["Tool"]}


# fmt: off
_SUBJECTS: Final = (
    "abstract_algebra", "anatomy", "astronomy", "business_ethics", "clinical_knowledge", "college_biology",
    "college_chemistry", "college_computer_science", "college_mathematics", "college_medicine",
    "college_physics", "computer_security", "conceptual_physics", "econometrics", "electrical_engineering",
    "elementary_mathematics", "formal_logic", "global_facts", "high_school_biology",
    "high_school_chemistry", "high_school_computer_science", "high_school_european_history",
    "high_school_geography", "high_school_government_and_politics", "high_school_macroeconomics",
    "high_school_mathematics", "high_school_microeconomics", "high_school_physics",
    "high_school_psychology", "high_school_statistics", "high_school_us_history",
    "high_school_world_history", "human_aging", "human_sexuality", "international_law", "jurisprudence",
    "logical_fallacies", "machine_learning", "management", "marketing", "medical_genetics", "miscellaneous",
    "moral_disputes", "moral_scenarios", "nutrition", "philosophy", "prehistory", "professional_accounting",
    "professional_law", "professional_medicine", "professional_psychology", "public_relations",
    "security_studies", "sociology", "us_foreign_policy", "virology", "world_religions",
)
# fmt: on

_FILES: Final = "https://raw.githubusercontent.com"
_REPOSITORIES: Final = "https://github.com"

_ALL: Final = (
    PublicSet(
        name="routellm-mmlu",
        about="MMLU, 57 subjects: Mixtral-8x7B and GPT-4, right or wrong",
        command="eval tiers",
        licence="Apache-2.0",
        repository=f"{_REPOSITORIES}/lm-sys/RouteLLM",
        origin=f"{_FILES}/lm-sys/RouteLLM/main",
        files=tuple(f"routellm/evals/mmlu/responses/mmlu_{subject}.csv" for subject in _SUBJECTS),
        read=_routellm,
    ),
    PublicSet(
        name="routellm-gsm8k",
        about="GSM8K: the same two models",
        command="eval tiers",
        licence="Apache-2.0",
        repository=f"{_REPOSITORIES}/lm-sys/RouteLLM",
        origin=f"{_FILES}/lm-sys/RouteLLM/main",
        files=("routellm/evals/gsm8k/gsm8k_responses.csv",),
        read=_routellm,
    ),
    PublicSet(
        name="clinc150",
        about="150 intents and what none of them serves",
        command="eval capabilities",
        licence="CC BY 3.0",
        repository=f"{_REPOSITORIES}/clinc/oos-eval",
        origin=f"{_FILES}/clinc/oos-eval/master",
        files=("data/data_full.json",),
        read=_clinc,
    ),
    PublicSet(
        name="banking77",
        about="77 intents of bank customers",
        command="eval capabilities",
        licence="CC BY 4.0",
        repository=f"{_REPOSITORIES}/PolyAI-LDN/task-specific-datasets",
        origin=f"{_FILES}/PolyAI-LDN/task-specific-datasets/master",
        files=("banking_data/train.csv", "banking_data/test.csv"),
        read=_banking,
    ),
    PublicSet(
        name="metatool",
        about="199 tools, queries written by models; descriptions: dataset/plugin_des.json there",
        command="eval capabilities",
        licence="MIT",
        repository=f"{_REPOSITORIES}/HowieHwong/MetaTool",
        origin=f"{_FILES}/HowieHwong/MetaTool/master",
        files=("dataset/data/all_clean_data.csv",),
        read=_metatool,
    ),
)

#: By name.
SETS: Final[Mapping[str, PublicSet]] = {each.name: each for each in _ALL}

app = typer.Typer(add_completion=False)


@app.command()
def datasets(
    *,
    get: Annotated[str, typer.Option(help="Fetch this data set and write it as JSON lines.")] = "",
    out: Annotated[Path | None, typer.Option(help="Output file; default: NAME.jsonl.")] = None,
    source: Annotated[
        str, typer.Option("--from", help="Folder or URL of its files; default: its origin.")
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """List public data sets with origin and licence. --get fetches one; nothing else uses the network."""
    if not get:
        _list(as_json=as_json)
        return
    if get not in SETS:
        raise PointsmanError(f'no public set "{get}"', hint=f"known are {', '.join(SETS)}")
    file = out or Path(f"{get}.jsonl")
    lines = [json_line(row) for row in rows_of(SETS[get], source)]
    write_file(file, "".join(f"{line}\n" for line in lines))
    echo(f"wrote {len(lines):,} lines to {file} ({SETS[get].licence}); read it with {SETS[get].command}")


def _list(*, as_json: bool) -> None:
    fields = ("name", "about", "command", "licence", "repository")
    rows = [{field: getattr(each, field) for field in fields} for each in SETS.values()]
    if as_json:
        print_json({"rows": rows})
        return
    for row in rows:
        echo(f"{row['name']:16}{row['command']:20}{row['licence']:12}{row['repository']}")
        echo(f"{'':16}{row['about']}")


if __name__ == "__main__":
    app()
