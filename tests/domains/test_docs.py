"""The printed rule table is the table that decides."""

import importlib.util
import re
from pathlib import Path

from pointsman.domains import default_domains

ROOT = Path(__file__).parents[2]


def test_the_page_shows_the_rule_table() -> None:
    spec = importlib.util.spec_from_file_location("domain_rules", ROOT / "scripts" / "domain_rules.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.render() in script.PAGE.read_text("utf-8"), "run scripts/domain_rules.py"


def test_the_reference_lists_the_built_in_domains() -> None:
    page = (ROOT / "docs" / "reference" / "domains.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| (\w+) \| (.*) \|$", page, re.MULTILINE)
    assert rows == [
        (str(domain.priority), domain.name, str(domain.kind), ", ".join(domain.aliases))
        for domain in default_domains()
    ]
