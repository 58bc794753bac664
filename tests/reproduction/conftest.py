"""A folder with small invented datasets in the official layouts, and a plan that is quick."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from counterplay.cli import console
from counterplay.cli.main import main
from reproduction.__main__ import NAME, app
from reproduction.experiments import EXPERIMENTS
from reproduction.experiments import app as experiments
from reproduction.jobs import Plan
from reproduction.reproduce import Reproduction

torch.set_num_threads(1)  # the models are tiny, and tests run side by side

N_USERS, N_ITEMS, N_EACH = 240, 170, 26


def rows(*, repeating: bool = False) -> list[tuple[int, int, int, int]]:
    """User, item, rating and time; users like items of their own parity."""
    rng = np.random.default_rng(0)
    found = []
    for user in range(1, N_USERS + 1):
        taste = np.where(np.arange(N_ITEMS) % 2 == user % 2, 3.0, 1.0)
        items = rng.choice(N_ITEMS, N_EACH, replace=repeating, p=taste / taste.sum())
        for place, item in enumerate(items):
            liked = 4 if item % 2 == user % 2 else 2
            found.append((user, int(item) + 1, liked + int(rng.integers(2)), 1000 * user + place))
    return found


@pytest.fixture(scope="session")
def public(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that --data names: MovieLens-1M, LastFM and goodbooks; no Goodreads."""
    folder = tmp_path_factory.mktemp("public")
    for name in ("movies", "music", "books"):
        (folder / name).mkdir()
    movies = [f"{item}::Film {item} (1999)::Drama\n" for item in range(1, N_ITEMS + 1)]
    (folder / "movies" / "movies.dat").write_text("".join(movies))
    users = [f"{user}::F::25::4::01234\n" for user in range(1, N_USERS + 1)]
    (folder / "movies" / "users.dat").write_text("".join(users))
    ratings = [f"{user}::{item}::{rating}::{time}\n" for user, item, rating, time in rows()]
    (folder / "movies" / "ratings.dat").write_text("".join(ratings))
    tags = [
        f"{user}\t{item}\t1\t{1_200_000_000_000 + 1000 * time}\r\n"
        for user, item, _, time in rows(repeating=True)
    ]
    header = "userID\tartistID\ttagID\ttimestamp\r\n"
    (folder / "music" / "user_taggedartists-timestamps.dat").write_text(header + "".join(tags))
    books = [f"{user},{item},{rating}\n" for user, item, rating, _ in rows()]
    (folder / "books" / "ratings.csv").write_text("user_id,book_id,rating\n" + "".join(books))
    return folder


def small(**changes: int) -> Plan:
    """A plan that takes next to no time, with changes."""
    return Plan(**({"seeds": 2, "trials": 2, "epochs": 2, "patience": 2, "dim": 4} | changes))


@pytest.fixture(scope="session")
def plan() -> Callable[..., Plan]:
    return small


@pytest.fixture(scope="session")
def finished(public: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two methods of the second table, GMF and its game, on one dataset."""
    out = tmp_path_factory.mktemp("finished")
    for only in ("ml-1m/gmf", "ml-1m/acl-gmf-stable"):
        Reproduction("table2", public, out, small(), [only]).run()
    return out


class Outcome(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


Run = Callable[..., Outcome]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `python -m reproduction` in this process."""
    monkeypatch.setattr(console.out, "_width", 200)

    def run_command(*arguments: object) -> Outcome:
        words = [str(argument) for argument in arguments]
        with pytest.raises(SystemExit) as caught:
            main(words, experiments if words[0] in EXPERIMENTS else app, NAME)
        assert isinstance(caught.value.code, int)
        return Outcome(caught.value.code, *capsys.readouterr())

    return run_command
