"""`counterplay train`: learn a model from a dataset directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from counterplay.cli import console, options
from counterplay.cli.options import option, several_settings
from counterplay.errors import ConfigError
from counterplay.groups import SHARDS, is_worker
from counterplay.learning.methods import METHODS
from counterplay.places import check_dataset

_Method = Annotated[
    str | None,
    option(
        "Training method, or your own as module:name.",
        metavar=f"<{'|'.join(METHODS)}|module:name>",
        default="erm",
        autocompletion=lambda: list(METHODS),
    ),
]
_Recipe = Annotated[
    Literal["paper", "stable"] | None,
    option(
        "How ps and acl use weights: as in the paper, or the more stable variant.", default="stable"
    ),
]
_Alpha = Annotated[
    float | None, option("Weight α of the exposure model's regularizer, for acl.", default="1.0")
]
_NO_EXPOSURE = (
    "an option must belong to the method; found exposure.{} with {}; leave it out, or choose a "
    "method that has an exposure model, such as ps or acl"
)
_TRACKED_ELSEWHERE = (
    "metrics are logged by the process that trains; found --track with --ray, where that is "
    "another; leave one of them out"
)


def train(
    data: options.SplitData,
    out: Annotated[Path, option("New run directory to write.")],
    method: _Method = None,
    candidate: options.Candidate = None,
    exposure: options.Exposure = None,
    recipe: _Recipe = None,
    dim: Annotated[
        int | None, option("Hidden dimension of both models.", min=1, default="32")
    ] = None,
    alpha: _Alpha = None,
    rate: Annotated[float | None, option("Learning rate.", default="0.01")] = None,
    epochs: Annotated[int | None, option("Maximum number of epochs.", min=1, default="50")] = None,
    seed: options.Seed = None,
    config: options.Config = None,
    assignments: Annotated[list[str] | None, several_settings("training.patience=20")] = None,
    track: options.Track = None,
    workers: Annotated[
        int | None,
        option("Number of processes that train together on this machine.", min=1),
    ] = None,
    ray: Annotated[
        bool, option("Run the workers on a Ray cluster (needs counterplay\\[ray]).", "--ray")
    ] = False,
    shards: Annotated[
        int | None,
        option("Number of user ranges that workers divide among them.", min=1, default=str(SHARDS)),
    ] = None,
    own_items: Annotated[
        bool | None,
        option(
            "Whether each worker owns a part of the items' vectors, or has a copy of all.",
            "--own-items/--copy-items",
            default="own with more items than a worker looks up in a step",
        ),
    ] = None,
    checkpoint_every: Annotated[
        int, option("Epochs between two checkpoints.", min=1, default="1")
    ] = 1,
    resume: Annotated[bool, option("Continue an interrupted run at --out.", "--resume")] = False,
    as_json: options.Json = False,
) -> None:
    """Train a model: plain (erm), propensity-weighted (ps), adversarial (acl) or your own method.

    Example: counterplay train data/clicks --out runs/game --method acl --candidate gmf
    """
    check_dataset(data)
    from counterplay.cli import launching
    from counterplay.data.publishing import check_free
    from counterplay.learning.tracking import tracked
    from counterplay.runs.config import run_config

    given: dict[str, Any] = {
        "method": method,
        "candidate.name": candidate,
        "exposure.name": exposure,
        "candidate.dim": dim,
        "exposure.dim": dim,
        "training.recipe": recipe,
        "training.alpha": alpha,
        "training.rate": rate,
        "training.epochs": epochs,
        "training.seed": seed,
    }
    settings = run_config(config, assignments or (), given)
    strange = settings.exposure.model_fields_set - {"dim"}  # --dim is that of both
    if strange and not settings.has_exposure:
        raise ConfigError(_NO_EXPOSURE.format(min(strange), settings.method))
    if not resume and not is_worker():
        check_free(out)
    if ray and track is not None:
        raise ConfigError(_TRACKED_ELSEWHERE)
    if workers is not None and not ray and not is_worker():
        launching.launch(workers, shards or SHARDS)
    if is_worker():
        shards = shards or SHARDS
        launching.check_size(workers)
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # what matters is said in a sentence
    from counterplay.notes import tell
    from counterplay.runs import training
    from counterplay.runs.on_ray import train_on_ray
    from counterplay.runs.workers import joined

    how: Any = {
        "resume": resume, "own_items": own_items, "checkpoint_every": checkpoint_every
    }  # fmt: skip
    if ray:
        with console.notes(), console.working(f"training on {data.name} by Ray"):
            found = train_on_ray(
                data, out, settings, n_workers=workers or 1, shards=shards or SHARDS, **how
            )
            tell(found.notes)
        record = found.to_dict()
        console.print_json(record) if as_json else _show(record, out)
        return
    if is_worker() and os.environ["RANK"] != "0":  # the first one speaks
        with joined() as group:
            training.train(data, out, settings, shards=shards, group=group, **how)
        return
    events = out.with_name(f"{out.name}.events")
    with (
        joined() as group,
        console.notes(),
        console.resumable("continue with the same command and --resume"),
        console.progress(f"training on {data.name}", unit="epochs") as bar,
        tracked(track, events, out.name, settings.model_dump(mode="json")) as trackers,
    ):
        callbacks = [lambda epoch: bar(epoch.epoch + 1, settings.training.epochs), *trackers]
        found = training.train(
            data, out, settings, callbacks=callbacks, shards=shards, group=group, **how
        )
        record = found.to_dict()
    if as_json:
        console.print_json(record)
    else:
        _show(record, out)


def _show(record: dict[str, Any], out: Path) -> None:
    from counterplay.report.words import metric, number

    configuration = record["configuration"]
    models = [configuration.get(role, {"name": role}) for role in record["parameters"]]
    names = [model["name"] for model in models]
    counts = " and ".join(f"{count:,}" for count in record["parameters"].values())
    done = f"{len(record['epochs'])}, the best is {record['best_epoch']}; {record['stopped']}"
    rows = {
        "method": f"{configuration['method']}: {' against '.join(names)}, {counts} parameters",
        "epochs": done,
    }
    if found := record["validation"]:
        value, low, high = (number(found[key]) for key in ("value", "low", "high"))
        rows["validation"] = (
            f"{metric(found['metric'], found['k'])} {value} [{low}, {high}] on {found['n']:,} "
            f"rows, {found['protocol']}"
        )
    last = record["epochs"][max(record["best_epoch"], 0)]
    if last["propensity"]:
        low, mean, high = last["propensity"]
        rows["propensities"] = f"{low:.3f} to {high:.3f}, mean {mean:.3f}"
    if last["ess"] is not None:
        rows["weights"] = f"effective sample {last['ess']:.0%}"
    if last["beta"]:
        rows["link"] = "β " + ", ".join(f"{value:.2f}" for value in last["beta"])
    console.print_pairs(rows | {"written to": str(out)})
