"""The settings of all models on three public logs, chosen by validation under equal effort.

Every model has the same number of trials on every log, by full-ranking NDCG@10 on validation rows,
with a seed that is not reported. The choice goes to `reproduction/models_settings.json`, where
`frozen` is set before `models` is run.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from reproduction.execution import results_of
from reproduction.models_fit import (
    LOGS,
    ModelFit,
    Settings,
    fitted,
    job_of,
    prepared,
    trials_of,
)

if TYPE_CHECKING:
    from reproduction.datasets import Place

SOURCES: tuple[str, ...] = tuple(LOGS)
SETTINGS = Path(__file__).with_name("models_settings.json")
SEED, N_TRIALS = 100, 4


class ModelsSettings(BaseModel):
    """What is chosen before the reported seeds are run.

    Attributes:
        frozen: Whether it has been.
        n_seeds: Number of seeds to report by log, from seed 0.
        chosen: Settings by log and line; empty where the defaults were chosen, None where
            a line is reported with the defaults only.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    frozen: bool
    n_seeds: dict[str, int]
    chosen: dict[str, dict[str, Settings | None]]


def settings() -> ModelsSettings:
    """Return the settings file."""
    return ModelsSettings.model_validate_json(SETTINGS.read_text(encoding="utf-8"))


def jobs(data: str, place: Place) -> list[ModelFit]:
    """Return the trials of all lines on a log."""
    train = prepared(data, place).split.train
    return [
        job_of(data, line, SEED, each, trial=True)
        for line in LOGS[data].lines
        if line not in LOGS[data].untuned
        for each in trials_of(line, train, N_TRIALS, SEED)
    ]


def run(place: Place) -> dict[str, Any]:
    """Try the settings of every model, and return the trials and the choice for every log."""
    trials: list[dict[str, Any]] = []
    for data in dict.fromkeys(known.tuned_on or data for data, known in LOGS.items()):
        asked = jobs(data, place)
        found = results_of(asked, place, fitted)
        for line in dict.fromkeys(job.line for job in asked):
            own = [
                {"settings": job.settings, **_told(result)}
                for job, result in zip(asked, found, strict=True)
                if job.line == line
            ]
            best = int(np.argmax([each["validation"] for each in own]))
            trials.append({"data": data, "line": line, "best": best, "trials": own})
    best_of = {
        (each["data"], each["line"]): each["trials"][each["best"]]["settings"]
        if each["best"]
        else {}
        for each in trials
    }
    chosen = {
        data: {
            line: None
            if line in known.untuned
            else scaled(data, line, best_of[known.tuned_on or data, line], place)
            for line in known.lines
        }
        for data, known in LOGS.items()
    }
    return {
        "seed": SEED,
        "chosen": chosen,
        "trials": trials,
        "rows": [],
        "pages": {"models-settings.md": page(trials)},
    }


def scaled(data: str, line: str, settings: Settings, place: Place) -> Settings:
    """Return settings that were chosen on the log of trials as they are for this one.

    What the defaults scale with the size of a log, such as ℓ2, is scaled by the same factor.
    """
    source = LOGS[data].tuned_on
    if source is None:
        return settings
    theirs, ours = (
        trials_of(line, prepared(each, place).split.train, 1, SEED)[0] for each in (source, data)
    )
    return {
        key: round(value * ours[key] / theirs[key])
        if isinstance(value, int)
        else float(f"{value * ours[key] / theirs[key]:.3g}")
        for key, value in settings.items()
    }


def _told(result: dict[str, Any]) -> dict[str, Any]:
    return {name: result[name] for name in ("validation", "best_epoch", "n_epochs", "seconds")}


def page(trials: list[dict[str, Any]]) -> str:
    """Return the page of all trials."""
    lines = [
        "# Settings of all models",
        "",
        f"{N_TRIALS} trials each with seed {SEED}, the first with the defaults; popularity has "
        "nothing to choose. Chosen by NDCG@10 of validation rows, full ranking, in per cent. The "
        "table of what the choices reach is [models](models.md).",
        "",
        "| log | model | defaults | best | settings of the best |",
        "|---|---|---|---|---|",
    ]
    for each in trials:
        values = [100 * trial["validation"] for trial in each["trials"]]
        best = each["trials"][int(np.argmax(values))]["settings"]
        said = ", ".join(f"{key.rpartition('.')[2]} {value:g}" for key, value in best.items())
        lines.append(
            f"| {LOGS[each['data']].title} | {each['line']} | {values[0]:.2f} | {max(values):.2f} "
            f"| {said or '–'} |"
        )
    return "\n".join(lines) + "\n"
