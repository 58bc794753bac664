from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import counterplay as cp

LOG = {"user": ["a", "b", "c"], "item": [1, 2, 3]}
ITEMS = pl.DataFrame(
    {
        "id": [3, 1, 9],
        "price": [3.5, None, 9.0],
        "new": [True, False, True],
        "brand": ["x", "y", "x"],
        "tags": [["p", "q"], [], ["r"]],
    }
)


def test_features_stand_in_the_order_of_the_vocabulary() -> None:
    table = cp.read(LOG, item_features=ITEMS).item_features
    assert table is not None
    assert len(table) == 3
    assert (table.numeric, table.categorical, table.multivalued) == (
        ["price", "new"],
        ["brand"],
        ["tags"],
    )
    np.testing.assert_array_equal(table.numbers(), [[np.nan, 0], [np.nan, np.nan], [3.5, 1]])
    codes, brands = table.codes("brand")
    assert (codes.tolist(), brands.ids.to_list()) == ([1, -1, 0], ["x", "y"])
    offsets, values, tags = table.bags("tags")
    assert (offsets.tolist(), values.tolist(), tags.ids.to_list()) == (
        [0, 0, 0, 2],
        [0, 1],
        ["p", "q"],
    )


def test_features_of_unknown_ids_are_left_out_and_counted() -> None:
    steps = cp.read(LOG, item_features=ITEMS).steps
    assert [dict(step.counts) for step in steps] == [{"item_feature_rows": 1}]


def test_unseen_ids_can_join_the_vocabulary() -> None:
    log = cp.read(LOG, item_features=ITEMS, include_unseen=True)
    assert log.items.ids.to_list() == [1, 2, 3, 9]
    assert len(log) == 3
    assert log.item_features is not None
    assert log.item_features.codes("brand")[0].tolist() == [1, -1, 0, 0]


def test_features_come_from_a_file_too(tmp_path: Path) -> None:
    ITEMS.write_parquet(tmp_path / "items.parquet")
    log = cp.read(LOG, item_features=tmp_path / "items.parquet")
    assert log == cp.read(LOG, item_features=ITEMS)


def test_a_csv_table_has_numbers_and_ids_like_the_log(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("item,price,brand\n3,3.5,x\n1,,7y\n9,9,z\n")
    expected = ["price"], ["brand"]
    for log in (LOG, {**LOG, "item": ["1", "2", "3"]}):
        table = cp.read(log, item_features=tmp_path / "items.csv").item_features
        assert table is not None
        assert (table.numeric, table.categorical) == expected
        np.testing.assert_array_equal(table.numbers(), [[np.nan], [np.nan], [3.5]])


def test_unseen_ids_take_the_type_of_the_log(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("item,price\n9,1\n")
    (tmp_path / "log.csv").write_text("user,item\na,1\nb,2\n")
    for log in (tmp_path / "log.csv", {"user": ["a", "b"], "item": [1, 2]}):
        read = cp.read(log, item_features=tmp_path / "items.csv", include_unseen=True)
        assert read.items.ids.to_list() == [1, 2, 9]
    typed = pl.DataFrame({"id": [9], "price": [1]})
    read = cp.read(tmp_path / "log.csv", item_features=typed, include_unseen=True)
    assert read.items.ids.to_list() == [1, 2, 9]
    with pytest.raises(cp.DataError, match="all integers or all text"):
        cp.read(LOG, item_features={"id": ["9"], "price": [1]}, include_unseen=True)
    with pytest.raises(cp.DataError, match="must have an id"):
        cp.read(LOG, item_features={"id": [9, None], "price": [1, 2]}, include_unseen=True)


def test_a_table_without_numbers_has_an_empty_matrix() -> None:
    table = cp.data.FeatureTable(pl.DataFrame({"brand": ["x", "y"]}))
    assert table.numbers().shape == (2, 0)


def test_filters_carry_features_along() -> None:
    log = cp.read(
        {"user": [1, 1, 2, 2, 3], "item": [1, 2, 1, 2, 3]},
        user_features=pl.DataFrame({"id": [1, 2, 3], "age": [10.0, 20.0, 30.0]}),
    )
    kept = cp.data.k_core(log, 2)
    assert kept.user_features is not None
    assert kept.user_features.numbers().ravel().tolist() == [10.0, 20.0]


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        ({"id": [1, 1], "x": [1, 2]}, "one row an id; found 2 of 2 rows"),
        ({"id": [1, None], "x": [1, 2]}, "missing or repeated id"),
        ({"id": [1, 2], "x": [1.0, float("inf")]}, "found 1 infinite values in column 'x'"),
        ({"id": [1, 2], "x": [b"a", b"b"]}, "found column 'x' of type Binary"),
        ({"item": [1, 2], "id": [1, 2]}, "must not be called 'id'"),
        ({"id": [1, 2], "x": [[[1]], [[2]]]}, "found column 'x' of type List(List"),
        ({"key": [1, 2], "x": [1, 2]}, "its ids in a column 'item' or 'id'"),
        ({"id": ["1", "2"], "x": [1, 2]}, "vocabulary's type, integers; found text"),
    ],
)
def test_bad_feature_tables_are_refused(frame: dict[str, list[object]], expected: str) -> None:
    with pytest.raises(cp.DataError) as caught:
        cp.read(LOG, item_features=pl.DataFrame(frame))
    assert expected in str(caught.value)
