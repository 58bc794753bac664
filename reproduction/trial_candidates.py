"""The candidates of the trials: five that the library trains, and three given by their scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from counterplay.evaluation.propensities import Contestant
from counterplay.learning.config import Game
from counterplay.learning.fitting import fit
from counterplay.learning.methods import method_of
from counterplay.metrics.scoring import ModelScores
from counterplay.models.registry import ModelSettings
from counterplay.runs.config import RunConfig, ValidationSettings
from counterplay.runs.defaults import training_for
from counterplay.runs.validating import Judge
from reproduction.outside_scores import outside_scores

if TYPE_CHECKING:
    from collections.abc import Sequence

    from counterplay.data.interactions import Interactions
    from counterplay.data.splits import Split
    from counterplay.seeding import Streams

_GMF = ModelSettings(dim=16)
TRAINED: dict[str, dict[str, Any]] = {
    "pop": {"method": "erm", "candidate": ModelSettings(name="pop")},
    "gmf": {"method": "erm", "candidate": _GMF},
    "ps": {"method": "ps", "candidate": _GMF, "exposure": ModelSettings(name="pop")},
    "acl": {"method": "acl", "candidate": _GMF, "exposure": _GMF},
    "attn": {"method": "erm", "candidate": ModelSettings(name="attn", dim=16, length=20, blocks=1)},
}
_EPOCHS, _PATIENCE = {"attn": 12}, 15  # attention is slow: it gets fewer
_MOST_EPOCHS = 50


def trained_candidates(
    split: Split, seen: Interactions, streams: Streams, names: Sequence[str] | None = None
) -> list[Contestant]:
    """Train the candidates, or those of them that are named, and add those from outside."""
    train = split.train
    found = []
    for name in TRAINED if names is None else names:
        options = training_for(
            train, seed=streams.seed, epochs=_EPOCHS.get(name, _MOST_EPOCHS), patience=_PATIENCE,
            rate=0.02,
        )  # fmt: skip
        judged = ValidationSettings(metric="ndcg", k=10)
        config = RunConfig(**TRAINED[name], training=Game(**options), validation=judged)
        players = config.players(train, streams)
        judge = Judge(split, train, config.validation, streams)
        fit(method_of(config.method)(players, train, config.of_method()), validate=judge)
        model = players["candidate"]
        scores = ModelScores(model, seen, train=train)
        found.append(Contestant(name, scores, model, settings=config.candidate))
    outside = outside_scores(train, streams.numpy("outside"))
    return found + [Contestant(name, scores, None) for name, scores in outside.items()]
