"""`counterplay refit`, `recommend` and `export`: put a trained model to use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from counterplay.cli import console, launching
from counterplay.cli.arguments import check_out, file_or_ids
from counterplay.cli.options import Data, Json, Ray, Shards, Track, Workers, option
from counterplay.data.writing import written_as
from counterplay.errors import ConfigError
from counterplay.extras import check_installed
from counterplay.places import check_dataset, check_files, check_usable

_Place = Annotated[
    Path, typer.Argument(help="Run directory, or study directory: the run of its winner.")
]
_Candidate = Annotated[
    str | None, option("Candidate of the study.", default="the one that its verdict ships")
]


def refit(
    place: Annotated[
        Path, typer.Argument(help="Study directory with a verdict, or a run directory.")
    ],
    candidate: _Candidate = None,
    out: Annotated[
        Path | None, option("Run directory to write.", default="PLACE/refits/CANDIDATE")
    ] = None,
    data: Data = None,
    track: Track = None,
    as_json: Json = False,
) -> None:
    """Train the winner of a study once more on all rows, test rows too, to put it to use.

    It has the settings and the number of epochs of the study. After an interruption, run the same
    command again.

    Example: counterplay refit study
    """
    check_usable(place)
    check_dataset(data)
    from counterplay.study.winner import refit_place, run_of

    run = run_of(place, candidate, refitted=False)
    target = out or refit_place(place, run)
    from counterplay.learning.tracking import tracked
    from counterplay.study import shipping

    with (
        console.notes(),
        console.resumable("continue with the same command"),
        console.progress(f"refitting {run.name}", unit="epochs") as bar,
        tracked(track, target.with_name(f"{target.name}.events"), f"{run.name} refitted") as more,
    ):
        record = shipping.refit(
            place, candidate, target, data=data,
            callbacks=[lambda epoch: bar(epoch.epoch + 1, None), *more],
        )  # fmt: skip
    if as_json:
        console.print_json(record.to_dict())
        return
    made_of, configuration = record.refit, record.configuration
    assert made_of is not None
    console.print_pairs(
        {
            "model": f"{configuration.candidate.name} by {configuration.method}",
            "trained on": f"all {made_of.rows:,} rows of {record.dataset.name}",
            "epochs": f"{len(record.epochs)}, as in {made_of.run}",
            "written to": str(target),
        }
    )


def recommend(
    place: _Place,
    out: Annotated[
        Path, option("File to write (user, item, rank, score): .csv, .parquet or .ndjson.")
    ],
    k: Annotated[list[int] | None, option("Number of items per user.", min=1, default="10")] = None,
    candidate: _Candidate = None,
    data: Data = None,
    users: Annotated[
        str | None,
        option(
            "Users to rank for: IDs with commas between them, a file with a column user, or a .txt "
            "with one ID per line. Unknown users get the most popular items.",
            default="all users",
        ),
    ] = None,
    include_seen: Annotated[
        bool, option("Also recommend items that the user has already seen.", "--include-seen")
    ] = False,
    only_items: Annotated[
        str | None,
        option("Recommend these items only: IDs, or a file with a column item.", default="all"),
    ] = None,
    without_items: Annotated[
        str | None,
        option("Do not recommend these items: IDs, or a file with a column item.", default="none"),
    ] = None,
    shards: Shards = None,
    workers: Workers = None,
    ray: Ray = False,
    as_json: Json = False,
) -> None:
    """Write the top-k items of each user, with the original IDs. Seen items are left out.

    Example: counterplay recommend study --k 10 --out lists.parquet
    """
    asked = {"users": users, "only_items": only_items, "without_items": without_items}
    given = {name: file_or_ids(text) for name, text in asked.items()}
    files = [each for each in given.values() if isinstance(each, Path)]
    check_usable(place)
    check_dataset(data)
    check_files(*files)
    check_out(out, *files)
    written_as(out)
    lengths = k or [10]
    if len(lengths) > 1:  # other commands take several
        raise ConfigError(
            f"lists must have one length; found {', '.join(map(str, lengths))}; name one, the "
            "longest: ranks cut it"
        )
    from counterplay.serving.asked import check_column
    from counterplay.study.winner import run_of

    for name, each in given.items():
        if isinstance(each, Path):
            check_column(each, "user" if name == "users" else "item")
    run = run_of(place, candidate)
    from counterplay.runs.ranking import ranking_for
    from counterplay.study import shipping

    what = f"ranking for {run.name}"
    with (
        launching.jobs_run(workers, ray=ray) as executor,
        console.resumable("give the same command again to go on"),
        console.notes(),
        console.progress(what, unit="users") as bar,
        ranking_for(
            out,
            shards=launching.shards_for(shards, workers, ray=ray),
            executor=executor,
            progress=lambda _, done, total: bar(done, total, what, unit="jobs"),
        ) as ranking,
    ):
        result = shipping.recommend(
            run, out, k=lengths[0], data=data, include_seen=include_seen, progress=bar,
            users=given["users"], only_items=given["only_items"],
            without_items=given["without_items"], ranking=ranking,
        )  # fmt: skip
    if as_json:
        console.print_json({**result, "run": str(run)})
        return
    _show_lists(result, run)


def _show_lists(result: dict[str, Any], run: Path) -> None:
    short = result["rows"] < result["users"] * result["k"]
    rows = "all rows" if result["refitted"] else "the training rows"
    popular = {
        "by popularity": f"{result['cold']:,} lists, of users without training rows",
        "unknown users": f"{result['unknown']:,} lists, of the most popular items",
    }
    told = {
        "model": f"{result['model']}, trained on {rows} of {result['dataset']['name']}: {run}",
        "lists": f"{result['users']:,}, of {result['k']:,} items"
        + (" or, where no more are left, fewer" if short else ""),
        "seen items": "included" if result["include_seen"] else "left out",
        "items": f"{result['items']:,} that may be recommended",
        **popular,
        "rows": f"{result['rows']:,}",
        "written to": result["out"],
    }
    for name, key in (("by popularity", "cold"), ("unknown users", "unknown")):
        if not result[key]:
            del told[name]
    console.print_pairs(told)


def export(
    place: _Place,
    out: Annotated[Path, option("New directory for the exported files.")],
    candidate: _Candidate = None,
    data: Data = None,
    format: Annotated[  # noqa: A002 - the word that everybody looks for
        Literal["parquet", "npy"], option("File format of the vectors.")
    ] = "parquet",
    ann: Annotated[
        bool,
        option("Add a nearest-neighbour index of the items (needs counterplay\\[ann]).", "--ann"),
    ] = False,
    onnx: Annotated[
        bool, option("Add the model as ONNX (needs counterplay\\[onnx]).", "--onnx")
    ] = False,
    as_json: Json = False,
) -> None:
    """Export the vectors of users and items, an index of the items, and the model as ONNX.

    What is written is read back, and must score as the model does.

    Example: counterplay export study --out exported --ann --onnx
    """
    check_usable(place)
    check_dataset(data)
    if onnx:
        check_installed("a model as ONNX", "onnx", "onnx", "onnxruntime", "onnxscript")
    if ann:
        check_installed("an index of vectors", "ann", "usearch")
    from counterplay.data.publishing import check_free

    check_free(out)
    from counterplay.study.winner import run_of

    run = run_of(place, candidate)
    from counterplay.serving.export import export_run

    with console.notes(), console.working(f"exporting {run.name}"):
        described = export_run(run, out, data=data, format=format, ann=ann, onnx=onnx)
    if as_json:
        console.print_json(described)
        return
    counts = f"{described['users']:,} users and {described['items']:,} items"
    rows = {"model": f"{described['model']} of {counts}"}
    if vectors := described["vectors"]:
        rows["vectors"] = f"of {vectors['width']} numbers, {vectors['format']}; {_off(vectors)}"
        rows["score"] = described["score"]
    if described["onnx"]:
        rows["ONNX"] = _off(described["onnx"])
    if index := described["ann"]:
        rows["index"] = (
            f"finds {index['recall']:.1%} of the {index['k']} best items, "
            f"on {index['users']:,} users"
        )
    if described["cold"]:
        rows["by popularity"] = f"{described['cold']:,} users without training rows"
    console.print_pairs(rows | {"written to": str(out)})


def _off(found: dict[str, Any]) -> str:
    return f"within {found['difference']:.1g} of the model's scores, on {found['pairs']:,} pairs"
