"""A job loads its own users, of any kind of candidate, and ranks as one process does."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from safetensors.torch import load_file, save_file

import counterplay as cp
from counterplay.data import user_rows
from counterplay.data.features import FeatureTable
from counterplay.data.jobs import Finished, Job, Work, in_turn
from counterplay.data.workplace import Workplace
from counterplay.evaluation.stage import Evaluation
from counterplay.models.attention import Attention
from counterplay.models.factorization import GMF
from counterplay.models.names import MODELS
from counterplay.runs import rank_jobs, sources
from counterplay.runs.by_jobs import ByJobs, put
from counterplay.runs.candidates import compare, evaluate_run
from counterplay.runs.config import run_config
from counterplay.runs.ranking import ranking_for
from counterplay.runs.refitting import refit
from counterplay.runs.sources import Source, loaded
from counterplay.runs.training import taught_by
from counterplay.serving.recommend import recommend
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.writing import write_world

pytestmark = pytest.mark.filterwarnings("ignore::counterplay.CounterplayWarning")

N_USERS, N_ITEMS, AT_ONCE = 60, 40, 3
FAST = ["candidate.dim=4", "candidate.length=5", "candidate.sweeps=2", "training.epochs=1",
        "training.batch_size=64", "training.rate=0.05"]  # fmt: skip
HOW: dict[str, Any] = {"memory": AT_ONCE * N_ITEMS * 32, "n_resamples": 200, "k": (5,), "seed": 4}


def elsewhere(work: Work, jobs: Any) -> Finished:
    """Run jobs as other processes would."""
    return in_turn(work, jobs)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ratings with features, some of whose users come late."""
    rng, n = np.random.default_rng(3), 1500
    user, item = rng.integers(0, 40, n), np.append(rng.integers(0, N_ITEMS, n - N_ITEMS),
                                                   np.arange(N_ITEMS))  # fmt: skip
    user += 20 * (np.arange(n) >= 1000)
    log = cp.read({"user": user, "item": item, "rating": rng.integers(1, 6, n) * 1.0,
                   "time": np.arange(n)})  # fmt: skip
    tables: dict[str, Any] = {
        f"{role}_features": FeatureTable(
            pl.DataFrame(
                {
                    "number": rng.random(count),
                    "kind": [f"k{each % 3}" for each in range(count)],
                    "tags": [[f"t{tag}" for tag in range(each % 4)] for each in range(count)],
                }
            )
        )
        for role, count in (("user", log.n_users), ("item", N_ITEMS))
    }
    folder = tmp_path_factory.mktemp("sources") / "data"
    cp.data.save(cp.data.split_by_time(replace(log, **tables), fractions=(0.2, 0.2)), folder)
    assert (log.n_users, log.n_items) == (N_USERS, N_ITEMS)
    return folder


@pytest.fixture(scope="module")
def trained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    folder, made = tmp_path_factory.mktemp("runs"), dict[tuple[str, ...], Path]()

    def run(*settings: str, place: Path = data) -> Path:
        key = (str(place), *settings)
        if key not in made:
            made[key] = folder / str(len(made))
            cp.train(place, made[key], run_config(None, [*FAST, *settings]))
        return made[key]

    return run


class Own(GMF):
    """A model of one's own: nobody knows how it knows its users."""


class OwnHistories(Attention):
    """Another one, which reads what users did."""


def text(found: Any) -> str:
    return json.dumps(found.to_dict())


@pytest.mark.parametrize("name", [*(each for each in MODELS if each != "pop"), "own"])
def test_every_kind_of_model_is_ranked_by_jobs_as_by_one_process(
    name: str, trained: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODELS, "own", Own)
    runs = [trained("method=erm", f"candidate.name={each}") for each in (name, "pop")]
    how = Evaluation(**HOW, estimators=("standard", "dials"))
    with ranking_for(None, shards=5, executor=elsewhere) as by_jobs:
        found = compare(runs, None, how, ranking=by_jobs)
    assert text(found) == text(compare(runs, None, how))


