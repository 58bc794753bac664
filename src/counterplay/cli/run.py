"""`counterplay run` and `counterplay demo`: from a log to a decision in one command."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from counterplay.cli import console
from counterplay.cli.arguments import by_stem

if TYPE_CHECKING:
    from counterplay.study.config import StudyConfig
    from counterplay.study.study import Study

REPORT = "report.html"
_Column = typer.Option(rich_help_panel="Columns", help="Its column; by default a usual name.")
_Json = Annotated[bool, typer.Option("--json", help="Print the record as JSON.")]


def run(
    context: typer.Context,
    source: Annotated[
        Path,
        typer.Argument(help="A log file, a known dataset's folder, a dataset directory, a world."),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder of the study; by default NAME-study beside here.")
    ] = None,
    user: Annotated[str | None, _Column] = None,
    item: Annotated[str | None, _Column] = None,
    rating: Annotated[str | None, _Column] = None,
    time: Annotated[str | None, _Column] = None,
    order: Annotated[
        Literal["canonical", "file"] | None,
        typer.Option(
            rich_help_panel="Columns",
            help="Order of rows at equal times, or without times: canonical (by their content, the "
            "default) or file (the file's order is the time).",
        ),
    ] = None,
    candidates: Annotated[
        list[str] | None, typer.Option(help="Of pop, erm, ps, acl; by default all of them.")
    ] = None,
    model: Annotated[
        Literal["cf", "gmf", "mlp", "ncf", "attn"] | None,
        typer.Option(help="What they learn; gmf."),
    ] = None,
    feedback: Annotated[
        Literal["clicks", "ratings"] | None,
        typer.Option(help="Take every row as a click (the default), or predict the ratings."),
    ] = None,
    scores: Annotated[
        list[Path] | None,
        typer.Option(help="Another candidate: a file with user, item and score; may be repeated."),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="At most so many.", min=1)] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all streams.", min=0)] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with all settings.")] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", help="One setting, such as evaluation.k=[5,20]; may be repeated."),
    ] = None,
    as_json: _Json = False,
) -> None:
    """Prepare a log, train baselines and the game, evaluate them, and say what to ship.

    What was done already is not done again: interrupted, the same command goes on.

    Example: counterplay run clicks.parquet --user uid --item sku --out study
    """
    from counterplay.settings import configured
    from counterplay.study.config import StudyConfig

    options: dict[str, Any] = {
        "candidates": candidates or None,
        "scores": by_stem(scores) if scores else None,
        "model": model,
        "feedback": feedback,
        "training.epochs": epochs,
        "seed": seed,
    }
    columns = {"user": user, "item": item, "rating": rating, "time": time, "order": order}
    options |= {f"preparation.{name}": column for name, column in columns.items()}
    settings = configured(StudyConfig, config, assignments or (), options)
    folder = Path(f"{source.resolve().stem}-study") if out is None else out
    _study(context, source, folder, settings, as_json=as_json)


def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Another seed is another world.", min=0)] = 0,
    as_json: _Json = False,
) -> None:
    """Show the whole way on a world whose truth is known, in a minute or two.

    A recommender of the past shows what it likes, people click, and three ways of learning from
    their clicks are judged offline, put to an online test, and held against the truth.

    Example: counterplay demo --out demo
    """
    from counterplay.study.config import StudyConfig

    world = demo_world(out, seed)
    settings = StudyConfig(seed=seed)
    _study(context, world, out / f"study-{seed}", settings, as_json=as_json, report=out / REPORT)


def demo_world(folder: Path, seed: int) -> Path:
    """Make the demo's world, unless it is there: a recommender that follows its own scores."""
    from counterplay.simulation.synthetic import Synthetic
    from counterplay.simulation.writing import write_world

    place = folder / f"world-{seed}"
    if not place.exists():
        wilful = Synthetic(n_users=2000, n_items=500, n_shown=60, sharpness=3, seed=seed)
        write_world(wilful.world(), place, rates=(1.0, 0.1, 0.5))
    return place


def _study(
    context: typer.Context,
    source: Path,
    folder: Path,
    settings: StudyConfig,
    *,
    as_json: bool,
    report: Path | None = None,
) -> None:
    """Make the study and its report, and show both."""
    from counterplay.report.page import write_report
    from counterplay.study.study import run_study

    page = report or folder / REPORT
    with (
        console.notes(),
        console.resumable("the same command goes on where it stopped"),
        console.progress("starting", unit="epochs") as bar,
    ):
        tell = console.stages()

        def show(text: str, done: int, total: int | None) -> None:
            bar(done, total, text)
            if total is not None:  # what takes long
                tell(text)

        study = run_study(
            source, folder, settings,
            command=shlex.join(["counterplay", *context.obj]), progress=show,
        )  # fmt: skip
        write_report(study.record, page)
    if as_json:
        console.print_json(study.record)
    else:
        _show(study, page)


def _show(study: Study, page: Path) -> None:
    """Print who is how good by whose account, the verdict in words, and where to read on."""
    record = study.record
    found = record["verdict"]
    key = {"metric": found["metric"], "k": found["k"]}
    label = f"{key['metric']}@{key['k']}" if key["k"] else key["metric"]
    values = {
        (each["candidate"], each["estimator"]): each
        for each in record["evaluation"]["estimates"]
        if key.items() <= each.items()
    }
    names, estimators = (list(dict.fromkeys(each[place] for each in values)) for place in (0, 1))
    first, part = next(iter(values.values())), record["evaluation"]["part"]
    columns = {"candidate": names} | {
        estimator: [_interval(values[name, estimator]) for name in names]
        for estimator in estimators
    }
    if found["truth"]:
        columns["truth"] = [f"{found['truth']['values'][name]:.4f}" for name in names]
    console.print_table(
        f"{record['name']}: {label} on {first['n']:,} {part} rows, {first['level']:.0%} intervals",
        columns,
    )
    console.out.print()
    for place, sentence in enumerate([found["headline"], *found["sentences"]]):
        console.out.print(sentence, markup=False, style="" if place else "bold")
    console.out.print()
    done = {f"step {number}": step for number, step in enumerate(record["steps"], start=1)}
    console.print_pairs(done | {"study": str(study.folder), "report": str(page)})


def _interval(each: dict[str, Any]) -> str:
    if each["low"] is None:
        return f"{each['value']:.4f}"
    return f"{each['value']:.4f} [{each['low']:.4f}, {each['high']:.4f}]"
