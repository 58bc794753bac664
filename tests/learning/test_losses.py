from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from counterplay.learning.losses import LOSSES, LossName, balanced_mean, weighted_mean

ONE, ZERO, SCORE = torch.tensor(1.0), torch.tensor(0.0), torch.tensor(0.5)


@pytest.mark.parametrize(
    ("name", "positive", "negative"),
    [
        ("logistic", math.log(1 + math.exp(-0.5)), math.log(1 + math.exp(0.5))),
        ("hinge", 0.5, 1.5),
        ("exponential", math.exp(-0.5), math.exp(0.5)),
        ("squared", 0.25, 0.25),
    ],
)
def test_losses_by_hand(name: LossName, positive: float, negative: float) -> None:
    assert float(LOSSES[name](ONE, SCORE)) == pytest.approx(positive)
    assert float(LOSSES[name](ZERO, SCORE)) == pytest.approx(negative)


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=9), st.floats(0.5, 4))
def test_normalised_weights_do_not_depend_on_their_scale(values: list[float], scale: float) -> None:
    losses = torch.arange(len(values), dtype=torch.float64)
    weights = torch.tensor(values, dtype=torch.float64)
    first = weighted_mean(losses, weights, normalise=True)
    torch.testing.assert_close(first, weighted_mean(losses, scale * weights, normalise=True))
    plain = weighted_mean(losses, weights, normalise=False)
    torch.testing.assert_close(
        scale * plain, weighted_mean(losses, scale * weights, normalise=False)
    )


def test_claim_1_by_numbers() -> None:
    """One preference seen under two exposures: ERM's optimum moves, the weighted one does not.

    A pair is liked with probability 0.6. When it is not exposed, no click is a negative.
    """
    liked = 0.6
    optima: dict[str, list[float]] = {"plain": [], "weighted": []}
    for exposed in (0.9, 0.3):
        clicks, no_clicks = exposed * liked, exposed * (1 - liked)
        hidden = 1 - exposed
        for name, rows in (
            ("plain", ((1.0, clicks), (0.0, no_clicks + hidden))),
            ("weighted", ((1.0, clicks / exposed), (0.0, no_clicks / exposed))),
        ):
            score = torch.zeros((), dtype=torch.float64, requires_grad=True)
            optimizer = torch.optim.LBFGS([score], lr=1, max_iter=50)

            def closure(
                score: torch.Tensor = score,
                rows: tuple[tuple[float, float], ...] = rows,
                optimizer: torch.optim.LBFGS = optimizer,
            ) -> torch.Tensor:
                optimizer.zero_grad()
                loss = sum(
                    share * LOSSES["logistic"](torch.tensor(y, dtype=torch.float64), score)
                    for y, share in rows
                )
                assert isinstance(loss, torch.Tensor)
                loss.backward()
                return loss

            optimizer.step(closure)
            optima[name].append(float(torch.sigmoid(score.detach())))
    assert optima["plain"] == pytest.approx([0.54, 0.18], abs=1e-3)
    assert optima["weighted"] == pytest.approx([0.6, 0.6], abs=1e-3)


def test_balanced_weights_by_hand() -> None:
    """Weights 1, 3 among the observed are ½, 1½; 2, 2, 4, 8 among the others ½, ½, 1, 2."""
    weights = torch.tensor([[1.0, 2.0, 2.0], [3.0, 4.0, 8.0]])
    losses = torch.tensor([[1.0, 1.0, 2.0], [2.0, 3.0, 4.0]])
    expected = (0.5 * 1 + 1.5 * 2 + 0.5 * 1 + 0.5 * 2 + 1 * 3 + 2 * 4) / 6
    assert float(balanced_mean(losses, weights)) == pytest.approx(expected)
    alone = balanced_mean(losses[:, :1], weights[:, :1])
    assert float(alone) == pytest.approx((0.5 * 1 + 1.5 * 2) / 2)


@given(
    st.integers(1, 6), st.integers(0, 4), st.floats(0.1, 9), st.floats(0.1, 9), st.integers(0, 99)
)
def test_balanced_weights_cannot_move_between_observed_and_sampled(
    rows: int, n_negatives: int, observed: float, sampled: float, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    losses, weights = (
        torch.rand(rows, 1 + n_negatives, generator=generator) + 0.1 for _ in range(2)
    )
    scale = torch.full((1, 1 + n_negatives), sampled)
    scale[:, 0] = observed
    assert float(balanced_mean(losses, weights * scale)) == pytest.approx(
        float(balanced_mean(losses, weights)), rel=1e-5
    )
    level = balanced_mean(losses, scale.expand(rows, -1))
    assert float(level) == pytest.approx(float(losses.mean()), rel=1e-5)
