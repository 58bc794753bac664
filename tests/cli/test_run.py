from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from counterplay.data.files import write_json
from counterplay.simulation import synthetic
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.writing import write_world
from counterplay.study import config as study_config
from counterplay.study.config import StudyConfig

from .conftest import Outcome, Run

SETTINGS = """
dim = 4
[training]
epochs = 2
batch_size = 128
[evaluation]
n_resamples = 200
gamma = [1, 2]
[evaluation.opponent]
epochs = 2
"""
N = 240
FILE_LINES = ("columns", "file", "times", "done", "otherwise")  # said when a file is read


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with settings that make haste."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fast.toml").write_text(SETTINGS)
    return tmp_path


def log_of(n_users: int = 16, n_items: int = 40, n: int = N) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "user": rng.integers(0, n_users, n),
            "item": rng.integers(0, n_items, n),
            "time": np.arange(n) + 1_500_000_000,
        }
    )


def text_of(form: str, column: str = "item") -> pl.DataFrame:
    """Return the log with ids of another form."""
    return log_of().with_columns(pl.format(form, pl.col(column)).alias(column))


def test_a_study_that_resamples_cannot_tell_is_refused_before_it_begins(
    run: Run, place: Path
) -> None:
    log_of().write_csv("log.csv")
    outcome = run("run", "log.csv", "--out", "study", "--set", "evaluation.n_resamples=1")
    assert outcome.code == 2
    assert "found evaluation.n_resamples=1" in outcome.err
    assert "n_resamples of 200 or more" in outcome.err
    assert not (place / "study").exists()


FAST = ("--config", "fast.toml", "--candidates", "erm", "acl")


def ends_well(outcome: Outcome, folder: Path = Path("study")) -> dict[str, Any]:
    """See that a command ended in a report, and return what the study says."""
    assert outcome.code == 0, outcome.err
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.rstrip().endswith("</html>")
    found = json.loads((folder / "study.json").read_text())
    assert found["verdict"]["headline"] in outcome.out
    assert str(folder / "report.html") in outcome.out
    return dict(found)


def one_sentence(outcome: Outcome) -> bool:
    """Whether a command ended as a bad input must."""
    lines = outcome.err.splitlines()
    said = len(lines) == 1 and lines[0].startswith("counterplay: ") and lines[0].count("; ") >= 2
    return outcome.code == 2 and said and outcome.out == ""


@pytest.mark.parametrize("command", ["run", "demo"])
def test_help_has_an_example(command: str, run: Run) -> None:
    outcome = run(command, "--help")
    assert outcome.code == 0
    assert f"Example: counterplay {command}" in outcome.out
    assert "--json" in outcome.out


def test_odd_columns_are_named_by_options(place: Path, run: Run) -> None:
    """What failed leaves nothing, so that the better command may name the same folder."""
    log_of().rename({"user": "who", "item": "what"}).write_csv("log.csv")
    outcome = run("run", "log.csv", *FAST, "--out", "study")
    assert one_sentence(outcome)
    assert "--user" in outcome.err
    assert "'who', 'what', 'time'" in outcome.err
    assert {each.name for each in place.iterdir()} == {"log.csv", "fast.toml"}
    columns = ("--user", "who", "--item", "what")
    found = ends_well(run("run", "log.csv", *columns, *FAST, "--out", "study"))
    assert found["candidates"] == ["erm", "acl"]
    assert found["split"]["kind"] == "leave-last-two"


FRAMES = {
    "three users": log_of(3, 40, 60),
    "no time": log_of().drop("time"),
    "ratings": log_of().with_columns(rating=pl.Series(np.arange(N) % 5 + 1)).drop("time"),
    "one row a user": pl.DataFrame({"user": range(60), "item": [i % 7 for i in range(60)]}),
    "repeated pairs": pl.DataFrame(
        {"user": [1] * 30 + [2] * 30, "item": [5, 6] * 15 + [6, 7] * 15, "time": range(60)}
    ),
    "a user with one item": pl.DataFrame(
        {"user": [1] * 30 + [2] * 30, "item": [5] * 30 + [6, 7] * 15, "time": range(60)}
    ),
    "markup": text_of("<script>alert({})</script>"),
    "long ids": text_of("x" * 1000 + "{}"),
    "all alphabets": text_of("жé😀\u202e{}", "user"),
    "propensities": log_of().with_columns(propensity=pl.Series(np.linspace(0.1, 1, N))),
}  # fmt: skip


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("name", FRAMES)
def test_every_log_ends_in_a_report(name: str, run: Run) -> None:
    FRAMES[name].write_parquet("log.parquet")
    found = ends_well(run("run", "log.parquet", *FAST, "--out", "study"))
    logged = name == "propensities"
    assert found["verdict"]["estimator"] == ("logged" if logged else "robust")


