from __future__ import annotations

from pathlib import Path

from counterplay.data.jobs import Results
from reproduction.budget import expected_seconds, seconds_a_job, seconds_of_job
from reproduction.jobs import RandomisedJob, TrainJob
from reproduction.methods import TableMethod

GMF = TableMethod(method="erm", candidate="gmf", dim=4)
MLP = TableMethod(method="erm", candidate="mlp", dim=4)


def job(method: TableMethod, data: str = "ml-1m", seed: int = 0) -> TrainJob:
    return TrainJob(data=data, method=method, seed=seed)


def test_a_job_takes_what_those_most_like_it_took(tmp_path: Path) -> None:
    results = Results(tmp_path)
    assert seconds_of_job(results, job(GMF)) is None
    results.keep(job(GMF), {"seconds": 10.0})
    results.keep(job(GMF, seed=1), {"seconds": 20.0})
    results.keep(job(MLP), {"seconds": 90.0})
    results.keep(job(GMF, data="lastfm"), {"failed": "a; b; c"})
    assert seconds_a_job(tmp_path, "ml-1m", "erm", "gmf") == 15
    assert seconds_a_job(tmp_path, "ml-1m", "erm", "cf") == 40
    assert seconds_a_job(tmp_path, "lastfm", "acl", "gmf") == 40
    assert seconds_of_job(results, job(MLP, seed=7)) == 90
    assert seconds_of_job(results, RandomisedJob(data="coat")) is None


def test_a_cell_counts_what_is_missing(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.keep(job(GMF), {"seconds": 10.0})
    found = expected_seconds(results, "ml-1m", GMF, n_trials=4, n_seeds=10, n_done=5)
    assert found == 90
    assert expected_seconds(results, "ml-1m", GMF, n_trials=1, n_seeds=2, n_done=5) == 0
