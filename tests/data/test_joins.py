"""Impressions in a file of their own are joined with the clicks beside them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterplay.data.assembly import Table
from counterplay.data.joins import join, microseconds_of
from counterplay.data.looking import understood
from counterplay.data.preparation import Preparation, prepare
from counterplay.data.splits import Split
from counterplay.data.vocabulary import Vocabulary
from counterplay.errors import ConfigError, CounterplayWarning, DataError

HOUR = 3_600_000_000


def table(rows: list[tuple[int, int, int]], **more: Any) -> Table:
    user, item, time = (np.array(column) for column in zip(*rows, strict=True))
    columns = {"user": user.astype(np.int32), "item": item.astype(np.int32), "time": time}
    ids = Vocabulary.of(np.arange(5))
    return Table(ids, ids, columns | more)


rows = st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 30))


@given(
    st.lists(rows, min_size=1, max_size=12),
    st.lists(rows, min_size=1, max_size=20),
    st.integers(1, 10),
)
def test_a_click_belongs_to_the_last_impression_in_its_window(
    clicks: list[tuple[int, int, int]], shown: list[tuple[int, int, int]], window: int
) -> None:
    places = np.arange(len(shown), dtype=np.int16) + np.int16(1)  # tells impressions apart
    expected = []
    for user, item, time in clicks:
        mine = [
            (when, place)
            for (who, what, when), place in zip(shown, places.tolist(), strict=True)
            if (who, what) == (user, item) and 0 <= time - when <= window
        ]
        expected.append(max(mine)[1] if mine else 0)
    arguments = table(clicks), table(shown, position=places), window
    if not any(expected):
        with pytest.raises(DataError, match="none for"):
            join(*arguments)
        return
    found = join(*arguments)
    n = len(clicks)
    assert found.columns["position"][:n].tolist() == expected
    assert found.columns["exposed"][:n].tolist() == [place > 0 for place in expected]
    left = [place for place in places.tolist() if place not in expected]
    assert found.columns["position"][n:].tolist() == left
    assert found.columns["clicked"].tolist() == [True] * n + [False] * len(left)
    assert found.columns["exposed"][n:].all()
    counts = next(step for step in found.steps if step.kind == "join").counts
    assert counts["joined"] == sum(place > 0 for place in expected)
    assert counts["organic"] == expected.count(0)
    assert counts["unclicked"] == len(left)


def test_without_times_clicks_take_the_impressions_of_their_pair_in_turn() -> None:
    clicks = {"user": [1, 1, 1, 2, 3], "item": [7, 7, 8, 7, 9]}
    shown = {
        "user": [1, 1, 1, 2, 2, 2, 4],
        "item": [7, 7, 7, 7, 8, 9, 9],
        "pos": [3, 1, 2, 1, 2, 3, 1],
    }
    with pytest.warns(CounterplayWarning):
        found = prepare(clicks, Preparation(split="random"), impressions=shown)
    assert isinstance(found, Split)
    log, others = found.interactions, found.unclicked
    assert others is not None
    assert log.exposed is not None
    frame = log.to_frame().sort("user", "item", "position")
    assert frame.filter("exposed")["position"].to_list() == [1, 2, 1]
    assert frame.filter(~pl.col("exposed")).select("user", "item").rows() == [(1, 8), (3, 9)]
    left = others.to_frame().sort("user", "item").select("user", "item", "position").rows()
    assert left == [(1, 7, 3), (2, 8, 2), (2, 9, 3), (4, 9, 1)]


def files(folder: Path) -> tuple[Path, Path]:
    rng = np.random.default_rng(0)
    n = 3000
    shown = pl.DataFrame(
        {
            "uid": rng.integers(0, 40, n),
            "sku": rng.integers(0, 60, n),
            "ts": 1_700_000_000 + rng.integers(0, 10**6, n),
            "rank": rng.integers(0, 5, n),
            "pscore": rng.uniform(0.1, 1, n),
        }
    )
    clicks = shown.sample(400, seed=1).select(
        who=pl.col("uid").cast(pl.String), what="sku", ts=pl.col("ts") + 60
    )
    searched = pl.DataFrame(
        {"who": ["0"] * 5, "what": [60, 61, 62, 63, 64], "ts": [1_700_000_000] * 5}
    )
    clicks = pl.concat([clicks, searched])
    shown.write_parquet(folder / "shown.parquet")
    clicks.write_csv(folder / "clicks.csv")
    return folder / "clicks.csv", folder / "shown.parquet"


def test_the_join_does_not_depend_on_the_order_of_rows(tmp_path: Path) -> None:
    clicks, shown = files(tmp_path)
    plan = Preparation(user="who", item="what", time="ts", impressions=shown)
    made = []
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CounterplayWarning)
            made.append(prepare(clicks, plan))
        pl.read_parquet(shown).sample(fraction=1, shuffle=True, seed=3).write_parquet(shown)
    one, other = made
    assert isinstance(one, Split)
    assert isinstance(other, Split)
    assert one.interactions == other.interactions
    assert one.fingerprint == other.fingerprint
    log = one.interactions
    assert log.exposed is not None
    assert log.position is not None
    assert (~log.exposed).sum() == 5
    assert log.position[log.exposed].min() == 1  # they counted from 0
    assert one.unclicked is not None
    assert len(log) + len(one.unclicked) == 3005
    assert one.unclicked.propensity is not None
    told = " ".join(str(step) for step in log.steps)
    assert "400 of 405 clicks belong to an impression, 5 do not; 2,600 impressions" in told
    assert "5 of 405 clicks are organic" in told
    said = understood(one)
    assert {"log", "columns"} <= said.keys()
    assert "impressions: took user from 'uid', item from 'sku', time from 'ts'" in said["columns"]


def test_what_cannot_be_joined_is_refused(tmp_path: Path) -> None:
    clicks, shown = files(tmp_path)
    columns: dict[str, Any] = {"user": "who", "item": "what", "time": "ts"}
    with pytest.raises(DataError, match=r"none for 405 clicks .* widen --window"):
        prepare(clicks, Preparation(**columns, impressions=shown, window="10s"))
    with pytest.raises(ConfigError, match="found window=2h without one"):
        prepare(clicks, Preparation(**columns, window="2h"))
    marked = {"user": [1, 2, 3], "item": [1, 2, 3], "click": [1, 0, 1]}
    with pytest.raises(DataError, match="found 1 of 3 rows that were not clicked"):
        prepare(marked, impressions=shown)
    known = Path(tmp_path / "goodreads_reviews_x.json")
    known.write_text("{}")
    with pytest.raises(ConfigError, match="impressions go with a log of clicks; found Goodreads"):
        prepare(known, impressions=shown)


def test_what_the_impressions_say_of_clicks_and_exposure_is_used_and_counted() -> None:
    clicks = {"user": [1, 1, 2, 3], "item": [7, 8, 7, 9]}
    shown: dict[str, Any] = {
        "user": [1, 1, 2, 2, 2, 3, 3],
        "item": [7, 8, 7, 8, 9, 7, 9],
        "clicked": [1, 0, 1, 1, 0, 0, 0],
        "exposed": [1, 1, 1, 1, 1, 1, 0],
        "random": [0] * 7,
    }
    plan = Preparation(split="random")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CounterplayWarning)
        found = prepare(clicks, plan, impressions=shown)
        unread = prepare(
            clicks, plan.model_copy(update={"clicked": "-", "exposed": "-"}), impressions=shown
        )
    assert isinstance(found, Split)
    assert found.unclicked is not None
    assert found.interactions.exposed is not None
    assert found.unclicked.to_frame().select("user", "item").rows() == [(2, 9), (3, 7)]
    hidden = found.interactions.to_frame().filter(~pl.col("exposed"))
    assert hidden.select("user", "item").rows() == [(3, 9)]  # whose impression was none
    told = " ".join(map(str, found.interactions.steps))
    assert "left out 1 of 7 rows that were not shown" in told
    assert "2 of 3 that are marked as clicked have a click; left out the other 1" in told
    assert "1 have a click and no mark" in told
    assert isinstance(unread, Split)
    assert unread.unclicked is not None
    assert unread.unclicked.to_frame().select("user", "item").rows() == [(2, 8), (2, 9), (3, 7)]
    with pytest.raises(DataError, match=r"found 7, all of them marked as not exposed"):
        prepare(clicks, plan, impressions=shown | {"exposed": [False] * 7})


def test_clicks_that_say_themselves_whether_they_were_shown_are_counted() -> None:
    clicks = {"user": [1, 1, 2], "item": [7, 8, 7], "exposed": [1, 1, 0]}
    shown = {"user": [1, 2, 2], "item": [7, 7, 9]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CounterplayWarning)
        found = prepare(clicks, Preparation(split="random"), impressions=shown)
    assert isinstance(found, Split)
    counts = [step.counts for step in found.interactions.steps if step.kind == "join"]
    assert {"marks": 2} in counts


def test_windows_are_numbers_with_a_unit() -> None:
    assert microseconds_of("1h") == HOUR == microseconds_of("60m") == microseconds_of(" 3600 s ")
    assert microseconds_of("1.5d") == 36 * HOUR
    for wrong in ("1", "h", "-1h", "0h", "1 week", ""):
        with pytest.raises(ConfigError, match="a window must be"):
            microseconds_of(wrong)
