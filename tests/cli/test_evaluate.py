from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import counterplay as cp
from counterplay.cli import console
from counterplay.data.files import read_json
from counterplay.runs.config import run_config

from .conftest import Outcome, Run

KEYS = "metric", "k", "estimator", "protocol", "value", "low", "high", "level", "n", "ess"
FAST = ("--k", 5, "--set", "opponent.epochs=2", "--set", "opponent.batch_size=32",
        "--set", "n_resamples=200")  # fmt: skip
STANDARD = (*FAST, "--estimator", "standard")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset, two runs on it, and scores for all of its pairs."""
    folder = tmp_path_factory.mktemp("evaluate")
    rng = np.random.default_rng(0)
    user, item = rng.integers(0, 20, 400), rng.integers(0, 30, 400)
    log = cp.read({"user": user, "item": item}, duplicates="first", name="shop")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cp.CounterplayWarning)
        cp.data.save(cp.data.split_at_random(log, rng, fractions=(0.1, 0.3)), folder / "data")
        for method, seed in (("erm", 0), ("acl", 1)):
            settings = ["candidate.dim=4", "exposure.dim=4", "training.epochs=2",
                        "training.batch_size=64", "validation.n_negatives=3"]  # fmt: skip
            config = run_config(
                None, [*settings, f"method={method}", f"training.seed={seed}", "training.rate=0.1"]
            )
            cp.train(folder / "data", folder / method, config)
    pairs = np.arange(20 * 30)
    frame = pl.DataFrame({"user": pairs // 30, "item": pairs % 30, "score": rng.random(600)})
    frame.write_parquet(folder / "scores.parquet")
    return folder


def one_sentence(outcome: Outcome) -> bool:
    """Whether a command ended as a bad input must."""
    lines = outcome.err.splitlines()
    said = len(lines) == 1 and lines[0].startswith("counterplay: ")
    return outcome.code == 2 and said and outcome.out == "" and "Traceback" not in outcome.err


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("n_resamples=1", "level 0.95 need n_resamples of 200 or more"),
        ("n_resamples=199", "level 0.95 need n_resamples of 200 or more"),
        ("level=0.9999999", "level 0.9999999 need n_resamples of 100,000,000 or more"),
    ],
)
def test_what_the_resamples_cannot_tell_is_refused_at_once(
    setting: str, said: str, folder: Path, run: Run, tmp_path: Path
) -> None:
    out = tmp_path / "found.json"
    for command in (("evaluate", folder / "erm"), ("compare", folder / "erm", folder / "acl")):
        outcome = run(*command, "--set", setting, "--out", out)
        assert one_sentence(outcome)
        assert said in outcome.err
        assert "found n_resamples=" in outcome.err
    assert not out.exists()


@pytest.mark.parametrize("command", ["evaluate", "compare"])
def test_help_has_an_example(command: str, run: Run) -> None:
    outcome = run(command, "--help")
    assert outcome.code == 0
    assert f"Usage: counterplay {command}" in outcome.out
    assert f"Example: counterplay {command}" in outcome.out
    for option in ("--estimator", "--gamma", "--protocol", "--k", "--out", "--json", "--set"):
        assert option in outcome.out


def rows_of(text: str, first: str) -> list[list[str]]:
    """Return the cells of a table's rows that begin with `first`."""
    return [line.split() for line in text.splitlines() if line.split()[:1] == [first]]


def test_a_table_on_the_terminal(folder: Path, run: Run) -> None:
    outcome = run("evaluate", folder / "erm", *FAST)
    assert outcome.code == 0, outcome.err
    title = outcome.out.splitlines()[0]
    for part in ("shop", "86 test rows", "full", "95% intervals"):
        assert part in title
    rows = rows_of(outcome.out, "erm")
    expected = [(e, f"{m}@5") for e in ("standard", "popularity", "dials", "robust")
                for m in ("hit", "ndcg", "mrr")]  # fmt: skip
    assert [(row[1], row[2]) for row in rows] == expected
    result = json.loads(run("evaluate", folder / "erm", *FAST, "--json").out)
    for row, each in zip(rows, result["estimates"], strict=True):
        assert row[3:6] == [f"{each[key]:.4f}" for key in ("value", "low", "high")]
        assert row[-1] == f"{each['ess']:.0f}"


