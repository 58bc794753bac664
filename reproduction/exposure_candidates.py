"""The candidates of the evaluation half: four that the library trains, three from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.data.impressions import impressions_of
from counterplay.data.splits import TRAIN
from counterplay.evaluation.propensities import Contestant
from counterplay.learning import erm, shown
from counterplay.learning.config import FromShown, Training
from counterplay.metrics.scoring import ModelScores, TableScores
from counterplay.models.registry import ModelSettings, build
from counterplay.runs.config import ValidationSettings
from counterplay.runs.validating import Judge
from reproduction.outside_scores import outside_scores

if TYPE_CHECKING:
    from counterplay.data.splits import Split
    from counterplay.models.scorer import Scorer
    from counterplay.seeding import Streams

EPOCHS, PATIENCE, RATE, BATCH = 40, 8, 0.02, 2048
FACTORS = {"cf4": (4, 1e-4), "cf16": (16, 2e-4)}  # dimension and l2 of ERM on clicks
SHOWN_DIM, SHOWN_L2 = 16, 1e-4


def candidates(split: Split, streams: Streams) -> list[Contestant]:
    """Train four candidates, and add three from outside; the scores of all are kept as tables."""
    train = split.train
    judge = Judge(split, train, ValidationSettings(metric="hit"), streams)
    models: dict[str, Scorer] = {"pop": build("pop", train)}
    shared: dict[str, Any] = {
        "epochs": EPOCHS, "patience": PATIENCE, "rate": RATE, "seed": streams.seed
    }  # fmt: skip
    for name, (dim, l2) in FACTORS.items():
        models[name] = build("cf", train, dim=dim, generator=streams.torch(name))
        erm(models[name], train, Training(**shared, batch_size=BATCH, l2=l2), validate=judge)
    models["shown"] = build("cf", train, dim=SHOWN_DIM, generator=streams.torch("shown"))
    how = FromShown(**shared, batch_size=4 * BATCH, l2=SHOWN_L2, examination="none")
    by_auc = Judge(split, train, ValidationSettings(metric="auc"), streams)
    shown(models["shown"], impressions_of(split, TRAIN), how, validate=by_auc)
    users = np.arange(train.n_users)
    user, item = (each.ravel() for each in np.indices((train.n_users, train.n_items)))
    found = []
    for name, model in models.items():
        table = np.asarray(ModelScores(model, train, train=train).of_all(users)).ravel()
        scores = TableScores(user, item, table, train.n_items)
        kind = ModelSettings(name="pop") if name == "pop" else None
        found.append(Contestant(name, scores, None, settings=kind))
    outside = outside_scores(train, streams.numpy("outside"))
    return found + [Contestant(name, scores, None) for name, scores in outside.items()]
