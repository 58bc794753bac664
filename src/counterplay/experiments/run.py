"""Train a model on a prepared dataset and keep what came of it in a run directory.

run.json             configuration, seed, versions, dataset, epochs, validation, notes, digests
model.safetensors    candidate, exposure model and link, at their best
begun.json           while training: the configuration and the data that it began with
checkpoint/          while training
"""

from __future__ import annotations

import platform
import shutil
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from scipy.stats import binomtest

from counterplay.data.files import check_digest, difference, digest_of, read_json, write_json
from counterplay.data.formats import first_line
from counterplay.data.publishing import check_free, new_file, working_directory
from counterplay.data.store import describe, load_split
from counterplay.errors import CheckpointError, DataError
from counterplay.evaluation.ranks import ranks_of_first, sampled_candidates
from counterplay.evaluation.scoring import ModelScores
from counterplay.experiments.config import RunConfig
from counterplay.experiments.notes import noted, tell
from counterplay.learning.erm import erm
from counterplay.learning.fitting import threads_for
from counterplay.learning.game import acl
from counterplay.learning.propensity import ps
from counterplay.models.link import Link
from counterplay.seeding import Streams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np
    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.data.splits import Split
    from counterplay.learning.config import Game, Weighted
    from counterplay.learning.fitting import Callback
    from counterplay.learning.records import Fit
    from counterplay.models.scorer import Scorer

FORMAT = 2
RECORD, MODEL, _BEGUN, _CHECKPOINT = "run.json", "model.safetensors", "begun.json", "checkpoint"
_KEYS = {"configuration": dict, "dataset": dict, "data": str, "epochs": list, "files": dict}
_REMEDY = "train again"
_VERSIONS = ("counterplay", "numpy", "polars", "pyarrow", "torch")


def train_run(
    data: str | Path,
    out: str | Path,
    config: RunConfig | None = None,
    *,
    resume: bool = False,
    callbacks: Iterable[Callback] = (),
) -> dict[str, Any]:
    """Train on the dataset directory `data`, write the run directory `out`, return its record.

    Ratings are predicted with the squared loss; with any other, every training row is a positive.
    With `resume`, what broke off in `out` goes on, and what is finished is not done again; either
    must have begun with the same configuration, log and split.
    """
    config, folder = config or RunConfig(), Path(out)
    config.of_method()
    if not resume:
        check_free(folder)
    asked = _asked(config, data)
    if resume and (folder / RECORD).exists():
        _check_same(_begun_with(read_record(folder)), asked, folder)
    with working_directory(folder) as place:
        if resume and (place / RECORD).exists():
            _clear(place)
            return read_record(place)
        return _trained(data, place, config, asked, callbacks)


def _trained(
    data: str | Path,
    folder: Path,
    config: RunConfig,
    asked: dict[str, Any],
    callbacks: Iterable[Callback],
) -> dict[str, Any]:
    """Train, or go on with what broke off; return the record."""
    split = load_split(data)
    train = split.train
    if config.training.loss != "squared":
        train = replace(train, rating=None)
    elif train.rating is None:
        raise DataError(
            "the squared loss needs ratings; found a dataset without; choose another loss"
        )
    streams = Streams(config.training.seed)
    candidate = config.candidate.build(train, streams.torch("initial", "candidate"))
    exposure = config.exposure.build(train, streams.torch("initial", "exposure"))
    judge = _judge(split, config, streams)
    _begin(folder, asked)
    with noted() as notes:
        fit = _fit(config, candidate, exposure, train, judge, callbacks, folder / _CHECKPOINT)
    record = _record(config, data, split, fit, judge) | {"notes": notes}
    record = {"format": FORMAT, **record, "threads": threads_for(config.training.batch_size)}
    record["files"] = _write(folder, record, fit)
    tell(notes)
    return record


