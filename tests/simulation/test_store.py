from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp
from counterplay.data.files import digests_of, read_json, sealed
from counterplay.simulation.factors import Factors
from counterplay.simulation.policies import Exponential, Mixture, Policy, Scored
from counterplay.simulation.store import load_world, save_world
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.world import World

from . import makers

N_USERS, N_ITEMS = 30, 20


factors = partial(makers.factors, n_users=N_USERS, n_items=N_ITEMS, dim=3, constant=-0.3)


def scored(scores: Factors | None = None) -> Scored:
    rng = np.random.default_rng(5)
    return Scored(
        rng.uniform(0.1, 0.9, N_ITEMS), rng.uniform(0.5, 1, N_USERS), scores, 1.3, offset=-0.2
    )


POLICIES: dict[str, Policy] = {
    "alike": scored(),
    "scored": scored(factors(1)),
    "exponential": Exponential(factors(2), exponent=1.5, offset=0.1),
    "exponential with extra": Exponential(factors(2), factors(3), 0.7, 0.4, -0.1),
    "nested": Mixture(
        (Mixture((scored(), scored(factors(1))), (0.25, 0.75)), Exponential(factors(4))),
        (0.9, 0.1),
    ),
}


def world(policy: Policy | None = None) -> World:
    return World(
        factors(0, drift=0.25),
        policy or scored(),
        noise=0.4,
        exposure_noise=0.6,
        confounding=0.3,
        examination=0.8,
        list_length=7,
        seed=11,
        name="small",
        users=cp.data.Vocabulary.of([f"u{number:02}" for number in range(N_USERS)]),
        items=cp.data.Vocabulary.of(np.arange(N_ITEMS) * 10),
    )


def bytes_of(world: World) -> str:
    return world.log(sample=3, with_truth=True).fingerprint


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
def test_save_load_and_resample_give_the_same_bytes(policy: Policy, tmp_path: Path) -> None:
    saved = world(policy)
    save_world(saved, tmp_path / "world")
    loaded = load_world(tmp_path / "world")
    assert bytes_of(loaded) == bytes_of(saved)
    assert (loaded.name, loaded.seed, loaded.list_length) == ("small", 11, 7)
    users = np.arange(N_USERS)
    np.testing.assert_array_equal(
        loaded.relevance(users, time=2.5), saved.relevance(users, time=2.5)
    )
    np.testing.assert_array_equal(loaded.propensity(users), saved.propensity(users))


OPTIONS = st.fixed_dictionaries(
    {
        "noise": st.floats(0, 3),
        "exposure_noise": st.floats(0, 3),
        "confounding": st.floats(0, 1),
        "examination": st.floats(0.01, 1),
        "list_length": st.integers(1, 50),
        "seed": st.integers(0, 2**80),
        "name": st.text(st.characters(exclude_categories=["Cs"])),
    }
)


@given(OPTIONS)
def test_any_options_survive(tmp_path: Path, options: dict[str, Any]) -> None:
    save_world(replace(world(), **options), tmp_path / "world", overwrite=True)
    loaded = load_world(tmp_path / "world")
    assert {option: getattr(loaded, option) for option in options} == options


def test_arrays_in_any_layout_survive(tmp_path: Path) -> None:
    policy = scored()
    odd = replace(
        policy,
        caps=np.broadcast_to(np.full(1, 0.5), N_ITEMS),
        activity=np.repeat(policy.activity, 2)[::2],
    )
    taste = replace(factors(0), user=np.asfortranarray(factors(0).user))
    save_world(replace(world(odd), taste=taste), tmp_path / "world")
    loaded = load_world(tmp_path / "world")
    assert isinstance(loaded.policy, Scored)
    assert isinstance(loaded.taste, Factors)
    np.testing.assert_array_equal(loaded.policy.caps, odd.caps)
    np.testing.assert_array_equal(loaded.policy.activity, odd.activity)
    np.testing.assert_array_equal(loaded.taste.user, taste.user)


def test_the_files_are_plain(tmp_path: Path) -> None:
    save_world(Synthetic(n_users=10, n_items=8, n_shown=2).world(), tmp_path / "world")
    names = {entry.name for entry in (tmp_path / "world").iterdir()}
    assert names == {"world.json", "world.safetensors", "users.parquet", "items.parquet"}
    said = json.loads((tmp_path / "world" / "world.json").read_text())
    assert said["format"] == 2
    assert said["counts"] == {"users": 10, "items": 8}
    assert (said["taste"]["kind"], said["policy"]["kind"]) == ("factors", "scored")


