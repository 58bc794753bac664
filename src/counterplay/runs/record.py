"""Run directories: what a training leaves on disk, and what it goes on from.

run.json             configuration, seed, versions, dataset, epochs, validation, notes, digests
model.safetensors    candidate, exposure model and link, at their best
begun.json           while training: the configuration and the data that it began with
checkpoint/          while training
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import Field, ValidationError, field_serializer

from counterplay.data.directory import describe
from counterplay.data.files import check_digest, difference, digest_of, read_json, write_json
from counterplay.data.publishing import new_file
from counterplay.data.refusals import first_line
from counterplay.display import Shown, pairs
from counterplay.errors import CheckpointError, DataError
from counterplay.evaluation.records import EstimateRecord, Number, Record, Text
from counterplay.learning.methods import method_of
from counterplay.learning.records import Epoch
from counterplay.places import check_finished
from counterplay.runs.config import RunConfig, config_of
from counterplay.seeding import Streams

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor, nn

    from counterplay.data.interactions import Interactions
    from counterplay.learning.config import Weighted
    from counterplay.models.link import Link
    from counterplay.models.scorer import Scorer

FORMAT = 2
RECORD, MODEL, CHECKPOINT, _BEGUN = "run.json", "model.safetensors", "checkpoint", "begun.json"
_AGAIN, _ANEW = "train again", "remove its folder and begin again"


class Dataset(Record):
    """What a run was trained on."""

    name: Text
    fingerprint: str
    split: str
    split_fingerprint: str


class Refit(Record):
    """What a run on all rows of a log was made of.

    Attributes:
        run: The run whose settings it has, which kept some rows back.
        weights: The digest of that run's weights.
        epochs: As many as led to what that run kept.
        earlier: The same of what is learnt beforehand, such as an exposure model, latest first.
        rows: Rows of the log, all of them.
    """

    run: Text
    weights: str
    epochs: int
    earlier: tuple[int, ...]
    rows: int

    def about(self) -> dict[str, Any]:
        """Return what it must have in common with what it goes on from; places may change."""
        return {"refit": self.model_dump(mode="json", exclude={"run"})}


class RunRecord(Shown, Record):
    """What came of a training: run.json."""

    format: int = FORMAT
    configuration: RunConfig
    seed: int
    versions: dict[str, str]
    data: Text
    dataset: Dataset
    parameters: dict[str, int]
    epochs: tuple[Epoch, ...]
    best_epoch: int
    earlier_epochs: tuple[int, ...] = ()  # kept of what was learnt beforehand, latest first
    ess: Number
    stopped: str
    validation: EstimateRecord | None
    notes: tuple[Text, ...] = ()
    threads: int
    shards: int | None = None  # of users, where several workers may train
    refit: Refit | None = None  # where no row was kept back
    files: dict[str, str] = Field(default_factory=dict)

    @field_serializer("configuration")
    def _plain(self, configuration: RunConfig) -> dict[str, Any]:
        return configuration.model_dump(mode="json")  # of the method's own kind

    def _title(self) -> str:
        return (
            f"of {self.configuration.method} on {self.dataset.name!r}: {len(self.epochs)} epochs, "
            f"the best is {self.best_epoch}; {self.stopped}"
        )

    def _columns(self) -> dict[str, list[object]]:
        return pairs({} if self.validation is None else self.validation.to_dict())

    def model_of(self, role: str) -> str:
        """Return the name of the model that plays a role."""
        settings = getattr(self.configuration, role, None)
        return role if settings is None else str(settings.name)

    @property
    def predicts_ratings(self) -> bool:
        """Whether the run predicts ratings; else it ranks."""
        return self.configuration.training.loss == "squared"


def read_record(directory: str | Path, *, remedy: str = _AGAIN) -> RunRecord:
    """Return the record of a finished run."""
    folder = Path(directory)
    check_finished(folder)
    values = read_json(folder / RECORD, "the record of a run", remedy=remedy, format=FORMAT)
    given: Any = values.get("configuration")
    within = ["configuration"]
    try:
        if isinstance(given, dict):
            values["configuration"] = config_of(given)  # of the method's own kind
        within = []
        return RunRecord.model_validate(values)
    except ValidationError as error:
        if within and ":" in str(given.get("method")):
            method_of(str(given["method"]))  # which says what is missing
        wrong = ".".join([*within, *map(str, error.errors()[0]["loc"])])
        raise DataError(
            f"run.json must be the record of a run; found no {wrong} that is one in "
            f"'{directory}'; {remedy}"
        ) from None


def check_run(directory: str | Path, *, remedy: str = _AGAIN) -> RunRecord:
    """Return the record of a finished run whose weights are as they were written."""
    record = read_record(directory, remedy=remedy)
    check_digest(Path(directory) / MODEL, record.files, remedy=remedy)
    return record


def load_run(
    directory: str | Path, train: Interactions
) -> tuple[Scorer, Scorer | None, Link | None]:
    """Return the candidate, the exposure model and the link of a run on its training rows."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    from counterplay.models.link import Link

    record, path = check_run(directory), Path(directory) / MODEL
    config = record.configuration
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise DataError(
            f"a run directory must hold a readable model.safetensors; found in '{directory}' "
            f"{error}; {_AGAIN}"
        ) from None
    models = config.players(train, Streams(config.training.seed))
    link = None
    if "link" in method_of(config.method).roles:
        link = Link(**cast("Weighted", config.training).link_options())
    players: dict[str, nn.Module] = {**models, **({"link": link} if link is not None else {})}
    for name, player in players.items():
        state = {
            key.removeprefix(f"{name}."): value
            for key, value in tensors.items()
            if key.startswith(f"{name}.")
        }
        if state or name == "candidate":
            try:
                player.load_state_dict(state)
            except RuntimeError as error:
                raise DataError(
                    f"'{path}' must hold the weights of its run's {name} for these data; found "
                    f"others ({first_line(error)}); {_AGAIN}"
                ) from None
        player.eval()
    return models["candidate"], models.get("exposure"), link


