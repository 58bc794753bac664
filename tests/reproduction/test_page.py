from __future__ import annotations

from typing import Any

from reproduction.page import _remarks


def cell(title: str, *notes: str, failed: str | None = None) -> dict[str, Any]:
    return {"title": title, "about": ["dim 4"], "notes": list(notes), "failed": failed}


def test_notes_that_differ_in_numbers_alone_are_one_line() -> None:
    cells = [
        cell("GMF", "β1 = -0.2: inverted", "β1 = -1.5e-3: inverted", "collapsed"),
        cell("GMF", "β1 = -0.2: inverted"),  # another column of the same runs
        cell("MLP", "β1 = 3: inverted"),
    ]
    assert _remarks(cells) == [
        "With reservations:",
        "",
        "- GMF (dim 4): β1 = -0.2: inverted (2 runs, alike)",
        "- GMF (dim 4): collapsed",
        "- MLP (dim 4): β1 = 3: inverted",
        "",
    ]


def test_failures_come_first_each_once() -> None:
    cells = [cell("GMF", "a note", failed="no memory"), cell("GMF", failed="no memory")]
    assert _remarks(cells)[:3] == ["Failed:", "", "- GMF (dim 4): no memory"]
    assert _remarks([cell("GMF")]) == []
