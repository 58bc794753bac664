from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import counterplay
import counterplay as cp
from counterplay.data.datasets import DATASETS, Dataset, dataset, dataset_at, read_dataset

from .conftest import LAYOUTS

Make = Callable[..., Path]
Refused = Callable[..., AbstractContextManager[None]]

NAMES = list(LAYOUTS)
SPLIT = ("coat", "yahoo-r3", "kuairec")  # with a split of their own
every_name = pytest.mark.parametrize("name", NAMES)
every_dataset = pytest.mark.parametrize("each", DATASETS.values(), ids=list(DATASETS))


def test_names_are_those_that_users_know() -> None:
    assert {
        *("ml-1m", "ml-100k", "lastfm", "goodreads", "goodbooks", "movietweetings", "coat"),
        *("open-bandit", "mind", "finn-slates", "ml-latest-small", "ml-20m", "ml-32m"),
        *("yahoo-r3", "kuairec", "kuairand", "amazon-2023"),
    } <= DATASETS.keys()


def test_read_dataset_is_a_public_name() -> None:
    assert counterplay.data.read_dataset is read_dataset


@every_dataset
def test_a_dataset_says_what_it_is_and_on_what_terms(each: Dataset) -> None:
    assert DATASETS[each.name] is each
    assert dataset(each.name) is each
    for text in (each.title, each.rows, each.licence, each.citation):
        assert text.strip() == text != ""
    assert any(year in each.citation for year in map(str, range(2005, 2030)))


@every_dataset
def test_files_come_from_addresses_that_cannot_be_tampered_with(each: Dataset) -> None:
    assert each.remotes or each.page.startswith("https://")
    assert len({remote.name for remote in each.remotes}) == len(each.remotes)
    for remote in each.remotes:
        assert urlsplit(remote.url).scheme == "https"
        assert urlsplit(remote.url).path.endswith(f"/{remote.name}")
        assert Path(remote.name).suffix in {".zip", ".gz", ".dat", ".npz"}
        assert len(remote.sha256) in {0, 64}
        assert set(remote.sha256) <= set("0123456789abcdef")


@every_name
def test_a_dataset_is_recognised_by_its_files_and_read_by_its_name(make: Make, name: str) -> None:
    assert dataset_at(make(name)) is DATASETS[name]
    calls: list[tuple[int, int | None]] = []
    read = read_dataset(name, str(make(name)), progress=lambda *call: calls.append(call))
    assert isinstance(read, cp.Split if name in SPLIT else cp.Interactions)
    log = read.interactions if isinstance(read, cp.Split) else read
    assert log.name.startswith(name)
    assert calls[-1][0] == len(log)


def test_a_review_file_is_recognised_by_its_name(make: Make) -> None:
    (file,) = make("goodreads").iterdir()
    assert dataset_at(file) is DATASETS["goodreads"]


def test_anything_else_is_not_recognised(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("user,item\n1,2\n")
    assert dataset_at(tmp_path) is None
    assert dataset_at(tmp_path / "log.csv") is None
    assert dataset_at(tmp_path / "absent") is None


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("ml-1m", "ml-1m"),
        ("ml-100k", "ml-100k"),
        ("lastfm-2k", "lastfm"),
        ("goodbooks-10k-subset", "goodbooks"),
        ("movietweetings-100k", "movietweetings"),
        ("coat", "coat"),
        ("obd/bts/women", "open-bandit"),
    ],
)
def test_a_real_folder_is_recognised(
    real_data: Callable[[str], Path], folder: str, name: str
) -> None:
    assert dataset_at(real_data(folder)) is DATASETS[name]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("ml1m", ["did you mean 'ml-1m'"]),
        ("good-books", ["did you mean 'goodbooks'"]),
        ("last.fm", ["did you mean 'lastfm'"]),
        ("xyzzy", NAMES),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest_before_its_path_is_looked_at(
    tmp_path: Path, refused: Refused, wrong: str, words: list[str]
) -> None:
    with refused(f"'{wrong}'", *words, error=cp.ConfigError):
        read_dataset(wrong, tmp_path / "absent")


@every_name
def test_a_place_without_its_files_is_refused(tmp_path: Path, refused: Refused, name: str) -> None:
    with refused(str(tmp_path / "absent"), f"counterplay download {name}"):
        read_dataset(name, tmp_path / "absent")
    with refused(str(tmp_path)):
        read_dataset(name, tmp_path)
    file = tmp_path / "notes.txt"
    file.write_text("not a dataset\n")
    with refused(str(file)):
        read_dataset(name, file)


def test_two_datasets_with_the_same_files_are_told_apart(tmp_path: Path) -> None:
    firsts = {"ml-1m": "1::Toys (1995)::Drama\n", "movietweetings": "0002844::A::B\n"}
    for name, first in firsts.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "movies.dat").write_text(first)
        assert dataset_at(tmp_path / name) is DATASETS[name]
