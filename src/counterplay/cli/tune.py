"""`counterplay tune`: search each method's settings, with the same effort for all."""

from __future__ import annotations

import shlex
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from counterplay.cli import console, options
from counterplay.cli.launching import jobs_run
from counterplay.cli.options import option, several_settings
from counterplay.evaluation.estimators import ESTIMATORS
from counterplay.extras import check_installed
from counterplay.learning.methods import METHODS
from counterplay.metrics.formulas import row_metrics
from counterplay.places import check_dataset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from counterplay.data.jobs import Executor

_SELECT = [each.name for each in ESTIMATORS.values() if each.selects]
_SHOWN = 5  # trials of a method, the best first

_Out = Annotated[
    Path, option("Directory for trials and best runs. Continues an interrupted tuning.")
]
_Methods = Annotated[
    list[str] | None,
    option(
        f"Methods, one or more of: {', '.join(METHODS)}, or your own as module:name.", default="all"
    ),
]
_Epochs = Annotated[int | None, option("Maximum number of epochs per trial.", min=1, default="100")]
_Estimator = Annotated[
    list[str] | None,
    option(
        f"Estimator that selects the best trial, one of: {', '.join(_SELECT)}.",
        default="popularity",
    ),
]
_Metric = Annotated[
    str | None,
    option(
        "Metric that selects the best trial.",
        metavar=f"<{'|'.join(row_metrics())}>",
        default="hit",
        autocompletion=lambda: list(row_metrics()),
    ),
]


def tune(
    data: options.SplitData,
    out: _Out,
    methods: _Methods = None,
    candidate: options.Candidate = None,
    exposure: options.Exposure = None,
    trials: Annotated[
        int | None, option("Number of trials per method.", min=1, default="20")
    ] = None,
    epochs: _Epochs = None,
    estimator: _Estimator = None,
    metric: _Metric = None,
    k: Annotated[list[int] | None, option("Cutoff k of the metric.", min=1, default="10")] = None,
    protocol: options.Protocol = None,
    seed: options.Seed = None,
    config: options.Config = None,
    assignments: Annotated[list[str] | None, several_settings("space.rate=[0.01,0.1]")] = None,
    workers: Annotated[
        int | None,
        option("Number of processes; each has a trial of another method.", default="1", min=1),
    ] = None,
    ray: Annotated[
        bool, option("Run the trials on a Ray cluster (needs counterplay\\[ray]).", "--ray")
    ] = False,
    track: options.Track = None,
    as_json: options.Json = False,
) -> None:
    """Tune each method with the same number of trials on validation rows; keep the best runs.

    Example: counterplay tune data/clicks --out tuned --methods erm acl --trials 20
    """
    check_dataset(data)
    check_installed("tuning", "tune", "optuna")
    from counterplay.settings import configured
    from counterplay.tuning.space import Tuning

    given: dict[str, Any] = {
        "methods": methods or None,
        "candidate.name": candidate,
        "exposure.name": exposure,
        "trials": trials,
        "training.epochs": epochs,
        "selection.estimator": _one(estimator),
        "selection.metric": metric,
        "selection.k": _one(k),
        "selection.protocol": protocol,
        "seed": seed,
    }
    settings = configured(Tuning, config, assignments or (), given)
    from counterplay.tuning import tuning

    what = f"tuning on {data.name}"
    with (
        console.notes(),
        console.resumable("continue with the same command"),
        console.progress(what, unit="trials") as bar,
        _executing(workers, len(settings.methods), ray=ray) as executor,
    ):

        def show(done: int, total: int, best: str) -> None:
            bar(done, total, f"{what}, best {best}" if best else what)

        result = tuning.tune(data, out, settings, progress=show, executor=executor, track=track)
    if as_json:
        console.print_json(result)
    else:
        _show(result, out)


@contextmanager
def _executing(workers: int | None, n_methods: int, *, ray: bool) -> Iterator[Executor | None]:
    """Give what runs trials side by side, in as many threads each as here: so they are the same.

    On Ray each has one.
    """
    if ray:
        with jobs_run(workers, ray=True) as executor:
            yield executor
        return
    n = min(workers or 1, n_methods)
    if n == 1:
        yield None
        return
    import torch

    from counterplay.data.jobs import processes

    with processes(n, torch.get_num_threads()) as executor:
        yield executor


def _one(values: list[Any] | None) -> Any:
    """Take a value out of its row; a row of several is refused with all settings."""
    return values[0] if values and len(values) == 1 else values or None


def _show(result: dict[str, Any], out: Path) -> None:
    from counterplay.report.words import number

    for found in result["methods"]:
        trials, failed = found["trials"], found["failed"]
        title = f"{found['method']}: {len(trials)} trials, {len(failed)} failed"
        judged = [each for each in trials if each["number"] not in failed]
        if not judged:
            console.out.print(f"{title}; the first: {trials[0]['failed']}")
            continue
        best = sorted(judged, key=lambda each: -each["estimate"]["value"])[:_SHOWN]
        first = best[0]["estimate"]
        console.print_table(
            f"{title}; {first['metric']}@{first['k']} by {first['estimator']}, "
            f"{first['protocol']}, {first['n']:,} validation rows",
            {
                "trial": [f"{each['number']}: {_settings(each['settings'])}" for each in best],
                **{
                    key: [number(each["estimate"][key]) for each in best]
                    for key in ("value", "low", "high")
                },
                "epochs": [str(each["epochs"]) for each in best],
            },
        )
    console.print_pairs({"written to": str(out)})
    runs = [shlex.quote(str(out / found["run"])) for found in result["methods"] if found["run"]]
    if runs:
        command = "compare" if len(runs) > 1 else "evaluate"
        console.out.print(f"next, on test rows: counterplay {command} {' '.join(runs)}")


def _settings(settings: dict[str, Any]) -> str:
    short = {key: f"{it:.3g}" if isinstance(it, float) else it for key, it in settings.items()}
    return ", ".join(f"{key.removeprefix('training.')} {value}" for key, value in short.items())
