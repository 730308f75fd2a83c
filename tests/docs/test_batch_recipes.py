"""The recipes of the how-to page for batches run, each where its package is installed."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pointsman.batch import classify_batch
from support.parquet import texts, write

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "batch.md"
RECIPES = dict(
    re.findall(r"^### ([^\n]+)\n```py\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
)
#: Ray's recipe runs with Ray's own tests: it is started once.
PACKAGES = {"Polars": "polars", "DuckDB": "duckdb", "Daft": "daft", "Spark": "pyspark", "Ray Data": "ray"}


def test_every_recipe_is_known() -> None:
    assert RECIPES.keys() == PACKAGES.keys()


@pytest.mark.parametrize("name", [name for name in PACKAGES if name != "Ray Data"])
def test_a_recipe_gives_the_tiers_of_classify_batch(name: str, tmp_path: Path) -> None:
    if find_spec(PACKAGES[name]) is None:
        pytest.skip(f"{PACKAGES[name]} is not installed")
    prompts = write(tmp_path / "prompts.parquet", text=texts(20))
    surroundings = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    subprocess.run(
        [sys.executable, "-c", RECIPES[name]], cwd=tmp_path, env=surroundings, check=True, timeout=300
    )
    expected = classify_batch(pq.read_table(prompts).to_batches()[0])["tier"]
    assert pq.read_table(tmp_path / "tiers.parquet")["tier"].to_pylist() == expected.to_pylist()
