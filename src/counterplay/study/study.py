"""From a log to a decision: prepare, train baselines and the game, evaluate, and say what to ship.

plan.json          what the study is of, its configuration, and what was noted in reading
data/              the dataset directory, where the source was none
runs/NAME/         a run directory for each candidate
evaluation.json    estimates, bands, comparisons, diagnostics
online.json        in a world: the online test, and the truth
study.json         profile, split, versions, verdict

Every stage is skipped when its result is there already, so a study that broke off goes on.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from counterplay.data.directory import load_split
from counterplay.data.files import write_json
from counterplay.data.preparation import prepare
from counterplay.data.profiling import profile
from counterplay.data.publishing import working_directory
from counterplay.data.sources import local_path
from counterplay.data.splits import Split
from counterplay.errors import ConfigError
from counterplay.evaluation.records import EvaluationRecord
from counterplay.learning.tracking import check_tracker, track_values, tracked
from counterplay.metrics.formulas import row_metrics
from counterplay.notes import noted, tell
from counterplay.study.config import StudyConfig
from counterplay.study.finished import Study as Study
from counterplay.study.finished import load_study as load_study
from counterplay.study.plan import begin, place_of, plan_of, refuse_another, stages_left
from counterplay.study.records import (
    BESIDE,
    EVALUATION,
    ONLINE,
    STUDY,
    NamedRun,
    Plan,
    SplitRecord,
    StudyRecord,
    read_online,
    read_part,
)
from counterplay.study.records import study_record as study_record
from counterplay.study.reservations import reservations
from counterplay.study.verdict import followed, verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from counterplay.data.interactions import Interactions
    from counterplay.evaluation.deployment import OnlineRecord
    from counterplay.evaluation.settings import Evaluation
    from counterplay.progress import Stages, Work


def run(
    source: object,
    out: str | Path,
    config: StudyConfig | None = None,
    *,
    command: str = "",
    progress: Stages = lambda *_: None,
    on_read: Callable[[Split], None] = lambda _: None,
    on_plan: Callable[[Mapping[str, Work]], None] = lambda _: None,
    track: str | None = None,
) -> Study:
    """Make a study of a log: train, evaluate, and say what to ship.

    Args:
        source: A log as `counterplay.read` takes it, the folder of a known dataset, a dataset
            directory with a split, or a world directory.
        out: Its folder; one that broke off goes on with the same source and configuration.
        config: What to do.
        command: What was typed, for the record.
        progress: Called with what is being done, how much of it is done, and of how much.
        on_read: Called with the data as they were understood, before anything is trained.
        on_plan: Called with the stages that take long, before the first: for a `Forecast`.
        track: Logs epochs and estimates to a tracker (see `counterplay.learning.tracking`).
    """
    config, folder = config or StudyConfig(), Path(out)
    check_tracker(track)
    place = local_path(source)
    plan = plan_of(source, place, config)
    refuse_another(folder, plan)
    progress("reading the log", 0, None)
    with noted() as notes:
        data, world = place_of(place, folder, config)
        known = place is not None and data.exists()  # a frame may have changed
        split = load_split(data) if known else _prepared(source, config)
    notes += [note for note in reservations(config, split) if note not in notes]
    config = config.for_log(split)
    how = config.check(split, world=world is not None)
    with noted() as more:
        random = config.random(split, how)
    notes += more
    if config.scores:
        from counterplay.evaluation.given_scores import check_scores

        check_scores(config.scores, split, how, random)
    on_read(split)
    log = {"log": split.interactions.fingerprint, "split": split.fingerprint}
    plan = plan.model_copy(update={"log": log, "command": command, "notes": tuple(notes)})
    with working_directory(folder):
        plan = begin(folder, plan, data, split)
        split = split if known else load_split(data)  # whoever goes on sees the same
        on_plan(stages_left(folder, config, split, how))
        record = _made(folder, config, data, split, how, world, random, plan, progress, track)
    tell(record.evaluation.notes)
    return Study(folder, record)


def _made(
    folder: Path,
    config: StudyConfig,
    data: Path,
    split: Split,
    how: Evaluation,
    world: Path | None,
    random: Interactions | None,
    plan: Plan,
    progress: Stages,
    track: str | None,
) -> StudyRecord:
    """Train and evaluate what has not been, and sum up."""
    runs = [_trained(name, data, folder, split, config, progress, track) for name in config.names]
    if (folder / EVALUATION).exists():
        evaluation, online = read_part(EvaluationRecord, folder / EVALUATION), read_online(folder)
    else:
        progress("evaluating", 0, None)
        evaluation, online = _evaluated(folder, config, split, how, world, random, progress)
        of_runs = (f"{run.name}: {note}" for run in runs for note in run.notes)
        notes = (*plan.notes, *of_runs, *evaluation.notes)
        evaluation = evaluation.model_copy(update={"notes": notes})
        write_json(evaluation.to_dict(), folder / EVALUATION)
        values = {
            f"{each.candidate}/{each.estimator}/{each.metric}_{each.k}": each.value
            for each in evaluation.estimates
        }
        track_values(track, _events(folder, "evaluation"), f"{folder.name}/evaluation", values)
    if (folder / STUDY).exists():
        return study_record(folder)
    record = _summary(split, config, plan, runs, evaluation, online)
    write_json(record.model_dump(exclude=BESIDE), folder / STUDY)
    return record


def _evaluated(
    folder: Path,
    config: StudyConfig,
    split: Split,
    how: Evaluation,
    world: Path | None,
    random: Interactions | None,
    progress: Stages,
) -> tuple[EvaluationRecord, OnlineRecord | None]:
    """Evaluate all candidates; in a world, test them online first, and write down what came."""
    from counterplay.evaluation.deployment import deployed
    from counterplay.evaluation.diagnostics import diagnostics
    from counterplay.evaluation.evaluator import compared
    from counterplay.evaluation.old_system import old_system
    from counterplay.runs.candidates import staged
    from counterplay.runs.ranking import ranking_for

    places, online = [folder / "runs" / name for name in config.names], None
    with noted() as notes, ranking_for(folder / EVALUATION, progress=progress) as ranking:
        stage, contestants = staged(
            places, split, how, scores=config.scores, world=world, random_rows=random,
            progress=progress, ranking=ranking,
        )  # fmt: skip
        if stage.world is not None:
            contestants = [old_system(stage.world), *contestants]
            test = config.online_in(stage.world)
            online = deployed(stage, contestants, test, metrics=row_metrics(), k=how.k)
            write_json(online.to_dict(), folder / ONLINE)
        found = compared(stage, contestants)
        seen = diagnostics(
            stage, contestants, k=max(stage.config.k), follows=followed(found),
            n_sampled=config.gallery_users,
        )  # fmt: skip
    return found.model_copy(update={"diagnostics": seen, "notes": tuple(notes)}), online


def _prepared(source: object, config: StudyConfig) -> Split:
    plan = config.preparation
    if "feedback" in config.model_fields_set and plan.feedback is None:
        plan = plan.model_copy(update={"feedback": config.feedback})
    made = prepare(source, plan)
    if not isinstance(made, Split):
        raise ConfigError(
            "a study needs rows to test on; found the split none; choose another split"
        )
    return made


def _trained(
    name: str,
    data: Path,
    folder: Path,
    split: Split,
    config: StudyConfig,
    progress: Stages,
    track: str | None,
) -> NamedRun:
    """Train a candidate, or let its training go on; return its record."""
    from counterplay.runs import training

    place, wanted = folder / "runs" / name, config.run(name, split)
    what, epochs = f"training {name}", wanted.training.epochs
    if not (place / "run.json").exists():
        progress(what, 0, epochs, "epochs")
    else:
        track = None  # there is nothing to log
    shown, events = wanted.model_dump(mode="json"), _events(folder, name)
    with noted(), tracked(track, events, f"{folder.name}/{name}", shown) as more:
        record = training.train(
            data,
            place,
            wanted,
            resume=True,
            callbacks=[lambda epoch: progress(what, epoch.epoch + 1, epochs, "epochs"), *more],
            split=split,
        )
    return NamedRun(name=name, **dict(record))  # its notes are in it


def _events(folder: Path, name: str) -> Path:
    return folder.with_name(f"{folder.name}.events") / name


def _summary(
    split: Split,
    config: StudyConfig,
    plan: Plan,
    runs: Sequence[NamedRun],
    evaluation: EvaluationRecord,
    online: OnlineRecord | None,
) -> StudyRecord:
    from counterplay.runs import training

    log = split.interactions
    return StudyRecord(
        name=log.name,
        kind="log" if online is None else "world",
        seed=config.seed,
        versions=training.versions(),
        configuration=config.model_dump(mode="json"),
        candidates=config.names,
        profile=profile(split),
        steps=tuple(str(step) for step in log.steps),
        split=SplitRecord(
            kind=split.kind,
            counts=split.counts,
            cold=split.cold_counts,
            seen_share=split.seen_share if split.counts["test"] else None,
        ),
        verdict=verdict(evaluation, None if online is None else online.truth),
        commands=(plan.command,) if plan.command else (),
        runs=tuple(runs),
        evaluation=evaluation,
        online=online,
    )
