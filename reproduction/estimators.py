"""Estimators on trial in 25 worlds: how far each is from the online test, and whom it chooses.

The trials are the jobs of table 3, of five worlds a family; where they are done in the same folder,
by `python -m reproduction table3 --only … --out …` for some of them, they are not run again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reproduction.estimators_page import estimator_cells
from reproduction.execution import results_of
from reproduction.jobs import WorldJob
from reproduction.offline import trial_of
from reproduction.trial import summarised

if TYPE_CHECKING:
    from reproduction.datasets import Place

SOURCES: tuple[str, ...] = ("ml-100k", "ml-1m")
N_WORLDS = 5
TITLES = {
    "synthetic": "synthetic, no confounding",
    "synthetic-confounded": "synthetic, confounding 0.5",
    "synthetic-severely-confounded": "synthetic, confounding 1",
    "ml-100k": "two-stage, MovieLens-100K",
    "ml-1m": "two-stage, MovieLens-1M",
}


def run(place: Place) -> dict[str, Any]:
    """Put the estimators on trial in every world, and return what each was worth by family."""
    summaries = {}
    for family, title in TITLES.items():
        jobs = [WorldJob(family=family, seed=seed) for seed in range(N_WORLDS)]
        summaries[title] = summarised([found["trial"] for found in results_of(jobs, place)])
    return {
        "n_worlds": N_WORLDS,
        "configurations": {
            title: trial_of(family).model_dump(mode="json") for family, title in TITLES.items()
        },
        "summaries": {
            title: [_rounded(row) for row in rows if row["metric"] in ("hit@10", "ndcg@10")]
            for title, rows in summaries.items()
        },
        "rows": [_row(title, rows) for title, rows in summaries.items()],
        "pages": {"estimators.md": page(summaries)},
    }


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {
        key: [None if one is None else float(f"{one:.4g}") for one in value]
        if isinstance(value, tuple | list)
        else value
        for key, value in row.items()
    }


def _row(family: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the line of the summary: the default shared opponent against no correction."""
    by_name = {
        (row["estimator"], row["kind"], row["floor"]): row["mse"][0] ** 0.5 * 100
        for row in rows
        if row["metric"] == "hit@10"
    }
    ours, plain = by_name["robust-shared", "item", 0.01], by_name["standard", "", 0.0]
    return {
        "what": f"error of Hit@10, robust-shared by an item-level opponent: {family}",
        "ours": f"{ours:.2f} points",
        "yardstick": f"{plain:.2f} points, standard",
        "ratio": f"{ours / plain:.2f}",
        "goal": "none",
        "met": None,
    }


def page(summaries: dict[str, list[dict[str, Any]]]) -> str:
    """Return the page of all estimators, a table a family."""
    lines = [
        "# Estimators on trial",
        "",
        f"Eight candidates (five on MovieLens) are trained on the log of each of {N_WORLDS} "
        "worlds of a family, judged offline by every estimator, and deployed in an online "
        "test of all users. What is estimated, and the test, are defined in "
        "`docs/guide/worlds.md`. Error is the root of the mean squared difference to the "
        "online result, in points (Hit@10 as a percentage); bias its mean; order is "
        "Spearman's correlation; wins is the share of worlds where the best candidate offline "
        "is truly the best; regret the share of the best value that is lost by choosing it. "
        "Means over worlds, with 95% t-intervals over worlds where they fit. `oracle` knows "
        "the true propensities. `as trained` is the paper's robust estimator: the opponent of "
        "the game, for the two candidates that have one.",
        "",
        "Made by `python -m reproduction estimators`; the JSON beside this page has NDCG@10 too.",
    ]
    for family, rows in summaries.items():
        lines += [
            "",
            f"## {family}",
            "",
            "| estimator | opponent | floor | error | bias | order | wins | regret |",
            "|---|---|---|---|---|---|---|---|",
        ]
        lines += [_line(row) for row in rows if row["metric"] == "hit@10"]
    return "\n".join(lines) + "\n"


def _line(row: dict[str, Any]) -> str:
    cells = estimator_cells(row)
    if row.get("rank", (None,))[0] is not None:
        mean, low, high = row["rank"]
        cells += [f"{mean:+.2f} [{low or 0:+.2f}, {high or 0:+.2f}]", f"{row['wins'][0]:.0%}"]
        cells += [f"{row['regret'][0]:.1%}"]
    else:
        cells += ["", "", ""]
    return f"| {' | '.join(cells)} |"
