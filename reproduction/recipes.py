"""What the recipes are worth: the truth of models trained in different ways on the same logs.

Besides the methods that there are, the stable recipe with the weights of a batch normalised
together, observed and sampled items alike, shows why they are not (decision 8).
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

import counterplay as cp
from counterplay.evaluation.stage import Evaluation
from counterplay.learning.config import Game
from counterplay.learning.methods import acl, ps
from counterplay.models.registry import ModelSettings
from counterplay.runs.candidates import staged
from counterplay.runs.defaults import training_for
from counterplay.simulation.values import demand, true_values
from counterplay.simulation.writing import split_by_rounds
from reproduction.agreement import mean_over_repetitions
from reproduction.datasets import whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from counterplay.learning.weighting import Groups
    from reproduction.datasets import Place

SOURCES: tuple[str, ...] = ("ml-100k",)
RATES = (1.0, 0.1, 0.5)
N_WORLDS = 5
TOGETHER = "normalised together"
METHODS: dict[str, dict[str, Any]] = {
    "pop": {"method": "erm", "candidate": ModelSettings(name="pop")},
    "erm": {"method": "erm"},
    "ps": {"method": "ps"},
    "acl": {"method": "acl"},
    "acl, paper": {"method": "acl", "recipe": "paper"},
    f"ps, {TOGETHER}": {"method": "ps"},
    f"acl, {TOGETHER}": {"method": "acl"},
}
WILFUL = {"n_users": 2000, "n_items": 500, "n_shown": 60, "sharpness": 3}


FAMILIES: dict[str, Callable[[int, Place], cp.simulation.World]] = {
    "synthetic, history": lambda seed, _: cp.simulation.Synthetic(seed=seed).world(),
    "synthetic, wilful history": lambda seed, _: cp.simulation.Synthetic.model_validate(
        WILFUL | {"seed": seed}
    ).world(),
    "synthetic, popularity": lambda seed, _: cp.simulation.Synthetic(
        exposure="popularity", seed=seed
    ).world(),
    "two-stage, MovieLens-100K": lambda seed, place: cp.simulation.TwoStage(seed=seed).world(
        whole("ml-100k", place)
    ),
}


@contextmanager
def normalised_together() -> Iterator[None]:
    """Let the stable recipe normalise the weights of a batch as one."""

    def together(_: str, n_places: int) -> Groups:
        return (n_places,)

    with (
        mock.patch.object(acl, "groups_of", together),
        mock.patch.object(ps, "groups_of", together),
    ):
        yield


def values_in(world: cp.simulation.World, folder: Path) -> dict[str, float]:
    """Return the true hit@10 of each method's model."""
    split = split_by_rounds(world.log(RATES), len(RATES))
    cp.data.save(split, folder / "log")
    found: dict[str, float] = {}
    total = None
    for name, settings in METHODS.items():
        options = {key: value for key, value in settings.items() if key != "recipe"}
        special = {"recipe": settings["recipe"]} if "recipe" in settings else {}
        config = cp.runs.RunConfig(
            **options, training=Game(**training_for(split.train, seed=0, **special))
        )
        run = folder / name.replace(", ", "-")
        if name.endswith(TOGETHER):
            with normalised_together():
                cp.train(folder / "log", run, config)
        else:
            cp.train(folder / "log", run, config)
        stage, (contestant,) = staged([run], None, Evaluation(), world=world)
        time = float(len(RATES) - 1)
        if total is None:
            total = demand(world, np.arange(world.n_users), stage.seen, time=time)
        values = true_values(world, contestant.scores, stage.seen, total=total, time=time)
        found[name] = values["hit", 10]
    return found


def run(place: Place) -> dict[str, Any]:
    """Train by every method in every world, and return what the models are truly worth."""
    found: dict[str, list[dict[str, float]]] = {}
    for family, made in FAMILIES.items():
        for seed in range(N_WORLDS):
            with tempfile.TemporaryDirectory() as folder:
                found.setdefault(family, []).append(values_in(made(seed, place), Path(folder)))
    summaries = {
        family: {
            name: {
                "value": mean_over_repetitions([each[name] for each in worlds]),
                "over erm": mean_over_repetitions([each[name] - each["erm"] for each in worlds]),
            }
            for name in METHODS
        }
        for family, worlds in found.items()
    }
    return {
        "n_worlds": N_WORLDS,
        "worlds": found,
        "summaries": summaries,
        "rows": [
            row(family, name, each)
            for family, methods in summaries.items()
            for name, each in methods.items()
            if name != "erm"
        ],
    }


def row(family: str, name: str, found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return a line of the summary, in percent."""
    value = 100 * found["value"]["value"]
    over, low, high = (100 * found["over erm"][end] for end in ("value", "low", "high"))
    return {
        "what": f"true Hit@10 (%), {family}: {name} against erm",
        "ours": f"{value:.2f}",
        "yardstick": f"{value - over:.2f}",
        "ratio": f"difference {over:+.2f} [{low:+.2f}, {high:+.2f}]",
        "goal": "",
        "met": None,
    }
