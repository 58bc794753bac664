"""What assumptions on exposure were worth over worlds: error, order, regret, right when decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from counterplay.metrics.dials import Box, Surface
from reproduction.agreement import mean_over_repetitions
from reproduction.trial_judgements import GRID, Judged
from reproduction.trial_worlds import MECHANISMS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counterplay.data.jobs import Result
    from reproduction.trials import TrialSettings

    Floats = NDArray[np.float64]

_EXACT = 1e-12
YARDSTICKS = ("standard", "popularity")
_HOPELESS = "two-stage"  # all that is personal in its clicks is exposure
_RESAMPLES = 10_000
_FEW_WORLDS = 20  # fewer make no interval of a share


def recorded_surface(world: Result, metric: str, box: Box) -> Surface:
    """Return the surface over a box within the recorded grid of dials."""
    found = world["metrics"][metric]
    places = [GRID.index(each) for each in (*box.dials, box.point)]
    return Surface(
        tuple(world["candidates"]),
        box,
        np.array(found["values"])[places],
        np.array(found["covariances"])[places],
        np.array(found["ess"])[places],
        world["rows"]["test"],
        world["n_users"],
        np.array(found["differing"]),
    )


def judgements(world: Result, metric: str, chosen: TrialSettings) -> dict[str, Judged]:
    """Return what every assumption says of the candidates of a world."""

    def at(*dials: tuple[float, float]) -> Judged:
        return Judged.by(recorded_surface(world, metric, Box(dials, dials[0])))

    def over(lambdas: tuple[float, ...]) -> Judged:
        box = Box.grid(chosen.gammas, lambdas, chosen.point)
        return Judged.by(recorded_surface(world, metric, box))

    kept = {name: Judged.of(each) for name, each in world["metrics"][metric]["judged"].items()}
    return {
        "standard": at((0.0, 0.0)),
        "popularity": kept["popularity"],
        "corner (1, 0)": at((1.0, 0.0)),
        "point": at(chosen.point),
        "box, λ = 0": over((0.0,)),
        "box": over(chosen.lambdas),
        "random rows": kept["random rows"],
        "oracle": kept["oracle"],
    }


def chosen_by(world: Result, metric: str, chosen: TrialSettings) -> dict[str, int]:
    """Return the candidate that each rule chooses from clicks alone."""
    box = Box.grid(chosen.gammas, chosen.lambdas, chosen.point)
    values = recorded_surface(world, metric, box).values[:-1]
    judged = judgements(world, metric, chosen)
    regrets = 1 - values / values.max(axis=1, keepdims=True)
    found = {
        name: int(judged[name].values.argmax()) for name in ("standard", "popularity", "point")
    }
    return found | {
        "mean over the box": int(values.mean(axis=0).argmax()),
        "minimax regret": int(regrets.max(axis=0).argmin()),
        "max-min value": int(values.min(axis=0).argmax()),
    }


def scores(judged: Judged, truth: Floats) -> dict[str, float]:
    """Return how one assumption fared in one world; pairs are counted, not divided."""
    error = judged.values - truth
    decided = judged.leads > _EXACT
    order = stats.spearmanr(judged.values, truth).statistic if np.ptp(judged.values) else 0.0
    return {
        "squared": float((error**2).mean()),
        "bias": float(error.mean()),
        "order": float(order),
        "regret": float(1 - truth[judged.values.argmax()] / truth.max()),
        "pairs": float(len(truth) * (len(truth) - 1) / 2),
        "decided": float(decided.sum()),
        "wrong": float((decided & (truth[:, None] < truth[None, :])).sum()),
        "held": float(((judged.low <= truth) & (truth <= judged.high)).mean()),
    }


def summarised(worlds: list[Result], chosen: TrialSettings, metric: str) -> dict[str, Any]:
    """Return a line an assumption, over all worlds and by mechanism, and a line a rule."""
    truths = [np.array(world["metrics"][metric]["truth"]) for world in worlds]
    found = [
        {name: scores(each, truth) for name, each in judgements(world, metric, chosen).items()}
        for world, truth in zip(worlds, truths, strict=True)
    ]
    rules = [
        {name: float(1 - truth[place] / truth.max()) for name, place in by_rule.items()}
        for truth, by_rule in zip(
            truths, (chosen_by(world, metric, chosen) for world in worlds), strict=True
        )
    ]
    places = {
        name: [place for place, world in enumerate(worlds) if world["mechanism"] == name]
        for name in MECHANISMS
    }
    return {
        "metric": metric,
        "n_worlds": len(worlds),
        "overall": [line(name, found) for name in found[0]],
        "but_two_stage": [
            line(
                name,
                [each for each, world in zip(found, worlds, strict=True) if _is_hopeful(world)],
            )
            for name in found[0]
            if any(_is_hopeful(world) for world in worlds)
        ],
        "mechanisms": {
            name: {
                "n_worlds": len(mine),
                "dials": np.median([worlds[each]["true_dials"] for each in mine], axis=0).tolist(),
                "lines": [line(each, [found[place] for place in mine]) for each in found[0]],
            }
            for name, mine in places.items()
            if mine
        },
        "rules": {
            name: mean_over_repetitions([each[name] for each in rules])
            | {
                "against_standard": mean_over_repetitions(
                    [each[name] - each["standard"] for each in rules]
                )
            }
            for name in rules[0]
        },
        "seconds": float(np.mean([world["seconds"] for world in worlds])),
    }


def _is_hopeful(world: Result) -> bool:
    return bool(world["mechanism"] != _HOPELESS)


def line(name: str, found: list[dict[str, dict[str, float]]]) -> dict[str, Any]:
    """Return one assumption's scores over worlds, with paired intervals of its error."""
    mine = [each[name] for each in found]
    mean = {key: float(np.mean([each[key] for each in mine])) for key in mine[0]}
    pairs, decided, wrong = (
        np.array([each[key] for each in mine]) for key in ("pairs", "decided", "wrong")
    )
    low, high = _interval(_shares(wrong, decided))
    against = {
        f"{key}_against_{other}": mean_over_repetitions(
            [_of(each[name], key) - _of(each[other], key) for each in found]
        )
        for other in YARDSTICKS
        for key in ("error", "order", "regret", "decided")
    }
    for other in YARDSTICKS:
        theirs = [np.array([each[other][key] for each in found]) for key in ("wrong", "decided")]
        least, most = _interval(_shares(wrong, decided) - _shares(*theirs))
        mine_share, their_share = _share(wrong, decided), _share(*theirs)
        against[f"wrong_against_{other}"] = {
            "value": None
            if mine_share is None or their_share is None
            else mine_share - their_share,
            "low": least,
            "high": most,
            "n": len(found),
        }
    return {
        "estimator": name,
        "error": mean["squared"] ** 0.5,
        "bias": mean["bias"],
        "order": mean["order"],
        "regret": mean["regret"],
        "decided": float(decided.sum() / pairs.sum()),
        "wrong": _share(wrong, decided),
        "wrong_low": low,
        "wrong_high": high,
        "n_decided": int(decided.sum()),
        "coverage": mean["held"],
        **against,
    }


def _of(each: dict[str, float], key: str) -> float:
    """Return one score of a world: its error as a root, decided pairs as a share."""
    if key == "error":
        return float(each["squared"] ** 0.5)
    return each["decided"] / each["pairs"] if key == "decided" else each[key]


def _share(wrong: Floats, decided: Floats) -> float | None:
    return float(wrong.sum() / decided.sum()) if decided.any() else None


def _shares(wrong: Floats, decided: Floats) -> Floats:
    """Return Σ wrong / Σ decided of resampled worlds: always the same ones, so that they pair."""
    if len(decided) < _FEW_WORLDS:
        return np.full(_RESAMPLES, np.nan)
    drawn = np.random.default_rng(0).integers(len(decided), size=(_RESAMPLES, len(decided)))
    below = decided[drawn].sum(axis=1)
    return np.where(below > 0, wrong[drawn].sum(axis=1) / np.maximum(below, 1), np.nan)


def _interval(resampled: Floats) -> tuple[float | None, float | None]:
    """Return the middle 95%; None where there are too few worlds or decisions."""
    known = resampled[np.isfinite(resampled)]
    if not len(known):
        return None, None
    low, high = np.quantile(known, (0.025, 0.975)).tolist()
    return low, high
