"""Small logs to try things on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

N_USERS, N_ITEMS, N_ROWS = 150, 200, 3_000


def write_log(path: Path, rng: np.random.Generator) -> None:
    """Write a log of clicks whose ids are text."""
    users, times = rng.integers(N_USERS, size=N_ROWS), 1_600_000_000 + rng.permutation(N_ROWS)
    items = (rng.random(N_ROWS) ** 2 * N_ITEMS).astype(int)
    rows = (f"u{u},i{i},{t}\n" for u, i, t in zip(users, items, times, strict=True))
    path.write_text("user,item,time\n" + "".join(rows))
