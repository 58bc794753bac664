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

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterplay.data.directory import load_split, save
from counterplay.data.files import difference, digest_of, read_json, write_json
from counterplay.data.preparation import prepare
from counterplay.data.profile import profile
from counterplay.data.publishing import check_free, working_directory
from counterplay.data.splits import Split
from counterplay.display import Shown
from counterplay.errors import ConfigError, CounterplayWarning, DataError
from counterplay.evaluation.deployment import deployed
from counterplay.evaluation.diagnostics import diagnostics
from counterplay.evaluation.evaluator import compared
from counterplay.evaluation.given_scores import check_scores
from counterplay.evaluation.old_system import old_system
from counterplay.notes import noted, tell
from counterplay.runs.candidates import staged
from counterplay.runs.training import read_record, train_run, versions
from counterplay.study.config import StudyConfig
from counterplay.study.verdict import verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from counterplay.evaluation.stage import Evaluation
    from counterplay.progress import Steps

PLAN, STUDY, EVALUATION, ONLINE = "plan.json", "study.json", "evaluation.json", "online.json"
_VALUED = ("hit", "ndcg", "mrr", "dcg")  # what a ranking is worth in a world


@dataclass(frozen=True, repr=False)
class Study(Shown):
    """A finished study.

    Attributes:
        folder: Where it lies.
        record: All that came of it, as plain values; a report is made of it.
    """

    folder: Path
    record: dict[str, Any]

    @property
    def verdict(self) -> str:
        """What to ship, and how sure that is, in words."""
        found = self.record["verdict"]
        return "\n".join([found["headline"], *found["sentences"]])

    @property
    def recommended(self) -> str | None:
        """The candidate to ship; None where none is ahead of all others beyond chance."""
        found = self.record["verdict"]["recommended"]
        return None if found is None else str(found)

    @property
    def estimates(self) -> pl.DataFrame:
        """Every candidate under every estimator, with intervals."""
        return self._frame("estimates")

    @property
    def comparisons(self) -> pl.DataFrame:
        """The differences of all pairs of candidates."""
        return self._frame("comparisons")

    @property
    def bands(self) -> pl.DataFrame:
        """What each estimate could be, if the odds of exposure were off by a factor Γ."""
        return self._frame("bands")

    def _frame(self, name: str) -> pl.DataFrame:
        import polars as pl

        return pl.DataFrame(self.record["evaluation"][name], infer_schema_length=None)

    def _title(self) -> str:
        return f"of {self.record['name']!r}: {self.record['verdict']['headline']}"

    def _columns(self) -> dict[str, list[object]]:
        choices = self.record["verdict"]["choices"]
        names = {"estimator": "estimator", "candidate": "puts first", "runner_up": "before"}
        return {shown: [each[key] for each in choices] for key, shown in names.items()} | {
            end: [each[end] for each in choices] for end in ("value", "low", "high")
        }


def run_study(
    source: object,
    out: str | Path,
    config: StudyConfig | None = None,
    *,
    command: str = "",
    progress: Steps = lambda *_: None,
) -> Study:
    """Make a study of a log: train, evaluate, and say what to ship.

    Args:
        source: A log file or frame, the folder of a known dataset, a dataset directory with a
            split, or a world directory.
        out: Its folder; one that broke off goes on with the same source and configuration.
        config: What to do.
        command: What was typed, for the record.
        progress: Called with what is being done, how much of it is done, and of how much.
    """
    config, folder = config or StudyConfig(), Path(out)
    place = Path(source) if isinstance(source, str | Path) else None
    plan = _plan(place, config)
    _refuse_another(folder, plan)
    progress("reading the log", 0, None)
    with noted() as reservations:
        data, world = _place(place, folder, config)
        known = place is not None and data.exists()  # a frame may have changed
        split = load_split(data) if known else _prepared(source, config)
        for note in config.reservations(split):
            warnings.warn(note, CounterplayWarning, stacklevel=2)
    how = config.check(split, world=world is not None)
    check_scores(config.scores, split, how)
    plan["log"] = {"log": split.interactions.fingerprint, "split": split.fingerprint}
    told = {"command": command, "notes": reservations}
    with working_directory(folder):
        _begin(folder, plan, data, split, told)
        split = split if known else load_split(data)  # whoever goes on sees the same
        _make(folder, config, data, split, how, world, progress)
    study = load_study(folder)
    tell(study.record["evaluation"]["notes"])
    return study


def _make(
    folder: Path,
    config: StudyConfig,
    data: Path,
    split: Split,
    how: Evaluation,
    world: Path | None,
    progress: Steps,
) -> None:
    """Train and evaluate what has not been, and sum up."""
    runs = [_trained(name, data, folder, split, config, progress) for name in config.names]
    if not (folder / EVALUATION).exists():
        progress("evaluating", 0, None)
        with noted() as reservations:
            stage, contestants = staged(
                runs, split, how, scores=config.scores, world=world, progress=progress
            )
            if stage.world is not None:
                contestants = [old_system(stage.world), *contestants]
                test = config.online_in(stage.world)
                write_json(
                    deployed(stage, contestants, test, metrics=_VALUED, k=how.k), folder / ONLINE
                )
            found = compared(stage, contestants)
            found["diagnostics"] = diagnostics(stage, contestants, k=max(stage.config.k))
        notes = {"notes": [*_notes_before(folder, config.names), *reservations]}
        write_json(found | notes, folder / EVALUATION)
    if not (folder / STUDY).exists():
        write_json(_summary(split, folder, config, world), folder / STUDY)


