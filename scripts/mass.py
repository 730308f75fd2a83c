"""How much code and text there is: statements, modules, definitions, docstrings, classes and phrases.

    python scripts/mass.py [--root DIRECTORY] [--files]

- Statements: nodes of the syntax tree that are statements, so that no line break changes them; lines of code:
  those that hold any of them. Neither counts docstrings, imports, ``__all__``, blanks and comments. Beside
  them, keys and items of tables in TOML, and lines of templates. Over ``src``, ``scripts``, ``integrations``.
- Definitions: functions, methods and classes of ``src``; how many have a docstring, and its words. Public are
  those whose names begin with no underscore, in modules and classes.
- Modules of ``src``, longest line and class, most attributes that one class sets on ``self``, long files.
- Listed phrases (``phrases.toml``) per 1,000 words of docstrings, messages, log lines. Messages are the texts
  in what is raised, log lines those given to ``log``.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

LONG = 450  # lines of a file

#: Phrases in place of a noun or of the field's term, and their ceiling.
PHRASES = tomllib.loads((Path(__file__).parent / "phrases.toml").read_text("utf-8"))
PHRASE = re.compile("|".join(rf"\b(?:{phrase})\b" for phrase in PHRASES["phrases"]), re.IGNORECASE)
WORD = re.compile(r"\w+(?:['’-]\w+)*")
LAYOUT = frozenset(
    {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
    }
)
IMPORTS = (ast.Import, ast.ImportFrom)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
LOGGING = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log"})


class Mass(NamedTuple):
    """Figures of one file."""

    lines: int
    code_lines: int
    statements: int
    public: tuple[int, int]  # definitions, and those with a docstring
    docstrings: list[str]
    definitions: int
    classes: list[tuple[int, str]]  # lines, name
    attributes: list[tuple[int, str]]  # set on ``self``, class


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def is_docstring(node: ast.stmt) -> bool:
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def is_left_out(node: ast.stmt) -> bool:
    return isinstance(node, IMPORTS) or is_docstring(node) or is_export(node)


def is_export(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets
    )


def statements(tree: ast.Module) -> int:
    """Statements but docstrings, imports and lists of exports."""
    return sum(isinstance(node, ast.stmt) and not is_left_out(node) for node in ast.walk(tree))


def code_lines(path: Path, tree: ast.Module) -> int:
    """Lines that hold any of the statements."""
    text = path.read_text()
    held = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in LAYOUT
        for line in range(token.start[0], token.end[0] + 1)
    }
    left_out = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and is_left_out(node)]
    return len(held.difference(*(range(n.lineno, (n.end_lineno or 0) + 1) for n in left_out)))


def public(tree: ast.Module) -> Iterator[ast.AST]:
    """Definitions of modules and classes whose names begin with no underscore."""
    nodes: list[ast.AST] = [tree]
    while nodes:
        for node in ast.iter_child_nodes(nodes.pop()):
            if isinstance(node, DEFINITIONS) and not node.name.startswith("_"):
                yield node
                if isinstance(node, ast.ClassDef):
                    nodes.append(node)


def attributes(node: ast.ClassDef) -> int:
    """Names that a class sets on ``self``, or lists as fields."""
    names = {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute)
        and isinstance(each.ctx, ast.Store)
        and isinstance(each.value, ast.Name)
        and each.value.id == "self"
    }
    return len(names)


def messages(found: Iterable[ast.AST]) -> Iterator[str]:
    """Texts of what is raised and logged among nodes."""
    for node in found:
        raised = node.exc if isinstance(node, ast.Raise) else None
        called = raised if isinstance(raised, ast.Call) else node
        is_log = (
            isinstance(called, ast.Call)
            and isinstance(called.func, ast.Attribute)
            and called.func.attr in LOGGING
            and isinstance(called.func.value, ast.Name)
            and called.func.value.id == "log"
        )
        if isinstance(called, ast.Call) and (raised is not None or is_log):
            for given in (*called.args, *(keyword.value for keyword in called.keywords)):
                yield " ".join(
                    each.value
                    for each in ast.walk(given)
                    if isinstance(each, ast.Constant) and isinstance(each.value, str)
                )


def docstrings(found: Iterable[ast.AST]) -> list[str]:
    """Docstrings of the modules and definitions among nodes."""
    documented = (node for node in found if isinstance(node, (*DEFINITIONS, ast.Module)))
    return [text for node in documented if (text := ast.get_docstring(node)) is not None]


def weighed(path: Path) -> Mass:
    """Count one module."""
    tree = parsed(path)
    found = [node for node in ast.walk(tree) if isinstance(node, DEFINITIONS)]
    classes = [node for node in found if isinstance(node, ast.ClassDef)]
    shown: list[Any] = list(public(tree))
    return Mass(
        lines=len(path.read_text().splitlines()),
        code_lines=code_lines(path, tree),
        statements=statements(tree),
        public=(len(shown), sum(ast.get_docstring(node) is not None for node in shown)),
        docstrings=docstrings(found),
        definitions=len(found),
        classes=[((node.end_lineno or 0) - node.lineno + 1, node.name) for node in classes],
        attributes=[(attributes(node), node.name) for node in classes],
    )


def entries(value: object) -> int:
    """Keys and items of a table in TOML."""
    if isinstance(value, dict):
        return sum(1 + entries(below) for below in value.values())
    return sum(map(entries, value)) + len(value) if isinstance(value, list) else 0


def data(root: Path) -> tuple[int, int]:
    """Entries of tables in TOML, and lines of templates, below ``src``."""
    tables = sum(entries(tomllib.loads(path.read_text())) for path in root.glob("src/**/*.toml"))
    templates = [path for path in root.glob("src/**/templates/**/*") if path.is_file()]
    lines = sum(bool(line.strip()) for path in templates for line in path.read_text().splitlines())
    return tables, lines


def words(texts: list[str]) -> int:
    return sum(len(WORD.findall(text)) for text in texts)


def prose(paths: Iterable[Path]) -> list[str]:
    """Docstrings, messages and log lines of modules."""
    found = (list(ast.walk(parsed(path))) for path in paths)
    return [text for nodes in found for text in (*docstrings(nodes), *messages(nodes))]


def listed(texts: list[str]) -> list[str]:
    """Phrases of the list that texts hold."""
    return [phrase for text in texts for phrase in PHRASE.findall(" ".join(text.split()))]


def report(root: Path, *, files: bool) -> Iterator[str]:
    """Yield the figures, a line each."""
    weights = {path: weighed(path) for path in sorted(root.glob("src/**/*.py"))}
    beside = {
        name: sum(statements(parsed(path)) for path in root.glob(f"{name}/**/*.py"))
        for name in ("scripts", "integrations")
    }
    tables, templates = data(root)
    own = sum(each.statements for each in weights.values())
    yield f"lines of code of src                   {sum(each.code_lines for each in weights.values()):>8,}"
    yield f"statements of src                      {own:>8,}"
    yield f"statements of scripts                  {beside['scripts']:>8,}"
    yield f"statements of integrations             {beside['integrations']:>8,}"
    yield f"entries of tables in TOML              {tables:>8,}"
    yield f"lines of templates                     {templates:>8,}"
    yield f"together                               {own + sum(beside.values()) + tables + templates:>8,}"
    docstrings = [text for each in weights.values() for text in each.docstrings]
    shown, documented = (sum(each.public[n] for each in weights.values()) for n in (0, 1))
    yield f"public definitions                     {shown:>8,}"
    yield f"of them with a docstring               {documented / shown:>8.1%}"
    definitions = sum(each.definitions for each in weights.values())
    yield f"definitions                            {definitions:>8,}"
    yield f"with a docstring                       {len(docstrings) / definitions:>8.1%}"
    yield f"words per docstring                    {words(docstrings) / len(docstrings):>8.1f}"
    longest = max(len(line) for path in weights for line in path.read_text().splitlines())
    limit = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["ruff"]["line-length"]
    yield f"line length, limit                     {limit:>8,}"
    yield f"longest line                           {longest:>8,}"
    yield f"modules                                {len(weights):>8,}"
    yield f"lines                                  {sum(each.lines for each in weights.values()):>8,}"
    size, name = max(pair for each in weights.values() for pair in each.classes)
    yield f"longest class, lines                   {size:>8,}  {name}"
    count, name = max(pair for each in weights.values() for pair in each.attributes)
    yield f"most attributes                        {count:>8,}  {name}"
    long = {path: each.lines for path, each in weights.items() if each.lines > LONG}
    yield f"files over {LONG} lines                   {len(long):>8,}"
    texts = prose(weights)
    found = listed(texts)
    yield f"words of docstrings, messages, logs    {words(texts):>8,}"
    yield f"listed phrases                         {len(found):>8,}"
    yield f"listed phrases per 1,000 words         {len(found) / words(texts) * 1000:>8.2f}"
    if files:
        yield from (f"{lines:>6,}  {path.relative_to(root)}" for path, lines in long.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1], help="the repository")
    parser.add_argument("--files", action="store_true", help="name the long files")
    options = parser.parse_args()
    for line in report(options.root, files=options.files):
        print(line)


if __name__ == "__main__":
    main()
