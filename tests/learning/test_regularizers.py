"""Each regularizer's value and gradient by hand, and what the worlds' truth must mean."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp
from counterplay.learning.batches import Batches
from counterplay.learning.config import Game, RegularizerName
from counterplay.learning.regularizers import (
    known_distance,
    popularity_distance,
    regularizer_of,
)
from counterplay.models.link import Link


def number(value: torch.Tensor) -> float:
    return float(value.detach())


def leaf(*rows: list[float]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64, requires_grad=True)


@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 99))
def test_popularity_equals_numpy(rows: int, places: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    g, items = rng.random((rows, places)), rng.integers(0, 4, (rows, places))
    popularity = np.array([1, 2, 4, 9])
    here = np.unique(items)
    means = [g[items == item].mean() for item in here]
    found = popularity_distance(*(torch.tensor(each) for each in (g, items, popularity)))
    if len(here) == 1:
        assert number(found) == 1  # nothing to correlate
    else:
        assert number(found) == pytest.approx(1 - np.corrcoef(means, popularity[here])[0, 1])


def test_equal_propensities_have_a_gradient_of_bounds_towards_popularity() -> None:
    g = leaf([0.5, 0.5, 0.5])
    found = popularity_distance(g, torch.tensor([[0, 1, 2]]), torch.tensor([1, 2, 3]))
    (slope,) = torch.autograd.grad(found, g)
    assert number(found) == 1
    assert 0 < slope[0, 0] < 1e3
    assert -1e3 < slope[0, 2] < 0


def test_reversed_propensities_are_far_from_the_known_ones() -> None:
    known = torch.tensor([[0.1, 0.2, 0.6]])
    assert number(known_distance(known.flip(1), known)) == pytest.approx(1 / 3)
    assert number(known_distance(known, known)) == 0


def of_a_batch(kind: RegularizerName, **options: object) -> tuple[torch.Tensor, torch.Tensor, Link]:
    """Return R, g's scores and the link, of the one batch of a log; user 0 comes back to item 0."""
    log = cp.read({"user": [0, 0, 0, 1, 2], "item": [0, 0, 1, 1, 2]})
    config = Game(regularizer=kind, n_negatives=2)
    (batch,) = Batches(log, config, cp.models.build("pop", log)).epoch(cp.Streams(0), 0)
    g = torch.linspace(-1, 1, batch.items.numel()).reshape(batch.items.shape).requires_grad_()
    link = Link(initial=(0.2, 0.7, -0.4))
    known = options.get("known")
    held = regularizer_of(config, log, known)(batch, g, link)  # type: ignore[arg-type]
    if kind == "popularity":
        propensities = torch.sigmoid(0.2 + 0.7 * g - 0.4 * batch.observed)
        users = torch.tensor([1, 2, 1])  # that each item has; rows would be 2, 2, 1
        expected = popularity_distance(propensities, batch.items, users)
        assert number(held) == pytest.approx(number(expected))
    return held, g, link


@pytest.mark.parametrize("kind", ["feedback", "exposure", "popularity", "known"])
def test_the_regularizer_moves_g_and_leaves_the_link(kind: RegularizerName) -> None:
    held, g, link = of_a_batch(kind, known=lambda _, items: 0.1 + 0.2 * items)
    held.backward()
    assert g.grad is not None
    assert bool((g.grad != 0).any())
    assert all(each.grad is None for each in link.parameters())


def test_a_known_exposure_must_be_given() -> None:
    with pytest.raises(cp.ConfigError, match="needs the true exposure; found none; give a world's"):
        of_a_batch("known")
