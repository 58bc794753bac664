"""Estimators on trial in many worlds: who is how far from the online test, and whom they choose.

Usage: python -m benchmarks.run estimators
       python -m benchmarks.estimators [FAMILY ...]    some worlds only, to go on from

A trial that is finished is kept in the folder to work in, and not run again.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import TYPE_CHECKING, Any

from benchmarks.movielens import ABSENT, WORK
from benchmarks.timing import real_data
from counterplay import CounterplayWarning
from counterplay.data.preparation import prepare
from counterplay.data.splits import Split
from counterplay.evaluation.propensities import OpponentSettings
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.two_stage import TwoStage
from reproduction.trial import CandidateName, Trial, run_trial, summarised

if TYPE_CHECKING:
    from counterplay.simulation.world import World

N_WORLDS = 5
_FIVE: tuple[CandidateName, ...] = ("pop", "cf", "gmf", "acl", "acl-paper")
FAMILIES = {
    "synthetic, no confounding": Trial(),
    "synthetic, confounding 0.5": Trial(),
    "synthetic, confounding 1": Trial(),
    "two-stage, MovieLens-100K": Trial(
        candidates=_FIVE, rates=(1.0, 0.1, 0.2), opponent=OpponentSettings(epochs=15)
    ),
    "two-stage, MovieLens-1M": Trial(
        candidates=_FIVE,
        rates=(1.0, 0.01, 0.05),
        epochs=25,
        patience=5,
        opponent=OpponentSettings(epochs=10),
    ),
}
_CONFOUNDING = {"no confounding": 0.0, "confounding 0.5": 0.5, "confounding 1": 1.0}
_SOURCES = {"MovieLens-100K": "ml-100k", "MovieLens-1M": "ml-1m"}
METRICS = ("hit@5", "ndcg@5", "hit@10", "ndcg@10")


def world_of(family: str, seed: int) -> World:
    """Return one of a family's worlds."""
    kind, which = family.split(", ")
    if kind == "synthetic":
        return Synthetic(confounding=_CONFOUNDING[which], seed=seed).world()
    folder = real_data(_SOURCES[which])
    assert folder is not None
    log = prepare(folder)
    interactions = log.interactions if isinstance(log, Split) else log
    return TwoStage(seed=seed).world(interactions)


def trial_of(family: str, seed: int) -> dict[str, Any]:
    """Run a trial, unless it is there already."""
    folder = WORK / "estimators" / f"{family.replace(', ', '-').replace(' ', '-')}-{seed}"
    record, config = folder / "trial.json", FAMILIES[family]
    if record.exists():
        kept: dict[str, Any] = json.loads(record.read_text())
        if kept["configuration"] == config.model_dump(mode="json"):
            return kept

    def progress(what: str) -> None:
        print(f"{family}, world {seed}: {what}", file=sys.stderr, flush=True)

    folder.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CounterplayWarning)
        result = run_trial(world_of(family, seed), folder, config, progress=progress)
    record.with_suffix(".part").write_text(json.dumps(result))
    record.with_suffix(".part").replace(record)
    return result


def trials(family: str) -> list[dict[str, Any]]:
    """Return all trials of a family."""
    return [trial_of(family, seed) for seed in range(N_WORLDS)]


def run() -> dict[str, Any]:
    if any(real_data(name) is None for name in _SOURCES.values()):
        return ABSENT
    summaries = {family: summarised(trials(family)) for family in FAMILIES}
    (WORK.parent / "results" / "estimators.md").write_text(_page(summaries))
    return {
        "n_worlds": N_WORLDS,
        "configurations": {name: each.model_dump(mode="json") for name, each in FAMILIES.items()},
        "summaries": {
            family: [_rounded(row) for row in rows if row["metric"] in ("hit@10", "ndcg@10")]
            for family, rows in summaries.items()
        },
        "rows": [_row(family, rows) for family, rows in summaries.items()],
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


def _page(summaries: dict[str, list[dict[str, Any]]]) -> str:
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
        "Made by `python -m benchmarks.run estimators`; the JSON beside this page has NDCG@10 too.",
    ]
    for family, rows in summaries.items():
        lines += [
            "",
            f"## {family}",
            "",
            "| estimator | opponent | floor | error | bias | order | wins | regret |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for row in rows:
            if row["metric"] == "hit@10":
                lines.append(_line(row))
    return "\n".join(lines) + "\n"


def _line(row: dict[str, Any]) -> str:
    error = row["mse"][0] ** 0.5 * 100
    low, high = ((max(each or 0.0, 0.0)) ** 0.5 * 100 for each in row["mse"][1:])
    cells = [
        row["estimator"],
        row["kind"],
        f"{row['floor']:g}" if row["floor"] else "",
        f"{error:.2f} [{low:.2f}, {high:.2f}]",
        f"{row['bias'][0] * 100:+.2f}",
    ]
    if row.get("rank", (None,))[0] is not None:
        mean, low, high = row["rank"]
        cells += [f"{mean:+.2f} [{low or 0:+.2f}, {high or 0:+.2f}]", f"{row['wins'][0]:.0%}"]
        cells += [f"{row['regret'][0]:.1%}"]
    else:
        cells += ["", "", ""]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    for name in sys.argv[1:] or FAMILIES:
        trials(name)
