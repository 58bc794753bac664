"""What all tests share."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

import counterplay as cp

torch.set_num_threads(1)  # the models are tiny, and tests run side by side
ROOT = Path(__file__).parents[1]
os.environ.setdefault("OMP_NUM_THREADS", "1")  # a worker a core: threads of torch would only queue

settings.register_profile(
    "counterplay",
    deadline=None,
    derandomize=True,
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("counterplay")


@pytest.fixture(autouse=True, scope="session")
def _no_waiting_for_the_disk() -> Iterator[None]:
    """Write without fsync: no test cuts the power. What is synced, and when, has its own test."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("counterplay.data.publishing._sync", lambda _: None)
        yield


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def real_data() -> Callable[[str], Path]:
    """Give the folder of a real dataset; skip where it is absent."""

    def folder(name: str) -> Path:
        place = Path(os.environ.get("COUNTERPLAY_DATA", ROOT.parent / "shared" / "data")) / name
        if not place.exists():
            pytest.skip(f"the real data {name} are not there (COUNTERPLAY_DATA names their place)")
        return place

    return folder


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a small dataset directory with a split."""
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
    folder = tmp_path_factory.mktemp("dataset") / "data"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cp.CounterplayWarning)
        cp.data.save(cp.data.leave_last_two_out(log), folder)
    return folder
