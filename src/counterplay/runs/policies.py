"""What runs and given scores would earn as policies, from the impressions of a prepared dataset."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from counterplay.data.directory import load_split
from counterplay.data.splits import TEST, VALIDATION
from counterplay.errors import ConfigError
from counterplay.evaluation.policies import policies_valued, shown_rows
from counterplay.evaluation.random_rows import random_rows_of
from counterplay.evaluation.score_files import read_scores
from counterplay.evaluation.stage import Evaluation
from counterplay.notes import noted, tell
from counterplay.places import check_several
from counterplay.runs.candidates import check_held_out, check_trained_on, names_of
from counterplay.runs.sources import run_scores
from counterplay.runs.training import read_record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from counterplay.evaluation.given_scores import Table
    from counterplay.evaluation.records import EvaluationRecord
    from counterplay.metrics.scoring import Scores
    from counterplay.progress import Stages
    from counterplay.runs.ranking import Ranking


def value_policy(
    candidate: Table,
    data: str | Path | None = None,
    config: Evaluation | None = None,
    *,
    random_rows: object = None,
    ranking: Ranking | None = None,
    progress: Stages = lambda *_: None,
) -> EvaluationRecord:
    """Estimate the click rate of showing one of a candidate's k best unseen items.

    Args:
        candidate: A run directory, or a file or frame of scores: user, item and score.
        data: Dataset directory with impressions; of a run by default the one that it was trained
            on.
        config: How: k, part, level, n_resamples, clip, memory and seed.
        random_rows: What was shown at random: a file or a frame with the columns user, item and
            clicked; by default the random rows of the data.
        ranking: Does in jobs what takes long.
        progress: Called with what is being done, how much of it, of how much, and in which unit.
    """
    if isinstance(candidate, str | Path) and not Path(candidate).is_file():
        return _valued([candidate], None, data, config, random_rows, ranking, progress)
    if data is None:
        raise ConfigError("scores need the dataset that they are for; found none; name it as data")
    name = "scores" if isinstance(candidate, pl.DataFrame) else Path(candidate).stem
    return _valued([], {name: candidate}, data, config, random_rows, ranking, progress)


def compare_policies(
    runs: Sequence[str | Path],
    data: str | Path | None = None,
    config: Evaluation | None = None,
    *,
    scores: Mapping[str, Table] | None = None,
    random_rows: object = None,
    ranking: Ranking | None = None,
    progress: Stages = lambda *_: None,
) -> EvaluationRecord:
    """Value several candidates as policies on the same rows, and say which differences stand.

    Args:
        runs: Run directories, at least one.
        data: Dataset directory with impressions; by default that of the first run.
        config: How, as of `value_policy`.
        scores: Candidates that are only known by their scores, by name.
        random_rows: What was shown at random; by default the random rows of the data.
        ranking: Does in jobs what takes long.
        progress: Called with what is being done, how much of it, of how much, and in which unit.
    """
    check_several(runs, scores)
    return _valued(runs, scores, data, config, random_rows, ranking, progress)


def _valued(
    runs: Sequence[str | Path],
    given: Mapping[str, Table] | None,
    data: str | Path | None,
    config: Evaluation | None,
    random_rows: object,
    ranking: Ranking | None,
    progress: Stages,
) -> EvaluationRecord:
    """Load the data, the runs that were trained on them, and scores; value all of them."""
    how, records = config or Evaluation(), [read_record(run) for run in runs]
    check_held_out(runs, records)
    for run, record in zip(runs, records, strict=True):
        if record.predicts_ratings:
            raise ConfigError(
                f"a policy ranks items; found '{run}', which predicts ratings; train on clicks, or "
                "evaluate it without impressions"
            )
    place = records[0].data if data is None else Path(data)
    split = load_split(place)
    with noted() as notes:
        rows = shown_rows(split, how, random_rows_of(random_rows, split))
        scores: dict[str, Scores] = {}
        for name, run, record in zip(names_of(runs, given), runs, records, strict=True):
            check_trained_on(run, record, split)
            progress(f"reading {name}", 0, None)
            scores[name] = run_scores(run, record, split, rows.seen)
        for name, table in (given or {}).items():
            progress(f"reading {name}", 0, None)
            scores[name] = read_scores(table, split.interactions, rows.users)
        if ranking is not None:
            seen = {TEST if how.part == "test" else VALIDATION: rows.seen}
            prints = split.interactions.fingerprint, split.fingerprint
            candidates = [*runs, *(given or {}).values()]
            for (name, here), candidate in zip(scores.items(), candidates, strict=True):
                scores[name] = ranking.of(name, here, candidate, place, prints, seen)
        found = policies_valued(rows, scores, how, progress)
    tell(notes)
    return found.model_copy(update={"notes": tuple(notes)})
