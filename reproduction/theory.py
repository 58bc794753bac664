"""The paper's claims and theorem on worlds so small that every number can be checked.

`docs/algorithms/theory.md` explains what is found, `small_worlds` has what it is found by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.metrics.certificate import certificates
from reproduction.small_worlds import (
    FLOOR,
    MARGINS,
    Confounded,
    Pair,
    best_score,
    cost_regulated,
    coverage,
    divergence,
    example,
    least_loss,
    link_of,
    moved_mass,
    moved_mass_dual,
    primal,
    weighted_relevance,
)

if TYPE_CHECKING:
    from counterplay.metrics.certificate import Cost
    from reproduction.datasets import Place

SOURCES: tuple[str, ...] = ()
Row = tuple[str, str, str, str, str]


def run(place: Place) -> dict[str, Any]:
    """Compute every number of the page on the theory."""
    del place
    rows = [*_claim_1(), *_claim_2(), *_theorem_1(), *_tukey()]
    return {"rows": [dict(zip(_COLUMNS, row, strict=True)) | {"met": None} for row in rows]}


_COLUMNS = ("what", "ours", "yardstick", "ratio", "goal")
_PAIRS = (Pair(0.9, 0.3), Pair(0.2, 0.8))


def _claim_1() -> list[Row]:
    lines: list[Row] = []
    for name in MARGINS:
        positive, negative = np.array([0.3, 0.05]), np.array([0.2, 0.45])
        least = sum(least_loss(name, *each)[0] for each in zip(positive, negative, strict=True))
        theory = -divergence(name, positive, negative)
        lines.append((f"Claim 1, {name}: least loss over o = 0, 1", f"{least:.6f}",
                      f"−D_c {theory:.6f}", "", ""))  # fmt: skip
    for seen in (True, False):
        scores = [best_score("logistic", pair, seen=seen) for pair in _PAIRS]
        lines.append((
            "Claim 1: best logistic scores of (exposure .9, relevance .3) and (.2, .8), exposure "
            f"{'seen' if seen else 'not seen'}", ", ".join(f"{each:+.3f}" for each in scores),
            "the second is liked more", "", "",
        ))  # fmt: skip
    same = [best_score("logistic", each, seen=False, weights=(1 / each.exposure,) * 2)
            for each in _PAIRS]  # fmt: skip
    lines.append((
        "Claim 1: the same, all rows of a pair weighted by 1 / q(x, z)",
        ", ".join(f"{each:+.3f}" for each in same), "not moved: both classes have the weight", "",
        "",
    ))  # fmt: skip
    return lines


def _claim_2() -> list[Row]:
    losses, q = example()
    costs: tuple[Cost, ...] = ("absolute", "weight", "squared")
    lines: list[Row] = []
    for cost in costs:
        for rho in (0.05, 0.2) if cost != "weight" else (0.5, 4.0):
            value, price = primal(losses, q, rho, cost)
            (found,) = certificates(losses, q, [rho], floor=FLOOR, cost=cost)
            lines.append((
                f"Claim 2, cost {cost}, ρ {rho:g}: linear program",
                f"{value:.6f}, price {price:.4f}",
                f"certificate {found.value:.6f}, γ {found.gamma:.4f}", "", "",
            ))  # fmt: skip
    distances = np.abs(np.subtract.outer(q, q))
    shares = np.full(len(q), 1 / len(q))
    value = moved_mass(losses / q, shares, distances, 0.05)
    dual = moved_mass_dual(losses / q, shares, distances, 0.05)
    lines.append(("Claim 2 as printed, mass moves between rows, ρ 0.05: linear program",
                  f"{value:.6f}", f"dual {dual:.6f}", "", ""))  # fmt: skip
    return lines


def _theorem_1() -> list[Row]:
    losses, q = example()
    plain, saturated = (certificates(losses, q, [rho], floor=FLOOR)[0] for rho in (0.0, 1.0))
    delta, _ = cost_regulated(losses, q, plain.gamma, "absolute")
    means = f"{delta:.6f}", f"plain mean {plain.plain:.6f}"
    ceiling = f"ceiling {saturated.value:.4f}"
    lines: list[Row] = [("Corollary 1: mean Δ_γ at γ_n", *means, "", ceiling)]
    for gamma in (plain.gamma / 4, plain.gamma / 16):
        delta, rho = cost_regulated(losses, q, gamma, "absolute")
        (found,) = certificates(losses, q, [rho], floor=FLOOR)
        lines.append((f"Corollary 1: γρ_n + mean Δ_γ at γ {gamma:.2f}",
                      f"{gamma * rho + delta:.6f}", f"certificate at ρ_n {found.value:.6f}",
                      "", ""))  # fmt: skip
    for slack in (0.0, 1.645):
        share, ratio = coverage(400, 0.05, 400, slack=slack)
        lines.append((
            f"Theorem 1: a sample of 400 bounds the population, with {slack:g} standard errors",
            f"{share:.1%} of 400 samples", f"bound / supremum {ratio:.3f}", "", "",
        ))  # fmt: skip
    return lines


def _tukey() -> list[Row]:
    pair = Confounded((0.2, 0.7), (0.1, 0.6))
    return [
        (
            f"Tukey: relevance by what was seen, weighted by the link {said} the outcome",
            f"{weighted_relevance(pair, link_of(pair, with_outcome=with_outcome)):.4f}",
            f"true {pair.relevant():.4f}",
            "",
            "",
        )
        for said, with_outcome in (("with", True), ("without", False))
    ]
