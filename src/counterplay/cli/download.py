"""`counterplay download`: fetch a public dataset from its official address."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from counterplay.cli import console
from counterplay.cli.options import Json


def download(
    name: Annotated[str, typer.Argument(help="Dataset name. See: counterplay datasets.")],
    out: Annotated[Path, typer.Option("--out", help="New folder for the files.")],
    mirror: Annotated[
        str | None,
        typer.Option(
            "--from", help="Base URL to download from.", show_default="the official address"
        ),
    ] = None,
    unchecked: Annotated[
        bool, typer.Option("--unchecked", help="Accept files that have no known checksum.")
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
        console.out.print(f"{file}  sha256 {digest}", markup=False)
    for file in unknown:
        console.err.print(f"note: no checksum is known for {file}", markup=False)
    console.out.print(f"licence: {chosen.licence}", markup=False)
    inside = out / chosen.subfolder if chosen.subfolder else out
    console.out.print(f"next: counterplay prepare {inside} --out DIR", markup=False)
