"""The paper's claims, each with a verdict and an interval.

A claim is about a difference, paired over seeds: reproduced if Student's interval of its mean lies
on the claimed side of 0, not reproduced if it lies on the other, undecided otherwise. For "does
not lose" the bound is not 0 but a loss of `MARGIN` points.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from reproduction.agreement import mean_over_repetitions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Verdict = Literal["reproduced", "not reproduced", "undecided"]
MARGIN = 0.5  # points
BEATS_BASE = "ACL beats its base model under unbiased evaluation"
BEATS_PS = "ACL beats PS under unbiased evaluation"
HOLDS = "ACL does not lose to its base model, of twice the dimension, under standard evaluation"
CLOSER = "robust evaluation is closer to the online result than standard evaluation"
NEARER_THAN_OTHERS = "robust evaluation is closer to the online result than the other weights"
_METRIC, _PRINTED = "hit@10", "sampled-100"  # what is claimed, and how the paper ranks


def verdict(low: float | None, high: float | None, *, margin: float = 0.0) -> Verdict:
    """Judge the claim that a difference is above −margin by its interval.

    Example:
        >>> verdict(-0.4, 0.1), verdict(-0.4, 0.1, margin=0.5), verdict(-0.9, -0.6, margin=0.5)
        ('undecided', 'reproduced', 'not reproduced')
    """
    if low is not None and low > -margin:
        return "reproduced"
    return "not reproduced" if high is not None and high < -margin else "undecided"


def judged(
    claim: str,
    differences: Sequence[float],
    *,
    margin: float = 0.0,
    level: float = 0.95,
    **about: Any,
) -> dict[str, Any]:
    """Return a claim with its mean difference, interval and verdict, as plain values."""
    found = mean_over_repetitions(differences, level)
    said = verdict(found["low"], found["high"], margin=margin)
    return {"claim": claim, **about, **found, "margin": margin, "level": level, "verdict": said}


def claims_of(table: str, cells: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Judge a table's claims by its cells; differences are in points of Hit@10."""
    shown = [cell for cell in cells if cell["metric"] == _METRIC and cell["state"] != "no data"]
    by_place: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for cell in shown:
        by_place.setdefault((cell["dataset"], cell["column"]), []).append(cell)
    return [
        _paired(claim, game, rival, margin)
        for together in by_place.values()
        for claim, game, rival, margin in _pairs(table, together)
    ]


def _pairs(
    table: str, cells: list[dict[str, Any]]
) -> Iterator[tuple[str, dict[str, Any], dict[str, Any], float]]:
    """Yield each claim about each game, with whom it is compared."""
    if table not in ("table1", "table2"):
        return
    for game in cells:
        method, _, model = game["printed_as"].partition("-")
        if method != "acl":
            continue
        for rival in cells:
            if rival["printed_as"] == model:
                holds = table == "table2"
                yield HOLDS if holds else BEATS_BASE, game, rival, MARGIN if holds else 0.0
            of_ps = rival["printed_as"] in (f"ps-{model}-pop", f"ps-{model}-{model}")
            if table == "table1" and of_ps and recipe_of(rival) == recipe_of(game):
                yield BEATS_PS, game, rival, 0.0


def recipe_of(cell: dict[str, Any]) -> str:
    """Return the recipe that a cell's title ends in."""
    return str(cell["title"]).rpartition(", ")[2]


def _paired(
    claim: str, game: dict[str, Any], rival: dict[str, Any], margin: float
) -> dict[str, Any]:
    common = [seed for seed in game["values"] if seed in rival["values"]]
    both = game["paper"] and rival["paper"] and game["protocol"] == _PRINTED
    return judged(
        claim,
        [game["values"][seed] - rival["values"][seed] for seed in common],
        margin=margin,
        dataset=game["dataset"],
        column=game["column"],
        metric=_METRIC,
        first=game["title"],
        second=rival["title"],
        paper=round(game["paper"][0] - rival["paper"][0], 2) if both else None,
    )
