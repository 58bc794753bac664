"""Defaults under RecBole's protocol: its split, its metrics of several test items, and the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import counterplay as cp
from counterplay.metrics.ranks import Ranks, full_ranks
from reproduction import published
from reproduction.datasets import Place
from reproduction.published import (
    LINES,
    PUBLISHED,
    PublishedFit,
    averaged,
    fitted,
    page,
    parts,
    values,
)


def test_a_tenth_of_each_users_rows_is_test_and_another_validation() -> None:
    user = np.repeat(np.arange(4, dtype=np.int32), [30, 9, 25, 10])
    found = parts(user, np.random.default_rng(0))
    for each, tenth in enumerate([3, 1, 2, 1]):
        counts = np.bincount(found[user == each], minlength=3)
        assert counts.tolist() == [(user == each).sum() - 2 * tenth, tenth, tenth]
    assert not np.array_equal(found, parts(user, np.random.default_rng(1)))


def test_several_test_items_of_a_user_count_together() -> None:
    """By hand: the best NDCG is that of as many places as there are items, ten at most."""
    user = np.array([0, 0, 1, 2, 2, 2], dtype=np.int32)
    log = cp.read({"user": user, "item": np.arange(6)})
    above = np.array([0, 3, 10, 1, 9, 40])
    found = values(Ranks(above, np.zeros(6, dtype=np.int64)), log)
    np.testing.assert_allclose(found["recall"], [100, 0, 200 / 3])
    np.testing.assert_allclose(found["hit"], [100, 0, 100])
    gains = 1 / np.log2(np.arange(10) + 2)
    wanted = [
        (gains[0] + gains[3]) / gains[:2].sum(),
        0,
        (gains[1] + gains[9]) / gains[:3].sum(),
    ]
    np.testing.assert_allclose(found["ndcg"], 100 * np.array(wanted))


def test_more_test_items_than_places_fill_the_list() -> None:
    log = cp.read({"user": np.repeat([0, 1], [14, 1]), "item": np.arange(15)})
    above = np.append(np.arange(14), 50)
    found = values(Ranks(above, np.zeros(15, dtype=np.int64)), log)
    assert found["ndcg"] == pytest.approx([100, 0])
    assert found["recall"] == pytest.approx([1000 / 14, 0])


def test_a_fit_reports_what_its_lists_reach(
    public: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "CORE", 3)
    monkeypatch.setattr(published, "EPOCHS", 2)
    place = Place(public, tmp_path)
    published.prepared.cache_clear()
    known = []

    def watched(scores: Any, targets: Any, seen: Any) -> Any:
        known.append((len(targets), len(seen)))
        return full_ranks(scores, targets, seen)

    monkeypatch.setattr(published, "full_ranks", watched)
    found = fitted(PublishedFit(line="gmf"), place)
    split = published.prepared(place)
    n_test = int((split.part == 2).sum())
    assert known == [(n_test, len(split.part) - n_test)]  # what is ranked is not among what is seen
    assert split.interactions.user_features is None
    assert 0 < found["ndcg"] <= 100
    assert found["recall"] <= found["hit"] <= 100


def test_a_rating_of_3_is_liked(
    public: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "CORE", 1)
    published.prepared.cache_clear()
    lines = (public / "movies" / "ratings.dat").read_text().splitlines()
    liked = [line for line in lines if int(line.split("::")[2]) >= 3]
    assert len(published.prepared(Place(public, tmp_path)).interactions) == len(liked)
    published.prepared.cache_clear()


def test_several_fits_are_averaged_with_their_deviation() -> None:
    same = {"hit": 5.0, "recall": 1.0, "best_epoch": 3, "job": {"seed": 0}}  # as a job is kept
    fits = [same | {"ndcg": 2.0, "seconds": 1.0}, same | {"ndcg": 4.0, "seconds": 2.0}]
    wanted = {"ndcg": 3.0, "hit": 5.0, "recall": 1.0, "best_epoch": 3, "seconds": 1.5}
    wanted["deviation"] = 2**0.5
    assert averaged(fits) == pytest.approx(wanted)


def test_the_page_has_ours_beside_theirs() -> None:
    def reached(line: str) -> dict[str, Any]:
        more = 1.0 if line == "gmf" else -1.0
        metrics = {name: getattr(LINES[line], name) + more for name in published.METRICS}
        return {"best_epoch": 4, "seconds": 9.0, **metrics}

    found = {line: averaged([reached(line), reached(line) | {"seconds": 11.0}]) for line in LINES}
    text = page(found, {"rows": 9, "users": 2, "items": 3})
    assert "`gmf` 104% of BPR's, `gmf, dim 64` 96% of BPR's" in text
    assert "| `gmf` | 18.34 | 24.96 ± 0.00 | 72.49 | BPR | 17.34 | 23.96 | 71.49 | 5 | 10 |" in text
    rows = [published._row(each, found[each.line]) for each in PUBLISHED]
    assert [row["met"] for row in rows] == [False, True, False, False, False, False]
