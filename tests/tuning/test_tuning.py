from __future__ import annotations

import json
import shutil
import sys
import types
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest

import counterplay as cp
from counterplay.data.files import read_json, sealed
from counterplay.data.jobs import Finished, Job, Work, attempt, processes
from counterplay.learning.records import Epoch
from counterplay.runs.candidates import staged
from counterplay.runs.config import RunConfig
from counterplay.runs.record import RunRecord
from counterplay.runs.training import read_record
from counterplay.settings import configured
from counterplay.tuning import search
from counterplay.tuning.space import Tuning, first_settings

TRAIN = cp.train  # which tests put something else in the place of

pytestmark = pytest.mark.filterwarnings("ignore::counterplay.CounterplayWarning")  # few epochs

FAST = ["candidate.dim=4", "exposure.dim=4", "training.epochs=2", "validation.n_negatives=20",
        "space.batch_size=[128, 512]", "space.dim=[4, 8]", "seed=5", "trials=3",
        "methods=['erm','ps','acl']"]  # fmt: skip


def settings(*assignments: str) -> Tuning:
    return configured(Tuning, None, [*FAST, *assignments])


@pytest.fixture(scope="module")
def folder(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tuning") / "out"
    cp.tune(dataset, out, settings())
    return out


@pytest.fixture(scope="module")
def result(folder: Path) -> dict[str, Any]:
    return read_json(folder / "tuning.json", "a tuning")


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def same(one: Path, two: Path) -> bool:
    """Tell whether all that is told to the user has the same bytes."""
    names = [
        "tuning.json",
        *(f"{run.name}/{file.name}" for run in one.glob("best-*") for file in run.iterdir()),
    ]
    return len(names) > 1 and all(
        (one / name).read_bytes() == (two / name).read_bytes() for name in names
    )


def values(result: dict[str, Any]) -> list[list[float | None]]:
    return [
        [trial.get("estimate", {}).get("value") for trial in found["trials"]]
        for found in result["methods"]
    ]


# What is found


def test_every_method_has_as_many_trials(result: dict[str, Any], folder: Path) -> None:
    assert [found["method"] for found in result["methods"]] == ["erm", "ps", "acl"]
    for found in result["methods"]:
        assert [trial["number"] for trial in found["trials"]] == [0, 1, 2]
        assert found["failed"] == []
        for trial in found["trials"]:
            estimate = trial["estimate"]
            assert estimate["low"] <= estimate["value"] <= estimate["high"]
            assert (estimate["n"], estimate["protocol"]) == (40, "full")
            assert trial["epochs"] == 2
            assert (trial["ess"] is None) == (found["method"] == "erm")
            assert set(trial["n_parameters"]) == (
                {"candidate"} if found["method"] == "erm" else {"candidate", "exposure"}
            )
        tried = [json.dumps(trial["settings"]) for trial in found["trials"]]
        assert len(set(tried)) == 3
    assert files(folder) == ["best-acl", "best-erm", "best-ps", "trials.json", "tuning.json"]


def test_the_first_trial_is_the_default(result: dict[str, Any], dataset: Path) -> None:
    train = cp.data.load_split(dataset).train
    for found in result["methods"]:
        expected = first_settings(settings(), found["method"], train)
        assert found["trials"][0]["settings"] == expected


def test_trials_stay_in_the_space(result: dict[str, Any]) -> None:
    for found in result["methods"]:
        for trial in found["trials"]:
            assert list(trial["settings"]) == list(found["space"])
            for key, value in trial["settings"].items():
                ends = found["space"][key]
                chosen = key in ("candidate.dim", "exposure.name")
                assert value in ends if chosen else ends[0] <= value <= ends[1]


def test_the_best_run_is_kept_and_is_worth_what_is_said(
    result: dict[str, Any], folder: Path
) -> None:
    """Its estimate by the evaluation that everybody uses is the recorded one."""
    for found, of_method in zip(result["methods"], values(result), strict=True):
        best = found["trials"][found["best"]]
        assert best["estimate"]["value"] == max(value for value in of_method if value is not None)
        run = folder / found["run"]
        evaluation = cp.evaluation.Evaluation(
            part="validation", estimators=("popularity",), metrics=("hit",), seed=5
        )
        (estimate,) = cp.evaluate(run, config=evaluation).estimates
        assert estimate.to_dict() == {"candidate": run.name, **best["estimate"]}
        configuration = read_record(run).to_dict()["configuration"]
        for key, value in best["settings"].items():
            section, name = key.split(".")
            assert configuration[section][name] == value


def test_each_trial_is_a_run_of_its_settings(
    result: dict[str, Any], dataset: Path, tmp_path: Path
) -> None:
    """Train one by hand, from what tuning.json says."""
    for found in result["methods"]:
        trial = found["trials"][1]
        whole: dict[str, Any] = {
            "method": found["method"],
            "candidate": {"dim": 4},
            "exposure": {"dim": 4},
            "training": {"epochs": 2, "patience": 15, "seed": 5},
            "validation": {"n_negatives": 20},
        }
        for key, value in trial["settings"].items():
            section, name = key.split(".")
            whole[section][name] = value
        run = tmp_path / found["method"]
        cp.train(dataset, run, RunConfig.model_validate(whole))
        config = cp.evaluation.Evaluation(
            part="validation", estimators=("popularity",), metrics=("hit",), seed=5
        )
        estimate = cp.evaluate(run, config=config).estimates[0].to_dict()
        assert estimate["value"] == trial["estimate"]["value"]


def test_no_trial_sees_the_test_rows(result: dict[str, Any], dataset: Path, tmp_path: Path) -> None:
    """With other test items of the same users, every trial tries and finds the same."""
    split = cp.data.load_split(dataset)
    log, item = split.interactions, np.array(split.interactions.item)
    rng = np.random.default_rng(0)
    for row in np.flatnonzero(split.part == 2):
        own = log.item[log.user == log.user[row]]
        item[row] = rng.choice(np.setdiff1d(np.arange(log.n_items), own))
    cp.data.save(cp.Split(replace(log, item=item), split.part, split.kind), tmp_path / "data")
    other = cp.tune(tmp_path / "data", tmp_path / "out", settings())
    assert other["dataset"]["fingerprint"] != result["dataset"]["fingerprint"]
    assert other["methods"] == result["methods"]


def test_all_methods_are_weighted_alike(dataset: Path, tmp_path: Path) -> None:
    """A ps run has an exposure model of its own, which must not be its judge."""
    config = settings("selection.estimator=propensity", "methods=['ps','erm']", "trials=2",
                      "selection.opponent.epochs=2", "selection.k=5")  # fmt: skip
    found = cp.tune(dataset, tmp_path / "out", config)
    shares = {t["estimate"]["ess"] for each in found["methods"] for t in each["trials"]}
    assert len(shares) == 1
    run = tmp_path / "out" / "best-ps"
    stage, (own,) = staged([run], dataset, config.selection.evaluation(5))
    fresh = replace(own, exposure=None, link=None)
    weights = stage.weights("propensity", fresh, [fresh])
    rows = stage.values(own)["hit", 5]
    best = found["methods"][0]["trials"][found["methods"][0]["best"]]["estimate"]
    assert best["value"] == pytest.approx(rows @ weights / weights.sum(), rel=1e-12)


# The same seed, interruptions, more trials


def test_another_seed_tries_something_else(
    result: dict[str, Any], dataset: Path, tmp_path: Path
) -> None:
    config = settings("seed=6", "methods=['erm']", "trials=2")
    found = cp.tune(dataset, tmp_path / "out", config)
    first, second = (each["methods"][0]["trials"] for each in (found, result))
    assert first[0]["settings"] == second[0]["settings"]
    assert first[1]["settings"] != second[1]["settings"]


@pytest.mark.parametrize("after", [0, 4])
def test_interrupted_between_trials_it_goes_on(
    after: int, folder: Path, dataset: Path, tmp_path: Path
) -> None:
    def stop(done: int, total: int, best: str) -> None:
        assert total == 9
        if done == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cp.tune(dataset, tmp_path, settings(), progress=stop)
    assert not (tmp_path / "tuning.json").exists()
    told: list[tuple[int, int, str]] = []
    cp.tune(dataset, tmp_path, settings(), progress=lambda *all_of: told.append(all_of))
    assert told[0][0] == after
    assert told[-1][0] == 9
    assert told[-1][2].startswith("erm 0.")
    assert same(folder, tmp_path)


@pytest.mark.parametrize("at", ["epoch", "estimate", "_tell"])
def test_interrupted_within_a_trial_it_goes_on(
    at: str, folder: Path, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second trial of acl breaks off; what it had trained is gone on from."""
    broken = "acl-1"

    def interrupt(epoch: Epoch) -> None:
        raise KeyboardInterrupt

    def train(data: Path, out: Path, config: RunConfig, **options: Any) -> RunRecord:
        callbacks = [interrupt] if at == "epoch" and out.name == broken else []
        return TRAIN(data, out, config, **options | {"callbacks": callbacks})

    def stop_if_broken(original: Any) -> Any:
        def stopped(*arguments: Any) -> Any:
            if list(tmp_path.glob(f"trial-*/{broken}")):
                raise KeyboardInterrupt
            return original(*arguments)

        return stopped

    with monkeypatch.context() as patched:
        patched.setattr("counterplay.runs.training.train", train)
        if at != "epoch":
            place = search.Judge if at == "estimate" else search.Search
            patched.setattr(place, at, stop_if_broken(getattr(place, at)))
        with pytest.raises(KeyboardInterrupt):
            cp.tune(dataset, tmp_path, settings())
    assert len(list(tmp_path.glob(f"trial-*/{broken}"))) == 1
    cp.tune(dataset, tmp_path, settings())
    assert same(folder, tmp_path)
    assert files(tmp_path) == files(folder)


def test_more_trials_go_on_to_where_they_would_have_been(
    folder: Path, dataset: Path, tmp_path: Path
) -> None:
    cp.tune(dataset, tmp_path, settings("trials=1"))
    cp.tune(dataset, tmp_path, settings())
    assert same(folder, tmp_path)
    with pytest.raises(cp.ConfigError, match=r"may only grow; found 3 .* and 2 asked for"):
        cp.tune(dataset, tmp_path, settings("trials=2"))


def test_what_is_finished_is_not_done_again(
    result: dict[str, Any], folder: Path, dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counterplay.runs.training.train", None)
    assert cp.tune(dataset, folder, settings()) == result


def test_a_best_run_that_was_removed_is_made_again(
    folder: Path, dataset: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder, tmp_path / "out")
    shutil.rmtree(tmp_path / "out" / "best-acl")
    cp.tune(dataset, tmp_path / "out", settings())
    assert same(folder, tmp_path / "out")
    assert files(tmp_path / "out") == files(folder)


def test_later_trials_learn_from_earlier_ones(dataset: Path, tmp_path: Path) -> None:
    """After the sampler's start, what is tried depends on what was found."""
    found = []
    for name in ("hit", "mrr"):
        config = settings("methods=['erm']", "trials=12", "training.epochs=1",
                          f"selection.metric={name}")  # fmt: skip
        found.append(cp.tune(dataset, tmp_path / name, config)["methods"][0]["trials"])
    tried = [[trial["settings"] for trial in trials] for trials in found]
    assert tried[0][:10] == tried[1][:10]
    assert tried[0][10:] != tried[1][10:]


# What goes wrong


def diverging(monkeypatch: pytest.MonkeyPatch, *names: str) -> list[str]:
    trained: list[str] = []

    def train(data: Path, out: Path, config: RunConfig, **options: Any) -> RunRecord:
        trained.append(out.name)
        if out.name in names:
            out.mkdir(parents=True)
            raise cp.DivergedError("losses must stay finite; found nan; lower the rates")
        return TRAIN(data, out, config, **options)

    monkeypatch.setattr("counterplay.runs.training.train", train)
    return trained


def test_a_failed_trial_is_recorded_and_counts(
    result: dict[str, Any], dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = diverging(monkeypatch, "erm-0", "acl-1")
    found = cp.tune(dataset, tmp_path, settings())
    assert [each["failed"] for each in found["methods"]] == [[0], [], [1]]
    assert all(len(each["trials"]) == 3 for each in found["methods"])
    failed = found["methods"][2]["trials"][1]
    assert failed == {
        "number": 1,
        "settings": result["methods"][2]["trials"][1]["settings"],
        "failed": "losses must stay finite; found nan; lower the rates",
    }
    assert values(found)[0][1:] == values(result)[0][1:]
    assert values(found)[2][1] is None
    assert len(trained) == 9
    assert files(tmp_path) == ["best-acl", "best-erm", "best-ps", "trials.json", "tuning.json"]
    assert cp.tune(dataset, tmp_path, settings()) == found  # and is not tried again
    assert len(trained) == 9


def test_a_method_may_fail_altogether(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    diverging(monkeypatch, "ps-0", "ps-1")
    found = cp.tune(dataset, tmp_path, settings("trials=2", "methods=['ps','erm']"))
    assert (found["methods"][0]["best"], found["methods"][0]["run"]) == (None, None)
    assert found["methods"][1]["run"] == "best-erm"
    assert files(tmp_path) == ["best-erm", "trials.json", "tuning.json"]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("seed=6", "seed: began with 5, asked for 6"),
        ("training.epochs=3", "training.epochs: began with 2, asked for 3"),
        ("space.rate=0.01", r"space.rate.*: began with .*, asked for "),
        ("methods=['erm']", r'methods: began with \["erm", "ps", "acl"\], asked for \["erm"\]'),
        ("methods=['acl','erm','ps']", "methods: began with "),
        ("selection.estimator=standard", r'selection.estimator: began with "popularity", asked'),
    ],
)
def test_a_folder_of_another_tuning_is_refused(
    change: str, named: str, folder: Path, dataset: Path
) -> None:
    before = (folder / "tuning.json").read_bytes()
    with pytest.raises(cp.ConfigError, match=f"another {named}"):
        cp.tune(dataset, folder, settings(change))
    assert (folder / "tuning.json").read_bytes() == before


def test_a_folder_of_other_data_is_refused(folder: Path, dataset: Path, tmp_path: Path) -> None:
    split = cp.data.load_split(dataset)
    cp.data.save(
        cp.data.split_at_random(split.interactions, np.random.default_rng(0)), tmp_path / "data"
    )
    with pytest.raises(cp.ConfigError, match=r"another data.split: began with"):
        cp.tune(tmp_path / "data", folder, settings())


def test_before_the_first_trial_is_over_everything_may_change(
    folder: Path, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(cp.DataError, match="unseen items"):
        cp.tune(
            dataset,
            tmp_path,
            settings("validation.protocol=sampled", "validation.n_negatives=1000"),
        )

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(search.Judge, "estimate", interrupt)
        with pytest.raises(KeyboardInterrupt):
            cp.tune(dataset, tmp_path, settings("training.rate=0.05"))
    cp.tune(dataset, tmp_path, settings())
    assert same(folder, tmp_path)
    assert files(folder) == files(tmp_path)


def test_a_folder_with_something_else_is_refused(dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(cp.ConfigError, match="found something at"):
        cp.tune(dataset, tmp_path, settings())
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_two_tunings_in_one_folder_are_refused(dataset: Path, tmp_path: Path) -> None:
    def again(*_: object) -> None:
        with pytest.raises(cp.ConfigError, match="by one process at a time; found process"):
            cp.tune(dataset, tmp_path, settings())

    cp.tune(dataset, tmp_path, settings("methods=['erm']", "trials=1"), progress=again)


def test_damaged_trials_are_one_sentence(folder: Path, dataset: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "out")
    rng = np.random.default_rng(0)
    for name in ("trials.json", "best-erm/run.json", "best-acl/model.safetensors"):
        path = tmp_path / "out" / name
        content = path.read_bytes()
        for place in rng.integers(0, len(content), 3):
            damaged = bytearray(content)
            damaged[place] ^= 1
            path.write_bytes(damaged)
            with pytest.raises(cp.DataError, match=f"{name}' must be") as caught:
                cp.tune(dataset, tmp_path / "out", settings())
            assert "\n" not in str(caught.value)
        path.write_bytes(content)
    (tmp_path / "out" / "trials.json").write_bytes(sealed({"format": 1, "methods": {"erm": [1]}}))
    with pytest.raises(cp.DataError, match="must hold the trials of a tuning"):
        cp.tune(dataset, tmp_path / "out", settings())


def test_data_that_nothing_can_be_selected_on_are_refused(dataset: Path, tmp_path: Path) -> None:
    split = cp.data.load_split(dataset)
    part = np.where(split.part == 1, 0, split.part).astype(np.int8)
    cp.data.save(cp.Split(split.interactions, part, "none"), tmp_path / "data")
    with pytest.raises(cp.DataError, match="needs validation rows"):
        cp.tune(tmp_path / "data", tmp_path / "out", settings())
    with pytest.raises(cp.DataError, match="needs propensities"):
        cp.tune(dataset, tmp_path / "out", settings("selection.estimator=logged"))
    assert not (tmp_path / "out").exists()


def test_without_optuna_it_says_what_to_install(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(cp.ConfigError, match=r"found no optuna; install counterplay\[tune\]"):
        cp.tune(dataset, tmp_path / "out", settings())
    assert not (tmp_path / "out").exists()


# What is said


def test_optuna_is_silent_and_left_as_it_was(
    dataset: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = optuna.logging.get_verbosity()
    strange = tmp_path / "a {b} 100%?#c=1"  # an address would read some of these
    cp.tune(dataset, strange, settings("methods=['erm']", "trials=2"))
    assert capfd.readouterr() == ("", "")
    assert optuna.logging.get_verbosity() == before
    assert files(strange) == ["best-erm", "trials.json", "tuning.json"]


def test_only_the_notes_of_the_best_are_passed_on(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(data: Path, out: Path, config: RunConfig, **options: Any) -> RunRecord:
        warnings.warn(f"of {out.name}", cp.CounterplayWarning, stacklevel=1)
        warnings.warn(f"of {out.name}", cp.CounterplayWarning, stacklevel=1)
        return TRAIN(data, out, config, **options)

    monkeypatch.setattr("counterplay.runs.training.train", train)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = cp.tune(dataset, tmp_path, settings("methods=['erm']"))
    (erm,) = found["methods"]
    assert [str(each.message) for each in caught] == erm["trials"][erm["best"]]["notes"]
    for trial in erm["trials"]:
        assert trial["notes"] == [f"erm: of erm-{trial['number']}"]


# Side by side


class Elsewhere:
    """Runs trials as other processes would, the last of a list first; stops after `most`."""

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        self.asked: list[list[str]] = []

    def __call__(self, work: Work, jobs: Sequence[Job]) -> Finished:
        self.asked.append([job.label for job in jobs])
        for job in reversed(jobs):
            if self.most is not None and sum(map(len, self.asked)) > self.most:
                raise KeyboardInterrupt
            yield job, attempt(work, job)


def test_trials_side_by_side_are_those_in_turn(folder: Path, dataset: Path, tmp_path: Path) -> None:
    executor = Elsewhere()
    cp.tune(dataset, tmp_path / "out", settings(), executor=executor)
    assert same(folder, tmp_path / "out")
    rounds = [[f"{method}/{number}" for method in ("erm", "ps", "acl")] for number in range(3)]
    assert executor.asked == rounds


def test_interrupted_side_by_side_it_goes_on_in_turn(
    folder: Path, dataset: Path, tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        cp.tune(dataset, tmp_path / "out", settings(), executor=Elsewhere(most=3))
    cp.tune(dataset, tmp_path / "out", settings())
    assert same(folder, tmp_path / "out")


def test_processes_run_trials(folder: Path, dataset: Path, tmp_path: Path) -> None:
    with processes(2, 1) as executor:
        cp.tune(dataset, tmp_path / "out", settings(), executor=executor)
    assert same(folder, tmp_path / "out")


def test_a_failure_elsewhere_is_that_sentence(dataset: Path, tmp_path: Path) -> None:
    def failing(work: Work, jobs: Sequence[Job]) -> Finished:
        yield jobs[0], {"failed": "it must hold; found not; do it", "error": "DataError"}

    with pytest.raises(cp.DataError, match="it must hold; found not; do it"):
        cp.tune(dataset, tmp_path / "out", settings(), executor=failing)


def test_every_trial_is_tracked_and_nothing_else_changes(
    folder: Path, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[Path, str]] = []

    class SummaryWriter:
        def __init__(self, directory: str) -> None:
            self.directory = Path(directory)

        def __enter__(self) -> SummaryWriter:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def add_text(self, key: str, *_: object) -> None:
            told.append((self.directory, key))

        def add_scalar(self, key: str, *_: object) -> None:
            told.append((self.directory, key))

    stand_in = types.ModuleType("torch.utils.tensorboard.writer")
    stand_in.__dict__["SummaryWriter"] = SummaryWriter
    for name in ("torch.utils.tensorboard", "torch.utils.tensorboard.writer"):
        monkeypatch.setitem(sys.modules, name, stand_in)
    cp.tune(dataset, tmp_path / "out", settings(), track="tensorboard")
    trials = {f"{method}-{number}" for method in ("erm", "ps", "acl") for number in range(3)}
    assert {place for place, _ in told} == {tmp_path / "out.events" / each for each in trials}
    assert {"settings", "candidate_loss", "validation"} <= {key for _, key in told}
    assert same(folder, tmp_path / "out")
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard.writer", None)
    with pytest.raises(cp.ConfigError, match=r"install counterplay\[track\]"):
        cp.tune(dataset, tmp_path / "other", settings(), track="tensorboard")
    assert not (tmp_path / "other").exists()
