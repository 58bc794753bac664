"""The paper's claims, each with a verdict and an interval.

A claim is about a difference, paired over seeds: reproduced if Student's interval of its mean lies
on the claimed side of 0, not reproduced if it lies on the other, undecided otherwise. For "does
not lose" the bound is not 0 but a loss of `MARGIN` of the rival's level.
"""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from reproduction.agreement import mean_over_repetitions
from reproduction.methods import AS_THE_CODE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Verdict = Literal["reproduced", "not reproduced", "undecided"]
MARGIN = 0.01  # of the level of the rival
BEATS_BASE = "ACL beats its base model under unbiased evaluation"
BEATS_PS = "ACL beats PS under unbiased evaluation"
HOLDS = "ACL does not lose to its base model, of twice the dimension, under standard evaluation"
UNIFORMLY = "ACL outperforms its base model under standard evaluation, uniformly"
BEATS_PS_REAL = "ACL beats PS under standard evaluation"
OUTCOME = "the outcome in the link helps"
MIDDLE = "α is best neither too big nor too small"
LARGER = "larger dimensions lead to better results"
CLOSER = "robust evaluation is closer to the online result than standard evaluation"
NEARER_THAN_OTHERS = "robust evaluation is closer to the online result than the other weights"
_METRIC = "hit@10"  # what is claimed
_PRINTED = ("100 sampled", "plain mean")  # what the paper's numbers are of


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
    worlds = table.startswith("table1")
    if worlds or table.startswith("table2"):
        for game in cells:
            if is_game(game) and special(game).keys() <= AS_THE_CODE:
                yield from _against_rivals(game, cells, worlds=worlds)
    for game in cells:
        yield from _against_variants(game, cells)
    if table == "figure-a4":
        yield from _against_ends(cells, "alpha", MIDDLE, middle=1.0)
    if table == "figure-a3":
        yield from _against_ends(cells, "dim", LARGER, middle=None)


def _against_rivals(
    game: dict[str, Any], cells: list[dict[str, Any]], *, worlds: bool
) -> Iterator[tuple[str, dict[str, Any], dict[str, Any], float]]:
    """Yield a game beside its base model and beside PS."""
    model = game["printed_as"].partition("-")[2]
    for rival in cells:
        if rival["printed_as"] == model:
            yield BEATS_BASE if worlds else UNIFORMLY, game, rival, 0.0
            if not worlds:
                yield HOLDS, game, rival, MARGIN
        of_ps = rival["printed_as"] in (f"ps-{model}-pop", f"ps-{model}-{model}")
        if of_ps and recipe_of(rival) == recipe_of(game):
            yield BEATS_PS if worlds else BEATS_PS_REAL, game, rival, 0.0


def _against_variants(
    game: dict[str, Any], cells: list[dict[str, Any]]
) -> Iterator[tuple[str, dict[str, Any], dict[str, Any], float]]:
    """Yield a game beside the same without the outcome in its link."""
    if is_game(game) and not special(game):
        for other in cells:
            same = other["title"] == game["title"] and _dim(other) == _dim(game)
            if same and special(other).get("with_outcome") == 0:
                yield OUTCOME, game, other, 0.0


def _against_ends(
    cells: list[dict[str, Any]], name: str, claim: str, middle: float | None
) -> Iterator[tuple[str, dict[str, Any], dict[str, Any], float]]:
    """Yield the middle of a swept setting beside both ends, or the upper end beside the lower."""
    by_title: dict[str, list[dict[str, Any]]] = {}
    for cell in cells:
        if is_game(cell):
            by_title.setdefault(cell["title"], []).append(cell)
    for own in by_title.values():
        line = sorted(own, key=lambda cell: float(cell["swept"][name]))
        if middle is None:
            yield claim, line[-1], line[0], 0.0
        for cell in line:
            if cell["swept"][name] == middle:
                yield claim, cell, line[0], 0.0
                yield claim, cell, line[-1], 0.0


def is_game(cell: dict[str, Any]) -> bool:
    """Tell whether a cell is of ACL."""
    return str(cell["printed_as"]).startswith("acl-")


def special(cell: dict[str, Any]) -> dict[str, float]:
    """Return what is fixed in a cell besides its size and what a figure goes through."""
    usual = ("dim", "alpha", "code")
    return {name: value for name, value in cell.get("swept", {}).items() if name not in usual}


def _dim(cell: dict[str, Any]) -> float | None:
    found: float | None = cell.get("swept", {}).get("dim")
    return found


def recipe_of(cell: dict[str, Any]) -> str:
    """Return the recipe that a cell's title ends in."""
    return str(cell["title"]).rpartition(", ")[2]


def _paired(
    claim: str, game: dict[str, Any], rival: dict[str, Any], margin: float
) -> dict[str, Any]:
    common = [seed for seed in game["values"] if seed in rival["values"]]
    both = game["paper"] and rival["paper"] and game["column"] in _PRINTED
    level = fmean(rival["values"][seed] for seed in common) if common else 0.0
    return judged(
        claim,
        [game["values"][seed] - rival["values"][seed] for seed in common],
        margin=margin * level,
        dataset=game["dataset"],
        column=game["column"],
        metric=_METRIC,
        first=_named(game),
        second=_named(rival),
        paper=round(game["paper"][0] - rival["paper"][0], 2) if both else None,
    )


def _named(cell: dict[str, Any]) -> str:
    """Return the title, with what is fixed; of a figure also where on its axis it is."""
    said = [f"{name} {value:g}" for name, value in special(cell).items()]
    swept = cell.get("swept", {})
    said += [f"{name} {swept[name]:g}" for name in ("alpha", "dim") if name in swept and (
        name == "alpha" or not cell["paper"])]  # fmt: skip
    return f"{cell['title']} ({', '.join(said)})" if said else str(cell["title"])
