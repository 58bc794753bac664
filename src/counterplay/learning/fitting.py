"""Epoch after epoch: validate, keep the best, stop, warn. What all methods share."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from counterplay.errors import CounterplayWarning, DivergedError
from counterplay.learning.checkpoint import Progress, load_checkpoint, save_checkpoint
from counterplay.learning.effect import has_no_effect
from counterplay.learning.records import Epoch, Fit
from counterplay.seeding import Streams

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from torch import nn

    from counterplay.data.interactions import Interactions
    from counterplay.learning.config import Training
    from counterplay.learning.optimizers import Optimizer
    from counterplay.models.link import Link
    from counterplay.models.scorer import Scorer

Validate = Callable[["Scorer"], float]  # larger is better
Callback = Callable[[Epoch], None]
STILL = 0.001, 10  # the paper's rule: the objective moves less than this in so many epochs
_NO_EFFECT = {  # what is said of weights that are all alike, and what to do
    "weights": (
        "the weights have no effect; this is plain learning",
        "choose the stable recipe, or fix the link with link.learn=false",
    ),
    "learning": (
        "the opponent has no effect; this is plain learning",
        "lower alpha, raise exposure_rate, choose the stable recipe, or fix the link with "
        "link.learn=false",
    ),
    "evaluation": (
        "the opponent has no effect; this is plain evaluation",
        "lower its alpha, or let it play for more epochs",
    ),
}
_SMALL = 2048  # rows of a batch that one thread computes as fast as several


def fit(
    run_epoch: Callable[[int], Epoch],
    candidate: Scorer,
    log: Interactions,
    config: Training,
    optimizers: Sequence[Optimizer],
    *,
    exposure: Scorer | None = None,
    link: Link | None = None,
    validate: Validate | None = None,
    callbacks: Iterable[Callback] = (),
    checkpoint: Path | None = None,
    stop_by_objective: bool = False,
    first_epoch_that_counts: int = 0,
) -> Fit:
    """Run epochs until one of the rules says stop, and return the players at their best.

    Without `validate` the last state is the best. The states of candidate, exposure model and
    link are kept together. With `checkpoint`, each epoch's end is written there, and learning
    goes on from what is there already: it ends in the same bytes, interrupted or not.
    """
    named = {"candidate": candidate, "exposure": exposure, "link": link}
    players = {name: each for name, each in named.items() if each is not None}
    about = {"training": config.model_dump(mode="json"), "rows": log.fingerprint}
    progress = Progress(best=_states(players))
    if checkpoint is not None:
        progress = load_checkpoint(checkpoint, about, players, optimizers)
        _warn_of_threads(progress.threads, threads_for(config.batch_size))
        progress.best = progress.best or _states(players)
    exposure_value: float | None = None  # of a frozen one it stays as it is
    with _arithmetic(config.batch_size):
        while progress.stopped is None:
            number = len(progress.epochs)
            for player in players.values():
                player.train()
            with torch.random.fork_rng():  # dropout draws from the global stream
                stream = Streams(config.seed).numpy("dropout", number)
                _seed(int(stream.integers(2**62)))
                epoch = run_epoch(number)
            _check_finite(epoch)
            for player in players.values():
                player.eval()
            progress.epochs.append(epoch)
            if validate is not None:
                with torch.no_grad():
                    epoch.validation = validate(candidate)
                    if exposure is not None and not log.is_explicit:  # g predicts no ratings
                        if exposure_value is None or _learns(exposure):
                            exposure_value = validate(exposure)
                        epoch.exposure_validation = exposure_value
            value = number if epoch.validation is None else epoch.validation
            if number >= first_epoch_that_counts and value > progress.best_value:
                progress.best_value, progress.best_epoch = value, number
                progress.best = _states(players)
            since_best = number - max(progress.best_epoch, first_epoch_that_counts)
            if stop_by_objective and _stands_still(progress.epochs[first_epoch_that_counts:]):
                progress.stopped = "the objective stood still"
            elif validate is not None and since_best >= config.patience:
                progress.stopped = f"no better validation value for {config.patience} epochs"
            elif number + 1 == config.epochs:
                progress.stopped = f"all {config.epochs} epochs were run"
            if checkpoint is not None:
                save_checkpoint(checkpoint, about, players, optimizers, progress)
            for callback in callbacks:
                callback(epoch)
    for name, player in players.items():
        player.load_state_dict(progress.best[name])
        player.eval()
    act = "learning" if exposure is not None else "evaluation"
    _warn_of_the_link(progress.epochs[max(progress.best_epoch, 0)], act)
    return Fit(candidate, exposure, link, progress.epochs, progress.best_epoch, progress.stopped)


@contextmanager
def _arithmetic(batch_size: int) -> Iterator[None]:
    """Let one thread compute small batches, and take numbers next to 0 for 0.

    Several threads would mostly wait for each other. Moments of parameters that are seldom touched
    decay to subnormal numbers, with which processors are slow.
    """
    n_threads, flushed = torch.get_num_threads(), not float(torch.tensor(1e-40) * 1)
    torch.set_num_threads(threads_for(batch_size))
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)
        torch.set_flush_denormal(flushed)


def threads_for(batch_size: int) -> int:
    """Return how many threads compute such batches; sums depend on it in their last digits."""
    return 1 if batch_size < _SMALL else torch.get_num_threads()


def _warn_of_threads(before: int | None, now: int) -> None:
    if before is not None and before != now:
        _warn(
            f"training began with {before} threads and goes on with {now}: numbers may differ in "
            "their last digits from those of a run that was not interrupted; set OMP_NUM_THREADS "
            f"to {before} for the same bytes"
        )


def _seed(seed: int) -> None:
    """Seed the global streams that are in use; torch would keep a call for each device to come."""
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)


def _states(players: Mapping[str, nn.Module]) -> dict[str, dict[str, Any]]:
    return {name: copy.deepcopy(player.state_dict()) for name, player in players.items()}


def _learns(player: nn.Module) -> bool:
    return any(value.requires_grad for value in player.parameters())


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


def _warn_of_the_link(epoch: Epoch, act: str) -> None:
    """Say when the propensities no longer mean what they should, or do nothing."""
    if epoch.beta is not None and epoch.beta[1] < 0:
        _warn(
            f"the link is inverted (β1 = {epoch.beta[1]:.3g}): propensities fall as exposure "
            "scores rise; use the stable recipe, whose link is monotone"
        )
    if epoch.ess is not None and has_no_effect(epoch.ess):
        said, remedy = _NO_EFFECT["weights" if epoch.objective is None else act]
        share = f"the effective sample size of the weights is {epoch.ess:.1%} of the rows"
        _warn(f"{said}: {share}; {remedy}")


def _warn(text: str) -> None:
    warnings.warn(text, CounterplayWarning, stacklevel=4)
