"""Columns of impressions: how they are found, and what their values mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from counterplay.data.looking import understood
from counterplay.data.preparation import Preparation, prepare
from counterplay.data.profiling import profile
from counterplay.errors import DataError

from .test_impressions import frames, made

NAMES = [
    *[("clicked", name) for name in ("clicked", "click", "label", "is_click", "Clicks")],
    *[("position", name) for name in ("position", "rank", "pos", "slot")],
    *[("propensity", name) for name in ("propensity", "p", "pscore")],
    *[("random", name) for name in ("random", "explore", "is_random")],
]


def impression_log() -> pl.DataFrame:
    """Return an impression log under other names than the usual ones."""
    rng = np.random.default_rng(1)
    n = 400
    return pl.DataFrame(
        {
            "user": rng.integers(0, 20, n),
            "item": rng.integers(0, 30, n),
            "time": rng.permutation(n),
            "clicked": rng.random(n) < 0.3,
            "position": rng.integers(1, 6, n),
            "propensity": rng.uniform(0.1, 1, n),
            "random": rng.random(n) < 0.1,
        }
    )


@pytest.mark.parametrize(("role", "name"), NAMES)
def test_columns_are_found_by_their_usual_names(role: str, name: str) -> None:
    log = impression_log()
    found, usual = made(log.rename({role: name})), made(log)
    assert found.interactions == usual.interactions
    assert found.fingerprint == usual.fingerprint
    assert found.random == usual.random
    assert f"{role} from '{name}'" in str(found.interactions.steps)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("label", ["good", "bad"]),
        ("click", ["good", "bad"]),
        ("click", [-1, 1]),
        ("clicks", [0.5, 1]),
        ("label", [[1], [2]]),
        ("label", [1, None]),
        ("p", [0.0, 0.5]),
        ("p", ["a", "b"]),
        ("rank", [1.5, 2]),
        ("pos", [1, 40_000]),
        ("rank", ["gold", "silver"]),
        ("explore", ["mountain", "sea"]),
        ("explore", [1, 0]),  # without clicks
    ],
)
def test_a_column_that_means_something_else_is_left_alone(column: str, values: list[Any]) -> None:
    _, clicks = frames()
    other = pl.Series(column, values * (clicks.height // 2), strict=False)
    found = made(clicks.with_columns(other))
    assert found.interactions == made(clicks).interactions
    assert found.unclicked is None
    assert found.random is None
    said = " ".join(str(step) for step in found.interactions.steps if step.kind == "columns")
    role = {"p": "propensity", "rank": "position", "pos": "position"}.get(column, "clicked")
    if column != "explore":
        assert f"column '{column}' is not taken for {role}" in said
        assert f"--{role} '{column}'" in said
        with pytest.raises(DataError, match="found"):
            made(clicks.with_columns(other), **{role: column})


def test_marks_of_random_rows_go_with_clicks_that_are_none() -> None:
    _, clicks = frames()
    found = made(clicks.with_columns(explore=0, label=pl.lit("good")))
    assert found.interactions == made(clicks).interactions
    said = str(found.interactions.steps)
    assert "column 'explore' is not taken for random" in said


def test_a_column_that_is_named_for_one_role_is_looked_at_for_no_other() -> None:
    _, clicks = frames()
    found = made(clicks.with_columns(label=pl.col("item") % 2), rating="label", feedback="ratings")
    assert found.interactions.rating is not None
    assert found.unclicked is None


@pytest.mark.parametrize("kind", [pl.Int64, pl.UInt8, pl.Float32, pl.String])
def test_counts_above_0_are_clicks(kind: type[pl.DataType]) -> None:
    log = impression_log()
    counts = pl.when("clicked").then(pl.col("item") % 3 + 1).otherwise(0)
    found = made(log.with_columns(clicked=counts.cast(kind)))
    usual = made(log)
    assert found.interactions == usual.interactions
    assert found.fingerprint == usual.fingerprint
    n = log.filter(pl.col("clicked") & (pl.col("item") % 3 > 0)).height
    step = next(step for step in found.interactions.steps if step.kind == "clicks")
    assert step.counts == {"rows": n}


def test_a_log_that_is_all_clicked_is_one_of_clicks() -> None:
    _, clicks = frames()
    found = prepare(clicks.with_columns(clicked=2), Preparation(split="none"))
    assert found == prepare(clicks, Preparation(split="none"))
    with pytest.raises(DataError, match=r"found none in 600 rows; .*--clicked"):
        prepare(clicks.with_columns(clicked=0))
    with pytest.raises(DataError, match=r"beside random rows; found none in 600 rows"):
        prepare(clicks.with_columns(clicked=1, random=1))


def test_positions_count_from_one() -> None:
    log = impression_log()
    usual, found = made(log), made(log.with_columns(pl.col("position") - 1))
    assert found.interactions == usual.interactions
    assert found.unclicked == usual.unclicked
    assert found.random == usual.random
    assert any(step.kind == "position" for step in found.interactions.steps)
    assert not any(step.kind == "position" for step in usual.interactions.steps)
    _, clicks = frames()
    shifted = made(clicks.with_columns(rank=pl.col("item") % 3)).interactions
    assert shifted.position is not None
    assert set(shifted.position.tolist()) == {1, 2, 3}
    with pytest.raises(DataError, match="found both 0 and 32,767"):
        made(clicks.with_columns(rank=pl.when(pl.col("item") > 5).then(32767).otherwise(0)))


def test_organic_clicks_are_kept_and_rows_that_were_not_shown_are_not() -> None:
    log = impression_log().with_columns(shown=pl.col("item") % 4 > 0)
    found = made(log)
    hidden = ~pl.col("shown") & (~pl.col("clicked") | pl.col("random"))
    usual = made(log.filter(~hidden))
    assert found.interactions == usual.interactions
    assert found.fingerprint == usual.fingerprint
    assert found.random == usual.random
    counts = {step.kind: step.counts for step in found.interactions.steps}
    n_organic = log.filter(~hidden & ~pl.col("shown")).height
    assert counts["hidden"] == {"rows": log.filter(hidden).height}
    assert counts["organic"] == {"rows": n_organic}
    assert found.interactions.exposed is not None
    assert (~found.interactions.exposed).sum() == n_organic > 0


def test_every_impression_is_in_one_place() -> None:
    log = impression_log().with_columns(exposed=pl.col("item") % 7 > 0)
    split = made(log)
    assert split.unclicked is not None
    assert split.random is not None
    counts = {step.kind: step.counts.get("rows", 0) for step in split.interactions.steps}
    n = len(split.interactions) + len(split.unclicked) + len(split.random) + counts["hidden"]
    assert n == log.height
    said = understood(split)
    assert f"{len(split.unclicked)} impressions without a click" in said["log"]
    assert f"{counts['organic']} of them organic" in said["log"]
    assert f"{len(split.random)} random rows" in said["log"]
    assert said["log"].startswith(f"{n - counts['hidden']} rows")
    seen = profile(split)
    assert seen.n_impressions == len(split.unclicked) + len(split.interactions) - counts["organic"]
    assert seen.n_organic == counts["organic"]
    assert seen.n_random == len(split.random)
    shown = log.filter(pl.col("exposed") & ~pl.col("random"))
    assert seen.click_rate == pytest.approx(shown["clicked"].mean())
    assert seen.position_range == pytest.approx((1, shown["position"].mean(), 5))
    assert seen.propensity_range is not None
    assert seen.propensity_range[1] == pytest.approx(shown["propensity"].mean())
    assert {"impressions", "positions", "random rows", "exposed"} <= seen.summary().keys()


def test_a_name_that_can_only_mean_clicks_must_hold_them() -> None:
    _, clicks = frames()
    for column, values in (("clicked", [1, None]), ("is_click", ["good", "bad"])):
        other = pl.Series(column, values * (clicks.height // 2), strict=False)
        with pytest.raises(DataError, match="found"):
            made(clicks.with_columns(other))
