"""`counterplay export`: a trained model for other software."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from counterplay.cli import console
from counterplay.cli.options import Data, Json


def export(
    run: Annotated[Path, typer.Argument(help="Run directory to export.")],
    out: Annotated[Path, typer.Option(help="New directory for the exported files.")],
    data: Data = None,
    format: Annotated[  # noqa: A002 - the word that everybody looks for
        Literal["parquet", "npy"], typer.Option(help="File format of the vectors.")
    ] = "parquet",
    ann: Annotated[
        bool,
        typer.Option(
            "--ann", help="Add a nearest-neighbour index of the items (needs counterplay\\[ann])."
        ),
    ] = False,
    onnx: Annotated[
        bool, typer.Option("--onnx", help="Add the model as ONNX (needs counterplay\\[onnx]).")
    ] = False,
    as_json: Json = False,
) -> None:
    """Export the vectors of users and items, an index of the items, and the model as ONNX.

    Example: counterplay export runs/game --out exported --ann --onnx
    """
    from counterplay.serving.export import export_run

    with console.notes(), console.working(f"exporting {run.name}"):
        described = export_run(run, out, data=data, format=format, ann=ann, onnx=onnx)
    if as_json:
        console.print_json(described)
    else:
        _show(described, out)


def _show(described: dict[str, Any], out: Path) -> None:
    counts = f"{described['users']:,} users and {described['items']:,} items"
    rows = {"model": f"{described['model']} of {counts}"}
    vectors, onnx, ann = (described[name] for name in ("vectors", "onnx", "ann"))
    if vectors:
        rows["vectors"] = f"of {vectors['width']} numbers, {vectors['format']}; {_off(vectors)}"
        rows["score"] = described["score"]
    if onnx:
        rows["ONNX"] = _off(onnx)
    if ann:
        rows["index"] = (
            f"finds {ann['recall']:.1%} of the {ann['k']} best items, on {ann['users']:,} users"
        )
    if described["cold"]:
        rows["by popularity"] = f"{described['cold']:,} users without training rows"
    rows["written to"] = str(out)
    console.print_pairs(rows)


def _off(found: dict[str, Any]) -> str:
    return f"within {found['difference']:.1g} of the model's scores, on {found['pairs']:,} pairs"
