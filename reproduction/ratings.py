"""What every method that predicts ratings is worth on Coat, by ratings of random items.

Settings are chosen by `ratings-settings`, and frozen in `reproduction/ratings_settings.json`. What
is done is not run again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from counterplay.data.jobs import Job
from counterplay.errors import ConfigError
from reproduction.execution import results_of
from reproduction.exposure_summary import LEVEL, interval, told
from reproduction.ratings_fit import BATCH, COAT, FRACTIONS, LEARNERS, MODEL, PATIENCE, learnt
from reproduction.ratings_settings import N_TRIALS, SEEDS, SETTINGS, settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from counterplay.data.jobs import Result
    from reproduction.datasets import Place

SOURCES: tuple[str, ...] = (COAT,)


class RatingsJob(Job):
    """Learn by one learner from one split, with the settings that were chosen for it."""

    learner: str
    seed: Annotated[int, Field(ge=0)]
    chosen: dict[str, Any]

    @property
    def label(self) -> str:
        """Log, learner and seed."""
        return f"{COAT}/ratings/{self.learner.replace(', ', '-')}/seed-{self.seed}"


def jobs() -> list[RatingsJob]:
    """Return all that is reported."""
    asked = settings()
    if not asked.frozen:
        raise ConfigError(
            'settings must be frozen before the reported seeds are run; found "frozen": false in '
            f"'{SETTINGS.name}'; choose them with ratings-settings, and set it to true"
        )
    return [
        RatingsJob(learner=name, seed=seed, chosen=chosen)
        for seed in range(asked.n_seeds[COAT])
        for name, chosen in asked.chosen[COAT].items()
    ]


def run(place: Place) -> dict[str, Any]:
    """Learn from every split of the reported seeds, and return what each learner was worth."""
    asked = jobs()
    found = results_of(asked, place, learnt_once)
    lines = summarised(found)
    return {
        "settings": settings().model_dump(mode="json"),
        "learners": lines,
        "rows": rows(lines),
        "pages": {"ratings.md": page(lines)},
    }


def learnt_once(job: Job, place: Place) -> Result:
    """Do what a job says."""
    assert isinstance(job, RatingsJob)
    return {"learner": job.learner, **learnt(job.learner, job.chosen, job.seed, place)}


def summarised(results: Sequence[Result]) -> dict[str, dict[str, Any]]:
    """Return each learner's error on random ratings, and what it is below that of ERM."""
    truth = {
        name: np.array([each["truth"] for each in results if each["learner"] == name])
        for name in LEARNERS
    }
    n_others = len(truth) - 1
    found: dict[str, dict[str, Any]] = {}
    for name, values in truth.items():
        own = [each for each in results if each["learner"] == name]
        sizes = [each["ess"] for each in own if each["ess"] is not None]
        found[name] = {
            "mse": float(values.mean()),
            "n": len(values),
            "ess": float(np.median(sizes)) if sizes else None,
            "seconds": float(np.mean([each["seconds"] for each in own])),
        }
        if name != "erm":
            found[name]["gain"] = interval(100 * (1 - values / truth["erm"]), n_others)
    return found


def rows(lines: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the lines of the summary of all experiments."""
    return [
        {
            "what": f"Coat, {name} by {MODEL}: mean squared error on random ratings",
            "ours": f"{each['mse']:.3f}",
            "yardstick": f"{lines['erm']['mse']:.3f}, erm",
            "ratio": f"below by {told(each['gain'])}",
            "goal": "none",
            "met": None,
        }
        for name, each in lines.items()
        if name != "erm"
    ]


def lead(lines: Mapping[str, Mapping[str, Any]]) -> str:
    """Say what a reader should take from the table."""
    gains = {name: each["gain"] for name, each in lines.items() if name != "erm"}
    better = [f"`{name}` ({told(each)})" for name, each in gains.items() if each["low"] > 0]
    worse = [f"`{name}` ({told(each)})" for name, each in gains.items() if each["high"] < 0]
    return (
        "Predicting the ratings of random items from ratings of chosen ones. Below the squared "
        f"error of plain learning (`erm`) beyond chance: {', '.join(better) or 'none'}. Above it: "
        f"{', '.join(worse) or 'none'}."
    )


def page(lines: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page."""
    n = lines["erm"]["n"]
    text = [
        "# Learners of ratings on Coat",
        "",
        lead(lines),
        "",
        "| learner | knows | squared error on random ratings | below `erm` by | effective sample "
        "size | seconds |",
        "|---|---|---|---|---|---|",
    ]
    for name, each in lines.items():
        knows = "ratings, propensities" if LEARNERS[name].knows else "ratings"
        gain = told(each["gain"]) if "gain" in each else "–"
        size = "–" if each["ess"] is None else f"{each['ess']:.0%}"
        text.append(
            f"| {name} | {knows} | {each['mse']:.3f} | {gain} | {size} | {each['seconds']:.0f} |"
        )
    text += [
        "",
        f"Means over {n} splits, seeds 0 to {n - 1}. Gains are paired, with Student's t at "
        f"{LEVEL:.0%} for all learners together. All splits share users and the random ratings, so "
        "the intervals are too narrow for another log.",
        "",
        f"- Coat has 290 users, 300 coats, 24 ratings a user of coats that they chose, and 16 of "
        f"random ones, the truth. {FRACTIONS[0]:.0%} of the chosen ones are for validation.",
        "- The propensities that are known are those that come with the log; its makers learnt "
        "them from features. Where they are known, validation rows are weighted by them too.",
        f"- All learn `{MODEL}`, with features, from batches of {BATCH}, with a patience of "
        f"{PATIENCE} epochs. Each had {N_TRIALS} trials on seeds "
        f"{' and '.join(map(str, SEEDS))}: rate, ℓ2, dimension, and the method's own settings, of "
        "the game α and the opponent's rate and dimension.",
        "- `dr, fitted`, `ps` and the game have a `gmf` as exposure model.",
        "",
    ]
    return "\n".join(text)
