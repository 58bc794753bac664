from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterplay import DataError, Vocabulary
from counterplay.data.vocabulary import encode_integers, encode_text

INTEGERS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)


@given(st.one_of(st.lists(INTEGERS, min_size=1), st.lists(TEXTS, min_size=1)))
def test_any_ids_survive_the_round_trip(ids: list[Any]) -> None:
    vocabulary = Vocabulary.of(pl.Series(ids))
    assert vocabulary.decode(vocabulary.encode(pl.Series(ids))).to_list() == ids
    assert vocabulary.ids.to_list() == sorted(set(ids), key=_by_bytes)


def _by_bytes(value: int | str) -> Any:
    return value.encode() if isinstance(value, str) else value


@given(st.lists(st.lists(INTEGERS, min_size=1), min_size=1, max_size=4))
def test_integers_in_batches_are_encoded_as_one_column(batches: list[list[int]]) -> None:
    whole = [each for batch in batches for each in batch]
    vocabulary, index = encode_integers([np.array(batch) for batch in batches])
    assert vocabulary.decode(index).to_list() == whole
    assert vocabulary.ids.is_sorted()


@given(st.lists(st.lists(TEXTS, min_size=1), min_size=1, max_size=4))
def test_texts_in_batches_are_encoded_as_one_column(batches: list[list[str]]) -> None:
    whole = [each for batch in batches for each in batch]
    series = [pl.Series(batch, dtype=pl.Categorical) for batch in batches]
    vocabulary, index = encode_text(series, untyped=False)
    assert vocabulary.decode(index).to_list() == whole
    assert vocabulary.ids.to_list() == sorted(set(whole), key=_by_bytes)


@pytest.mark.parametrize(
    ("texts", "ids"),
    [
        (["10", "9", "-3"], [-3, 9, 10]),
        (["007", "7"], ["007", "7"]),
        (["1", "x"], ["1", "x"]),
        (["+1", "1"], ["+1", "1"]),
        ([" 1", "1"], [" 1", "1"]),
        (["99999999999999999999", "1"], ["1", "99999999999999999999"]),
    ],
)
def test_untyped_ids_become_integers_only_if_nothing_is_lost(
    texts: list[str], ids: list[int] | list[str]
) -> None:
    vocabulary, _ = encode_text([pl.Series(texts, dtype=pl.Categorical)], untyped=True)
    assert vocabulary.ids.to_list() == ids


def test_unknown_ids_are_minus_one() -> None:
    assert Vocabulary.of([3, 5]).encode([5, 4, 9]).tolist() == [1, -1, -1]
    assert Vocabulary.of(["a"]).encode(["b", "a"]).tolist() == [-1, 0]
    assert Vocabulary.of([3]).encode([]).tolist() == []


def test_unknown_places_decode_to_null() -> None:
    assert Vocabulary.of(["a", "b"]).decode(np.array([1, -1])).to_list() == ["b", None]


def test_ids_of_another_type_are_refused() -> None:
    with pytest.raises(DataError, match="vocabulary's type, integers; found text"):
        Vocabulary.of([1, 2]).encode(["1"])
