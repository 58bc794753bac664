"""Which freedom that the stated facts leave comes nearest to the levels of the paper's baselines.

Worlds of the preset `authors`, with one thing otherwise in each. Pop, CF, MLP and GMF are judged by
the plain mean of Hit@10, after ten epochs of the batches that the world's own factors had. Beside
them stands a ranking by the true probability of a click: what learning clicks perfectly would give.

What is nearest is chosen by the largest gap of the four, on seeds from 100 up; then it is measured
on the seeds that are reported, beside the preset as it is.
"""

from __future__ import annotations

import time
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from counterplay.data.jobs import Job
from counterplay.learning.config import Training
from counterplay.learning.methods.erm import erm
from counterplay.metrics.scoring import ModelScores, TableScores
from counterplay.models.factorization import CF, GMF
from counterplay.models.registry import ModelSettings
from counterplay.seeding import Streams
from counterplay.simulation.authors import Authors
from reproduction.agreement import mean_over_repetitions
from reproduction.authors import PLAIN, estimates
from reproduction.datasets import whole
from reproduction.definitions import CODE_DIM
from reproduction.execution import results_of
from reproduction.paper import printings
from reproduction.trial_worlds import most_rated

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from counterplay.data.interactions import Interactions
    from counterplay.data.jobs import Result
    from counterplay.models.registry import ModelName
    from counterplay.simulation.factors import Numbers
    from reproduction.datasets import Place

SOURCES: tuple[str, ...] = ("ml-1m",)
CHOICE, REPORT = range(100, 102), range(5)
MODELS: tuple[ModelName, ...] = ("pop", "cf", "mlp", "gmf")
CLICKS, RATED = "clicks", "rated"  # rankings by P(click), and by how often MovieLens has an item
STATED = "as stated"
PAPER = {
    name: printings(("synthetic-baselines",), "ml-1m-authors", name, "hit")[0].value
    for name in MODELS
}
ABOUT = (
    "Made by `python -m reproduction levels`. Plain mean of Hit@10, as the authors' code computes "
    "it. *clicks* ranks by the true probability of a click: what a model that has learnt all there "
    "is to learn from clicks comes to. *rated* ranks by how many ratings MovieLens has of an item. "
    "Each row has one thing otherwise than the preset; where batches are smaller, so they are in "
    "training. In brackets the 95% interval over worlds.",
)
VARIANTS: dict[str, dict[str, Any]] = {
    STATED: {},
    "first power of exposure": {"power": 1.0},
    "ε 4 in both places": {"epsilon": 4.0},
    "no noise": {"noise_scale": 0.0},
    "five times the noise": {"noise_scale": 5.0},
    "vectors start at .01": {"scale": 0.01},
    "vectors start at .3": {"scale": 0.3},
    "vectors start at 1": {"scale": 1.0},
    "no biases": {"biases": False},
    "batches of 512": {"batch_size": 512},
    "batches of 512, first power": {"batch_size": 512, "power": 1.0},
    "the most rated 500 and 1,000": {"most_rated": True},
}


class Freer(Authors):
    """The preset, with what it does not leave open."""

    scale: float = 0.1  #: Standard deviation of the vectors before the first step.
    biases: bool = True  #: Whether factors have them.
    most_rated: bool = False  #: Whether the most rated users and items are kept, not the first.

    def _model(self, log: Interactions, generator: torch.Generator) -> CF | GMF:
        kind = CF if self.biases else GMF
        model = kind(log.n_users, log.n_items, dim=self.dim, generator=generator)
        for part in (model.user, model.item):
            part.own.data.mul_(self.scale / 0.1)  # where they are made
        return model


class LevelsJob(Job):
    """Measure the baselines in one world of a variant."""

    variant: str
    seed: int = Field(ge=0)

    @property
    def label(self) -> str:
        """Variant and seed."""
        return f"{self.variant}/levels/seed-{self.seed}"


def run(place: Place) -> dict[str, Any]:
    """Measure every variant, choose the nearest, and measure that one again."""
    jobs = [LevelsJob(variant=name, seed=seed) for name in VARIANTS for seed in CHOICE]
    found = summarised(jobs, results_of(jobs, place, measured))
    nearest = min(found, key=lambda name: found[name]["gap"])
    jobs = [LevelsJob(variant=name, seed=seed) for name in (STATED, nearest) for seed in REPORT]
    reported = summarised(jobs, results_of(jobs, place, measured))
    result = {"tried": found, "nearest": nearest, "reported": reported}
    return result | {"rows": rows(result), "pages": {"levels.md": page(result)}}


