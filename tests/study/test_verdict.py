from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterplay.evaluation.deployment import TrueValue
from counterplay.evaluation.estimators import ESTIMATORS, trusted
from counterplay.evaluation.old_system import NAME as OLD_SYSTEM
from counterplay.evaluation.records import (
    CandidateEstimate,
    Comparison,
    DialsRecord,
    EvaluationRecord,
    LeadMap,
)
from counterplay.simulation.sequential import users_needed
from counterplay.study.records import Verdict
from counterplay.study.verdict import verdict

Case = tuple[EvaluationRecord, dict[str, dict[str, float]], str]
NAMES = ("pop", "erm", "ps", "acl", "<b>mine</b>")


def made_up(
    values: dict[str, dict[str, float]],
    *,
    metric: str = "hit",
    k: int = 10,
    width: float | None = 0.0,
    flip: float | None = None,
    unsure: Callable[[Comparison], bool] = lambda _: False,
) -> EvaluationRecord:
    """Return an evaluation with the values by estimator and candidate.

    Its intervals reach `width` to both sides; None leaves them out. The p-values go with them,
    but for those that are said to be unsure.
    """
    same: dict[str, Any] = {"metric": metric, "k": k, "n": 9, "level": 0.95}
    about: dict[str, Any] = {"protocol": "full", "ess": 9.0, "top_share": 0.1, "normalised": True}

    def ends(value: float) -> dict[str, Any]:
        if width is None:
            return {"low": None, "high": None}
        return {"low": value - width, "high": value + width}

    def compared(estimator: str, first: str, second: str) -> Comparison:
        value = values[estimator][first] - values[estimator][second]
        p = 0.05 if width is not None and abs(value) > width else 0.0501
        found = Comparison(
            **same, estimator=estimator, first=first, second=second, value=value, **ends(value),
            p=p, flip=flip,
        )  # fmt: skip
        return found.model_copy(update={"p": 0.15}) if unsure(found) else found

    return EvaluationRecord(
        dataset="log",
        part="test",
        configuration={},
        estimates=tuple(
            CandidateEstimate(
                **same, **about, candidate=name, estimator=estimator, value=value, **ends(value)
            )
            for estimator, by_name in values.items()
            for name, value in by_name.items()
        ),
        comparisons=tuple(
            compared(estimator, *pair)
            for estimator, by_name in values.items()
            for pair in combinations(by_name, 2)
        ),
    )


def true(values: dict[str, float]) -> list[TrueValue]:
    return [TrueValue(arm=name, metric="hit", k=10, value=each) for name, each in values.items()]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    others = draw(
        st.lists(
            st.sampled_from([name for name, each in ESTIMATORS.items() if each.shared]), unique=True
        )
    )
    estimators = dict.fromkeys([draw(st.sampled_from(trusted())), *others])
    levels = st.integers(0, 8).map(lambda each: each / 8)  # few, so that there are ties
    values = {each: {name: draw(levels) for name in names} for each in estimators}
    metric = draw(st.sampled_from(["hit", "ndcg", "mse"]))
    evaluation = made_up(
        values,
        metric=metric,
        k=0 if metric == "mse" else 10,
        width=draw(st.none() | levels),
        flip=draw(st.none() | st.floats(1, 50)),
    )
    return evaluation, values, metric


@given(cases())
def test_the_first_trusted_estimator_decides_and_its_best_leads(
    case: Case,
) -> None:
    evaluation, values, metric = case
    found = verdict(evaluation)
    sure = {each.estimator: each.decided for each in found.choices}
    decisive = next(  # random rows decide where they can, and else leave it to the others
        name
        for name in trusted()
        if name in values
        and (name != "randomised" or sure[name] or set(values) & set(trusted()) == {name})
    )
    assert found.estimator == decisive
    best = (min if metric == "mse" else max)(values[decisive].values())
    assert values[decisive][found.leader] == best
    assert found.decided == (found.recommended is not None)
    assert found.recommended in (None, found.leader)
    assert found.smaller_is_better == (metric == "mse")
    assert [each.estimator for each in found.choices] == list(values)
    assert found.truth is None


