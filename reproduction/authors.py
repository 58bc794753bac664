"""How the paper's public code judges in its worlds, beside an estimate that is sound and the truth.

    plain            mean of m · σ(R̂ − 4) / σ(s')                over test clicks: no share of hits
    self-normalised  Σ m / q  /  Σ 1 / q                           q: what test clicks were drawn by
    truth            Σ r · P(m)  /  Σ r                            over all pairs without a click

All three rank an item among 100 that are drawn evenly with replacement from all items, those that
the user has seen too: the rejection in the code never fires. For the truth the draw is exact: an
item that a share a of all items beats is a hit with the probability that Binomial(100, a) is below
10.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import stats

from counterplay.data.directory import load_split
from counterplay.metrics.measures import ranking_metrics
from counterplay.metrics.ranks import hide, sampled_ranks
from counterplay.metrics.scoring import ModelScores
from counterplay.runs.training import load_run
from counterplay.seeding import Streams
from counterplay.simulation.store import load_world
from counterplay.simulation.values import gains

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.metrics.scoring import Scores
    from counterplay.simulation.world import World
    from reproduction.datasets import Place

METRICS = ("hit", "ndcg")
K = (5, 10)
N_SAMPLED = 100
PROTOCOL = f"authors-{N_SAMPLED}"
PLAIN, NORMALISED, TRUTH = "plain", "self-normalised", "truth"


class Estimate(NamedTuple):
    """A value, and the effective sample size of the weights as a share of the rows."""

    value: float
    ess: float | None


def authors_metrics(run: Path, data: str, place: Place) -> list[dict[str, Any]]:
    """Return what the code would print of a run, and what is beside it, as metrics of a job."""
    split = load_split(place.log(data))
    folder = place.prepared(data)
    world, held_out, judge = (load_world(folder / name) for name in ("world", "held-out", "judge"))
    candidate, _, _ = load_run(run, split.train)
    scores = ModelScores(candidate, split.train)
    found = estimates(scores, split.test, held_out, judge)
    found[TRUTH] = {
        key: Estimate(value, None) for key, value in truths(scores, world, split.train).items()
    }
    about = {"protocol": PROTOCOL, "low": None, "high": None, "n": len(split.test)}
    return [
        {"metric": metric, "k": k, "estimator": name, **about, **each._asdict()}
        for name, values in found.items()
        for (metric, k), each in values.items()
    ]


def estimates(
    scores: Scores, test: Interactions, held_out: World, judge: World
) -> dict[str, dict[tuple[str, int], Estimate]]:
    """Return the plain mean and the self-normalised one, by metric and k."""
    rng = Streams(0).numpy("authors", "sampled")
    items = rng.integers(held_out.n_items, size=(len(test), N_SAMPLED))
    pairs = test.user, test.item[:, None]
    ranks = sampled_ranks(scores, test.user, np.concatenate([pairs[1], items], axis=1))
    values = ranking_metrics(ranks, np.arange(len(test)), names=METRICS, k=K)
    factor = (judge.relevance(*pairs) / judge.propensity(*pairs))[:, 0]
    weights = 1 / held_out.propensity(*pairs)[:, 0]
    return {
        name: {
            key: Estimate(float(rows @ each / total), _ess(each)) for key, rows in values.items()
        }
        for name, each, total in ((PLAIN, factor, len(test)), (NORMALISED, weights, weights.sum()))
    }


def truths(scores: Scores, world: World, seen: Interactions) -> dict[tuple[str, int], float]:
    """Return the true value among items that are drawn evenly, by metric and k."""
    users, n = np.arange(world.n_users), world.n_items
    found = np.asarray(scores.of_all(users), dtype=np.float64)
    # Half a rank for each tie: shares are multiples of 1 / 2n.
    beaten_by = (n - stats.rankdata(found, axis=1)) / n
    wanted = np.nan_to_num(hide(world.relevance(users), users, seen))
    most = max(K)
    grid = np.arange(2 * n + 1) / (2 * n)
    chance = stats.binom.pmf(np.arange(most)[:, None], N_SAMPLED, grid)  # of each place, [K, 2n+1]
    at = np.rint(beaten_by * 2 * n).astype(np.int64)
    return {
        (metric, k): float((wanted * (gains(metric, k, most) @ chance)[at]).sum() / wanted.sum())
        for metric in METRICS
        for k in K
    }


def _ess(weights: NDArray[np.float64]) -> float:
    return float(weights.sum() ** 2 / (weights @ weights) / len(weights))
