"""Lists in one row become impressions with positions."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterplay.data import lists
from counterplay.data.preparation import Preparation, prepare
from counterplay.data.splits import Split
from counterplay.errors import CounterplayWarning, DataError

SLATES = {
    "user": ["a", "b", "a", "c", "b"],
    "items": [[3, 1], [1, 2, 3], [2], [], [3, 2]],
    "time": [1, 2, 3, 4, 5],
}
FLAGS = [[0, 1], [1, 0, 1], [0], [], [0, 0]]
CLICKS = [("a", 1, 2), ("b", 1, 1), ("b", 3, 3)]
OTHERS = [("a", 2, 1), ("a", 3, 1), ("b", 2, 2), ("b", 2, 2), ("b", 3, 1)]


def made(source: object, **plan: Any) -> Split:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CounterplayWarning)
        found = prepare(source, Preparation(**{"split": "random", **plan}))
    assert isinstance(found, Split)
    return found


def rows_of(split: Split) -> tuple[list[Any], list[Any]]:
    assert split.unclicked is not None
    shown = (split.interactions, split.unclicked)
    first, second = (
        sorted(each.to_frame().select("user", "item", "position").rows()) for each in shown
    )
    return first, second


def test_a_list_of_flags_goes_along_with_the_items(tmp_path: Path) -> None:
    frame = pl.DataFrame(SLATES | {"clicks": FLAGS})
    frame.write_parquet(tmp_path / "log.parquet")
    for source in (frame, tmp_path / "log.parquet"):
        found = made(source)
        assert rows_of(found) == (CLICKS, OTHERS)
        steps = [str(step) for step in found.interactions.steps]
        assert "lists: took 5 lists apart; 1 of them are empty" in steps


@pytest.mark.parametrize(
    ("name", "clicked", "chosen"),
    [
        ("click_idx", [1, 0, None, None, -1], {"a": 1, "b": 1}),
        ("click_position", [2, 1, None, None, None], {"a": 1, "b": 1}),
        ("clicked_item", [1, 3, None, None, 9], {"a": 1, "b": 3}),
        ("click", [1, 3, None, None, None], {"a": 1, "b": 3}),
    ],
)
def test_the_place_or_the_item_that_was_clicked(
    name: str, clicked: list[int | None], chosen: dict[str, int]
) -> None:
    found = made(pl.DataFrame(SLATES | {name: clicked}))
    assert found.unclicked is not None
    frame = found.interactions.to_frame()
    assert dict(zip(frame["user"], frame["item"], strict=True)) == chosen
    assert len(found.unclicked) == 8 - len(chosen)
    strange = "1 clicks are on nothing in their list" in str(found.interactions.steps)
    assert strange == (9 in clicked)


def test_items_may_be_texts() -> None:
    slates = {"user": [1, 2], "items": [["x", "y"], ["y", "z"]], "clicked_item": ["y", None]}
    found = made(pl.DataFrame(slates), validation=0.0, test=0.0)
    assert rows_of(found) == ([(1, "y", 2)], [(1, "x", 1), (2, "y", 1), (2, "z", 2)])


def test_values_of_a_list_hold_for_each_item() -> None:
    slates = SLATES | {"clicks": FLAGS, "p": [[0.5, 0.25], [0.1, 0.2, 0.3], [1.0], [], [0.6, 0.7]]}
    found = made(pl.DataFrame(slates))
    assert found.unclicked is not None
    assert found.unclicked.propensity is not None
    assert sorted(found.unclicked.propensity.tolist()) == [0.2, 0.5, 0.6, 0.7, 1.0]
    whole = made(pl.DataFrame(SLATES | {"clicks": FLAGS, "p": [0.5, 0.25, 1.0, 0.5, 0.5]}))
    assert whole.interactions.propensity is not None
    assert sorted(whole.interactions.propensity.tolist()) == [0.25, 0.25, 0.5]


def test_lists_of_other_lengths_are_refused() -> None:
    wrong = pl.DataFrame(SLATES | {"clicks": [[0, 1], [1, 0], [0], [], [0, 0]]})
    with pytest.raises(DataError, match=r"found 1 lists in column 'clicks' .* at row 2"):
        made(wrong)
    numbered = pl.DataFrame(SLATES | {"clicks": FLAGS, "rank": [1, 2, 3, 4, 5]})
    assert rows_of(made(numbered)) == (CLICKS, OTHERS)
    with pytest.raises(DataError, match=r"found column 'rank' of type Int64; leave --position"):
        made(numbered, position="rank")
    without = made(numbered, position="-")
    assert without.interactions.position is None
    with pytest.raises(DataError, match=r"a list must be of one user; found lists in .*--user"):
        made(
            pl.DataFrame(
                {"user": [[1], [2]], "items": [[1, 2], [2, 3]], "clicks": [[0, 1], [1, 1]]}
            )
        )


def test_batches_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pl.concat([pl.DataFrame(SLATES | {"clicks": FLAGS})] * 7)
    whole = made(frame)
    monkeypatch.setattr(lists, "_AT_ONCE", 3)
    small = made(frame)
    assert whole.interactions == small.interactions
    assert whole.fingerprint == small.fingerprint


def test_one_flag_for_a_list_is_refused_and_places_may_be_unsigned_or_missing() -> None:
    with pytest.raises(DataError, match="found one flag for the whole list in column 'clicked'"):
        made(SLATES | {"clicked": [True, True, False, False, False]})
    expected = rows_of(made(SLATES | {"click_idx": [1, 0, -1, -1, -1]}))
    missing = pl.Series([1.0, 0.0, float("nan"), None, None], strict=False)
    unsigned = pl.Series([1, 0, None, None, None], dtype=pl.UInt8)
    for places in (missing, unsigned):
        split = made(pl.DataFrame(SLATES).with_columns(click_idx=places))
        assert rows_of(split) == expected
        assert "nothing in their list" not in " ".join(map(str, split.interactions.steps))


def counts_of(split: Split) -> dict[str, int]:
    return dict(next(step.counts for step in split.interactions.steps if step.kind == "lists"))


def test_an_item_that_is_listed_twice_is_clicked_once_and_strange_clicks_are_counted() -> None:
    slates = {
        "user": ["a", "b", "c", "a", "b"],
        "items": [[3, 1, 3, 3], [1, 2], [2, 2], [], [1, 3]],
        "clicked_item": [3, 7, 2, 1, None],
    }
    found = made(slates, validation=0.0, test=0.0)
    assert rows_of(found)[0] == [("a", 3, 1), ("c", 2, 1)]
    assert found.unclicked is not None
    assert len(found.unclicked) == 8
    assert counts_of(found) == {"lists": 5, "empty": 1, "strange": 2, "repeated": 2}


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 3), max_size=4), st.one_of(st.none(), st.integers(-1, 4))
        ),
        min_size=2,
        max_size=12,
    ),
    st.sampled_from(["click_idx", "click_position", "clicked_item"]),
)
def test_clicks_are_those_of_a_loop_over_lists(
    slates: list[tuple[list[int], int | None]], name: str
) -> None:
    clicks, strange, repeated = [], 0, 0
    for row, (items, clicked) in enumerate(slates):
        if clicked is None or clicked == -1:
            continue
        places = {
            "click_idx": [place for place in range(len(items)) if place == clicked],
            "click_position": [place for place in range(len(items)) if place + 1 == clicked],
            "clicked_item": [place for place, item in enumerate(items) if item == clicked],
        }[name]
        strange += not places
        repeated += len(places) > 1
        clicks += [(row, items[place], place + 1) for place in places[:1]]
    types: dict[str, Any] = {"row": pl.Int64, "items": pl.List(pl.Int64), name: pl.Int64}
    frame = pl.DataFrame([(row, *each) for row, each in enumerate(slates)], types, orient="row")
    reader = lists.one_a_row(frame.schema, {"user": "row", "item": "items", "clicked": name}, {})
    shown = pl.concat(reader.rows([frame]))
    assert shown.height == sum(len(items) for items, _ in slates)
    assert shown.filter(name).select("row", "items", reader.roles["position"]).rows() == clicks
    counts = reader.steps[0].counts
    assert (counts.get("strange", 0), counts.get("repeated", 0)) == (strange, repeated)


@pytest.mark.parametrize("flags", [[1, 0, None, 0, 1], [1.0, 0.0, 0.0, 0.0, 0.0], list("10010")])
def test_numbers_that_may_be_flags_of_a_whole_list_are_refused(flags: list[Any]) -> None:
    with pytest.raises(DataError, match=r"only 0 and 1.* 'clicked'; rename it to click_idx"):
        made(pl.DataFrame(SLATES | {"clicked": flags}, strict=False))
    assert rows_of(made(SLATES | {"click_idx": [1, 0, None, None, 1]}))[0]
    assert rows_of(made(SLATES | {"clicked_item": [1, 1, None, None, None]}))[0]
    assert rows_of(made(SLATES | {"clicked": [1, 3, None, None, None]}))[0]


def test_a_place_that_is_text_is_refused_by_its_column() -> None:
    with pytest.raises(DataError, match=r"found column 'click_idx' of type String; convert it"):
        made(SLATES | {"click_idx": ["1", "0", None, None, None]})


def test_a_place_between_two_is_none() -> None:
    found = made(SLATES | {"click_idx": [1.0, 0.5, None, float("nan"), -1.0]})
    assert rows_of(found)[0] == [("a", 1, 2)]
    assert counts_of(found)["strange"] == 1


def test_ids_of_clicks_may_be_of_another_type() -> None:
    large = 2**62 + 1  # no float holds it
    slates = {"user": [1, 2], "items": pl.Series([[large, 1], [1, 2]], dtype=pl.List(pl.UInt64))}
    clicked = pl.Series([large, 2], dtype=pl.UInt64)
    for target in (clicked, clicked.cast(pl.String)):
        found = made(pl.DataFrame(slates).with_columns(clicked_item=target))
        assert counts_of(found) == {"lists": 2}


def test_lists_of_a_fixed_length_are_lists(tmp_path: Path) -> None:
    slates = {"user": ["a", "b", "c"], "items": [[3, 1], [1, 2], [2, 3]]}
    flags = [[0, 1], [1, 0], [0, 0]]
    expected = rows_of(made(slates | {"clicks": flags}))
    pairs = pa.list_(pa.int64(), 2)
    arrow = pa.table({
        "user": slates["user"],
        "items": pa.array(slates["items"], pairs),
        "clicks": pa.array(flags, pairs),
    })  # fmt: skip
    pq.write_table(arrow, tmp_path / "log.parquet")
    arrays = pl.DataFrame(slates | {"clicks": flags}).with_columns(
        pl.col("items", "clicks").cast(pl.Array(pl.Int64, 2))
    )
    numbers = slates | {"items": np.array(slates["items"]), "clicks": np.array(flags)}
    for source in (arrow, arrays, numbers, tmp_path / "log.parquet"):
        assert rows_of(made(source)) == expected
