"""Train a model on a prepared dataset and keep what came of it in a run directory.

run.json             configuration, seed, versions, dataset, epochs, validation, notes
model.safetensors    candidate, exposure model and link, at their best
checkpoint/          while training
"""

from __future__ import annotations

import json
import platform
import shutil
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from counterplay.data.files import check_free, write_json
from counterplay.data.store import load_split
from counterplay.errors import DataError
from counterplay.experiments.config import RunConfig
from counterplay.experiments.notes import noted, tell
from counterplay.experiments.validating import Judge
from counterplay.learning.erm import erm
from counterplay.learning.game import acl
from counterplay.learning.propensity import ps
from counterplay.models.link import Link
from counterplay.seeding import Streams

if TYPE_CHECKING:
    from collections.abc import Iterable

    from counterplay.data.interactions import Interactions
    from counterplay.data.splits import Split
    from counterplay.learning.config import Game, Weighted
    from counterplay.learning.fitting import Callback
    from counterplay.learning.records import Epoch, Fit
    from counterplay.models.scorer import Scorer

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
    """
    config, folder = config or RunConfig(), Path(out)
    config.of_method()
    if resume and (folder / "run.json").exists():
        return read_record(folder)
    if not resume:
        check_free(folder)
    split = load_split(data)
    train = split.train
    if config.training.loss != "squared":
        train = replace(train, rating=None)
        config.validation.check(train.n_items)
    elif train.rating is None:
        raise DataError(
            "the squared loss needs ratings; found a dataset without; choose another loss"
        )
    streams = Streams(config.training.seed)
    candidate, exposure = _players(config, train, streams)
    held_out = bool(split.counts["validation"])  # without, the last epoch is kept
    judge = Judge(split, train, config.validation, streams) if held_out else None
    folder.mkdir(parents=True, exist_ok=True)
    with noted() as notes:
        fit = _fit(config, candidate, exposure, train, judge, callbacks, folder / "checkpoint")
    record = _record(config, data, split, fit, judge) | {"notes": notes}
    _write(folder, record, fit)
    tell(notes)
    return record


def read_record(directory: str | Path) -> dict[str, Any]:
    """Return the record of a finished run."""
    folder = Path(directory)
    try:
        record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
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
        ) from None
    if not isinstance(record, dict) or not record.keys() >= {"configuration", "dataset", "data"}:
        raise DataError(
            f"run.json must be the record of a run; found something else in '{directory}'; train "
            "again"
        )
    return record


def load_run(
    directory: str | Path, train: Interactions
) -> tuple[Scorer, Scorer | None, Link | None]:
    """Return the candidate, the exposure model and the link of a run on its training rows."""
    config = RunConfig.model_validate(read_record(directory)["configuration"])
    try:
        tensors = load_file(Path(directory) / "model.safetensors")
    except (OSError, SafetensorError) as error:
        raise DataError(
            f"a run directory must hold a readable model.safetensors; found in '{directory}' "
            f"{error}; train again"
        ) from None
    candidate, exposure = _players(config, train, Streams(config.training.seed))
    link = None if exposure is None else Link(**config.training.link_options())
    for name, player in (("candidate", candidate), ("exposure", exposure), ("link", link)):
        if player is None:
            continue
        state = {
            key.removeprefix(f"{name}."): value
            for key, value in tensors.items()
            if key.startswith(f"{name}.")
        }
        if state or name == "candidate":
            player.load_state_dict(state)
        player.eval()
    return candidate, exposure, link


def _players(
    config: RunConfig, train: Interactions, streams: Streams
) -> tuple[Scorer, Scorer | None]:
    """Return a fresh candidate and exposure model, which plain learning has none of."""
    candidate = config.candidate.build(train, streams.torch("initial", "candidate"))
    if config.method == "erm":
        return candidate, None
    return candidate, config.exposure.build(train, streams.torch("initial", "exposure"))


def _fit(
    config: RunConfig,
    candidate: Scorer,
    exposure: Scorer | None,
    train: Interactions,
    judge: Judge | None,
    callbacks: Iterable[Callback],
    checkpoint: Path,
) -> Fit:
    how: Any = config.of_method()
    watched: dict[str, Any] = {
        "validate": judge,
        "callbacks": callbacks,
        "checkpoint": checkpoint,
    }
    if exposure is None:
        return erm(candidate, train, how, **watched)
    if config.method == "ps":
        return ps(candidate, exposure, train, cast("Weighted", how), **watched)
    return acl(candidate, exposure, train, cast("Game", how), **watched)


def _record(
    config: RunConfig,
    data: str | Path,
    split: Split,
    fit: Fit,
    judge: Judge | None,
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
        "epochs": [_told(epoch, 1 if judge is None else judge.sign) for epoch in fit.epochs],
        "best_epoch": fit.best_epoch,
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


def _write(folder: Path, record: dict[str, Any], fit: Fit) -> None:
    """Write the model, then the record, then remove the checkpoint: each file whole or not."""
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
    save_file(tensors, folder / "model.safetensors.part")
    (folder / "model.safetensors.part").replace(folder / "model.safetensors")
    write_json(record, folder / "run.json")
    shutil.rmtree(folder / "checkpoint", ignore_errors=True)
