"""`counterplay export`: a trained model for other software."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from counterplay.cli import console


def export(
    run: Annotated[Path, typer.Argument(help="Run directory.")],
    out: Annotated[Path, typer.Option(help="Directory to write; must be new.")],
    data: Annotated[
        Path | None, typer.Option(help="Dataset directory; by default the run's own.")
    ] = None,
    format: Annotated[  # noqa: A002 - the word that everybody looks for
        Literal["parquet", "npy"], typer.Option(help="Of the vectors.")
    ] = "parquet",
    ann: Annotated[
        bool, typer.Option("--ann", help="Add an index of the items; needs the extra ann.")
    ] = False,
    onnx: Annotated[
        bool, typer.Option("--onnx", help="Add the model as ONNX; needs the extra onnx.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print export.json.")] = False,
) -> None:
    """Write the vectors of users and items, an index of them, and the model as ONNX.

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
    return (
        f"off by {found['difference']:.1g} at most from the model's own scores, on "
        f"{found['pairs']:,} pairs"
    )
