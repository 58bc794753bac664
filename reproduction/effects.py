"""What the weights of PS and ACL did: their effective sample size, run by run and counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from counterplay.learning.effect import ALIKE, has_no_effect
from reproduction.jobs import TrainJob

if TYPE_CHECKING:
    from collections.abc import Iterable

    from counterplay.data.jobs import Job, Result, Results

_COLUMN = (
    "*ESS* is the effective sample size of the weights at the epoch that was kept, as a share of "
    f"the rows, the mean over seeds. Above {ALIKE:.0%} all weights are alike: the opponent, or the "
    "propensities, have no effect, and the run is plain learning, at the dimension that it has. "
    "*Collapsed* counts such runs."
)


def ess_of(result: Result) -> float | None:
    """Return the effective sample size of a training at the epoch that was kept."""
    found: float | None = result["best"].get("ess")
    return found


def effects_of(jobs: Iterable[Job], results: Results) -> list[dict[str, Any]]:
    """Count the trainings of each weighted method and recipe, trials too, and the plain ones."""
    counts: dict[tuple[str, str], list[bool]] = {}
    for job in jobs:
        found = results.of(job) if isinstance(job, TrainJob) else None
        if found is not None and isinstance(job, TrainJob) and ess_of(found) is not None:
            kind = job.method.method, job.method.recipe
            counts.setdefault(kind, []).append(has_no_effect(ess_of(found)))
    return [
        {"method": method, "recipe": recipe, "runs": len(plain), "plain": sum(plain)}
        for (method, recipe), plain in sorted(counts.items())
    ]


def effects_page(effects: list[dict[str, Any]]) -> list[str]:
    """Say what the column means, and how many trainings were plain learning."""
    if not effects:
        return []
    said = [
        f"{each['plain']:,} of {each['runs']:,} of {each['method'].upper()}, {each['recipe']}"
        for each in effects
    ]
    text = f"Collapsed by this rule, trials of tuning included: {', '.join(said)}."
    return [_COLUMN, "", text, ""]


def effect_cell(cell: dict[str, Any]) -> str:
    """Return the mean effective sample size of a cell's runs, and how many of them are plain.

    Example:
        >>> effect_cell({"ess": [0.5, 0.99]}), effect_cell({"ess": [None]})
        ('74.5%, 1 of 2 collapsed', '')
    """
    shares = [share for share in cell.get("ess") or () if share is not None]
    if not shares:
        return ""
    plain = sum(map(has_no_effect, shares))
    said = f", {plain} of {len(shares)} collapsed" if plain else ""
    return f"{100 * sum(shares) / len(shares):.1f}%{said}"
