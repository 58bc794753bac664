"""What runs and given scores would earn as policies, from the impressions of a prepared dataset."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from counterplay.data.directory import load_split
from counterplay.errors import ConfigError
from counterplay.evaluation.policies import policies_valued, shown_rows
from counterplay.evaluation.random_rows import random_rows_of
from counterplay.evaluation.score_files import read_scores
from counterplay.evaluation.stage import Evaluation
from counterplay.metrics.scoring import ModelScores
from counterplay.notes import noted, tell
from counterplay.runs.candidates import check_trained_on
from counterplay.runs.training import load_run, read_record, taught_by

if TYPE_CHECKING:
    from counterplay.evaluation.given_scores import Table
    from counterplay.evaluation.records import EvaluationRecord
    from counterplay.metrics.scoring import Scores


def value_policy(
    candidate: Table,
    data: str | Path | None = None,
    config: Evaluation | None = None,
    *,
    random_rows: object = None,
) -> EvaluationRecord:
    """Estimate the click rate of showing one of a candidate's k best unseen items.

    Args:
        candidate: A run directory, or a file or frame of scores: user, item and score.
        data: Dataset directory with impressions; of a run by default the one that it was trained
            on.
        config: How: k, part, level, n_resamples, clip, memory and seed.
        random_rows: What was shown at random: a file or a frame with the columns user, item and
            clicked; by default the random rows of the data.
    """
    how = config or Evaluation()
    run = None
    if isinstance(candidate, str | Path) and not Path(candidate).is_file():
        run = read_record(candidate)
        if run.predicts_ratings:
            raise ConfigError(
                f"a policy ranks items; found '{candidate}', which predicts ratings; train on "
                "clicks, or evaluate it without impressions"
            )
    elif data is None:
        raise ConfigError("scores need the dataset that they are for; found none; name it as data")
    place = run.data if data is None and run is not None else data
    assert place is not None
    split = load_split(place)
    with noted() as notes:
        rows = shown_rows(split, how, random_rows_of(random_rows, split))
        scores: Scores
        if run is not None:
            assert isinstance(candidate, str | Path)
            check_trained_on(candidate, run, split)
            name, train = Path(candidate).resolve().name, replace(split.train, rating=None)
            taught = taught_by(run.configuration.method, split)
            model = load_run(candidate, train)[0]
            scores = ModelScores(model, rows.seen, train=train, taught=taught)
        else:
            name = "scores" if isinstance(candidate, pl.DataFrame) else Path(candidate).stem
            scores = read_scores(candidate, split.interactions, rows.users)
        found = policies_valued(rows, {name: scores}, how)
    tell(notes)
    return found.model_copy(update={"notes": tuple(notes)})
