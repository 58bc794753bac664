from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import counterplay as cp
from counterplay.cli import console, worlds
from counterplay.data.files import read_json
from counterplay.runs.config import run_config
from counterplay.runs.online import online_runs
from counterplay.simulation import checks
from counterplay.simulation.authors import Authors
from counterplay.simulation.checks import Finding, check_world
from counterplay.simulation.dials import world_dials
from counterplay.simulation.logs import oracle_propensities
from counterplay.simulation.online import OnlineTest
from counterplay.simulation.store import load_world
from counterplay.simulation.synthetic import PRESETS, Synthetic
from counterplay.simulation.two_stage import TwoStage
from counterplay.simulation.writing import split_of, write_world

from .conftest import Outcome, Run

SMALL = ("--users", 50, "--items", 40, "--set", "n_shown=8", "--set", "mean_relevance=0.5")
RATES = (1.0, 0.3, 0.5)
ROUNDS = ("--rates", *RATES)


def world_of(**settings: object) -> Synthetic:
    plain = {"n_users": 50, "n_items": 40, "n_shown": 8, "mean_relevance": 0.5}
    return Synthetic.model_validate(plain | settings)


def one_sentence(outcome: Outcome) -> bool:
    """Whether a command ended as a bad input must."""
    lines = outcome.err.splitlines()
    said = len(lines) == 1 and lines[0].startswith("counterplay: ")
    return outcome.code == 2 and said and outcome.out == "" and "Traceback" not in outcome.err


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def rows_of(text: str, first: str) -> list[list[str]]:
    """Return the cells of a table's rows that begin with `first`."""
    return [line.split() for line in text.splitlines() if line.split()[:1] == [first]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world, others of the same and of another size, runs on its log, and datasets."""
    folder = tmp_path_factory.mktemp("worlds")
    world = world_of(examination=1.0)
    write_world(world.world(), folder / "world", rates=RATES, with_truth=True)
    write_world(world_of(seed=1).world(), folder / "other", rates=RATES)
    write_world(world_of(n_users=60).world(), folder / "more", rates=RATES)
    for method in ("erm", "acl"):
        settings = (f"method={method}", "candidate.dim=4", "training.rate=0.1", "training.epochs=2",
                    "training.batch_size=64", "validation.n_negatives=3")  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cp.CounterplayWarning)
            cp.train(folder / "world" / "log", folder / method, run_config(None, settings))
    rng = np.random.default_rng(0)
    table = {"user": rng.integers(0, 30, 400), "item": rng.integers(0, 25, 400)}
    for name, rating in (("rated", rng.integers(1, 6, 400)), ("alike", np.ones(400))):
        cp.data.save(
            cp.read(table | {"rating": rating}, duplicates="first", order="file"), folder / name
        )
    cp.data.save(cp.read(table, duplicates="first"), folder / "clicks")
    (folder / "foreign").mkdir()
    (folder / "foreign" / "thesis.tex").write_text("mine")
    (folder / "bad.toml").write_text("sharpness = ")
    return folder


@pytest.fixture
def unchanged(folder: Path) -> Callable[[], bool]:
    """Tell whether everything is as it was."""
    before = contents(folder)
    return lambda: contents(folder) == before


@pytest.mark.parametrize(
    ("command", "options"),
    [
        (
            "simulate",
            (
                "--out",
                "--preset",
                "--rates",
                "--impressions",
                "--random-share",
                "--with-truth",
                "--set",
                "--json",
            ),
        ),
        ("online", ("--data", "--days", "--k", "--temperature", "--shares", "--out", "--json")),
        ("check-world", ("--seed", "--json")),
    ],
)
def test_help_has_an_example(command: str, options: tuple[str, ...], run: Run) -> None:
    outcome = run(command, "--help")
    assert outcome.code == 0
    assert f"Usage: counterplay {command}" in outcome.out
    for option in options:
        assert option in outcome.out
    assert f"Example: counterplay {command}" in outcome.out


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from counterplay.cli.main import main\n"
        "for words in ([], ['simulate'], ['online'], ['check-world'], ['evaluate']):\n"
        "    try:\n"
        "        main([*words, '--help'])\n"
        "    except SystemExit:\n"
        "        pass\n"
        "heavy = {'torch', 'polars', 'pyarrow', 'scipy', 'numpy', 'safetensors', 'plotly'}\n"
        "print('loaded', heavy & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded set()"


# simulate


def test_every_preset_can_be_asked_for() -> None:
    assert get_args(get_args(get_args(worlds.Preset)[0])[0]) == (*PRESETS, "authors")


def test_what_was_made_as_json(tmp_path: Path, run: Run) -> None:
    outcome = run("simulate", "synthetic", "--out", tmp_path / "w", *SMALL, *ROUNDS, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    told = json.loads(outcome.out)
    split = cp.data.load_split(tmp_path / "w" / "log")
    assert told["log"] == str(tmp_path / "w" / "log")
    assert told["fingerprint"] == split.interactions.fingerprint
    assert told["split"]["counts"] == split.counts
    assert told["profile"]["n_users"] == 50
    assert told["notes"] == []


def test_a_synthetic_world_and_its_log(tmp_path: Path, run: Run) -> None:
    outcome = run("simulate", "synthetic", "--out", tmp_path / "world", *SMALL, *ROUNDS)
    assert outcome.code == 0, outcome.err
    expected = world_of().world()
    log = cp.data.load_split(tmp_path / "world" / "log")
    assert log.interactions.fingerprint == expected.log(RATES).fingerprint
    assert load_world(tmp_path / "world").log().fingerprint == expected.log().fingerprint
    assert "synthetic-history, 50 users, 40 items" in outcome.out
    assert f"{len(log.train):,} train, {len(log.validation):,} validation" in outcome.out
    assert f"{len(log.interactions) / 2000:.3%} of all pairs clicked" in outcome.out
    assert f"train on {tmp_path / 'world' / 'log'}" in outcome.out
    assert [path.name for path in tmp_path.iterdir()] == ["world"]


def test_impressions_and_random_rows_are_beside_the_log(tmp_path: Path, run: Run) -> None:
    given = *SMALL, *ROUNDS, "--impressions", "--random-share", 0.2
    outcome = run("simulate", "synthetic", "--out", tmp_path / "world", *given)
    assert outcome.code == 0, outcome.err
    split = cp.data.load_split(tmp_path / "world" / "log")
    expected = split_of(world_of().world(), RATES, impressions=True, random_share=0.2)
    assert split.fingerprint == expected.fingerprint
    assert split.random == expected.random
    assert split.unclicked is not None
    assert split.random is not None
    assert re.search(rf"unclicked rows\s+{len(split.unclicked):,} beside the log", outcome.out)
    assert re.search(rf"random rows\s+{len(split.random):,} beside the log", outcome.out)
    outcome = run("simulate", "synthetic", "--out", tmp_path / "again", *given, "--json")
    told = json.loads(outcome.out)["beside"]
    assert told == {"unclicked": len(split.unclicked), "random": len(split.random)}


def test_options_reach_the_world(tmp_path: Path, run: Run) -> None:
    (tmp_path / "world.toml").write_text("sharpness = 3.0\nnoise = 0.25\ndim = 2\n")
    outcome = run("simulate", "synthetic", "--out", tmp_path / "world", *SMALL, "--seed", 5,
                  "--exposure", "mixture", "--confounding", 0.75, "--examination", 0.5,
                  "--preset", "mild", "--config", tmp_path / "world.toml", "--set", "noise=1.5",
                  "--with-truth")  # fmt: skip
    assert outcome.code == 0, outcome.err
    expected = world_of(exposure="mixture", confounding=0.75, examination=0.5, sharpness=3.0,
                        quality=1.0, noise=1.5, dim=2, seed=5).world()  # fmt: skip
    found = load_world(tmp_path / "world")
    assert found.name == "synthetic-mixture"
    assert (found.confounding, found.examination, found.noise) == (0.75, 0.5, 1.5)
    log = cp.data.load(tmp_path / "world" / "log")
    assert log.fingerprint == expected.log(with_truth=True).fingerprint


def test_a_two_stage_world_has_the_users_and_items_of_its_data(
    folder: Path, tmp_path: Path, run: Run
) -> None:
    outcome = run("simulate", folder / "rated", "--out", tmp_path / "world", *ROUNDS,
                  "--set", "epochs=1", "--set", "dim=2", "--confounding", 0.5)  # fmt: skip
    assert outcome.code == 0, outcome.err
    source, log = cp.data.load(folder / "rated"), cp.data.load(tmp_path / "world" / "log")
    assert log.users.ids.equals(source.users.ids)
    assert log.items.ids.equals(source.items.ids)
    expected = TwoStage(epochs=1, dim=2, confounding=0.5).world(source)
    assert log.fingerprint == expected.log(RATES).fingerprint


def test_the_preset_authors_keeps_the_first_users(folder: Path, tmp_path: Path, run: Run) -> None:
    outcome = run("simulate", folder / "rated", "--out", tmp_path / "world", *ROUNDS, "--preset",
                  "authors", "--users", 30, "--set", "dim=2", "--set", "epsilon=1")  # fmt: skip
    assert outcome.code == 0, outcome.err
    source, log = cp.data.load(folder / "rated"), cp.data.load(tmp_path / "world" / "log")
    assert log.users.ids.equals(source.users.ids[:30])
    expected = Authors(n_users=30, dim=2, epsilon=1.0).world(source)
    assert log.fingerprint == expected.log(RATES).fingerprint


@pytest.mark.parametrize(
    ("source", "options", "expected"),
    [
        ("absent", (), "must hold a readable dataset.json"),
        ("erm", (), "must hold a readable dataset.json"),
        ("world", (), "must hold a readable dataset.json"),
        ("clicks", (), "needs ratings"),
        ("alike", (), "ratings must differ"),
        ("rated", ("--users", 5), "come from its data"),
        ("rated", ("--exposure", "uniform"), "come from its data"),
        ("rated", ("--preset", "mild"), "found --preset"),
        ("rated", ("--preset", "authors", "--exposure", "uniform"), "come from its data"),
        ("synthetic", ("--preset", "authors"), "is made of ratings"),
        ("rated", ("--set", "n_shown=4"), "found 'n_shown'; known are"),
        ("rated", ("--set", "exponnt=1"), "did you mean 'exponent'"),
        ("rated", ("--set", "density=1000", "--set", "epochs=1"), "lower density"),
        ("rated", ("--rates", 1, 1, "--set", "epochs=1"), "the rates of 3 rounds or more"),
        ("synthetic", ("--confounding", 2), "found confounding=2.0"),
        ("synthetic", ("--confounding", "nan"), "found confounding=nan"),
        ("synthetic", ("--examination", 0), "found examination=0.0"),
        ("synthetic", ("--set", "sharpnes=2"), "did you mean 'sharpness'"),
        ("synthetic", ("--set", "sharpness"), "must have the form section.key=value"),
        ("synthetic", ("--set", "list_length=5000"), "list_length of a world must be from 1"),
        ("synthetic", ("--set", "n_shown=39"), "a user can be shown"),
        ("synthetic", ("--set", "mean_relevance=1e-12"), "must have rows"),
        ("synthetic", ("--config", "absent.toml"), "must be a readable TOML file"),
        ("synthetic", ("--config", "FOLDER/bad.toml"), "must be a readable TOML file"),
        ("synthetic", ("--rates", 1, 0.5), "the rates of 3 rounds or more"),
        ("synthetic", ("--impressions", "--random-share", 1.5), "from 0 to 0.9; found 1.5"),
        ("synthetic", ("--random-share", 0.1), "random rows are impressions"),
        ("synthetic", ("--rates", 1), "found [1.0]; change them"),
        ("synthetic", ("--rates", 1, 0.5, 0), "above 0 and at most 1"),
        ("synthetic", ("--rates", 1, 0.5, 2), "above 0 and at most 1"),
        ("rated", ("--items", 5), "found --items"),
        ("synthetic", ("--set", "sharpness=inf"), "found sharpness=inf"),
        ("rated", ("--set", "scale=inf"), "found scale=inf"),
    ],
)  # fmt: skip
def test_a_world_that_cannot_be_is_one_sentence(
    source: str,
    options: tuple[object, ...],
    expected: str,
    folder: Path,
    tmp_path: Path,
    run: Run,
    unchanged: Callable[[], bool],
) -> None:
    plain = SMALL if source == "synthetic" else ()
    given = [str(each).replace("FOLDER", str(folder)) for each in (*plain, *options)]
    place = source if source == "synthetic" else folder / source
    outcome = run("simulate", place, "--out", tmp_path / "new", *given)
    assert one_sentence(outcome), (outcome.err, outcome.out)
    assert expected in outcome.err
    assert list(tmp_path.iterdir()) == []
    assert unchanged()


SIMULATE, ONLINE = ("simulate", "synthetic", "--out", "new"), ("online", "world", "erm")


@pytest.mark.parametrize(
    ("command", "option", "value"),
    [
        *((SIMULATE, "--users", 0), (SIMULATE, "--items", 1), (SIMULATE, "--seed", -1)),
        *((SIMULATE, "--exposure", "fame"), (SIMULATE, "--rates", "many")),
        (SIMULATE, "--preset", "wild"),
        *((ONLINE, "--k", 0), (ONLINE, "--days", 0), (ONLINE, "--seed", -1)),
        *((ONLINE, "--temperature", -1), (ONLINE, "--k", "ten")),
    ],
)
def test_bad_usage_names_the_option(
    command: tuple[str, ...], option: str, value: object, tmp_path: Path, run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    outcome = run(*command, option, value)
    assert one_sentence(outcome)
    assert f"counterplay: {option} must be " in outcome.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", [(), ("--overwrite",)])
@pytest.mark.parametrize("place", ["foreign", "erm", "rated", "bad.toml", "bad.toml/new"])
def test_what_is_no_world_is_never_replaced(
    place: str, option: tuple[str, ...], folder: Path, run: Run, unchanged: Callable[[], bool]
) -> None:
    outcome = run("simulate", "synthetic", "--out", folder / place, *SMALL, *option)
    assert one_sentence(outcome)
    assert unchanged()


def test_a_world_is_replaced_on_request_alone(folder: Path, tmp_path: Path, run: Run) -> None:
    place = tmp_path / "world"
    shutil.copytree(folder / "world", place)
    before = contents(tmp_path)
    assert one_sentence(run("simulate", "synthetic", "--out", place, *SMALL))
    again = run("simulate", "synthetic", "--out", place, *SMALL, "--overwrite", "--rates", 1)
    assert one_sentence(again)
    assert contents(tmp_path) == before
    done = run("simulate", "synthetic", "--out", place, *SMALL, "--overwrite", "--seed", 7)
    assert done.code == 0, done.err
    assert load_world(place).seed == 7
    assert cp.data.load(place / "log").propensity is None
    assert [path.name for path in tmp_path.iterdir()] == ["world"]


def test_the_place_is_looked_at_before_any_work(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a world was made")

    monkeypatch.setattr(Synthetic, "world", refuse)
    monkeypatch.setattr(TwoStage, "world", refuse)
    for source in ("synthetic", folder / "rated"):
        assert one_sentence(run("simulate", source, "--out", folder / "foreign"))


# online


def test_an_online_test_on_the_terminal(folder: Path, run: Run) -> None:
    options = ("--days", 3, "--k", 3, 5, "--seed", 2)
    outcome = run("online", folder / "world", folder / "erm", folder / "acl", *options)
    assert outcome.code == 0, outcome.err
    config = OnlineTest(n_days=3, k=(3, 5), seed=2)
    result = online_runs(folder / "world", [folder / "erm", folder / "acl"], config).to_dict()
    assert outcome.out.splitlines()[0] == "synthetic-history, 3 days; 95% intervals over users"
    arms, mark, changes = outcome.out.partition("difference to erm")
    assert mark
    for arm in result["arms"]:
        truth = {
            (each["metric"], each["k"]): f"{each['value']:.4f}"
            for each in result["truth"]
            if each["arm"] == arm["arm"]
        }
        rows = rows_of(arms, arm["arm"])
        assert len(rows) == len(arm["measures"]) == 5
        for row, each in zip(rows, arm["measures"], strict=True):
            assert row[1:4] == [f"{arm['n_users']:,}", f"{arm['n_sessions']:,}",
                                f"{each['metric']}@{each['k']}"]  # fmt: skip
            assert row[4:7] == [f"{each[key]:.4f}" for key in ("value", "low", "high")]
            expected = [] if each["metric"] == "ctr" else [truth[each["metric"], each["k"]]]
            assert row[7:] == expected
    rows = rows_of(changes, "acl")
    assert len(rows) == len(result["changes"]) == 5
    last = result["daily"][-1]["p_value"]
    for row, each in zip(rows, result["changes"], strict=True):
        assert row[2:5] == [f"{each[key]:+.4f}" for key in ("value", "low", "high")]
        assert row[5] == f"{each['p_value']:.4f}"
        looked = "–" if last is None else f"{last:.4f}"
        assert row[6:] == ([looked] if each["metric"] == "ctr" else [])


def test_what_is_written_is_what_is_printed(folder: Path, tmp_path: Path, run: Run) -> None:
    command = ("online", folder / "world", folder / "acl", folder / "erm", "--days", 2)
    out = tmp_path / "result.json"
    out.write_text("old")
    told = run(*command, "--out", out)
    assert told.code == 0, told.err
    assert f"written to  {out}" in told.out
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]
    printed = run(*command, "--json")
    assert read_json(out, "a result") == json.loads(printed.out)
    assert json.loads(printed.out)["control"] == "acl"
    both = run(*command, "--json", "--out", tmp_path / "again.json")
    assert both.out == printed.out
    assert (tmp_path / "again.json").read_bytes() == out.read_bytes()


def test_options_reach_the_test(folder: Path, tmp_path: Path, run: Run) -> None:
    (tmp_path / "test.toml").write_text("sessions_a_day = 2.0\nlevel = 0.5\n")
    outcome = run("online", folder / "world", folder / "erm", folder / "acl", "--json",
                  "--days", 2, "--k", 4, "--temperature", 0.5, "--shares", 0.8, 0.2, "--seed", 3,
                  "--config", tmp_path / "test.toml", "--set", "level=0.9")  # fmt: skip
    assert outcome.code == 0, outcome.err
    result = json.loads(outcome.out)
    expected = OnlineTest(n_days=2, k=(4,), temperature=0.5, shares=(0.8, 0.2), seed=3,
                          sessions_a_day=2.0, level=0.9, time=2.0)  # fmt: skip
    assert result["truth"] == []  # lists that are drawn are worth something else
    assert result["config"] == expected.model_dump(mode="json")
    assert result["arms"][0]["n_users"] > result["arms"][1]["n_users"]


def test_one_run_has_nothing_to_be_compared_with(folder: Path, run: Run) -> None:
    outcome = run("online", folder / "world", folder / "erm", "--days", 2)
    assert outcome.code == 0, outcome.err
    assert "difference to" not in outcome.out
    assert rows_of(outcome.out, "erm")[0][1] == "50"


def test_a_table_fits_into_80_columns(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console.out, "_width", 80)
    out = run("online", folder / "world", folder / "erm", folder / "acl").out
    assert max(len(line) for line in out.splitlines()) <= 80
    assert len(rows_of(out, "erm")) == 3
    assert len(rows_of(out, "acl")) == 3 + 3


PATHS = {"WORLD": "world", "OTHER": "other", "MORE": "more", "ERM": "erm", "ACL": "acl",
         "LOG": "world/log", "RATED": "rated", "FOLDER": ".", "FOREIGN": "foreign"}  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("absent ERM", "must hold a readable world.json"),
        ("ERM ERM", "must hold a readable world.json"),
        ("LOG ERM", "must hold a readable world.json"),
        ("WORLD absent", "must hold a readable run.json"),
        ("WORLD LOG", "must hold a readable run.json"),
        ("WORLD ERM ERM", "must be different runs"),
        ("WORLD ERM ACL ERM", "must be different runs"),
        ("WORLD ERM FOLDER/acl/../erm", "must be different runs"),
        ("OTHER ERM ACL", "trained on others, or on another split"),
        ("OTHER ERM ACL --data LOG", "must be the one that the data were drawn from"),
        ("MORE ERM ACL --data LOG", "must be the one that the data were drawn from"),
        ("WORLD ERM --data RATED", "a stored split is needed"),
        ("WORLD ERM --data absent", "must hold a readable dataset.json"),
        ("WORLD ERM ACL --k 11", "lists, 10; found k=11"),
        ("WORLD ERM ACL --k 3 11", "found k=11"),
        ("WORLD ERM ACL --shares 0.5 0.6", "in total 1; found [0.5, 0.6] for 2 arms"),
        ("WORLD ERM ACL --shares 1", "found [1.0] for 2 arms"),
        ("WORLD ERM ACL --shares 1 0", "found shares=0.0"),
        ("WORLD ERM ACL --temperature inf", "found temperature=inf"),
        ("WORLD ERM ACL --set n_dys=3", "did you mean 'n_days'"),
        ("WORLD ERM ACL --set level=1", "found level=1"),
        ("WORLD ERM ACL --set sessions_a_day=1e-9", "two users or more"),
        ("WORLD ERM ACL --config absent.toml", "must be a readable TOML file"),
        ("WORLD ERM --out absent/x.json", "--out must name a file in a folder that exists"),
        ("WORLD ERM --out FOREIGN", "--out must name a file in a folder that exists"),
    ],
)
def test_a_test_that_cannot_be_is_one_sentence(
    arguments: str, expected: str, folder: Path, tmp_path: Path, run: Run,
    unchanged: Callable[[], bool], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    given = []
    for word in arguments.split():
        first, *rest = word.split("/")
        given.append("/".join([str(folder / PATHS[first]), *rest]) if first in PATHS else word)
    out = () if "--out" in given else ("--out", tmp_path / "result.json")
    outcome = run("online", *given, *out)
    assert one_sentence(outcome), (outcome.err, outcome.out)
    assert expected in outcome.err
    assert list(tmp_path.iterdir()) == []
    assert unchanged()


# check-world


def test_a_world_is_checked(folder: Path, run: Run) -> None:
    outcome = run("check-world", folder / "world")
    assert outcome.code == 0, outcome.err
    world = load_world(folder / "world")
    findings = check_world(world)
    *lines, last = outcome.out.splitlines()
    assert len(lines) == len(findings) > 10
    for line, finding in zip(lines, findings, strict=True):
        assert line.split("  ")[0] == finding.name
        assert line.rstrip().endswith(f"holds: {finding.text}")
    assert last.split(maxsplit=1) == ["dials", world_dials(world).text]


def test_what_fails_is_named_and_exits_2(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds = []

    def found(world: object, *, seed: int) -> list[Finding]:
        seeds.append(seed)
        return [Finding("range", True, "fine"), Finding("clicks", False, "a; b; c"),
                Finding("refit", False, "d; e; f")]  # fmt: skip

    monkeypatch.setattr(checks, "check_world", found)
    outcome = run("check-world", folder / "world", "--seed", 6)
    assert seeds == [6]
    assert outcome.code == 2
    assert outcome.err == "counterplay: a; b; c\n"
    assert [line.split(maxsplit=1)[1].rstrip() for line in outcome.out.splitlines()] == [
        "holds: fine",
        "FAILS: a; b; c",
        "FAILS: d; e; f",
    ]


def test_the_findings_as_json(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = run("check-world", folder / "world", "--json")
    assert (outcome.code, outcome.err) == (0, "")
    world = load_world(folder / "world")
    findings, dials = check_world(world), world_dials(world)
    assert json.loads(outcome.out) == [
        *({"name": each.name, "ok": True, "text": each.text} for each in findings),
        {"name": "dials", "ok": True, "text": dials.text, "gamma": dials.gamma,
         "lambda": dials.lam},
    ]  # fmt: skip
    monkeypatch.setattr(
        checks, "check_world", lambda *_, **__: [Finding("range", False, "a; b; c")]
    )
    failing = run("check-world", folder / "world", "--json")
    assert (failing.code, failing.err) == (2, "counterplay: a; b; c\n")
    assert json.loads(failing.out) == [{"name": "range", "ok": False, "text": "a; b; c"}]


def changed(place: Path, **values: Any) -> None:
    place.write_text(json.dumps(json.loads(place.read_text()) | values))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "no world.json": lambda world: (world / "world.json").unlink(),
    "format": lambda world: changed(world / "world.json", format=99),
    "seed": lambda world: changed(world / "world.json", seed=99),
    "bits": lambda world: (world / "world.safetensors").write_bytes(
        (world / "world.safetensors").read_bytes()[:-1] + b"\7"
    ),
    "no users": lambda world: (world / "users.parquet").unlink(),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_world_is_one_sentence(kind: str, folder: Path, tmp_path: Path, run: Run) -> None:
    world = tmp_path / "world"
    shutil.copytree(folder / "world", world)
    DAMAGE[kind](world)
    before = contents(tmp_path)
    for command in (
        ("check-world", world),
        ("online", world, folder / "erm", "--out", tmp_path / "result.json"),
        ("evaluate", folder / "erm", "--world", world, "--out", tmp_path / "result.json"),
    ):
        outcome = run(*command)
        assert one_sentence(outcome), (outcome.err, outcome.out)
        assert f"'{world}" in outcome.err or "world.json" in outcome.err
    assert contents(tmp_path) == before


@pytest.mark.parametrize("place", ["absent", "erm", "world/log", "world/world.json"])
def test_what_is_no_world_is_one_sentence(place: str, folder: Path, run: Run) -> None:
    assert one_sentence(run("check-world", folder / place))


# evaluate and compare, with --world

ORACLE = ("--estimators", "oracle", "logged", "--set", "n_resamples=200", "--k", 5, 10)


def test_the_oracle_is_the_logged_propensity_up_to_a_constant(folder: Path, run: Run) -> None:
    """Without position bias they differ by the rate of the test's round alone."""
    outcome = run("evaluate", folder / "erm", "--world", folder / "world", *ORACLE, "--json")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)["estimates"]
    by_name = {
        name: {(each["metric"], each["k"]): each for each in found if each["estimator"] == name}
        for name in ("oracle", "logged")
    }
    assert len(by_name["oracle"]) == len(by_name["logged"]) == 3 * 2
    for key, oracle in by_name["oracle"].items():
        for part in ("value", "low", "high", "ess"):
            assert oracle[part] == pytest.approx(by_name["logged"][key][part], rel=1e-6)
    test = cp.data.load_split(folder / "world" / "log").test
    assert test.propensity is not None
    ratio = test.propensity / oracle_propensities(load_world(folder / "world"), test)
    assert ratio == pytest.approx(RATES[-1], rel=1e-6)


