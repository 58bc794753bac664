from __future__ import annotations

import pytest
import torch

from counterplay.models.given import GivenExposure
from counterplay.models.link import Link

USERS, ITEMS = torch.tensor([0, 1]), torch.tensor([[0, 1, 2], [2, 1, 0]])


def propensity(users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
    return 0.1 + 0.2 * items.float() + 0.1 * users[:, None].float()


def test_a_plain_link_gives_the_propensities_back() -> None:
    scores = GivenExposure(2, 3, propensity)(USERS, ITEMS)
    torch.testing.assert_close(Link()(scores, torch.zeros(2, 3)), propensity(USERS, ITEMS))


def test_of_observed_items_only_the_others_are_as_if_certain() -> None:
    scores = GivenExposure(2, 3, propensity, observed_only=True)(USERS, ITEMS)
    weights = Link().weights(scores, torch.zeros(2, 3))
    assert weights[:, 0].tolist() == pytest.approx([1 / 0.1, 1 / 0.6])
    assert weights[:, 1:].flatten().tolist() == pytest.approx([1] * 4, abs=2e-6)
