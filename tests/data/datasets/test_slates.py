"""Lists of MIND and FINN.no become impressions."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import counterplay as cp
from counterplay.data.datasets import read_dataset, slates
from counterplay.data.preparation import Preparation, prepare

from .conftest import LAYOUTS

Make = Callable[..., Path]
Columns = Callable[[cp.Interactions], dict[str, list[Any]]]
FeaturesOf = Callable[[cp.Interactions, str], Any]
Refused = Callable[..., AbstractContextManager[None]]
BEHAVIORS = LAYOUTS["mind"]["behaviors.tsv"]


def log_of(name: str, folder: Path, **how: Any) -> cp.Interactions:
    log = read_dataset(name, folder, **how)
    assert isinstance(log, cp.Interactions)
    return log


def test_mind_has_exact_values(make: Make, columns: Columns, features: FeaturesOf) -> None:
    log = log_of("mind", make("mind"))
    found = columns(log)
    rows = sorted(zip(*(found[name] for name in ("user", "time", "item", "clicked")), strict=True))
    moments = [1573808122000000, 1573855501000000]
    assert rows == [
        ("U3", 1573732800000000, "N2", False),
        *[("U7", moments[0], f"N{n}", n == 2) for n in (1, 2, 3)],
        *[("U7", moments[1], item, True) for item in ("N1", "N3")],
    ]
    assert log.position is None  # the lists were shuffled
    assert features(log, "item") == {
        "N1": {"category": "sports", "subcategory": "soccer"},
        "N2": {"category": "news", "subcategory": "world"},
        "N3": {"category": None, "subcategory": None},
    }


def test_finn_has_exact_values(make: Make, columns: Columns, features: FeaturesOf) -> None:
    log = log_of("finn-slates", make("finn-slates"), order="file")
    found = columns(log)
    rows = list(
        zip(*(found[name] for name in ("user", "item", "position", "clicked")), strict=True)
    )
    assert rows == [
        *((4, 5, 1, True), (4, 6, 1, False), (4, 7, 2, False), (4, 8, 3, True), (4, 7, 1, False)),
        *((9, 5, 1, False), (9, 6, 2, True), (9, 6, 1, False)),
    ]
    assert features(log, "item")[8] == {"category": "5"}


@pytest.mark.parametrize(("name", "file"), [("mind", "news.tsv"), ("finn-slates", "itemattr.npz")])
def test_categories_may_be_absent(make: Make, name: str, file: str) -> None:
    assert log_of(name, make(name, {file: None})).item_features is None


@pytest.mark.parametrize("name", ["mind", "finn-slates"])
def test_they_are_prepared_as_impressions(
    make: Make, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Preparation(split="random", validation=0.0, test=0.0)
    made = []
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            split = prepare(make(name), plan)
        assert isinstance(split, cp.Split)
        assert split.unclicked is not None
        assert len(split.interactions) == 3
        assert len(split.unclicked) == {"mind": 3, "finn-slates": 5}[name]
        made.append(split)
        monkeypatch.setattr(slates, "_LISTS", 1)
        monkeypatch.setattr(slates, "_USERS", 1)
    assert made[0].fingerprint == made[1].fingerprint
    assert made[0].interactions == made[1].interactions


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b"N2-0", b"N2", ["line 2", "'N2'", "N1-0 N2-1"]),
        (b"N3-1 N1-1", b"N3-1 N1-2", ["line 3", "N1-2"]),
        (b"11/15/2019 8:55", b"2019-11-15 8:55", ["line 1", "2019-11-15", "11/15/2019"]),
        (b"\tN9 N8 N2\t", b"\t", ["behaviors.tsv", "1"]),
    ],
)
def test_other_lines_of_mind_are_refused(
    make: Make, refused: Refused, old: bytes, new: bytes, words: list[str]
) -> None:
    folder = make("mind", {"behaviors.tsv": BEHAVIORS.replace(old, new)})
    with refused(*words):
        read_dataset("mind", folder)


def packed(**arrays: Any) -> bytes:
    whole = np.load(io.BytesIO(LAYOUTS["finn-slates"]["data.npz"]))
    file = io.BytesIO()
    changed = {name: arrays.get(name, whole[name]) for name in whole.files}
    np.savez(file, **{name: each for name, each in changed.items() if each is not None})
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (packed(slate=None), "slate.npy"),
        (packed(click=np.zeros((2, 4), np.int64)), "(2, 4)"),
        (packed(slate=np.zeros((2, 3, 4))), "float64"),
        (LAYOUTS["finn-slates"]["data.npz"][:300], "zip"),
    ],
)
def test_other_arrays_of_finn_are_refused(
    make: Make, refused: Refused, content: bytes, word: str
) -> None:
    with refused("data.npz", word):
        read_dataset("finn-slates", make("finn-slates", {"data.npz": content}))


def test_clicks_outside_their_list_are_counted(make: Make) -> None:
    content = packed(click_idx=np.array([[1, 0, 0], [1, 3, 0]]))
    log = log_of("finn-slates", make("finn-slates", {"data.npz": content}))
    assert log.clicked is not None
    assert log.clicked.sum() == 2
    assert {step.kind: step.counts for step in log.steps}["lists"] == {"strange": 1}
