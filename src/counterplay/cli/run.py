"""`counterplay run` and `counterplay demo`: from a log to a decision in one command."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counterplay.cli import console, options
from counterplay.cli.arguments import by_stem
from counterplay.cli.exits import UNDECIDED
from counterplay.cli.options import (
    Config,
    Json,
    PersonalShare,
    PopularityShare,
    RandomRows,
    Seed,
    model_option,
    several_settings,
)
from counterplay.cli.reading import Sources, check_columns, given, local, one, reads_a_log
from counterplay.display import named
from counterplay.learning.methods import METHODS
from counterplay.models.names import MODELS
from counterplay.places import check_files, check_log
from counterplay.study.field import FIELD

if TYPE_CHECKING:
    from counterplay.evaluation.records import CandidateEstimate
    from counterplay.study.config import StudyConfig
    from counterplay.study.finished import Study

REPORT = "report.html"
_Candidates = Annotated[
    list[str] | None,
    typer.Option(
        help=f"Candidates: a model ({', '.join(MODELS)}), a method for --model "
        f"({', '.join(METHODS)}), both as in mlp-acl, or a file of scores. Repeatable. Unless "
        "named, attn is added if the log has times, shown if it has impressions, and ips if it has "
        "propensities.",
        show_default=", ".join(FIELD),
    ),
]


@reads_a_log
def run(
    context: typer.Context,
    source: Sources,
    out: Annotated[
        Path | None,
        typer.Option(help="Study directory to write.", show_default="SOURCE-study"),
    ] = None,
    candidates: _Candidates = None,
    model: Annotated[str | None, model_option("Model to train.", "pop")] = None,
    scores: Annotated[
        list[Path] | None,
        typer.Option(help="File with columns user, item and score: another candidate. Repeatable."),
    ] = None,
    random_rows: RandomRows = None,
    k: options.Cutoffs = None,
    epochs: Annotated[
        int | None, typer.Option(help="Maximum number of epochs.", min=1, show_default="100")
    ] = None,
    popularity_share: PopularityShare = None,
    personal_share: PersonalShare = None,
    seed: Seed = None,
    config: Config = None,
    assignments: Annotated[list[str] | None, several_settings("evaluation.k=[5,20]")] = None,
    track: options.Track = None,
    fail_if_undecided: Annotated[
        bool,
        typer.Option(
            "--fail-if-undecided",
            help=f"Exit with code {UNDECIDED} if the verdict ships no candidate (for CI).",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Prepare a log, train and evaluate candidates, and say which one to ship.

    After an interruption, run the same command again: it keeps what is finished.

    Example: counterplay run clicks.parquet --user uid --item sku --out study
    """
    for place in local(source):
        check_log(place)
    check_files(*(scores or ()), random_rows, context.params["impressions"])
    check_columns(context, source, assignments or ())
    if scores or random_rows:
        from counterplay.evaluation.columns import check_beside

        check_beside(scores or (), random_rows)
    from counterplay.data.sources import name_of
    from counterplay.settings import configured
    from counterplay.study.config import StudyConfig

    said = given(context)
    chosen: dict[str, Any] = {
        "candidates": candidates or None,
        "scores": by_stem(scores) if scores else None,
        "random_rows": random_rows,
        "model": model,
        "feedback": said.pop("feedback", None),
        "evaluation.k": k or None,
        "training.epochs": epochs,
        "evaluation.dials.popularity_share": popularity_share,
        "evaluation.dials.personal_share": personal_share,
        "seed": seed,
    }
    chosen |= {f"preparation.{name}": value for name, value in said.items()}
    settings = configured(StudyConfig, config, assignments or (), chosen)
    folder = Path(f"{name_of(source[0])}-study") if out is None else out
    found = _study(context, one(source), folder, settings, as_json=as_json, track=track)
    if fail_if_undecided and found.recommended is None:
        console.say(
            "a verdict was asked for that ships a candidate; found it undecided in "
            f"'{folder}'; see what it says to do next, or leave --fail-if-undecided out"
        )
        raise typer.Exit(UNDECIDED)