@given(cases())
def test_nobody_is_shipped_who_is_not_beyond_chance_before_everybody(
    case: Case,
) -> None:
    evaluation, values, metric = case
    found = verdict(evaluation)
    name, sign = found.leader, -1 if metric == "mse" else 1
    told_apart = [
        each.p <= 1 - each.level
        for each in evaluation.comparisons
        if each.estimator == found.estimator and name in (each.first, each.second)
    ]
    headline = found.headline
    behind = [  # whom random rows put before the leader, though they do not decide between all
        each.p <= 1 - each.level and (sign * each.value > 0) == (each.second == name)
        for each in evaluation.comparisons
        if each.estimator == "randomised" != found.estimator and name in (each.first, each.second)
    ]
    if len(values[found.estimator]) == 1:
        assert headline.startswith("There is one candidate")
        assert not found.decided
    elif "random rows put" in headline:
        assert any(behind)
        assert not found.decided
    elif all(told_apart):
        assert headline.startswith(f"Ship {name}.")
        assert found.decided
    else:
        assert headline.startswith("Undecided: ")
        assert "Ship" not in headline
        assert found.recommended is None


@given(cases())
def test_whoever_prefers_another_is_a_reservation(case: Case) -> None:
    found = verdict(case[0])
    for each in found.choices:
        rivals = [
            other.decided
            for other in case[0].comparisons
            if other.estimator == each.estimator and each.candidate in (other.first, other.second)
        ]
        assert each.decided == (len(rivals) > 0 and all(rivals))
        title = ESTIMATORS[each.estimator].title
        said = [text for text in found.reservations if text.startswith(title)]
        dissents = each.candidate != found.leader and ESTIMATORS[each.estimator].trust > 0
        assert len(said) == dissents
        if said:
            assert each.candidate in said[0]
            assert ("would ship" in said[0]) == each.decided


@given(cases())
def test_a_lead_points_to_the_better_one_and_holds_its_interval(
    case: Case,
) -> None:
    evaluation, values, metric = case
    for choice in verdict(evaluation).choices:
        by_name = values[choice.estimator]
        if len(by_name) == 1:
            assert (choice.runner_up, choice.difference) == (None, None)
            continue
        found = choice.difference
        assert found is not None
        assert choice.runner_up is not None
        assert found.value == by_name[choice.candidate] - by_name[choice.runner_up]
        assert found.value * (-1 if metric == "mse" else 1) >= 0
        if found.low is not None and found.high is not None:
            assert found.low <= found.value <= found.high


@given(cases(), st.data())
def test_the_truth_names_the_best_and_no_choice_gains_on_it(
    case: Case, data: st.DataObject
) -> None:
    evaluation, values, metric = case
    names = list(next(iter(values.values())))
    known = {name: data.draw(st.sampled_from([0.0, 0.1, 0.2, 0.4])) for name in names}
    found = verdict(evaluation, true(known))
    if metric != "hit":  # nothing is known of it
        assert found.truth is None
        return
    assert found.truth is not None
    best = max(known.values())
    assert known[found.truth.candidate] == best
    assert found.truth.values == known
    for choice in found.choices:
        regret = found.truth.regret[choice.estimator]
        assert 0 <= regret <= 1
        assert (regret == 0) == (known[choice.candidate] == best)


def test_the_headline_says_what_to_do_and_reservations_who_disagrees() -> None:
    values = {
        "standard": {"pop": 0.9, "acl": 0.2},
        "popularity": {"pop": 0.2, "acl": 0.3},
        "dials": {"pop": 0.1, "acl": 0.3},
        "oracle": {"pop": 0.1, "acl": 0.2},
    }
    found = verdict(made_up(values, flip=1.87), true({"pop": 0.1, "acl": 0.2}))
    assert found.headline == "Ship acl. In truth acl is the best."
    assert found.reservations == ("Standard offline evaluation would ship pop.",)
    assert found.sentences[-5:] == (
        "acl stays before pop unless the odds of exposure are off by 1.8×.",
        "In truth acl is the best, with hit@10 0.2000.",
        "Standard offline evaluation lost 50.0% of that by its choice, and overestimated pop by a "
        "factor of 9.0.",
        "Weighting by popularity chose it, and overestimated acl by a factor of 1.5.",
        "Weighting by the likeliest dials chose it, and overestimated acl by a factor of 1.5.",
    )
    assert not any("true propensities" in each for each in found.sentences)
    assert (found.left, found.online, found.next_steps) == ((), None, ())


def doubted(estimators: set[str], **given: Any) -> Verdict:
    """Return the verdict where `a` leads everywhere, and these estimators are not sure of it."""
    values = {name: {"a": 0.5, "b": 0.25} for name in ("standard", "popularity", "dials")}
    unsure = made_up(values, unsure=lambda each: each.estimator in estimators, **given)
    return verdict(unsure)


def test_only_doubt_of_the_decisive_estimator_leaves_it_undecided() -> None:
    assert doubted({"standard", "popularity"}).headline == "Ship a."
    found = doubted({"dials"})
    assert found.headline == "Undecided: a is first, but not beyond chance against b."
    assert found.left == ("a", "b")


