"""`--random-rows` in evaluate, compare and run."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import counterplay as cp
from counterplay.data.directory import save
from counterplay.data.readers import read
from counterplay.data.splits import split_at_random
from counterplay.errors import CounterplayWarning
from counterplay.runs.config import run_config

from .conftest import Run

FAST = ("--set", "n_resamples=200", "--set", 'metrics=["hit"]')


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset, a run on it, scores for all of its pairs, and random rows."""
    folder = tmp_path_factory.mktemp("random")
    rng = np.random.default_rng(0)
    user, item = rng.integers(0, 30, 500), rng.integers(0, 40, 500)
    log = read({"user": user, "item": item}, duplicates="first", name="shop")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CounterplayWarning)
        save(split_at_random(log, rng, fractions=(0.1, 0.2)), folder / "data")
        cp.train(
            folder / "data",
            folder / "erm",
            run_config(None, ["candidate.dim=4", "training.epochs=1"]),
        )
    pairs = np.arange(30 * 40)
    frame = pl.DataFrame({"user": pairs // 40, "item": pairs % 40, "score": rng.random(1200)})
    frame.write_parquet(folder / "ours.parquet")
    rows = frame.sample(300, seed=0).select("user", "item", clicked=pl.col("score") > 0.7)
    rows.write_csv(folder / "random.csv")
    rows.drop("clicked").write_csv(folder / "silent.csv")
    return folder


def test_random_rows_are_evaluated_beside_the_test_rows(run: Run, folder: Path) -> None:
    for command in (
        ("evaluate", "--scores", folder / "ours.parquet", "--data", folder / "data"),
        ("evaluate", folder / "erm"),
        ("compare", folder / "erm", "--scores", folder / "ours.parquet"),
    ):
        found = run(*command, "--random-rows", folder / "random.csv", *FAST, "--json")
        assert found.code == 0, found.err
        assert "random rows: their users had clicked these items before" in found.err
        result = json.loads(found.out)
        alone = [each for each in result["estimates"] if each["estimator"] == "randomised"]
        assert all(20 < each["n"] < 90 for each in alone)
        if command[0] == "compare":
            assert result["dials"]["random"]["n_clicks"] == alone[0]["n"]
            assert [each["candidate"] for each in alone] == ["erm", "ours"]
            assert alone[1]["value"] > alone[0]["value"]  # whatever scores high is clicked


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--random-rows", "silent.csv"), "must say in a column 'clicked'"),
        (("--random-rows", "nothing.csv"), "nothing.csv"),
        (("--estimator", "randomised"), "the randomised estimator needs random rows"),
    ],
)
def test_what_is_missing_is_said_in_one_sentence(
    run: Run, folder: Path, arguments: tuple[str, str], said: str
) -> None:
    option, value = arguments
    given = folder / value if option == "--random-rows" else value
    found = run("evaluate", folder / "erm", option, given, *FAST)
    assert found.code == 2
    assert said in found.err
    assert len(found.err.splitlines()) == 1
