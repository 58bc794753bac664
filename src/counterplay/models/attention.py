"""Attn: causal self-attention over the items that a user met before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from counterplay.errors import ConfigError
from counterplay.models.embedding import Embedding
from counterplay.models.item_tables import ItemTable
from counterplay.models.neural import linear
from counterplay.models.rows import rows
from counterplay.models.scorer import History, Noise, Scorer

if TYPE_CHECKING:
    from counterplay.data.features import FeatureTable
    from counterplay.data.interactions import Interactions
    from counterplay.models.registry import ModelSettings


class Attention(Scorer):
    """Self-attention over a user's history; a score is `state · q_i + b_i`.

    A window of up to `length` items is encoded once, whatever number of its places are asked for.
    Padding is never attended to; a place with nothing before it attends to itself, a learnt start.
    """

    made_for_some = True
    learns_each_user = True
    searched = (*Scorer.searched, ("candidate.dim", "dim"))

    def __init__(
        self,
        n_users: int,
        n_items: int,
        *,
        dim: int = 32,
        length: int = 50,
        heads: int = 1,
        blocks: int = 2,
        dropout: float = 0.1,
        item_features: FeatureTable | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(n_users, n_items, history_length=length)
        if dim % heads:
            raise ConfigError(
                f"the number of heads must divide the dimension; found {heads} heads and dimension "
                f"{dim}; change one of them"
            )
        self.item = Embedding(
            n_items, dim, features=item_features, generator=generator, of_items=True
        )
        self.item.can_be_sparse = False  # windows are looked up in the whole table
        self.bias = nn.Parameter(torch.zeros(n_items, 1))
        self.biases = ItemTable(self, "bias")
        self.start = nn.Parameter(torch.zeros(1, dim).normal_(0, 0.1, generator=generator))
        self.place = nn.Parameter(torch.zeros(length, dim).normal_(0, 0.02, generator=generator))
        self.blocks = nn.ModuleList([_Block(dim, heads, dropout, generator) for _ in range(blocks)])
        self.norm = nn.LayerNorm(dim)
        self.dropout = dropout

    @classmethod
    def of(
        cls, log: Interactions, size: ModelSettings, generator: torch.Generator | None = None
    ) -> Self:
        """Return a fresh model for a training log; users have no vectors, so no features."""
        return cls(
            log.n_users, log.n_items, dim=size.dim, length=size.length, heads=size.heads,
            blocks=size.blocks, dropout=size.dropout, generator=generator,
            item_features=log.item_features if size.use_features else None,
        )  # fmt: skip

    def states(
        self, items: Tensor, *, only_last: bool = False, noise: Noise | None = None
    ) -> Tensor:
        """Return the state after each place of windows `[N, L]`, `[N, L, dim]`.

        With `only_last`, the last block computes the last place alone, `[N, 1, dim]`.
        """
        length = items.shape[1]
        real = items < self.n_items
        table, place = self.item.near(items)  # padding comes after all of them
        hidden = rows(torch.cat([table, self.start]), place) + self.place[-length:]
        hidden = dropped(hidden, self.dropout if self.training else 0, noise)
        causal = torch.ones(length, length, dtype=torch.bool, device=items.device).tril()
        itself = torch.eye(length, dtype=torch.bool, device=items.device)
        allowed = (causal & real[:, None, :]) | itself  # [N, L, L]
        mask = torch.zeros(allowed.shape, dtype=hidden.dtype, device=items.device)
        mask.masked_fill_(~allowed, -torch.inf)
        for number, block in enumerate(self.blocks, 1):
            at_end = only_last and number == len(self.blocks)
            hidden = block(hidden, mask[:, None], only_last=at_end, noise=noise)
        normed: Tensor = self.norm(hidden)
        return normed

    def forward(self, users: Tensor, items: Tensor, history: History | None = None) -> Tensor:
        """Return the logits of `items` `[B, K]` after what `history` lets each query see."""
        return self.item.products(self._queries(history), items) + self._biases(items)

    def beside(
        self, users: Tensor, items: Tensor, shared: Tensor, history: History | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the logits of `items` `[B, K]` and of `shared` `[N]`: one encoding for both."""
        queries = self._queries(history)
        bias, place, _ = self.biases.near(shared)
        vectors = rows(*self.item.near(shared))
        of_shared = torch.addmm(rows(bias, place).T, queries, vectors.T)
        return self.item.products(queries, items) + self._biases(items), of_shared

    def score_all(self, users: Tensor, history: History | None = None) -> Tensor:
        """Return the logits of all items: one encoding a window, one matrix product."""
        return torch.addmm(self.biases.whole().T, self._queries(history), self.item.table().T)

    def _queries(self, history: History | None) -> Tensor:
        if history is None:
            raise ConfigError(
                "an attention model scores by what came before; found no histories; give them, or "
                "choose another model"
            )
        if history.whole:
            return self.states(history.items, only_last=True)[:, 0]
        states = self.states(history.items, noise=history.noise)
        place = history.window * states.shape[1] + history.place
        return rows(states.flatten(0, 1), place)

    def _biases(self, items: Tensor) -> Tensor:
        bias, place, _ = self.biases.near(items if self.training else items.clamp(min=0))
        known = rows(bias, place).squeeze(-1)
        return known.masked_fill(items < 0, 0) if not self.training else known


