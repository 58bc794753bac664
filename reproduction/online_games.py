"""Table 3 as the paper tells it: eight games, features added one by one, over four online tests.

A world has the dials of real sets (`Synthetic`, presets mild, medium and strong). Every candidate
is trained by the game, the k-th with the first k features: noisy views of what pleases everybody in
an item, and of tastes of items and of users. An online test compares two candidates that follow
each other, on users of their own; each test has its days. Offline, every estimator says Hit@5 and
NDCG@5.

    error      mean over candidates of (offline − online)², online: clicks / demand
    to CTR     the same of offline / mean offline − ctr / mean ctr: a click-through rate is no
               Hit@5, and all that the two can be compared by is how candidates differ
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import polars as pl
from pydantic import Field

from counterplay.data.features import FeatureTable
from counterplay.data.jobs import Job
from counterplay.evaluation.evaluator import evaluated
from counterplay.evaluation.propensities import Contestant, own_propensities
from counterplay.evaluation.stage import Evaluation, Stage
from counterplay.learning.config import Game
from counterplay.learning.fitting import fit
from counterplay.learning.methods import method_of
from counterplay.metrics.estimation import weights_of
from counterplay.metrics.scoring import ModelScores
from counterplay.models.registry import ModelSettings
from counterplay.runs.config import RunConfig, ValidationSettings
from counterplay.runs.defaults import training_for
from counterplay.runs.validating import Judge
from counterplay.seeding import Streams
from counterplay.simulation.factors import Factors
from counterplay.simulation.online import OnlineTest, online_test
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.values import demand, true_values
from counterplay.simulation.writing import split_of
from reproduction.agreement import estimator_scores
from reproduction.claims import CLOSER, NEARER_THAN_OTHERS, judged
from reproduction.paper import ONLINE_ERRORS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from counterplay.data.jobs import Result, Results
    from counterplay.data.splits import Split
    from counterplay.simulation.world import World
    from reproduction.datasets import Place
    from reproduction.jobs import Plan

Preset = Literal["mild", "medium", "strong"]
PRESETS: tuple[Preset, ...] = ("mild", "medium", "strong")
N_CANDIDATES = 8
SIZE: dict[str, Any] = {"n_users": 600, "n_items": 300, "n_shown": 40.0, "mean_relevance": 0.3}
RATES = (1.0, 0.2, 0.5)
BLUR = 1.0  # standard deviation of a feature's noise, as a multiple of its own
METRICS: tuple[Literal["hit", "ndcg"], ...] = ("hit", "ndcg")
K = 5
CTR = "ctr@10"  # clicks a place of the lists of ten that an online test shows
OWN = "own opponent"  # the paper's robust estimate: G_β(g) as each game has left it
PAPERS = ("standard", "popularity", "propensity", OWN)  # the columns of the paper
OTHERS = ("opponent", "dials", "robust", "oracle")  # those of this library
_TIME = float(len(RATES) - 1)


class GamesJob(Job):
    """Eight games in one world, judged offline and in four online tests."""

    preset: Preset
    seed: Annotated[int, Field(ge=0)] = 0
    epochs: Annotated[int, Field(ge=1)] = 40
    patience: Annotated[int, Field(ge=1)] = 10

    @property
    def label(self) -> str:
        """World and seed."""
        return f"{self.preset}/games/seed-{self.seed}"


def with_features(split: Split, world: World, n: int, streams: Streams) -> Split:
    """Return the log with the first n features: of items quality and tastes, then of users."""
    taste = world.taste
    assert isinstance(taste, Factors)
    rng = streams.numpy("features")
    views = [("item", taste.item_bias), *(("item", each) for each in taste.item.T[:3])]
    views += [("user", each) for each in taste.user.T[:3]]
    tables: dict[str, dict[str, NDArray[np.float64]]] = {"item": {}, "user": {}}
    for place, (side, values) in enumerate(views[: N_CANDIDATES - 1]):
        blurred = values + BLUR * values.std() * rng.normal(size=len(values))
        if place < n:
            tables[side][f"feature {place + 1}"] = blurred
    made: dict[str, Any] = {
        f"{side}_features": FeatureTable(pl.DataFrame(columns)) if columns else None
        for side, columns in tables.items()
    }
    return replace(split, interactions=replace(split.interactions, **made))


def trained(split: Split, job: GamesJob, streams: Streams, name: str) -> Contestant:
    """Return a candidate that was trained by the game, with its opponent and their link."""
    train = split.train
    size = ModelSettings(dim=16)
    training = training_for(train, seed=job.seed, epochs=job.epochs, patience=job.patience)
    config = RunConfig(
        method="acl",
        candidate=size,
        exposure=size,
        training=Game(**training),
        validation=ValidationSettings(metric="hit", k=K),
    )
    players = config.players(train, streams)
    judge = Judge(split, train, config.validation, streams)
    found = fit(method_of("acl")(players, train, config.of_method()), validate=judge)
    scores = ModelScores(found.candidate, split.interactions.take(split.part < 2), train=train)
    return Contestant(
        name, scores, found.candidate, found.exposure, found.link, "acl", settings=size
    )


def played(job: GamesJob) -> Result:
    """Train the eight games, judge them offline, and put them to four online tests."""
    world = Synthetic(**SIZE, preset=job.preset, seed=job.seed).world()
    streams = Streams(job.seed)
    split = split_of(world, RATES)
    names = [f"{n} features" for n in range(N_CANDIDATES)]
    contestants = [
        trained(with_features(split, world, n, streams), job, streams, name)
        for n, name in enumerate(names)
    ]
    config = Evaluation(
        metrics=METRICS, k=(K,), estimators=("standard", "popularity", "propensity", *OTHERS),
        n_resamples=1000, seed=job.seed,
    )  # fmt: skip
    stage = Stage(split, config, explicit=False, world=world)
    said: dict[str, dict[str, list[float]]] = {}
    for each in evaluated(stage, contestants).estimates:
        said.setdefault(each.estimator, {}).setdefault(f"{each.metric}@{K}", []).append(each.value)
    own, shares = _own_opponents(stage, contestants)
    said[OWN] = own
    total = demand(world, np.arange(world.n_users), stage.seen, time=_TIME)
    truth = [
        true_values(world, each.scores, stage.seen, metrics=METRICS, k=(K,), time=_TIME,
                    total=total)
        for each in contestants
    ]  # fmt: skip
    return {
        "candidates": names,
        "offline": said,
        "ess": shares,
        "online": _online(world, stage, contestants, total),
        "truth": {f"{metric}@{K}": [each[metric, K] for each in truth] for metric in METRICS},
    }


def _own_opponents(
    stage: Stage, contestants: Sequence[Contestant]
) -> tuple[dict[str, list[float]], list[float]]:
    """Return the estimates by each game's own opponent, and the effective sample sizes."""
    found: dict[str, list[float]] = {}
    shares = []
    for each in contestants:
        q = own_propensities(each, stage.train, stage.seen, stage.targets)
        weights = weights_of(q, clip=stage.config.clip)
        shares.append(float(weights.sum() ** 2 / (weights @ weights) / len(weights)))
        for (metric, k), rows in stage.values(each).items():
            found.setdefault(f"{metric}@{k}", []).append(float(rows @ weights / weights.sum()))
    return found, shares