def asked_for(config: RunConfig, data: str | Path) -> dict[str, Any]:
    """Return what a run is about, as plain values: all of its configuration, the log, the split."""
    described = describe(data)
    split = described["split"] or {}
    return {
        **config.model_dump(mode="json"),
        "data": {"log": described["fingerprint"], "split": split.get("fingerprint")},
    }


def data_of(run: str | Path, record: RunRecord, data: str | Path | None = None) -> Path:
    """Return where the data of a run are: `data`, where it found them, or in its study."""
    if data is not None:
        return Path(data)
    places = Path(record.data), Path(run).resolve().parent.parent / "data"  # a study may move
    for place in places:
        if place.exists():
            return place
    raise DataError(
        f"the data of a run must be where it was trained on them; found nothing at "
        f"'{record.data}'; say with --data where they are now"
    )


def is_begun(folder: Path) -> bool:
    """Tell whether a run was begun in a folder, finished or not."""
    return any((folder / name).exists() for name in (RECORD, _BEGUN, CHECKPOINT))


def begun_with(record: RunRecord) -> dict[str, Any]:
    """Return what a finished run was about, in the same form."""
    data = {"log": record.dataset.fingerprint, "split": record.dataset.split_fingerprint}
    shards = {} if record.shards is None else {"shards": record.shards}
    refit = {} if record.refit is None else record.refit.about()
    return {**record.configuration.model_dump(mode="json"), "data": data} | shards | refit


def begin(folder: Path, asked: dict[str, Any]) -> None:
    """Write down what a run is about, or refuse to go on with one that is about something else."""
    path = folder / _BEGUN
    if path.exists():
        try:
            begun = read_json(path, "what a run began with", remedy=_ANEW, format=FORMAT)
        except DataError as error:
            raise CheckpointError(str(error)) from None
        check_same(begun.get("about", {}), asked, folder)
    elif (folder / CHECKPOINT).exists():
        raise CheckpointError(
            f"a run that goes on must say what it began with; found no begun.json in '{folder}'; "
            f"{_ANEW}"
        )
    else:
        write_json({"format": FORMAT, "about": asked}, path)


def check_same(begun: dict[str, Any], asked: dict[str, Any], folder: Path) -> None:
    """Refuse to go on with other settings or data than a run began with; name the first."""
    differs = difference(begun, asked)
    if differs:
        raise CheckpointError(
            f"a run goes on with what it began with; found in '{folder}' another {differs}; give "
            "the same, or name another folder"
        )


def clear(folder: Path) -> None:
    """Remove what was there only to go on."""
    shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)
    (folder / _BEGUN).unlink(missing_ok=True)


def write_run(folder: Path, record: RunRecord, states: Mapping[str, Tensor]) -> RunRecord:
    """Write the model, then the record, then remove the checkpoint: each file whole or not.

    Returns the record with the digest of the model.
    """
    from safetensors.torch import save_file

    tensors = {name: value.detach().cpu().contiguous().clone() for name, value in states.items()}
    with new_file(folder / MODEL) as path:
        save_file(tensors, path)
    record = record.model_copy(update={"files": {MODEL: digest_of(folder / MODEL)}})
    write_json(record.to_dict(), folder / RECORD)
    clear(folder)
    return record
