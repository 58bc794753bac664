"""Train a model on a prepared dataset and keep what came of it in a run directory."""

from __future__ import annotations

import platform
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterplay.data.directory import load_split
from counterplay.data.publishing import check_free, working_directory
from counterplay.errors import DataError
from counterplay.learning.fitting import fit, threads_for
from counterplay.learning.methods import method_of
from counterplay.notes import noted, tell
from counterplay.runs.config import RunConfig
from counterplay.runs.record import (
    CHECKPOINT,
    FORMAT,
    RECORD,
    asked_for,
    begin,
    begun_with,
    check_run,
    check_same,
    clear,
    write_run,
)
from counterplay.runs.record import load_run as load_run
from counterplay.runs.record import read_record as read_record
from counterplay.runs.validating import Judge
from counterplay.seeding import Streams

if TYPE_CHECKING:
    from collections.abc import Iterable

    from counterplay.data.splits import Split
    from counterplay.learning.fitting import Callback
    from counterplay.learning.records import Epoch, Fit

_VERSIONS = ("counterplay", "numpy", "polars", "pyarrow", "torch")


def train_run(
    data: str | Path,
    out: str | Path,
    config: RunConfig | None = None,
    *,
    resume: bool = False,
    callbacks: Iterable[Callback] = (),
    split: Split | None = None,
) -> dict[str, Any]:
    """Train on the dataset directory `data`, write the run directory `out`, return its record.

    Ratings are predicted with the squared loss; with any other, every training row is a positive.
    With `resume`, what broke off in `out` goes on, and what is finished is not done again; either
    must have begun with the same configuration, log and split. Whoever has the data loaded already
    hands them on as `split`.
    """
    config, folder = config or RunConfig(), Path(out)
    config.of_method()
    if not resume:
        check_free(folder)
    asked = asked_for(config, data)
    if resume and (folder / RECORD).exists():
        check_same(begun_with(read_record(folder)), asked, folder)
    with working_directory(folder) as place:
        if not resume:
            check_free(place)  # once more: now nobody else writes there
        elif (place / RECORD).exists():
            clear(place)
            return check_run(place)
        return _trained(data, split or load_split(data), place, config, asked, callbacks)


def _trained(
    data: str | Path,
    split: Split,
    folder: Path,
    config: RunConfig,
    asked: dict[str, Any],
    callbacks: Iterable[Callback],
) -> dict[str, Any]:
    """Train, or go on with what broke off; return the record."""
    train = split.train
    if config.training.loss != "squared":
        train = replace(train, rating=None)
    elif train.rating is None:
        raise DataError(
            "the squared loss needs ratings; found a dataset without; choose another loss"
        )
    streams = Streams(config.training.seed)
    players = config.players(train, streams)
    held_out = bool(split.counts["validation"])  # without, the last epoch is kept
    judge = Judge(split, train, config.validation, streams) if held_out else None
    begin(folder, asked)
    with noted() as notes:
        method = method_of(config.method)(players, train, config.of_method())
        checkpoint = folder / CHECKPOINT
        found = fit(method, validate=judge, callbacks=callbacks, checkpoint=checkpoint)
    record = _record(config, data, split, found, judge) | {"notes": notes}
    record = {"format": FORMAT, **record, "threads": threads_for(config.training.batch_size)}
    record["files"] = write_run(folder, record, found)
    tell(notes)
    return record


def _record(
    config: RunConfig,
    data: str | Path,
    split: Split,
    fit: Fit,
    judge: Judge | None,
) -> dict[str, Any]:
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
            for name, player in fit.players.items()
            if name != "link"
        },
        "epochs": [_told(epoch, 1 if judge is None else judge.sign) for epoch in fit.epochs],
        "best_epoch": fit.best_epoch,
        "ess": fit.ess,
        "stopped": fit.stopped,
        "validation": None if judge is None else judge.estimate(fit.candidate),
    }


def _told(epoch: Epoch, sign: int) -> dict[str, Any]:
    """Return an epoch as plain values; of an error, learning was told the negative."""
    value = epoch.validation
    return epoch.to_dict() | {"validation": None if value is None else sign * value}


def versions() -> dict[str, str]:
    """Return what results may depend on."""
    return {"python": platform.python_version()} | {name: version(name) for name in _VERSIONS}
