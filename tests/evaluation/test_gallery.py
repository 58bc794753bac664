from __future__ import annotations

import json
import warnings
from collections.abc import Iterator

import numpy as np
import polars as pl
import pytest

import counterplay as cp
from counterplay.data.features import FeatureTable
from counterplay.evaluation.audience_records import UserGallery
from counterplay.evaluation.gallery import name_column, user_gallery
from counterplay.metrics.recommendations import top_k

from .audience import contestants, make_split, make_stage


@pytest.fixture(autouse=True)
def _without_notes() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cp.CounterplayWarning)
        yield


def test_lists_histories_and_clicks_are_those_of_the_log() -> None:
    split = make_split()
    stage, two = make_stage(split), contestants(split)
    found = user_gallery(stage, two, k=5, n_users=7)
    assert UserGallery.model_validate(json.loads(json.dumps(found.to_dict()))) == found
    assert len(found.users) == 7
    assert found.n_users == len(np.unique(stage.targets.user))
    log = split.interactions
    for each in found.users:
        user = log.users.encode([int(each.user)])
        before = log.items.decode(stage.seen.item[stage.seen.user == user]).to_list()
        after = log.items.decode(stage.targets.item[stage.targets.user == user]).to_list()
        assert [found.items[place] for place in each.history] == before[-20:]
        assert [found.items[place] for place in each.chosen] == after[:20]
        assert (each.n_history, each.n_chosen) == (len(before), len(after))
        for one in two:
            shown = log.items.decode(top_k(one.scores, user, stage.seen, 5)[0][0]).to_list()
            assert [found.items[place] for place in each.lists[one.name]] == shown
            assert not set(shown) & set(before)


def test_names_come_from_the_features_and_are_cut() -> None:
    split = make_split()
    found = user_gallery(make_stage(split), contestants(split), k=5, n_users=3)
    assert found.names is not None
    assert all(name is not None and name.startswith("<i>") for name in found.names)
    assert all(name is not None and len(name) == 120 and name[-1] == "…" for name in found.names)
    plain = make_split(features=False)
    assert user_gallery(make_stage(plain), contestants(plain), k=5, n_users=3).names is None


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [(("colour", "Name"), "Name"), (("movie_title", "name"), "name"), (("name", "TITLE"), "TITLE"),
     (("product_name", "colour"), "product_name"), (("colour",), None)],
)  # fmt: skip
def test_which_feature_is_a_name(columns: tuple[str, ...], wanted: str | None) -> None:
    table = FeatureTable(pl.DataFrame({each: ["x", "y"] for each in columns} | {"title": [1, 2]}))
    assert name_column(table) == wanted
    assert name_column(None) is None


def test_a_candidate_that_cannot_rank_all_has_shorter_lists() -> None:
    split = make_split()
    found = user_gallery(make_stage(split), contestants(split, "one", "partly"), k=5, n_users=40)
    lengths = {len(each.lists["partly"]) for each in found.users}
    assert 0 in lengths
    assert max(lengths) <= 4
    assert {len(each.lists["one"]) for each in found.users} == {5}


def test_ratings_are_kept_beside_what_was_rated() -> None:
    split = make_split(ratings=True)
    stage = make_stage(split, explicit=True)
    found = user_gallery(stage, contestants(split), k=5, n_users=5)
    assert found.feedback == "ratings"
    assert all(each.ratings and len(each.ratings) == len(each.chosen) for each in found.users)


def test_the_same_users_again_and_no_more_than_there_are() -> None:
    split = make_split(times=False)
    stage, two = make_stage(split), contestants(split)
    assert user_gallery(stage, two, k=5, n_users=9) == user_gallery(stage, two, k=5, n_users=9)
    everybody = user_gallery(stage, two, k=5, n_users=500)
    assert len(everybody.users) == everybody.n_users
    assert not everybody.in_order
