"""Epoch after epoch: validate, keep the best, stop, warn. What all methods share."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch

from counterplay.errors import CounterplayWarning, DivergedError
from counterplay.learning.records import Epoch, Fit

if TYPE_CHECKING:
    from counterplay.learning.config import Training
    from counterplay.models.link import Link
    from counterplay.models.scorer import Scorer
    from counterplay.seeding import Streams

Validate = Callable[["Scorer"], float]  # larger is better
Callback = Callable[[Epoch], None]
STILL = 0.001, 10  # the paper's rule: the objective moves less than this in so many epochs


def fit(
    run_epoch: Callable[[int], Epoch],
    candidate: Scorer,
    config: Training,
    streams: Streams,
    *,
    exposure: Scorer | None = None,
    link: Link | None = None,
    validate: Validate | None = None,
    callbacks: Iterable[Callback] = (),
    stop_by_objective: bool = False,
    first_epoch_that_counts: int = 0,
) -> Fit:
    """Run epochs until one of the rules says stop, and return the players at their best.

    Without `validate` the last state is the best. The states of candidate, exposure model and
    link are kept together.
    """
    players = [each for each in (candidate, exposure, link) if each is not None]
    epochs: list[Epoch] = []
    best_value, best_epoch, best_state = -math.inf, -1, _state(players)
    stopped = f"all {config.epochs} epochs were run"
    for number in range(config.epochs):
        for player in players:
            player.train()
        with torch.random.fork_rng():  # dropout draws from the global stream
            torch.manual_seed(int(streams.numpy("dropout", number).integers(2**62)))
            epoch = run_epoch(number)
        _check_finite(epoch)
        for player in players:
            player.eval()
        epochs.append(epoch)
        counts = number >= first_epoch_that_counts
        if validate is not None:
            with torch.no_grad():
                epoch.validation = validate(candidate)
                if exposure is not None:
                    epoch.exposure_validation = validate(exposure)
        value = number if epoch.validation is None else epoch.validation
        if counts and value > best_value:
            best_value, best_epoch, best_state = value, number, _state(players)
        for callback in callbacks:
            callback(epoch)
        if stop_by_objective and _stands_still(epochs[first_epoch_that_counts:]):
            stopped = "the objective stood still"
            break
        if validate is not None and number - max(best_epoch, first_epoch_that_counts) >= (
            config.patience
        ):
            stopped = f"no better validation value for {config.patience} epochs"
            break
    for player, state in zip(players, best_state, strict=True):
        player.load_state_dict(state)
    if epochs:
        _warn_of_the_link(epochs[max(best_epoch, 0)])
    return Fit(candidate, exposure, link, epochs, best_epoch, stopped)


def _state(players: list[Any]) -> list[dict[str, Any]]:
    return [copy.deepcopy(player.state_dict()) for player in players]


def _stands_still(epochs: list[Epoch]) -> bool:
    least, n = STILL
    last = [epoch.objective for epoch in epochs[-n:] if epoch.objective is not None]
    return len(last) == n and max(last) - min(last) < least


def _check_finite(epoch: Epoch) -> None:
    for name in ("candidate_loss", "exposure_loss", "objective"):
        value = getattr(epoch, name)
        if value is not None and not math.isfinite(value):
            raise DivergedError(
                f"losses must stay finite; found {name.replace('_', ' ')} {value} in epoch "
                f"{epoch.epoch}; lower the rates, or raise alpha or the floor of propensities"
            )


def _warn_of_the_link(epoch: Epoch) -> None:
    """Say when the propensities no longer mean what they should."""
    if epoch.beta is not None and epoch.beta[1] < 0:
        _warn(
            f"the link is inverted (β1 = {epoch.beta[1]:.3g}): propensities fall as exposure "
            "scores rise; use the stable recipe, whose link is monotone"
        )
    if epoch.propensity is not None and epoch.propensity[2] - epoch.propensity[0] < 0.01:
        low, _, high = epoch.propensity
        _warn(
            f"the propensities have collapsed to {low:.3g} … {high:.3g}: all weights are alike, "
            "and this is plain learning; lower alpha, or fix the link"
        )


def _warn(text: str) -> None:
    warnings.warn(text, CounterplayWarning, stacklevel=4)
