"""What a study is of, where its data are, and with what it began; what is left to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterplay.data.directory import save
from counterplay.data.files import difference, digest_of, write_json
from counterplay.data.publishing import check_free
from counterplay.data.sources import is_place, local_path
from counterplay.errors import ConfigError, DataError
from counterplay.places import check_log
from counterplay.progress import Work
from counterplay.study.records import EVALUATION, PLAN, Plan, read_part

if TYPE_CHECKING:
    from pathlib import Path

    from counterplay.data.splits import Split
    from counterplay.evaluation.settings import Evaluation
    from counterplay.study.config import StudyConfig

_BACK_AND_FORTH = 3  # what learning from a score costs, in scores


def plan_of(source: object, place: Path | None, config: StudyConfig) -> Plan:
    """Return what is to be done, and of which files."""
    if place is not None:
        check_log(place)
    beside = (config.random_rows, config.preparation.impressions)
    several = [local_path(each) for each in source] if isinstance(source, list | tuple) else []
    files = (place, *several, *config.scores.values(), *beside)
    given = [each for each in files if each is not None]
    named = None if place is None else str(place.resolve())
    if place is None and is_place(source):
        places = source if isinstance(source, list | tuple) else [source]
        named = ", ".join(map(str, places))
    return Plan(
        source=named,
        files={str(each.resolve()): digest_of(each) for each in given if each.is_file()},
        configuration=config.model_dump(mode="json"),
    )


def stages_left(
    folder: Path, config: StudyConfig, split: Split, how: Evaluation
) -> dict[str, Work]:
    """Return the stages that are left and take long, measured in scores that are computed."""
    plan, n_targets = {}, split.counts[how.part]
    for name in config.names:
        wanted = config.run(name, split).training
        if wanted.epochs > 1 and not (folder / "runs" / name / "run.json").exists():
            scores = len(split.train) * (1 + wanted.n_negatives) * _BACK_AND_FORTH
            plan[f"training {name}"] = Work("training", float(wanted.epochs * scores))
    if not (folder / EVALUATION).exists() and config.feedback == "clicks":
        cost = float(n_targets * split.interactions.n_items)
        names = (*config.names, *config.scores)
        plan |= {f"ranking by {name}": Work("ranking", cost) for name in names}
    return plan


def refuse_another(folder: Path, plan: Plan) -> Plan | None:
    """Refuse a folder where something else was begun, or lies; return what was begun."""
    if not (folder / PLAN).exists():
        check_free(folder)
        return None
    begun, about = read_part(Plan, folder / PLAN), {"source", "files", "configuration"}
    since = plan.configuration | begun.configuration  # settings that there were none of then
    begun = begun.model_copy(update={"configuration": since})
    if plan.log is not None:
        about.add("log")
    differs = difference(begun.model_dump(include=about), plan.model_dump(include=about))
    if differs:
        raise ConfigError(
            "a study goes on with the source and the configuration that it began with; found in "
            f"'{folder}' another {differs}; name another folder, or remove it"
        )
    return begun


def begin(folder: Path, plan: Plan, data: Path, split: Split) -> Plan:
    """Write down what is to be done, and the data; only now is there a folder."""
    begun = refuse_another(folder, plan)
    if begun is None:
        write_json(plan.to_dict(), folder / PLAN)
    if not data.exists():
        save(split, data)
    return begun or plan


def place_of(place: Path | None, folder: Path, config: StudyConfig) -> tuple[Path, Path | None]:
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
