"""What workers load is the dataset, each row with one of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import counterplay as cp
from counterplay.data.directory import load_split, save
from counterplay.data.preparation import Preparation
from counterplay.data.shares import load_share
from counterplay.data.splits import Split
from counterplay.errors import ConfigError, DataError
from counterplay.groups import ALONE, Group
from tests.groups import by_workers

pytestmark = pytest.mark.filterwarnings("ignore::counterplay.CounterplayWarning")


def saved(folder: Path, users: list[int], *, impressions: bool = False) -> Split:
    rng = np.random.default_rng(0)
    n = len(users)
    rows = {
        "user": [f"u{each:03d}" for each in users],
        "item": rng.integers(0, 9, n),
        "time": rng.permutation(n),
    }
    if impressions:
        rows["clicked"] = rng.random(n) < 0.6
    split = cp.prepare(rows, Preparation(split="random"))
    assert isinstance(split, Split)
    save(split, folder)
    return split


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("kind", ["even", "one user with most rows"])
@pytest.mark.parametrize("impressions", [False, True])
def test_shares_put_together_are_the_dataset(
    size: int, kind: str, impressions: bool, tmp_path: Path
) -> None:
    rng = np.random.default_rng(1)
    users = list(rng.integers(0, 40, 300)) if kind == "even" else [0, *[5] * 250, *range(40)]
    whole = saved(tmp_path / "data", users, impressions=impressions)
    parts = by_workers(size, lambda group: load_share(tmp_path / "data", group, 8))
    log = whole.interactions
    shares = [part.interactions.share for part in parts]
    assert all(share is not None and share.n_users == log.n_users for share in shares)
    for name, column in log.columns():
        found = [
            getattr(part.interactions, name) + (share.first_user if name == "user" else 0)
            for part, share in zip(parts, shares, strict=True)
            if share is not None
        ]
        assert np.array_equal(np.concatenate(found), column), name
    assert np.array_equal(np.concatenate([part.part for part in parts]), whole.part)
    ids = [each for part in parts for each in part.interactions.users.ids]
    assert ids == log.users.ids.to_list()
    assert all(part.interactions.items.ids.equals(log.items.ids) for part in parts)
    if impressions:
        assert whole.unclicked is not None
        others = [part.unclicked for part in parts]
        assert sum(len(each) for each in others if each is not None) == len(whole.unclicked)


@pytest.mark.parametrize(("size", "above", "owns"), [(2, 8, True), (2, 9, False), (1, 8, False)])
def test_several_workers_own_many_items(
    size: int, above: int, tmp_path: Path, *, owns: bool
) -> None:
    """There are nine."""
    saved(tmp_path / "data", list(range(40)) * 3)
    parts = by_workers(
        size, lambda group: load_share(tmp_path / "data", group, 8, owned_above=above)
    )
    shares = [part.interactions.share for part in parts]
    assert [share is not None and share.owns_items for share in shares] == [owns] * size


def test_users_features_stay_with_their_worker(tmp_path: Path) -> None:
    """Their values and their scale are those of all."""
    users = [f"u{each:02d}" for each in range(40)]
    told = pl.DataFrame(
        {
            "user": users,
            "colour": [f"colour {each % 7}" if each % 5 else None for each in range(40)],
            "sizes": [[each // 10, each % 3] if each % 4 else None for each in range(40)],
            "age": [float(each) if each % 6 else None for each in range(40)],
        }
    )
    log = cp.read(
        {"user": users * 3, "item": [each % 9 for each in range(120)]}, user_features=told
    )
    save(Split(log, np.zeros(len(log), dtype=np.int8), "nothing held out"), tmp_path / "data")
    parts = by_workers(4, lambda group: load_share(tmp_path / "data", group, 8))
    found = [part.interactions.user_features for part in parts]
    whole = log.user_features
    assert whole is not None
    for part, table in zip(parts, found, strict=True):
        assert table is not None
        share = part.interactions.share
        assert share is not None
        mine = slice(share.first_user, share.first_user + share.bounds[-1])
        assert len(table) == part.interactions.n_users < log.n_users
        assert np.array_equal(table.codes("colour")[0], whole.codes("colour")[0][mine])
        begins, codes, _ = whole.bags("sizes")
        ours, our_codes, _ = table.bags("sizes")
        assert np.array_equal(ours, begins[mine.start : mine.stop + 1] - begins[mine.start])
        assert np.array_equal(our_codes, codes[begins[mine.start] : begins[mine.stop]])
        assert all(map(np.allclose, table.scale(), whole.scale()))


def test_shards_have_about_as_many_rows_each(tmp_path: Path) -> None:
    """However many workers there are, shards begin with the same users."""
    rng = np.random.default_rng(1)
    saved(tmp_path / "data", list(rng.integers(0, 200, 3000)))
    share = load_share(tmp_path / "data", ALONE, 8).interactions.share
    assert share is not None
    rows = np.diff(np.searchsorted(load_split(tmp_path / "data").interactions.user, share.bounds))
    assert rows.min() > 3000 / 8 - 50
    assert rows.max() < 3000 / 8 + 50

    def bounds(group: Group) -> list[int]:
        found = load_share(tmp_path / "data", group, 8).interactions.share
        assert found is not None
        return [found.first_user + each for each in found.bounds]

    first, second = by_workers(2, bounds)
    assert [*first, *second[1:]] == list(share.bounds)


def test_workers_divide_shards(tmp_path: Path) -> None:
    saved(tmp_path / "data", [1, 2, 3] * 20)
    with pytest.raises(ConfigError, match=r"2 workers and 9 shards.*--shards"):
        by_workers(2, lambda group: load_share(tmp_path / "data", group, 9))


def test_a_damaged_dataset_is_refused(tmp_path: Path) -> None:
    saved(tmp_path / "data", [1, 2, 3] * 20)
    path = tmp_path / "data" / "interactions.parquet"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(DataError, match="interactions"):
        load_share(tmp_path / "data", ALONE, 8)
