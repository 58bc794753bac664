"""The one training loop: it plays a method's batches epoch by epoch, validates, keeps the best."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, cast

import numpy as np
import torch

from counterplay.errors import CounterplayWarning, DivergedError
from counterplay.learning.checkpoint import Progress, load_checkpoint, save_checkpoint
from counterplay.learning.config import Weighted
from counterplay.learning.effect import has_no_effect
from counterplay.learning.owned import items_of
from counterplay.learning.records import Epoch, Fit, Meter
from counterplay.learning.shard_checkpoint import load_shards, save_shards
from counterplay.learning.shards import batches_of
from counterplay.models.lookups import shared_lookups
from counterplay.models.solved import Solved
from counterplay.seeding import Streams

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from torch import nn

    from counterplay.data.interactions import Interactions
    from counterplay.learning.batches import Batch
    from counterplay.learning.config import Training
    from counterplay.learning.method import Method
    from counterplay.models.scorer import Scorer

Validate = Callable[["Scorer"], float]  # larger is better
Callback = Callable[[Epoch], None]
STILL = 0.001, 10  # the paper's rule: the objective moves less than this in so many epochs
_SMALL = 2048  # rows of a batch that one thread computes as fast as several


class Epochs(Protocol):
    """Where batches come from."""

    def epoch(self, streams: Streams, epoch: int) -> Iterator[Batch]:
        """Yield the batches of one epoch."""


class FitOptions(TypedDict, total=False):
    """What every method's fit takes besides its players, log and settings; see `fit`."""

    validate: Validate | None
    callbacks: Iterable[Callback]
    checkpoint: Path | None
    checkpoint_every: int


def fit(
    method: Method[Any],
    *,
    validate: Validate | None = None,
    callbacks: Iterable[Callback] = (),
    checkpoint: Path | None = None,
    checkpoint_every: int = 1,
    batches: Epochs | None = None,
    earlier: Sequence[int] = (),
) -> Fit:
    """Run epochs until one of the rules says stop, and return the players at their best.

    Without `validate` the last state is the best. The states of all players are kept together.

    Args:
        method: What is learnt, and from which rows.
        validate: Judges a model after each epoch, larger is better; never on test rows.
        callbacks: Called after each epoch.
        checkpoint: Folder to write each epoch's state to, and to go on from: learning ends in the
            same bytes, interrupted or not.
        checkpoint_every: Epochs from one state that is written to the next; the last one always is.
        batches: Rows to learn from; by default the log's with sampled negatives.
        earlier: Epochs of what is learnt beforehand, latest first; by default as many as of this.
    """
    config, log, players = method.config, method.log, method.players
    first, own = method.first(), checkpoint
    kept: tuple[int, ...] = ()
    if first is not None:
        if earlier:
            first.config = first.config.model_copy(update={"epochs": earlier[0]})
        wanted = None if log.is_explicit else validate  # an exposure model predicts no ratings
        found = fit(
            first,
            validate=wanted,
            checkpoint=checkpoint and checkpoint / "exposure",
            checkpoint_every=checkpoint_every,
            earlier=earlier[1:],
        )
        kept = found.best_epoch, *found.earlier
        own = checkpoint and checkpoint / "candidate"
    method.items = items_of(players, log, config.device)
    method.prepare()
    if isinstance(players.get("candidate"), Solved):
        return replace(_solved(method, validate, callbacks), earlier=kept)
    batches = batches or batches_of(log, config, *method.scorers)
    about = {"training": config.model_dump(mode="json"), "rows": _rows(log)}
    if method.impressions is not None:
        about["impressions"] = _rows(method.impressions)
    progress = Progress(best=_states(players))
    if own is not None:
        progress = _resumed(own, about, method)
        _warn_of_threads(progress.threads, threads_for(config.batch_size))
        progress.best = progress.best or _states(players)
    with _arithmetic(config.batch_size):
        while progress.stopped is None:
            epoch = _run_epoch(method, batches, len(progress.epochs))
            progress.epochs.append(epoch)
            if validate is not None:
                _judge(method, validate, progress.epochs)
            if progress.compare(epoch, first=method.first_epoch_that_counts):
                progress.best = _states(players)
            progress.stopped = _reason_to_stop(method, progress, judged=validate is not None)
            due = progress.stopped is not None or not len(progress.epochs) % checkpoint_every
            if own is not None and due:
                _save(own, about, method, progress)
            for callback in callbacks:
                callback(epoch)
    for name, player in players.items():
        player.load_state_dict(progress.best[name])
        player.eval()
    _warn_of_the_link(progress.epochs[max(progress.best_epoch, 0)], method)
    return Fit(players, progress.epochs, progress.best_epoch, progress.stopped, kept)


