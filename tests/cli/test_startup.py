"""What a command loads before it can refuse: helps and mistakes must not wait for torch."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from counterplay.cli.main import COMMANDS

NAMES = [name for modules in COMMANDS.values() for name in modules]
SLOW = {"torch", "scipy", "plotly", "optuna", "sklearn"}
AT_ONCE = SLOW | {"polars", "pyarrow", "numpy"}  # not needed to say that nothing is there
CODE = """
import contextlib, io, json, sys
known = set()
from counterplay.cli.main import main

for words in json.loads(sys.stdin.read()):
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            main(words.split())
    except SystemExit as ended:
        new, known = [name for name in sys.modules if name not in known], set(sys.modules)
        print(json.dumps([words, ended.code, said.getvalue(), new]))
"""


def loaded(folder: Path, commands: Iterable[str]) -> list[tuple[str, int, str, set[str]]]:
    """Run commands in one process; return the code of each, what it said, and what it loaded."""
    asked = list(commands)
    ended = subprocess.run(
        [sys.executable, "-c", CODE],
        input=json.dumps(asked),
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    told = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [words for words, *_ in told] == asked
    return [(words, code, said, set(modules)) for words, code, said, modules in told]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a log, a dataset directory and a run, as far as they are looked at."""
    place = tmp_path_factory.mktemp("mistakes")
    (place / "log.csv").write_text("uid,sku\n1,2\n")
    (place / "packed.csv.gz").write_bytes(gzip.compress(b"uid,sku\n1,2\n"))
    (place / "bad.csv").write_text("colour,shape\nred,round\n")
    for name in ("data/dataset.json", "game/run.json", "world/world.json", "study/study.json"):
        (place / name).parent.mkdir()
        (place / name).write_text("{}")
    return place


def test_help_loads_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    told = loaded(tmp_path, ["--help", *(f"{name} --help" for name in NAMES)])
    for words, code, said, modules in told:
        assert (words, code, said) == (words, 0, "")
        assert (words, modules & (AT_ONCE | {"pydantic"})) == (words, set())


def test_an_unknown_option_is_told_at_once(tmp_path: Path) -> None:
    told = loaded(tmp_path, [f"{name} --nonsense 1" for name in NAMES])
    for words, code, said, modules in told:
        assert (words, code, "found '--nonsense'" in said) == (words, 2, True)
        assert (words, modules & (AT_ONCE | {"pydantic"})) == (words, set())


WRONG_PATHS = [
    "run none.csv",
    "run log.csv --scores none.csv",
    "run log.csv --random-rows none.csv",
    "run log.csv --impressions none.csv",
    "prepare none.csv --out new",
    "prepare log.csv --user-features none.csv --out new",
    "train none --out new",
    "tune none --out new",
    "evaluate none",
    "evaluate game --data none",
    "evaluate game --world none",
    "evaluate game --random-rows none.csv",
    "evaluate --scores none.csv --data data",
    "compare game none",
    "compare game --scores none.csv",
    "recommend none --out new.parquet",
    "recommend game --out new.parquet --users none.csv",
    "export none --out new",
    "export game --out new --data none",
    "report none",
    "online none game",
    "online world none",
    "simulate none --out new",
    "check-world none",
]


def test_a_wrong_path_is_told_at_once(folder: Path) -> None:
    told = loaded(folder, WRONG_PATHS)
    for words, code, said, modules in told:
        assert (words, code, "none" in said, said.count("\n")) == (words, 2, True, 1)
        assert (words, modules & AT_ONCE) == (words, set())


WRONG_COLUMNS = {
    "look log.csv --user nope": "a column 'nope' for the user",
    "look packed.csv.gz --format csv --user nope": "a column 'nope' for the user",
    "prepare log.csv --user nope --out new": "a column 'nope' for the user",
    "prepare log.csv --out new --impressions bad.csv": "a column for the user",
    "run log.csv --user nope": "a column 'nope' for the user",
    "run bad.csv": "a column for the user",
    "run log.csv --scores log.csv": "found columns uid, sku",
    "run log.csv --random-rows log.csv": "random rows must say in a column 'clicked'",
    "train data --out new --set training.nope=1": "found 'training.nope'",
    "train data --out new --method rd --set training.nope=1": "found 'training.nope'",
    "evaluate game --random-rows log.csv": "random rows must say in a column 'clicked'",
    "evaluate --scores log.csv --data data": "found columns uid, sku",
    "compare game --scores log.csv": "found columns uid, sku",
}


def test_a_wrong_column_is_told_at_once(folder: Path) -> None:
    told = loaded(folder, WRONG_COLUMNS)
    for words, code, said, modules in told:
        assert (words, code, said.count("\n")) == (words, 2, 1)
        assert WRONG_COLUMNS[words] in said
        assert (words, modules & AT_ONCE) == (words, set())


WRONG_WORDS = {
    "run log.csv --model nope": "found 'nope'",
    "run log.csv --candidates nope": "found 'nope'",
    "run log.csv --set training.nope=1": "found 'training.nope'",
    "run log.csv --set evaluation.nope=1": "found 'evaluation.nope'",
    "run log.csv --config none.toml": "found no file at 'none.toml'",
    "prepare log.csv --out data": "found something at",
    "train data --out new --method nope": "found 'nope'",
    "train data --out new --candidate nope": "found 'nope'",
    "train data --out game": "found something at",
    "tune data --out new --methods nope": "found 'nope'",
    "tune data --out new --set space.nope=1": "found 'space.nope'",
    "evaluate game --estimators nope": "found 'nope'",
    "evaluate game --set nope=1": "found 'nope'",
    "compare game": "found game",
    "recommend game --out new.csv --users log.csv": "a column 'user'; found only uid, sku",
    "recommend study --out new.csv": "'study/study.json'",
    "online world game --set nope=1": "found 'nope'",
    "simulate synthetic --out new --set nope=1": "found 'nope'",
    "simulate data --out new --set nope=1": "found 'nope'",
}


def test_a_wrong_setting_or_column_is_told_before_anything_slow_is_loaded(folder: Path) -> None:
    told = loaded(folder, WRONG_WORDS)
    for words, code, said, modules in told:
        assert (words, code, said.count("\n")) == (words, 2, 1)
        assert WRONG_WORDS[words] in said
        assert (words, modules & SLOW) == (words, set())


def test_a_log_beside_impressions_may_have_a_column_of_random_rows(tmp_path: Path) -> None:
    (tmp_path / "clicks.csv").write_text("uid,sku,random\n1,2,1\n2,3,0\n1,3,0\n")
    (tmp_path / "shown.csv").write_text("uid,sku\n1,2\n2,3\n")
    told = loaded(tmp_path, ["look clicks.csv --impressions shown.csv"])
    assert [(code, "random rows must say" in said) for _, code, said, _ in told] == [(0, False)]
