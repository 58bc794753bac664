"""Models as ONNX: the same scores without this library, or Python.

Inputs are `users` `[B]`, `items` `[B, K]` and, for a model of sequences, `history` `[B, L]`: the
dataset's indices, −1 for an id that it does not know, and in a history `n_items` for padding on
the left. The output is `scores` `[B, K]`. What features say is added up into the tables.
"""

from __future__ import annotations

import copy
import logging
import warnings
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from counterplay.errors import ConfigError
from counterplay.extras import needed
from counterplay.models.attention import Attention
from counterplay.models.factorization import Factorized
from counterplay.models.neural import MLP, NCF
from counterplay.models.popularity import Popularity
from counterplay.models.rows import dots

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from counterplay.models.fallback import Fallback
    from counterplay.models.scorer import Scorer

_IN_ONE_FILE = 1 << 30  # bytes of weights; the format's own limit is 2 GiB


def check_onnx() -> None:
    """Refuse to start where the packages are not installed."""
    with needed("a model as ONNX", "onnx"):
        for package in ("onnx", "onnxruntime", "onnxscript"):
            import_module(package)


@torch.no_grad()
def write_onnx(model: Scorer, path: Path, fallback: Fallback | None = None) -> None:
    """Write a model as ONNX, for any number of users and any number of items each.

    With a fallback, users of whom the model knows nothing get popularity; unknown ones (-1) too.
    """
    check_onnx()
    graph = _plain(model).eval()
    if fallback is not None and model.learns_each_user:
        graph = _WithFallback(graph, fallback).eval()
    batch, candidates = torch.export.Dim("batch"), torch.export.Dim("candidates")
    inputs = {
        "users": (torch.zeros(2, dtype=torch.int64), {0: batch}),
        "items": (torch.zeros(2, 3, dtype=torch.int64), {0: batch, 1: candidates}),
    }
    if model.history_length:
        windows = torch.full((2, model.history_length), model.n_items)
        inputs["history"] = windows, {0: batch}
    with _quiet():
        program = torch.onnx.export(
            graph,
            tuple(example for example, _ in inputs.values()),
            input_names=list(inputs),
            output_names=["scores"],
            dynamic_shapes={name: shape for name, (_, shape) in inputs.items()},
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    for node in program.model.graph.all_nodes():
        node.metadata_props.clear()  # the exporter notes where our files are
    weights = (*graph.parameters(), *graph.buffers())
    n_bytes = sum(each.numel() * each.element_size() for each in weights)
    program.save(str(path), external_data=n_bytes > _IN_ONE_FILE)


def onnx_scores(
    path: Path,
    users: NDArray[np.integer],
    items: NDArray[np.integer],
    history: NDArray[np.integer] | None = None,
) -> NDArray[np.float32]:
    """Return the scores that a file gives `items` `[B, K]` for `users` `[B]`, `[B, K]`."""
    with needed("a model as ONNX", "onnx"):
        runtime = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    inputs = {"users": users, "items": items, "history": history}
    given = {name: np.asarray(each, np.int64) for name, each in inputs.items() if each is not None}
    scores: NDArray[np.float32] = session.run(["scores"], given)[0]
    return scores


class _Tables(nn.Module):
    """Tables whose last row, at −1, is for ids that training never saw."""

    def __init__(self, **tables: Tensor) -> None:
        super().__init__()
        for name, table in tables.items():
            self.register_buffer(name, table)


class _Products(_Tables):
    """`u · q + b`."""

    users: Tensor
    biases: Tensor
    items: Tensor

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        return dots(self.users[users], self.items[items]) + self.biases[users]


class _Perceptron(_Tables):
    """MLP with the first layer done: what is left is one pair's."""

    left: Tensor
    right: Tensor

    def __init__(self, model: MLP) -> None:
        left, right = _and_mean(model.user.table()), _and_mean(model.item.table())
        super().__init__(left=model.user_half(left), right=model.item_half(right))
        self.layers = nn.ModuleList([*model.layers, model.output])

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        hidden = self.left[users][:, None] + self.right[items]  # [B, K, 2 · dim]
        for layer in self.layers:
            hidden = layer(F.relu(hidden))
        return hidden.squeeze(-1)


class _Sum(nn.Module):
    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        first, second = (part(users, items) for part in self.parts)
        total: Tensor = first + second
        return total


class _Sequence(_Tables):
    """Attn; the user's index is an input like that of other models, and is not used."""

    items: Tensor
    biases: Tensor

    def __init__(self, model: Attention) -> None:
        biases = torch.cat([model.bias[:, 0], model.bias.new_zeros(1)])
        super().__init__(items=_and_mean(model.item.table()), biases=biases)
        self.encoder = copy.deepcopy(model)
        self.encoder.item.own = nn.Parameter(model.item.table())
        self.encoder.item.features = None

    def forward(self, users: Tensor, items: Tensor, history: Tensor) -> Tensor:  # noqa: ARG002
        states = self.encoder.states(history, only_last=True)[:, 0]
        return dots(states, self.items[items]) + self.biases[items]


class _WithFallback(_Tables):
    """What everybody gets, for users whom the model knows nothing of; unknown ids are at -1.

    A model of sequences knows nothing of an empty one.
    """

    unknown: Tensor
    everybody: Tensor

    def __init__(self, graph: nn.Module, fallback: Fallback) -> None:
        unknown, everybody = map(torch.from_numpy, (fallback.unknown, fallback.items))
        super().__init__(unknown=unknown, everybody=everybody)
        self.inner = graph

    def forward(self, users: Tensor, items: Tensor, history: Tensor | None = None) -> Tensor:
        if history is None:
            unknown, own = self.unknown[users], self.inner(users, items)
        else:
            unknown = (history == len(self.everybody) - 1).all(1)
            own = self.inner(users, items, history)
        return torch.where(unknown[:, None], self.everybody[items], own)


def _plain(model: Scorer) -> nn.Module:
    """Return the same scores as plain look-ups and layers, which the exporter can follow."""
    if isinstance(model, Factorized):
        users, biases = model.user_side(_and_mean(model.user.table()))
        items = _and_mean(model.item.table())
        biases = biases.expand(len(users), 1).contiguous()
        return _Products(users=users, biases=biases, items=items)
    if isinstance(model, Popularity):
        users = model.logits.new_ones(model.n_users + 1, 1)
        none = torch.zeros_like(users)
        return _Products(users=users, biases=none, items=model.logits[:, None])
    if isinstance(model, MLP):
        return _Perceptron(model)
    if isinstance(model, NCF):
        users = _and_mean(model.user.table()) * model.importance
        none, items = users.new_zeros(len(users), 1), _and_mean(model.item.table())
        products = _Products(users=users, biases=none, items=items)
        return _Sum(products, _Perceptron(model.perceptron))
    if isinstance(model, Attention):
        return _Sequence(model)
    raise ConfigError(
        f"only the library's own models can be written as ONNX; found {type(model).__name__}; "
        "export it with torch.onnx"
    )


def _and_mean(table: Tensor) -> Tensor:
    return torch.cat([table, table.mean(0, keepdim=True)])


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep to itself what the exporter says of its own code, and of packages nobody asked for."""
    log = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r".*treespec, LeafSpec", FutureWarning)
            warnings.filterwarnings("ignore", "# The axis name", UserWarning)
            yield
    finally:
        log.setLevel(level)
