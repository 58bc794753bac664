from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from counterplay.data.jobs import Results
from reproduction.definitions import METHOD_TABLES
from reproduction.jobs import Plan, TrainJob
from reproduction.methods import baselines
from reproduction.tables import best_trial

TABLES = {table.name: table for table in METHOD_TABLES}
MakePlan = Callable[..., Plan]


def trials(n: int) -> list[TrainJob]:
    (method,) = baselines(("gmf",), 4)
    return [TrainJob(data="ml-1m", method=method, settings=method.trial(i)) for i in range(n)]


def test_a_choice_waits_for_all_trials_and_passes_over_failures(tmp_path: Path) -> None:
    jobs, results = trials(4), Results(tmp_path)
    for job, value in zip(jobs, (0.2, None, 0.5), strict=False):
        failed = {"failed": "a; b; c"}
        results.keep(job, failed if value is None else {"validation": {"value": value}})
    assert best_trial(jobs, results) is None
    assert best_trial(jobs[:3], results) == jobs[2]
    results.keep(jobs[3], {"validation": {"value": 0.5}})
    assert best_trial(jobs, results) == jobs[2]  # the first of equals
    assert best_trial(jobs[1:2], results) is None


def test_tables_have_the_methods_of_the_paper(plan: MakePlan) -> None:
    names = {name: [each.printed for each in TABLES[name].methods(plan())] for name in TABLES}
    assert len(set(names["table1"])) == 4 + 6 + 2
    assert len(set(names["table2"])) == 6 + 8 + 4
    assert len(names["table2"]) == 6 + 2 * (8 + 4)  # both recipes
    assert set(names["figure-a1"]) == {"acl-gmf", "acl-mlp"}
    assert set(names["figure-a2"]) == {"acl-attn"}
    assert set(names["figure-a3"]) == {"gmf", "attn", "acl-gmf", "acl-attn"}


def test_baselines_have_twice_the_dimension(plan: MakePlan) -> None:
    for name in ("table1", "table2"):
        for method in TABLES[name].methods(plan(dim=32)):
            assert method.dim == (64 if method.method == "erm" else 32)


def test_more_trials_and_seeds_go_on_from_fewer(tmp_path: Path, plan: MakePlan) -> None:
    results = Results(tmp_path)
    few, more = (
        {job.key for job in TABLES["table2"].jobs(plan(trials=n), results)} for n in (2, 3)
    )
    assert few < more


def test_lastfm_alone_is_learnt_twice(tmp_path: Path, plan: MakePlan) -> None:
    jobs = TABLES["table2"].jobs(plan(), Results(tmp_path))
    found = {job.data for job in jobs if isinstance(job, TrainJob)}
    assert found == {"ml-1m", "lastfm", "lastfm-distinct", "goodbooks", "goodreads"}
