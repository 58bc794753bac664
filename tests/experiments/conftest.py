"""A small dataset directory with a split."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import counterplay as cp

torch.set_num_threads(1)  # the models are tiny, and tests run side by side


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    n = 1500
    user, item = rng.integers(0, 40, n), rng.integers(0, 60, n)
    liked = user % 2 == item % 2
    log = cp.read(
        {
            "user": user[liked],
            "item": item[liked],
            "rating": 1 + rng.integers(0, 5, n)[liked],
            "time": rng.permutation(n)[liked],
        },
        duplicates="first",
    )
    folder = tmp_path_factory.mktemp("experiments") / "data"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cp.CounterplayWarning)
        cp.save(cp.leave_last_two_out(log), folder)
    return folder
