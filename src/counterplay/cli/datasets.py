"""`counterplay datasets`: the public datasets that can be read by name."""

from __future__ import annotations

from counterplay.cli import console
from counterplay.cli.options import Json


def datasets(as_json: Json = False) -> None:
    """List the public datasets that counterplay can read, with licence and citation.

    Example: counterplay datasets
    """
    from counterplay.data.datasets import DATASETS

    if as_json:
        console.print_json(
            [
                {
                    "name": each.name,
                    "title": each.title,
                    "rows": each.rows,
                    "licence": each.licence,
                    "citation": each.citation,
                    "files": [{"url": it.url, "sha256": it.sha256} for it in each.remotes],
                }
                for each in DATASETS.values()
            ]
        )
        return
    for each in DATASETS.values():
        console.out.print(f"[bold]{each.name}[/bold]  {each.title}: {each.rows}", markup=True)
        console.out.print(f"    licence: {each.licence}", markup=False)
        console.out.print(f"    cite: {each.citation}", markup=False)