class _Block(nn.Module):
    """Attention and a feed-forward layer, each normed before and added to what went in."""

    def __init__(
        self, dim: int, heads: int, dropout: float, generator: torch.Generator | None
    ) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.first_norm, self.second_norm = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attend = linear(dim, 3 * dim, generator, gain=1)
        self.merge = linear(dim, dim, generator, gain=1)
        self.inner = linear(dim, dim, generator)
        self.outer = linear(dim, dim, generator, gain=1)

    def forward(
        self, hidden: Tensor, mask: Tensor, *, only_last: bool = False, noise: Noise | None = None
    ) -> Tensor:
        """Return the next states `[N, L, dim]`; `mask`, added to the logits, is `[N, 1, L, L]`."""
        n, length, dim = hidden.shape
        parts = self.attend(self.first_norm(hidden)).view(
            n, length, 3, self.heads, dim // self.heads
        )
        query, key, value = parts.permute(2, 0, 3, 1, 4)  # each [N, heads, L, dim / heads]
        if only_last:
            hidden, query, mask = hidden[:, -1:], query[:, :, -1:], mask[:, :, -1:]
        seen = F.scaled_dot_product_attention(query, key, value, mask)
        merged = self.merge(seen.transpose(1, 2).reshape(hidden.shape))
        hidden = hidden + self._dropped(merged, noise)
        between = F.relu(self.inner(self.second_norm(hidden)))
        return hidden + self._dropped(self.outer(between), noise)

    def _dropped(self, values: Tensor, noise: Noise | None) -> Tensor:
        return dropped(values, self.dropout, noise) if self.training else values


def dropped(values: Tensor, share: float, noise: Noise | None = None) -> Tensor:
    """Drop a share of the values, to the nearest 1 / 65,536, and scale up the others.

    Windows `[N, …]` of several shards have a stream each, `noise`; else it is torch's own.

    Four decisions are taken from each random number: on CPU several times faster than torch's.
    """
    if share == 0:
        return values
    n_dropped = round(share * 2**16)
    each = values.shape[1:].numel()
    parts = [_decisions(n * each, stream, values) for n, stream in noise or ((len(values), None),)]
    decisions = parts[0] if len(parts) == 1 else torch.cat(parts)
    kept = torch.empty(values.shape, dtype=values.dtype, device=values.device)
    torch.ge(decisions.view(values.shape), n_dropped - 2**15, out=kept)  # 1 or 0, in one pass
    return values * kept.mul_(2**16 / (2**16 - n_dropped))


def _decisions(n: int, stream: torch.Generator | None, values: Tensor) -> Tensor:
    draws = torch.empty(-(-n // 4), dtype=torch.int64, device=values.device)
    return draws.random_(-(2**63), None, generator=stream).view(torch.int16)[:n]
