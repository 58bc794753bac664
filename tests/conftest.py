"""What all tests share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

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