def load_study(directory: str | Path) -> Study:
    """Return a finished study."""
    return Study(Path(directory), study_record(directory))


def study_record(directory: str | Path) -> dict[str, Any]:
    """Return all that a finished study says, as plain values."""
    folder = Path(directory)
    record, plan = _part(folder, STUDY), _part(folder, PLAN)
    return record | {
        "commands": [plan["command"]] if plan["command"] else [],
        "runs": [
            {"name": name} | read_record(folder / "runs" / name) for name in record["candidates"]
        ],
        "evaluation": _part(folder, EVALUATION),
        "online": _part(folder, ONLINE) if (folder / ONLINE).exists() else None,
    }


def _part(folder: Path, name: str) -> dict[str, Any]:
    remedy = "make a study with counterplay run, or let it go on with the same command"
    return read_json(folder / name, "a part of a finished study", remedy=remedy)


def _plan(place: Path | None, config: StudyConfig) -> dict[str, Any]:
    """Return what is to be done, and of which files, as plain values."""
    if place is not None and not place.exists():
        raise DataError(f"a study needs a log; found nothing at '{place}'; name a file or a folder")
    given = [each for each in (place, *config.scores.values()) if each is not None]
    return {
        "source": None if place is None else str(place.resolve()),
        "files": {str(each.resolve()): digest_of(each) for each in given if each.is_file()},
        "configuration": config.model_dump(mode="json"),
    }


def _refuse_another(folder: Path, plan: dict[str, Any]) -> None:
    """Refuse a folder where something else was begun, or lies."""
    if not (folder / PLAN).exists():
        check_free(folder)
        return
    begun = _part(folder, PLAN)
    differs = difference({name: begun.get(name) for name in plan}, plan)
    if differs:
        raise ConfigError(
            "a study goes on with the source and the configuration that it began with; found in "
            f"'{folder}' another {differs}; name another folder, or remove it"
        )


def _begin(
    folder: Path, plan: dict[str, Any], data: Path, split: Split, others: dict[str, Any]
) -> None:
    """Write down what is to be done, and the data; only now is there a folder."""
    _refuse_another(folder, plan)
    if not (folder / PLAN).exists():
        write_json(plan | others, folder / PLAN)
    if not data.exists():
        save(split, data)


def _place(place: Path | None, folder: Path, config: StudyConfig) -> tuple[Path, Path | None]:
    """Return where the dataset directory is, or will be, and the world."""
    if place is not None and (place / "world.json").exists():
        config.refuse_preparation("a world")
        if not (place / "log").exists():
            raise DataError(
                f"a study of a world needs a log of it; found none in '{place}'; make it with "
                "counterplay simulate"
            )
        return place / "log", place
    if place is not None and (place / "dataset.json").exists():
        config.refuse_preparation("a dataset directory")
        return place, None
    return folder / "data", None


def _prepared(source: object, config: StudyConfig) -> Split:
    made = prepare(source, config.preparation)
    if not isinstance(made, Split):
        raise ConfigError(
            "a study needs rows to test on; found the split none; choose another split"
        )
    return made


def _trained(
    name: str, data: Path, folder: Path, split: Split, config: StudyConfig, progress: Steps
) -> Path:
    """Train a candidate, or let its training go on; return its run directory."""
    place, wanted = folder / "runs" / name, config.run(name, split)
    epochs = wanted.training.epochs
    if not (place / "run.json").exists():
        progress(f"training {name}", 0, epochs)
    with noted():  # they are in its record
        train_run(
            data,
            place,
            wanted,
            resume=True,
            callbacks=[lambda epoch: progress(f"training {name}", epoch.epoch + 1, epochs)],
            split=split,
        )
    return place


def _notes_before(folder: Path, names: Sequence[str]) -> list[str]:
    """Return the reservations of reading and training, as they were written down."""
    return [
        *_part(folder, PLAN)["notes"],
        *(
            f"{name}: {note}"
            for name in names
            for note in read_record(folder / "runs" / name)["notes"]
        ),
    ]


def _summary(split: Split, folder: Path, config: StudyConfig, world: Path | None) -> dict[str, Any]:
    evaluation = _part(folder, EVALUATION)
    truth: dict[str, dict[tuple[str, int], float]] | None = None
    if world is not None:
        truth = {}
        for each in _part(folder, ONLINE)["truth"]:
            truth.setdefault(each["arm"], {})[each["metric"], each["k"]] = each["value"]
    log = split.interactions
    return {
        "name": log.name,
        "kind": "log" if world is None else "world",
        "seed": config.seed,
        "versions": versions(),
        "configuration": config.model_dump(mode="json"),
        "candidates": list(config.names),
        "profile": profile(log).to_dict(),
        "steps": [str(step) for step in log.steps],
        "split": {
            "kind": split.kind,
            "counts": split.counts,
            "cold": split.cold_counts,
            "seen_share": split.seen_share if split.counts["test"] else None,
        },
        "verdict": verdict(evaluation, truth),
    }