def test_the_oracle_compares_runs(folder: Path, run: Run) -> None:
    outcome = run("compare", folder / "erm", folder / "acl", "--world", folder / "world", *ORACLE,
                  "--json")  # fmt: skip
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)["comparisons"]
    oracle, logged = ([each for each in found if each["estimator"] == name]
                      for name in ("oracle", "logged"))  # fmt: skip
    assert len(oracle) == len(logged) == 3 * 2
    for one, other in zip(oracle, logged, strict=True):
        assert (one["metric"], one["k"]) == (other["metric"], other["k"])
        assert one["value"] == pytest.approx(other["value"], rel=1e-6, abs=1e-12)


def test_the_oracle_is_for_validation_rows_too(folder: Path, run: Run) -> None:
    outcome = run("evaluate", folder / "erm", "--world", folder / "world", *ORACLE, "--json",
                  "--part", "validation")  # fmt: skip
    found = json.loads(outcome.out)["estimates"]
    values = {(each["estimator"], each["metric"], each["k"]): each["value"] for each in found}
    for name, metric, k in values:
        if name == "oracle":
            assert values[name, metric, k] == pytest.approx(values["logged", metric, k], rel=1e-6)


def test_a_world_changes_nothing_but_the_oracle(folder: Path, run: Run) -> None:
    command = ("evaluate", folder / "erm", "--estimators", "standard", "popularity", "--json",
               "--set", "n_resamples=200")  # fmt: skip
    assert run(*command).out == run(*command, "--world", folder / "world").out


@pytest.mark.parametrize("command", [("evaluate", "ERM"), ("compare", "ERM", "ACL")])
@pytest.mark.parametrize(
    ("world", "expected"),
    [
        (None, "needs the world that the log was drawn from"),
        ("absent", "must hold a readable world.json"),
        ("erm", "must hold a readable world.json"),
        ("more", "must be the one that the data were drawn from"),
        ("other", "must be the one that the data were drawn from"),
    ],
)  # fmt: skip
def test_an_oracle_of_nothing_is_one_sentence(
    world: str | None, expected: str, command: tuple[str, ...], folder: Path, tmp_path: Path,
    run: Run,
) -> None:  # fmt: skip
    name, *runs = command
    option = () if world is None else ("--world", folder / world)
    outcome = run(name, *(folder / PATHS[each] for each in runs), "--estimator", "oracle",
                  "--out", tmp_path / "x.json", *option)  # fmt: skip
    assert one_sentence(outcome), (outcome.err, outcome.out)
    assert expected in outcome.err
    assert list(tmp_path.iterdir()) == []
