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
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from reproduction.grid import Result
    from reproduction.trials import TrialSettings

    Floats = NDArray[np.float64]

_EXACT = 1e-12
_RESAMPLES = 10_000
_FEW_WORLDS = 20  # fewer make no interval of a share
_HEAD = "| by | error | bias | order | regret | decided | wrong | ends hold |"


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


def line(name: str, found: list[dict[str, dict[str, float]]]) -> dict[str, Any]:
    """Return one assumption's scores over worlds, with paired intervals of its error."""
    mine = [each[name] for each in found]
    mean = {key: float(np.mean([each[key] for each in mine])) for key in mine[0]}
    pairs, decided, wrong = (
        np.array([each[key] for each in mine]) for key in ("pairs", "decided", "wrong")
    )
    low, high = _share_interval(wrong, decided)
    against = {
        f"{key}_against_{other}": mean_over_repetitions(
            [_of(each[name], key) - _of(each[other], key) for each in found]
        )
        for other in ("standard", "popularity")
        for key in ("error", "order", "regret", "decided")
    }
    return {
        "estimator": name,
        "error": mean["squared"] ** 0.5,
        "bias": mean["bias"],
        "order": mean["order"],
        "regret": mean["regret"],
        "decided": float(decided.sum() / pairs.sum()),
        "wrong": float(wrong.sum() / decided.sum()) if decided.any() else None,
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


def _share_interval(wrong: Floats, decided: Floats) -> tuple[float | None, float | None]:
    """Return a 95% interval of Σ wrong / Σ decided by a bootstrap over worlds; None without one."""
    if len(decided) < _FEW_WORLDS or not decided.any():
        return None, None
    drawn = np.random.default_rng(0).integers(len(decided), size=(_RESAMPLES, len(decided)))
    below = decided[drawn].sum(axis=1)
    shares = wrong[drawn].sum(axis=1)[below > 0] / below[below > 0]
    low, high = np.quantile(shares, (0.025, 0.975)).tolist()
    return low, high


def page(summary: dict[str, Any], chosen: TrialSettings, n_seeds: int) -> str:
    """Return the page of the trials."""
    lines = [
        "# Dials on trial",
        "",
        f"{summary['n_worlds']} worlds of about 1,200 users and 600 items: {n_seeds} seeds of "
        f"{len(summary['mechanisms'])} mechanisms of exposure. Candidates are trained on a world's "
        "log and judged on its last round; the truth is the value of each in the world "
        "(`docs/guide/worlds.md`), here Hit@10. Error is the root of the mean squared difference "
        "to it, in points; order is Spearman's correlation; regret the share of the best true "
        "value that is lost by choosing the best estimate. A pair is decided where the lower end "
        "of its difference (one-sided, 95%, over users) is above 0 everywhere in the box; wrong "
        "is the share of decided pairs whose true order is the other. `ends hold` is how often "
        "the lower and upper end of a value have the truth between them. The click model is "
        "fitted on validation rows.",
        "",
        f"Box: γ of {', '.join(f'{each:g}' for each in chosen.gammas)}, λ of "
        f"{', '.join(f'{each:g}' for each in chosen.lambdas)}; point {chosen.point}. `random rows` "
        "has its box and point from 1,000 random rows. The values of a box are the mean over it.",
        "",
        "## All worlds",
        "",
        *table(summary["overall"]),
        "",
        "## Rules that choose",
        "",
        "| rule | regret | against standard |",
        "|---|---|---|",
        *(_rule(name, each) for name, each in summary["rules"].items()),
    ]
    for name, each in summary["mechanisms"].items():
        gamma, lam = each["dials"]
        lines += ["", f"## {name}: true dials ({gamma:.2f}, {lam:.2f})", "", *table(each["lines"])]
    return "\n".join([*lines, "", "Made by `python -m reproduction trials`.", ""])


def table(
    found: list[dict[str, Any]], more: Mapping[str, Sequence[str]] | None = None
) -> list[str]:
    """Return a table, a line an assumption; `more` are further columns."""
    head = _HEAD + "".join(f" {name} |" for name in more or ())
    lines = [head, "|" + "---|" * (head.count("|") - 1)]
    for place, each in enumerate(found):
        wrong = "–" if each["wrong"] is None else f"{each['wrong']:.1%}"
        if each["wrong_low"] is not None:
            wrong += f" [{each['wrong_low']:.1%}, {each['wrong_high']:.1%}]"
        lines.append(
            f"| {each['estimator']} | {100 * each['error']:.2f} | {100 * each['bias']:+.2f} | "
            f"{each['order']:+.2f} | {each['regret']:.1%} | {each['decided']:.0%} | {wrong} | "
            f"{each['coverage']:.0%} |"
            + "".join(f" {column[place]} |" for column in (more or {}).values())
        )
    return lines


def _rule(name: str, found: dict[str, Any]) -> str:
    other = found["against_standard"]
    reach = "" if other["low"] is None else f" [{other['low']:+.1%}, {other['high']:+.1%}]"
    return f"| {name} | {found['value']:.1%} | {other['value']:+.1%}{reach} |"
