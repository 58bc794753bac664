"""Offline estimates of a candidate's error against ratings of items that chance chose (Coat).

Candidates learn from ratings of items that users chose. Their error is estimated from held-out
ratings of the same kind, and judged by the random ones:

    estimate = Σ v/q / Σ 1/q over held-out rows        truth = Σ c·v / Σ c over random rows

with v the squared or absolute error of a row. Random rows whose pair was learned or selected on
have c = 0, and rows of pairs that are held out stand for them, with c = chosen / held-out rows; all
others have c = 1. Without that the truth would be of pairs that nobody chose, which are not
uniform. Propensities are known up to a factor at best, so only the self-normalised form is on the
truth's scale.
"""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.data.splits import split_at_random
from counterplay.errors import DataError
from counterplay.evaluation.stage import Stage
from counterplay.metrics.estimation import estimates
from counterplay.metrics.intervals import effective_sample_size
from counterplay.seeding import Streams
from reproduction.agreement import estimator_scores, mean_over_repetitions
from reproduction.opponents import ALONE, SHARED, weights_by
from reproduction.rating_candidates import RatingComparison, errors_of, learned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.evaluation.propensities import Contestant
    from counterplay.evaluation.stage import Evaluation

    Progress = Callable[[str], None]

FITTED: tuple[str, ...] = ("propensity", ALONE, SHARED)


