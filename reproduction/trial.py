"""Estimators on trial: candidates trained on a world's log, judged offline, deployed online.

What an estimator says of a candidate offline and what the online test says of it are the same
quantity, the value of its ranking (`counterplay.simulation.values`): so their difference is the
estimator's error.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

import counterplay as cp
from counterplay.data.directory import load_split, save
from counterplay.errors import DataError
from counterplay.evaluation.settings import OpponentSettings
from counterplay.evaluation.stage import Evaluation, Stage
from counterplay.learning.config import Game, LinkSettings
from counterplay.models.registry import ModelSettings
from counterplay.runs.candidates import staged
from counterplay.runs.config import RunConfig, ValidationSettings
from counterplay.runs.defaults import training_for
from counterplay.simulation.online import OnlineTest, online_test
from counterplay.simulation.values import demand, true_values
from counterplay.simulation.writing import split_by_rounds
from reproduction.agreement import estimator_scores
from reproduction.opponents import ALONE, SHARED, weights_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from counterplay.data.interactions import Interactions
    from counterplay.evaluation.propensities import Contestant
    from counterplay.simulation.world import World

Kind = Literal["item", "low-rank", "own"]
CandidateName = Literal["pop", "cf", "gmf", "gmf-8", "mlp", "ps", "acl", "acl-paper"]
_REAL = ("online", "truth")  # what estimates are compared with, and choices judged by
_SCORES = {
    "mse": "squared_error",
    "bias": "bias",
    "rank": "rank_correlation",
    "wins": "win_rate",
    "regret": "regret",
}


AS_TRAINED = "as trained"


class Trial(BaseModel):
    """What is put on trial, and how.

    Attributes:
        candidates: Which; see `CANDIDATES`.
        kinds: Classes of the exposure model for evaluation.
        floors: Smallest propensities.
        metrics: Whose value is estimated.
        k: Cutoffs.
        rates: Of the rounds: the last is the test, the one before validation.
        epochs: Of training, at most.
        patience: Of training.
        opponent: The exposure model's other options.
        online: The online test that each candidate is put to.
        seed: Of all streams but the world's.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    candidates: Annotated[tuple[CandidateName, ...], Field(min_length=1)] = get_args(CandidateName)
    kinds: tuple[Kind, ...] = ("item", "low-rank", "own")
    floors: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = (0.01, 0.1)
    metrics: tuple[Literal["hit", "ndcg"], ...] = ("hit", "ndcg")
    k: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)] = (5, 10)
    rates: Annotated[tuple[float, ...], Field(min_length=3)] = (1.0, 0.1, 0.5)
    epochs: int = 100
    patience: int = 15
    opponent: OpponentSettings = OpponentSettings(epochs=30)
    online: OnlineTest = OnlineTest()
    seed: Annotated[int, Field(ge=0)] = 0


CANDIDATES: dict[CandidateName, dict[str, Any]] = {
    "pop": {"method": "erm", "candidate": ModelSettings(name="pop")},
    "cf": {"method": "erm", "candidate": ModelSettings(name="cf")},
    "gmf": {"method": "erm"},
    "gmf-8": {"method": "erm", "candidate": ModelSettings(dim=8)},
    "mlp": {"method": "erm", "candidate": ModelSettings(name="mlp")},
    "ps": {"method": "ps", "exposure": ModelSettings(name="pop")},
    "acl": {"method": "acl"},
    "acl-paper": {"method": "acl", "training": {"recipe": "paper"}},
}


