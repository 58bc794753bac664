"""What one job does: train and evaluate, or put estimators on trial. Numbers stay, weights go."""

from __future__ import annotations

import shutil
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

import counterplay as cp
from counterplay.data.directory import load_split
from counterplay.data.jobs import Results, in_turn, run_jobs
from counterplay.errors import CounterplayError, CounterplayWarning
from counterplay.evaluation.old_system import old_system
from counterplay.evaluation.stage import Evaluation
from counterplay.models.registry import ModelSettings
from counterplay.runs.candidates import evaluate_run, staged
from counterplay.runs.training import versions
from counterplay.simulation.store import load_world
from counterplay.simulation.values import Relevance, demand, gains, true_values
from reproduction.authors import authors_metrics
from reproduction.datasets import RATES, is_authors, is_world
from reproduction.jobs import RandomisedJob, TrainJob, WorldJob
from reproduction.offline import judged, tried
from reproduction.online_games import GamesJob, played

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

    from counterplay.data.interactions import Interactions
    from counterplay.data.jobs import Job, Result
    from counterplay.metrics.choices import RowMetric
    from counterplay.models.scorer import Scorer
    from counterplay.runs.config import RunConfig
    from counterplay.simulation.world import World
    from reproduction.datasets import Place

VALIDATED = 150  # users of the authors' worlds that epochs and settings are chosen by
_METRICS: tuple[RowMetric, ...] = ("hit", "ndcg")
_K = (5, 10)
_LAST = float(len(RATES) - 1)  # the round whose clicks are the test
_KEPT = ("metric", "k", "estimator", "protocol", "value", "low", "high", "n", "ess")
_RECORDED = (
    *("configuration", "versions", "dataset", "parameters", "validation"),
    *("best_epoch", "stopped", "notes"),
)


class TruePropensities(ModelSettings):
    """The exposure of a world as the propensity model of PS: given, so there is nothing to learn.

    In the record of a run it stands as its name, pop, the model without parameters.
    """

    world: Any = Field(exclude=True)

    def build(self, log: Interactions, generator: torch.Generator | None) -> Scorer:  # noqa: ARG002
        """Return the world's exposure."""
        model = old_system(self.world).model
        assert model is not None
        return model


def execute(job: Job, place: Place) -> Result:
    """Run a job, and return its result as plain values."""
    started = time.process_time()  # the machine may have other work
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CounterplayWarning)  # results keep what matters of them
        if isinstance(job, TrainJob):
            result = _trained(job, place)
        elif isinstance(job, WorldJob):
            result = tried(job, place) | {"versions": versions()}
        elif isinstance(job, RandomisedJob):
            result = judged(job, place) | {"versions": versions()}
        elif isinstance(job, GamesJob):
            result = played(job) | {"versions": versions()}
        else:
            raise NotImplementedError(type(job).__name__)
    return result | {"seconds": round(time.process_time() - started, 2)}


def results_of(
    jobs: Sequence[Job], place: Place, work: Callable[[Job, Place], Result] | None = None
) -> list[Result]:
    """Run the jobs that are not done, one after the other, and return the results of all.

    `work` is what a job does where `execute` does not know it.
    """
    results = Results(place.out / "runs")

    def say(job: Job, result: Result) -> None:
        words = result.get("failed") or f"{result['seconds']:.0f} s"
        print(f"{job.label}: {words}", file=sys.stderr, flush=True)

    does = work or execute
    run_jobs(jobs, results, lambda job: does(job, place), in_turn, retry=True, finished=say)
    found = [results.of(job) for job in jobs]
    failed = [job.label for job, result in zip(jobs, found, strict=True) if result is None]
    if failed:
        raise CounterplayError(
            f"all jobs must be done for their summary; found failures of {', '.join(failed)}; "
            "see why above, and give the same command again"
        )
    return [result for result in found if result is not None]


