"""What knowing the exposure is worth where there is taste to learn, and what the game makes of it.

In synthetic worlds, with the defaults of the library. Weighting the clicks by the inverse of their
true propensities, or of those an item has on average, says what could be gained; popularity is what
a log knows of them. Propensity scoring gets the same truth, but uses it as the paper does: for
sampled items too, and through a link whose β the candidate chooses; each of the two is tried alone.
The game has to find an exposure by itself; with β fixed, the candidate cannot turn the weights off.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from reproduction.agreement import mean_over_repetitions
from reproduction.curves import MEAN, POPULARITY, TRUE, TRUE_ON_ALL, TRUE_WITH_BETA, curves
from reproduction.datasets import SYNTHETIC, Place, make, world_of

SOURCES: tuple[str, ...] = ()
N_WORLDS = 5
METHODS = (
    *("erm", TRUE, MEAN, POPULARITY),
    *(TRUE_ON_ALL, TRUE_WITH_BETA, "ps, with the true propensities"),
    *("acl, stable", "acl, stable, β fixed", "acl, paper"),
)


def run(place: Place) -> dict[str, Any]:
    """Follow every method in every world, and return the curves."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        place = Place(place.data, Path(folder))
        for seed in range(N_WORLDS):
            make(world_of(SYNTHETIC, seed), place)
            found.append(curves(place, SYNTHETIC, seed, METHODS))
    return {"worlds": found, "rows": rows(found)}


def rows(worlds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Say what each method is worth at the epoch that validation keeps, and at its truest."""
    kept = {method: np.array([_kept(world, method) for world in worlds]) for method in METHODS}
    peak = {method: np.array([_peak(world, method) for world in worlds]) for method in METHODS}
    held = ", ".join(
        f"{name} {np.mean([world[name] for world in worlds]):.2f}"
        for name in ("random", "popularity", "best")
    )
    return [
        {
            "what": f"{len(worlds)} synthetic worlds, {method}: true Hit@10 of the epoch that "
            "validation keeps",
            "ours": f"{kept[method].mean():.2f}; against erm {_difference(kept, method)}",
            "yardstick": f"{peak[method].mean():.2f} at its truest; against erm "
            f"{_difference(peak, method)}; {held}",
            "ratio": f"{kept[method].mean() / peak[method].mean():.2f}",
            "goal": "none",
            "met": None,
        }
        for method in METHODS
    ]


def _kept(world: dict[str, Any], method: str) -> float:
    return float(max(world["curves"][method])[1])


def _peak(world: dict[str, Any], method: str) -> float:
    return float(max(truth for _, truth in world["curves"][method]))


def _difference(values: dict[str, Any], method: str) -> str:
    found = mean_over_repetitions((values[method] - values["erm"]).tolist())
    if found["low"] is None:
        return f"{found['value']:+.2f}"
    return f"{found['value']:+.2f} [{found['low']:+.2f}, {found['high']:+.2f}]"