def run_trial(
    world: World,
    folder: Path,
    config: Trial | None = None,
    *,
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Put the estimators on trial in one world; `folder` keeps its log and runs, to go on from."""
    config = config or Trial()
    n_rounds = len(config.rates)
    split = split_by_rounds(world.log(config.rates, with_truth=True), n_rounds)
    data = folder / "log"
    if not data.exists():
        save(split, data)
    kept = load_split(data)
    same = kept.fingerprint == split.fingerprint
    if not same or kept.interactions.fingerprint != split.interactions.fingerprint:
        raise _stale(data)
    runs = []
    for name in config.candidates:
        progress(f"train {name}")
        runs.append(folder / name)
        wanted = _run_config(name, split.train, config)
        record = cp.train(data, runs[-1], wanted, resume=True)
        if record.to_dict()["configuration"] != wanted.model_dump(mode="json"):
            raise _stale(runs[-1])
    base = Evaluation(metrics=config.metrics, k=config.k, seed=config.seed)
    stage, contestants = staged(runs, data, base, world=world)
    progress("online")
    how = config.online.model_copy(update={"k": config.k, "time": float(n_rounds - 1)})
    total = demand(world, np.arange(world.n_users), stage.seen, time=how.time)
    truth, online = [], []
    for each in contestants:  # each is shown to everybody, in a world of its own
        found = online_test(world, {each.name: each.scores}, stage.seen, how, total=total)
        online.append(found.measures[each.name])
        options: dict[str, Any] = {
            "metrics": config.metrics,
            "k": config.k,
            "total": total,
            "time": how.time,
        }
        truth.append(true_values(world, each.scores, stage.seen, **options))
    keys = list(stage.values(contestants[0]))
    return {
        "world": world.name,
        "seed": world.seed,
        "configuration": config.model_dump(mode="json"),
        "rows": {"train": len(split.train), "test": len(split.test)},
        "candidates": [each.name for each in contestants],
        "truth": {_named(*key): [each[key] for each in truth] for key in truth[0]},
        "online": {_named(*key): [each[key].value for each in online] for key in keys},
        "offline": list(_offline(stage, contestants, config, progress)),
    }


def _stale(place: Path) -> DataError:
    return DataError(
        "a trial can only continue in its own folder; found the files of another world or "
        f"configuration in '{place}'; name another folder"
    )


def _run_config(name: CandidateName, train: Interactions, config: Trial) -> RunConfig:
    own = dict(CANDIDATES[name])
    special = own.pop("training", {})
    training = training_for(
        train, seed=config.seed, epochs=config.epochs, patience=config.patience, **special
    )
    judged = ValidationSettings(metric=config.metrics[0], k=config.k[0])
    return RunConfig(**own, training=Game(**training), validation=judged)


def _offline(
    stage: Stage, contestants: list[Contestant], config: Trial, progress: Callable[[str], None]
) -> Iterator[dict[str, Any]]:
    """Yield what each estimator says of each candidate."""
    plain: tuple[str, ...] = ("standard", "oracle")
    for estimator in plain:
        yield _said(estimator, "", 0.0, stage, stage, contestants)
    for floor in config.floors:
        variant = _variant(stage, config, "item", floor)
        yield _said("popularity", "", floor, stage, variant, contestants)
    fresh = [replace(each, exposure=None, link=None) for each in contestants]
    fitted: tuple[str, ...] = ("propensity", SHARED, ALONE)
    for kind in config.kinds:
        for floor in config.floors:
            variant = _variant(stage, config, kind, floor)
            for estimator in fitted:
                progress(f"{estimator}, {kind}, floor {floor:g}")
                yield _said(estimator, kind, floor, stage, variant, fresh)
    trained = [each for each in contestants if each.method == "acl"]
    if trained:
        yield _said(ALONE, AS_TRAINED, LinkSettings().floor, stage, stage, trained)


def _variant(stage: Stage, config: Trial, kind: Kind, floor: float) -> Stage:
    """Return the same stage with another exposure model."""
    opponent = config.opponent.model_copy(update={"kind": kind, "floor": floor})
    settings = stage.config.model_copy(update={"opponent": opponent, "floor": floor})
    return Stage(stage.split, settings, explicit=False, world=stage.world)


def _said(
    estimator: str,
    kind: str,
    floor: float,
    stage: Stage,
    variant: Stage,
    contestants: list[Contestant],
) -> dict[str, Any]:
    """Return the self-normalised estimates of all contestants by one estimator."""
    values: dict[str, list[float]] = {}
    shares = []
    for each in contestants:
        trained = kind == AS_TRAINED
        weights = weights_by(variant, estimator, each, contestants, as_trained=trained)
        shares.append(float(weights.sum() ** 2 / (weights @ weights) / len(weights)))
        for key, rows in stage.values(each).items():
            values.setdefault(_named(*key), []).append(float(rows @ weights / weights.sum()))
    return {
        "estimator": estimator,
        "kind": kind,
        "floor": floor,
        "candidates": [each.name for each in contestants],
        "values": values,
        "ess": shares,
    }


def _named(metric: str, k: int) -> str:
    return f"{metric}@{k}"


def summarised(trials: list[dict[str, Any]], *, level: float = 0.95) -> list[dict[str, Any]]:
    """Return, for each estimator and metric, how far it was off and whom it chose, over trials.

    `mse` and `bias` are those to the online result over candidates, `rank` is Spearman's
    correlation with it; `wins` tells whether the best offline is truly the best, `regret` what
    share of the best value is lost by choosing it. Each is a mean over the trials with its
    interval, as in `estimator_scores`; the last three only where there are three candidates.

    Args:
        trials: Of `run_trial`, with the same candidates.
        level: Of the intervals.
    """
    found: dict[tuple[str, str, float, str], list[list[list[float]]]] = {}
    for trial in trials:
        for said in trial["offline"]:
            places = [trial["candidates"].index(name) for name in said["candidates"]]
            for metric, values in said["values"].items():
                key = said["estimator"], said["kind"], said["floor"], metric
                real = ([trial[what][metric][each] for each in places] for what in _REAL)
                found.setdefault(key, []).append([values, *real])
    rows = []
    for (estimator, kind, floor, metric), lines in found.items():
        estimated, online, truth = np.array(lines).swapaxes(0, 1)  # [n_trials, n_candidates] each
        scores = estimator_scores(
            estimated, online, truth, smaller_is_better=False, regret_as_share=True, level=level
        )
        about = {"estimator": estimator, "kind": kind, "floor": floor, "metric": metric}
        names = list(_SCORES)[: 5 if estimated.shape[1] > 2 else 2]  # of two there is no order
        triples = {
            name: tuple(scores[_SCORES[name]][end] for end in ("value", "low", "high"))
            for name in names
        }
        rows.append(about | {"n": len(lines)} | triples)
    return rows
