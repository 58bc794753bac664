"""A study with random rows: what the verdict follows, and that nothing is trained on them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import counterplay as cp
from counterplay.errors import ConfigError, CounterplayWarning, DataError
from counterplay.evaluation.records import (
    CandidateEstimate,
    Comparison,
    DialsRecord,
    EvaluationRecord,
    LeadMap,
    RandomDials,
)
from counterplay.report.worst_case import worst_case_section
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.writing import write_world
from counterplay.study.config import StudyConfig
from counterplay.study.finished import Study
from counterplay.study.reach import holds
from counterplay.study.records import Verdict
from counterplay.study.verdict import verdict

FAST: dict[str, Any] = {
    "candidates": ("pop", "erm"),
    "dim": 4,
    "training": {"epochs": 2, "batch_size": 64},
    "evaluation": {"n_resamples": 200, "metrics": ("hit",)},
}
BOX = ((0.4, -0.1), (0.5, 0.0))


def random(lam: float) -> RandomDials:
    return RandomDials(n=50, n_clicks=9, gamma=0.5, lam=lam, exposure_only=lam > 0.8)


def made_up(
    values: dict[str, dict[str, float]], *, unsure: tuple[str, ...] = (), lam: float | None = 0.2
) -> EvaluationRecord:
    """Return an evaluation; its differences are beyond chance unless an estimator is unsure."""
    about: dict[str, Any] = {"metric": "hit", "k": 10, "n": 9, "level": 0.95}
    names = next(iter(values.values()))
    return EvaluationRecord(
        dataset="log",
        part="test",
        configuration={},
        estimates=tuple(
            CandidateEstimate(
                **about,
                candidate=name,
                estimator=estimator,
                protocol="full",
                value=value,
                low=value - 0.01,
                high=value + 0.01,
                ess=9.0,
                top_share=0.1,
                normalised=True,
            )
            for estimator, found in values.items()
            for name, value in found.items()
        ),
        comparisons=tuple(
            Comparison(
                **about,
                estimator=estimator,
                first=one,
                second=other,
                value=found[one] - found[other],
                low=found[one] - found[other] - 0.01,
                high=found[one] - found[other] + 0.01,
                p=0.5 if estimator in unsure else 0.001,
            )
            for estimator, found in values.items()
            for one, other in combinations(found, 2)
        ),
        dials=DialsRecord(
            dials=BOX,
            box=BOX,
            point=BOX[1],
            coefficients={"popularity": 1.0},
            n_fitted=500,
            n_left_out=0,
            error=0.0,
            leads=tuple(
                LeadMap(
                    metric="hit", k=10, first=one, second=other, value=(0.1, 0.1), low=(0.01, 0.01)
                )
                for one, other in permutations(names, 2)
            ),
            random=None if lam is None else random(lam),
        ),
    )


VALUES = {
    "standard": {"a": 0.4, "b": 0.3},
    "dials": {"a": 0.2, "b": 0.3},
    "robust": {"a": 0.4, "b": 0.3},
    "randomised": {"a": 0.2, "b": 0.3},
}


def test_random_rows_that_decide_are_followed() -> None:
    found = verdict(made_up(VALUES))
    assert (found.estimator, found.recommended, found.headline) == ("randomised", "b", "Ship b.")
    assert "The worst case over exposures would ship a." in found.reservations


def test_random_rows_that_do_not_decide_leave_it_to_the_box_that_they_set() -> None:
    found = verdict(made_up(VALUES, unsure=("randomised",)))
    assert (found.estimator, found.recommended) == ("robust", "a")
    assert "Evaluation on random rows puts b first, but not beyond chance." in found.reservations


def test_logged_propensities_come_between_the_two() -> None:
    values = VALUES | {"logged": {"a": 0.2, "b": 0.3}}
    assert verdict(made_up(values)).estimator == "randomised"
    assert verdict(made_up(values, unsure=("randomised",))).estimator == "logged"


def test_random_rows_alone_are_followed_even_if_undecided() -> None:
    found = verdict(made_up({"randomised": VALUES["randomised"]}, unsure=("randomised",)))
    assert (found.estimator, found.leader, found.recommended) == ("randomised", "b", None)


def test_clicks_that_show_exposure_alone_recommend_nothing() -> None:
    said = "Clicks show exposure, not taste: test online."
    found = verdict(made_up(VALUES, unsure=("randomised",), lam=0.9))
    assert (found.estimator, found.decided, found.recommended) == ("robust", False, None)
    assert (
        found.headline == "Undecided: a is first, but clicks show exposure, not taste: test online."
    )
    assert found.reservations[0] == said
    assert found.left == ("a", "b")
    assert found.online is not None
    assert any("puts a first" in each and "exposure alone" in each for each in found.sentences)
    assert not any(each.startswith("The worst case over exposures ships") for each in found.said)
    for other in (
        verdict(made_up(VALUES, lam=0.9)),  # random rows decide by themselves
        verdict(made_up(VALUES, unsure=("randomised",), lam=0.8)),
        verdict(made_up(VALUES, unsure=("randomised",), lam=None)),
        verdict(made_up(VALUES | {"logged": VALUES["robust"]}, unsure=("randomised",), lam=0.9)),
    ):
        assert other.recommended is not None
        assert said not in other.reservations


def test_what_random_rows_put_behind_another_is_not_recommended() -> None:
    """B is before a beyond chance, though b itself is not told apart from c."""
    values = {
        "robust": {"a": 0.4, "b": 0.3, "c": 0.3},
        "randomised": {"a": 0.2, "b": 0.3, "c": 0.29},
    }

    def ruled(*names: str) -> Verdict:
        """Make the difference of these two the only one that random rows decide."""
        made = made_up(values)
        changed = [
            each.model_copy(update={"p": 0.001 if {each.first, each.second} == set(names) else 0.5})
            if each.estimator == "randomised"
            else each
            for each in made.comparisons
        ]
        return verdict(made.model_copy(update={"comparisons": tuple(changed)}))

    found = ruled("a", "b")
    assert (found.estimator, found.decided, found.recommended) == ("robust", False, None)
    assert found.headline == "Undecided: a is first, but random rows put b before it: test online."
    assert found.reservations[0] == "Random rows put b before it: test online."
    assert ruled("b", "c").recommended == "a"  # that a is behind one of them may be chance
    values["randomised"] |= {"a": 0.31, "b": 0.2, "c": 0.32}
    assert ruled("a", "b").recommended == "a"  # they agree
    values["randomised"] |= {"a": 0.2}
    assert ruled("a", "c").recommended is None


def test_a_lead_never_holds_up_to_less_than_nothing() -> None:
    """Shares below 0 or above 1 are possible in the box, and mean nothing to a reader."""
    for led, said in ((BOX[0], None), (BOX[1], "unless less than 50% of popularity is exposure")):
        lows = tuple(0.01 if pair == led else -0.01 for pair in BOX)
        lead = LeadMap(metric="hit", k=10, first="a", second="b", value=(0, 0), low=lows)
        dials = made_up(VALUES).dials
        assert dials is not None
        found = holds(dials, [lead])
        assert found == (said or "unless more than 40% of popularity is exposure")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("worlds")
    made = Synthetic(n_users=80, n_items=50, n_shown=12, seed=0).world()
    write_world(made, place / "world", rates=(1.0, 0.4, 0.5))
    rng = np.random.default_rng(0)
    user, item = rng.integers(80, size=600), rng.integers(50, size=600)
    clicked = rng.random(600) < made.relevance(np.arange(80))[user, item]
    user[:5] = 999
    frame = pl.DataFrame({"user": user, "item": item, "clicked": clicked.astype(int)})
    frame.write_csv(place / "random.csv")
    return place


@pytest.fixture(autouse=True)
def _without_notes() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CounterplayWarning)
        yield


@pytest.fixture(scope="module")
def study(world: Path) -> Study:
    config = StudyConfig.model_validate(FAST | {"random_rows": world / "random.csv"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CounterplayWarning)
        return cp.run(world / "world", world / "study", config)


def test_a_study_says_what_random_rows_did(study: Study) -> None:
    found = study.record.evaluation
    assert found.dials is not None
    assert found.dials.random is not None
    n = found.dials.random.n
    alone = [each for each in found.estimates if each.estimator == "randomised"]
    assert {each.candidate for each in alone} == {"old system", "pop", "erm"}
    assert {each.n for each in alone} == {found.dials.random.n_clicks}
    assert "left out 5 of 600 random rows: their users or items are not in the data" in found.notes
    seen = f"left out {595 - n} of 595 random rows: their users had clicked these items before"
    assert found.notes.count(seen) == 1
    choice = next(each for each in study.record.verdict.choices if each.estimator == "randomised")
    section = worst_case_section(study.record)
    assert section is not None
    text = str(section)
    assert f"Of {n:,} random rows {found.dials.random.n_clicks:,} were clicked." in text
    assert f"Alone they put {choice.candidate} first" in text
    assert "are most likely to be exposure" in text
    assert "The usual frame, without random rows, reaches" in text


def test_nothing_is_trained_on_them(study: Study, world: Path) -> None:
    plain = cp.run(world / "world", world / "plain", StudyConfig.model_validate(FAST))
    for name in ("pop", "erm"):
        one, other = (
            json.loads((each.folder / "runs" / name / "run.json").read_text())
            for each in (study, plain)
        )
        for entry in ("dataset", "files"):
            assert one[entry] == other[entry]
        weights = [each.folder / "runs" / name / "model.safetensors" for each in (study, plain)]
        assert weights[0].read_bytes() == weights[1].read_bytes()
    assert plain.record.evaluation.dials is not None
    assert plain.record.evaluation.dials.random is None


def test_a_study_goes_on_with_the_same_random_rows(study: Study, world: Path) -> None:
    config = StudyConfig.model_validate(FAST | {"random_rows": world / "random.csv"})
    assert cp.run(world / "world", study.folder, config).record == study.record
    with pytest.raises(ConfigError, match="asked for none"):
        cp.run(world / "world", study.folder, StudyConfig.model_validate(FAST))
    rows = (world / "random.csv").read_text()
    try:
        (world / "random.csv").write_text(rows + "1,1,1\n")
        with pytest.raises(ConfigError, match=r"random\.csv"):
            cp.run(world / "world", study.folder, config)
    finally:
        (world / "random.csv").write_text(rows)


@pytest.mark.parametrize(
    ("rows", "settings", "said"),
    [
        ("user,item\n1,1\n2,2\n", {}, "must say in a column 'clicked'"),
        ("user,item,clicked\n1,1,0\n2,2,0\n", {}, "found 0 clicks in 2 rows"),
        ("user,item,clicked\n1,1,1\n2,2,0\n", {"feedback": "ratings"}, "ratings"),
    ],
)
def test_what_cannot_be_used_is_known_before_training(
    world: Path, tmp_path: Path, rows: str, settings: dict[str, Any], said: str
) -> None:
    (tmp_path / "random.csv").write_text(rows)
    given = FAST | settings | {"random_rows": tmp_path / "random.csv"}
    with pytest.raises((DataError, ConfigError), match=said):
        cp.run(world / "world", tmp_path / "study", StudyConfig.model_validate(given))
    assert not (tmp_path / "study").exists()
