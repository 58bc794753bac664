"""Scores as inner products: the vectors of users and items, and an index of the items."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl
import torch

from counterplay.data.histories import Histories
from counterplay.errors import CounterplayWarning
from counterplay.extras import needed
from counterplay.metrics.ranks import MEMORY
from counterplay.metrics.recommendations import top_k
from counterplay.models.als import Als
from counterplay.models.attention import Attention
from counterplay.models.factorization import Factorized
from counterplay.models.popularity import Popularity
from counterplay.serving.checking import agreement

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.models.fallback import Fallback
    from counterplay.models.scorer import Scorer

VectorFormat = Literal["parquet", "npy"]
INDEX = "items.usearch"
_INDEX = {"metric": "ip", "dtype": "f32", "connectivity": 32, "expansion_add": 256}
_EXPANSION = 256  # of a search
_CHECKED_USERS = 1000
_LOW_RECALL = 0.9


@dataclass(frozen=True, slots=True)
class Vectors:
    """Scores of the form `users[u] · items[i] + biases[u]`.

    Attributes:
        users: `[n_users, width]` float32.
        items: `[n_items, width]` float32.
        biases: `[n_users]` float32, None where there are none; they leave a user's order as it is.
    """

    users: NDArray[np.float32]
    items: NDArray[np.float32]
    biases: NDArray[np.float32] | None = None

    def of(self, users: NDArray[np.integer], items: NDArray[np.integer]) -> NDArray[np.floating]:
        """Return the scores of `items` `[B, K]` for `users` `[B]`, `[B, K]`."""
        products = np.einsum("bd,bkd->bk", self.users[users], self.items[items])
        return self._biased(products, users)

    def of_all(self, users: NDArray[np.integer]) -> NDArray[np.floating]:
        """Return the scores of all items for `users` `[B]`, `[B, n_items]`."""
        return self._biased(self.users[users] @ self.items.T, users)

    def _biased(
        self, products: NDArray[np.floating], users: NDArray[np.integer]
    ) -> NDArray[np.floating]:
        return products if self.biases is None else products + self.biases[users, None]


def vectors_of(
    model: Scorer, log: Interactions, fallback: Fallback | None = None
) -> Vectors | None:
    """Return the vectors of a model's users and items; None where its score is no product.

    Of a model that reads histories, a user's vector is the state after all of the user's rows.
    Users who fall back have one place more: items have their popularity there, and others a 0.
    """
    found = _vectors(model, log)
    if found is None or fallback is None or not fallback.unknown[:-1].any():
        return found
    unknown = fallback.unknown[:-1]
    users = np.where(unknown[:, None], np.float32(0), found.users)
    biases = None if found.biases is None else np.where(unknown, np.float32(0), found.biases)
    return Vectors(
        np.column_stack([users, unknown.astype(np.float32)]),
        np.column_stack([found.items, fallback.items[:-1]]),
        biases,
    )


@torch.no_grad()
def _vectors(model: Scorer, log: Interactions) -> Vectors | None:
    if isinstance(model, Factorized):
        users, biases = model.user_side(model.user.table())
        each = None if isinstance(model, Als) else _array(biases.expand(len(users), 1)[:, 0])
        return Vectors(_array(users), _array(model.item.table()), each)
    if isinstance(model, Popularity):
        return Vectors(np.ones((log.n_users, 1), dtype=np.float32), _array(model.logits[:-1, None]))
    if isinstance(model, Attention):
        states = _states(model, log)
        items = torch.cat([model.item.table(), model.bias], dim=1)
        return Vectors(np.pad(states, ((0, 0), (0, 1)), constant_values=1), _array(items))
    return None


def _states(model: Attention, log: Interactions) -> NDArray[np.float32]:
    """Return the state of every user after all rows, some users at a time."""
    histories, length = Histories(log), model.history_length
    a_user = 4 * length * (8 * model.start.shape[1] + 4 * length)  # bytes: values and masks, about
    size = max(1, MEMORY // a_user)
    parts = []
    for begin in range(0, log.n_users, size):
        users = np.arange(begin, min(begin + size, log.n_users))
        windows = torch.from_numpy(histories.last(users, length))
        parts.append(_array(model.states(windows, only_last=True)[:, 0]))
    return np.concatenate(parts)


def _array(values: torch.Tensor) -> NDArray[np.float32]:
    return np.ascontiguousarray(values.detach().numpy(), dtype=np.float32)


def write_vectors(vectors: Vectors, log: Interactions, folder: Path, kind: VectorFormat) -> None:
    """Write the vectors with their ids, in the order of the dataset."""
    biases = {} if vectors.biases is None else {"bias": vectors.biases}
    if kind == "npy":
        write_ids(log, folder)
        np.save(folder / "users.npy", vectors.users)
        np.save(folder / "items.npy", vectors.items)
        for each in biases.values():
            np.save(folder / "user_biases.npy", each)
        return
    users = {"user": log.users.ids, "vector": vectors.users, **biases}
    pl.DataFrame(users).write_parquet(folder / "users.parquet")
    items = {"item": log.items.ids, "vector": vectors.items}
    pl.DataFrame(items).write_parquet(folder / "items.parquet")


def read_vectors(folder: Path, kind: VectorFormat) -> Vectors:
    """Return the vectors that were written to a folder."""
    if kind == "npy":
        biases = folder / "user_biases.npy"
        return Vectors(
            np.load(folder / "users.npy"),
            np.load(folder / "items.npy"),
            np.load(biases) if biases.exists() else None,
        )
    users, items = (pl.read_parquet(folder / f"{role}.parquet") for role in ("users", "items"))
    each = users["bias"].to_numpy() if "bias" in users.columns else None
    return Vectors(users["vector"].to_numpy(), items["vector"].to_numpy(), each)


def write_ids(log: Interactions, folder: Path) -> None:
    """Write the ids alone; an index is the number of a row."""
    pl.DataFrame({"user": log.users.ids}).write_parquet(folder / "user_ids.parquet")
    pl.DataFrame({"item": log.items.ids}).write_parquet(folder / "item_ids.parquet")


def check_ann() -> None:
    """Refuse to start where the package is not installed."""
    with needed("an index of vectors", "ann"):
        import_module("usearch.index")


def write_index(
    vectors: Vectors, log: Interactions, folder: Path, rng: np.random.Generator
) -> dict[str, Any]:
    """Write an index of the item vectors, keyed by their rows; return how much of the top it finds.

    The recall is the share of the ten best of some users, by exact search, that it finds too.
    """
    check_ann()
    kind = import_module("usearch.index").Index
    index = kind(ndim=vectors.items.shape[1], expansion_search=_EXPANSION, **_INDEX)
    index.add(np.arange(log.n_items), vectors.items, threads=1)  # in one order: the same bytes
    index.save(str(folder / INDEX))
    index = kind.restore(str(folder / INDEX))  # what others will read
    index.expansion_search = _EXPANSION
    users = rng.permutation(log.n_users)[:_CHECKED_USERS]
    k = min(10, log.n_items)
    nothing = log.take(np.empty(0, dtype=np.int64))
    _, best = top_k(vectors, users, nothing, k)
    found = index.search(vectors.users[users], k, threads=1)
    there = np.arange(k) < found.counts[:, None]
    keys = np.where(there, found.keys, 0).astype(np.int64)
    scores = vectors.of(users, keys)
    products = Vectors(vectors.users, vectors.items).of(users, keys)  # it knows no biases
    checked = agreement("the index", 1 - found.distances[there], products[there])
    least = best[:, -1:] - 1e-5 * np.abs(best).max()  # equals of the last one are as good
    recall = float((there & (scores >= least)).mean())
    if recall < _LOW_RECALL:
        warnings.warn(
            f"the index finds {recall:.0%} of the {k} best items; where that is too little, search "
            "the vectors themselves",
            CounterplayWarning,
            stacklevel=2,
        )
    return {
        "file": INDEX,
        "metric": "inner product",
        "keys": "rows of the item vectors, from 0",
        "expansion_search": _EXPANSION,
        "k": k,
        "users": len(users),
        "recall": recall,
        **checked,
    }
