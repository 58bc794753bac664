"""Train a model on a prepared dataset and keep what came of it in a run directory."""

from __future__ import annotations

import platform
import sys
import traceback
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.data.directory import load_split
from counterplay.data.impressions import impressions_of
from counterplay.data.publishing import check_free, working_directory
from counterplay.data.shares import load_share
from counterplay.data.splits import TRAIN
from counterplay.errors import ConfigError, CounterplayError, DataError, LostWorkerError
from counterplay.evaluation.records import EstimateRecord
from counterplay.groups import ALONE, SHARDS, Group
from counterplay.learning.config import Weighted
from counterplay.learning.fitting import fit, threads_for
from counterplay.learning.methods import MADE, method_of
from counterplay.models.shares import n_parameters, whole_states
from counterplay.notes import noted, tell
from counterplay.runs.config import RunConfig, kind_of
from counterplay.runs.record import (
    CHECKPOINT,
    RECORD,
    Dataset,
    Refit,
    RunRecord,
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
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from counterplay.data.splits import Split
    from counterplay.data.user_rows import UserRows
    from counterplay.learning.fitting import Callback
    from counterplay.learning.method import Method
    from counterplay.learning.records import Epoch, Fit

_VERSIONS = ("counterplay", "numpy", "polars", "pyarrow", "torch")


def train(
    data: str | Path,
    out: str | Path,
    config: RunConfig | None = None,
    *,
    resume: bool = False,
    callbacks: Iterable[Callback] = (),
    split: Split | None = None,
    shards: int | None = None,
    group: Group = ALONE,
    own_items: bool | None = None,
    checkpoint_every: int = 1,
    refit: Refit | None = None,
) -> RunRecord:
    """Train on the dataset directory `data`, write the run directory `out`, return its record.

    The squared loss predicts ratings; with any other, every training row is a positive. With
    `resume`, an interrupted run continues and a finished one is returned, if the configuration,
    log and split are the same. `split` is the data, where they are loaded already.

    With `shards`, random streams are named by that many shards of the users, so that the workers of
    a `group`, as many as divide it, learn the same; each of them calls this function. They own the
    vectors of items with `own_items`, and all have all of them without; None is with more items
    than a worker looks up in a step. A checkpoint is written every `checkpoint_every` epochs.
    `refit` is for `counterplay.runs.refit`, with the rows of an undivided `split`.
    """
    config, folder = config or RunConfig(), Path(out)
    settings, kind = config.of_method(), kind_of({"method": config.method})
    if not isinstance(config, kind):  # with the settings of the method, as it will be read again
        config = kind(**dict(config) | {"training": settings})
    if group.size > 1 and shards is None:
        raise ConfigError(
            f"several workers need shards to divide among them; found {group.size} workers and no "
            f"shards; give shards={SHARDS}"
        )
    if checkpoint_every < 1:
        raise ConfigError(
            f"a checkpoint is written every 1 or more epochs; found {checkpoint_every}; give a "
            "number from 1"
        )
    bound = settings.n_lookups(group.size) if own_items is None else float("inf")
    owned_above = 0.0 if own_items else bound
    asked = asked_for(config, data) | ({} if shards is None else {"shards": shards})
    asked |= {} if refit is None else refit.about()
    if group.rank:  # the first worker has the folder
        assert shards is not None  # as above
        (finished,) = group.most(0.0)
        if not finished:
            split = load_share(data, group, shards, owned_above=owned_above)
            _trained(data, split, folder, config, asked, (), checkpoint_every)
        return read_record(folder)
    if not resume:
        check_free(folder)
    if resume and (folder / RECORD).exists():
        check_same(begun_with(read_record(folder)), asked, folder)
    with working_directory(folder) as place:
        if not resume:
            check_free(place)  # once more: now nobody else writes there
        group.most(float((place / RECORD).exists()))
        if (place / RECORD).exists():
            clear(place)
            return check_run(place)
        try:
            if split is None and shards is not None:
                split = load_share(data, group, shards, owned_above=owned_above)
            elif split is None:
                split = load_split(data)
            return _trained(data, split, place, config, asked, callbacks, checkpoint_every, refit)
        except (ConfigError, DataError, LostWorkerError):
            if not resume and not (place / CHECKPOINT).exists():
                clear(place)  # the same command may be given again
            raise


def _trained(
    data: str | Path,
    split: Split,
    folder: Path,
    config: RunConfig,
    asked: dict[str, Any],
    callbacks: Iterable[Callback],
    checkpoint_every: int,
    refit: Refit | None = None,
) -> RunRecord:
    """Train, or go on with what broke off; return the record."""
    train = split.train
    if config.training.loss != "squared":
        train = replace(train, rating=None)
    elif train.rating is None:
        raise DataError(
            "the squared loss needs ratings; found a dataset without; choose another loss"
        )
    streams = Streams(config.training.seed)
    kind, settings, shown = method_of(config.method), config.of_method(), None
    if isinstance(settings, Weighted) and settings.exposure_from == "impressions":
        shown = impressions_of(split, TRAIN)
    players = config.players(train, streams, shown)
    n_held_out = train.group.total(np.array([split.counts["validation"]]))
    held_out = bool(n_held_out[0])  # without, the last epoch is kept
    taught = taught_by(config.method, split)
    judge = Judge(split, train, config.validation, streams, taught=taught) if held_out else None
    first = train.group.rank == 0
    if first:
        begin(folder, asked)
    checkpoint = folder / CHECKPOINT
    with noted() as notes, _blamed(kind):
        rows = impressions_of(split, TRAIN) if kind.needs == "impressions" else train
        method = kind(players, rows, settings)
        method.impressions = shown
        found = fit(
            method, validate=judge, callbacks=callbacks, checkpoint=checkpoint,
            checkpoint_every=checkpoint_every, earlier=() if refit is None else refit.earlier,
        )  # fmt: skip
    record = _record(config, data, split, found, judge, notes, asked)
    record = record.model_copy(update={"refit": refit})
    states = whole_states(found.players, train.group)
    written: list[RunRecord] = []
    train.group.first(lambda: written.append(write_run(folder, record, states)))
    if first:
        tell(notes)
    return written[0] if written else record


def taught_by(method: str, split: Split | UserRows) -> NDArray[np.bool_] | None:
    """Return whom a method learns of by training impressions, `[n_users]`; None if it has clicks.

    Users who were shown something and clicked nothing are known to it.
    """
    if method_of(method).needs != "impressions":
        return None
    shown, part = split.unclicked, split.unclicked_part
    if shown is None or part is None:
        return None
    counts: NDArray[np.int64] = np.bincount(shown.user[part == TRAIN], minlength=shown.n_users)
    return counts > 0


def _record(
    config: RunConfig,
    data: str | Path,
    split: Split,
    fit: Fit,
    judge: Judge | None,
    notes: list[str],
    asked: dict[str, Any],
) -> RunRecord:
    estimate = None if judge is None else judge.estimate(fit.candidate)
    return RunRecord(
        configuration=config,
        seed=config.training.seed,
        versions=versions(),
        data=str(Path(data).resolve()),
        dataset=Dataset(
            name=split.interactions.name,
            fingerprint=asked["data"]["log"],
            split=split.kind,
            split_fingerprint=asked["data"]["split"],
        ),
        parameters={
            name: n_parameters(player) for name, player in fit.players.items() if name not in MADE
        },
        epochs=tuple(_told(epoch, 1 if judge is None else judge.sign) for epoch in fit.epochs),
        best_epoch=fit.best_epoch,
        earlier_epochs=fit.earlier,
        ess=fit.ess,
        stopped=fit.stopped,
        validation=None if estimate is None else EstimateRecord(**estimate),
        notes=tuple(notes),
        threads=threads_for(config.training.batch_size),
        shards=asked.get("shards"),
    )


def _told(epoch: Epoch, sign: int) -> Epoch:
    """Return an epoch for the record; of an error, learning was told the negative."""
    value = epoch.validation
    return replace(epoch, validation=None if value is None else sign * value)


def versions() -> dict[str, str]:
    """Return what results may depend on."""
    return {"python": platform.python_version()} | {name: version(name) for name in _VERSIONS}


@contextmanager
def _blamed(method: type[Method[Any]]) -> Iterator[None]:
    """Say where the code of a user's own method failed, if it did."""
    try:
        yield
    except Exception as error:
        file = getattr(sys.modules.get(method.__module__), "__file__", None)
        own = [each for each in traceback.extract_tb(error.__traceback__) if each.filename == file]
        ours = method.__module__.startswith("counterplay.") or isinstance(error, CounterplayError)
        if ours or not own:
            raise
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise ConfigError(
            f"the code of a method must run without errors; found {said} in '{own[-1].filename}', "
            f"line {own[-1].lineno}; correct it, and give the same command again"
        ) from error
