"""Evaluate the scores of other libraries: implicit's BPR, and a scikit-learn-style factorization.

Scores are a table of user, item and score. They must cover what a candidate is ranked by, unseen
items and test targets; with those of training items as well, an opponent can be fitted against it.

Usage: python examples/scores_from_elsewhere.py
"""

import tempfile
import warnings
from pathlib import Path

import numpy as np
import polars as pl
from implicit.cpu.bpr import BayesianPersonalizedRanking
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.decomposition import TruncatedSVD

import counterplay as cp

N_USERS, N_ITEMS, N_ROWS = 150, 90, 4_000


def make_split() -> cp.Split:
    """Make users with a taste for a third of the items, which are shown unequally often."""
    rng = cp.Streams(0).numpy("clicks")
    user, item = rng.integers(0, N_USERS, N_ROWS), (N_ITEMS * rng.random(N_ROWS) ** 2).astype(int)
    liked = (user % 3 == item % 3) | (rng.random(N_ROWS) < 0.2)
    rows = {"user": user[liked], "item": item[liked], "time": np.arange(N_ROWS)[liked]}
    return cp.data.leave_last_two_out(cp.read(rows, duplicates="first"))


def implicit_scores(train: csr_matrix) -> NDArray[np.float32]:
    """Return implicit's scores of all pairs."""
    model = BayesianPersonalizedRanking(factors=8, iterations=100, random_state=0, num_threads=1)
    model.fit(train, show_progress=False)
    scores: NDArray[np.float32] = model.user_factors @ model.item_factors.T
    return scores


def scikit_learn_scores(train: csr_matrix) -> NDArray[np.float32]:
    """Return the scores of all pairs by a model that fits and transforms."""
    model = TruncatedSVD(n_components=8, random_state=0)
    scores: NDArray[np.float32] = model.fit_transform(train) @ model.components_
    return scores


def main() -> None:
    """Fit both, hand their scores over, and print what counterplay makes of them."""
    warnings.simplefilter("ignore")  # implicit's about threads
    quick = cp.evaluation.Evaluation.model_validate(
        {"k": [10], "opponent": {"epochs": 5}}
    )  # shows how
    split = make_split()
    log = split.train
    clicks = np.ones(len(log), dtype=np.float32), (log.user, log.item)
    train = csr_matrix(clicks, shape=(log.n_users, log.n_items))
    user, item = np.divmod(np.arange(log.n_users * log.n_items), log.n_items)
    pairs = {"user": log.users.decode(user), "item": log.items.decode(item)}
    with tempfile.TemporaryDirectory() as folder:
        cp.data.save(split, Path(folder) / "clicks")
        for name, scores in (
            ("implicit", implicit_scores(train)),
            ("scikit-learn", scikit_learn_scores(train)),
        ):
            table = pl.DataFrame(pairs | {"score": scores.reshape(-1)})
            result = cp.evaluate(table, Path(folder) / "clicks", quick)
            for each in result.estimates:
                value = f"{each.value:.3f} [{each.low:.3f}, {each.high:.3f}]"
                print(f"{name:>12}  {each.estimator:>10}  {each.metric:>4}@10  {value}")


if __name__ == "__main__":
    main()
