"""`counterplay recommend` and `counterplay export`: put a trained model to use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from counterplay.cli import console, launching
from counterplay.cli.arguments import check_out
from counterplay.cli.options import Data, Json, Ray, Shards, Workers, option
from counterplay.errors import ConfigError
from counterplay.extras import check_installed
from counterplay.places import check_dataset, check_files, check_finished


def recommend(
    run: Annotated[Path, typer.Argument(help="Run directory with the trained model.")],
    out: Annotated[Path, option("Parquet file to write (user, item, rank, score).")],
    k: Annotated[list[int] | None, option("Number of items per user.", min=1, default="10")] = None,
    data: Data = None,
    users: Annotated[
        Path | None,
        option(
            "Users to rank for: a file with a column user, or a .txt with one ID per line.",
            default="all users",
        ),
    ] = None,
    include_seen: Annotated[
        bool, option("Also recommend items that the user has already seen.", "--include-seen")
    ] = False,
    shards: Shards = None,
    workers: Workers = None,
    ray: Ray = False,
    as_json: Json = False,
) -> None:
    """Write the top-k items of each user, with the original IDs. Seen items are left out.

    Example: counterplay recommend runs/game --k 10 --out lists.parquet
    """
    check_finished(run)
    check_dataset(data)
    check_files(users)
    check_out(out, users)
    lengths = k or [10]
    if len(lengths) > 1:  # other commands take several
        raise ConfigError(
            f"lists must have one length; found {', '.join(map(str, lengths))}; name one, the "
            "longest: ranks cut it"
        )
    from counterplay.runs.ranking import ranking_for
    from counterplay.serving import recommend as lists

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
            progress=lambda _, done, total: bar(done, total, f"{what}, jobs of users"),
        ) as ranking,
    ):
        result = lists.recommend(
            run, out, k=lengths[0], data=data, users=users, include_seen=include_seen,
            progress=bar, ranking=ranking,
        )  # fmt: skip
    if as_json:
        console.print_json(result)
        return
    short = result["rows"] < result["users"] * result["k"]
    cold = {"by popularity": f"{result['cold']:,} lists, of users without training rows"}
    console.print_pairs(
        {
            "model": f"{result['model']}, trained on {result['dataset']['name']}",
            "lists": f"{result['users']:,}, of {result['k']:,} items"
            + (" or, where no more are left, fewer" if short else ""),
            "seen items": "included" if result["include_seen"] else "left out",
            **(cold if result["cold"] else {}),
            "rows": f"{result['rows']:,}",
            "written to": result["out"],
        }
    )


def export(
    run: Annotated[Path, typer.Argument(help="Run directory to export.")],
    out: Annotated[Path, option("New directory for the exported files.")],
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

    Example: counterplay export runs/game --out exported --ann --onnx
    """
    check_finished(run)
    check_dataset(data)
    if onnx:
        check_installed("a model as ONNX", "onnx", "onnx", "onnxruntime", "onnxscript")
    if ann:
        check_installed("an index of vectors", "ann", "usearch")
    from counterplay.data.publishing import check_free

    check_free(out)
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
