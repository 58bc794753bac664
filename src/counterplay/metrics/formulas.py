"""The ranking metrics, by name: how each is written, and its formula.

It loads no numpy, so that the command line can list the names at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from counterplay.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from counterplay.metrics.arrays import Doubles
    from counterplay.metrics.ties import TiedBlocks


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric at a cut-off k, from the places of a list's targets.

    Attributes:
        name: In configurations and records.
        title: How tables and charts write it.
        formula: From the targets of all lists and k to one number a list, `[n_groups]`.
        of_rows: Whether evaluation, validation and worlds take it, where a target is a list of its
            own; what then equals another metric is not taken.
    """

    name: str
    title: str
    formula: Callable[[TiedBlocks, int], Doubles]
    of_rows: bool = False


METRICS: dict[str, Metric] = {
    each.name: each
    for each in (
        Metric("hit", "Hit", lambda blocks, k: blocks.hit(k), of_rows=True),
        Metric(
            "ndcg",
            "NDCG",
            lambda blocks, k: (blocks.dcg(k) / blocks.ideal(k)).clip(max=1),
            of_rows=True,
        ),
        Metric("mrr", "MRR", lambda blocks, k: blocks.first(k), of_rows=True),
        Metric("dcg", "DCG", lambda blocks, k: blocks.dcg(k), of_rows=True),
        Metric("recall", "Recall", lambda blocks, k: blocks.count(k) / blocks.n.clip(min=1)),
        Metric("precision", "Precision", lambda blocks, k: blocks.count(k) / k),
        Metric(
            "map", "MAP", lambda blocks, k: (blocks.precisions(k) / blocks.possible(k)).clip(max=1)
        ),
    )
}


def row_metrics() -> tuple[str, ...]:
    """Return the names of the metrics of single rows."""
    return tuple(each.name for each in METRICS.values() if each.of_rows)


def known(name: str, names: Collection[str] | None = None) -> str:
    """Return the name of a metric, by default of any; refuse another one."""
    names = METRICS if names is None else names
    if name not in names:
        (nearest,) = get_close_matches(name.lower(), names, n=1, cutoff=0.0)
        raise ConfigError(
            f"a metric must be one of {', '.join(names)}; found {name!r}; did you mean {nearest!r}?"
        )
    return name
