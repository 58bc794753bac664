"""Make a small click log, as an export might look, and prepare it for learning.

Usage: python examples/prepare_a_log.py [FOLDER]
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import polars as pl

import counterplay as cp

N_USERS, N_ITEMS, N_CLICKS = 2_000, 500, 60_000


def make_log(path: Path) -> None:
    """Write clicks whose users and items are unequally active and popular."""
    rng = cp.Streams(0).numpy("demo")
    user = (N_USERS * rng.random(N_CLICKS) ** 1.5).astype(int)
    item = (N_ITEMS * rng.random(N_CLICKS) ** 2.5).astype(int)
    frame = pl.DataFrame(
        {
            "visitor": pl.Series(user).cast(pl.String).str.zfill(5),
            "sku": pl.Series(item),
            "clicked_at": 1_700_000_000 + np.sort(rng.integers(0, 90 * 86_400, N_CLICKS)),
        }
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.write_parquet(path)


def main(folder: Path) -> None:
    """Run the whole way: read, filter, split, save, and load again."""
    make_log(folder / "clicks.parquet")
    log = cp.read(folder / "clicks.parquet", user="visitor", item="sku", time="clicked_at")
    log = cp.data.k_core(log, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cp.CounterplayWarning)  # it says that time leaks
        split = cp.data.leave_last_two_out(log)
    cp.data.save(split, folder / "dataset", overwrite=True)
    split = cp.data.load_split(folder / "dataset")

    found = cp.data.profile(split.interactions)
    print(f"{found.n_interactions:,} clicks of {found.n_users:,} users on {found.n_items:,} items")
    print(f"density {found.density:.2%}, popularity Gini {found.popularity_gini:.2f}")
    print(f"{found.repeated_share:.1%} of clicks repeat a pair")
    print(f"from {found.first_time} to {found.last_time}")
    for step in split.interactions.steps:
        print(step)
    print(split)

    sampler = cp.data.NegativeSampler(split.train)
    negatives = sampler.draw(split.train.user, 4, cp.Streams(0).numpy("negatives", 0))
    print(f"{negatives.size:,} negatives for an epoch, none of them clicked in training")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
