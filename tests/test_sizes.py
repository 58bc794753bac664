"""A file or a function that is too long for one look has two jobs."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src/counterplay"
SOURCES = {
    str(path.relative_to(PACKAGE)): path.read_text("utf-8") for path in PACKAGE.rglob("*.py")
}
A_FILE, A_FUNCTION = 320, 70  # lines; those of a function without what it takes and its docstring


def test_a_file_has_one_job() -> None:
    lengths = {name: text.count("\n") for name, text in SOURCES.items()}
    assert len(lengths) > 200
    assert {name: n for name, n in lengths.items() if n > A_FILE} == {}


def test_a_function_fits_on_a_screen() -> None:
    found = {
        (name, each.name, each.lineno): length_of(each)
        for name, text in SOURCES.items()
        for each in ast.walk(ast.parse(text))
        if isinstance(each, ast.FunctionDef)
    }
    assert len(found) > 1000
    assert {name: n for name, n in found.items() if n > A_FUNCTION} == {}


def length_of(function: ast.FunctionDef) -> int:
    """Return the lines of a function from the first statement after its docstring on."""
    body = function.body[ast.get_docstring(function) is not None :]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
