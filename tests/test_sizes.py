"""A file or a function that is too long for one look has two jobs."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCES = sorted((Path(__file__).parents[1] / "src/counterplay").rglob("*.py"))
A_FILE, A_FUNCTION = 320, 70  # lines; those of a function without what it takes and its docstring


def test_a_file_has_one_job() -> None:
    lengths = {path.name: path.read_text("utf-8").count("\n") for path in SOURCES}
    assert {name: n for name, n in lengths.items() if n > A_FILE} == {}


def test_a_function_fits_on_a_screen() -> None:
    found = {
        (path.name, each.name): length_of(each)
        for path in SOURCES
        for each in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(each, ast.FunctionDef)
    }
    assert len(found) > 1000
    assert {name: n for name, n in found.items() if n > A_FUNCTION} == {}


def length_of(function: ast.FunctionDef) -> int:
    """Return the lines of a function from the first statement after its docstring on."""
    body = function.body[ast.get_docstring(function) is not None :]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
