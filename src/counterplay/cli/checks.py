"""`counterplay check-world`: whether a world is what it says, and what its dials are."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from counterplay import places
from counterplay.cli import console
from counterplay.cli.options import Json
from counterplay.cli.worlds import WorldDirectory
from counterplay.errors import DataError


def check_world(
    world: WorldDirectory,
    seed: Annotated[int, typer.Option(help="Random seed of the check.", min=0)] = 0,
    as_json: Json = False,
) -> None:
    """Check that a world is correct, and print its dials: how much of its clicks is exposure.

    Example: counterplay check-world world
    """
    places.check_world(world)
    from counterplay.simulation.checks import check_world as checked
    from counterplay.simulation.dials import world_dials
    from counterplay.simulation.store import load_world

    with console.working(f"checking {world.name}"):
        loaded = load_world(world)
        findings = checked(loaded, seed=seed)
        failed = [each for each in findings if not each.ok]
        dials = None if failed else world_dials(loaded)
    if as_json:
        told: list[dict[str, Any]] = [
            {"name": each.name, "ok": bool(each.ok), "text": each.text} for each in findings
        ]
        if dials is not None:
            shares = {"gamma": dials.gamma, "lambda": dials.lam}
            told.append({"name": "dials", "ok": True, "text": dials.text, **shares})
        console.print_json(told)
    else:
        lines = {each.name: f"{'holds' if each.ok else 'FAILS'}: {each.text}" for each in findings}
        console.print_pairs(lines if dials is None else lines | {"dials": dials.text})
    if failed:
        raise DataError(failed[0].text)