def _online(
    world: World, stage: Stage, contestants: Sequence[Contestant], total: NDArray[np.float64]
) -> dict[str, list[float]]:
    """Return what four tests of two arms counted of each candidate."""
    found: dict[str, list[float]] = {}
    for test in range(len(contestants) // 2):
        arms = contestants[2 * test : 2 * test + 2]
        how = OnlineTest(k=(K,), time=_TIME, seed=test)
        result = online_test(
            world, {each.name: each.scores for each in arms}, stage.seen, how, total=total
        )
        for each in arms:
            for (metric, k), measure in result.measures[each.name].items():
                found.setdefault(f"{metric}@{k}", []).append(measure.value)
    return found


def squared_errors(result: Result, metric: str, estimator: str, *, ctr: bool) -> float:
    """Return the mean squared error of an estimator in one world: in points², or relative to CTR.

    Example:
        >>> said = {"offline": {"standard": {"hit@5": [0.3, 0.5]}},
        ...         "online": {"hit@5": [0.2, 0.4], "ctr@10": [0.1, 0.1]}}
        >>> round(squared_errors(said, "hit@5", "standard", ctr=False), 6)
        100.0
        >>> round(squared_errors(said, "hit@5", "standard", ctr=True), 6)
        0.0625
    """
    offline = np.array(result["offline"][estimator][metric])
    if ctr:
        rates = np.array(result["online"][CTR])
        return float(np.mean((offline / offline.mean() - rates / rates.mean()) ** 2))
    return float(np.mean((100 * (offline - np.array(result["online"][metric]))) ** 2))


@dataclass(frozen=True, slots=True)
class GamesTable:
    """Table 3 with eight games."""

    name: str = "table3-games"
    title: str = "Table 3 with eight games over four online tests"

    def jobs(self, plan: Plan, results: Results) -> list[Job]:
        """Return all jobs; none waits for another."""
        del results
        return [
            GamesJob(preset=preset, seed=seed, epochs=plan.epochs, patience=plan.patience)
            for seed in range(plan.seeds)
            for preset in PRESETS
        ]

    def source(self, job: Job) -> str | None:
        """Return none: worlds are made of nothing."""
        del job
        return None

    def runs(self, plan: Plan, results: Results) -> list[dict[str, Any]]:
        """Return none: there is no run to show."""
        del plan, results
        return []

    def summary(self, plan: Plan, results: Results, place: Place) -> dict[str, Any]:
        """Return what each estimator was worth in the worlds of each preset."""
        del place
        found: list[dict[str, Any]] = []
        claims: list[dict[str, Any]] = []
        for preset in PRESETS:
            jobs = [job for job in self.jobs(plan, results) if _preset(job) == preset]
            done = [each for job in jobs if (each := results.of(job)) is not None]
            found.append(
                {
                    "preset": preset,
                    "n": len(done),
                    "n_wanted": len(jobs),
                    "ess": [float(np.mean(each["ess"])) for each in done],
                    "estimators": [
                        _summed(done, estimator) for estimator in (*PAPERS, *OTHERS)
                    ] if done else [],
                }
            )  # fmt: skip
            claims += [claim for metric in METRICS for claim in _claims(preset, done, metric)]
        took = [each["seconds"] for job in self.jobs(plan, results) if (each := results.of(job))]
        return {"games": found, "claims": claims, "seconds_a_world": float(np.mean(took or [0]))}


def _preset(job: Job) -> str:
    assert isinstance(job, GamesJob)
    return job.preset


def _summed(done: list[Result], estimator: str) -> dict[str, Any]:
    """Return errors, order and regret of an estimator over worlds."""
    row: dict[str, Any] = {"estimator": estimator}
    for metric in METRICS:
        key = f"{metric}@{K}"
        offline, online, truth = (
            np.array([of["offline"][estimator][key] for of in done]),
            np.array([of["online"][key] for of in done]),
            np.array([of["truth"][key] for of in done]),
        )
        scores = estimator_scores(
            100 * offline, 100 * online, 100 * truth, smaller_is_better=False, regret_as_share=True
        )
        row[key] = scores | {
            "ctr_error": float(
                np.mean([squared_errors(of, key, estimator, ctr=True) for of in done])
            )
        }
    return row


def _claims(preset: str, done: list[Result], metric: str) -> list[dict[str, Any]]:
    """Judge the games' own opponents against the paper's other columns."""
    key = f"{metric}@{K}"
    printed = ONLINE_ERRORS[key]
    claims = []
    for other in PAPERS[:-1]:
        gains = [
            squared_errors(each, key, other, ctr=False) - squared_errors(each, key, OWN, ctr=False)
            for each in done
        ]
        claims.append(
            judged(
                CLOSER if other == "standard" else NEARER_THAN_OTHERS,
                gains,
                dataset=preset,
                column="mean squared error in points²",
                metric=key,
                first=other,
                second=OWN,
                paper=round(printed[other].value - printed["robust"].value, 2),
            )
        )
    return claims