def _trained(job: TrainJob, place: Place) -> Result:
    """Train, going on from a checkpoint where there is one, and evaluate."""
    run, data = place.out / "work" / job.key, place.log(job.data)
    try:
        record = cp.train(data, run, _config(job, place), resume=True).to_dict()
        metrics = _evaluated(job, place)
    except Exception:
        shutil.rmtree(run, ignore_errors=True)  # to begin anew; an interruption leaves it
        raise
    result = {name: record[name] for name in _RECORDED} | {
        "n_epochs": len(record["epochs"]),
        "best": record["epochs"][record["best_epoch"]],
        "metrics": metrics,
    }
    if job.history:
        result["epochs"] = record["epochs"]
    shutil.rmtree(run, ignore_errors=True)
    return result


def _config(job: TrainJob, place: Place) -> RunConfig:
    config = job.method.run_config(
        job.settings,
        load_split(place.log(job.data)).train,
        seed=job.seed,
        epochs=job.epochs,
        patience=job.patience,
    )
    if is_authors(job.data) and "code" not in dict(job.method.fixed):  # a third of the users tells
        fewer = config.validation.model_copy(update={"users": VALIDATED})
        config = config.model_copy(update={"validation": fewer})
    if job.method.exposure != "oracle":
        return config
    truth = TruePropensities(name="pop", world=load_world(place.world(job.data)))
    return config.model_copy(update={"exposure": truth})


def _evaluated(job: TrainJob, place: Place) -> list[dict[str, Any]]:
    """Return the estimates among sampled and among all unseen items, and in a world the truth."""
    run, data = place.out / "work" / job.key, place.log(job.data)
    if is_authors(job.data):
        return authors_metrics(run, job.data, place)
    world = place.world(job.data) if is_world(job.data) else None
    found = []
    for protocol in ("sampled", "full"):
        config = Evaluation(
            protocol=protocol,
            metrics=_METRICS,
            k=_K,
            estimators=("standard",) if world is None else ("standard", "oracle"),
        )
        result = evaluate_run(run, data, config, world=world)
        found += [{name: getattr(each, name) for name in _KEPT} for each in result.estimates]
    if world is not None:
        stage, (contestant,) = staged([run], data, Evaluation(), world=world)
        assert stage.world is not None
        of_what: dict[str, Any] = {"metrics": _METRICS, "k": _K, "time": _LAST}
        known = stage.world, stage.seen
        found += _exact("truth", true_values(known[0], contestant.scores, known[1], **of_what))
        if job.method.candidate == "pop":  # once a world: what all are to be held against
            best = true_values(known[0], Relevance(known[0], _LAST), known[1], **of_what)
            found += _exact("best", best) + _exact("random", values_at_random(*known, **of_what))
    return found


def _exact(name: str, values: dict[tuple[str, int], float]) -> list[dict[str, Any]]:
    """Return true values as estimates without doubt."""
    about = {"estimator": name, "protocol": "full", "low": None, "high": None, "ess": None}
    return [
        {"metric": metric, "k": k, **about, "value": value, "n": None}
        for (metric, k), value in values.items()
        if metric in _METRICS
    ]


def values_at_random(
    world: World,
    seen: Interactions,
    *,
    metrics: Sequence[str] = ("hit", "ndcg"),
    k: Sequence[int] = (10,),
    time: float = 0.0,
) -> dict[tuple[str, int], float]:
    """Return the expected true value of ranking the unseen items at random."""
    users = np.arange(world.n_users)
    wanted = demand(world, users, seen, time=time)
    n_seen = np.bincount(seen.distinct_pairs // world.n_items, minlength=world.n_users)
    unseen = world.n_items - n_seen
    a_place = wanted / np.maximum(unseen, 1)
    values = {}
    for metric in metrics:
        for cut in k:
            up_to = np.concatenate([[0.0], gains(metric, cut, cut).cumsum()])
            filled = up_to[np.minimum(unseen, cut)]  # short lists end early
            values[metric, cut] = float(a_place @ filled / wanted.sum())
    return values
