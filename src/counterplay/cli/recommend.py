"""`counterplay recommend`: the best items of each user."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from counterplay.cli import console
from counterplay.cli.arguments import check_out
from counterplay.cli.options import Data, Json
from counterplay.errors import ConfigError


def recommend(
    run: Annotated[Path, typer.Argument(help="Run directory with the trained model.")],
    out: Annotated[Path, typer.Option(help="Parquet file to write (user, item, rank, score).")],
    k: Annotated[
        list[int] | None, typer.Option(help="Number of items per user.", min=1, show_default="10")
    ] = None,
    data: Data = None,
    users: Annotated[
        Path | None,
        typer.Option(
            help="Users to rank for: a file with a column user, or a .txt with one ID per line.",
            show_default="all users",
        ),
    ] = None,
    include_seen: Annotated[
        bool,
        typer.Option("--include-seen", help="Also recommend items that the user has already seen."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Write the top-k items of each user, with the original IDs. Seen items are left out.

    Example: counterplay recommend runs/game --k 10 --out lists.parquet
    """
    from counterplay.serving.recommend import recommend_run

    check_out(out, users)
    lengths = k or [10]
    if len(lengths) > 1:  # other commands take several
        raise ConfigError(
            f"lists must have one length; found {', '.join(map(str, lengths))}; name one, the "
            "longest: ranks cut it"
        )
    with console.notes(), console.progress(f"ranking for {run.name}", unit="users") as bar:
        result = recommend_run(
            run, out, k=lengths[0], data=data, users=users, include_seen=include_seen, progress=bar
        )
    if as_json:
        console.print_json(result)
    else:
        _show(result)


def _show(result: dict[str, Any]) -> None:
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