@pytest.mark.parametrize("flip", [1.0, 1.17, 1.25, 3.0, None])
def test_a_small_error_that_would_turn_it_is_a_reservation(flip: float | None) -> None:
    found = doubted(set(), flip=flip)
    small = flip is not None and flip < 1.25
    assert len(found.reservations) == small
    assert any("odds of exposure" in each for each in found.sentences) == (not small)
    assert doubted({"dials"}, flip=flip).reservations == ()  # chance is doubt enough


def test_standard_chooses_before_popularity_and_says_what_it_does_not_know() -> None:
    values = {"popularity": {"a": 0.2, "b": 0.5}, "standard": {"a": 0.5, "b": 0.25}}
    found = verdict(made_up(values, flip=1.1))
    assert (found.estimator, found.recommended) == ("standard", "a")
    assert len(found.reservations) == 2
    assert found.reservations[0] == "Weighting by popularity would ship b."
    assert "exposure" in found.reservations[1]
    alone = verdict(made_up({"popularity": values["popularity"]}, flip=2.0))
    assert (alone.estimator, alone.recommended, alone.reservations) == ("popularity", "b", ())


def test_the_rival_that_would_turn_it_first_is_named() -> None:
    evaluation = made_up({"popularity": {"a": 0.5, "b": 0.4, "c": 0.3}}, flip=2.0)
    nearer = [
        each.model_copy(update={"flip": 1.2}) if each.second == "c" else each
        for each in evaluation.comparisons
    ]
    found = verdict(evaluation.model_copy(update={"comparisons": tuple(nearer)}))
    assert found.choices[0].runner_up == "b"
    assert (found.choices[0].turned_by, found.choices[0].flip) == ("c", 1.2)
    assert found.reservations == ("a stays before c unless the odds of exposure are off by 1.2×.",)


@pytest.mark.parametrize(
    ("flip", "expected"),
    [
        (None, "No error in the odds of exposure would put b before a."),
        (1.004, "If the odds of exposure are off by as little as 1%, b may be better."),
        (1.059, "a stays before b unless the odds of exposure are off by 1.05×."),
        (1.19, "a stays before b unless the odds of exposure are off by 1.1×."),
        (1234.56, "a stays before b unless the odds of exposure are off by 1,234.5×."),
    ],
)
def test_what_would_turn_it(flip: float | None, expected: str) -> None:
    values = {"popularity": {"a": 0.5, "b": 0.25}}
    assert expected in verdict(made_up(values, flip=flip)).said


def test_standard_knows_no_odds_and_equals_have_no_order_to_turn() -> None:
    for values in ({"standard": {"a": 0.5, "b": 0.25}}, {"popularity": {"a": 0.5, "b": 0.5}}):
        found = verdict(made_up(values, flip=1.0))
        assert len(found.sentences) == 1
    assert found.headline == "Undecided: a and b do equally well."
    assert found.sentences[0].endswith("; b does equally well.")


def test_too_few_users_for_an_interval() -> None:
    found = verdict(made_up({"popularity": {"a": 0.5, "b": 0.25}}, width=None))
    assert found.headline.startswith("Undecided: a is first, but not beyond chance against b")
    assert "with too few users for an interval" in found.sentences[0]


def test_a_third_that_may_be_as_good_is_named_though_the_second_is_beaten() -> None:
    values = {"popularity": {"a": 0.5, "b": 0.4, "c": 0.3}}
    evaluation = made_up(values, width=0.05, unsure=lambda each: each.second == "c")
    assert "against c" in verdict(evaluation).headline


def test_the_old_system_is_kept_and_not_shipped() -> None:
    found = verdict(made_up({"logged": {OLD_SYSTEM: 0.5, "acl": 0.25}}))
    assert found.headline.startswith(f"Keep the {OLD_SYSTEM}.")


@pytest.mark.parametrize("estimator", ["robust", "dials", "standard", "popularity", "propensity"])
def test_clicks_alone_do_not_keep_the_system_that_collected_them(estimator: str) -> None:
    found = verdict(made_up({estimator: {OLD_SYSTEM: 0.5, "acl": 0.25}}))
    assert (found.leader, found.recommended, found.decided) == (OLD_SYSTEM, None, False)
    assert found.headline.startswith("Undecided")
    assert "collected them" in found.headline
    other = verdict(made_up({estimator: {OLD_SYSTEM: 0.25, "acl": 0.5}}))
    assert other.recommended == "acl"  # a lead against it is no favour


