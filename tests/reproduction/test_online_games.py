from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterplay.data.jobs import Results
from counterplay.evaluation.settings import Evaluation, OpponentSettings
from counterplay.seeding import Streams
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.writing import split_of
from reproduction import online_games
from reproduction.claims import CLOSER, NEARER_THAN_OTHERS
from reproduction.datasets import Place
from reproduction.execution import execute
from reproduction.games_page import games_page
from reproduction.jobs import Plan
from reproduction.online_games import (
    N_CANDIDATES,
    OTHERS,
    OWN,
    PAPERS,
    GamesJob,
    GamesTable,
    squared_errors,
    with_features,
)

SMALL = {"n_users": 80, "n_items": 60, "n_shown": 9.0, "mean_relevance": 0.5}


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(online_games, "SIZE", SMALL)
        short = partial(Evaluation, opponent=OpponentSettings(epochs=3))
        patch.setattr(online_games, "Evaluation", short)
        job = GamesJob(preset="mild", epochs=2, patience=2)
        return execute(job, Place(Path(), Path())) | {"seconds": 2.0}


def test_candidates_differ_by_one_feature_each() -> None:
    world = Synthetic.model_validate(SMALL).world()
    split = split_of(world, (1.0, 0.5, 0.5))
    before: set[str] = set()
    for n in range(N_CANDIDATES):
        log = with_features(split, world, n, Streams(0)).interactions
        tables = [each for each in (log.item_features, log.user_features) if each is not None]
        names = {name for each in tables for name in each.frame.columns}
        assert len(names) == n
        assert before < names or n == 0
        before = names
    again = with_features(split, world, 1, Streams(0)).interactions.item_features
    whole = with_features(split, world, 7, Streams(0)).interactions.item_features
    assert again is not None
    assert whole is not None
    assert (again.frame["feature 1"] == whole.frame["feature 1"]).all()


def test_a_world_has_all_estimators_and_four_tests(result: dict[str, Any]) -> None:
    assert set(result["offline"]) == {*PAPERS, *OTHERS}
    for values in (*result["offline"].values(), result["online"], result["truth"]):
        assert len(values["hit@5"]) == N_CANDIDATES
    assert len(result["online"][online_games.CTR]) == N_CANDIDATES
    assert len(result["ess"]) == N_CANDIDATES
    oracle = np.array(result["offline"]["oracle"]["hit@5"])
    assert np.abs(oracle - result["truth"]["hit@5"]).max() < 0.2


def test_a_scale_moves_the_error_and_not_that_to_ctr(result: dict[str, Any]) -> None:
    doubled = {"hit@5": [2 * each for each in result["offline"]["standard"]["hit@5"]]}
    other = result | {"offline": result["offline"] | {"doubled": doubled}}
    for ctr in (True, False):
        own = squared_errors(other, "hit@5", "standard", ctr=ctr)
        twice = squared_errors(other, "hit@5", "doubled", ctr=ctr)
        assert (twice == pytest.approx(own)) == ctr


def test_the_table_judges_and_says_what_is_missing(result: dict[str, Any], tmp_path: Path) -> None:
    table, plan = GamesTable(), Plan(seeds=2, epochs=2, patience=2)
    results = Results(tmp_path / "runs")
    jobs = table.jobs(plan, results)
    assert len(jobs) == 6
    for job in jobs:
        if "mild" in job.label:
            results.keep(job, result)
    found = table.summary(plan, results, Place(tmp_path, tmp_path))
    claims = [each for each in found["claims"] if each["n"]]
    assert {each["claim"] for each in claims} == {CLOSER, NEARER_THAN_OTHERS}
    one = next(each for each in claims if each["first"] == "popularity")
    wanted = squared_errors(result, "hit@5", "popularity", ctr=False) - squared_errors(
        result, "hit@5", OWN, ctr=False
    )
    assert one["value"] == pytest.approx(wanted)
    page = "\n".join(games_page(found))
    assert "2 worlds are not run; they would take 4 s." in page
    assert page.count(f"| {OWN} |") == 1
