"""Adam, and lazy Adam for tables of which a batch touches few rows.

Dense Adam moves every row in every step, also those that a batch does not touch: their momentum
goes on. Lazy Adam, the paper's choice, moves only the rows that are touched. Small tables are
faster dense, large ones lazy; `auto` decides table by table. The two are different rules: on the
same data they reach the same quality, not the same numbers.
"""

from __future__ import annotations

from contextlib import nullcontext
from inspect import unwrap
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

from counterplay.groups import ALONE, Group
from counterplay.learning.exchange import Exchange
from counterplay.learning.touched import touched
from counterplay.models.embedding import Embedding
from counterplay.models.item_tables import tables_of_items

if TYPE_CHECKING:
    from collections.abc import Sequence

    from counterplay.learning.owned import OwnedItems

OptimizerName = Literal["auto", "dense", "lazy"]
LARGE = 1 << 23  # values of a table from which on lazy steps are faster


class Optimizer:
    """Adam over a module, with ℓ2 regularization added to the gradient as in the paper.

    What is `free`, such as the link, is not regularized; of a lazy table only touched rows are.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        free: Sequence[nn.Module] = (),
        rate: float,
        l2: float = 0.0,
        kind: OptimizerName = "auto",
        group: Group = ALONE,
        items: OwnedItems | None = None,
    ) -> None:
        self.lazy_tables: list[Tensor] = []
        tables = [each for _, each in tables_of_items(module)]
        self._items, self._apart = items, [each for each in tables if each.n_of_all is not None]
        own: list[Tensor] = [each.held for each in self._apart]  # of one worker
        for embedding in module.modules():
            if isinstance(embedding, Embedding):
                large = embedding.n_values >= LARGE
                embedding.sparse = embedding.can_be_sparse and (
                    kind == "lazy" or (kind == "auto" and large)
                )
                if embedding.sparse:
                    self.lazy_tables.append(embedding.own)
                if embedding.items is not None:
                    embedding.items.sparse = embedding.sparse
                own += [embedding.own] * embedding.is_part
        lazy = {id(table) for table in self.lazy_tables}
        held = list(module.parameters())
        unheld = [value for each in free for value in each.parameters()]
        self.parameters = [*held, *unheld]
        dense = [value for value in held if id(value) not in lazy]
        groups = [{"params": dense, "weight_decay": l2}, {"params": unheld, "weight_decay": 0.0}]
        if not l2:
            groups = [{"params": [*dense, *unheld]}]  # fewer groups are faster
        filled = [group for group in groups if group["params"]]
        self.parts: list[torch.optim.Optimizer] = []
        if filled:
            self.parts.append(_Adam(filled, lr=rate, fused=True))
        if self.lazy_tables:
            self.parts.append(LazyAdam(self.lazy_tables, rate=rate, l2=l2))
        self._exchange: Exchange | None = None
        if group is not ALONE:
            self._exchange = Exchange(group, self.parameters, self.lazy_tables, own, items, tables)

    def step(self, loss: Tensor) -> None:
        """Move one step down the gradient of `loss`; popularity has nothing to move."""
        if not loss.requires_grad and self._exchange is None:
            return
        for value in self.parameters:
            value.grad = None
        if self._items is not None:
            self._items.forget(self._apart)
        mixed = torch.is_autocast_enabled(loss.device.type)  # only the forward pass is
        with torch.autocast(loss.device.type, enabled=False) if mixed else nullcontext():
            if loss.requires_grad:  # of several workers one may have no rows
                loss.backward()
        if self._exchange is not None:
            self._exchange.gradients()
        for part in self.parts:
            part.step()
        if self._items is not None:
            self._items.moved(self._apart)

    def set_rate(self, rate: float) -> None:
        """Change the learning rate."""
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = rate

    def gradient_norm(self) -> float:
        """Return the norm of the gradient of the last step."""
        if self._exchange is not None:
            return float(self._exchange.sum_of_squares() ** 0.5)
        gradients = (value.grad for value in self.parameters if value.grad is not None)
        squares = [
            (touched(each)[1] if each.is_sparse else each).square().sum() for each in gradients
        ]
        return float(torch.stack(squares).sum().sqrt()) if squares else 0.0


class _Uncompiled(torch.optim.Optimizer):
    """What torch hides from its compiler, unhidden: hiding it loads the compiler, which is slow."""

    add_param_group = unwrap(torch.optim.Optimizer.add_param_group)
    state_dict = unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = unwrap(torch.optim.Optimizer.load_state_dict)


class _Adam(_Uncompiled, torch.optim.Adam):
    """Adam of whole tables."""

    step = torch.no_grad()(unwrap(torch.optim.Adam.step))


class LazyAdam(_Uncompiled):
    """Adam for tables with sparse gradients: only rows that a batch touches move.

    The touched rows and their moments are gathered into small dense blocks, moved by Adam's fused
    step, and put back; all others, and their moments, stay as they are.
    """

    def __init__(self, tables: Sequence[Tensor], *, rate: float, l2: float = 0.0) -> None:
        super().__init__(tables, {"lr": rate, "weight_decay": l2, "fused": True})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Move the touched rows."""
        for group in self.param_groups:
            for table in group["params"]:
                if table.grad is not None:
                    self._move(table, *touched(table.grad), group["lr"], group["weight_decay"])

    def _move(self, table: Tensor, rows: Tensor, values: Tensor, rate: float, l2: float) -> None:
        state = self.state[table]
        if not state:
            state["step"] = torch.zeros((), device=table.device)
            state["mean"], state["square"] = torch.zeros_like(table), torch.zeros_like(table)
        whole = table, state["mean"], state["square"]
        here, mean, square = block = [each.index_select(0, rows) for each in whole]
        adam(
            [here], [values], [mean], [square], [], [state["step"]], fused=True, amsgrad=False,
            beta1=0.9, beta2=0.999, lr=rate, weight_decay=l2, eps=1e-8, maximize=False,
        )  # fmt: skip
        for each, moved in zip(whole, block, strict=True):
            each.index_copy_(0, rows, moved)
