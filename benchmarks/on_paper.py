"""What a training by many workers would take, from measured seconds a row: on paper, not run.

Usage: python -m benchmarks.on_paper [--rows N] [--users N] [--items N] [--dim N] [--workers N] …

Seconds a row are those of one worker in `benchmarks/results/workers.json`, of dimension 32, and
proportional to the dimension, unless they are given. Workers own items' vectors where there are
more items than a worker looks up in a step; `--own 0` gives each a copy of all, `--own 1` a part.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass
from pathlib import Path

GIB = 2**30
# Bytes: a vector with both moments and its best state; a row's columns, its order, and what the
# sampler keeps of its pair (pair, key, place, bits).
FLOATS_A_VALUE, BYTES_A_ROW = 4, 8 + 8 + 28
# Of every item, on every worker: its id, how often it occurs, and where it is among those near.
BYTES_AN_ITEM = 16 + 8 + 4


@dataclass(frozen=True)
class Plan:
    """A training: its log, its model, its workers, and what one of them reaches."""

    rows: float = 10e9
    users: float = 500e6
    items: float = 50e6
    dim: float = 64
    workers: float = 256
    negatives: float = 4
    rows_a_step: float = 65_536  # of a worker
    nanoseconds: float = 0.0  # a row of a worker
    gigabits: float = 25.0  # a second, of a worker's network
    own: float | None = None  # whether workers own items' vectors; by their number

    @property
    def owned(self) -> bool:
        """Whether workers own a part of the items' vectors each."""
        by_number = self.items > self.lookups
        return self.workers > 1 and (by_number if self.own is None else bool(self.own))

    @property
    def lookups(self) -> float:
        """Items that a worker looks up in a step."""
        return self.rows_a_step * (1 + self.negatives)

    @property
    def near(self) -> float:
        """How many different items those are, if negatives are drawn evenly."""
        return self.items * -math.expm1(-self.lookups / self.items)

    @property
    def steps(self) -> float:
        """Of an epoch."""
        return self.rows / (self.rows_a_step * self.workers)

    @property
    def users_gib(self) -> float:
        """Vectors of a worker's users."""
        return self.users / self.workers * self.dim * 4 * FLOATS_A_VALUE / GIB

    @property
    def items_gib(self) -> float:
        """Vectors of the items that a worker has: all, or its own and those of a step."""
        copies = self.items / self.workers * FLOATS_A_VALUE + 2 * self.near
        copies = copies if self.owned else self.items * FLOATS_A_VALUE
        return copies * self.dim * 4 / GIB

    @property
    def known_gib(self) -> float:
        """What every worker knows of every item."""
        return self.items * BYTES_AN_ITEM / GIB

    @property
    def gathered_gib(self) -> float:
        """Vectors of all items, which every worker has for a while where they are owned."""
        return self.items * self.dim * 4 / GIB

    @property
    def first_gib(self) -> float:
        """What the first worker has of all vectors when the model is written."""
        return (self.users + self.items) * self.dim * 4 / GIB

    @property
    def rows_gib(self) -> float:
        """Rows of a worker."""
        return self.rows / self.workers * BYTES_A_ROW / GIB

    @property
    def exchanged(self) -> float:
        """Bytes that a worker sends in a step.

        Of owned items their numbers, rows and gradients; of copies all gradients, or those of rows
        that were touched.
        """
        share = (self.workers - 1) / self.workers
        if self.owned:
            return share * self.near * (2 * self.dim + 1) * 4
        touched = (self.workers - 1) * self.near * (self.dim * 4 + 8)
        return min(2 * share * self.items * self.dim * 4, touched)

    @property
    def hours(self) -> tuple[float, float]:
        """Of an epoch: computing, and exchanging one after the other."""
        computing = self.steps * self.rows_a_step * self.nanoseconds / 1e9
        return computing / 3600, self.steps * self.exchanged * 8 / (self.gigabits * 1e9) / 3600


def lines(plan: Plan) -> list[str]:
    """Return the plan and what it takes, a line each."""
    computing, exchanging = plan.hours
    whose = "its items and those of a step" if plan.owned else "all items, on every worker"
    needs = {
        f"vectors of {whose}": plan.items_gib,
        "ids and counts of all items": plan.known_gib,
        "vectors of its users": plan.users_gib,
        "its rows": plan.rows_gib,
    }
    first = max(needs, key=lambda name: needs[name])
    network = "the exchange of items' vectors" if exchanging > computing else "the processor"
    return [
        f"{plan.rows:,.0f} rows, {plan.users:,.0f} users, {plan.items:,.0f} items, dimension "
        f"{plan.dim:.0f}, {plan.workers:.0f} workers with {plan.gigabits:g} Gbit/s each",
        *(f"memory a worker, {name}: {value:,.1f} GiB" for name, value in needs.items()),
        f"memory a worker, together: {sum(needs.values()):,.1f} GiB, most of it {first}",
        *(
            [f"memory a worker, all items while it validates: {plan.gathered_gib:,.1f} GiB"]
            if plan.owned
            else []
        ),
        f"memory of the first worker when the model is written: {plan.first_gib:,.0f} GiB",
        f"steps an epoch: {plan.steps:,.0f}, {plan.exchanged / 2**20:,.0f} MiB a worker and step",
        f"an epoch: {computing:,.2f} hours of computing, {exchanging:,.2f} of exchanging; what "
        f"takes longest is {network}",
    ]


def _measured(dim: float) -> float:
    found = json.loads((Path(__file__).parent / "results" / "workers.json").read_text())
    one = found["measured"]["erm"]["1"]
    return float(one["seconds"] / one["rows"] * 1e9) * dim / 32


def main() -> None:
    """Print what a plan takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    usual = Plan()
    for name in Plan.__dataclass_fields__:
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, default=getattr(usual, name))
    given = vars(parser.parse_args())
    given["nanoseconds"] = given["nanoseconds"] or _measured(given["dim"])
    print("\n".join(lines(Plan(**given))))


if __name__ == "__main__":
    main()