def test_torch_is_not_needed(tmp_path: Path) -> None:
    save_world(world(), tmp_path / "world")
    code = (
        "import sys; from counterplay.simulation.store import load_world; "
        "load_world(sys.argv[1]).log(); print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "world")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "False"


def own_scores() -> cp.metrics.Scores:
    place = np.zeros(1, dtype=np.int64)
    return cp.metrics.TableScores(place, place, np.ones(1), N_ITEMS)


class OwnPolicy(Scored):
    """Looks like one that can be saved, but would come back as another."""


@dataclass(frozen=True, eq=False)
class OwnWorld(World):
    extra: int = 0


@pytest.mark.parametrize(
    ("unsavable", "found"),
    [
        (lambda: world(replace(scored(), scores=own_scores())), "TableScores as policy.scores"),
        (
            lambda: world(Mixture((scored(), OwnPolicy(np.ones(20), np.ones(30))), (0.5, 0.5))),
            "OwnPolicy as policy.1",
        ),
        (lambda: OwnWorld(factors(0), scored()), "OwnWorld as world"),
    ],
)
def test_what_would_not_come_back_is_refused(unsavable: object, found: str, tmp_path: Path) -> None:
    assert callable(unsavable)
    with pytest.raises(cp.ConfigError, match=f"found {found}; turn a CF or GMF into factors"):
        save_world(unsavable(), tmp_path / "world")
    assert not list(tmp_path.iterdir())


def test_only_a_world_is_replaced_and_only_on_request(tmp_path: Path) -> None:
    place = tmp_path / "world"
    save_world(world(), place)
    with pytest.raises(cp.ConfigError, match="new or empty folder"):
        save_world(world(), place)
    cp.data.save(world().log(), place / "log")
    other = replace(world(), seed=12)
    save_world(other, place, overwrite=True)
    assert bytes_of(load_world(place)) == bytes_of(other)
    assert not (place / "log").exists()
    (place / "thesis.tex").write_text("years of work")
    with pytest.raises(cp.ConfigError, match="written by this command"):
        save_world(world(), place, overwrite=True)
    assert (place / "thesis.tex").exists()


def test_a_folder_that_is_no_world_is_refused(tmp_path: Path) -> None:
    for place in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(cp.DataError, match=r"readable world.json; found none in"):
            load_world(place)


def test_another_format_is_named(tmp_path: Path) -> None:
    save_world(world(), tmp_path / "world")
    path = tmp_path / "world" / "world.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 1}))
    with pytest.raises(
        cp.DataError, match="must be in format 2; found format 1; simulate it again"
    ):
        load_world(tmp_path / "world")


@pytest.mark.parametrize("key", ["seed", "counts", "options", "taste", "policy"])
@pytest.mark.parametrize("value", [None, [], {"users": 1}, -1])
def test_a_damaged_description_is_refused(key: str, value: object, tmp_path: Path) -> None:
    save_world(world(), tmp_path / "world")
    path = tmp_path / "world" / "world.json"
    said = read_json(path, "a world")
    for damaged in ({**said, key: value}, {each: said[each] for each in said if each != key}):
        path.write_text(json.dumps(damaged))
        with pytest.raises(cp.DataError, match="must be as it was written; found it changed"):
            load_world(tmp_path / "world")
        path.write_bytes(sealed(damaged))  # by somebody who knows how
        with pytest.raises(cp.DataError, match="must be as it was written; found in"):
            load_world(tmp_path / "world")


@pytest.mark.parametrize("name", ["world.safetensors", "users.parquet", "items.parquet"])
def test_a_damaged_or_missing_file_is_refused(name: str, tmp_path: Path) -> None:
    place = tmp_path / "world"
    save_world(world(), place)
    whole = (place / name).read_bytes()
    for content in (whole[: len(whole) // 2], b"", None):
        if content is None:
            (place / name).unlink()
        else:
            (place / name).write_bytes(content)
        with pytest.raises(cp.DataError, match=f"{name}' must be as it was written; found"):
            load_world(place)


def test_a_flipped_bit_of_any_file_is_found(tmp_path: Path) -> None:
    save_world(world(), tmp_path / "world")
    rng = np.random.default_rng(0)
    for path in sorted((tmp_path / "world").iterdir()):
        content = path.read_bytes()
        for place in rng.integers(0, len(content), 40):
            damaged = bytearray(content)
            damaged[place] ^= 1 << rng.integers(8)
            path.write_bytes(damaged)
            with pytest.raises(cp.DataError, match=f"{path.name}' must be"):
                load_world(tmp_path / "world")
        path.write_bytes(content)
    assert bytes_of(load_world(tmp_path / "world")) == bytes_of(world())


def test_ids_of_another_world_are_refused(tmp_path: Path) -> None:
    save_world(world(), tmp_path / "world")
    save_world(Synthetic(n_users=10, n_items=8, n_shown=2).world(), tmp_path / "other")
    shutil.copy(tmp_path / "other" / "users.parquet", tmp_path / "world" / "users.parquet")
    with pytest.raises(cp.DataError, match=r"users.parquet' must be as it was written"):
        load_world(tmp_path / "world")
    path = tmp_path / "world" / "world.json"
    said = read_json(path, "a world")
    said["files"] = digests_of(tmp_path / "world")
    path.write_bytes(sealed(said))
    with pytest.raises(cp.DataError, match="10 user ids"):
        load_world(tmp_path / "world")
