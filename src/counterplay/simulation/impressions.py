"""Compare a world's impressions with its clicks, and its random rows with what it says of them."""

from __future__ import annotations

from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.simulation.draws import (
    N_CHECKS,
    N_GROUPS,
    WorldError,
    deviations,
    farthest,
    groups,
    limit,
)

if TYPE_CHECKING:
    from counterplay.data.interactions import Interactions
    from counterplay.simulation.draws import Draws
    from counterplay.simulation.factors import Numbers

_SHARE = 0.5  # of random rows, in the log that is drawn to check them


def impressions(world: Any, draws: Draws) -> str:
    """Compare impressions with the log of clicks, and look for what no log would have."""
    shown = world.log((draws.rate,), impressions=True)
    clicks = world.log((draws.rate,))
    known = [name for name, _ in shown.columns() if name in ("exposed", "propensity", "rating")]
    if shown.clicked is None or known:
        raise WorldError(
            "a log of impressions must have the column clicked, and the truth only where it is "
            f"asked for; found {', '.join(name for name, _ in shown.columns())}; change it"
        )
    if world.examination < 1 and shown.position is None:
        raise WorldError(
            "impressions must have positions where users do not examine all of them; found "
            f"none, and an examination of {world.examination:g}; add them"
        )
    chosen = shown.take(shown.clicked)
    same = len(chosen) == len(clicks) and all(
        np.array_equal(getattr(chosen, name), column) for name, column in clicks.columns()
    )
    if not same:
        raise WorldError(
            "the clicked impressions must be the log of clicks, row by row; found "
            f"{len(chosen):,} and {len(clicks):,} rows that differ; probably the draw depends on "
            "what is returned of it: draw all that is shown, and then choose rows"
        )
    return f"{len(shown):,} impressions hold the {len(clicks):,} clicks of the log of clicks"


def random_rows(world: Any, draws: Draws, alpha: float) -> str:
    """Compare random rows with uniform items, examination by place, and mean relevance."""
    takes = signature(world.log).parameters
    if "random_share" not in takes and not any(
        each.kind is Parameter.VAR_KEYWORD for each in takes.values()
    ):
        return "the world draws no random rows"
    both = world.log((draws.rate,), impressions=True, random_share=_SHARE)
    if both.random is None or both.clicked is None:
        raise WorldError(
            "a log with a share of random rows must have the columns random and clicked; found "
            f"{', '.join(name for name, _ in both.columns())}; add the others"
        )
    if both.take(~both.random).pair.tobytes() != draws.logs[0].pair.tobytes():
        raise WorldError(
            "random rows must not change what the policy shows; found other rows of the policy "
            "with them than without; probably both draw from one stream: give random rows their own"
        )
    rows = both.take(both.random)
    most = limit(alpha / N_CHECKS, 1 + 4 * N_GROUPS)
    found = [
        _number(world, rows, len(draws.logs[0])),
        _items(world, rows, draws),
        _clicks(world, rows),
    ]
    z, where = max(found, key=lambda each: abs(each[0]))
    about = f"{where} (z = {z:+.1f}, limit {most:.1f})"
    if abs(z) > most:
        raise WorldError(
            "random rows must have their share, uniform items, and clicks as likely as mean "
            f"relevance times examination^(position − 1); found {about}; probably they are drawn "
            "by the policy's probabilities, or examined otherwise: draw every unclicked pair alike"
        )
    return f"{len(rows):,} random rows; the farthest: {about}"


def _number(world: Any, rows: Interactions, n_shown: int) -> tuple[float, str]:
    """Compare the number of random rows with their share."""
    n_pairs = world.n_users * world.n_items
    expected = min(_SHARE / (1 - _SHARE) * n_shown, n_pairs)
    z = deviations(*(np.array([float(each)]) for each in (len(rows), expected, n_pairs)))
    return float(z[0]), f"{len(rows):,} rows for {expected:,.1f} expected"


def _items(world: Any, rows: Interactions, draws: Draws) -> tuple[float, str]:
    """Compare how often items are drawn, in groups by what the policy shows of them."""
    group = groups(draws.expected["shown"].mean((0, 1)), np.ones(world.n_items))
    share = np.bincount(group, minlength=N_GROUPS) / world.n_items
    counts = np.bincount(group[rows.item], minlength=N_GROUPS).astype(np.float64)
    z = deviations(counts, len(rows) * share, np.full(N_GROUPS, float(len(rows))))
    at = int(np.abs(z).argmax())
    where = f"{int(counts[at]):,} rows for {len(rows) * share[at]:,.1f} expected"
    return float(z[at]), f"{where} in a tenth of the items by popularity"


def _clicks(world: Any, rows: Interactions) -> tuple[float, str]:
    """Compare clicks with the mean relevance and the place of their rows."""
    assert rows.clicked is not None
    place = np.zeros(len(rows))
    if rows.position is not None:
        place += rows.position - 1
    expected: Numbers = world.relevance(rows.user, rows.item[:, None])[:, 0]
    expected = expected * world.examination**place
    ways = {
        "all random rows": np.zeros(len(rows)),
        "a tenth by probability": expected,
        "a tenth by place": place,
    }
    return farthest(expected, rows.clicked, ways, "clicks")