def test_a_table_fits_into_80_columns(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console.out, "_width", 80)
    out = run("compare", folder / "erm", folder / "acl", *FAST, "--gamma", 2).out
    assert "…" not in out
    rows = [*rows_of(out, "erm"), *rows_of(out, "acl")]
    assert all(set(row[1:2]) & {"standard", "popularity", "dials", "robust", "−"} for row in rows)
    assert len(rows) == 2 * 12 + 2 * 6 + 12  # estimates, bands and differences: a line each


def test_bands_on_the_terminal(folder: Path, run: Run) -> None:
    outcome = run("evaluate", folder / "acl", *FAST, "--estimator", "opponent",
                  "--gamma", 1, "--gamma", 2.5)  # fmt: skip
    assert outcome.code == 0, outcome.err
    estimates, mark, bands = outcome.out.partition("factor Γ")
    rows = rows_of(bands, "acl")
    assert [row[3] for row in rows] == ["1", "2.5"] * 3
    for row, narrow, wide in zip(rows_of(estimates, "acl"), rows[::2], rows[1::2], strict=True):
        assert narrow[4] == narrow[5] == row[3]
        assert float(wide[4]) < float(row[3]) < float(wide[5])
    assert mark not in run("evaluate", folder / "acl", *STANDARD).out


def test_json_has_the_keys_that_others_read(folder: Path, run: Run) -> None:
    outcome = run("evaluate", folder / "acl", "--k", 1, "--k", 3, *FAST[2:], "--gamma", 2, "--json",
                  "--protocol", "sampled", "--set", "n_negatives=4", "--seed", 3)  # fmt: skip
    assert outcome.code == 0, outcome.err
    result = json.loads(outcome.out)
    assert set(result) == {
        "dataset",
        "part",
        "configuration",
        "estimates",
        "bands",
        "cold",
        "notes",
    }
    assert len(result["estimates"]) == 4 * 3 * 2
    assert {each["k"] for each in result["estimates"]} == {1, 3}
    for each in result["estimates"]:
        assert set(KEYS) <= set(each)
        assert each["protocol"] == "sampled-4"
        assert each["low"] <= each["value"] <= each["high"]
    assert {each["gamma"] for each in result["bands"]} == {2}
    assert result["configuration"]["seed"] == 3


def test_what_is_written_is_what_is_printed(folder: Path, tmp_path: Path, run: Run) -> None:
    out = tmp_path / "result.json"
    out.write_text("old")
    told = run("evaluate", folder / "erm", *STANDARD, "--out", out)
    assert told.code == 0, told.err
    assert f"written to  {out}" in told.out
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]
    printed = run("evaluate", folder / "erm", *STANDARD, "--json")
    assert read_json(out, "a result") == json.loads(printed.out)
    again = tmp_path / "again.json"
    both = run("evaluate", folder / "erm", *STANDARD, "--out", again, "--json")
    assert json.loads(both.out) == json.loads(printed.out)
    assert again.read_bytes() == out.read_bytes()


