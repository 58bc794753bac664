from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp
from counterplay.cli.arguments import check_out, spread
from counterplay.evaluation.estimators import ESTIMATORS

NUMBERS, NAMES = ("5", "10", "0.5", ".25"), tuple(ESTIMATORS)
OPTIONS = {"--k": NUMBERS, "--gamma": NUMBERS, "--rates": NUMBERS, "--shares": NUMBERS,
           "--estimator": NAMES, "--estimators": NAMES}  # fmt: skip
OTHERS = ("evaluate", "runs/erm", "--out", "x.json", "--seed", "--", "--json")
words = st.lists(st.sampled_from([*OPTIONS, *NUMBERS, *NAMES, *OTHERS]), max_size=12)


@pytest.mark.parametrize(
    ("given_", "read"),
    [
        ("--k 5 10 20", "--k 5 --k 10 --k 20"),
        ("--k 5 --k 10", "--k 5 --k 10"),
        ("--rates 1 0.1 .5 --out world", "--rates 1 --rates 0.1 --rates .5 --out world"),
        ("--shares 0.9 0.1 --k 5", "--shares 0.9 --shares 0.1 --k 5"),
        ("--gamma 1.5 2 world erm", "--gamma 1.5 --gamma 2 world erm"),
        (
            "--estimators standard opponent run",
            "--estimators standard --estimators opponent run",
        ),
        ("--estimator oracle standard", "--estimator oracle --estimator standard"),
        ("--k 5 -- 10", "--k 5 -- 10"),  # what stands behind it is an argument: a run called 10
        ("--k 5 --seed 3 10", "--k 5 --seed 3 10"),
        ("--seed 3 4", "--seed 3 4"),
        ("--k standard 5", "--k standard 5"),
        ("--estimators standard 5", "--estimators standard 5"),
        ("--k 5x 10", "--k 5x 10"),
        ("--k", "--k"),
        ("", ""),
    ],
)
def test_values_in_a_row(given_: str, read: str) -> None:
    assert spread(given_.split()) == read.split()


@given(words)
def test_what_is_added_are_the_options_of_the_values(arguments: list[str]) -> None:
    """Read it again, word by word: a value belongs to the last option if it could."""
    expected: list[str] = []
    option, first = "", True
    for word in arguments:
        if word in OPTIONS:
            option, first = word, True
        elif option and word in OPTIONS[option]:
            if not first:
                expected.append(option)
            first = False
        else:
            option = ""
        expected.append(word)
    assert spread(arguments) == expected


@pytest.mark.parametrize("number", ["1e-3", "1.", "1E2"])
def test_numbers_in_other_spellings(number: str) -> None:
    assert spread(["--rates", "1", number]) == ["--rates", "1", "--rates", number]


def test_a_place_that_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "old.json").write_text("old")
    monkeypatch.chdir(tmp_path)
    for place in (None, tmp_path / "new.json", tmp_path / "old.json", Path("new.json")):
        check_out(place)
    assert [path.name for path in tmp_path.iterdir()] == ["old.json"]  # only looked at


@pytest.mark.parametrize("place", ["", ".", "folder", "absent/x.json", "file/x.json", "/"])
def test_a_place_that_cannot(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(cp.ConfigError, match=r"^--out must name a file .*; found '.*'; name"):
        check_out(Path(place))
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "file"}
