"""The propensities that an evaluation weights its rows by, one function an estimator."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch

from counterplay.errors import ConfigError, CounterplayWarning, DataError
from counterplay.learning.batches import Batches, PairBatches
from counterplay.learning.fitting import STILL
from counterplay.learning.methods.erm import erm
from counterplay.learning.methods.opponent import opponent
from counterplay.metrics.calibration import logistic_fit
from counterplay.metrics.estimation import popularity_propensities
from counterplay.metrics.scoring import ModelScores
from counterplay.models.link import Link
from counterplay.models.table import Calibrated
from counterplay.seeding import Streams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.evaluation.settings import OpponentSettings
    from counterplay.learning.config import Game
    from counterplay.metrics.scoring import Scores
    from counterplay.models.registry import ModelSettings
    from counterplay.models.scorer import Scorer
    from counterplay.progress import Stages

_ROWS = 1 << 12  # whose propensities are computed at a time
_CALIBRATED = 1 << 16  # rows that are enough to fit a slope and an intercept


@dataclass(frozen=True, slots=True)
class Contestant:
    """A candidate under evaluation.

    Attributes:
        name: What to call it.
        scores: What it is ranked by.
        model: What an opponent plays against; None where its scores do not suffice.
        exposure: The opponent that it was trained against, if it was.
        link: Their link.
        method: How it was trained.
        batches: The rows on which it can be played against, where only some are scored.
        settings: What kind of model it is, where that is known.
    """

    name: str
    scores: Scores
    model: Scorer | None
    exposure: Scorer | None = None
    link: Link | None = None
    method: str = "given"
    batches: PairBatches | None = None
    settings: ModelSettings | None = None

    @property
    def is_personal(self) -> bool:
        """Whether its scores of an item differ from user to user."""
        return self.settings is None or self.settings.name != "pop"


def own_propensities(
    contestant: Contestant, train: Interactions, seen: Interactions, targets: Interactions
) -> NDArray[np.float64]:
    """Return the propensities of the targets by the exposure model that a run was trained with."""
    if contestant.exposure is None or contestant.link is None:
        raise ConfigError(
            "opponent=own needs candidates that were trained with an exposure model; found "
            f"'{contestant.name}', which has none; leave opponent=own out, and one is fitted"
        )
    return _at(contestant.exposure, contestant.link, train, seen, targets)


def fitted_propensities(
    kind: Literal["propensity", "opponent"],
    rivals: Sequence[Contestant],
    train: Interactions,
    seen: Interactions,
    targets: Interactions,
    settings: OpponentSettings,
    seed: int,
    *,
    progress: Stages = lambda *_: None,
) -> NDArray[np.float64]:
    """Return the propensities of the targets by a model that is fitted now.

    It is fitted to the clicks alone (propensity), or against all rivals at once (opponent).
    """
    exposure = settings.build(train, seed, rivals[0].settings)
    game = settings.game(train, seed)
    watch = [lambda epoch: progress(f"evaluating: {kind}", epoch.epoch + 1, game.epochs, "epochs")]
    if kind == "propensity":
        erm(exposure, replace(train, rating=None), game.plain(), callbacks=watch)
    else:
        players, batches = _playable(rivals, kind)
        models = [
            _calibrated(each.model, train, game) if each.batches is None else each.model
            for each in players
            if each.model is not None
        ]
        fit = opponent(models, exposure, train, game, batches=batches, callbacks=watch)
        if len(fit.epochs) == game.epochs and _moves([each.objective for each in fit.epochs]):
            warnings.warn(
                f"{kind}: the opponent was still moving after {game.epochs} epochs; raise "
                "epochs of the opponent's settings",
                CounterplayWarning,
                stacklevel=2,
            )
    return _at(exposure, Link(**game.link_options()), train, seen, targets)


def _moves(objectives: Sequence[float | None]) -> bool:
    """Tell whether an objective is on its way somewhere.

    Sampled negatives shake it, so the mean of its last epochs is held against that of those before.
    """
    least, n = STILL
    known = np.array(objectives[-2 * n :], dtype=np.float64)
    if len(known) < 2 * n:
        return True  # nobody can tell
    before, last = known[:n], known[n:]
    shaken = np.sqrt((before.var(ddof=1) + last.var(ddof=1)) / n)
    return bool(abs(last.mean() - before.mean()) > max(least, 3 * shaken))


def _playable(
    contestants: Sequence[Contestant], estimator: str
) -> tuple[list[Contestant], PairBatches | None]:
    """Return whom an opponent can play against at once, and on which pairs; None is the log's rows.

    All play on the pairs that given scores have in common. Where there are too few, or another
    candidate reads histories, which pairs do not have, given scores stand aside.
    """
    players = [each for each in contestants if each.model is not None]
    trained = [each for each in players if each.batches is None]
    given = [each.batches for each in players if each.batches is not None]
    pairs = PairBatches.common(given) if given else None
    if pairs is not None and (
        not pairs.has_both
        or any(each.model is not None and each.model.history_length for each in trained)
    ):
        players, pairs = trained, None
    if not players:
        raise DataError(
            "an opponent needs a candidate's scores of training pairs, and of others; found none "
            f"with '{contestants[0].name}'; score some of each too, or leave {estimator} out"
        )
    playing = {each.name for each in players}
    aside = [each.name for each in contestants if each.name not in playing]
    if aside:
        warnings.warn(
            f"{estimator}: the opponent plays against the others, not against {', '.join(aside)}, "
            "for want of scores of training pairs, and of others, that all have",
            CounterplayWarning,
            stacklevel=3,
        )
    return players, pairs


def _calibrated(model: Scorer, train: Interactions, game: Game) -> Scorer:
    """Return the model with scores that are logits of being observed, as the loss reads them.

    An opponent is paid in losses. Those of scores on another scale are large wherever positives
    are, and then it would weight what is popular, whatever the candidate ranks first.
    """
    if train.is_explicit:
        return model
    scores, outcomes, n = [], [], 0
    model.to(game.device).eval()
    with torch.no_grad():
        for batch in Batches(train, game, model).epoch(Streams(game.seed), 0):
            scores.append(model(batch.users, batch.scored, batch.history).reshape(-1).cpu())
            outcomes.append(batch.outcomes.reshape(-1).cpu() > 0)
            n += len(batch.users)
            if n >= _CALIBRATED:
                break
    return Calibrated(model, *logistic_fit(torch.cat(scores).numpy(), torch.cat(outcomes).numpy()))


def popularity(
    train: Interactions, targets: Interactions, exponent: float, floor: float
) -> NDArray[np.float64]:
    """Return the propensities of the targets by the popularity of their items in training."""
    events = np.bincount(train.item, minlength=train.n_items)
    return popularity_propensities(targets.item, events, exponent=exponent, floor=floor)


def _at(
    exposure: Scorer, link: Link, train: Interactions, seen: Interactions, targets: Interactions
) -> NDArray[np.float64]:
    """Return G at the targets, which were observed, or with ratings had the outcome they had."""
    outcomes = np.ones(len(targets), dtype=np.float32)
    if train.rating is not None and targets.rating is not None:
        deviation = float(train.rating.std()) or 1.0
        outcomes = (targets.rating - float(train.rating.mean())) / deviation
    scores = ModelScores(exposure.cpu(), seen)
    parts = [
        scores.of(targets.user[part], targets.item[part, None])[:, 0]
        for part in (slice(begin, begin + _ROWS) for begin in range(0, len(targets), _ROWS))
    ]
    with torch.no_grad():
        g = torch.from_numpy(np.concatenate(parts).astype(np.float32))
        q = link.cpu()(g, torch.from_numpy(outcomes))
    propensities: NDArray[np.float64] = q.double().numpy().clip(link.floor, 1.0)
    return propensities
