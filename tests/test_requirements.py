"""The rows of docs/pitfalls.md and the tests that show them, compared both ways.

A test names the rows that it shows: `@pytest.mark.shows("B5")`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.paths import ROOT

NOT_SHOWN_YET = {"C6", "E8", "G1", "G4", "G5", "I1"}
"""Requirements without a test. Most have no row in the docs yet, either."""


def rows() -> dict[str, set[str]]:
    """Return the tests that the docs name for each row."""
    text = (ROOT / "docs" / "pitfalls.md").read_text()
    _, *parts = re.split(r"^\*\*([A-Z]\d+)\.", text, flags=re.MULTILINE)
    texts = dict(zip(parts[::2], parts[1::2], strict=True))
    return {row: set(re.findall(r"`(tests/[^`]+)`", x)) for row, x in texts.items()}


def ids_by_test() -> Iterator[tuple[str, set[str]]]:
    """Yield every test, and the ids that it shows."""
    for path in (ROOT / "tests").rglob("test_*.py"):
        name = path.relative_to(ROOT).as_posix()
        yield from ids_in(ast.parse(path.read_text()), name, set())


def ids_in(
    scope: ast.Module | ast.ClassDef, name: str, ids: set[str]
) -> Iterator[tuple[str, set[str]]]:
    """Yield the tests of a file or class; `pytestmark` and decorators are inherited."""
    for node in scope.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            ids = ids | ids_of(node.value)
    for node in scope.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            own = ids.union(*map(ids_of, node.decorator_list))
            if isinstance(node, ast.ClassDef):
                yield from ids_in(node, f"{name}::{node.name}", own)
            elif node.name.startswith("test_"):
                yield f"{name}::{node.name}", own


def ids_of(marks: ast.expr) -> set[str]:
    """Return the arguments of all `shows` marks in an expression."""
    return {
        ast.literal_eval(argument)
        for node in ast.walk(marks)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.shows"
        for argument in node.args
    }


ROWS, SHOWN = rows(), dict(ids_by_test())


def test_every_row_has_a_test_and_every_id_on_a_test_has_a_row() -> None:
    shown = set.union(*SHOWN.values())

    assert not shown & NOT_SHOWN_YET
    assert ROWS.keys() - shown <= NOT_SHOWN_YET
    assert shown <= ROWS.keys()


def test_the_tests_that_the_docs_name_exist() -> None:
    named = set.union(*ROWS.values())

    assert not {name for name in named if name not in SHOWN}