@pytest.mark.parametrize(
    "settings",
    [
        ("method=erm", "training.loss=squared", "candidate.name=cf"),
        ("method=erm", "candidate.name=ncf", "candidate.use_features=false"),
        ("method=erm", "training.loss=squared", "candidate.use_features=false"),
        ("method=acl", "candidate.name=mlp"),
        ("method=erm", "candidate.name=knn", "candidate.use_features=false"),
        ("method=erm", "candidate.name=gmf", "refitted"),
        ("method=erm", "candidate.name=gmf", "candidate.use_features=false", "refitted"),
        ("method=erm", "candidate.name=knn", "candidate.use_features=false", "refitted"),
    ],
)
def test_lists_of_every_kind_of_run_are_the_same(
    settings: tuple[str, ...], trained: Callable[..., Path], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("counterplay.metrics.ranks._ROWS", (1, AT_ONCE))
    run = trained(*(each for each in settings if "=" in each))
    if "refitted" in settings:
        refit(run, tmp_path / "all")
        run = tmp_path / "all"
    files = [tmp_path / "one.parquet", tmp_path / "jobs.parquet"]
    told = recommend(run, files[0], k=6)
    strangers = "candidate.use_features=false" in settings and "refitted" not in settings
    assert (told["cold"] > 0) == strangers
    with ranking_for(files[1], shards=5, executor=elsewhere) as by_jobs:
        recommend(run, files[1], k=6, ranking=by_jobs)
    assert files[1].read_bytes() == files[0].read_bytes()


def test_whoever_is_known_by_impressions_is_no_stranger(
    trained: Callable[..., Path], tmp_path: Path
) -> None:
    world = Synthetic(n_users=60, n_items=N_ITEMS, n_shown=4, seed=3).world()
    write_world(world, tmp_path / "world", rates=(0.3, 0.5, 0.5), impressions=True)
    how = Evaluation(**HOW, estimators=("standard",))
    place = tmp_path / "world" / "log"
    run = trained("method=shown", "candidate.name=cf", place=place)
    split = cp.data.load_split(place)
    taught = taught_by("shown", split)
    assert taught is not None
    assert (taught & (np.diff(split.train.offsets) == 0)).any()
    with ranking_for(None, shards=5, executor=elsewhere) as by_jobs:
        found = evaluate_run(run, None, how, ranking=by_jobs)
    assert text(found) == text(evaluate_run(run, None, how))


def test_a_model_of_ones_own_knows_what_was_before_the_part(
    trained: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODELS, "own", OwnHistories)
    run = trained("method=erm", "candidate.name=own", "candidate.use_features=false")
    for part in ("validation", "test"):
        how = Evaluation(**HOW, estimators=("standard",), part=part)
        with ranking_for(None, shards=5, executor=elsewhere) as by_jobs:
            found = evaluate_run(run, None, how, ranking=by_jobs)
        assert text(found) == text(evaluate_run(run, None, how))


def test_every_job_loads_for_as_many_users_as_models_are_asked_for(
    trained: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Features of users are computed for all where no more are there: they must be loaded too."""
    world = Synthetic(n_users=60, n_items=N_ITEMS, n_shown=4, seed=3).world()
    write_world(world, tmp_path / "world", rates=(0.3, 0.5, 0.5), impressions=True)
    place, asked, most = tmp_path / "world" / "log", list[tuple[int, int]](), dict[type[Job], int]()
    runs = [trained("method=erm", f"candidate.name={each}", place=place) for each in ("gmf", "cf")]

    def counted(*told: Any) -> Any:
        asked.append((len(told[2]), told[4]))
        return loaded(*told)

    def executor(work: Work, jobs: Any) -> Finished:
        for job in jobs:
            yield from in_turn(work, [job])
            n_asked, at_once = asked.pop()
            assert at_once == getattr(job, "at_once", n_asked)
            most[type(job)] = max(at_once, most.get(type(job), 0))

    monkeypatch.setattr(rank_jobs, "loaded", counted)
    more = HOW | {"memory": 4 * HOW["memory"], "estimators": ("dials", "doubly-robust")}
    with ranking_for(None, shards=3, executor=executor) as by_jobs:
        compare(runs, None, Evaluation(**more), ranking=by_jobs)
    assert set(most) == {rank_jobs.RankJob, rank_jobs.SumJob, rank_jobs.BelievedJob}
    assert min(most.values()) > 1


def test_a_source_is_named_by_all_that_scores_depend_on(
    data: Path, trained: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained("method=erm", "candidate.name=gmf")
    one = Source.of(data, ("a", "b"), 2, run)
    monkeypatch.chdir(data.parent)
    assert Source.of(data.name, ("a", "b"), 2, run) == one
    monkeypatch.chdir(run.parent)
    assert Source.of(data, ("a", "b"), 2, Path(run.name)) == one
    assert Source.of(data, ("a", "b"), 1, run) != one
    monkeypatch.setattr(sources, "versions", lambda: {"torch": "0"})
    assert Source.of(data, ("a", "b"), 2, run) != one


def test_what_jobs_are_given_does_not_overwrite_each_other(tmp_path: Path) -> None:
    place, values = Workplace(tmp_path), [np.arange(3), np.arange(4)]
    files = [put(place, "pairs", each) for each in values]
    for file, each in zip(files, values, strict=True):
        assert np.array_equal(place.map_array(*file), each)


def test_rows_of_the_same_users_and_other_items_are_others() -> None:
    seen = cp.read({"user": [0, 0, 1], "item": [0, 1, 2]})
    other = replace(seen, item=np.array([0, 2, 1], dtype=np.int32))
    nothing: Any = None
    scores = ByJobs(nothing, "f", nothing, nothing, {}, {2: seen}, None)
    assert scores._part(replace(seen)) == 2
    assert scores._part(other) is None


def captured(run: Path, place: Path) -> list[rank_jobs.RankJob]:
    """Return the jobs of an evaluation."""
    ran = list[Job]()

    def executor(work: Work, jobs: Any) -> Finished:
        ran.extend(jobs)
        return in_turn(work, jobs)

    how = Evaluation(**HOW, estimators=("standard",))
    with ranking_for(place / "found.json", shards=5, executor=executor) as by_jobs:
        evaluate_run(run, None, how, ranking=by_jobs)
        (place / "kept").mkdir()
        for each in by_jobs.place.folder.glob("*.arrow"):
            (place / "kept" / each.name).write_bytes(each.read_bytes())
    return [each for each in ran if isinstance(each, rank_jobs.RankJob)]


def test_a_job_holds_its_own_users(
    data: Path, trained: Callable[..., Path], tmp_path: Path
) -> None:
    jobs = captured(trained("method=erm", "candidate.name=gmf"), tmp_path)
    split, place, n_rows = cp.data.load_split(data), Workplace(tmp_path / "kept"), 0
    assert len(jobs) == 5
    for job in jobs:
        asked = place.map_array(*job.rows)[:, 0]
        users = np.unique(asked)
        found = loaded(place, [job.source], asked, job.before, job.at_once)
        (scores,) = found.scores
        assert isinstance(scores, cp.metrics.ModelScores)
        assert np.array_equal(users[found.users], asked)
        assert found.seen.n_users == len(users) < N_USERS / 3
        own = np.isin(split.interactions.user, users)
        assert len(found.seen) == (own & (split.part < 2)).sum()
        state = scores.model.state_dict()
        assert [len(state[f"{role}.own"]) for role in ("user", "item")] == [len(users), N_ITEMS]
        n_rows += len(found.seen)
    assert n_rows < len(split.interactions)


def test_vectors_of_others_are_not_read(
    trained: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With NaN for all other users, ranks are the same; a changed file is refused all the same."""
    jobs = captured(trained("method=erm", "candidate.name=gmf"), tmp_path)
    place, job = Workplace(tmp_path / "kept"), jobs[2]
    assert job.source.run is not None
    expected = job.run(place)
    model = Path(job.source.run[0]) / "model.safetensors"
    before, tensors = model.read_bytes(), load_file(model)
    others = np.ones(N_USERS, dtype=bool)
    others[place.map_array(*job.rows)[:, 0]] = False
    tensors["candidate.user.own"][others] = np.nan
    try:
        save_file(tensors, model)
        sources._model.cache_clear()
        with pytest.raises(cp.DataError, match="must be as it was written"):
            job.run(place)
        monkeypatch.setattr(sources, "check_once", lambda *_, **__: None)
        assert job.run(place) == expected
        with pytest.raises(cp.DataError, match="scores must be numbers"):
            jobs[1].run(place)
    finally:
        model.write_bytes(before)
        sources._model.cache_clear()


def test_given_scores_of_others_stay_where_they_are(data: Path, tmp_path: Path) -> None:
    split, place = cp.data.load_split(data), Workplace(tmp_path)
    prints = split.interactions.fingerprint, split.fingerprint
    rng, files = np.random.default_rng(0), {}
    pairs = np.sort(rng.choice(N_USERS * N_ITEMS, 900, replace=False))
    for name, values in (("pairs", pairs), ("scores", rng.random(900))):
        files[name] = name, place.put_array(name, values)
    source = Source.of(data, prints, 2).model_copy(update=files)
    asked = np.array([9, 4, 4, 30])
    found = loaded(place, [source], asked, 2, 1)
    (scores,) = found.scores
    assert isinstance(scores, cp.metrics.TableScores)
    assert len(scores.pairs) == np.isin(pairs // N_ITEMS, asked).sum() > 0
    whole = cp.metrics.TableScores(
        pairs // N_ITEMS, pairs % N_ITEMS, np.load(place.path("scores")), N_ITEMS
    )
    assert np.array_equal(scores.of_all(found.users), whole.of_all(asked))


def test_rows_are_read_once_for_candidates_that_are_added_up(
    data: Path, trained: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    split, place = cp.data.load_split(data), Workplace(tmp_path)
    prints = split.interactions.fingerprint, split.fingerprint
    file = "everybody", place.put_array("everybody", np.zeros(N_ITEMS + 1, np.float32))
    candidates = [
        Source.of(data, prints, 2, trained("method=erm", f"candidate.name={each}")).model_copy(
            update={"everybody": file}
        )
        for each in ("gmf", "cf")
    ]
    read, own = list[list[int]](), user_rows.Checked.rows

    def rows(self: user_rows.Checked, users: Any, **how: Any) -> Any:
        read.append(users.tolist())
        return own(self, users, **how)

    monkeypatch.setattr(user_rows.Checked, "rows", rows)
    sources._rows.cache_clear()
    found = loaded(place, candidates, np.array([7, 3]), 2, 1)
    assert len(found.scores) == 2
    assert read == [[3, 7]]
    assert loaded(place, candidates, np.array([7]), 2, N_USERS).seen.n_users == N_USERS
