"""`evaluate --log impressions`: from a file of impressions to the click rate of a candidate."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import counterplay as cp
from counterplay.cli.main import main

from .conftest import Run

FAST = ("--log", "impressions", "--set", "n_resamples=200")
N_USERS, N_ITEMS = 40, 12
VALUED = ["ips", "snips", "dm", "dr", "replay"]


def command(*arguments: object) -> None:
    with pytest.raises(SystemExit) as caught:
        main([str(each) for each in arguments])
    assert caught.value.code == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of impressions, prepared in several ways, a run that learnt from them, and scores."""
    folder = tmp_path_factory.mktemp("policies")
    rng = np.random.default_rng(0)
    n = 6000
    user, item = rng.integers(N_USERS, size=n), rng.integers(N_ITEMS, size=n)
    good = (user + item) % 3 == 0
    log = pl.DataFrame(
        {
            "user": user,
            "item": item,
            "time": np.arange(n) + 1_600_000_000,
            "clicked": rng.random(n) < np.where(good, 0.06, 0.01),
            "propensity": np.full(n, 1 / N_ITEMS),
            "random": rng.random(n) < 0.3,
        }
    )
    log.drop("random").write_parquet(folder / "shown.parquet")
    log.drop("propensity").write_parquet(folder / "random.parquet")
    log.drop("propensity", "random").write_parquet(folder / "bare.parquet")
    log.filter("clicked").select("user", "item", "time").write_parquet(folder / "clicks.parquet")
    for name in ("shown", "random", "bare", "clicks"):
        command("prepare", folder / f"{name}.parquet", "--split", "time", "--test", 0.4,
                "--out", folder / name)  # fmt: skip
    command("prepare", folder / "shown.parquet", "--out", folder / "last")
    command("train", folder / "shown", "--method", "shown", "--out", folder / "run",
            "--set", "training.epochs=1", "--set", "validation.metric=log_loss")  # fmt: skip
    pairs = np.arange(N_USERS * N_ITEMS)
    users, items = pairs // N_ITEMS, pairs % N_ITEMS
    score = ((users + items) % 3 == 0) + rng.random(len(pairs)) / 2
    scores = pl.DataFrame({"user": users, "item": items, "score": score})
    scores.write_parquet(folder / "taste.parquet")
    return folder


