"""`counterplay datasets` and `counterplay download`: public datasets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from counterplay.cli import console
from counterplay.cli.options import Json, option


def datasets(as_json: Json = False) -> None:
    """List the public datasets that counterplay can read, with licence, citation and quick start.

    Example: counterplay datasets
    """
    from counterplay.data.datasets import DATASETS

    if not as_json:
        for each in DATASETS.values():
            console.out.print(f"[bold]{each.name}[/bold]  {each.title}: {each.rows}", markup=True)
            console.out.print(f"    columns: {each.columns}")
            console.out.print(f"    licence: {each.licence}\n    cite: {each.citation}")
            console.out.print("    try: " + "\n         ".join(each.quick_start) + "\n")
        console.out.print("Datasets come from their owners. Read the licence before you download.")
        return
    console.print_json(
        [
            {
                "name": each.name,
                "title": each.title,
                "rows": each.rows,
                "columns": each.columns,
                "licence": each.licence,
                "citation": each.citation,
                "quick_start": each.quick_start,
                "page": each.page,
                "files": [{"url": it.url, "sha256": it.sha256} for it in each.remotes],
            }
            for each in DATASETS.values()
        ]
    )


def download(
    name: Annotated[str, typer.Argument(help="Dataset name. See: counterplay datasets.")],
    out: Annotated[Path, option("New folder for the files.")],
    mirror: Annotated[
        str | None, option("Base URL to download from.", "--from", default="the official address")
    ] = None,
    unchecked: Annotated[
        bool, option("Accept files that have no known checksum.", "--unchecked")
    ] = False,
    as_json: Json = False,
) -> None:
    """Download a public dataset. An interrupted download continues where it stopped.

    Example: counterplay download ml-100k --out data/ml-100k
    """
    from counterplay.data.datasets import dataset
    from counterplay.data.datasets import download as fetch

    chosen = dataset(name)
    with (
        console.resumable("continue with the same command"),
        console.progress(f"fetching {chosen.title}", unit="bytes") as bar,
    ):
        digests = fetch(chosen, out, base_url=mirror, unchecked=unchecked, progress=bar)
    unknown = [remote.name for remote in chosen.remotes if not remote.sha256]
    if as_json:
        console.print_json({"out": str(out), "sha256": digests, "unchecked": unknown})
        return
    for file, digest in digests.items():
        console.out.print(f"{file}  sha256 {digest}")
    for file in unknown:
        console.err.print(f"note: no checksum is known for {file}")
    console.out.print(f"licence: {chosen.licence}\nnext: counterplay run {chosen.place(out)}")
