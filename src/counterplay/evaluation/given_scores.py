"""Candidates that are only known by their scores, which were computed elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from counterplay.errors import ConfigError
from counterplay.evaluation.propensities import Contestant
from counterplay.evaluation.score_files import read_scores
from counterplay.learning.batches import PairBatches
from counterplay.metrics.calibration import as_logits
from counterplay.models.table import ScoreTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from counterplay.data.interactions import Interactions
    from counterplay.data.splits import Split
    from counterplay.evaluation.stage import Evaluation, Stage

Table = str | Path | pl.DataFrame


def check_scores(
    scores: Mapping[str, Table],
    split: Split,
    config: Evaluation,
    random: Interactions | None = None,
) -> None:
    """Refuse scores that could not be evaluated; cheap, so that it can be known beforehand."""
    targets = split.test if config.part == "test" else split.validation
    users = targets.user if random is None else np.union1d(targets.user, random.user)
    for table in scores.values():
        read_scores(table, split.interactions, users)


def given_candidate(name: str, table: Table, stage: Stage) -> Contestant:
    """Make scores a contestant; an opponent plays on the pairs that have one.

    Observed is what is in training; test rows are as unobserved as everything else.
    """
    train = stage.train
    if stage.explicit:
        raise ConfigError(
            f"given scores rank items, and predict no ratings; found '{name}' beside runs that do; "
            "compare like with like"
        )
    scores = read_scores(table, stage.split.interactions, stage.users)
    pairs, n_negatives = scores.pairs, stage.config.opponent.n_negatives
    observed = np.isin(pairs, train.distinct_pairs, assume_unique=True)
    model = batches = None
    if observed.any() and not observed.all():
        # The opponent meets n_negatives others an observed pair, whatever their share here.
        shift = np.log((~observed).sum() / (observed.sum() * n_negatives))
        logits = as_logits(scores.scores, observed, scores.scores) + shift
        model = ScoreTable(train.n_users, train.n_items, scores.pairs, logits.astype(np.float32))
        batches = PairBatches(
            pairs // train.n_items,
            pairs % train.n_items,
            observed,
            batch_size=stage.config.opponent.game(train, 0).batch_size,
            n_negatives=n_negatives,
        )
    return Contestant(name, scores, model, batches=batches)
