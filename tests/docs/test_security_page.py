"""Each promise of SECURITY.md names tests, and each test that it names exists."""

import ast
import hashlib
import importlib.util
import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PROMISES: Final = re.findall(
    r"^- \*\*(.+?)\.\*\*(.*?)(?=^- |^$)",
    (ROOT / "SECURITY.md").read_text(encoding="utf-8").partition("## What it does not")[0],
    re.MULTILINE | re.DOTALL,
)
NAMED: Final = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


@pytest.mark.parametrize(("title", "text"), PROMISES, ids=[title for title, _ in PROMISES])
def test_a_promise_names_tests_that_exist(title: str, text: str) -> None:
    named = NAMED.findall(text)
    assert named, f"{title}: no test is named"
    for file, function in named:
        assert (ROOT / file).is_file(), f"{title}: {file} is gone"
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert not function or function in functions, f"{title}: {file} has no {function}"


def test_all_promises_were_found() -> None:
    assert len(PROMISES) >= 15


def test_provenance_names_every_file(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("provenance", ROOT / "scripts" / "provenance.py")
    assert spec is not None
    assert spec.loader is not None
    provenance = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(provenance)
    for name in ("one.whl", "two.tar.gz", provenance.NAME):
        (tmp_path / name).write_text(name)
    found = provenance.statement(tmp_path)
    digests = {each["name"]: each["digest"]["sha256"] for each in found["subject"]}
    assert digests == {name: hashlib.sha256(name.encode()).hexdigest() for name in ("one.whl", "two.tar.gz")}
    locked = {each["uri"] for each in found["predicate"]["buildDefinition"]["resolvedDependencies"]}
    assert "requirements/run.txt" in locked
