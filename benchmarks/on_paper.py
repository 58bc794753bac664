"""What a training by many workers would take, from measured seconds a row: on paper, not run.

Usage: python -m benchmarks.on_paper [--rows N] [--users N] [--items N] [--dim N] [--workers N] …

Seconds a row are those of one worker in `benchmarks/results/workers.json`, of dimension 32, and
proportional to the dimension, unless they are given.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

GIB = 2**30
# Bytes: a vector with both moments and its best state; a row's columns, its order, and what the
# sampler keeps of its pair (pair, key, place, bits).
FLOATS_A_VALUE, BYTES_A_ROW = 4, 8 + 8 + 28


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
        """Vectors of all items, which every worker has."""
        return self.items * self.dim * 4 * FLOATS_A_VALUE / GIB

    @property
    def rows_gib(self) -> float:
        """Rows of a worker."""
        return self.rows / self.workers * BYTES_A_ROW / GIB

    @property
    def exchanged(self) -> float:
        """Bytes that a worker gives and takes in a step: dense, or the rows that were touched."""
        share = 2 * (self.workers - 1) / self.workers
        dense = share * self.items * self.dim * 8
        touched = min(self.items, self.rows_a_step * (1 + self.negatives))
        return min(dense, self.workers * touched * (self.dim + 1) * 8)

    @property
    def hours(self) -> tuple[float, float]:
        """Of an epoch: computing, and exchanging one after the other."""
        computing = self.steps * self.rows_a_step * self.nanoseconds / 1e9
        return computing / 3600, self.steps * self.exchanged * 8 / (self.gigabits * 1e9) / 3600


def lines(plan: Plan) -> list[str]:
    """Return the plan and what it takes, a line each."""
    computing, exchanging = plan.hours
    needs = {
        "vectors of all items, on every worker": plan.items_gib,
        "vectors of its users": plan.users_gib,
        "its rows": plan.rows_gib,
    }
    first = max(needs, key=lambda name: needs[name])
    network = "the exchange of items' gradients" if exchanging > computing else "the processor"
    return [
        f"{plan.rows:,.0f} rows, {plan.users:,.0f} users, {plan.items:,.0f} items, dimension "
        f"{plan.dim:.0f}, {plan.workers:.0f} workers with {plan.gigabits:g} Gbit/s each",
        *(f"memory a worker, {name}: {value:,.1f} GiB" for name, value in needs.items()),
        f"memory a worker, together: {sum(needs.values()):,.1f} GiB, most of it {first}",
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
