"""Mutation tests of changed modules: each mutant is run against the tests of its package.

    python scripts/mutants.py [--base REVISION] [--tests PATH ...] [FILE ...]

Without files, every module of ``src`` that differs from the base is mutated. The tests are those in the
folder of ``tests`` with the name of the module's package, or ``tests/test_NAME.py`` for a module beside
the packages, and those of other folders, but ``tests/browser``, that import the module. Tests marked
``integration``, ``slow`` or ``data`` are left out. mutmut works in a copy, ``build/mutants``, where its
results remain: a second run of the same modules and tests tests only the functions that changed, and mutants
that survived need ``--again`` after new tests. Survivors are printed as differences. Exit status 1 when a
mutant survives, or no test covers it.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
_COPY: Final = ROOT / "build" / "mutants"
#: What tests read beside ``src`` and ``tests``.
_READ: Final = ("pyproject.toml", "README.md", "docs", "scripts", "benchmarks", "examples", "deploy")
_SELECTION: Final = ("-m", "not integration and not slow and not data", "-p", "no:cacheprovider")
#: A line of ``mutmut results``: the name of a mutant and its status.
_RESULT: Final = re.compile(r"^\s+(\S+__mutmut_\d+): (.+)$", re.MULTILINE)


def changed_modules(base: str) -> list[str]:
    """The modules of ``src`` that exist and differ from ``base``, uncommitted changes included."""
    command = ["git", "diff", "--name-only", "--diff-filter=d", base, "--", "src/*.py"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()


def tests_of(module: str) -> list[str]:
    """The tests that concern a module; empty if there are none."""
    parts = Path(module).with_suffix("").parts[1:]  # without src
    path = f"tests/{parts[1]}" if len(parts) > 2 else f"tests/test_{parts[1]}.py"
    *package, name = parts[:-1] if parts[-1] == "__init__" else parts
    above = r"\.".join(package)
    imported = re.compile(
        rf"^ *(from|import) {above}\.{name}\b(?!\.)|^ *from {above} import .*\b{name}\b", re.MULTILINE
    )
    others = sorted(
        str(test.relative_to(ROOT))
        for test in (ROOT / "tests").rglob("test_*.py")
        if not str(test.relative_to(ROOT)).startswith((path, "tests/browser/"))
        and imported.search(test.read_text("utf-8"))
    )
    return [*([path] if (ROOT / path).exists() else []), *others]


def prepare(modules: list[str], tests: list[str]) -> None:
    """Link the sources into the copy, and write the configuration of mutmut there."""
    _COPY.mkdir(parents=True, exist_ok=True)
    for name in ("src", "tests", *_READ):
        link = _COPY / name
        if not link.is_symlink():
            link.symlink_to(ROOT / name)
    options = {
        "source_paths": ["src"],
        "only_mutate": modules,
        "also_copy": _READ,
        "pytest_add_cli_args": _SELECTION,
        "pytest_add_cli_args_test_selection": tests,
        "use_git_change_detection": ["false"],
    }
    lines = ["[mutmut]"]
    lines += ["\n    ".join([f"{name} =", *values]) for name, values in options.items() if len(values) > 1]
    lines += [f"{name} = {values[0]}" for name, values in options.items() if len(values) == 1]
    config, text = _COPY / "setup.cfg", "\n".join(lines) + "\n"
    if config.exists() and config.read_text("utf-8") != text:
        # mutmut mutates no file that it copied unmutated before.
        shutil.rmtree(_COPY / "mutants", ignore_errors=True)
    config.write_text(text, "utf-8")


def mutmut(*arguments: str) -> str:
    command = [sys.executable, "-m", "mutmut", *arguments]
    return subprocess.run(command, cwd=_COPY, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="modules of src; default: those that changed"
    )
    parser.add_argument("--base", default="HEAD~1", help="compare with this revision (default: %(default)s)")
    parser.add_argument("--tests", nargs="+", metavar="PATH", help="run these tests")
    parser.add_argument("--again", action="store_true", help="discard the results of earlier runs")
    arguments = parser.parse_args()
    modules = arguments.files or changed_modules(arguments.base)
    found: dict[str, list[str]] = {}
    for module in modules:
        if tests := arguments.tests or tests_of(module):
            found[module] = tests
        else:
            print(f"{module}: no tests are named like it; name some with --tests")
    if not found:
        print(f"no module of src with tests differs from {arguments.base}")
        return 0
    if arguments.again:
        shutil.rmtree(_COPY, ignore_errors=True)
    prepare(list(found), sorted({test for tests in found.values() for test in tests}))
    subprocess.run([sys.executable, "-m", "mutmut", "run"], cwd=_COPY, check=True)
    results = _RESULT.findall(mutmut("results", "--all", "true"))
    left = [(name, status) for name, status in results if status in {"survived", "no tests", "suspicious"}]
    for name, status in left:
        print(f"\n{status}: {mutmut('show', name).strip()}")
    counts = {status: sum(each == status for _, each in results) for _, status in results}
    print(f"\n{len(results)} mutants: " + ", ".join(f"{count} {status}" for status, count in counts.items()))
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
