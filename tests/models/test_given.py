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
    weights = 1 / Link()(scores, torch.zeros(2, 3))
    assert weights[:, 0].tolist() == pytest.approx([1 / 0.1, 1 / 0.6])
    assert weights[:, 1:].flatten().tolist() == pytest.approx([1] * 4, abs=2e-6)


def test_certainty_and_impossibility_have_finite_scores() -> None:
    ends = torch.tensor([[1.0, 0.5, 0.0]])
    scores = GivenExposure(1, 3, lambda *_: ends)(torch.tensor([0]), ITEMS[:1])
    assert bool(scores.isfinite().all())
    assert (1 / Link(floor=1e-6)(scores, torch.zeros(1, 3)))[0, :2].tolist() == [1, 2]


def test_no_propensity_below_one_is_taken_for_certain() -> None:
    below = torch.tensor(1.0).nextafter(torch.tensor(0.0))
    scores = GivenExposure(1, 2, lambda *_: torch.stack([below, torch.tensor(1.0)])[None])
    almost, certain = scores(torch.tensor([0]), torch.tensor([[0, 1]]))[0].tolist()
    assert almost < certain