def test_a_result_is_written_whole_or_not_at_all(
    folder: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "result.json"
    out.write_text("old")
    original = Path.write_bytes

    def break_off(path: Path, content: bytes) -> int:
        original(path, content[: len(content) // 2])
        raise OSError("disk full")

    monkeypatch.setattr(Path, "write_bytes", break_off)
    outcome = run("evaluate", folder / "erm", *STANDARD, "--out", out)
    assert outcome.code == 2
    assert "found disk full" in outcome.err
    assert out.read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("kind", ["folder", "absent/result.json"])
def test_a_place_that_cannot_be_written_is_refused(
    kind: str, folder: Path, tmp_path: Path, run: Run
) -> None:
    (tmp_path / "folder").mkdir()
    outcome = run("evaluate", folder / "erm", *STANDARD, "--out", tmp_path / kind)
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
    assert one_sentence(outcome)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_scores_from_elsewhere(kind: str, folder: Path, tmp_path: Path, run: Run) -> None:
    frame = pl.read_parquet(folder / "scores.parquet")
    if kind == "csv":
        frame.write_csv(tmp_path / "mine.csv")
    else:
        frame.write_parquet(tmp_path / "mine.parquet")
    outcome = run("evaluate", "--scores", tmp_path / f"mine.{kind}", "--data", folder / "data",
                  *FAST, "--json")  # fmt: skip
    assert outcome.code == 0, outcome.err
    result = json.loads(outcome.out)
    assert {each["candidate"] for each in result["estimates"]} == {"mine"}
    assert {each["estimator"] for each in result["estimates"]} == {
        "standard",
        "popularity",
        "dials",
        "robust",
    }


def repeated(frame: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([frame, frame.head(3)])


def without_numbers(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(
        score=pl.when(pl.col("item") == 4).then(float("nan")).otherwise("score")
    )


BAD_SCORES: list[tuple[Callable[[pl.DataFrame], pl.DataFrame], str]] = [
    (lambda frame: frame.filter(pl.col("user") > 1), "found none for 2 of 20 users with test rows"),
    (
        lambda frame: frame.with_columns(item=pl.col("item") + 1),
        "found 20 of 600 rows with an item that the dataset does not know",
    ),
    (without_numbers, "found 20 of 600 rows with no finite number as their score"),
    (repeated, "found 3 rows that repeat a pair"),
    (lambda frame: frame.rename({"score": "rating"}), "found columns user, item, rating"),
    (lambda frame: frame.clear(), "found none for 20 of 20 users with test rows"),
]


@pytest.mark.parametrize(("change", "expected"), BAD_SCORES)
def test_bad_scores_are_one_sentence_with_counts(
    change: Callable[[pl.DataFrame], pl.DataFrame],
    expected: str,
    folder: Path,
    tmp_path: Path,
    run: Run,
) -> None:
    change(pl.read_parquet(folder / "scores.parquet")).write_parquet(tmp_path / "bad.parquet")
    outcome = run("evaluate", "--scores", tmp_path / "bad.parquet", "--data", folder / "data",
                  *FAST)  # fmt: skip
    assert one_sentence(outcome), outcome.err
    assert expected in outcome.err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "found neither"),
        (("RUN", "--scores", "SCORES"), "found both"),
        (("--scores", "SCORES"), "name it with --data"),
        (("--scores", "absent.csv", "--data", "DATA"), "found nothing at 'absent.csv'"),
        (("DATA",), "must hold a readable run.json"),
        (("absent",), "must hold a readable run.json"),
        (("RUN", "--data", "RUN"), "must hold a readable dataset.json"),
        (("RUN", "--estimator", "robst"), "found 'robst'; did you mean 'robust'"),
        (("RUN", "--estimator", "oracle"), "needs the world"),
        (("RUN", "--estimator", "logged"), "needs propensities in the data"),
        (("RUN", "--gamma", "0.5"), "gamma must be at least 1; found gamma=0.5"),
        (("RUN", "--gamma", "inf"), "gamma must be a finite factor of 1 or more"),
        (("RUN", "--protocol", "sampled"), "every user must have 100 unseen items"),
        (("RUN", "--set", "protocl=full"), "did you mean 'protocol'"),
        (("RUN", "--set", "opponent.alfa=2"), "did you mean 'alpha'"),
        (("RUN", "--set", "opponent"), "must have the form section.key=value"),
        (("RUN", "--set", "opponent.kind=deep"), "found opponent.kind='deep'"),
        (("RUN", "--set", "clip=2"), "found clip=2"),
        (("RUN", "--set", "memory=5"), "the memory must hold one user's scores"),
    ],
)
def test_bad_inputs_are_one_sentence(
    arguments: tuple[str, ...], expected: str, folder: Path, run: Run
) -> None:
    places = {"RUN": "erm", "SCORES": "scores.parquet", "DATA": "data"}
    given = [str(folder / places[each]) if each in places else each for each in arguments]
    outcome = run("evaluate", *given)
    assert one_sentence(outcome), outcome.err
    assert expected in outcome.err


@pytest.mark.parametrize(
    "options",
    [
        ("--k", "0"),
        ("--k", "ten"),
        ("--seed", "-1"),
        ("--part", "x"),
        ("--popularity-share", "1.1"),
        ("--personal-share", "-0.1"),
    ],
)
@pytest.mark.parametrize("command", ["evaluate", "compare"])
def test_bad_usage_names_the_option(
    command: str, options: tuple[str, str], folder: Path, run: Run
) -> None:
    outcome = run(command, folder / "erm", *options)
    assert one_sentence(outcome)
    assert f"counterplay: {options[0]} must be " in outcome.err


@pytest.mark.parametrize(
    "setting",
    [
        "k=[]",
        "metrics=[]",
        "estimators=[]",
    ],
)
def test_nothing_to_evaluate_is_one_sentence(setting: str, folder: Path, run: Run) -> None:
    outcome = run("evaluate", folder / "erm", "--set", setting)
    assert one_sentence(outcome)


@pytest.mark.parametrize(
    ("name", "text"),
    [("run.json", "{}"), ("run.json", "[]"), ("model.safetensors", "x"), ("model.safetensors", "")],
)
def test_a_damaged_run_is_one_sentence(
    name: str, text: str, folder: Path, tmp_path: Path, run: Run
) -> None:
    shutil.copytree(folder / "erm", tmp_path / "run")
    (tmp_path / "run" / name).unlink()
    if text:
        (tmp_path / "run" / name).write_text(text)
    assert one_sentence(run("evaluate", tmp_path / "run", *STANDARD))


def test_a_run_and_other_data_do_not_go_together(folder: Path, tmp_path: Path, run: Run) -> None:
    log = cp.data.load(folder / "data")
    cp.data.save(cp.data.split_at_random(log, np.random.default_rng(5)), tmp_path / "data")
    outcome = run("evaluate", folder / "erm", "--data", tmp_path / "data")
    assert one_sentence(outcome)
    assert "a run must be evaluated on the data it was trained on" in outcome.err


def test_reservations_go_to_standard_error(folder: Path, run: Run) -> None:
    outcome = run("evaluate", folder / "erm", *FAST, "--estimator", "popularity", "--json",
                  "--set", "exponent=20", "--set", "floor=0.000001")  # fmt: skip
    assert outcome.code == 0
    assert outcome.err.startswith("note: popularity: weights must spread over the rows")
    assert json.loads(outcome.out)["estimates"]


def test_a_comparison_on_the_terminal(folder: Path, run: Run) -> None:
    outcome = run("compare", folder / "erm", folder / "acl", *FAST)
    assert outcome.code == 0, outcome.err
    rows = [row for row in rows_of(outcome.out, "erm") if row[1:3] == ["−", "acl"]]
    result = json.loads(run("compare", folder / "erm", folder / "acl", *FAST, "--json").out)
    assert len(rows) == len(result["comparisons"]) == 4 * 3
    assert {each["estimator"] for each in result["comparisons"]} == {
        "standard",
        "popularity",
        "dials",
        "robust",
    }
    assert {each["candidate"] for each in result["estimates"]} == {"erm", "acl"}
    for row, each in zip(rows, result["comparisons"], strict=True):
        assert row[3:5] == [each["estimator"], f"{each['metric']}@5"]
        assert row[5:8] == [f"{each[key]:+.4f}" for key in ("value", "low", "high")]
        assert row[8] == f"{each['p']:.4f}"
        if each["statement"] and each["low"] * each["high"] > 0:
            assert f"{each['metric']}@5, {each['estimator']}: {each['statement']}" in outcome.out
    assert sum(each["statement"] is not None for each in result["comparisons"]) == 6


def test_a_comparison_with_bands_is_written(folder: Path, tmp_path: Path, run: Run) -> None:
    options = (*STANDARD, "--estimator", "popularity", "--gamma", 2, "--out", tmp_path / "x.json")
    outcome = run("compare", folder / "erm", folder / "acl", *options)
    assert outcome.code == 0, outcome.err
    result = json.loads((tmp_path / "x.json").read_text())
    assert len(result["comparisons"]) == 2 * 3
    assert {each["candidate"] for each in result["bands"]} == {"erm", "acl"}
    assert {each["estimator"] for each in result["bands"]} >= {"popularity"}
    assert "factor Γ" in outcome.out


def test_scores_are_compared_with_a_run(folder: Path, tmp_path: Path, run: Run) -> None:
    shutil.copy(folder / "scores.parquet", tmp_path / "theirs.v2.parquet")
    files = ("--scores", folder / "scores.parquet", "--scores", tmp_path / "theirs.v2.parquet")
    outcome = run("compare", folder / "erm", *files, *STANDARD, "--json")
    assert outcome.code == 0, outcome.err
    result = json.loads(outcome.out)
    names = ("erm", "scores", "theirs.v2")
    assert tuple(dict.fromkeys(each["candidate"] for each in result["estimates"])) == names
    same = [each for each in result["comparisons"] if each["first"] == "scores"]
    assert {each["value"] for each in same} == {0}
    (tmp_path / "other").mkdir()
    shutil.copy(folder / "scores.parquet", tmp_path / "other" / "scores.parquet")
    twice = (*files[:2], "--scores", tmp_path / "other" / "scores.parquet")
    outcome = run("compare", folder / "erm", *twice, *STANDARD)
    assert one_sentence(outcome)
    assert "two files named 'scores'" in outcome.err


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("erm",), "needs two different"),
        (("erm", "data"), "must hold a readable run.json"),
        (("erm", "erm"), "needs two different"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(
    names: tuple[str, ...], expected: str, folder: Path, run: Run
) -> None:
    outcome = run("compare", *(folder / name for name in names), *STANDARD)
    assert one_sentence(outcome), outcome.err
    assert expected in outcome.err


def test_a_comparison_follows_its_settings(folder: Path, run: Run) -> None:
    outcome = run("compare", folder / "erm", folder / "acl", *FAST, "--json",
                  "--set", 'estimators=["standard"]')  # fmt: skip
    result = json.loads(outcome.out)
    assert {each["estimator"] for each in result["estimates"]} == {"standard"}


@pytest.mark.parametrize("names", [("erm",), ("erm", "acl")])
def test_shares_that_are_known_take_the_place_of_the_box(
    names: tuple[str, ...], folder: Path, run: Run
) -> None:
    command = ("evaluate" if len(names) == 1 else "compare", *(folder / name for name in names))
    how = (*FAST, "--estimators", "standard", "dials", "robust", "--json")
    found = {}
    for shares in ((), ("--popularity-share", 0, "--personal-share", 0)):
        outcome = run(*command, *how, *shares)
        assert outcome.code == 0, outcome.err
        result = json.loads(outcome.out)
        for each in result["estimates"]:
            of = each["candidate"], each["metric"]
            found[bool(shares), each["estimator"], of] = each["value"]
    assert result["configuration"]["dials"] == {"popularity_share": 0, "personal_share": 0}
    for (known, estimator, of), value in found.items():
        plain = found[known, "standard", of]
        if known:  # nothing is exposure: every row counts alike
            assert value == pytest.approx(plain, abs=1e-12)
        elif estimator == "robust" and plain > 0:
            assert value != pytest.approx(plain, abs=1e-6)
    if len(names) > 1:
        assert result["dials"]["box"] == [[0, 0]]
        outcome = run(*command, *how, "--popularity-share", 0.4)
        box = json.loads(outcome.out)["dials"]["box"]
        assert {gamma for gamma, _ in box} == {0.4}
        assert len(box) == 3


def test_a_run_is_called_by_its_folder_from_within(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder / "erm")
    result = json.loads(run("evaluate", ".", *STANDARD, "--json").out)
    assert {each["candidate"] for each in result["estimates"]} == {"erm"}


def test_a_run_finds_its_data_from_anywhere(
    folder: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    trained = run("train", "data", "--out", tmp_path / "run", "--method", "erm", "--epochs", 1,
                  "--set", "validation.n_negatives=3")  # fmt: skip
    assert trained.code == 0, trained.err
    monkeypatch.chdir(tmp_path)
    assert run("evaluate", "run", *STANDARD).code == 0


def test_a_reservation_is_printed_once(folder: Path, run: Run) -> None:
    outcome = run("compare", folder / "erm", folder / "acl", *FAST, "--estimator", "popularity",
                  "--set", "exponent=20", "--set", "floor=0.000001")  # fmt: skip
    assert outcome.err.count("note: popularity") == 1


@pytest.mark.parametrize("how", [(), ("--json",)], ids=str)
def test_one_users_test_rows_have_no_interval(
    how: tuple[str, ...], folder: Path, tmp_path: Path, run: Run
) -> None:
    split = cp.data.load_split(folder / "data")
    part = np.where(split.interactions.user == 0, split.part, 0).astype(np.int8)
    cp.data.save(cp.Split(split.interactions, part, "one user"), tmp_path / "data")
    for name in ("one", "two"):
        config = run_config(None, ["method=erm", "training.epochs=1", "validation.n_negatives=3"])
        cp.train(tmp_path / "data", tmp_path / name, config)
    outcome = run("compare", tmp_path / "one", tmp_path / "two", *STANDARD, *how)
    assert outcome.code == 0
    assert "nan" not in outcome.out.lower()


def test_several_values_may_stand_in_a_row(folder: Path, run: Run) -> None:
    options = ("--k", 5, 10, "--estimators", "standard", "popularity", "--gamma", 1.5, 2, "--json")
    outcome = run("evaluate", *options, folder / "erm")
    assert outcome.code == 0, outcome.err
    result = json.loads(outcome.out)
    assert {each["k"] for each in result["estimates"]} == {5, 10}
    assert {each["estimator"] for each in result["estimates"]} == {"standard", "popularity"}
    assert {each["gamma"] for each in result["bands"]} == {1.5, 2}
