from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterplay import Interactions

Make = Callable[..., Path]
Read = Callable[[str, Path], Interactions]
Layout = Callable[[str, str], bytes]
Refused = Callable[..., AbstractContextManager[None]]
FeaturesOf = Callable[[Interactions, str], dict[Any, dict[str, Any]] | None]

ITEM_FEATURES = ["item_feature_0", "item_feature_1", "item_feature_2", "item_feature_3"]


def test_impressions_have_exact_values(
    make: Make, read_log: Read, columns: Callable[[Interactions], dict[str, list[Any]]]
) -> None:
    log = read_log("open-bandit", make("open-bandit"))
    assert columns(log) == {
        "user": ["x.b.c.d", "y.b.c.d", "y.b.c.d"],
        "item": [0, 0, 2],
        "rating": [1.0, 0.0, 0.0],
        "time": [1580547600_500000, 1580549400_000000, 1580551200_000001],
        "exposed": [True, True, True],
        "propensity": [0.125, 1.0, 0.25],
        "position": [1, 2, 3],
    }
    assert log.position is not None
    assert log.position.dtype == np.int16


def test_users_are_the_combinations_of_their_features(
    make: Make, read_log: Read, features: FeaturesOf
) -> None:
    rest = {"user_feature_1": "b", "user_feature_2": "c", "user_feature_3": "d"}
    assert features(read_log("open-bandit", make("open-bandit")), "user") == {
        "x.b.c.d": {"user_feature_0": "x", **rest},
        "y.b.c.d": {"user_feature_0": "y", **rest},
    }


def test_an_item_that_was_never_shown_is_still_an_item(
    make: Make, read_log: Read, features: FeaturesOf
) -> None:
    log = read_log("open-bandit", make("open-bandit"))
    assert log.items.ids.to_list() == [0, 1, 2]
    assert 1 not in log.item
    assert features(log, "item") == {
        0: dict(zip(ITEM_FEATURES, (-0.5, "red", "long", "p"), strict=True)),
        1: dict(zip(ITEM_FEATURES, (0.25, "blue", "long", "q"), strict=True)),
        2: dict(zip(ITEM_FEATURES, (1.75, "red", "short", "q"), strict=True)),
    }


def test_the_name_says_policy_and_campaign(make: Make, read_log: Read) -> None:
    log = read_log("open-bandit", make("open-bandit"))
    assert log.name == "open-bandit-random-all"
    assert log.source == "Open Bandit: random/all"


@pytest.mark.parametrize(("start", "path"), [(".", "."), ("..", "all")])
def test_the_name_is_the_same_from_a_relative_path(
    make: Make, read_log: Read, monkeypatch: pytest.MonkeyPatch, start: str, path: str
) -> None:
    monkeypatch.chdir(make("open-bandit") / start)
    assert read_log("open-bandit", Path(path)).name == "open-bandit-random-all"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b",2,3,0,0.25,", b",two,3,0,0.25,", ["all.csv", "two"]),
        (b",2,3,0,0.25,", b",,3,0,0.25,", ["an id", "row 1"]),
        (b",2,3,0,0.25,", b",2,first,0,0.25,", ["positions must be", "row 1", "'first'"]),
        (b",2,3,0,0.25,", b",2,1.5,0,0.25,", ["positions must be", "row 1", "'1.5'"]),
        (b",2,3,0,0.25,", b",2,-1,0,0.25,", ["positions must be", "row 1", "'-1'"]),
        (b",2,3,0,0.25,", b",2,3,yes,0.25,", ["ratings must be", "row 1", "'yes'"]),
        (b",2,3,0,0.25,", b",2,3,0,0.0,", ["propensities must be", "row 1", "'0.0'"]),
        (b",2,3,0,0.25,", b",2,3,0,1.01,", ["propensities must be", "row 1", "'1.01'"]),
        (b",2,3,0,0.25,", b",2,3,0,nan,", ["propensities must be", "row 1", "'nan'"]),
        (b"2020-02-01 10:00:00.000001+00:00", b"noon", ["times must be", "row 1", "'noon'"]),
        (b"propensity_score", b"pscore", ["all.csv", "propensity_score"]),
        (b"user_feature_3", b"user_feature_x", ["all.csv", "user_feature_3"]),
    ],
)
def test_a_broken_log_is_refused(
    make: Make,
    read_log: Read,
    refused: Refused,
    layout: Layout,
    old: bytes,
    new: bytes,
    words: list[str],
) -> None:
    broken = layout("open-bandit", "all.csv").replace(old, new)
    assert broken != layout("open-bandit", "all.csv")
    folder = make("open-bandit", {"all.csv": broken})
    with refused(*words):
        read_log("open-bandit", folder)


@pytest.mark.parametrize(
    "content",
    [None, b"", b"item_id\n0\n", b",item_id,item_feature_0,item_feature_1\n0,0,0,0\n"],
)
def test_a_broken_item_context_is_refused_by_its_name(
    make: Make, read_log: Read, refused: Refused, content: bytes | None
) -> None:
    folder = make("open-bandit", {"item_context.csv": content})
    with refused("item_context.csv'"):
        read_log("open-bandit", folder)


@pytest.mark.parametrize(("old", "new"), [(b"0,0,-0.5", b"0,zero,-0.5"), (b"-0.5", b"low")])
def test_a_garbage_value_in_the_item_context_is_refused_by_its_name(
    make: Make, read_log: Read, refused: Refused, layout: Layout, old: bytes, new: bytes
) -> None:
    broken = layout("open-bandit", "item_context.csv").replace(old, new)
    assert broken != layout("open-bandit", "item_context.csv")
    folder = make("open-bandit", {"item_context.csv": broken})
    with refused("item_context.csv'"):
        read_log("open-bandit", folder)


@pytest.mark.parametrize(
    ("changes", "found"), [({"all.csv": None}, "found 0"), ({"men.csv": b"a\n"}, "found 2")]
)
def test_a_folder_must_hold_one_log(
    make: Make,
    read_log: Read,
    refused: Refused,
    changes: dict[str, bytes | None],
    found: str,
) -> None:
    folder = make("open-bandit", changes)
    with refused("one file", found, "random/all"):
        read_log("open-bandit", folder)


@pytest.mark.parametrize("policy", ["random", "bts"])
@pytest.mark.parametrize(("campaign", "n_items"), [("all", 80), ("men", 34), ("women", 46)])
def test_the_real_ones_have_their_published_counts(
    real_data: Callable[[str], Path], read_log: Read, policy: str, campaign: str, n_items: int
) -> None:
    log = read_log("open-bandit", real_data("obd") / policy / campaign)
    assert (len(log), log.n_items) == (10_000, n_items)
    assert log.name == f"open-bandit-{policy}-{campaign}"
    assert log.exposed is not None
    assert log.propensity is not None
    assert log.position is not None
    assert log.exposed.all()
    assert set(log.position.tolist()) == {1, 2, 3}
    if policy == "random":
        assert log.propensity == pytest.approx(1 / n_items, abs=1e-6)
    else:
        assert len(np.unique(log.propensity)) > n_items