def measured(job: Job, place: Place) -> Result:
    """Return the plain mean of each ranking, in points."""
    assert isinstance(job, LevelsJob)
    started = time.perf_counter()
    settings = Freer(seed=job.seed, **VARIANTS[job.variant])
    log = whole("ml-1m", place)
    if settings.most_rated:
        users = np.argsort(-np.bincount(log.user), kind="stable")[: settings.n_users]
        log = most_rated(log.take(np.isin(log.user, users)), settings.n_items)
    stages = settings.stages(log)
    train, everyone = stages.split.train, np.arange(stages.world.n_users)
    rated = np.bincount(log.item, minlength=log.n_items)[: train.n_items]
    held = stages.held_out
    rankings: dict[str, Any] = {
        CLICKS: _table(held.relevance(everyone) * held.propensity(everyone)),
        RATED: _table(np.broadcast_to(rated, (len(everyone), len(rated)))),
    }
    for name in MODELS:
        model = ModelSettings(name=name, dim=CODE_DIM, use_features=False).build(
            train, Streams(job.seed).torch("candidate", name)
        )
        erm(model, train, Training.model_validate({
            "epochs": 1 if name == "pop" else settings.epochs, "batch_size": settings.batch_size,
            "rate": settings.rate, "optimizer": "lazy", "seed": job.seed,
        }))  # fmt: skip
        rankings[name] = ModelScores(model, train)
    seconds = round(time.perf_counter() - started, 2)
    return {"n": len(train), "seconds": seconds} | {
        name: 100 * estimates(each, stages.split.test, held, stages.judge)[PLAIN]["hit", 10].value
        for name, each in rankings.items()
    }


def _table(scores: Numbers) -> TableScores:
    users, items = np.indices(scores.shape).reshape(2, -1)
    return TableScores(users, items, scores.ravel(), scores.shape[1])


def summarised(jobs: Sequence[LevelsJob], results: Sequence[Result]) -> dict[str, Any]:
    """Return the means of each variant with intervals, and the largest gap to the paper."""
    found: dict[str, Any] = {}
    for variant in dict.fromkeys(job.variant for job in jobs):
        own = [each for job, each in zip(jobs, results, strict=True) if job.variant == variant]
        levels = {
            name: mean_over_repetitions([each[name] for each in own])
            for name in (*MODELS, CLICKS, RATED)
        }
        rest = [fmean(each[name] for name in MODELS[1:]) - each["pop"] for each in own]
        gap = max(abs(levels[name]["value"] - value) for name, value in PAPER.items())
        above = mean_over_repetitions(rest)
        worlds = [{name: each[name] for name in levels} for each in own]
        found[variant] = {
            "levels": levels, "above popularity": above, "gap": gap, "n": len(own), "worlds": worlds
        }  # fmt: skip
    return found


def rows(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Say how near the nearest comes."""
    return [
        {
            "what": f"levels of the paper's baselines, the authors' worlds, {name}",
            "ours": ", ".join(_level(name, each) for name, each in found["levels"].items()),
            "yardstick": ", ".join(f"{name} {value:.1f}" for name, value in PAPER.items()),
            "ratio": f"largest gap {found['gap']:.1f}",
            "goal": "none",
            "met": None,
        }
        for name, found in result["reported"].items()
    ]


def page(result: dict[str, Any]) -> str:
    """Return the page."""
    heads = (*MODELS, "their mean − pop", "largest gap", CLICKS, RATED)
    first = ["paper", *(f"{value:.1f}" for value in PAPER.values())]
    first.append(f"{fmean(PAPER[name] for name in MODELS[1:]) - PAPER['pop']:+.1f}")
    lines = ["# The levels of the paper's baselines", "", *ABOUT]
    for title, part in (("Tried", "tried"), ("Reported", "reported")):
        (n,) = {each["n"] for each in result[part].values()}
        lines += ["", f"## {title}: {n} worlds each", "", f"| | {' | '.join(heads)} |"]
        lines += [f"|---|{'---|' * len(heads)}", f"| {' | '.join(first)} | | | |"]
        for variant, each in result[part].items():
            cells = [_ends(each["levels"][name]) for name in MODELS]
            cells += [_ends(each["above popularity"], "+"), f"{each['gap']:.1f}"]
            cells += [_ends(each["levels"][name]) for name in (CLICKS, RATED)]
            lines.append(f"| {variant} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"Nearest of those tried: {result['nearest']}."]) + "\n"


def _level(name: str, found: dict[str, Any]) -> str:
    return f"{name} {_ends(found)}"


def _ends(found: dict[str, Any], sign: str = "") -> str:
    low, high = found["low"], found["high"]
    # Two worlds say nothing of a spread.
    ends = f" [{low:{sign}.1f}, {high:{sign}.1f}]" if found["n"] > 2 else ""
    return f"{found['value']:{sign}.1f}{ends}".replace("-", "−")
