from __future__ import annotations

from pathlib import Path

from counterplay.data.jobs import Results
from reproduction.jobs import TrainJob
from reproduction.methods import Settings, TableMethod
from reproduction.selection import SEED, Selected, selected

GMF = TableMethod(method="erm", candidate="gmf", dim=4)
PS = TableMethod(method="ps", candidate="gmf", exposure="gmf", recipe="paper", dim=4)
ACL = TableMethod(method="acl", candidate="gmf", exposure="gmf", recipe="paper", dim=4)


def make(method: TableMethod, settings: Settings) -> TrainJob:
    return TrainJob(data="ml-1m", method=method, settings=settings, seed=SEED)


def run(results: Results, jobs: list[TrainJob], best: dict[str, float]) -> None:
    """Give every trial a value: each setting that is as wanted adds to it."""
    for job in jobs:
        chosen = dict(job.settings)
        value = 0.5 + sum(0.01 for name, each in best.items() if chosen.get(name) == each)
        results.keep(job, {"validation": {"value": value}})


def settled(method: TableMethod, results: Results, best: dict[str, float]) -> Selected:
    """Run waves of trials until the settings are known."""
    for _ in range(6):
        found = selected(method, results, make, 2)
        if found.settings is not None:
            return found
        run(results, [job for job in found.trials if results.state(job) == "waiting"], best)
    raise AssertionError


def test_settings_are_tried_one_at_a_time_and_then_together(tmp_path: Path) -> None:
    results = Results(tmp_path)
    first = selected(GMF, results, make, 2)
    assert first.settings is None
    assert [dict(job.settings) for job in first.trials] == [
        {},
        {"rate": 0.005},
        {"rate": 0.05},
        {"l2": 0.05},
        {"l2": 0.1},
    ]
    assert {job.seed for job in first.trials} == {SEED}
    found = settled(GMF, results, {"rate": 0.05, "l2": 0.1})
    assert dict(found.settings or ()) == {"rate": 0.05, "l2": 0.1}
    assert dict(found.trials[-1].settings) == {"rate": 0.05, "l2": 0.1}


def test_the_best_together_is_kept_only_if_it_is_best(tmp_path: Path) -> None:
    results = Results(tmp_path)
    first = selected(GMF, results, make, 2)
    run(results, first.trials, {"rate": 0.05, "l2": 0.1})
    second = selected(GMF, results, make, 2)
    results.keep(second.trials[-1], {"validation": {"value": 0.1}})
    assert dict(selected(GMF, results, make, 2).settings or ()) == {"rate": 0.05}


def test_ps_takes_g_from_its_own_training_and_tunes_f(tmp_path: Path) -> None:
    results = Results(tmp_path)
    assert {job.method for job in selected(PS, results, make, 2).trials} == {GMF}
    settled(GMF, results, {"rate": 0.005, "l2": 0.05})
    found = settled(PS, results, {"rate": 0.05})
    assert dict(found.settings or ()) == {
        "exposure_rate": 0.005,
        "exposure_l2": 0.05,
        "rate": 0.05,
    }


def test_the_game_adopts_all_but_the_rate(tmp_path: Path) -> None:
    results = Results(tmp_path)
    settled(GMF, results, {"rate": 0.005, "l2": 0.05})
    found = settled(ACL, results, {"alpha": 2.0, "exposure_rate": 0.05})
    assert dict(found.settings or ()) == {"l2": 0.05, "alpha": 2.0, "exposure_rate": 0.05}
    assert {"rate", "alpha", "exposure_rate"} <= {
        name for job in found.trials if job.method == ACL for name, _ in job.settings
    }


def test_a_variant_has_the_settings_of_the_game_itself(tmp_path: Path) -> None:
    results = Results(tmp_path)
    best = {"alpha": 2.0}
    settled(GMF, results, best)
    itself = settled(ACL, results, best)
    for fixed in ((("with_outcome", 0.0),), (("lazy", 1.0), ("objective", 1.0))):
        variant = ACL.model_copy(update={"fixed": fixed})
        assert selected(variant, results, make, 2) == itself


def test_what_the_code_trains_and_popularity_have_nothing_to_tune(tmp_path: Path) -> None:
    code = GMF.model_copy(update={"fixed": (("code", 1.0),)})
    pop = TableMethod(method="erm", candidate="pop", dim=4)
    for method in (code, pop):
        assert selected(method, Results(tmp_path), make, 2) == Selected((), [])
