"""MLP and NCF: layers on top of a user's and an item's vector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from counterplay.models.embedding import PairOptions, PairScorer
from counterplay.models.rows import rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from counterplay.models.scorer import History


_PAIRS = 3 << 11  # at a time, when all items are scored: what they need stays in a cache


class MLP(PairScorer):
    """A multi-layer perceptron on `(p_u, q_i)`: layers of 2·dim, dim and dim / 2.

    The first layer is split into a user's and an item's half, `W (p, q) = W_u p + W_i q`, so that
    each half is computed once a user and once an item, not once a pair.
    """

    made_for_some = True

    def __init__(self, n_users: int, n_items: int, **options: Unpack[PairOptions]) -> None:
        super().__init__(n_users, n_items, **options)
        dim, generator = self.dim, options.get("generator")
        half = max(1, dim // 2)
        self.user_half = linear(dim, 2 * dim, generator)
        self.item_half = linear(dim, 2 * dim, generator, bias=False)
        self.layers = nn.ModuleList([linear(2 * dim, dim, generator), linear(dim, half, generator)])
        self.output = linear(half, 1, generator)

    def forward(self, users: Tensor, items: Tensor, history: History | None = None) -> Tensor:
        """Return the logits of `items` `[B, K]`."""
        left = self.user_half(self.user(users))
        whole_table = items.numel() > self.n_items and not self.item.sparse
        if self.item.is_apart or (whole_table and not bool((items < 0).any())):
            table, place = self.item.near(items)
            right = rows(self.item_half(table), place)
        else:
            right = self.item_half(self.item(items))
        hidden = left[:, None] + right  # [B, K, 2 · dim]
        for layer in (*self.layers, self.output):
            hidden = layer(F.relu(hidden, inplace=True))
        logits: Tensor = hidden.squeeze(-1)
        return logits

    @torch.no_grad()
    def score_all(self, users: Tensor, history: History | None = None) -> Tensor:
        """Return the logits of all items, in blocks.

        `relu(x + c)` is `max(x, −c) + c`: what is constant for a user goes through the layers once,
        and a pair costs one maximum and one product a layer.
        """
        constants = [self.user_half(self.user(users))]  # [B, width] of each layer
        for layer in (*self.layers, self.output):
            constants.append(layer(constants[-1]))
        below = [-constant[:, None] for constant in constants[:-1]]
        weights = [layer.get_parameter("weight").T.contiguous() for layer in self.layers]
        items = self.item_half(self.item.table())  # [n_items, 2 · dim]
        at_once = max(
            1, _PAIRS // self.n_items
        )  # users; several only where one block has all items
        n_held = at_once * min(self.n_items, _PAIRS)
        rooms = [items.new_empty(n_held, bound.shape[2]) for bound in below]  # new ones are slow
        logits: Tensor = items.new_empty(len(users), self.n_items)
        for first in range(0, self.n_items, _PAIRS):
            right = items[first : first + _PAIRS]
            n, held = len(right), 0
            for part in _slices(len(users), at_once):
                if part.stop - part.start != held:  # but for the last part, once
                    held = part.stop - part.start
                    flat = [room[: held * n] for room in rooms]
                    shaped = [each.view(held, n, -1) for each in flat]
                torch.maximum(right, below[0][part], out=shaped[0])
                for place, weight in enumerate(weights, start=1):
                    torch.mm(flat[place - 1], weight, out=flat[place])
                    torch.maximum(shaped[place], below[place][part], out=shaped[place])
                wanted = logits[part, first : first + n].view(-1)
                torch.mv(flat[-1], self.output.weight[0], out=wanted)
        return logits.add_(constants[-1])


def _slices(n: int, size: int) -> Iterator[slice]:
    """Yield slices of `size` that cover `n` places."""
    for begin in range(0, n, size):
        yield slice(begin, min(begin + size, n))


class NCF(PairScorer):
    """NeuMF: GMF and MLP, each with vectors of its own, added up at the end."""

    made_for_some = True

    def __init__(self, n_users: int, n_items: int, **options: Unpack[PairOptions]) -> None:
        super().__init__(n_users, n_items, **options)
        self.importance = nn.Parameter(torch.ones(self.dim))
        self.perceptron = MLP(n_users, n_items, **options)

    def forward(self, users: Tensor, items: Tensor, history: History | None = None) -> Tensor:
        """Return the logits of `items` `[B, K]`."""
        product = self.item.products(self.user(users) * self.importance, items)
        logits: Tensor = product + self.perceptron(users, items)
        return logits

    @torch.no_grad()
    def score_all(self, users: Tensor, history: History | None = None) -> Tensor:
        """Return the logits of all items."""
        logits: Tensor = self.perceptron.score_all(users)
        return logits.addmm_(self.user(users) * self.importance, self.item.table().T)


def linear(
    n_in: int,
    n_out: int,
    generator: torch.Generator | None,
    *,
    bias: bool = True,
    gain: float = 2,
) -> nn.Linear:
    """Return a linear layer; its weights start with variance `gain / n_in` (2 goes with ReLU)."""
    layer = nn.Linear(n_in, n_out, bias=bias)
    with torch.no_grad():
        layer.weight.normal_(0, (gain / n_in) ** 0.5, generator=generator)
        if bias:
            layer.bias.zero_()
    return layer