def test_a_world_without_demand_has_nothing_to_lose() -> None:
    found = verdict(made_up({"standard": {"a": 0.25, "b": 0.5}}), true({"a": 0.0, "b": 0.0}))
    assert found.truth is not None
    assert found.truth.regret == {"standard": 0.0}
    assert found.sentences[-1] == "Standard offline evaluation chose one that is as good."


DIALS = tuple(product((0.0, 0.5, 1.0), (0.0, 0.2, 0.4)))


def over_the_box(
    base: float, by_gamma: float = 0.0, by_lambda: float = 0.0, *, rivals: int = 1
) -> EvaluationRecord:
    """Return an evaluation whose leader `a` has these lower ends over the dials."""
    names = [f"b{place}" for place in range(rivals)]
    lows = tuple(base + by_gamma * gamma + by_lambda * lam for gamma, lam in DIALS)
    values = {"a": 0.4} | dict.fromkeys(names, 0.3)
    record = made_up(
        {"robust": values, "dials": values | {"a": 0.31}},
        unsure=lambda each: each.estimator == "robust" and min(lows) <= 0,
    )
    leads = [LeadMap(metric="hit", k=10, first="a", second=b, value=lows, low=lows) for b in names]
    dials = DialsRecord(
        dials=DIALS, box=DIALS, point=(0.5, 0.2), coefficients={"popularity": 1.0, "a": 0.5},
        n_fitted=500, n_left_out=0, error=0.0, leads=tuple(leads),
    )  # fmt: skip
    return record.model_copy(update={"dials": dials})


@pytest.mark.parametrize(
    ("lows", "said"),
    [
        ((0.1,), "Ship a."),
        ((0.1, 0, -0.33), "a leads unless more than 20% of the personal signal"),
        ((0.01, 0, -0.33), "a leads unless part of the personal signal in the clicks is exposure"),
        ((0.6, -1), "a leads unless more than 50% of popularity is exposure"),
        ((0.01, -1), "a leads unless part of popularity is exposure"),
        ((-0.4, 1), "a leads unless less than 50% of popularity is exposure"),
        ((0.1, -1, -1), "Undecided: a is first on average, but b0 may be as good."),
        ((0.0,), "Undecided: a is first on average, but b0 may be as good."),
    ],
)
def test_a_lead_is_said_with_the_part_of_the_box_that_it_holds_on(
    lows: tuple[float, ...], said: str
) -> None:
    found = verdict(over_the_box(*lows))
    assert found.estimator == "robust"
    assert found.headline.startswith(said)
    assert (found.recommended == "a") == said.startswith("Ship")


def test_who_is_left_and_the_test_that_would_decide() -> None:
    found = verdict(over_the_box(0.1, 0, -1, rivals=2))
    assert found.left == ("a", "b0", "b1")
    assert found.online is not None
    assert (found.online.candidate, found.online.rival) == ("a", "b0")
    assert found.online.difference == pytest.approx(0.01)
    users = users_needed(0.3, 0.21, 0.01, relative=False)
    assert found.online.users == users
    race, online, random, shown = found.next_steps
    assert race == "Still in the race: a, b0, b1."
    assert f"{users:,} users in each arm" in online
    assert f"about {users:,} clicks on items that were shown at random" in random
    assert "all that was shown" in shown


def test_what_no_test_can_find_is_said() -> None:
    record = over_the_box(0.0)
    same = [
        each.model_copy(update={"value": 0.3}) if each.estimator == "dials" else each
        for each in record.estimates
    ]
    found = verdict(record.model_copy(update={"estimates": tuple(same)}))
    assert found.online is not None
    assert found.online.users is None
    assert "no online test of a usual size" in found.next_steps[-1]


def test_a_click_model_of_few_rows_is_a_reservation() -> None:
    record = over_the_box(0.1)
    assert record.dials is not None
    few = record.dials.model_copy(update={"n_fitted": 30})
    found = verdict(record.model_copy(update={"dials": few}))
    assert any("30 rows only" in each for each in found.reservations)


def test_a_lead_holds_only_where_every_rival_is_beaten() -> None:
    record = over_the_box(0.1, 0, -0.33, rivals=2)
    assert record.dials is not None
    first, second = record.dials.leads
    never = second.model_copy(update={"low": tuple(-0.1 for _ in DIALS)})
    dials = record.dials.model_copy(update={"leads": (first, never)})
    found = verdict(record.model_copy(update={"dials": dials}))
    assert found.headline.startswith("Undecided: ")
    assert verdict(record).headline.startswith("a leads unless more than 20%")