def read_record(directory: str | Path) -> dict[str, Any]:
    """Return the record of a finished run."""
    folder = Path(directory)
    try:
        exists = (folder / RECORD).is_file()
    except OSError:
        exists = False
    if not exists:
        found, remedy = "none", "train with counterplay train, or let it go on with --resume"
        runs = sorted(each.parent.name for each in folder.glob("runs/*/run.json"))
        if runs:
            found = "a study with " + ", ".join(runs)
            remedy = f"name one of its runs, such as '{folder / 'runs' / runs[0]}'"
        elif not folder.is_dir():
            found, remedy = "no folder", "name another"
        raise DataError(
            f"a run directory must hold a readable run.json; found {found} in '{directory}'; "
            f"{remedy}"
        )
    record = read_json(folder / RECORD, "the record of a run", remedy=_REMEDY, format=FORMAT)
    wrong = [key for key, kind in _KEYS.items() if not isinstance(record.get(key), kind)]
    if not wrong:
        try:
            RunConfig.model_validate(record["configuration"])
        except ValidationError as error:
            wrong = ["configuration", *map(str, error.errors()[0]["loc"])]
    if wrong:
        raise DataError(
            f"run.json must be the record of a run; found no {'.'.join(wrong)} that is one in "
            f"'{directory}'; {_REMEDY}"
        )
    return record


def load_run(
    directory: str | Path, train: Interactions
) -> tuple[Scorer, Scorer | None, Link | None]:
    """Return the candidate, the exposure model and the link of a run on its training rows."""
    record, path = read_record(directory), Path(directory) / MODEL
    config = RunConfig.model_validate(record["configuration"])
    check_digest(path, record["files"], remedy=_REMEDY)
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise DataError(
            f"a run directory must hold a readable model.safetensors; found in '{directory}' "
            f"{error}; {_REMEDY}"
        ) from None
    streams = Streams(config.training.seed)
    candidate = config.candidate.build(train, streams.torch("initial", "candidate"))
    exposure = config.exposure.build(train, streams.torch("initial", "exposure"))
    link = Link(**config.training.link_options())
    for name, player in (("candidate", candidate), ("exposure", exposure), ("link", link)):
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
                    f"others ({first_line(error)}); {_REMEDY}"
                ) from None
        player.eval()
    plain = config.method == "erm"
    return candidate, None if plain else exposure, None if plain else link


def _fit(
    config: RunConfig,
    candidate: Scorer,
    exposure: Scorer,
    train: Interactions,
    judge: Callable[[Scorer], NDArray[np.bool_]] | None,
    callbacks: Iterable[Callback],
    checkpoint: Path,
) -> Fit:
    how: Any = config.of_method()
    watched: dict[str, Any] = {
        "validate": None if judge is None else lambda model: float(judge(model).mean()),
        "callbacks": callbacks,
        "checkpoint": checkpoint,
    }
    if config.method == "erm":
        return erm(candidate, train, how, **watched)
    if config.method == "ps":
        return ps(candidate, exposure, train, cast("Weighted", how), **watched)
    return acl(candidate, exposure, train, cast("Game", how), **watched)


def _judge(
    split: Split, config: RunConfig, streams: Streams
) -> Callable[[Scorer], NDArray[np.bool_]] | None:
    """Return what tells which validation targets a model ranks among its first k; never the test.

    Without validation rows, or for ratings, there is none, and the last epoch is kept.
    """
    targets = split.validation
    if not len(targets) or config.training.loss == "squared":
        return None
    rng = streams.numpy("validation")
    items = sampled_candidates(split.train, targets, config.validation.n_negatives, rng)

    def judge(model: Scorer) -> NDArray[np.bool_]:
        scores = ModelScores(model, split.train).of(targets.user, items)
        return ranks_of_first(scores) <= config.validation.k

    return judge


