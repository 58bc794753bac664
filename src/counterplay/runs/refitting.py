"""Train a run once more on all rows of its log, those that were kept back too.

What is chosen is chosen: no row is needed to stop by or to judge by, and a model that is put to use
should know them all. Settings are those of the run, and there are as many epochs as led to what it
kept. Nothing can be said of the result by rows of the same log, so evaluations refuse it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from counterplay.data.directory import load_split
from counterplay.data.publishing import check_free
from counterplay.errors import DataError
from counterplay.learning.methods import method_of
from counterplay.runs import training
from counterplay.runs.candidates import check_trained_on
from counterplay.runs.config import RunConfig, kind_of
from counterplay.runs.record import MODEL, Refit, check_run, data_of, is_begun

if TYPE_CHECKING:
    from collections.abc import Iterable

    from counterplay.learning.fitting import Callback
    from counterplay.runs.record import RunRecord


def refit(
    run: str | Path,
    out: str | Path,
    *,
    data: str | Path | None = None,
    callbacks: Iterable[Callback] = (),
) -> RunRecord:
    """Train a run once more, on all rows of its log; write the run directory `out`.

    One that broke off goes on, and a finished one is returned. Random rows are never trained on.

    Args:
        run: Run directory.
        out: Directory to write.
        data: Dataset directory; by default the run's own.
        callbacks: Called after each epoch.
    """
    record, folder = check_run(run), Path(out)
    if record.refit is not None:
        raise DataError(
            f"a refit is of a run that kept rows back; found that '{run}' has learnt from all of "
            f"them; use it as it is, or refit '{record.refit.run}'"
        )
    begun = is_begun(folder)
    if not begun:
        check_free(folder)
    place = data_of(run, record, data)
    split = load_split(place)
    check_trained_on(run, record, split, use="refitted on")
    made_of = Refit(
        run=str(Path(run).resolve()),
        weights=record.files[MODEL],
        epochs=_n_epochs(record.best_epoch),
        earlier=tuple(map(_n_epochs, record.earlier_epochs)),
        rows=len(split.interactions),
    )
    config = _config(record.configuration, made_of.epochs)
    return training.train(
        place, folder, config, resume=begun, callbacks=callbacks, split=split.undivided(),
        refit=made_of,
    )  # fmt: skip


def _n_epochs(kept: int) -> int:
    """Return how many epochs led to the one that was kept; -1 where none was better than chance."""
    return max(kept, 0) + 1


def _config(config: RunConfig, epochs: int) -> RunConfig:
    """Return the same settings with so many epochs, none fewer."""
    known = method_of(config.method).settings.model_fields  # a record has the others' defaults too
    given = {name: getattr(config.training, name) for name in known} | {"epochs": epochs}
    if "stop_by" in given:
        given["stop_by"] = "patience"  # which asks rows that are kept back: there are none
    settings = type(config.training)(**given)
    return kind_of({"method": config.method})(**dict(config) | {"training": settings})
