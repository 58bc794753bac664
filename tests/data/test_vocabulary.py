from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp
from counterplay.data.vocabulary import Texts, encode_integers, mixed

from .conftest import digest

INTEGERS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)


@given(st.one_of(st.lists(INTEGERS, min_size=1), st.lists(TEXTS, min_size=1)))
def test_any_ids_survive_the_round_trip(ids: list[Any]) -> None:
    vocabulary = cp.data.Vocabulary.of(pl.Series(ids))
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
    texts = Texts.of(series)
    vocabulary, index = texts.encode(texts.ids)
    assert vocabulary.decode(index).to_list() == whole
    assert vocabulary.ids.to_list() == sorted(set(whole), key=_by_bytes)


def test_texts_that_mean_the_same_become_one_id() -> None:
    batches = [pl.Series(batch, dtype=pl.Categorical) for batch in (["b ", "a"], ["b", " a", "c"])]
    texts = Texts.of(batches)
    vocabulary, index = texts.encode(texts.ids.str.strip_chars())
    assert vocabulary.ids.to_list() == ["a", "b", "c"]
    assert index.tolist() == [1, 0, 1, 0, 2]
    assert texts.rows(texts.ids.str.contains(" ")) == (2, 1, "b ")
    assert texts.rows(texts.ids == "c") == (1, 5, "c")


@given(st.one_of(st.lists(INTEGERS, min_size=1), st.lists(TEXTS, min_size=1)))
def test_digests_equal_brute_force(ids: list[Any]) -> None:
    vocabulary = cp.data.Vocabulary.of(pl.Series(ids))
    assert vocabulary.digests().tolist() == [digest(each) for each in vocabulary.ids]


def test_digests_do_not_depend_on_the_other_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [f"user-{n}" * (n % 5 + 1) for n in range(1000)]
    whole = dict(
        zip(cp.data.Vocabulary.of(ids).ids, cp.data.Vocabulary.of(ids).digests(), strict=True)
    )
    monkeypatch.setattr("counterplay.data.vocabulary._AT_ONCE", 7)
    some = cp.data.Vocabulary.of(ids[::3])
    assert some.digests().tolist() == [whole[each] for each in some.ids]
    assert len(set(whole.values())) == 1000


def test_mixing_is_one_to_one_on_what_is_near() -> None:
    assert len(np.unique(mixed(np.arange(100_000, dtype=np.uint64)) >> np.uint64(24))) == 100_000


def test_unknown_ids_are_minus_one() -> None:
    assert cp.data.Vocabulary.of([3, 5]).encode([5, 4, 9]).tolist() == [1, -1, -1]
    assert cp.data.Vocabulary.of(["a"]).encode(["b", "a"]).tolist() == [-1, 0]
    assert cp.data.Vocabulary.of([3]).encode([]).tolist() == []


def test_unknown_places_decode_to_null() -> None:
    assert cp.data.Vocabulary.of(["a", "b"]).decode(np.array([1, -1])).to_list() == ["b", None]


def test_ids_of_another_type_are_refused() -> None:
    with pytest.raises(cp.DataError, match="vocabulary's type, integers; found text"):
        cp.data.Vocabulary.of([1, 2]).encode(["1"])
