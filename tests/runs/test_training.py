from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import counterplay as cp
from counterplay.data.directory import save
from counterplay.data.files import sealed
from counterplay.data.splits import VALIDATION
from counterplay.groups import Group
from counterplay.learning.records import Epoch
from counterplay.models.registry import ModelSettings
from counterplay.runs.config import RunConfig, run_config
from counterplay.runs.defaults import ranked_among
from counterplay.runs.training import load_run, read_record
from counterplay.simulation.writing import split_of

FAST = ["candidate.dim=4", "exposure.dim=4", "training.epochs=4", "training.batch_size=128",
        "training.rate=0.03", "validation.n_negatives=20"]  # fmt: skip
pytestmark = pytest.mark.filterwarnings("ignore:the (opponent has|weights have) no effect")


@pytest.fixture(scope="module")
def finished(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "run"
    cp.train(dataset, folder, run_config(None, FAST))
    return folder


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    """Give a finished run of one's own."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


@pytest.mark.parametrize(("method", "name"), [("erm", "gmf"), ("ps", "attn"), ("acl", "gmf")])
def test_a_run_leaves_a_record_and_a_model_that_loads(
    method: str, name: str, dataset: Path, tmp_path: Path
) -> None:
    config = run_config(None, [*FAST, f"method={method}", f"candidate.name={name}"])
    kept = cp.train(dataset, tmp_path / "run", config)
    record = kept.to_dict()
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "model.safetensors",
        "run.json",
    ]
    assert kept == read_record(tmp_path / "run")
    assert record["dataset"]["fingerprint"] == cp.data.load(dataset).fingerprint
    assert set(record["parameters"]) == (
        {"candidate"} if method == "erm" else {"candidate", "exposure"}
    )
    assert record["ess"] == record["epochs"][record["best_epoch"]]["ess"]
    assert (record["ess"] is None) == (method == "erm")
    found = record["validation"]
    assert found["low"] <= found["value"] <= found["high"]
    assert found["n"] == 40
    assert found["value"] == pytest.approx(record["epochs"][record["best_epoch"]]["validation"])
    train = replace(cp.data.load_split(dataset).train, rating=None)
    candidate, exposure, link = load_run(tmp_path / "run", train)
    assert (
        sum(value.numel() for value in candidate.parameters()) == record["parameters"]["candidate"]
    )
    assert (exposure is None, link is None) == (method == "erm", method == "erm")
    if link is not None:
        assert link.beta == pytest.approx(record["epochs"][record["best_epoch"]]["beta"], rel=1e-5)


@pytest.mark.parametrize("interrupted", [False, True])
def test_the_same_seed_gives_the_same_files_interrupted_or_not(
    interrupted: bool, finished: Path, dataset: Path, tmp_path: Path
) -> None:
    config, folder = run_config(None, FAST), tmp_path / "run"
    if interrupted:
        break_off(dataset, folder, config)
        with pytest.raises(cp.ConfigError, match="found something at"):
            cp.train(dataset, folder, config)
    cp.train(dataset, folder, config, resume=interrupted)
    for file in ("run.json", "model.safetensors"):
        assert (finished / file).read_bytes() == (folder / file).read_bytes()
    assert cp.train(dataset, folder, config, resume=True) == read_record(finished)


def test_selection_never_sees_the_test_rows(dataset: Path, tmp_path: Path) -> None:
    """With other test rows of the same users, everything that is written stays the same."""
    config = run_config(None, FAST)
    split = cp.data.load_split(dataset)
    item = np.array(split.interactions.item)
    rng = np.random.default_rng(0)
    test = np.flatnonzero(split.part == 2)
    for row in test:
        own = set(item[split.interactions.user == split.interactions.user[row]].tolist())
        item[row] = rng.choice(
            [each for each in range(split.interactions.n_items) if each not in own]
        )
    other = cp.Split(replace(split.interactions, item=item), split.part, split.kind)
    cp.data.save(other, tmp_path / "data")
    first = cp.train(dataset, tmp_path / "one", config)
    second = cp.train(tmp_path / "data", tmp_path / "two", config)
    assert first.epochs == second.epochs
    assert first.validation == second.validation


@pytest.mark.parametrize("method", ["erm", "ps", "acl"])
def test_ratings_are_predicted_and_the_best_epoch_is_kept(
    method: str, dataset: Path, tmp_path: Path
) -> None:
    """Ratings of chance alone: the longer it is learnt, the worse."""
    options = ["training.loss=squared", "candidate.name=cf", f"method={method}"]
    longer = ["training.epochs=40", "training.patience=3", "training.rate=0.1"]
    config = run_config(None, [*FAST, *options, *longer])
    record = cp.train(dataset, tmp_path / "run", config).to_dict()
    losses = [epoch["candidate_loss"] for epoch in record["epochs"]]
    assert losses[-1] < losses[0]
    errors = [epoch["validation"] for epoch in record["epochs"]]
    best = record["best_epoch"]
    assert errors[best] == min(errors) > 0
    assert best < len(errors) - 1 < 39
    assert record["stopped"] == "no better validation value for 3 epochs"
    assert all(epoch["exposure_validation"] is None for epoch in record["epochs"])
    found = record["validation"]
    named = {"metric": "mse", "k": 0, "estimator": "standard", "protocol": "ratings", "n": 40}
    assert named.items() <= found.items()
    assert found["low"] < found["value"] < found["high"]
    split = cp.data.load_split(dataset)
    candidate, *_ = load_run(tmp_path / "run", split.train)
    rows = split.validation
    predicted = cp.metrics.ModelScores(candidate, split.train).of(rows.user, rows.item[:, None])[
        :, 0
    ]
    assert rows.rating is not None
    assert found["value"] == pytest.approx(float(((predicted - rows.rating) ** 2).mean()))
    assert found["value"] == pytest.approx(errors[best])


def test_plain_learning_builds_no_exposure_model(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[str] = []
    build = ModelSettings.build

    def count(self: ModelSettings, log: cp.Interactions, generator: torch.Generator) -> cp.Scorer:
        built.append(self.name)
        return build(self, log, generator)

    monkeypatch.setattr(ModelSettings, "build", count)
    train = replace(cp.data.load_split(dataset).train, rating=None)
    for method, expected in (("erm", ["mlp"]), ("ps", ["mlp", "gmf"])):
        config = run_config(None, [*FAST, f"method={method}", "candidate.name=mlp"])
        cp.train(dataset, tmp_path / method, config)
        assert built == expected
        built.clear()
        load_run(tmp_path / method, train)
        assert built == expected
        built.clear()


def test_a_cutoff_beyond_the_catalogue_is_refused_before_anything_is_trained(
    dataset: Path, tmp_path: Path
) -> None:
    among = ranked_among(cp.data.load_split(dataset), VALIDATION)
    assert among < 60  # what users have seen is taken off
    with pytest.raises(cp.ConfigError, match=rf"validation.k .*; found {among} and {among};"):
        cp.train(dataset, tmp_path / "run", run_config(None, [*FAST, f"validation.k={among}"]))
    sampled = [*FAST, "validation.protocol=sampled", "validation.k=21"]
    with pytest.raises(cp.ConfigError, match=r"validation.k must be below .*; found 21 and 21;"):
        cp.train(dataset, tmp_path / "run", run_config(None, sampled))
    assert not (tmp_path / "run").exists()


def test_what_cannot_be_run_is_refused(dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(cp.ConfigError, match="must have something to learn"):
        cp.train(
            dataset, tmp_path / "a", run_config(None, [*FAST, "method=acl", "exposure.name=pop"])
        )
    assert not (tmp_path / "a").exists()
    with pytest.raises(cp.DataError, match=r"readable dataset.json"):
        cp.train(tmp_path, tmp_path / "b", run_config(None, FAST))
    with pytest.raises(cp.DataError, match=r"readable run.json"):
        read_record(tmp_path)
    assert torch.get_num_threads() == 1


def break_off(dataset: Path, folder: Path, config: RunConfig) -> None:
    def interrupt(epoch: Epoch) -> None:
        if epoch.epoch == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cp.train(dataset, folder, config, callbacks=[interrupt])


ATTENTION = [*FAST, "method=erm", "candidate.name=attn"]


@pytest.mark.parametrize("over", [True, False])
def test_a_run_goes_on_only_with_what_it_began_with(
    over: bool, dataset: Path, tmp_path: Path
) -> None:
    config, folder = run_config(None, ATTENTION), tmp_path / "run"
    cp.train(dataset, folder, config) if over else break_off(dataset, folder, config)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for setting, difference in (
        ("candidate.heads=4", "candidate.heads: began with 1, asked for 4"),
        ("candidate.name=gmf", 'candidate.name: began with "attn", asked for "gmf"'),
        ("exposure.dim=8", "exposure.dim: began with 4, asked for 8"),
        ("method=acl", 'method: began with "erm", asked for "acl"'),
        ("training.epochs=5", "training.epochs: began with 4, asked for 5"),
        ("validation.k=5", "validation.k: began with 10, asked for 5"),
    ):
        with pytest.raises(cp.CheckpointError, match="with what it began with") as caught:
            cp.train(dataset, folder, run_config(None, [*ATTENTION, setting]), resume=True)
        assert f"another {difference}; give the same" in str(caught.value)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("over", [True, False])
def test_a_run_goes_on_only_with_the_data_it_began_with(
    over: bool, dataset: Path, tmp_path: Path
) -> None:
    config, folder = run_config(None, FAST), tmp_path / "run"
    cp.train(dataset, folder, config) if over else break_off(dataset, folder, config)
    split = cp.data.load_split(dataset)
    log, part, item = split.interactions, np.array(split.part), np.array(split.interactions.item)
    row = np.flatnonzero(part == 2)[0]  # of a test row alone: training rows are the same
    item[row] = (item[row] + 1) % log.n_items
    cp.data.save(cp.Split(replace(log, item=item), part, split.kind), tmp_path / "log")
    part[np.flatnonzero(part == 1)[0]] = 2
    cp.data.save(cp.Split(log, part, split.kind), tmp_path / "split")
    for what in ("log", "split"):
        with pytest.raises(cp.CheckpointError, match=rf'another data.{what}: began with "sha256:'):
            cp.train(tmp_path / what, folder, config, resume=True)


def test_what_is_left_of_a_finished_run_is_cleared(copy: Path, dataset: Path) -> None:
    config, folder = run_config(None, FAST), copy
    (folder / "checkpoint").mkdir()
    (folder / "checkpoint" / "state.json").write_text("{}")
    (folder / "begun.json").write_text("{}")
    (folder / ".checkpoint.01234567.part").mkdir()
    (folder / ".run.json.lock").write_text("")
    cp.train(dataset, folder, config, resume=True)
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["model.safetensors", "run.json"]


def test_a_damaged_beginning_is_one_sentence(dataset: Path, tmp_path: Path) -> None:
    config, folder = run_config(None, FAST), tmp_path / "run"
    break_off(dataset, folder, config)
    path = folder / "begun.json"
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"dim": 4', b'"dim": 5', 1))
    with pytest.raises(cp.CheckpointError, match=r"begun.json' must be as it was written"):
        cp.train(dataset, folder, config, resume=True)
    path.unlink()
    with pytest.raises(cp.CheckpointError, match=r"found no begun.json"):
        cp.train(dataset, folder, config, resume=True)
    path.write_bytes(content)
    cp.train(dataset, folder, config, resume=True)


def test_there_is_one_training_at_a_time_in_a_folder(dataset: Path, tmp_path: Path) -> None:
    config, refused = run_config(None, FAST), []

    def again(epoch: Epoch) -> None:
        with pytest.raises(cp.ConfigError, match="by one process at a time") as caught:
            cp.train(dataset, tmp_path / "run", config, resume=True)
        refused.append(str(caught.value))

    cp.train(dataset, tmp_path / "run", config, callbacks=[again])
    assert len(refused) == 4
    assert f"found process {os.getpid()} on" in refused[0]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_damaged_runs_are_one_sentence(copy: Path, dataset: Path) -> None:
    folder = copy
    train, rng = cp.data.load_split(dataset).train, np.random.default_rng(0)
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        for place in rng.integers(0, len(content), 40):
            damaged = bytearray(content)
            damaged[place] ^= 1 << rng.integers(8)
            path.write_bytes(damaged)
            with pytest.raises(cp.DataError, match=f"{path.name}' must be") as caught:
                load_run(folder, train)
            assert "\n" not in str(caught.value)
        path.write_bytes(content)
    load_run(folder, train)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"configuration": 1}, "no configuration that is one"),
        ({"dataset": None}, "no dataset that is one"),
        ({"files": []}, "no files that is one"),
        ({"configuration": {"method": "magic"}}, r"no configuration.method that is one"),
        ({"configuration": {"candidate": {"heads": "x"}}}, r"no configuration.candidate.heads"),
        ({"format": 1}, "must be in format 2; found format 1; train again with this version"),
        ({"configuration": {"candidate": {"dim": 5}}}, "weights of its run's candidate for these"),
    ],
)
def test_a_record_that_is_none_is_one_sentence(
    changes: dict[str, object], expected: str, copy: Path, dataset: Path
) -> None:
    folder = copy
    path = folder / "run.json"
    path.write_bytes(sealed(read_record(folder).to_dict() | changes))  # by somebody who knows how
    with pytest.raises(cp.DataError, match=expected) as caught:
        load_run(folder, cp.data.load_split(dataset).train)
    assert "\n" not in str(caught.value)


def test_weights_can_be_read_by_whoever_reads_the_record(finished: Path) -> None:
    modes = {path.stat().st_mode for path in finished.iterdir()}
    assert len(modes) == 1
    assert modes.pop() & 0o444 == finished.stat().st_mode & 0o444


OWN = """
from counterplay.learning.method import Method

class Mine(Method):
    def prepare(self):
        super().prepare()
        self.margins = {}

    def step(self, batch, meter):
        return self.margins["mine"]
"""


@pytest.mark.parametrize("resume", [False, True])
def test_a_method_of_the_user_that_fails_is_named_with_its_line(
    resume: bool, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"failing_{resume}.py"
    path.write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    config = run_config(None, [*FAST[:1], f"method={path.stem}:Mine"])
    for _ in range(2):
        with pytest.raises(cp.ConfigError, match=rf"KeyError: 'mine' in '{path}', line 10"):
            cp.train(dataset, tmp_path / "run", config, resume=resume)
        assert (tmp_path / "run").exists() == resume


def test_an_error_that_is_not_the_methods_stays_what_it_is(dataset: Path, tmp_path: Path) -> None:
    def wrong(epoch: Epoch) -> None:
        raise KeyError(epoch.epoch)

    with pytest.raises(KeyError):
        cp.train(dataset, tmp_path / "run", run_config(None, FAST), callbacks=[wrong])


def test_the_number_of_threads_is_recorded_and_a_change_is_told(
    dataset: Path, tmp_path: Path
) -> None:
    config = run_config(None, [*FAST, "training.batch_size=2048"])
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        break_off(dataset, tmp_path / "run", config)
        torch.set_num_threads(1)
        with pytest.warns(cp.CounterplayWarning, match="began with 2 threads and goes on with 1"):
            record = cp.train(dataset, tmp_path / "run", config, resume=True)
        assert record.threads == 1
        assert "set OMP_NUM_THREADS to 2 for the same bytes" in record.notes[0]
        torch.set_num_threads(2)
        small = cp.train(dataset, tmp_path / "small", run_config(None, FAST))
        large = cp.train(dataset, tmp_path / "large", config)
    finally:
        torch.set_num_threads(before)
    assert (small.threads, large.threads) == (1, 2)


def test_a_method_of_impressions_is_read_as_it_was_trained(tmp_path: Path) -> None:
    world = cp.simulation.Synthetic(n_users=60, n_items=40, n_shown=8, seed=1).world()
    save(split_of(world, (1.0, 0.5, 0.5), impressions=True), tmp_path / "data")
    wanted = {"candidate": {"name": "cf", "dim": 4}, "training": {"epochs": 2}}
    config = RunConfig.model_validate(wanted | {"method": "shown", "validation": {"metric": "auc"}})
    record = cp.train(tmp_path / "data", tmp_path / "run", config)
    assert read_record(tmp_path / "run") == record
    again = cp.train(tmp_path / "data", tmp_path / "run", config, resume=True)
    assert again == record
    assert record.validation is not None
    assert (record.validation.metric, record.validation.protocol) == ("auc", "impressions")


def test_several_workers_need_shards(dataset: Path, tmp_path: Path) -> None:
    group = Group()
    group.size = 2
    with pytest.raises(cp.ConfigError, match="shards=64"):
        cp.train(dataset, tmp_path / "run", group=group)
    assert not (tmp_path / "run").exists()
