from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import counterplay as cp
from counterplay.data.impressions import impressions_of
from counterplay.learning import fitting
from counterplay.learning.records import Epoch
from counterplay.models.popularity import Popularity
from counterplay.runs import training
from counterplay.runs.config import run_config
from counterplay.runs.record import RunRecord
from counterplay.runs.refitting import refit
from counterplay.serving.recommend import load_trained
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.writing import write_world

FAST = ["candidate.dim=4", "exposure.dim=4", "training.epochs=6", "training.batch_size=64",
        "validation.k=3"]  # fmt: skip
KINDS = {
    "pop": ["method=erm", "candidate.name=pop", "training.epochs=1"],
    "ease": ["method=erm", "candidate.name=ease"],
    "knn": ["method=erm", "candidate.name=knn"],
    "ials": ["method=erm", "candidate.name=ials"],
    "ials-ps": ["method=ps", "candidate.name=ials"],
    "erm": ["method=erm"],
    "ps": ["method=ps"],
    "rd": ["method=rd", "training.benchmarked=true"],
    "acl": ["method=acl", "training.warmup=1"],
    "objective": ["method=acl", "training.stop_by=objective"],
    "attn": ["method=erm", "candidate.name=attn", "candidate.length=5"],
    "shown": ["method=shown", "candidate.name=cf", "validation.metric=auc"],
    "ips": ["method=ips"],
    "from impressions": ["method=ps", "training.exposure_from=impressions"],
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of impressions with propensities and times."""
    place = tmp_path_factory.mktemp("worlds") / "world"
    world = Synthetic(n_users=60, n_items=50, n_shown=8, seed=3).world()
    write_world(world, place, rates=(1.0, 0.5, 0.5), impressions=True, with_truth=True)
    return place / "log"


def trained(data: Path, out: Path, *settings: str) -> RunRecord:
    return cp.train(data, out, run_config(None, [*FAST, *settings]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore::counterplay.CounterplayWarning")
def test_every_kind_learns_from_all_rows_for_as_long_as_the_run_did(
    kind: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained(data, tmp_path / "run", *KINDS[kind])
    seen: list[tuple[int, int]] = []
    own = fitting.fit

    def fit(method: Any, **options: Any) -> Any:
        assert options["validate"] is None
        seen.append((len(method.log), options["earlier"] and options["earlier"][0]))
        return own(method, **options)

    monkeypatch.setattr(training, "fit", fit)
    found = refit(tmp_path / "run", tmp_path / "all")
    split = cp.data.load_split(data)
    n_rows = len(split.interactions)
    if kind == "shown":
        n_rows = sum(len(impressions_of(split, part)) for part in range(3))
        assert n_rows > len(impressions_of(split, 0))
    assert seen[0][0] == n_rows
    assert len(found.epochs) == run.best_epoch + 1 == found.best_epoch + 1
    assert found.validation is None
    assert found.refit is not None
    assert found.refit.rows == len(split.interactions) > len(split.train)
    assert (found.refit.run, found.refit.weights) == (
        str(tmp_path / "run"),
        run.files["model.safetensors"],
    )
    assert found.earlier_epochs == run.earlier_epochs
    stages = {"ps": 1, "rd": 2, "from impressions": 1, "ials-ps": 1}.get(kind, 0)
    assert len(run.earlier_epochs) == stages
    assert found.refit.earlier == tuple(each + 1 for each in run.earlier_epochs)
    assert found.dataset == run.dataset
    ours, theirs = (each.configuration.model_dump(mode="json") for each in (found, run))
    theirs["training"] |= {"epochs": run.best_epoch + 1}
    if kind == "objective":
        theirs["training"] |= {"stop_by": "patience"}
    assert ours == theirs
    scores = load_trained(tmp_path / "all").scores.of_all(np.arange(60))
    assert np.isfinite(scores).all()
    assert not np.array_equal(scores, load_trained(tmp_path / "run").scores.of_all(np.arange(60)))


def test_popularity_counts_all_rows(data: Path, tmp_path: Path) -> None:
    trained(data, tmp_path / "run", *KINDS["pop"])
    refit(tmp_path / "run", tmp_path / "all")
    log = cp.data.load(data)
    counts = np.bincount(log.item, minlength=log.n_items)
    expected = Popularity(log.n_users, log.n_items, counts).logits
    found = load_file(tmp_path / "all" / "model.safetensors")
    assert torch.equal(found["candidate.logits"], expected)
    loaded = load_trained(tmp_path / "all")
    assert len(loaded.train) == len(log)


def test_users_without_training_rows_are_known_after_it(data: Path, tmp_path: Path) -> None:
    trained(data, tmp_path / "run", *KINDS["erm"])
    refit(tmp_path / "run", tmp_path / "all")
    before, after = (
        int(load_trained(tmp_path / name).fallback.unknown[:-1].sum()) for name in ("run", "all")
    )
    log = cp.data.load(data)
    assert after == 60 - len(np.unique(log.user)) < before


@pytest.mark.filterwarnings("ignore::counterplay.CounterplayWarning")
def test_interrupted_it_goes_on_to_the_same_bytes(data: Path, tmp_path: Path) -> None:
    run = trained(data, tmp_path / "run", *KINDS["ps"])
    assert run.best_epoch > 0
    whole = refit(tmp_path / "run", tmp_path / "whole")

    def stop(epoch: Epoch) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        refit(tmp_path / "run", tmp_path / "all", callbacks=[stop])
    assert not (tmp_path / "all" / "run.json").exists()
    done: list[int] = []
    found = refit(
        tmp_path / "run", tmp_path / "all", callbacks=[lambda epoch: done.append(epoch.epoch)]
    )
    assert done == list(range(1, run.best_epoch + 1))
    assert found == whole
    for name in ("run.json", "model.safetensors"):
        assert (tmp_path / "all" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    again = refit(
        tmp_path / "run", tmp_path / "all", callbacks=[lambda epoch: done.append(epoch.epoch)]
    )
    assert again == whole
    assert len(done) == run.best_epoch


def test_a_run_of_another_training_is_not_gone_on_with(data: Path, tmp_path: Path) -> None:
    trained(data, tmp_path / "run", *KINDS["erm"])
    trained(data, tmp_path / "other", *KINDS["erm"], "training.seed=1")
    refit(tmp_path / "run", tmp_path / "all")
    before = (tmp_path / "all" / "run.json").read_bytes()
    with pytest.raises(cp.CheckpointError, match=r"another training\.(epochs|seed)"):
        refit(tmp_path / "other", tmp_path / "all")
    config = cp.runs.read_record(tmp_path / "all").configuration
    plain = run_config(None, [*FAST, *KINDS["erm"], f"training.epochs={config.training.epochs}"])
    with pytest.raises(
        cp.CheckpointError, match=r"another refit\.\w+: began with .*, asked for none"
    ):
        cp.train(data, tmp_path / "all", plain, resume=True)
    cp.train(data, tmp_path / "third", plain)
    with pytest.raises(cp.CheckpointError, match=r"another refit\.\w+: began with none"):
        refit(tmp_path / "run", tmp_path / "third")
    assert (tmp_path / "all" / "run.json").read_bytes() == before


def test_rows_that_it_has_seen_do_not_judge_it(data: Path, tmp_path: Path) -> None:
    trained(data, tmp_path / "run", *KINDS["erm"])
    refit(tmp_path / "run", tmp_path / "all")
    for judge in (
        lambda: cp.evaluate(tmp_path / "all"),
        lambda: cp.compare([tmp_path / "run", tmp_path / "all"]),
        lambda: cp.runs.value_policy(tmp_path / "all"),
        lambda: cp.runs.online_runs(data.parent, [tmp_path / "all"]),
    ):
        with pytest.raises(cp.DataError, match=r"has not seen; found that '.*all' was refitted on"):
            judge()
    with pytest.raises(cp.DataError, match="has learnt from all of them"):
        refit(tmp_path / "all", tmp_path / "twice")


def test_what_is_in_the_way_or_gone_is_one_sentence(data: Path, tmp_path: Path) -> None:
    shutil.copytree(data, tmp_path / "data")
    trained(tmp_path / "data", tmp_path / "run", *KINDS["erm"])
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "thesis.txt").write_text("years of work")
    with pytest.raises(cp.ConfigError, match="new or empty folder"):
        refit(tmp_path / "run", tmp_path / "there")
    (tmp_path / "data").rename(tmp_path / "moved")
    with pytest.raises(cp.DataError, match=r"found nothing at '.*data'; say with --data"):
        refit(tmp_path / "run", tmp_path / "all")
    found = refit(tmp_path / "run", tmp_path / "all", data=tmp_path / "moved")
    assert found.data == str(tmp_path / "moved")
    with pytest.raises(cp.DataError, match=r"readable run\.json"):
        refit(tmp_path / "data", tmp_path / "more")
    path = tmp_path / "run" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(cp.DataError, match="as it was written"):
        refit(tmp_path / "run", tmp_path / "more", data=tmp_path / "moved")
    assert not (tmp_path / "more").exists()


def test_records_of_before_say_nothing_of_earlier_epochs(data: Path, tmp_path: Path) -> None:
    record = trained(data, tmp_path / "run", *KINDS["erm"]).to_dict()
    assert record["refit"] is None
    for name in ("refit", "earlier_epochs"):
        del record[name]
    old = RunRecord.model_validate(json.loads(json.dumps(record)))
    assert (old.refit, old.earlier_epochs) == (None, ())
