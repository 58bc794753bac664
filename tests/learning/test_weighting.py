"""The closed form against its definition, differentiated automatically."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from counterplay.learning.weighting import Groups, groups_of, weighted_loss
from counterplay.models.link import Link


def twin(losses: Tensor, weights: Tensor, groups: Groups) -> Tensor:
    """Return the mean loss with weights divided by the mean of their group, written out."""
    if groups:
        weights = torch.cat([part / part.mean() for part in weights.split(groups, dim=1)], dim=1)
    return (losses * weights).mean()


def drawn(rows: int, places: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return losses, exposure scores and outcomes."""
    generator = torch.Generator().manual_seed(seed)
    losses = torch.rand(rows, places, generator=generator, dtype=torch.float64) + 0.1
    scores = 4 * torch.randn(rows, places, generator=generator, dtype=torch.float64)
    outcomes = torch.zeros_like(losses)
    outcomes[:, 0] = 1
    return losses, scores, outcomes


@given(
    st.integers(1, 6),
    st.integers(1, 5),
    st.integers(0, 999),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["none", "one", "two"]),
    st.booleans(),
)
def test_value_and_gradients_equal_the_definition(
    rows: int, places: int, seed: int, monotone: bool, with_outcome: bool, kind: str, raised: bool
) -> None:
    groups: Groups = {
        "none": (),
        "one": (places,),
        "two": groups_of("stable", places),
    }[kind]
    losses, scores, outcomes = drawn(rows, places, seed)
    link = Link(
        monotone=monotone, with_outcome=with_outcome, floor=0.05, initial=(0.2, 0.7, -0.4)
    ).double()
    factor = 0.5 + drawn(rows, places, seed + 1)[0] if raised else None  # of the odds
    found = []
    for closed in (True, False):
        leaves = [losses.clone().requires_grad_(), scores.clone().requires_grad_()]
        link.zero_grad()
        if closed:
            loss, weights = weighted_loss(
                leaves[0], link, leaves[1], outcomes, groups, factor=factor
            )
        else:
            odds = 1 / link(leaves[1], outcomes) - 1
            weights = 1 + odds * (1 if factor is None else factor)
            loss = twin(leaves[0], weights, groups)
        loss.backward()
        gradients = [each.grad for each in (*leaves, *link.parameters())]
        found.append([loss.detach(), weights.detach(), *gradients])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


def test_the_link_is_left_alone_on_request() -> None:
    losses, scores, outcomes = drawn(4, 3, 0)
    link = Link().double()
    scores.requires_grad_()
    loss, weights = weighted_loss(losses, link, scores, outcomes, (1, 2), learn_link=False)
    loss.backward()
    assert scores.grad is not None
    assert all(value.grad is None for value in link.parameters())
    assert not weights.requires_grad


@given(st.integers(1, 6), st.integers(1, 5), st.floats(-3, 3), st.integers(0, 99))
def test_weights_cannot_move_between_observed_and_sampled(
    rows: int, places: int, outcome: float, seed: int
) -> None:
    """Scores that say nothing weigh all of a group alike, whatever β2 says of the outcome."""
    losses, scores, outcomes = drawn(rows, places, seed)
    link = Link(initial=(0.3, 1.0, outcome)).double()
    level, _ = weighted_loss(
        losses, link, 0 * scores, outcomes, groups_of("stable", places), learn_link=False
    )
    assert float(level) == pytest.approx(float(losses.mean()), rel=1e-9)


def test_scores_of_low_precision_are_taken_up() -> None:
    losses, scores, outcomes = (each.float() for each in drawn(4, 3, 1))
    low = scores.bfloat16().requires_grad_()
    loss, weights = weighted_loss(losses, Link(), low, outcomes, (1, 2))
    loss.backward()
    assert weights.dtype == loss.dtype == torch.float32
    assert low.grad is not None
    assert low.grad.dtype == torch.bfloat16