def _solved(method: Method[Any], validate: Validate | None, callbacks: Iterable[Callback]) -> Fit:
    """Compute a candidate at once, in what counts as one epoch; there is nothing to go on from."""
    meter, weights = Meter(), method.row_weights()
    scaled = None if weights is None else weights / weights.mean()
    with _arithmetic(method.config.batch_size):
        cast("Solved", method.candidate).solve(method.log, scaled)
    if weights is not None:
        meter.add_weights(None, torch.from_numpy(weights)[:, None])
    epoch = meter.epoch(0, {}, method.players.get("link"))
    for player in method.players.values():
        player.eval()
    if validate is not None:
        _judge(method, validate, [epoch])
    for callback in callbacks:
        callback(epoch)
    _warn_of_the_link(epoch, method)
    return Fit(method.players, [epoch], 0, "the model is computed at once")


def _rows(log: Interactions) -> str:
    """Return what says which rows a run learns from; of several workers, those of all."""
    if log.share is None:
        return log.fingerprint
    n = int(log.group.total(np.array([len(log)]))[0])
    return f"{n} rows in {log.share.n_shards} shards of {log.share.fingerprint}"


def _resumed(folder: Path, about: dict[str, Any], method: Method[Any]) -> Progress:
    players, optimizers = method.players, list(method.optimizers.values())
    if method.log.share is None:
        return load_checkpoint(folder, about, players, optimizers)
    return load_shards(folder, about, players, optimizers, method.log.share)


def _save(folder: Path, about: dict[str, Any], method: Method[Any], progress: Progress) -> None:
    players, optimizers = method.players, list(method.optimizers.values())
    if method.log.share is None:
        save_checkpoint(folder, about, players, optimizers, progress)
    else:
        save_shards(folder, about, players, optimizers, progress, method.log.share)


def _run_epoch(method: Method[Any], batches: Epochs, number: int) -> Epoch:
    """Play all batches once, with dropout from a stream of the epoch's own."""
    config, items, meter = method.config, method.items, Meter(method.log.group)
    for player in method.players.values():
        player.train()
    lent = nullcontext() if items is None else items.lent()
    with torch.random.fork_rng(), lent:  # dropout draws from the global stream
        _seed(int(Streams(config.seed).numpy("dropout", number).integers(2**62)))
        method.begin(number)
        for batch in batches.epoch(Streams(config.seed), number):
            if items is not None:
                items.begin(batch)
            with _precision(config), shared_lookups():  # players look the same items up
                method.step(batch, meter)
    for player in method.players.values():
        player.eval()
    epoch = meter.epoch(number, method.optimizers, method.players.get("link"))
    _check_finite(epoch)
    return epoch


@torch.no_grad()
def _judge(method: Method[Any], validate: Validate, epochs: list[Epoch]) -> None:
    """Validate the candidate after an epoch, and an exposure model that goes with it."""
    epochs[-1].validation = validate(method.candidate)
    exposure = method.players.get("exposure")
    if exposure is not None and not method.log.is_explicit:  # g predicts no ratings
        learns = any(value.requires_grad for value in exposure.parameters())
        kept = epochs[-2].exposure_validation if len(epochs) > 1 and not learns else None
        epochs[-1].exposure_validation = validate(method.exposure) if kept is None else kept


