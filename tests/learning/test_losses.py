from __future__ import annotations

import math

import pytest
import torch

from counterplay.learning.config import LossName
from counterplay.learning.losses import LOSSES

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
