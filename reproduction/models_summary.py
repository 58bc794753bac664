"""What models reach on each log, with intervals over users, and what they differ by."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.metrics.comparison import comparisons
from counterplay.metrics.estimation import estimates
from counterplay.metrics.measures import ranking_metrics
from counterplay.metrics.ranks import Ranks
from counterplay.seeding import Streams
from reproduction.models_fit import LOGS, K

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from counterplay.data.jobs import Result
    from reproduction.models_fit import ModelFit, Settings

LEVEL, N_RESAMPLES = 0.95, 4000
PROTOCOLS, METRICS = ("full", "sampled"), ("hit", "ndcg")
Values = dict[tuple[str, str], "NDArray[np.float64]"]  # by protocol and metric, a value a user
Fits = dict[int, "Result"]  # by seed


def values_of(fits: Fits) -> Values:
    """Return each user's value by protocol and metric, the mean over seeds, in per cent."""
    found: Values = {}
    for protocol in PROTOCOLS:
        by_seed = []
        for each in fits.values():
            ranks = Ranks(*(np.array(each[protocol][name]) for name in ("above", "tied")))
            by_seed.append(ranking_metrics(ranks, np.arange(len(ranks)), names=METRICS, k=[K]))
        for metric in METRICS:
            found[protocol, metric] = 100 * np.mean([each[metric, K] for each in by_seed], axis=0)
    return found


def summarised(
    jobs: Sequence[ModelFit],
    results: Sequence[Result],
    chosen: Mapping[str, Mapping[str, Settings | None]],
) -> list[dict[str, Any]]:
    """Return a record of each log: all lines with defaults and tuned, and paired differences."""
    found = []
    for data, lines in chosen.items():
        fits: dict[str, dict[str, Fits]] = {}
        for job, result in zip(jobs, results, strict=True):
            if job.data == data:
                column = "tuned" if job.settings else "defaults"
                fits.setdefault(job.line, {}).setdefault(column, {})[job.seed] = result
        for line, own in fits.items():
            if lines[line] is not None:
                own.setdefault("tuned", own["defaults"])  # nothing to choose, or the defaults are
        found.append({"data": data, "title": LOGS[data].title, **_of_log(fits, lines)})
    return found


def column_of(own: Mapping[str, Any]) -> str:
    """Return the column that a line is compared by: tuned, where it was."""
    return "tuned" if "tuned" in own else "defaults"


def _of_log(
    fits: Mapping[str, Mapping[str, Fits]], chosen: Mapping[str, Settings | None]
) -> dict[str, Any]:
    values = {
        line: {column: values_of(each) for column, each in own.items()}
        for line, own in fits.items()
    }
    column = {line: column_of(own) for line, own in fits.items()}
    validation = {
        line: float(np.mean([each["validation"] for each in own[column[line]].values()]))
        for line, own in fits.items()
    }
    best = max(validation, key=lambda line: validation[line])  # by no test row
    final = {line: own[column[line]]["full", "ndcg"] for line, own in values.items()}
    n, rng = len(final[best]), Streams(0).numpy("models", "comparisons")
    users, even = np.arange(n), np.ones(n)
    behind = comparisons(
        final, even, users, rng, reference=best, n_resamples=N_RESAMPLES, level=LEVEL
    )
    differing = [line for line, own in fits.items() if own[column[line]] is not own["defaults"]]
    level = 1 - (1 - LEVEL) / max(len(differing), 1)
    gains = {
        line: _gain(values[line]["tuned"], values[line]["defaults"], level) for line in differing
    }
    return {
        "n": n,
        "best": best,
        "lines": {
            line: {
                "chosen": chosen[line],
                **{column: _cells(own[column], values[line][column]) for column in own},
            }
            for line, own in fits.items()
        },
        "behind": {line: _plain(each) for line, _, each in behind},
        "gain": gains,
        "reversed": reversed_pairs(values),
    }


def _gain(one: Values, other: Values, level: float) -> dict[str, float]:
    """Return what one fit has over another in full-ranking NDCG, user by user."""
    both = {"one": one["full", "ndcg"], "other": other["full", "ndcg"]}
    n, rng = len(both["one"]), Streams(0).numpy("models", "gains")
    (found,) = comparisons(
        both, np.ones(n), np.arange(n), rng, reference="other", n_resamples=N_RESAMPLES, level=level
    )
    return _plain(found[2])


def compared(one: Result, other: Result, *, n_comparisons: int) -> dict[str, Any]:
    """Return what two fits reach, and their difference at a level for all such comparisons."""
    fits = [values_of({0: each}) for each in (one, other)]
    level = 1 - (1 - LEVEL) / n_comparisons
    return {
        "gain": _gain(fits[0], fits[1], level),
        "hit": [float(each["full", "hit"].mean()) for each in fits],
        "ndcg": [float(each["full", "ndcg"].mean()) for each in fits],
        "seconds": [one["seconds"], other["seconds"]],
    }


def reversed_pairs(values: Mapping[str, Mapping[str, Values]]) -> list[tuple[str, str]]:
    """Return the pairs of lines that the two protocols put in a different order, by NDCG."""
    means = {
        line: [float(own[column_of(own)][protocol, "ndcg"].mean()) for protocol in PROTOCOLS]
        for line, own in values.items()
    }
    return [
        (one, other)
        for one, other in combinations(means, 2)
        if (means[one][0] - means[other][0]) * (means[one][1] - means[other][1]) < 0
    ]


def _cells(fits: Fits, values: Values) -> dict[str, Any]:
    """Return what a line reaches: each mean with an interval over users, and the seeds' spread."""
    cells: dict[str, Any] = {}
    for protocol in PROTOCOLS:
        of_protocol = {(metric, K): values[protocol, metric] for metric in METRICS}
        n = len(values[protocol, METRICS[0]])
        rng = Streams(0).numpy("models", "intervals")
        for each in estimates(
            of_protocol,
            np.ones(n),
            np.arange(n),
            rng,
            estimator="standard",
            protocol=protocol,
            level=LEVEL,
        ):
            cells[f"{protocol} {each.metric}"] = {
                "value": each.value,
                "low": each.low,
                "high": each.high,
            }
    by_seed = [values_of({seed: each})["full", "ndcg"].mean() for seed, each in fits.items()]
    return {
        **cells,
        "seeds": sorted(fits),
        "ndcg by seed": [round(float(each), 4) for each in by_seed],
        "best_epochs": [each["best_epoch"] for each in fits.values()],
        "seconds": float(np.mean([each["seconds"] for each in fits.values()])),
    }


def _plain(found: Any) -> dict[str, float]:
    return {name: getattr(found, name) for name in ("value", "low", "high", "p_value", "level")}