def test_a_run_and_scores_are_valued(folder: Path, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    outcome = run("evaluate", "--scores", folder / "taste.parquet", "--data", folder / "shown",
                  *FAST, "--k", 2, "--k", 4, "--out", out, "--json")  # fmt: skip
    assert outcome.code == 0, outcome.err
    result = json.loads(outcome.out)
    assert json.loads(out.read_text())["estimates"] == result["estimates"]
    assert result["configuration"]["log"] == "impressions"
    logged, *found = result["estimates"]
    assert (logged["candidate"], logged["estimator"], logged["k"]) == ("as logged", "mean", 0)
    assert [(each["estimator"], each["k"]) for each in found] == [
        (name, k) for k in (2, 4) for name in VALUED
    ]
    assert {each["metric"] for each in found} == {"ctr"}
    by_name = {(each["estimator"], each["k"]): each for each in found}
    for name in ("ips", "snips", "dr", "replay"):  # what scores high is clicked 2.25 times as often
        assert by_name[name, 2]["value"] > 1.4 * logged["value"]
        assert by_name[name, 2]["low"] < by_name[name, 2]["value"] < by_name[name, 2]["high"]
    again = cp.runs.value_policy(
        folder / "taste.parquet", folder / "shown",
        cp.evaluation.Evaluation(k=(2, 4), n_resamples=200),
    )  # fmt: skip
    assert again.to_dict()["estimates"] == tuple(result["estimates"])


def test_a_table_on_the_terminal(folder: Path, run: Run) -> None:
    outcome = run("evaluate", folder / "run", *FAST, "--k", 4)
    assert outcome.code == 0, outcome.err
    assert "test rows, impressions; 95% intervals over users" in outcome.out
    rows = [line.split() for line in outcome.out.splitlines() if line.split()[:1] == ["run"]]
    assert [row[1:3] for row in rows] == [[name, "ctr@4"] for name in VALUED]
    assert all(len(row[3].partition(".")[2]) == 5 for row in rows)


def test_a_run_and_scores_are_compared(folder: Path, run: Run) -> None:
    given = (folder / "run", "--scores", folder / "taste.parquet", *FAST, "--k", 4)
    outcome = run("compare", *given, "--json")
    assert outcome.code == 0, outcome.err
    result = json.loads(outcome.out)
    assert [each["candidate"] for each in result["estimates"][1::5]] == ["run", "taste"]
    found = {each["estimator"]: each for each in result["comparisons"]}
    assert sorted(found) == ["dr", "ips", "replay", "snips"]
    alone = json.loads(run("evaluate", folder / "run", *FAST, "--k", 4, "--json").out)
    assert alone["estimates"] == result["estimates"][:6]
    for name, each in found.items():
        one, other = (
            next(
                one["value"]
                for one in result["estimates"]
                if (one["candidate"], one["estimator"]) == (who, name)
            )
            for who in ("run", "taste")
        )
        assert each["value"] == pytest.approx(one - other)
        assert each["low"] < each["value"] < each["high"]
    shown = run("compare", *given)
    lines = [line for line in shown.out.splitlines() if line.strip().startswith("run − taste")]
    assert len(lines) == 4
    assert run("compare", folder / "run", *FAST).code == 2  # with nothing to compare it with
    outcome = run("compare", *given, "--world", "here")
    assert "found --world with --log impressions" in outcome.err


def test_random_rows_are_replayed_without_propensities(folder: Path, run: Run) -> None:
    given = ("--scores", folder / "taste.parquet", "--data", folder / "random")
    outcome = run("evaluate", *given, *FAST, "--k", 2, "--json")
    assert outcome.code == 0, outcome.err
    assert "valued by random rows alone" in outcome.err
    logged, found = json.loads(outcome.out)["estimates"]
    assert found["estimator"] == "replay"
    assert found["value"] > 1.4 * logged["value"]


@pytest.mark.parametrize(
    ("data", "options", "said"),
    [
        ("clicks", (), "found a log of clicks alone; prepare"),
        ("bare", (), "found impressions without propensities; prepare"),
        ("last", (), "found the split leave-last-two, which depends on clicks"),
        ("shown", ("--estimators", "standard"), "found estimators, which is for clicks"),
        ("shown", ("--gamma", 2), "found gamma, which is for clicks"),
        ("shown", ("--world", "here"), "found --world with --log impressions"),
    ],
)
def test_what_is_missing_is_said_in_one_sentence(
    folder: Path, run: Run, data: str, options: tuple[object, ...], said: str
) -> None:
    given = ("--scores", folder / "taste.parquet", "--data", folder / data)
    outcome = run("evaluate", *given, *FAST, *options)
    assert outcome.code == 2
    assert said in outcome.err
    assert len(outcome.err.splitlines()) == 1
    assert outcome.out == ""


def test_every_user_who_was_shown_something_needs_scores(folder: Path, run: Run) -> None:
    few = pl.read_parquet(folder / "taste.parquet").filter(pl.col("user") > 0)
    few.write_parquet(folder / "few.parquet")
    outcome = run("evaluate", "--scores", folder / "few.parquet", "--data", folder / "shown", *FAST)
    assert outcome.code == 2
    assert "none for 1 of 40 users" in outcome.err


@pytest.mark.parametrize("policy", ["random", "bts"])
def test_open_bandit_goes_through_the_same_commands(
    policy: str, real_data: Callable[[str], Path], run: Run, tmp_path: Path
) -> None:
    source = real_data("obd") / policy / "men"
    for arguments in (
        ("prepare", source, "--split", "time", "--test", 0.5, "--out", tmp_path / "data"),
        ("train", tmp_path / "data", "--method", "shown", "--set", "training.epochs=1",
         "--set", "validation.metric=log_loss", "--out", tmp_path / "shown"),
    ):  # fmt: skip
        outcome = run(*arguments)
        assert outcome.code == 0, outcome.err
    outcome = run("evaluate", tmp_path / "shown", *FAST, "--k", 15, "--json")
    assert outcome.code == 0, outcome.err
    logged, *found = json.loads(outcome.out)["estimates"]
    assert 0.001 < logged["low"] < logged["value"] < logged["high"] < 0.01
    assert [each["estimator"] for each in found] == VALUED
    assert all(each["n"] == logged["n"] for each in found)
    assert "mean of about 1" not in outcome.err  # the logged propensities are right