def _record(
    config: RunConfig,
    data: str | Path,
    split: Split,
    fit: Fit,
    judge: Callable[[Scorer], NDArray[np.bool_]] | None,
) -> dict[str, Any]:
    players = {"candidate": fit.candidate, "exposure": fit.exposure}
    return {
        "configuration": config.model_dump(mode="json"),
        "seed": config.training.seed,
        "versions": versions(),
        "data": str(Path(data).resolve()),
        "dataset": {
            "name": split.interactions.name,
            "fingerprint": split.interactions.fingerprint,
            "split": split.kind,
            "split_fingerprint": split.fingerprint,
        },
        "parameters": {
            name: sum(value.numel() for value in player.parameters())
            for name, player in players.items()
            if player is not None
        },
        "epochs": [epoch.to_dict() for epoch in fit.epochs],
        "best_epoch": fit.best_epoch,
        "stopped": fit.stopped,
        "validation": None if judge is None else _hits(judge, fit.candidate, config),
    }


def versions() -> dict[str, str]:
    """Return what results may depend on."""
    return {"python": platform.python_version()} | {name: version(name) for name in _VERSIONS}


def _hits(
    judge: Callable[[Scorer], NDArray[np.bool_]], candidate: Scorer, config: RunConfig
) -> dict[str, Any]:
    """Return Hit@k on the validation rows with its Wilson interval."""
    hits = judge(candidate)
    interval = binomtest(int(hits.sum()), len(hits)).proportion_ci(0.95, method="wilson")
    return {
        "metric": "hit",
        "k": config.validation.k,
        "estimator": "standard",
        "protocol": f"sampled-{config.validation.n_negatives}",
        "value": float(hits.mean()),
        "low": float(interval.low),
        "high": float(interval.high),
        "level": 0.95,
        "n": len(hits),
    }


def _asked(config: RunConfig, data: str | Path) -> dict[str, Any]:
    """Return what a run is about, as plain values: all of its configuration, the log, the split."""
    described = describe(data)
    split = described["split"] or {}
    return {
        **config.model_dump(mode="json"),
        "data": {"log": described["fingerprint"], "split": split.get("fingerprint")},
    }


def _begun_with(record: dict[str, Any]) -> dict[str, Any]:
    """Return what a finished run was about, in the same form."""
    dataset = record["dataset"]
    data = {"log": dataset.get("fingerprint"), "split": dataset.get("split_fingerprint")}
    return {**record["configuration"], "data": data}


def _begin(folder: Path, asked: dict[str, Any]) -> None:
    """Write down what a run is about, or refuse to go on with one that is about something else."""
    path = folder / _BEGUN
    if path.exists():
        remedy = "remove its folder and begin again"
        try:
            begun = read_json(path, "what a run began with", remedy=remedy, format=FORMAT)
        except DataError as error:
            raise CheckpointError(str(error)) from None
        _check_same(begun["about"], asked, folder)
    elif (folder / _CHECKPOINT).exists():
        raise CheckpointError(
            f"a run that goes on must say what it began with; found no begun.json in '{folder}'; "
            "remove its folder and begin again"
        )
    else:
        write_json({"format": FORMAT, "about": asked}, path)


def _check_same(begun: dict[str, Any], asked: dict[str, Any], folder: Path) -> None:
    differs = difference(begun, asked)
    if differs:
        raise CheckpointError(
            f"a run goes on with what it began with; found in '{folder}' another {differs}; give "
            "the same, or name another folder"
        )


def _clear(folder: Path) -> None:
    """Remove what was there only to go on."""
    shutil.rmtree(folder / _CHECKPOINT, ignore_errors=True)
    (folder / _BEGUN).unlink(missing_ok=True)


def _write(folder: Path, record: dict[str, Any], fit: Fit) -> dict[str, str]:
    """Write the model, then the record, then remove the checkpoint: each file whole or not.

    Returns the digest of the model, which is in the record.
    """
    tensors = {
        f"{name}.{key}": value.detach().cpu().contiguous().clone()
        for name, player in (
            ("candidate", fit.candidate),
            ("exposure", fit.exposure),
            ("link", fit.link),
        )
        if player is not None
        for key, value in player.state_dict().items()
    }
    with new_file(folder / MODEL) as path:
        save_file(tensors, path)
    files = {MODEL: digest_of(folder / MODEL)}
    write_json(record | {"files": files}, folder / RECORD)
    _clear(folder)
    return files
