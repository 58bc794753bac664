from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp

SEEDS = st.integers(0, 2**64)
NAMES = st.lists(st.one_of(st.text(max_size=5), st.integers(0, 99)), max_size=3)


@given(SEEDS, NAMES)
def test_a_stream_is_the_same_every_time(seed: int, name: list[str | int]) -> None:
    first, second = (cp.Streams(seed).numpy(*name).random(4) for _ in range(2))
    assert (first == second).all()


@given(SEEDS, NAMES, NAMES)
def test_streams_of_other_names_differ(
    seed: int, name: list[str | int], other: list[str | int]
) -> None:
    streams = cp.Streams(seed)
    same = bool((streams.numpy(*name).random(4) == streams.numpy(*other).random(4)).all())
    assert same == (name == other)


def test_a_number_and_its_text_are_different_names() -> None:
    assert cp.Streams(0).numpy(1).random() != cp.Streams(0).numpy("1").random()


def test_the_draws_of_a_stream_are_frozen() -> None:
    assert cp.Streams(7).numpy("negatives", 0).integers(1000, size=3).tolist() == [516, 605, 384]


def test_torch_streams_are_reproducible_and_named() -> None:
    import torch

    first, second, other = (
        torch.rand(4, generator=cp.Streams(3).torch(name)).numpy() for name in ("a", "a", "b")
    )
    assert (first == second).all()
    assert not np.array_equal(first, other)


def test_numbers_of_numpy_are_numbers() -> None:
    plain = cp.Streams(3).numpy("a", 1).random()
    assert cp.Streams(np.int64(3)).numpy("a", np.int64(1)).random() == plain  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [-1, 1.5, True, "7"])
def test_a_bad_seed_is_refused(seed: object) -> None:
    with pytest.raises(cp.ConfigError, match="a seed must be a whole number"):
        cp.Streams(seed)  # type: ignore[arg-type]
