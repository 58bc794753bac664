from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

import counterplay as cp
from counterplay.data.preparation import Preparation, prepare


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "uid": rng.integers(0, 20, 400),
            "sku": rng.integers(0, 15, 400),
            "stars": rng.integers(1, 6, 400),
            "at": rng.integers(1_600_000_000, 1_600_009_999, 400),
        }
    )
    frame.write_csv(tmp_path / "log.csv")
    return tmp_path / "log.csv"


def split_of(source: object, **plan: object) -> cp.Split:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cp.CounterplayWarning)
        made = prepare(source, Preparation.model_validate(plan))
    assert isinstance(made, cp.Split)
    return made


COLUMNS = {"user": "uid", "item": "sku", "rating": "stars", "time": "at"}


def test_a_plan_does_everything_in_order(log_file: Path) -> None:
    split = split_of(
        log_file,
        **COLUMNS,
        duplicates="last",
        threshold=3,
        items_above=5,
        users_above=5,
        users_below=100,
        core=2,
        name="shop",
    )
    kinds = [step.kind for step in split.interactions.steps]
    assert kinds == ["duplicates", "threshold", "filter", "filter"]
    assert split.kind == "leave-last-two"
    assert split.interactions.name == "shop"
    assert split.interactions.rating is None


@pytest.mark.parametrize(
    ("time", "split", "kind"),
    [
        ("at", "auto", "leave-last-two"),
        ("-", "auto", "random"),
        ("at", "time", "time"),
        ("at", "random", "random"),
    ],
)
def test_the_split_is_chosen_or_given(time: str, split: str, kind: str, log_file: Path) -> None:
    assert split_of(log_file, **COLUMNS | {"time": time}, split=split).kind == kind


def test_without_a_split_there_are_interactions(log_file: Path) -> None:
    made = prepare(log_file, Preparation.model_validate(COLUMNS | {"split": "none"}))
    assert isinstance(made, cp.Interactions)


def test_the_seed_decides_a_random_split(log_file: Path) -> None:
    first, again, other = (
        split_of(log_file, **COLUMNS, split="random", seed=seed).part for seed in (1, 1, 2)
    )
    assert (first == again).all()
    assert (first != other).any()


def test_unknown_keys_and_formats_are_refused(log_file: Path) -> None:
    with pytest.raises(ValidationError, match="usr"):
        Preparation.model_validate({"usr": "uid"})
    with pytest.raises(cp.ConfigError, match="found 'excel'"):
        prepare(log_file, Preparation(format="excel"))


@pytest.mark.parametrize(
    "options",
    [
        {"validation": 0.2},
        {"seed": 1},
        {"validation_from": "2020-01-01", "test_from": "2020-02-01"},
        {"split": "time", "seed": 1},
        {"split": "random", "test_from": "2020-01-01"},
        {"split": "none", "test": 0.2},
    ],
)
def test_options_that_the_split_would_not_heed_are_refused(
    options: dict[str, object], log_file: Path
) -> None:
    with pytest.raises(cp.ConfigError, match="must belong to the split that is made"):
        split_of(log_file, **COLUMNS, **options)


def write_coat(folder: Path) -> Path:
    folder.mkdir()
    (folder / "train.ascii").write_text("1 0 3\n0 2 0\n")
    (folder / "test.ascii").write_text("0 4 0\n5 0 1\n")
    return folder


def test_a_dataset_brings_its_own_split(tmp_path: Path) -> None:
    folder = write_coat(tmp_path / "coat")
    split = split_of(folder, name="mine")
    assert split.counts == {"train": 3, "validation": 0, "test": 3}
    assert split.interactions.name == "mine"
    assert split_of(folder, split="random").kind == "random"


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ({"threshold": 3}, "must be taken whole"),
        ({"core": 1}, "must be taken whole"),
        ({"duplicates": "first"}, "must be taken whole"),
        ({"seed": 3}, "must belong to the split that is made"),
        ({"user": "uid"}, "has columns of its own; found user=uid"),
    ],
)
def test_what_does_not_go_with_a_known_dataset_is_refused(
    plan: dict[str, object], expected: str, tmp_path: Path
) -> None:
    with pytest.raises(cp.ConfigError, match=expected):
        split_of(write_coat(tmp_path / "coat"), **plan)


def test_duplicate_policies_reach_known_datasets(real_data: Callable[[str], Path]) -> None:
    made = prepare(real_data("lastfm-2k"), Preparation(duplicates="first", split="none"))
    assert len(made.interactions if isinstance(made, cp.Split) else made) == 71_064


def test_a_frame_is_prepared_as_its_file_is(log_file: Path) -> None:
    from_file = split_of(log_file, **COLUMNS, core=2, name="log")
    frame = pl.read_csv(log_file)
    for source in (frame, frame.lazy().collect().to_arrow(), frame.to_dict(as_series=False)):
        found = split_of(source, **COLUMNS, core=2, name="log")
        assert found.interactions.fingerprint == from_file.interactions.fingerprint
        assert found.fingerprint == from_file.fingerprint
        assert found.interactions.name == "log"


def test_rows_of_users_without_training_rows_are_noted() -> None:
    frame = {"user": [1, 1, 1, 1, 1, 2, 2, 3, 3, 4], "item": [*range(5), 0, 1, 2, 3, 4]}
    plan = Preparation(split="time", validation=0.2, test=0.3)
    with pytest.warns(cp.CounterplayWarning, match="3 of 3 test rows \\(100.0%\\)"):
        made = prepare(frame | {"time": [*range(10)]}, plan)
    assert isinstance(made, cp.Split)
    assert made.cold_counts["test"] == {"user": 3, "item": 0}
