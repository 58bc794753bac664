from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from operator import methodcaller
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp
from counterplay.data.files import read_json
from counterplay.data.jobs import (
    Job,
    Result,
    Results,
    in_processes,
    in_turn,
    on_ray,
    processes,
    run_jobs,
)
from counterplay.errors import CounterplayError


class Square(Job):
    number: int

    @property
    def label(self) -> str:
        return f"square/{self.number}"


def square(job: Job, told: list[int] | None = None) -> Result:
    assert isinstance(job, Square)
    if told is not None:
        told.append(job.number)
    if job.number < 0:
        raise cp.DataError("a number must not be negative; found one; take another")
    if job.number > 1000:
        raise OverflowError("far too\nlarge")
    return {"value": job.number**2}


class End:
    """Work that ends whatever process it is sent to."""

    def __call__(self, job: Job) -> Result:
        raise AssertionError(job)

    def __reduce__(self) -> tuple[Callable[[int], Any], tuple[int]]:
        return os._exit, (3,)


JOBS = [Square(number=number) for number in (3, -1, 4, 2000)]


def test_every_job_has_its_result_and_a_failure_is_one(tmp_path: Path) -> None:
    results = Results(tmp_path / "runs")
    run_jobs(JOBS, results, square, in_turn)
    assert [results.state(job) for job in JOBS] == ["done", "failed", "done", "failed"]
    assert results.of(JOBS[0]) == {"job": {"number": 3}, "value": 9}
    assert results.of(JOBS[1]) is None
    assert results.failure(JOBS[0]) is None
    assert results.failure(JOBS[1]) == "a number must not be negative; found one; take another"
    assert results.failure(JOBS[3]) == "OverflowError: far too large"
    path = tmp_path / "runs" / f"{JOBS[0].key}.json"
    assert read_json(path, "a result") == {"job": {"number": 3}, "value": 9}


@pytest.mark.parametrize(("retry", "again"), [(False, [5]), (True, [-1, 2000, 5])])
def test_only_what_has_no_result_is_run(tmp_path: Path, retry: bool, again: list[int]) -> None:
    run_jobs(JOBS, Results(tmp_path), square, in_turn)
    told: list[int] = []
    jobs = [*JOBS, Square(number=5), Square(number=5)]
    run_jobs(jobs, Results(tmp_path), partial(square, told=told), in_turn, retry=retry)
    assert told == again


def test_an_interruption_leaves_what_is_finished(tmp_path: Path) -> None:
    def interrupted(job: Job) -> Result:
        if job == JOBS[2]:
            raise KeyboardInterrupt
        return square(job)

    results = Results(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run_jobs(JOBS, results, interrupted, in_turn)
    states = ["done", "failed", "waiting", "waiting"]
    assert [Results(tmp_path).state(job) for job in JOBS] == states
    assert len(list(tmp_path.iterdir())) == 2


@given(st.integers(), st.integers())
def test_keys_tell_jobs_apart_and_are_file_names(one: int, other: int) -> None:
    first, second = Square(number=one).key, Square(number=other).key
    assert (first == second) == (one == other)
    assert "/" not in first


def test_keys_do_not_change() -> None:
    assert Square(number=3).key == "square_3_e81d7fbe2a"


def test_processes_give_what_one_process_gives() -> None:
    jobs = [Square(number=number) for number in range(3)]
    found = dict(in_processes(2)(methodcaller("model_dump"), jobs))
    assert found == dict(in_turn(methodcaller("model_dump"), jobs))
    assert [found[job]["number"] for job in jobs] == [0, 1, 2]


def test_a_process_that_is_ended_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(CounterplayError, match=r"ended from outside.*fewer --workers"):
        run_jobs(JOBS[:1], Results(tmp_path), End(), in_processes(2))


def fake_ray() -> Any:
    """A cluster of one process: what is remote is done when it is asked for."""
    calls: dict[int, Callable[[], Any]] = {}

    def remote(function: Callable[..., Any]) -> Any:
        def start(*arguments: Any) -> int:
            calls[len(calls)] = partial(function, *arguments)
            return len(calls) - 1

        return SimpleNamespace(remote=start)

    return SimpleNamespace(
        init=lambda **_: None,
        is_initialized=lambda: False,
        exceptions=SimpleNamespace(RayError=ZeroDivisionError),
        cancel=lambda number, **_: calls.pop(number),
        remote=remote,
        wait=lambda under_way: (under_way[-1:], under_way[:-1]),
        get=lambda number: calls[number](),
    )


def test_ray_gives_what_one_process_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", fake_ray())
    here, there = Results(tmp_path / "here"), Results(tmp_path / "there")
    run_jobs(JOBS, here, square, in_turn)
    run_jobs(JOBS, there, square, on_ray())
    for job in JOBS:
        assert (here.of(job), here.failure(job)) == (there.of(job), there.failure(job))


def test_a_job_that_ray_ends_is_told_of_and_the_others_are_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ray = fake_ray()
    cancelled: list[int] = []
    ray.get = lambda _: 1 / 0
    ray.cancel = lambda number, **_: cancelled.append(number)
    monkeypatch.setitem(sys.modules, "ray", ray)
    with pytest.raises(CounterplayError, match=r"Ray ended one, division.*same command again"):
        list(on_ray()(square, JOBS))
    assert cancelled == [0, 1, 2]


def test_a_cluster_that_does_not_start_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = fake_ray()

    def init(**_: Any) -> None:
        raise Exception("The current node\ntimed out")

    ray.init = init
    monkeypatch.setitem(sys.modules, "ray", ray)
    with pytest.raises(CounterplayError, match=r"found The current node timed out; look at RAY_A"):
        list(on_ray()(square, JOBS))


def test_lists_of_one_pool_have_their_share_of_threads() -> None:
    before = dict(os.environ)
    with processes(1) as executor:
        for name in ("POLARS_MAX_THREADS", "OMP_NUM_THREADS"):
            ((_, found),) = executor(partial(variable, name), JOBS[:1])
            assert found == {"value": "1"}
    assert dict(os.environ) == before


def variable(name: str, job: Job) -> Result:
    assert isinstance(job, Square)
    return {"value": os.environ.get(name)}


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(cp.ConfigError, match=r"install counterplay\[ray\]"):
        on_ray()


def test_results_that_are_committed_are_still_read(root: Path) -> None:
    """They were written before there were seals: results, not state."""
    paths = sorted((root / "docs" / "results" / "runs").glob("*.json"))
    assert len(paths) > 100
    for path in paths:
        assert "job" in read_json(path, "the result of a job", may_lack_seal=True)


def test_a_damaged_result_is_one_sentence(tmp_path: Path) -> None:
    run_jobs(JOBS[:1], Results(tmp_path), square, in_turn)
    path = tmp_path / f"{JOBS[0].key}.json"
    content = path.read_bytes()
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(cp.DataError, match="remove it, and the job is run again"):
            Results(tmp_path).state(JOBS[0])


def test_a_result_of_no_job_or_of_another_is_refused(tmp_path: Path) -> None:
    """Without a seal, as those that were written before there were seals."""
    path = tmp_path / f"{JOBS[0].key}.json"
    for content in ("{}", json.dumps({"job": JOBS[1].model_dump(), "square": 4})):
        path.write_text(content)
        with pytest.raises(cp.DataError, match="its job; found that of another; remove it, and"):
            Results(tmp_path).of(JOBS[0])
    path.write_text(json.dumps({"job": JOBS[0].model_dump(), "square": 4}))
    assert Results(tmp_path).of(JOBS[0]) is not None
