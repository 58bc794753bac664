"""A model whose users several workers have: each holds the vectors of its own.

Vectors of items are with all of them, or each owns those of its shards.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torch import nn
from torch.nn import functional as F

from counterplay.data.vocabulary import Vocabulary
from counterplay.errors import ConfigError
from counterplay.models.embedding import FEATURES, Embedding, without_items
from counterplay.models.item_tables import apart, tables_of_items
from counterplay.models.scorer import Scorer
from counterplay.models.solved import Solved
from counterplay.seeding import Streams

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch
    from torch import Tensor

    from counterplay.data.interactions import Interactions
    from counterplay.groups import Group
    from counterplay.models.registry import ModelSettings


def shared_out(
    settings: ModelSettings, log: Interactions, generator: torch.Generator | None
) -> Scorer:
    """Return a fresh model for a worker's users; what all workers share starts the same on all.

    It is made for nobody first: then tables without rows are those of users.
    """
    share = log.share
    assert share is not None
    if issubclass(settings.kind, Solved):
        raise ConfigError(
            f"a model must learn by gradients to be trained by several workers; found "
            f"{settings.name}, which is computed at once; train it without --workers, or choose "
            "another model"
        )
    nobody = replace(log, users=Vocabulary(log.users.ids[:0]))
    with without_items():
        model = settings.kind.of(nobody, settings, generator)
    streams = Streams(0 if generator is None else generator.initial_seed())
    embeddings = [each for each in model.modules() if isinstance(each, Embedding)]
    of_items = [each for each in embeddings if each.items is not None]
    of_users = [each for each in embeddings if each.items is None and not len(each.own)]
    known = {id(table.own) for table in of_users}
    if any(0 in value.shape and id(value) not in known for value in model.parameters()):
        raise ConfigError(
            "several workers need to know what a model has of each user; found another table than "
            f"counterplay.models.Embedding in {type(model).__name__}; keep users' vectors in one, "
            "or train without --workers"
        )
    for tables in (of_users, of_items):
        for number, table in enumerate(tables):
            table.share_out(share, streams, number)
    if share.owns_items:
        begin, end = (share.items_of(each, log.n_items) for each in share.ends)
        for _, other in tables_of_items(model):
            if other.n_of_all is None:  # what is no embedding starts the same on all workers
                other.hold(nn.Parameter(other.held.detach()[begin:end].clone()), log.n_items)
    for module in model.modules():
        if isinstance(module, Scorer):
            module.n_users = log.n_users
    return model


def n_parameters(player: nn.Module) -> int:
    """Return how many numbers are learnt, on all workers together."""
    elsewhere = sum(each.n_values - each.own.numel() for _, each in tables_of_users(player))
    for _, table in apart(player):
        elsewhere += ((table.n_of_all or 0) - len(table.held)) * table.held.shape[1]
    return elsewhere + sum(value.numel() for value in player.parameters())


def whole_states(players: Mapping[str, nn.Module], group: Group) -> dict[str, Tensor]:
    """Return the states of all players by role and name; the first worker has them whole."""
    states = {
        f"{role}.{key}": value
        for role, player in players.items()
        for key, value in player.state_dict().items()
    }
    for role, player in players.items():
        for name, items in apart(player):
            found = group.collected(items.held)
            if found is not None:
                states[f"{role}.{name}"] = found
        for path, table in tables_of_users(player):
            place = f"{role}.{path}"
            for name in ("own", *(f"features.{each}" for each in FEATURES if table.features)):
                held = states[place + name]
                counts = name.endswith("offsets")  # of tokens, which begin anew with each worker
                found = group.collected(held.diff() if counts else held)
                if found is not None:
                    states[place + name] = F.pad(found.cumsum(0), (1, 0)) if counts else found
    return states


def tables_of_users(player: nn.Module) -> list[tuple[str, Embedding]]:
    """Return the tables of which other workers have other rows, with how their names begin."""
    return [
        (f"{path}." if path else "", each)
        for path, each in player.named_modules()
        if isinstance(each, Embedding) and each.is_part
    ]
