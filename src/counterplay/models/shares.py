"""A model whose users several workers have: each holds the vectors of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from counterplay.data.vocabulary import Vocabulary
from counterplay.errors import ConfigError
from counterplay.models.embedding import Embedding
from counterplay.models.scorer import Scorer
from counterplay.models.solved import Solved
from counterplay.seeding import Streams

if TYPE_CHECKING:
    import torch

    from counterplay.data.interactions import Interactions
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
    model = settings.kind.of(nobody, settings, generator)
    streams = Streams(0 if generator is None else generator.initial_seed())
    tables = [each for each in model.modules() if isinstance(each, Embedding) and not len(each.own)]
    for number, table in enumerate(tables):
        table.share_out(share, streams, number)
    if any(0 in value.shape for value in model.parameters()):
        raise ConfigError(
            "several workers need to know what a model has of each user; found another table than "
            f"counterplay.models.Embedding in {type(model).__name__}; keep users' vectors in one, "
            "or train without --workers"
        )
    for module in model.modules():
        if isinstance(module, Scorer):
            module.n_users = log.n_users
    return model
