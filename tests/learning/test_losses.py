from __future__ import annotations

import math

import pytest
import torch

from counterplay.learning.losses import LOSSES, LossName

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
