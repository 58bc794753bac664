"""The weighted loss of a batch, with its gradient in closed form.

    L = mean[ w · δ ],   w = 1 / G_β(g, y) = 1 + e^(−z),   z = β0 + β1 · g + β2 · y ≥ logit(μ)

Groups of places share a mean weight of 1: w is divided by the mean of its group, so that
L = Σ share · Σ w δ / Σ w over groups. Then, with m the weighted mean loss of a group,

    dL/dδ = w · c,   dL/dz = (m − δ) · e^(−z) · c   above the floor, else 0

and c the group's scale by the number of entries. Automatic differentiation comes to the same in
twice as many passes over the batch, which is most of what the game costs beyond its models.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from counterplay.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor

    from counterplay.data.interactions import Interactions
    from counterplay.learning.batches import Batch
    from counterplay.learning.config import Recipe
    from counterplay.models.link import Link

Groups = tuple[int, ...]  # how many places each has, in order; none leaves weights as they are


def groups_of(recipe: Recipe, n_places: int) -> Groups:
    """Return the groups of a row's places: the paper has none, ours observed and sampled items.

    Were weights free to move between the two, β, which minimises losses, would move them to
    whichever is easier: the candidate would learn little more than that most items are unobserved.
    """
    if recipe == "paper":
        return ()
    return (1, n_places - 1) if n_places > 1 else (1,)


def logged_are_used(propensities: str, log: Interactions) -> bool:
    """Tell whether the log's propensities are used: if asked for, or with auto if there are any."""
    if propensities == "logged" and log.propensity is None:
        raise DataError(
            "propensities=logged needs a log with propensities; found a log without; name the "
            "column with --propensity, or leave the setting out"
        )
    return log.propensity is not None and propensities in ("auto", "logged")


def weighted_loss(
    losses: Tensor,
    link: Link,
    scores: Tensor,
    outcomes: Tensor,
    groups: Groups,
    batch: Batch | None = None,
    *,
    learn_link: bool = True,
    factor: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the weighted mean of the losses δ, and the weights before they are scaled, `[B, W]`.

    Losses are `[B, K]`, the observed item of each row first. Exposure scores g and outcomes y, as
    the link sees them, are those of the first W places, `[B, W]`; other places have a weight of 1.
    Groups add up to W. The means are those of a `batch` that several workers have parts of: each
    returns its share of the loss. Without `learn_link`, β gets no gradient. A `factor`, `[B, W]`,
    multiplies the odds e^(−z), and has no gradient.
    """
    n_weighted, n_places = scores.shape[1], losses.shape[1]
    if n_weighted < n_places:
        first, others = losses[:, :n_weighted].contiguous(), losses[:, n_weighted:]
        loss, weights = weighted_loss(
            first, link, scores, outcomes, groups, batch, learn_link=learn_link, factor=factor
        )
        n = len(losses) if batch is None else len(batch)
        return loss * (n_weighted / n_places) + others.sum() / (n * n_places), weights
    beta = link.coefficients(learn=learn_link)
    scores = scores.to(torch.promote_types(scores.dtype, link.intercept.dtype))
    loss, weights = _Weighted.apply(  # type: ignore[no-untyped-call]
        losses.to(scores.dtype), scores, outcomes, *beta, link.least, groups, factor, batch
    )
    return loss, weights


class _Weighted(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, losses: Tensor, scores: Tensor, outcomes: Tensor,
        intercept: Tensor, slope: Tensor, outcome: Tensor | None, least: float, groups: Groups,
        factor: Tensor | None, batch: Batch | None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        z = torch.addcmul(-intercept, scores, slope, value=-1)  # with the other sign
        if outcome is not None:
            z.addcmul_(outcomes, outcome, value=-1)
        odds = z.clamp_(max=-least).exp()  # of not being exposed
        if factor is not None:
            odds.mul_(factor)
        weights = odds + 1
        sums = (losses * weights).sum(0)  # [K]
        n, totals = len(losses), weights.sum(0)  # [K]
        of_all = sums
        if batch is not None and batch.n_rows is not None:
            of_all, totals, n = _of_all_workers(batch, losses, weights)
        scales, means = _scaled(of_all, totals, groups, n)
        ctx.save_for_backward(losses, weights, odds, z, scores, outcomes, slope, scales, means)
        ctx.least, ctx.n = least, n * losses.shape[1]
        ctx.by_workers = batch is not None and batch.n_rows is not None
        ctx.mark_non_differentiable(weights)
        return (sums * scales).sum() / ctx.n, weights

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        losses, weights, odds, z, scores, outcomes, slope, scales, means = ctx.saved_tensors
        to_losses, to_scores, _, to_intercept, to_slope, to_outcome, *_ = ctx.needs_input_grad
        scales = scales * (gradients[0] / ctx.n)
        found: list[Tensor | None] = [None] * 10
        if to_losses:
            found[0] = weights * scales
        if to_scores or to_intercept or to_slope or to_outcome:
            above = (z + ctx.least).sign_()  # 0 where the floor holds, -1 elsewhere
            to_z = (losses - means).mul_(scales).mul_(odds).mul_(above)
            flat = to_z.view(-1)
            exact = torch.float64 if ctx.by_workers else flat.dtype  # their sums are added up
            to_beta, kind = flat.to(exact), flat.dtype
            found[3] = to_beta.sum().to(kind) if to_intercept else None
            found[4] = to_beta.dot(scores.reshape(-1).to(exact)).to(kind) if to_slope else None
            found[5] = to_beta.dot(outcomes.reshape(-1).to(exact)).to(kind) if to_outcome else None
            found[1] = to_z.mul_(slope) if to_scores else None  # last: the others are done with it
        return tuple(found)


def _of_all_workers(batch: Batch, losses: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, int]:
    """Return the sums of weighted losses and of weights over a whole batch, `[K]`, and its rows."""
    exact = weights.double()
    both = torch.stack([(losses * exact).sum(0), exact.sum(0)])
    batch.group.sum(both)
    sums, totals = both.to(weights.dtype)
    return sums, totals, len(batch)


def _scaled(sums: Tensor, weights: Tensor, groups: Groups, n: int) -> tuple[Tensor, Tensor]:
    """Return scales that give every group a mean weight of 1, and weighted mean losses, `[K]`."""
    if not groups:
        return torch.ones_like(weights), torch.zeros_like(sums)
    together = _together(groups, weights.dtype, weights.device)
    totals = together @ weights
    return n * together.sum(0) / totals, together @ sums / totals


@cache
def _together(groups: Groups, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return which places are in a group together, 1 or 0, `[K, K]`."""
    group = torch.arange(len(groups)).repeat_interleave(torch.tensor(groups))
    return (group[:, None] == group).to(device, dtype)
