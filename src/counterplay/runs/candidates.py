"""Runs and given scores, loaded to be evaluated and compared on a prepared dataset."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from counterplay.data.directory import load_split
from counterplay.data.splits import TEST, VALIDATION, Split
from counterplay.errors import ConfigError, DataError
from counterplay.evaluation.evaluator import compared, evaluated
from counterplay.evaluation.given_scores import Table, given_candidate
from counterplay.evaluation.propensities import Contestant
from counterplay.evaluation.random_rows import random_rows_of
from counterplay.evaluation.stage import Evaluation, Stage
from counterplay.metrics.scoring import ModelScores
from counterplay.notes import noted, tell
from counterplay.places import check_several
from counterplay.runs.training import load_run, read_record, taught_by
from counterplay.simulation.store import load_world, source_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from counterplay.evaluation.records import EvaluationRecord
    from counterplay.progress import Stages
    from counterplay.runs.config import RunConfig
    from counterplay.runs.ranking import Ranking
    from counterplay.runs.record import RunRecord
    from counterplay.simulation.world import World


def evaluate(
    candidate: Table,
    data: str | Path | None = None,
    config: Evaluation | None = None,
    *,
    world: str | Path | None = None,
) -> EvaluationRecord:
    """Evaluate one candidate: a run directory, or scores that were computed elsewhere.

    Args:
        candidate: A run directory, or a file or frame of scores: user, item and score.
        data: Dataset directory; of a run by default the one that it was trained on.
        config: How.
        world: Directory of the world that the data were drawn from, for the oracle.
    """
    if isinstance(candidate, str | Path) and not Path(candidate).is_file():
        return evaluate_run(candidate, data, config, world=world)
    if data is None:
        raise ConfigError("scores need the dataset that they are for; found none; name it as data")
    return evaluate_scores(candidate, data, config, world=world)


def evaluate_run(
    run: str | Path,
    data: str | Path | None = None,
    config: Evaluation | None = None,
    *,
    world: str | Path | None = None,
    random_rows: object = None,
    progress: Stages = lambda *_: None,
    ranking: Ranking | None = None,
) -> EvaluationRecord:
    """Evaluate the candidate of a run directory; by default on the data it was trained on.

    The directory of the world that the data were drawn from is for the oracle alone. Random rows
    are a file or a frame with the columns user, item and clicked: what was shown at random. A
    `ranking` does in jobs what takes long.
    """
    with noted() as notes:
        how = config or Evaluation()
        found = evaluated(
            *staged(
                [run], data, how, world=world, random_rows=random_rows, progress=progress,
                ranking=ranking,
            )
        )  # fmt: skip
    return _with(notes, found)


def evaluate_scores(
    scores: Table,
    data: str | Path,
    config: Evaluation | None = None,
    *,
    world: str | Path | None = None,
    random_rows: object = None,
    progress: Stages = lambda *_: None,
    ranking: Ranking | None = None,
) -> EvaluationRecord:
    """Evaluate scores that were computed elsewhere: a table of user, item and score."""
    config, split = config or Evaluation(), load_split(data)
    name = "scores" if isinstance(scores, pl.DataFrame) else Path(scores).stem
    with noted() as notes:
        random = random_rows_of(random_rows, split)
        known = _world(world, split)
        stage = Stage(split, config, explicit=False, world=known, random=random, progress=progress)
        progress(f"reading {name}", 0, None)
        candidate = given_candidate(name, scores, stage)
        found = evaluated(stage, [_ranked(candidate, scores, stage, data, ranking)])
    return _with(notes, found)


def compare(
    runs: Sequence[str | Path],
    data: str | Path | None = None,
    config: Evaluation | None = None,
    *,
    scores: Mapping[str, Table] | None = None,
    world: str | Path | None = None,
    random_rows: object = None,
    progress: Stages = lambda *_: None,
    ranking: Ranking | None = None,
) -> EvaluationRecord:
    """Evaluate several candidates on the same rows, and say which differences stand.

    Args:
        runs: Directories, at least one.
        data: Dataset directory; by default that of the first run.
        config: How.
        scores: Candidates that are only known by their scores, by name.
        world: That the data were drawn from, for the oracle.
        random_rows: What was shown at random: a file or a frame with the columns user, item and
            clicked.
        progress: Called with what is being done, how much of it, of how much, and in which unit.
        ranking: Does in jobs what takes long.
    """
    check_several(runs, scores)
    with noted() as notes:
        how = config or Evaluation()
        found = compared(
            *staged(
                runs, data, how, scores=scores, world=world, random_rows=random_rows,
                progress=progress, ranking=ranking,
            )
        )  # fmt: skip
    return _with(notes, found)


def _with(notes: Sequence[str], found: EvaluationRecord) -> EvaluationRecord:
    """Return a result with its notes, and warn of them: this is what users call."""
    tell(notes)
    return found.model_copy(update={"notes": tuple(notes)})


def staged(
    runs: Sequence[str | Path],
    data: Split | str | Path | None,
    config: Evaluation,
    *,
    scores: Mapping[str, Table] | None = None,
    world: World | str | Path | None = None,
    random_rows: object = None,
    progress: Stages = lambda *_: None,
    ranking: Ranking | None = None,
) -> tuple[Stage, list[Contestant]]:
    """Load the data, unless they are given, the runs that were trained on them, and scores."""
    records = [read_record(run) for run in runs]
    check_held_out(runs, records)
    place = records[0].data if data is None or isinstance(data, Split) else data
    split = data if isinstance(data, Split) else load_split(place)
    explicit = [each.predicts_ratings for each in records]
    if len(set(explicit)) > 1:
        raise ConfigError(
            "compared runs must all predict ratings or all rank; found both; compare like with like"
        )
    known = _world(world, split)
    random = None
    if random_rows is not None or not explicit[0]:
        random = random_rows_of(random_rows, split)
    stage = Stage(
        split, config, explicit=explicit[0], world=known, random=random, progress=progress
    )
    for run, record in zip(runs, records, strict=True):
        check_trained_on(run, record, split)
    names = names_of(runs, scores)
    trained = [
        _ranked(_trained(name, run, record.configuration, stage), run, stage, place, ranking)
        for name, run, record in zip(names, runs, records, strict=True)
    ]
    given = []
    for name, table in (scores or {}).items():
        progress(f"reading {name}", 0, None)
        given.append(_ranked(given_candidate(name, table, stage), table, stage, place, ranking))
    return stage, trained + given


def _ranked(
    candidate: Contestant, given: Table, stage: Stage, data: str | Path, ranking: Ranking | None
) -> Contestant:
    """Let a candidate be ranked by jobs, if that is wanted."""
    if ranking is None:
        return candidate
    part = TEST if stage.config.part == "test" else VALIDATION
    seen = {part: stage.seen} | ({VALIDATION: stage.split.train} if part == TEST else {})
    prints = stage.split.interactions.fingerprint, stage.split.fingerprint
    scores = ranking.of(candidate.name, candidate.scores, given, data, prints, seen)
    return replace(candidate, scores=scores)


def check_trained_on(
    run: str | Path, record: RunRecord, split: Split, *, use: str = "evaluated on"
) -> None:
    """Refuse data that are not those of a run, or are split in another way."""
    trained = record.dataset.fingerprint, record.dataset.split_fingerprint
    if trained != (split.interactions.fingerprint, split.fingerprint):
        raise DataError(
            f"a run must be {use} the data it was trained on; found that '{run}' was trained on "
            "others, or on another split; name its data, or train again"
        )


def check_held_out(runs: Sequence[str | Path], records: Sequence[RunRecord]) -> None:
    """Refuse to judge what has learnt from all rows by some of them."""
    for run, record in zip(runs, records, strict=True):
        if record.refit is not None:
            raise DataError(
                "a run must be judged by rows that it has not seen; found that "
                f"'{run}' was refitted on all {record.refit.rows:,} rows of its log; judge the run "
                f"that it was made of, '{record.refit.run}', or test it online"
            )


def _world(world: World | str | Path | None, split: Split) -> World | None:
    """Load the world that the data were drawn from, unless it is there; refuse another one."""
    if not isinstance(world, str | Path):
        return world
    if split.interactions.source != source_of(world):
        raise DataError(
            f"the world must be the one that the data were drawn from; found '{world}' and "
            f"data of another source, {split.interactions.name!r}; name their own"
        )
    return load_world(world)


def names_of(runs: Sequence[str | Path], scores: Mapping[str, Table] | None) -> list[str]:
    """Return the folders' names, or their whole paths where names repeat; scores have others."""
    names = [Path(run).resolve().name for run in runs]
    names = names if len(set(names)) == len(names) else [str(run) for run in runs]
    repeated = sorted(set(names) & set(scores or {}))
    if repeated:
        raise ConfigError(
            f"every candidate must have a name of its own; found '{repeated[0]}' for a run and for "
            "scores; rename one"
        )
    return names


def _trained(name: str, run: str | Path, config: RunConfig, stage: Stage) -> Contestant:
    candidate, exposure, link = load_run(run, stage.train)
    taught = taught_by(config.method, stage.split)
    scores = ModelScores(candidate, stage.seen, train=stage.train, taught=taught)
    return Contestant(
        name, scores, candidate, exposure, link, config.method, settings=config.candidate
    )
