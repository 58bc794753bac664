"""What learning adds, epoch by epoch: the validation value of a model beside its true value.

On the two-stage worlds that table 1 learns from. Validation is that of the
tables, Hit@10 among 100 sampled items, standard; the truth is the share of all clicks under full
exposure that the top 10 catch. Besides the methods of the tables there is weighting by the true
propensities of clicks alone, with a floor, which no log could tell.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

import counterplay as cp
from counterplay.data.directory import load_split
from counterplay.evaluation.old_system import old_system
from counterplay.learning.config import Game, LinkSettings, Training, Weighted
from counterplay.learning.methods.acl import acl
from counterplay.learning.methods.erm import erm
from counterplay.learning.methods.ps import ps
from counterplay.metrics.measures import ranking_metrics
from counterplay.metrics.ranks import ranks_of_first, sampled_candidates
from counterplay.metrics.scoring import ModelScores
from counterplay.models.given import GivenExposure
from counterplay.models.registry import build
from counterplay.runs.defaults import training_for
from counterplay.simulation.store import load_world
from counterplay.simulation.values import Relevance, demand, true_values
from reproduction.datasets import RATES, Place, make, world_of
from reproduction.execution import values_at_random

if TYPE_CHECKING:
    from collections.abc import Sequence

    from counterplay.models.scorer import Scorer

WORLDS = {"goodbooks": 3, "ml-1m": 1}
SOURCES: tuple[str, ...] = tuple(WORLDS)
EPOCHS = 21
FLOOR = 0.1
LAST = float(len(RATES) - 1)
Propensity = Callable[[Any, Any], Any]  # of users [B] and items [B, 1]
Curve = list[tuple[float, ...]]  # validation and truth after each epoch, in points


def run(place: Place) -> dict[str, Any]:
    """Follow every method in every world, and return the curves."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        place = Place(place.data, Path(folder))
        for source, n in WORLDS.items():
            for seed in range(n):
                make(world_of(source, seed), place)
                found.append(
                    {"source": source, "seed": seed, **curves(place, source, seed, METHODS)}
                )
    shown = [row for each in found for row in rows(each)]
    return {"epochs": EPOCHS, "worlds": found, "rows": shown}


def curves(place: Place, source: str, seed: int, methods: Sequence[str]) -> dict[str, Any]:
    """Return the curves of methods in one world, and what they are to be held against."""
    name = world_of(source, seed)
    world, split = load_world(place.prepared(name)), load_split(place.log(name))
    log = replace(split.train, user_features=None, item_features=None)
    wanted = demand(world, np.arange(world.n_users), log, time=LAST)
    items = sampled_candidates(log, split.validation, 100, cp.Streams(0).numpy("validation"))

    def truth(scores: Any) -> float:
        return 100 * true_values(world, scores, log, total=wanted, time=LAST)["hit", 10]

    def judged(model: Scorer) -> tuple[float, float]:
        scores = ModelScores(model, log)
        ranks = ranks_of_first(scores.of(split.validation.user, items))
        hits = ranking_metrics(ranks, np.arange(len(ranks)), names=("hit",), k=(10,))["hit", 10]
        return 100 * float(hits.mean()), truth(scores)

    return {
        "random": 100 * values_at_random(world, log, time=LAST)["hit", 10],
        "popularity": truth(ModelScores(build("pop", log), log)),
        "best common list": truth(Common(world)),
        "best": truth(Relevance(world, LAST)),
        "curves": {method: curve(method, world, log, judged) for method in methods},
    }


def curve(
    method: str,
    world: cp.simulation.World,
    log: cp.Interactions,
    judged: Callable[[Scorer], tuple[float, float]],
) -> Curve:
    """Train with the library's defaults, and judge the model after every epoch."""
    model, opponent = (
        build("gmf", log, generator=cp.Streams(0).torch(name)) for name in ("candidate", "exposure")
    )
    options = training_for(log, seed=0, epochs=EPOCHS)
    found: Curve = []

    def look(_: object) -> None:
        with torch.no_grad():
            found.append(tuple(round(each, 4) for each in judged(model)))

    seen: dict[str, Any] = {"callbacks": [look]}
    kind, *special = method.split(", ")
    if kind == "erm":
        erm(model, log, Training(**options), **seen)
    elif kind == "acl":
        how = {"recipe": special[0], "link": {"learn": "β fixed" not in special}}
        acl(model, opponent, log, Game.model_validate(options | how), **seen)
    elif kind == "ps":
        given = old_system(world).model
        assert given is not None
        ps(model, given, log, Weighted(**options), **seen)
    else:
        known = KNOWN[method]
        given = GivenExposure(
            log.n_users, log.n_items, known.of_pairs(world, log), observed_only=known.on_clicks
        )
        link = LinkSettings(learn=known.learn, with_outcome=known.learn, floor=FLOOR)
        ps(model, given, log, Weighted(**options, link=link), **seen)
    return found


