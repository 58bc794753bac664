"""`python -m reproduction`: the paper's tables and figures, run here."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from counterplay.cli import console
from counterplay.cli.main import main
from counterplay.cli.options import Command, Json
from counterplay.data.jobs import in_processes, n_cores, on_ray
from counterplay.errors import ConfigError
from reproduction.experiments import EXPERIMENTS
from reproduction.experiments import app as experiments
from reproduction.jobs import Plan
from reproduction.reproduce import REPRODUCIBLE, Reproduction, check_name
from reproduction.sections import write_page

NAME = "python -m reproduction"
app = typer.Typer(
    name=NAME,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _known(name: str) -> str:
    """Refuse a wrong name before an option is asked for."""
    check_name(name, EXPERIMENTS)
    if name in EXPERIMENTS:
        raise ConfigError(
            f"an experiment of our own must be named first; found '{name}' after its options; "
            f"write {NAME} {name} and then the options"
        )
    return name


Name = Annotated[
    str,
    typer.Argument(
        help=f"One of {', '.join(REPRODUCIBLE)}.",
        callback=_known,
        is_eager=True,
    ),
]
Data = Annotated[Path, typer.Option(help="Folder with one subfolder per public dataset.")]
Out = Annotated[Path, typer.Option(help="Folder for results. Continues interrupted work.")]
Seeds = Annotated[int, typer.Option(help="Number of repetitions of each table cell.", min=1)]
Trials = Annotated[
    int, typer.Option(help="Number of settings to try per method (1: only the defaults).", min=1)
]
Epochs = Annotated[int, typer.Option(help="Maximum number of epochs.", min=1)]
Patience = Annotated[
    int, typer.Option(help="Stop after this many epochs without improvement.", min=1)
]
Dim = Annotated[
    int, typer.Option(help="Hidden dimension of PS and ACL. Baselines get twice as much.", min=1)
]
Only = Annotated[
    list[str] | None,
    typer.Option(help="Run only jobs with this text in their name. Repeatable: all must match."),
]
Workers = Annotated[
    int | None, typer.Option(help="Number of processes.", min=1, show_default="one per core")
]
Ray = Annotated[
    bool, typer.Option("--ray", help="Run on a Ray cluster (needs counterplay\\[ray]).")
]
Retry = Annotated[bool, typer.Option("--retry", help="Run failed jobs again.")]
Listing = Annotated[
    bool, typer.Option("--list", help="List the jobs and their states. Runs nothing.")
]


@app.command(
    cls=Command,
    epilog=f"Experiments of our own: {', '.join(EXPERIMENTS)}; each has a help of its own.",
)
def reproduce(
    name: Name,
    data: Data,
    out: Out,
    seeds: Seeds = 3,
    trials: Trials = 4,
    epochs: Epochs = 100,
    patience: Patience = 15,
    dim: Dim = 32,
    only: Only = None,
    workers: Workers = None,
    ray: Ray = False,
    retry: Retry = False,
    listing: Listing = False,
    as_json: Json = False,
) -> None:
    """Reproduce a table or figure of the paper, and compare it to the published numbers.

    Example: python -m reproduction table2 --data data --out results --seeds 3 --only ml-1m
    """
    if ray and workers is not None:
        raise ConfigError(
            "jobs run in processes here or on Ray; found --workers and --ray; leave one out"
        )
    plan = Plan(seeds=seeds, trials=trials, epochs=epochs, patience=patience, dim=dim)
    reproduction = Reproduction(name, data, out, plan, only or ())
    if listing:
        _list(reproduction, as_json)
        return
    executor = on_ray() if ray else in_processes(workers or n_cores())
    with (
        console.resumable("finished jobs are kept; continue with the same command"),
        console.progress(name, unit="jobs") as bar,
    ):

        def show(done: int, total: int, text: str) -> None:
            bar(done, total)
            if console.err.is_terminal:
                console.err.print(text, markup=False)

        result = reproduction.run(executor, retry=retry, progress=show)
    written = [out / f"{name}.{kind}" for kind in ("json", "md", "html")]
    write_page(reproduction.record(result), written[-1])
    if as_json:
        console.print_json(result)
    else:
        _show(result, written)


def _list(reproduction: Reproduction, as_json: bool) -> None:
    """List jobs, states and seconds: those that a job took, or would take by jobs like it."""
    rows = [(job, state, reproduction.seconds(job)) for job, state in reproduction.states()]
    if as_json:
        names = ("job", "key", "state", "seconds")
        found = [(job.label, job.key, state, seconds) for job, state, seconds in rows]
        console.print_json([dict(zip(names, each, strict=True)) for each in found])
        return
    for job, state, seconds in rows:
        took = "" if seconds is None else f"{seconds:,.0f} s"
        console.out.out(f"{state:<8}  {took:>8}  {job.label}")
    waiting = [seconds for _, state, seconds in rows if state == "waiting"]
    known = [seconds for seconds in waiting if seconds is not None]
    if known:
        hours = sum(known) * len(waiting) / len(known) / 3600
        console.out.out(f"{len(waiting):,} waiting jobs would take about {hours:.1f} hours")


def _show(result: dict[str, Any], written: list[Path]) -> None:
    verdicts = Counter((each["claim"], each["verdict"]) for each in result["claims"] if each["n"])
    for (claim, verdict), n in verdicts.items():
        console.out.out(f"{claim}: {verdict} in {n} comparison{'s' if n > 1 else ''}")
    done, known, failed = (f"{result['jobs'][name]:,}" for name in ("done", "known", "failed"))
    console.print_pairs(
        {
            "jobs": f"{done} done of {known} that are known by now, {failed} failed",
            "written to": ", ".join(map(str, written)),
        }
    )


if __name__ == "__main__":
    main(None, experiments if set(sys.argv[1:2]) & EXPERIMENTS.keys() else app, NAME)