def judge_by_random_ratings(
    self_selected: Interactions,
    random: Interactions,
    config: RatingComparison | None = None,
    *,
    seed: int = 0,
    progress: Progress = lambda _: None,
) -> dict[str, Any]:
    """Learn, estimate and judge all candidates once; `summarise_ratings` takes several seeds.

    Every opponent is fitted for the estimate, those of candidates that were trained by the game
    too: so classes of opponents are compared on equal terms.

    Args:
        self_selected: Ratings of chosen items; if they hold propensities, the logged estimator is
            among the others.
        random: Ratings of items that were drawn uniformly, of the same users and items.
        config: How.
        seed: Of the split, the initial values and everything else that is random.
        progress: Told what is about to be done.
    """
    config = config or RatingComparison()
    if self_selected.rating is None or random.rating is None:
        raise DataError(
            "both logs must hold ratings; found one without a rating column; name the column"
        )
    for role in ("users", "items"):
        if not getattr(self_selected, role).ids.equals(getattr(random, role).ids):
            raise DataError(
                f"both logs must have the same {role}, in one order; found others; read them as "
                "one log, or with all ids"
            )
    streams = Streams(seed)
    split = split_at_random(self_selected, streams.numpy("split"), fractions=config.fractions)
    assert split.train.rating is not None
    mean = np.float32(split.train.rating.mean())
    # ℓ2 pulls predictions to 0: with centred ratings that is the mean. No error changes by it.
    split = replace(split, interactions=_centred(self_selected, mean))
    stage = Stage(split, config.evaluation.model_copy(update={"seed": seed}), explicit=True)
    judged = random.take(~np.isin(random.pair, stage.seen.pair))
    if not len(judged):
        raise DataError(
            "random ratings must have pairs that nobody learned from; found none; give others"
        )
    judged = _centred(judged, mean)
    counts = np.where(
        np.isin(judged.pair, split.test.pair), len(self_selected) / len(split.test), 1.0
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        candidates = list(learned(split, config, streams, progress))
        contestants = [contestant for contestant, _ in candidates]
        estimated = list(_estimated(stage, contestants, config, progress))
        described = [
            about | {"truth": _truth(contestant, judged, counts, config.evaluation, streams)}
            for contestant, about in candidates
        ]
    return {
        "seed": seed,
        "rows": {
            "train": len(split.train),
            "validation": len(split.validation),
            "held_out": len(split.test),
            "random": len(judged),
        },
        "candidates": described,
        "estimates": estimated,
        "warnings": dict(Counter(str(each.message) for each in caught)),
    }


def _estimated(
    stage: Stage,
    contestants: Sequence[Contestant],
    config: RatingComparison,
    progress: Progress,
) -> Iterator[dict[str, Any]]:
    """Yield the estimates of all candidates by all estimators."""
    plain: list[str] = ["standard", "popularity"]
    if stage.targets.propensity is not None:
        plain.append("logged")
    tasks: list[tuple[str, str, Stage]] = [(each, each, stage) for each in plain]
    for settings in config.opponents:
        update = {"opponent": settings}
        other = Stage(stage.split, stage.config.model_copy(update=update), explicit=True)
        label = f"{settings.kind}, floor {settings.game(stage.train, 0).link.floor:g}"
        tasks += [(f"{estimator} ({label})", estimator, other) for estimator in FITTED]
    for label, estimator, place in tasks:
        progress(f"seed {stage.streams.seed}: {label}")
        for contestant in contestants:
            weights = weights_by(place, estimator, contestant, contestants)
            for (metric, _), values in place.values(contestant).items():
                yield {
                    "estimator": label,
                    "candidate": contestant.name,
                    "metric": metric,
                    "value": float(weights @ values / weights.sum()),
                    "ess": effective_sample_size(weights),
                }


def _truth(
    contestant: Contestant,
    judged: Interactions,
    counts: NDArray[np.float64],
    config: Evaluation,
    streams: Streams,
) -> dict[str, dict[str, Any]]:
    """Return the errors on random ratings, with intervals over users."""
    found = estimates(
        {(name, 0): values for name, values in errors_of(contestant.scores, judged).items()},
        counts,
        judged.user,
        streams.numpy("truth"),
        estimator="random",
        protocol="ratings",
        level=config.level,
        n_resamples=config.n_resamples,
    )
    keys = ("value", "low", "high", "n")
    return {each.metric: {key: each.to_dict()[key] for key in keys} for each in found}


def summarise_ratings(results: Sequence[dict[str, Any]], *, level: float = 0.95) -> dict[str, Any]:
    """Return for each metric and estimator how near the truth it came, over seeds.

    Args:
        results: Of `judge_by_random_ratings`, one a seed, with the same candidates and estimators.
        level: Of the intervals, which are over seeds: they know splits and initial values, not
            that all seeds share one set of users and of random ratings.
    """
    if not results or len({each["seed"] for each in results}) < len(results):
        raise DataError("results must be of one seed each, at least one; found others; give those")
    names = [[one["name"] for one in each["candidates"]] for each in results]
    cells = [
        {(one["metric"], one["estimator"], one["candidate"]): one for one in each["estimates"]}
        for each in results
    ]
    if any(one != names[0] for one in names) or any(one.keys() != cells[0].keys() for one in cells):
        raise DataError(
            "all seeds must have the same candidates and estimators; found others; run them again "
            "with one configuration"
        )
    truth = {
        metric: np.array(
            [[one["truth"][metric]["value"] for one in each["candidates"]] for each in results]
        )
        for metric in results[0]["candidates"][0]["truth"]
    }
    scores = []
    for metric, label in dict.fromkeys(key[:2] for key in cells[0]):
        found = [[each[metric, label, name] for name in names[0]] for each in cells]
        estimated = np.array([[one["value"] for one in line] for line in found])
        scores.append(
            {"metric": metric, "estimator": label}
            | estimator_scores(estimated, truth[metric], level=level)
            | {"ess": float(np.mean([[one["ess"] for one in line] for line in found]))}
        )
    truths = [
        {"candidate": name, "metric": metric} | mean_over_repetitions(values[:, place], level)
        for place, name in enumerate(names[0])
        for metric, values in truth.items()
    ]
    return {"n_seeds": len(results), "level": level, "truth": truths, "estimators": scores}


def _centred(log: Interactions, mean: np.float32) -> Interactions:
    assert log.rating is not None
    return replace(log, rating=log.rating - mean)