def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Directory to write to.")] = Path("demo"),
    seed: Annotated[
        int, typer.Option(help="Random seed. Each seed makes a different world.", min=0)
    ] = 0,
    as_json: Json = False,
) -> None:
    """Run a complete study in a simulated world with known truth (one or two minutes).

    A past recommender shows items to simulated users, and they click. Seven candidates learn from
    the clicks. The study evaluates them offline and in an online test, and compares both to the
    truth.

    Example: counterplay demo --out demo
    """
    from counterplay.study.config import StudyConfig

    world = demo_world(out, seed)
    settings = StudyConfig(seed=seed)
    _study(context, world, out / f"study-{seed}", settings, as_json=as_json, report=out / REPORT)


def demo_world(folder: Path, seed: int) -> Path:
    """Make the demo's world, unless it is there: its dials are near those of public data."""
    from counterplay.simulation.synthetic import Synthetic
    from counterplay.simulation.writing import write_world

    place = folder / f"world-{seed}"
    if not place.exists():
        settings = Synthetic(
            n_users=2000, n_items=500, n_shown=60, preset="strong", quality=1.2, seed=seed
        )
        write_world(settings.world(), place, rates=(1.0, 0.1, 0.5))
    return place


def _study(
    context: typer.Context,
    source: Any,
    folder: Path,
    settings: StudyConfig,
    *,
    as_json: bool,
    report: Path | None = None,
    track: str | None = None,
) -> Study:
    """Make the study and its report, show both, and return the study."""
    from counterplay.data.looking import understood
    from counterplay.progress import Forecast
    from counterplay.report.page import write_report
    from counterplay.study import study as studies

    page = report or folder / REPORT
    with (
        console.notes(),
        console.resumable("continue with the same command"),
        console.progress("starting", unit="") as bar,
    ):
        tell, forecast = console.stages(), [Forecast({})]

        def show(text: str, done: int, total: int | None, unit: str = "") -> None:
            left = forecast[0].at(text, done / total if total else 0.0)
            bar(done, total, text, unit=unit, left=left)
            if total is not None or ": " in text:  # what takes long
                tell(text)

        study = studies.run(
            source, folder, settings,
            command=shlex.join(["counterplay", *context.obj]), progress=show,
            on_read=lambda split: console.say_understood(understood(split)),
            on_plan=lambda plan: forecast.__setitem__(0, Forecast(plan)), track=track,
        )  # fmt: skip
        write_report(study.record, page)
    if as_json:
        console.print_json(study.record.to_dict())
    else:
        _show(study, page)
    return study


def _show(study: Study, page: Path) -> None:
    """Print the estimates, the verdict in words, and where to read on."""
    record, found = study.record, study.record.verdict
    by_estimator = record.by_estimator(found.key)
    first = next(each for each in record.estimates if each.key == found.key)
    names = list(next(iter(by_estimator.values())))
    columns = {"candidate": names} | {
        estimator: [_interval(by_name[name]) for name in names]
        for estimator, by_name in by_estimator.items()
    }
    if found.truth:
        columns["truth"] = [f"{found.truth.values[name]:.4f}" for name in names]
    console.print_table(
        f"{record.name}: {named(*found.key)} on {first.n:,} {record.evaluation.part} rows, "
        f"{first.level:.0%} intervals",
        columns,
    )
    console.out.print()
    for place, sentence in enumerate([found.headline, *found.said]):
        console.out.print(sentence, markup=False, style="" if place else "bold")
    console.out.print()
    done = {f"step {number}": step for number, step in enumerate(record.steps, start=1)}
    console.print_pairs(done | {"study": str(study.folder), "report": str(page)})


def _interval(each: CandidateEstimate) -> str:
    if each.low is None:
        return f"{each.value:.4f}"
    return f"{each.value:.4f} [{each.low:.4f}, {each.high:.4f}]"
