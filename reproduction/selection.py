"""The appendix's selection of settings: one at a time, and then the best of each together.

    erm    rate, ℓ2, heads
    ps     g by its own plain training; then rate and ℓ2 of f
    acl    ℓ2 and heads of f and g by their plain training; then r_θ, r_ψ and α

A variant of the game, without the outcome say, has the settings of the game itself.

All trials have a seed of their own, which no reported cell has, and are judged by Hit@10 on the
validation rows. What is chosen follows from the trials in `runs`, and stands on the page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from reproduction.methods import SPACE, TableMethod

if TYPE_CHECKING:
    from counterplay.data.jobs import Results
    from reproduction.jobs import TrainJob
    from reproduction.methods import Settings

SEED = 100
VARIED = ("with_outcome", "learn", "lazy", "objective")
MakeJob = Callable[[TableMethod, "Settings"], "TrainJob"]


class Selected(NamedTuple):
    """What was chosen, None as long as trials wait; and the trials that are known by now."""

    settings: Settings | None
    trials: list[TrainJob]


def selected(method: TableMethod, results: Results, make: MakeJob, n_values: int) -> Selected:
    """Return the settings of a method, and the trials that say so.

    Args:
        method: What is tuned.
        results: Of the trials that are over.
        make: Makes the job of a trial.
        n_values: Of each setting that are tried beside the default, at most.
    """
    varied = [name for name, _ in method.fixed if name in VARIED]
    if varied:
        same = tuple(each for each in method.fixed if each[0] not in VARIED)
        itself = method.model_copy(update={"fixed": same})
        return selected(itself, results, make, n_values)
    if not coordinates(method):
        return Selected((), [])
    adopted, trials = _adopted(method, results, make, n_values)
    if adopted is None:
        return Selected(None, trials)
    first = make(method, adopted)
    by_name = {
        name: [make(method, _with(adopted, {name: value})) for value in SPACE[name][:n_values]]
        for name in coordinates(method)
    }
    trials += [first, *(job for jobs in by_name.values() for job in jobs)]
    best = {name: _best([first, *jobs], results) for name, jobs in by_name.items()}
    if any(job is None for job in best.values()):
        return Selected(None, trials)
    together = {
        name: dict(job.settings)[name]
        for name, job in best.items()
        if job is not None and job != first
    }
    own = [first, *(job for jobs in by_name.values() for job in jobs)]
    if len(together) > 1:
        own.append(make(method, _with(adopted, together)))
        trials.append(own[-1])
    chosen = _best(own, results)
    return Selected(None if chosen is None else chosen.settings, trials)


def coordinates(method: TableMethod) -> tuple[str, ...]:
    """Return the settings that are tuned for a method itself."""
    fixed = {name for name, _ in method.fixed}
    if method.candidate == "pop" or "code" in fixed:
        return ()
    heads = ("heads",) if method.candidate == "attn" else ()
    names = {"erm": ("rate", "l2", *heads), "ps": ("rate", "l2")}
    return tuple(
        name
        for name in names.get(method.method, ("rate", "exposure_rate", "alpha"))
        if name not in fixed
    )


def _adopted(
    method: TableMethod, results: Results, make: MakeJob, n_values: int
) -> tuple[Settings | None, list[TrainJob]]:
    """Return what is taken over from the plain training of the same model, at the same size."""
    learnt = method.exposure if method.method == "ps" else method.candidate
    if method.method == "erm" or learnt in ("pop", "oracle"):
        return (), []
    alone = TableMethod(method="erm", candidate=learnt, dim=method.dim)
    found = selected(alone, results, make, n_values)
    if found.settings is None:
        return None, found.trials
    chosen = dict(found.settings)
    if method.method == "ps":
        taken = {f"exposure_{name}": chosen[name] for name in ("rate", "l2") if name in chosen}
        taken = {"exposure_rate": 0.01} | taken  # so that it is not f's, which changes
        if "heads" in chosen:
            taken["heads"] = chosen["heads"]
    else:
        taken = {name: chosen[name] for name in ("l2", "heads") if name in chosen}
    return tuple(taken.items()), found.trials


def _with(settings: Settings, changes: dict[str, float]) -> Settings:
    return tuple((dict(settings) | changes).items())


def _best(jobs: list[TrainJob], results: Results) -> TrainJob | None:
    """Return the job with the best validation value, the first of equals, once all are over."""
    if any(results.state(job) == "waiting" for job in jobs):
        return None
    done = [(job, found) for job in jobs if (found := results.of(job)) is not None]
    return max(done, key=lambda each: float(each[1]["validation"]["value"]))[0] if done else None
