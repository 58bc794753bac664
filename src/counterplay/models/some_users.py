"""A trained model for some of its users: their vectors, and all of what users share.

It scores these users as the whole model does, to the byte, if it is asked for fewer users at a time
than the whole model has: where it is asked for as many, features of all users are computed at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from counterplay.data.canonical import ranges
from counterplay.errors import ConfigError
from counterplay.models.embedding import Embedding, without_items
from counterplay.models.scorer import Scorer
from counterplay.models.solved import FromOwnItems

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.models.registry import ModelSettings


def can_be_made_for_some(settings: ModelSettings) -> bool:
    """Tell whether the class of a model says so of itself."""
    return bool(vars(settings.kind).get("made_for_some", False))


class ForSome:
    """A model whose users change; it begins with none.

    Args:
        settings: Of the model.
        nobody: A log without users, with all items and their features.
        stored: What was trained, by name. Of tables that are mapped into memory, only the rows of
            those users are read whom it is given.
        n_users: How many the whole model has.
    """

    def __init__(
        self,
        settings: ModelSettings,
        nobody: Interactions,
        stored: Mapping[str, Tensor],
        n_users: int,
    ) -> None:
        with without_items():
            self.model = settings.kind.of(nobody, settings, torch.Generator())
        self._stored = dict(stored)
        self._tables = [
            (f"{path}." if path else "", each)
            for path, each in self.model.named_modules()
            if isinstance(each, Embedding) and each.items is None
        ]
        state, none = dict(stored), np.empty(0, dtype=np.int64)
        for path, table in self._tables:
            table.taken_of = n_users
            state |= {path + name: rows for name, rows in self._rows(path, none)}
            tokens = stored.get(f"{path}features.token_vectors")
            if table.features is not None and tokens is not None:
                table.features.token_vectors = nn.Parameter(torch.empty_like(tokens))
        copies = {name: value.clone() for name, value in state.items()}
        try:
            self.model.load_state_dict(copies, assign=True)
        except RuntimeError as error:
            found = str(error).splitlines()[-1].strip().rstrip(".")
            raise ConfigError(
                "a model that is made for some users must keep what it has of them in "
                f"counterplay.models.Embedding; found that {settings.name} does not "
                f"({found}); leave made_for_some out of {settings.kind.__name__}"
            ) from None
        self.model.eval()

    def give(self, users: NDArray[np.integer], train: Interactions) -> Scorer:
        """Return the model for `users`, who ascend, by what they did in its training rows.

        The first of them becomes user 0.
        """
        for path, table in self._tables:
            for name, rows in self._rows(path, users):
                if name == "own":
                    table.own = nn.Parameter(rows, requires_grad=False)
                else:
                    setattr(table.features, name.removeprefix("features."), rows)
        if isinstance(self.model, FromOwnItems):
            self.model.know(train)
        for module in self.model.modules():
            if isinstance(module, Scorer):
                module.n_users = len(users)
        return self.model

    def _rows(self, path: str, users: NDArray[np.integer]) -> Iterator[tuple[str, Tensor]]:
        """Yield what a table has of users, by name, each in memory of its own."""
        index = torch.from_numpy(users.astype(np.int64))
        for name in ("own", "features.numbers"):
            if (stored := self._stored.get(path + name)) is not None:
                yield name, stored[index]
        offsets = self._stored.get(f"{path}features.offsets")
        if offsets is None:
            return
        begins, ends = offsets[index], offsets[index + 1]
        place = torch.from_numpy(ranges(begins.numpy(), ends.numpy()))
        yield "features.offsets", F.pad((ends - begins).cumsum(0), (1, 0))
        for name in ("features.tokens", "features.shares"):
            yield name, self._stored[path + name][place]
