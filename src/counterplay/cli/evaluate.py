"""`counterplay evaluate` and `counterplay compare`: estimates, and how far to trust them."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from counterplay.cli import console, launching
from counterplay.cli.arguments import by_stem, check_out
from counterplay.cli.options import (
    Cutoffs,
    Data,
    Json,
    PersonalShare,
    PopularityShare,
    Protocol,
    RandomRows,
    Ray,
    Seed,
    Shards,
    Workers,
    several_settings,
)
from counterplay.errors import ConfigError
from counterplay.evaluation.estimators import ESTIMATORS
from counterplay.places import (
    check_dataset,
    check_files,
    check_finished,
    check_several,
    check_world,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from counterplay.evaluation.records import EvaluationRecord
    from counterplay.evaluation.settings import Evaluation
    from counterplay.progress import Stages
    from counterplay.runs.ranking import Ranking

_Gammas = Annotated[
    list[float] | None,
    typer.Option(
        "--gamma",
        help="Sensitivity factors Γ, one or more: the exposure odds may be wrong by this factor.",
        show_default="none",
    ),
]
_Part = Annotated[
    Literal["test", "validation"] | None,
    typer.Option(help="Part of the split to evaluate on.", show_default="test"),
]
_Users = Annotated[
    int | None,
    typer.Option(
        help="Evaluate a random sample of this many users.", min=1, show_default="all users"
    ),
]
_Settings = Annotated[list[str] | None, several_settings("opponent.alpha=0.3")]
_Out = Annotated[Path | None, typer.Option(help="JSON file to write the result to.")]
_World = Annotated[
    Path | None,
    typer.Option(help="World directory that the data come from, for the oracle estimator."),
]
_Log = Annotated[
    Literal["clicks", "impressions"],
    typer.Option(
        help="Held-out rows to use: clicks estimate ranking metrics; impressions with "
        "propensities, or random rows, estimate the click rate of the top k."
    ),
]
_Estimators = Annotated[
    list[str] | None,
    typer.Option(
        *("--estimators", "--estimator"),
        help=f"Estimators, one or more of: {', '.join(ESTIMATORS)}.",
        show_default="standard, popularity, dials, robust",
    ),
]


def evaluate(
    run: Annotated[
        Path | None, typer.Argument(help="Run directory. Omit it if you give --scores.")
    ] = None,
    scores: Annotated[
        Path | None,
        typer.Option(
            help="File with columns user, item and score, instead of a run. Needs --data."
        ),
    ] = None,
    data: Data = None,
    world: _World = None,
    random_rows: RandomRows = None,
    log: _Log = "clicks",
    protocol: Protocol = None,
    k: Cutoffs = None,
    estimator: _Estimators = None,
    gamma: _Gammas = None,
    part: _Part = None,
    users: _Users = None,
    popularity_share: PopularityShare = None,
    personal_share: PersonalShare = None,
    seed: Seed = None,
    assignments: _Settings = None,
    out: _Out = None,
    shards: Shards = None,
    workers: Workers = None,
    ray: Ray = False,
    as_json: Json = False,
) -> None:
    """Evaluate a candidate under several assumptions about exposure, with confidence intervals.

    Example: counterplay evaluate runs/game --k 5 10 --estimators standard robust --gamma 1.5 2
    """
    check_out(out, scores, ending=".json")
    if (run is None) == (scores is None):
        raise ConfigError(
            "an evaluation needs a run directory or --scores, one of them; found "
            f"{'neither' if run is None else 'both'}; name one"
        )
    if run is None and data is None:
        raise ConfigError(
            "scores need the dataset that they are for; found none; name it with --data"
        )
    given = [] if scores is None else [scores]
    _check(world, log, given, data, random_rows, *([] if run is None else [run]))
    shares = popularity_share, personal_share
    settings = _settings(protocol, k, estimator, gamma, part, users, shares, seed, assignments)
    from counterplay.runs.candidates import evaluate_run, evaluate_scores
    from counterplay.runs.policies import value_policy

    with (
        console.notes(),
        console.progress("evaluating") as bar,
        _ranked(out, shards, workers, bar, ray=ray) as ranking,
    ):
        how: dict[str, Any] = {
            "random_rows": random_rows, "ranking": ranking, "progress": _shown(bar)
        }  # fmt: skip
        if log == "impressions":
            candidate = run or scores
            assert candidate is not None
            result = value_policy(candidate, data, settings, **how)
        elif run is not None:
            result = evaluate_run(run, data, settings, world=world, **how)
        else:
            assert scores is not None
            assert data is not None
            result = evaluate_scores(scores, data, settings, world=world, **how)
        _write(result, out)
    _give(result, out, as_json=as_json)


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Run directories: two or more, or one together with --scores."),
    ],
    scores: Annotated[
        list[Path] | None,
        typer.Option(help="File with columns user, item and score: another candidate. Repeatable."),
    ] = None,
    estimator: _Estimators = None,
    k: Cutoffs = None,
    protocol: Protocol = None,
    gamma: _Gammas = None,
    part: _Part = None,
    users: _Users = None,
    popularity_share: PopularityShare = None,
    personal_share: PersonalShare = None,
    data: Data = None,
    world: _World = None,
    random_rows: RandomRows = None,
    log: _Log = "clicks",
    seed: Seed = None,
    assignments: _Settings = None,
    out: _Out = None,
    shards: Shards = None,
    workers: Workers = None,
    ray: Ray = False,
    as_json: Json = False,
) -> None:
    """Compare candidates on the same rows: differences, intervals, p-values and sensitivity.

    Example: counterplay compare runs/erm runs/game --k 10 --estimators popularity robust
    """
    check_out(out, *(scores or ()), ending=".json")
    given = by_stem(scores or ())
    check_several(runs, given)
    _check(world, log, scores or (), data, random_rows, *runs)
    shares = popularity_share, personal_share
    settings = _settings(protocol, k, estimator, gamma, part, users, shares, seed, assignments)
    from counterplay.runs import candidates
    from counterplay.runs.policies import compare_policies

    with (
        console.notes(),
        console.progress(f"comparing {len(runs) + len(given)} candidates") as bar,
        _ranked(out, shards, workers, bar, ray=ray) as ranking,
    ):
        how: dict[str, Any] = {
            "scores": given, "random_rows": random_rows, "ranking": ranking,
            "progress": _shown(bar),
        }  # fmt: skip
        if log == "impressions":
            result = compare_policies(runs, data, settings, **how)
        else:
            result = candidates.compare(runs, data, settings, world=world, **how)
        _write(result, out)
    _give(result, out, as_json=as_json)


def _shown(bar: Callable[..., None]) -> Stages:
    """Return what shows the steps of an evaluation."""
    return lambda text, done, total, unit="": bar(done, total, text, unit=unit)


@contextmanager
def _ranked(
    out: Path | None,
    shards: int | None,
    workers: int | None,
    bar: Callable[..., None],
    *,
    ray: bool,
) -> Iterator[Ranking | None]:
    """Give what ranks by jobs, so that an evaluation with an output goes on if it breaks off."""
    from counterplay.runs.ranking import ranking_for

    if out is None and shards is None and workers is None and not ray:
        yield None
        return
    launching.check_place(out, ray=ray)
    with (
        launching.jobs_run(workers, ray=ray) as executor,
        nullcontext() if out is None else console.resumable("give the same command again to go on"),
        ranking_for(
            out,
            shards=launching.shards_for(shards, workers, ray=ray),
            executor=executor,
            progress=lambda text, done, total: bar(done, total, text, unit="jobs"),
        ) as ranking,
    ):
        yield ranking


def _check(
    world: Path | None,
    log: str,
    scores: Sequence[Path],
    data: Path | None,
    random_rows: Path | None,
    *runs: Path,
) -> None:
    """Refuse what is not there, or has other columns, before what takes seconds is loaded."""
    if log == "impressions" and world is not None:
        raise ConfigError(
            "a world is for the oracle estimator, which is of clicks; found --world with --log "
            "impressions; leave one of them out"
        )
    check_world(world)
    for run in runs:
        check_finished(run)
    check_dataset(data)
    check_files(*scores, random_rows)
    if scores or random_rows:
        from counterplay.evaluation.columns import check_beside

        check_beside(scores, random_rows)


def _settings(
    protocol: str | None,
    k: list[int] | None,
    estimators: list[str] | None,
    gamma: list[float] | None,
    part: str | None,
    users: int | None,
    shares: tuple[float | None, float | None],
    seed: int | None,
    assignments: list[str] | None,
) -> Evaluation:
    from counterplay.evaluation.settings import Evaluation
    from counterplay.settings import configured

    options: dict[str, Any] = {
        "protocol": protocol,
        "k": k or None,
        "estimators": estimators or None,
        "gamma": gamma or None,
        "part": part,
        "users": users,
        "dials.popularity_share": shares[0],
        "dials.personal_share": shares[1],
        "seed": seed,
    }
    return configured(Evaluation, None, assignments or (), options)


def _write(result: EvaluationRecord, out: Path | None) -> None:
    if out is not None:
        from counterplay.data.files import write_json

        write_json(result.to_dict(), out)


def _give(result: EvaluationRecord, out: Path | None, *, as_json: bool) -> None:
    from counterplay.cli.tables import show_evaluation

    if as_json:
        console.print_json(result.to_dict())
        return
    show_evaluation(result)
    if out is not None:
        console.print_pairs({"written to": str(out)})
