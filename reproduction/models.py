"""Every model on three public logs, by full ranking and among sampled items, under equal tuning.

Defaults and tuned settings side by side. Settings are chosen by `models-settings`, and frozen in
`reproduction/models_settings.json`. What is done is not run again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from counterplay.errors import ConfigError
from counterplay.models.registry import ModelSettings
from reproduction.execution import results_of
from reproduction.models_fit import LINES, LOGS, ModelFit, fitted, job_of
from reproduction.models_page import page, rows
from reproduction.models_settings import SETTINGS, settings
from reproduction.models_summary import compared, summarised

if TYPE_CHECKING:
    from reproduction.datasets import Place

SOURCES: tuple[str, ...] = tuple(LOGS)
_DIM = ModelSettings().dim
NOTES = """\
Where times tell the order of events, try `attn`, which alone knows it: it is above `ease` by 8.2
points of NDCG@10 [7.4, 9.0] on MovieLens-1M and by 3.8 [2.0, 5.7] on MovieLens-100K. On LastFM,
whose times are days, it is behind. Elsewhere try `ease` and `ials` first: they take seconds.

The default rate of 0.01 is too high for `attn` on MovieLens: with 0.0032 its NDCG@10 is 1.0 [0.4,
1.6] and 1.5 [0.5, 2.4] points higher. For `gmf`, `mlp` and `ncf` what was chosen gains nothing
beyond chance on any log, so their defaults stay; `gmf` with twice the dimension is below, by
itself. `cf` gains 1.3 [0.4, 2.2] on LastFM with twice the dimension. `attn` by a softmax is not
above `attn` as it learns by default.

What is missing: MovieLens-1M has one seed, the choices of MovieLens-100K in place of trials of
its own, and nothing that learns by a softmax (`python -m benchmarks.run sasrec` has `attn` by it
there); more than 4 trials.
"""


def jobs() -> list[ModelFit]:
    """Return all fits that are reported, log by log and seed by seed.

    A line without chance has one seed, and a choice that is the defaults is not fitted twice.
    """
    asked = settings()
    if not asked.frozen:
        raise ConfigError(
            'settings must be frozen before the reported seeds are run; found "frozen": false in '
            f"'{SETTINGS.name}'; choose them with models-settings, and set it to true"
        )
    return [
        job_of(data, line, seed, each)
        for data, chosen in asked.chosen.items()
        for seed in range(asked.n_seeds[data])
        for line, tuned in chosen.items()
        if seed == 0 or LINES[line].by_chance
        for each in ([tuned, {}] if tuned else [{}])
    ]


def wider() -> list[ModelFit]:
    """Return fits of gmf with twice the default dimension, and all else as by default."""
    return [job_of(data, "gmf", 0, {"candidate.dim": 2 * _DIM}) for data in settings().chosen]


def run(place: Place) -> dict[str, Any]:
    """Fit every model on every log, and return what defaults and tuned settings reach."""
    asked = jobs()
    found = results_of(asked, place, fitted)
    cells = summarised(asked, found, settings().chosen)
    for cell, wide in zip(cells, results_of(wider(), place, fitted), strict=True):
        usual = found[asked.index(job_of(cell["data"], "gmf", 0, {}))]
        cell["wider"] = compared(wide, usual, n_comparisons=len(cells))
    return {
        "settings": settings().model_dump(mode="json"),
        "logs": cells,
        "rows": rows(cells),
        "pages": {"models.md": page(cells, NOTES)},
    }
