"""Ranking by jobs: the same results, to the byte, whoever does them and however often it stops."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp
from counterplay.data.jobs import Executor, Finished, Job, Work, in_turn, processes
from counterplay.data.workplace import Workplace, work_of
from counterplay.evaluation.stage import Evaluation
from counterplay.metrics.ranks import _BYTES_A_SCORE
from counterplay.runs import rank_jobs
from counterplay.runs.candidates import compare, evaluate_run, evaluate_scores
from counterplay.runs.config import run_config
from counterplay.runs.policies import compare_policies
from counterplay.runs.ranking import Ranking, ranking_for
from counterplay.runs.sources import Source
from counterplay.serving.recommend import recommend

pytestmark = pytest.mark.filterwarnings("ignore::counterplay.CounterplayWarning")

FAST = ["method=erm", "candidate.dim=4", "candidate.length=5", "training.epochs=2",
        "training.batch_size=64", "training.rate=0.05"]  # fmt: skip
N_ITEMS, AT_ONCE = 40, 3
MEMORY = AT_ONCE * N_ITEMS * _BYTES_A_SCORE  # three users at a time: many parts of few users
HOW: dict[str, Any] = {"memory": MEMORY, "n_resamples": 200, "k": (3, 5), "seed": 4}
NAMES = ("gmf", "attn", "pop")


def make_log() -> cp.Interactions:
    """Return a log with users who come late, and are cold in its test rows."""
    rng, n = np.random.default_rng(3), 1200
    time = np.arange(n)
    user = rng.integers(0, 30, n) + 30 * (time >= 800)
    user[1000::5] -= 30
    item = np.append((rng.beta(1, 3, n - N_ITEMS) * N_ITEMS).astype(int), np.arange(N_ITEMS))
    return cp.read({"user": user, "item": np.roll(item, N_ITEMS), "time": time})


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranking") / "data"
    cp.data.save(cp.data.split_by_time(make_log(), fractions=(0.2, 0.2)), folder)
    assert cp.data.load(folder).n_items == N_ITEMS
    return folder


@pytest.fixture(scope="module")
def runs(data: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    for name in NAMES:
        cp.train(data, folder / name, run_config(None, [*FAST, f"candidate.name={name}"]))
    return [folder / name for name in NAMES]


@pytest.fixture(scope="module")
def given_scores(data: Path) -> pl.DataFrame:
    log = cp.data.load(data)
    pairs = np.arange(log.n_users * N_ITEMS)
    score = np.round(np.random.default_rng(0).random(len(pairs)), 1)  # many tie
    users, items = (voc.ids.to_numpy() for voc in (log.users, log.items))
    frame = {"user": users[pairs // N_ITEMS], "item": items[pairs % N_ITEMS], "score": score}
    return pl.DataFrame(frame)


class Workers:
    """Runs jobs as other processes would: they load what they need. Stops after `most` of them."""

    def __init__(self, most: int | None = None) -> None:
        self.most, self.done = most, 0
        self.ran = list[Job]()

    def __call__(self, work: Work, jobs: Sequence[Job]) -> Finished:
        for each in in_turn(work, jobs):
            if self.done == self.most:
                raise KeyboardInterrupt
            self.done += 1
            self.ran.append(each[0])
            yield each


def text(found: Any) -> str:
    return json.dumps(found.to_dict())


SOME = {"estimators": ("standard", "dials")}


@pytest.mark.parametrize(
    ("shards", "more"),
    [
        (4, {}),
        (1000, {}),
        (1, SOME),
        (3, {"protocol": "sampled", "n_negatives": 9, **SOME}),
        (1000, {"part": "validation", **SOME}),
        (5, {"users": 20, **SOME}),
    ],
)
def test_a_comparison_by_jobs_is_the_comparison(
    more: dict[str, Any], shards: int, runs: list[Path], given_scores: pl.DataFrame, tmp_path: Path
) -> None:
    """Of models with and without histories, given scores and popularity; test users are cold."""
    how, given = Evaluation(**HOW, **more), {"given": given_scores}
    expected = compare(runs, None, how, scores=given)
    workers, out = Workers(), tmp_path / "found.json"
    with ranking_for(out, shards=shards, executor=workers) as by_jobs:
        found = compare(runs, None, how, scores=given, ranking=by_jobs)
    assert text(found) == text(expected)
    assert workers.done >= 4 * min(shards, 5)
    assert not list(tmp_path.iterdir())
    assert expected.cold is not None
    assert (expected.sample is None) == ("users" not in more)


@pytest.mark.parametrize("shards", [1, 40])
def test_what_dials_add_up_over_users_is_added_up_by_jobs(shards: int, runs: list[Path]) -> None:
    """Their number does not depend on what is asked for: so neither do the sums."""
    how, ran = Evaluation(**HOW, estimators=("robust",)), list[Job]()

    def executor(work: Work, jobs: Sequence[Job]) -> Finished:
        ran.extend(jobs)
        return in_turn(work, jobs)

    with ranking_for(None, shards=shards, executor=executor) as by_jobs:
        found = compare(runs[:2], None, how, ranking=by_jobs)
    assert text(found) == text(compare(runs[:2], None, how))
    sums = [each for each in ran if isinstance(each, rank_jobs.SumJob)]
    assert len(sums) == 16
    assert all(len(each.sources) == 2 for each in sums)


@pytest.mark.parametrize("executor", [in_turn, Workers()], ids=["here", "elsewhere"])
def test_policies_and_impressions_by_jobs_are_the_same(executor: Executor, tmp_path: Path) -> None:
    data, rng, n = tmp_path / "data", np.random.default_rng(0), 4000
    user, item = rng.integers(60, size=n), rng.integers(N_ITEMS, size=n)
    clicked = rng.random(n) < 0.1 + 0.3 * (item % 3 == user % 3)
    rows = {"user": user, "item": item, "clicked": clicked, "time": np.arange(n)}
    frame = pl.DataFrame(rows | {"propensity": np.full(n, 1 / N_ITEMS)})
    made = cp.prepare(frame, cp.data.Preparation(split="time", clicked="clicked", test=0.4))
    cp.data.save(made, data)
    runs = [tmp_path / name for name in ("gmf", "cf")]
    for run in runs:
        cp.train(data, run, run_config(None, [*FAST, f"candidate.name={run.name}"]))
    names = ("standard", "dials", "robust", "impressions", "doubly-robust")
    how = Evaluation(**HOW, estimators=names, users=40)
    plain = compare(runs, None, how)
    with ranking_for(None, shards=4, executor=executor) as by_jobs:
        assert text(compare(runs, None, how, ranking=by_jobs)) == text(plain)
    assert plain.sample is not None
    assert (plain.sample.n, plain.sample.of) == (40, 60)
    if isinstance(executor, Workers):  # relevance, of one user at a time with so little memory
        believed = [each for each in executor.ran if isinstance(each, rank_jobs.BelievedJob)]
        assert {(len(each.sources), each.before) for each in believed} == {(2, 2)}
        assert len(believed) > 20
    valued = Evaluation(**HOW, users=30)
    plain = compare_policies(runs, None, valued)
    with ranking_for(None, shards=4, executor=executor) as by_jobs:
        assert text(compare_policies(runs, None, valued, ranking=by_jobs)) == text(plain)
    assert plain.sample is not None
    assert plain.sample.n == 30


@pytest.mark.parametrize(
    "more",
    [
        {"include_seen": False},
        {"include_seen": True},
        {"only_items": range(30), "without_items": [3, 4, 5]},
    ],
)
@pytest.mark.parametrize("shards", [1, 4, 1000])
def test_lists_by_jobs_are_the_same_file(
    shards: int, more: dict[str, Any], runs: list[Path], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("counterplay.metrics.ranks._ROWS", (1, AT_ONCE))
    (tmp_path / "users.txt").write_text("\n".join(map(str, range(50, 10, -1))))
    for run in runs:
        files: list[Path] = []
        for executor in (None, in_turn, Workers()):
            files.append(tmp_path / f"{len(files)}.parquet")
            how: dict[str, Any] = {"users": tmp_path / "users.txt", **more}
            if executor is None:
                recommend(run, files[-1], k=7, **how)
            else:
                with ranking_for(files[-1], shards=shards, executor=executor) as by_jobs:
                    recommend(run, files[-1], k=7, **how, ranking=by_jobs)
        assert len({each.read_bytes() for each in files}) == 1
    assert {each.name for each in tmp_path.iterdir()} == {
        "users.txt", *(f"{n}.parquet" for n in range(3))
    }  # fmt: skip


def interrupted(most: int, out: Path, work: Callable[[Ranking], object], shards: int = 6) -> int:
    """Do work until so many jobs are done; return how many were."""
    workers = Workers(most)
    with (
        pytest.raises(KeyboardInterrupt),
        ranking_for(out, shards=shards, executor=workers) as by_jobs,
    ):
        work(by_jobs)
    assert work_of(out).is_dir()
    return workers.done


def test_what_was_interrupted_goes_on(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    how, out = Evaluation(**HOW), tmp_path / "found.json"
    whole = Workers()
    with ranking_for(out, shards=6, executor=whole) as by_jobs:
        expected = compare(runs, None, how, ranking=by_jobs)

    def work(by_jobs: Ranking) -> object:
        return compare(runs, None, how, ranking=by_jobs)

    assert interrupted(5, out, work) == 5
    assert interrupted(7, out, work) == 7
    ran: list[Job] = []

    def run_here(*given: Any) -> Any:
        ran.append(given[-1])
        return rank_jobs.run_here(*given)

    monkeypatch.setattr("counterplay.runs.by_jobs.run_here", run_here)
    with ranking_for(out, shards=6) as by_jobs:  # by this process, which has the candidates
        found = compare(runs, None, how, ranking=by_jobs)
    assert text(found) == text(expected)
    assert len(ran) == whole.done - 5 - 7 - 16  # it adds up at once, without jobs
    assert not list(tmp_path.iterdir())


def test_a_run_that_changed_meanwhile_is_ranked_again(
    data: Path, runs: list[Path], tmp_path: Path
) -> None:
    out, run, how = tmp_path / "found.json", tmp_path / "run", Evaluation(**HOW)
    cp.train(data, run, run_config(None, [*FAST, "candidate.name=gmf"]))
    interrupted(5, out, lambda by_jobs: evaluate_run(run, None, how, ranking=by_jobs))
    for each in run.iterdir():
        each.unlink()
    cp.train(data, run, run_config(None, [*FAST, "candidate.name=gmf", "training.seed=5"]))
    with ranking_for(out, shards=6, executor=Workers()) as by_jobs:
        found = evaluate_run(run, None, how, ranking=by_jobs)
    assert text(found) == text(evaluate_run(run, None, how))


@pytest.mark.parametrize("executor", [in_turn, Workers()], ids=["here", "elsewhere"])
def test_damaged_results_are_refused(executor: Executor, runs: list[Path], tmp_path: Path) -> None:
    out, how = tmp_path / "found.json", Evaluation(**HOW)
    plain = evaluate_run(runs[0], None, how)

    def go_on() -> None:
        with ranking_for(out, shards=6, executor=executor) as by_jobs:
            assert text(evaluate_run(runs[0], None, how, ranking=by_jobs)) == text(plain)

    interrupted(9, out, lambda by_jobs: evaluate_run(runs[0], None, how, ranking=by_jobs))
    folder = work_of(out)
    for kind, remedy in (("jobs/ranks*.json", "remove it"), ("ranks*-0.arrow", "remove '")):
        damaged = sorted(folder.glob(kind))[0]
        before = damaged.read_bytes()
        damaged.write_bytes(before[:40] + bytes([before[40] ^ 1]) + before[41:])
        with pytest.raises(cp.DataError, match=f"must be as it was written.*{remedy}"):
            go_on()
        damaged.write_bytes(before)
    go_on()
    assert not folder.exists()


@pytest.mark.parametrize("name", ["oracle", "logged", "randomised", "impressions", "doubly-robust"])
def test_an_estimator_that_lacks_something_is_refused_before_rows_are_ranked(
    name: str, runs: list[Path], tmp_path: Path
) -> None:
    how, workers = Evaluation(**HOW, estimators=("standard", "dials", name)), Workers()
    with (
        pytest.raises(cp.CounterplayError, match=f"the {name} estimator needs"),
        ranking_for(tmp_path / "found.json", shards=3, executor=workers) as by_jobs,
    ):
        compare(runs, None, how, ranking=by_jobs)
    assert workers.done == 0
    assert not list(tmp_path.iterdir())


def test_workers_refuse_what_is_not_as_they_were_told(
    data: Path, runs: list[Path], tmp_path: Path
) -> None:
    split = cp.data.load_split(data)
    prints = split.interactions.fingerprint, split.fingerprint
    source = Source.of(data, prints, 2, runs[0])
    rows = Workplace(tmp_path).put_array("rows", np.zeros((1, 2), np.int32))
    for wrong, said in (
        (
            {"run": (str(runs[0]), "sha256:0")},
            "a candidate must stay as it is while it is ranked; found '.*gmf'",
        ),
        ({"prints": ("a", prints[1])}, "the data must stay as they are .* found '.*data' changed"),
    ):
        job = rank_jobs.RankJob(
            what="ranks", source=source.model_copy(update=wrong), shard=0, rows=("rows", rows),
            before=2, memory=MEMORY, at_once=1,
        )  # fmt: skip
        with pytest.raises(cp.DataError, match=said):
            job.run(Workplace(tmp_path))


def test_scores_of_a_file_are_read_by_workers(
    data: Path, given_scores: pl.DataFrame, tmp_path: Path
) -> None:
    file, how = tmp_path / "given.parquet", Evaluation(**HOW)
    given_scores.write_parquet(file)
    workers = Workers()
    with ranking_for(None, shards=3, executor=workers) as by_jobs:
        found = evaluate_scores(file, data, how, ranking=by_jobs)
    assert text(found) == text(evaluate_scores(file, data, how))
    assert workers.done >= 3


def test_processes_do_the_jobs(runs: list[Path], tmp_path: Path) -> None:
    how = Evaluation(**HOW, estimators=("standard",))
    told: list[tuple[str, int, int | None]] = []
    with (
        processes(2) as executor,
        ranking_for(
            tmp_path / "found.json", shards=4, executor=executor,
            progress=lambda *each: told.append(each),
        ) as by_jobs,
    ):  # fmt: skip
        found = evaluate_run(runs[1], None, how, ranking=by_jobs)
    assert text(found) == text(evaluate_run(runs[1], None, how))
    assert told == [("ranking attn", done, 4) for done in range(5)]


@given(st.integers(0, 200), st.integers(1, 30), st.integers(1, 40) | st.none())
def test_jobs_are_cut_where_a_model_is_asked_anew(n: int, at_once: int, shards: int | None) -> None:
    by_jobs = Ranking(Workplace(Path()), shards)
    cuts = by_jobs.cuts(n, at_once)
    assert Ranking(Workplace(Path()), shards, Workers()).cuts(n, at_once) == cuts
    assert cuts[0] == 0
    assert cuts[-1] == n
    assert 1 <= len(cuts) - 1 <= (shards or 64)
    assert all(cut % at_once == 0 for cut in cuts[:-1])
    if n:
        assert all(begin < end for begin, end in pairwise(cuts))
    if n:
        n_parts = -(-n // at_once)
        assert len(cuts) - 1 == (min(shards, n_parts) if shards else max(1, n_parts // 16))


def test_one_process_writes_down_what_takes_long(runs: list[Path], tmp_path: Path) -> None:
    """Without shards, jobs have sixteen parts or more, and what is one job is not written."""
    few = Evaluation(**HOW, estimators=("standard",))
    many = few.model_copy(update={"memory": MEMORY // AT_ONCE})
    for how, n_jobs in ((few, 0), (many, 3)):
        told: list[tuple[str, int, int | None]] = []
        out = tmp_path / "found.json"
        with ranking_for(out, progress=lambda *each: told.append(each)) as by_jobs:  # noqa: B023
            found = evaluate_run(runs[0], None, how, ranking=by_jobs)
        assert text(found) == text(evaluate_run(runs[0], None, how))
        assert [each[1:] for each in told] == [(n, n_jobs) for n in range(n_jobs + bool(n_jobs))]