def _reason_to_stop(method: Method[Any], progress: Progress, *, judged: bool) -> str | None:
    config, first, number = method.config, method.first_epoch_that_counts, len(progress.epochs)
    if method.stops_by_objective and _stands_still(progress.epochs[first:]):
        return "the objective stood still"
    if judged and number - 1 - max(progress.best_epoch, first) >= config.patience:
        return f"no better validation value for {config.patience} epochs"
    return f"all {config.epochs} epochs were run" if number == config.epochs else None


def _stands_still(epochs: list[Epoch]) -> bool:
    least, n = STILL
    last = [epoch.objective for epoch in epochs[-n:] if epoch.objective is not None]
    return len(last) == n and max(last) - min(last) < least


def _precision(config: Training) -> AbstractContextManager[object]:
    """Return the context of a step; gradients are computed outside of it, see `Optimizer.step`."""
    if config.precision == "float32":
        return nullcontext()
    # Without a cache: within one context a player moves and is asked again.
    return torch.autocast(torch.device(config.device).type, torch.bfloat16, cache_enabled=False)


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


def _seed(seed: int) -> None:
    """Seed the global streams that are in use; torch would keep a call for each device to come."""
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)


def _states(players: Mapping[str, nn.Module]) -> dict[str, dict[str, Any]]:
    return {name: copy.deepcopy(player.state_dict()) for name, player in players.items()}


def _check_finite(epoch: Epoch) -> None:
    for name in ("candidate_loss", "exposure_loss", "objective"):
        value = getattr(epoch, name)
        if value is not None and not math.isfinite(value):
            raise DivergedError(
                f"losses must stay finite; found {name.replace('_', ' ')} {value} in epoch "
                f"{epoch.epoch}; lower the rates, or raise alpha or the floor of propensities"
            )


def _warn_of_threads(before: int | None, now: int) -> None:
    if before is not None and before != now:
        _warn(
            f"training began with {before} threads and goes on with {now}: numbers may differ in "
            "their last digits from those of a run that was not interrupted; set OMP_NUM_THREADS "
            f"to {before} for the same bytes"
        )


def _warn_of_the_link(epoch: Epoch, method: Method[Any]) -> None:
    """Warn when propensities fall as exposure scores rise, or when the weights do nothing."""
    if epoch.beta is not None and epoch.beta[1] < 0:
        _warn(
            f"the link is inverted (β1 = {epoch.beta[1]:.3g}): propensities fall as exposure "
            "scores rise; use the stable recipe, whose link is monotone"
        )
    if epoch.ess is not None and has_no_effect(epoch.ess):
        plays = epoch.objective is not None
        _warn(
            f"the {'opponent has' if plays else 'weights have'} no effect; this is plain "
            f"{'evaluation' if method.judges else 'learning'}: the effective sample size of the "
            f"weights is {epoch.ess:.1%} of the rows; {_remedy(method, plays=plays)}"
        )


def _remedy(method: Method[Any], *, plays: bool) -> str:
    """Return what may give the weights an effect, without what the run does already."""
    config = method.config
    if method.judges:
        return "lower its alpha, or let it play for more epochs"
    steps = ["lower alpha", "raise exposure_rate"] if plays else [method.remedy]
    if isinstance(config, Weighted):
        steps += ["choose the stable recipe"] * (config.recipe != "stable")
        learns = config.link.learn and not isinstance(method.candidate, Solved)
        steps += ["fix the link with link.learn=false"] * learns
        steps += ["lower link.floor, so that weights can be larger"]
    return f"{', '.join(steps[:-1])}, or {steps[-1]}" if len(steps) > 1 else steps[0]


def _warn(text: str) -> None:
    warnings.warn(text, CounterplayWarning, stacklevel=4)