class Tags(HTMLParser):
    """Counts the tags of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002
        self.found.append(tag)


@pytest.mark.usefixtures("place")
def test_markup_in_names_stays_text(run: Run) -> None:
    log_of().write_csv("<marquee>.csv")
    ends_well(run("run", "<marquee>.csv", *FAST, "--out", "study"))
    page = Path("study/report.html").read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(page)
    assert "marquee" not in tags.found
    assert "&lt;marquee&gt;" in page


@pytest.mark.usefixtures("place")
def test_ratings_are_predicted_when_asked_for(run: Run) -> None:
    FRAMES["ratings"].write_csv("log.csv")
    outcome = run("run", "log.csv", *FAST, "--feedback", "ratings", "--out", "study")
    found = ends_well(outcome)["verdict"]
    assert (found["metric"], found["smaller_is_better"]) == ("mse", True)
    assert "mse on" in outcome.out


NOTHING: dict[str, object] = {}
ONLY_REPEATS = pl.DataFrame(
    {
        "user": [i // 3 for i in range(60)],
        "item": [i // 3 % 2 for i in range(60)],
        "time": range(60),
    }
)


@pytest.mark.parametrize(
    ("contents", "options", "expected"),
    [
        (log_of(1), (), "at least two users"),
        (log_of(16, 1), (), "at least two items"),
        (log_of(16, 2), (), "found users with all 2 items"),
        (pl.DataFrame({"user": range(40), "item": [1, 2] * 20, "time": range(40)}), (), "random"),
        (ONLY_REPEATS, (), "found only repeats: each of 20 users has one item in all 60 rows"),
        (log_of(), ("--feedback", "ratings"), "feedback ratings needs ratings"),
        (log_of(), ("--candidates", "foo"), "found 'foo'"),
        (log_of(), ("--set", "trainin.epochs=3"), "did you mean 'training'"),
        (log_of(), ("--set", "runs.mine.methd=erm"), "did you mean 'method'"),
        (log_of(), ("--scores", "nothing.csv"), "found nothing at 'nothing.csv'"),
        (log_of(), ("--scores", "log.csv"), "name the columns user, item and score"),
        (log_of(), ("--set", 'evaluation.estimators=["opponent"]'), "all candidates share"),
        (b"", (), "must have contents"),
        (b"user,item,time\n", (), "must have rows"),
        (bytes(range(256)) * 9, (), "found binary data"),
        (None, (), "found nothing at 'log.csv'"),
        (NOTHING, (), "a folder must hold files of a log; found none in 'log.csv'"),
    ],
    ids=str,
)
def test_what_cannot_be_studied_is_one_sentence_and_leaves_nothing(
    contents: object, options: tuple[str, ...], expected: str, place: Path, run: Run
) -> None:
    log = Path("log.csv")
    if isinstance(contents, pl.DataFrame):
        contents.write_csv(log)
    elif isinstance(contents, bytes):
        log.write_bytes(contents)
    elif contents is NOTHING:
        log.mkdir()
    before = {each.name for each in place.iterdir()}
    outcome = run("run", log, *FAST, *options, "--out", "study")
    assert one_sentence(outcome), outcome.err
    assert expected in outcome.err
    assert {each.name for each in place.iterdir()} == before


@pytest.mark.usefixtures("place")
def test_scores_settings_and_runs_of_ones_own(run: Run) -> None:
    frame = log_of()
    frame.write_csv("log.csv")
    pairs = frame.select("user").unique().join(frame.select("item").unique(), how="cross")
    for name in ("ours.v2", "theirs"):
        scores = pl.Series(np.random.default_rng(len(name)).normal(size=len(pairs)))
        pairs.with_columns(score=scores).write_csv(f"{name}.csv")
    mine = '[runs.mine]\nmethod = "erm"\n[runs.mine.candidate]\nname = "cf"\ndim = 3\n'
    Path("fast.toml").write_text(f"{SETTINGS}{mine}[scores]\nothers = 'theirs.csv'\n")
    outcome = run("run", "log.csv", *FAST, "--scores", "ours.v2.csv", "--scores", "theirs.csv",
                  "--set", "evaluation.k=[5,20]", "--out", "study", "--json")  # fmt: skip
    assert outcome.code == 0, outcome.err
    record = json.loads(outcome.out)
    names = ("erm", "acl", "mine", "others", "ours.v2", "theirs")
    found = record["evaluation"]["estimates"]
    assert tuple(dict.fromkeys(each["candidate"] for each in found)) == names
    assert {each["k"] for each in found} == {5, 20}
    assert record["runs"][2]["configuration"]["candidate"]["name"] == "cf"
    assert record["commands"][0].startswith("counterplay run log.csv --config fast.toml ")


@pytest.mark.usefixtures("place")
def test_models_with_histories_and_scores_beside_them(run: Run) -> None:
    frame = log_of()
    frame.write_csv("log.csv")
    pairs = frame.select("user").unique().join(frame.select("item").unique(), how="cross")
    pairs.with_columns(score=1.0 / (1 + pl.col("item"))).write_csv("theirs.csv")
    outcome = run("run", "log.csv", *FAST, "--model", "attn", "--scores", "theirs.csv",
                  "--set", 'evaluation.estimators=["standard", "opponent"]',
                  "--out", "study")  # fmt: skip
    ends_well(outcome)
    assert "not against theirs" in outcome.err


@pytest.mark.usefixtures("place")
def test_interrupted_it_says_so_and_goes_on(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    log_of().write_csv("log.csv")
    whole = run("run", "log.csv", *FAST, "--out", "whole")
    ends_well(whole, Path("whole"))

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("counterplay.runs.candidates.staged", stop)
        broken = run("run", "log.csv", *FAST, "--out", "study")
    assert broken.code == 130
    *stages, last = broken.err.splitlines()
    assert last.startswith("counterplay: interrupted; ")
    assert "same command" in last
    assert stages[:2] == [
        "log: 240 rows: 240 clicks",
        "columns: took user from 'user', item from 'item', time from 'time'",
    ]
    assert stages[-3].startswith("otherwise: counterplay look log.csv --format csv --header ")
    assert stages[-2:] == ["training erm", "training acl"]
    assert not Path("study/study.json").exists()
    again = run("run", "log.csv", *FAST, "--out", "study")
    ends_well(again)
    for name in ("study.json", "evaluation.json"):
        assert Path("whole", name).read_bytes() == Path("study", name).read_bytes()
    assert again.out == whole.out.replace("whole", "study")
    begun = {"training erm", "training acl", "evaluating: robust"}
    assert begun <= {*whole.err.splitlines()}
    of_the_file = {line for line in whole.err.splitlines() if line.split(": ")[0] in FILE_LINES}
    assert {*whole.err.splitlines()} - {*again.err.splitlines()} <= begun | of_the_file
    other = run("run", "log.csv", *FAST, "--seed", 1, "--out", "study")
    assert one_sentence(other)
    assert "found in 'study' another configuration." in other.err


@pytest.mark.usefixtures("place")
def test_a_pipeline_asks_for_a_decision_and_then_for_lists(run: Run) -> None:
    log_of().write_csv("log.csv")
    command = ("run", "log.csv", *FAST, "--out", "study")
    undecided = run(*command, "--fail-if-undecided")
    assert undecided.code == 3
    assert undecided.out.count("Undecided") == 1
    *_, last = undecided.err.splitlines()
    assert last.startswith("counterplay: a verdict was asked for that ships a candidate; found it")
    ends_well(run(*command))
    assert run(*command, "--fail-if-undecided", "--json").code == 3
    for options in (("refit", "study"), ("recommend", "study", "--out", "lists.csv")):
        refused = run(*options)
        assert one_sentence(refused)
        assert "undecided between" in refused.err
        assert "with --candidate" in refused.err
    refitted = run("refit", "study", "--candidate", "acl")
    assert refitted.code == 0, refitted.err
    assert "gmf by acl" in refitted.out
    assert "all 240 rows of log" in refitted.out
    record = json.loads(run("refit", "study", "--candidate", "acl", "--json").out)
    assert record["refit"]["rows"] == 240
    assert record["refit"]["run"] == str(Path("study/runs/acl").resolve())
    judged = run("evaluate", "study/refits/acl")
    assert one_sentence(judged)
    assert "judged by rows that it has not seen" in judged.err
    lists = run("recommend", "study", "--candidate", "acl", "--out", "lists.csv")
    assert "trained on all rows of log: study/refits/acl" in lists.out
    assert len(pl.read_csv("lists.csv")) == 160
    told = run("export", "study", "--candidate", "acl", "--out", "exported", "--json")
    assert json.loads(told.out)["refitted"] is True


@pytest.mark.usefixtures("place")
def test_a_decided_verdict_ends_well(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    log_of().write_csv("log.csv")
    command = ("run", "log.csv", *FAST, "--out", "study", "--fail-if-undecided")
    assert run(*command).code == 3
    path = Path("study/study.json")
    values = {"decided": True, "recommended": "erm"}
    found = json.loads(path.read_text())
    found["verdict"] |= values
    write_json(found, path)
    assert run(*command).code == 0
    refitted = run("refit", "study")
    assert refitted.code == 0
    assert "study/refits/erm" in refitted.out


@pytest.mark.usefixtures("place")
def test_every_candidate_is_tracked_and_the_estimates_too(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_of().write_csv("log.csv")
    opened: list[tuple[str, dict[str, Any]]] = []
    logged: dict[str, list[dict[str, float]]] = {}

    class Wandb:
        """Stands in for the module, and for its runs."""

        def init(self, name: str, config: dict[str, Any], **_: object) -> Wandb:
            opened.append((name, config))
            return self

        def __enter__(self) -> Wandb:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def log(self, values: dict[str, float], step: int) -> None:  # noqa: ARG002
            logged.setdefault(opened[-1][0], []).append(values)

    monkeypatch.setitem(sys.modules, "wandb", Wandb())
    command = ("run", "log.csv", *FAST, "--out", "study", "--track", "wandb")
    ends_well(run(*command))
    assert [name for name, _ in opened] == ["study/erm", "study/acl", "study/evaluation"]
    assert opened[1][1]["training.epochs"] == 2
    assert len(logged["study/acl"]) == 2
    assert "beta/1" in logged["study/acl"][0]
    (estimates,) = logged["study/evaluation"]
    assert {"erm/standard/hit_10", "acl/robust/hit_10"} <= estimates.keys()
    ends_well(run(*command))
    assert len(opened) == 3  # nothing is left to do
    monkeypatch.setitem(sys.modules, "wandb", None)
    refused = run("run", "log.csv", *FAST, "--out", "other", "--track", "wandb")
    assert one_sentence(refused)
    assert "install counterplay[track]" in refused.err
    assert not Path("other").exists()


def test_a_folder_with_something_else_is_left_alone(place: Path, run: Run) -> None:
    log_of().write_csv("log.csv")
    (place / "log-study").mkdir()
    (place / "log-study" / "precious").write_text("keep")
    outcome = run("run", "log.csv", *FAST)  # the folder's name is made of the log's
    assert one_sentence(outcome)
    assert "must be a new or empty folder" in outcome.err
    assert [each.name for each in (place / "log-study").iterdir()] == ["precious"]


@pytest.mark.usefixtures("place")
def test_a_dataset_directory_and_a_world(run: Run) -> None:
    made = Synthetic(n_users=60, n_items=30, n_shown=8, sharpness=3, seed=0).world()
    write_world(made, "world", rates=(1.0, 0.3, 0.5))
    outcome = run("run", "world", *FAST, "--out", "study")
    found = ends_well(outcome)
    assert found["kind"] == "world"
    assert "In truth" in outcome.out
    assert "truth" in outcome.out.splitlines()[2].split()
    found = ends_well(run("run", "world/log", *FAST, "--out", "other"), Path("other"))
    assert (found["kind"], found["verdict"]["truth"]) == ("log", None)
    refused = run("run", "world", *FAST, "--user", "uid", "--out", "third")
    assert one_sentence(refused)
    assert "prepared already" in refused.err


@pytest.mark.usefixtures("place")
def test_the_demo_is_a_study_of_a_world(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    small = Synthetic(n_users=60, n_items=60, n_shown=8, sharpness=3, seed=5)
    hasty = tomllib.loads(SETTINGS)
    monkeypatch.setattr(synthetic, "Synthetic", lambda **_: small)
    monkeypatch.setattr(
        study_config, "StudyConfig", lambda seed: StudyConfig.model_validate(hasty | {"seed": seed})
    )
    outcome = run("demo", "--out", "demo", "--seed", 5)
    assert outcome.code == 0, outcome.err
    assert {each.name for each in Path("demo").iterdir()} == {"world-5", "study-5", "report.html"}
    assert "In truth" in outcome.out
    again = run("demo", "--out", "demo", "--seed", 5)  # nothing is left to do
    assert (again.code, again.out) == (outcome.code, outcome.out)
    assert not any(f"training {name}" in again.err for name in ("pop", "erm", "ps", "acl"))


def test_the_command_is_there_without_torch_or_polars() -> None:
    code = "import sys, counterplay.cli.run; print({'torch', 'polars'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.usefixtures("place")
def test_a_log_of_impressions_is_understood_before_anything_is_trained(run: Run) -> None:
    rng = np.random.default_rng(0)
    log = log_of()
    outcome = pl.Series(
        "outcome", np.where(rng.random(len(log)) < 0.8, rng.integers(1, 3, len(log)), 0)
    )
    log.with_columns(outcome, rank=pl.lit(3)).write_csv("log.csv")
    found = run("run", "log.csv", *FAST, "--outcome", "outcome", "--out", "study")
    ends_well(found, Path("study"))
    rows, columns, *_ = found.err.splitlines()
    n = int((outcome > 0).sum())
    assert rows == f"log: 240 rows: {n} clicks, {240 - n} impressions without a click"
    assert columns.endswith("position from 'rank', clicked from 'outcome'")
    wrong = run("run", "log.csv", *FAST, "--clicked", "clack", "--out", "other")
    assert wrong.code == 2
    assert "a column 'clack' for the clicked" in wrong.err
