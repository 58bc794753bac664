from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp
from counterplay.models.link import Link

BETA = st.tuples(st.floats(-4, 4), st.floats(0.1, 4), st.floats(-4, 4))
SCORES = st.lists(st.floats(-30, 30), min_size=1, max_size=8)


@given(BETA, SCORES, st.floats(0.001, 0.5), st.booleans(), st.booleans())
def test_propensities_stay_within_the_floor_and_one(
    beta: tuple[float, float, float],
    scores: list[float],
    floor: float,
    monotone: bool,
    with_outcome: bool,
) -> None:
    link = Link(initial=beta, floor=floor, monotone=monotone, with_outcome=with_outcome)
    link = link.double()
    g = torch.tensor(scores, dtype=torch.float64)
    y = (torch.arange(len(scores)) % 2).double()
    propensity = link(g, y)
    assert bool((propensity >= floor - 1e-9).all())
    assert bool((propensity <= 1).all())


@given(BETA)
def test_beta_starts_as_given(beta: tuple[float, float, float]) -> None:
    assert Link(initial=beta).beta == pytest.approx(beta, rel=1e-5)
    assert Link(initial=beta, monotone=True).beta == pytest.approx(beta, rel=1e-4)
    assert Link(initial=beta, with_outcome=False).beta[2] == 0


def test_without_the_outcome_it_does_not_matter() -> None:
    link = Link(with_outcome=False)
    g = torch.tensor([0.3, -1.0])
    assert torch.equal(link(g, torch.zeros(2)), link(g, torch.ones(2)))
    assert len(list(link.parameters())) == 2


def test_a_monotone_link_cannot_turn() -> None:
    link = Link(monotone=True)
    with torch.no_grad():
        link.slope.fill_(-50.0)
    assert link.beta[1] >= 0


@pytest.mark.parametrize("floor", [0.0, 1.0, -0.1, 2.0])
def test_a_bad_floor_is_refused(floor: float) -> None:
    with pytest.raises(cp.ConfigError, match="between 0 and 1"):
        Link(floor=floor)