class Known(NamedTuple):
    """Propensities that are known, and how they are used.

    Attributes:
        made: From a world and its log.
        on_clicks: Whether clicks alone are weighted by them, or sampled items too.
        learn: Whether they go through a link whose β is learnt, or are taken as they are.
    """

    made: Callable[[cp.simulation.World, cp.Interactions], Propensity]
    on_clicks: bool = True
    learn: bool = False

    def of_pairs(
        self, world: cp.simulation.World, log: cp.Interactions
    ) -> Callable[[Tensor, Tensor], Tensor]:
        """Return what takes users and items and tells their propensities."""
        known = self.made(world, log)

        def propensity(users: Tensor, items: Tensor) -> Tensor:
            found: Tensor = torch.from_numpy(known(users.numpy(), items.numpy())).float()
            return found.clamp(1e-6, 1 - 1e-6)

        return propensity


def true_exposure(world: cp.simulation.World, log: cp.Interactions) -> Propensity:
    """Return the exposure that made the log."""
    del log
    return world.propensity


def mean_exposure(world: cp.simulation.World, log: cp.Interactions) -> Propensity:
    """Return the exposure of an item, the mean over users."""
    parts = np.array_split(np.arange(world.n_users), 1 + world.n_users // 256)
    items = np.arange(log.n_items)
    mean = sum(
        world.propensity(part, np.tile(items, (len(part), 1))).sum(0) for part in parts
    ) / np.array(world.n_users)
    return lambda _, items: mean[items]


def popularity(world: cp.simulation.World, log: cp.Interactions) -> Propensity:
    """Return the root of an item's popularity, 1 for the most popular."""
    del world
    clicks = np.bincount(log.item, minlength=log.n_items)
    return lambda _, items: np.sqrt(clicks[items] / clicks.max())


TRUE = f"true propensities on clicks, floor {FLOOR:g}"
TRUE_ON_ALL = f"true propensities on clicks and sampled items, floor {FLOOR:g}"
TRUE_WITH_BETA = f"true propensities on clicks, β learnt, floor {FLOOR:g}"
MEAN = f"an item's mean propensity on clicks, floor {FLOOR:g}"
POPULARITY = f"root of popularity on clicks, floor {FLOOR:g}"
KNOWN = {
    TRUE: Known(true_exposure),
    TRUE_ON_ALL: Known(true_exposure, on_clicks=False),
    TRUE_WITH_BETA: Known(true_exposure, learn=True),
    MEAN: Known(mean_exposure),
    POPULARITY: Known(popularity),
}
METHODS = ("erm", "acl, stable", "acl, paper", TRUE)


class Common:
    """Ranks for everybody by the mean relevance of an item: the best that is not personal."""

    def __init__(self, world: cp.simulation.World) -> None:
        parts = np.array_split(np.arange(world.n_users), 1 + world.n_users // 256)
        self._mean = sum(world.relevance(part, time=LAST).sum(0) for part in parts)

    def of(self, users: Any, items: Any) -> Any:
        """Return the mean relevance of `items` `[B, K]`."""
        return np.take_along_axis(self.of_all(users), items, axis=1)

    def of_all(self, users: Any) -> Any:
        """Return the mean relevance of all items, `[B, n_items]`."""
        return np.tile(self._mean, (len(users), 1))


def rows(world: dict[str, Any]) -> list[dict[str, Any]]:
    """Say what validation keeps and what it is worth, beside the epoch that was truly best."""
    held = ", ".join(
        f"{name} {world[name]:.3f}" for name in ("random", "popularity", "best common list", "best")
    )
    found = []
    for method, points in world["curves"].items():
        kept = max(range(len(points)), key=lambda place: points[place][0])
        peak = max(range(len(points)), key=lambda place: points[place][1])
        found.append(
            {
                "what": f"{world['source']} world {world['seed']}, {method}: true Hit@10 of the "
                "epoch that validation keeps",
                "ours": f"{points[kept][1]:.3f} (epoch {kept}, validation {points[kept][0]:.1f})",
                "yardstick": f"{points[peak][1]:.3f} at its truest (epoch {peak}, validation "
                f"{points[peak][0]:.1f}); {held}",
                "ratio": f"{points[kept][1] / points[peak][1]:.2f}",
                "goal": "none",
                "met": None,
            }
        )
    return found
