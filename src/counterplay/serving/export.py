"""Export a trained candidate: vectors, an index of them, ONNX, each checked against the model.

export.json      model, dataset, how a score is computed, what was checked, the files' digests
users, items     vectors with their ids (.parquet), or vectors alone (.npy)
user_ids, …      ids of the rows, where the vectors are without, or there are none
items.usearch    an index of the item vectors
model.onnx       the model itself
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from counterplay.data.files import digests_of, sealed
from counterplay.data.publishing import check_free, new_directory
from counterplay.errors import ConfigError
from counterplay.models.solved import FromOwnItems
from counterplay.seeding import Streams
from counterplay.serving.checking import agreement
from counterplay.serving.onnx import check_onnx, onnx_scores, write_onnx
from counterplay.serving.recommend import load_trained
from counterplay.serving.vectors import (
    VectorFormat,
    check_ann,
    read_vectors,
    vectors_of,
    write_ids,
    write_index,
    write_vectors,
)

if TYPE_CHECKING:
    from counterplay.serving.recommend import Trained

_PAIRS = 256, 64  # users and items each that are compared
_ONNX = "model.onnx"
_SCORE = "the inner product of a user's and an item's vector"
_BIAS = ", plus the user's bias, which does not change the order"


def export_run(
    run: str | Path,
    out: str | Path,
    *,
    data: str | Path | None = None,
    format: VectorFormat = "parquet",  # noqa: A002 - the word that everybody looks for
    ann: bool = False,
    onnx: bool = False,
) -> dict[str, Any]:
    """Write the export directory `out`, all of it or nothing; return what its export.json says.

    Args:
        run: Run directory.
        out: Directory to write; must be new.
        data: Dataset directory; by default the run's own.
        format: Of the vectors, which are written where the model has them.
        ann: Write an index of the item vectors too.
        onnx: Write the model as ONNX too.
    """
    if format not in get_args(VectorFormat):
        raise ConfigError(
            f"format must be one of {', '.join(get_args(VectorFormat))}; found {format!r}; choose "
            "one of them"
        )
    check_free(Path(out))
    if onnx:  # before the index: loaded the other way round, the two packages may crash
        check_onnx()
    if ann:
        check_ann()
    trained = load_trained(run, data)
    model, log = trained.model, trained.log
    described = _described(trained)
    if isinstance(model, FromOwnItems):
        raise ConfigError(
            "an export needs a model with a vector or a layer for each user and item; found "
            f"{described['model']}, which adds up over a user's own items; write its lists with "
            "counterplay recommend, or export ials"
        )
    vectors = vectors_of(model, log, trained.fallback)
    if vectors is None and (ann or not onnx):
        raise ConfigError(
            "vectors need a score that is an inner product (pop, cf, gmf, attn, ials); found "
            f"{described['model']}; export it with --onnx, without an index"
        )
    streams, scores = Streams(trained.record.seed), trained.scores
    rng = streams.numpy("export", "pairs")
    users, items = rng.integers(0, log.n_users, _PAIRS[0]), rng.integers(0, log.n_items, _PAIRS)
    own = scores.of(users, items)
    with new_directory(Path(out)) as folder:
        if vectors is None:
            write_ids(log, folder)
        else:
            write_vectors(vectors, log, folder, format)
            described["score"] = _SCORE + ("" if vectors.biases is None else _BIAS)
            found = read_vectors(folder, format).of(users, items)
            width = vectors.items.shape[1]
            checked = agreement("the vectors", found, own)
            described["vectors"] = {"format": format, "width": width, **checked}
        if onnx:
            length = model.history_length
            history = scores.histories.last(users, length) if length else None
            write_onnx(model, folder / _ONNX, trained.fallback)
            found = onnx_scores(folder / _ONNX, users, items, history)
            described["onnx"] = {
                "file": _ONNX,
                "inputs": _inputs(length, log.n_items),
                "output": "scores [B, K]",
                **agreement("the ONNX model", found, own),
            }
        if ann and vectors is not None:
            rng = streams.numpy("export", "recall")
            described["ann"] = write_index(vectors, log, folder, rng)
        described["files"] = digests_of(folder)
        (folder / "export.json").write_bytes(sealed(described))
    return described


def _described(trained: Trained) -> dict[str, Any]:
    settings = trained.record.configuration.candidate
    return {
        "model": settings.name,
        "dim": settings.dim,
        "users": trained.log.n_users,
        "items": trained.log.n_items,
        "cold": int(trained.fallback.unknown[:-1].sum()),
        "dataset": trained.record.dataset.to_dict(),
        "refitted": trained.record.refit is not None,
        "counterplay": version("counterplay"),
        **dict.fromkeys(("score", "vectors", "ann", "onnx")),
    }


def _inputs(length: int, n_items: int) -> dict[str, str]:
    """Say what the ONNX model is fed with."""
    unknown = "rows of the dataset's ids in ascending order, from 0; -1 for an unknown one"
    inputs = {"users": f"[B] {unknown}", "items": f"[B, K] {unknown}"}
    if length:
        inputs["history"] = (
            f"[B, {length}] the user's last items, the latest at the end; {n_items} fills up on "
            "the left"
        )
    return inputs
