"""Strategies for logs, and a small one that tests agree on."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import strategies as st

import counterplay as cp
from counterplay.data.identifiers import stands_for_none

INTEGERS = st.integers(-(2**63), 2**63 - 1)
_SIGNS = st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Zl", "Zp"])
TEXTS = st.text(_SIGNS, min_size=1, max_size=12).filter(
    lambda text: text.strip() and not stands_for_none(pl.Series([text.strip()])).item()
)


def _ids(ids: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(ids, min_size=2, max_size=8, unique=True)


@st.composite
def tables(draw: st.DrawFn, *, times: bool = False, max_rows: int = 40) -> pl.DataFrame:
    """Draw a table of at least two users and two items with ids of either type."""
    users = draw(st.one_of(_ids(INTEGERS), _ids(TEXTS)))
    items = draw(st.one_of(_ids(INTEGERS), _ids(TEXTS)))
    rows = draw(
        st.lists(
            st.tuples(st.sampled_from(users), st.sampled_from(items), st.integers(0, 9)),
            min_size=2,
            max_size=max_rows,
        ).filter(lambda all_: len({u for u, _, _ in all_}) > 1 and len({i for _, i, _ in all_}) > 1)
    )
    frame = pl.DataFrame(rows, schema=["user", "item", "time"], orient="row")
    return frame if times else frame.drop("time")


def mixed(number: int) -> int:
    """Return what `vocabulary.mixed` must give, by Python's own numbers."""
    number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    number = (number ^ (number >> 27)) * 0x94D049BB133111EB % 2**64
    return number ^ (number >> 31)


def digest(identity: int | str) -> int:
    """Return what `Vocabulary.digests` must give, by Python's own numbers."""
    if isinstance(identity, int):
        return mixed(identity % 2**64)
    data = identity.encode()
    factor = 0x9E3779B97F4A7C15
    return mixed((sum((b + 1) * factor**k for k, b in enumerate(data)) + len(data)) % 2**64)


@pytest.fixture
def small_log() -> cp.Interactions:
    """Three users, four items: user a has five rows, b three, c one."""
    return cp.read(
        {
            "user": ["a", "b", "a", "c", "a", "b", "a", "b", "a"],
            "item": [10, 10, 20, 40, 30, 20, 10, 30, 40],
            "rating": [5.0, 4.0, 3.0, 2.0, 1.0, 5.0, 4.0, 3.0, 2.0],
            "time": [3, 1, 1, 1, 2, 2, 5, 3, 4],
        }
    )
