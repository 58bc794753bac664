from __future__ import annotations

import re
from pathlib import Path

import pytest

from reproduction.paper import (
    _COLUMNS,
    _ROWS,
    AT_LEAST,
    ONLINE_ERRORS,
    Printed,
    printed,
)

SOURCE = Path(__file__).parents[3] / "shared" / "paper" / "acl-neurips2020.tex"
NAMES = {"ml-1m": "movielens-1m", "lastfm": "last-?fm", "goodreads": "goodreads"}
NUMBER = r"(\d*\.\d+)\}?\s*\(\s*(\.\d+)\s*\)?"


def table(label: str) -> str:
    """The source of the table with a label."""
    text = SOURCE.read_text(encoding="utf-8")
    end = text.index(f"\\label{{tab:{label}}}")
    return text[text.rindex("\\begin{tabular}", 0, end) : end]


def numbers(text: str) -> list[Printed]:
    return [Printed(float(value), float(sd)) for value, sd in re.findall(NUMBER, text)]


def source_rows(label: str, dataset: str, metric: str) -> list[Printed]:
    """The numbers of a table's row, as they stand in the source."""
    if label == "synthetic-baselines":
        text = table("synthetic")
        text = text[text.index("Model &") :]
        row = next(
            line
            for line in text.splitlines()
            if line.strip().startswith(metric.upper()[:3])
            or line.strip().lower().startswith(metric)
        )
        both = numbers(row)
        return both[:4] if dataset == "ml-1m" else both[4:]
    text = table(label if not label.startswith("real-main") else "real")
    if label == "real-acl":
        row = next(
            each for each in re.split(r"\\\\", text) if re.search(NAMES[dataset], each, re.I)
        )
        return numbers(row)[0 if metric == "hit" else 1 :: 2]
    text = text[re.search(NAMES[dataset], text, re.I).end() :]  # type: ignore[union-attr]
    row = next(
        line for line in text.splitlines() if line.strip().lower().startswith(f"{metric}@10")
    )
    found = numbers(row)
    if label.startswith("real-main"):
        return found[6:]
    return found[:6] if label == "real" else found


@pytest.mark.skipif(not SOURCE.exists(), reason="the paper's source is not beside the repository")
@pytest.mark.parametrize(("label", "dataset", "metric"), _ROWS)
def test_numbers_are_those_of_the_source(label: str, dataset: str, metric: str) -> None:
    ours = [printed((label,), dataset, name, metric) for name in _COLUMNS[label]]
    assert ours == source_rows(label, dataset, metric)


@pytest.mark.skipif(not SOURCE.exists(), reason="the paper's source is not beside the repository")
@pytest.mark.parametrize("metric", ONLINE_ERRORS)
def test_errors_to_online_results_are_those_of_the_source(metric: str) -> None:
    text = table("online_exp").lower()
    row = next(line for line in text.splitlines() if line.strip().startswith(f"{metric} "))
    assert list(ONLINE_ERRORS[metric].values()) == numbers(row)


def test_the_first_table_that_has_a_cell_is_taken() -> None:
    assert printed(("real-full-ps", "real-acl", "real"), "lastfm", "gmf", "ndcg") == (58.96, 0.2)
    assert printed(("real",), "ml-1m", "acl-gmf", "hit") is None
    assert printed((), "ml-1m", "gmf", "hit") is None
    assert printed(("real",), "ml-100k", "gmf", "hit") is None


def test_goodbooks_stands_beside_goodreads() -> None:
    assert printed(("real",), "goodbooks", "attn", "hit") == (72.63, 0.2)


def test_every_row_has_a_number_for_every_column() -> None:
    for (label, _, _), text in _ROWS.items():
        assert len(text.split()) == len(_COLUMNS[label])


def test_the_least_is_above_what_was_printed_but_for_attention() -> None:
    for name, least in AT_LEAST.items():
        found = printed(("real",), "ml-1m", name, "hit")
        assert found is not None
        assert least > found.value - 1
