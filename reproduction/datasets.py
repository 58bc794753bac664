"""How data are prepared for the tables: real logs, and worlds that are made of them."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from counterplay.data.datasets import dataset_at
from counterplay.data.directory import save
from counterplay.data.filters import without_duplicates
from counterplay.data.preparation import Preparation, prepare
from counterplay.data.publishing import new_directory
from counterplay.data.splits import Split, leave_last_two_out
from counterplay.errors import ConfigError, CounterplayWarning, DataError
from counterplay.simulation.authors import Authors
from counterplay.simulation.store import save_world
from counterplay.simulation.store import source_of as source_of_world
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.two_stage import TwoStage
from counterplay.simulation.writing import write_world

if TYPE_CHECKING:
    from pathlib import Path

    from counterplay.data.interactions import Interactions
    from counterplay.simulation.authors import SecondStage

# The paper's filter; MovieLens-1M came filtered.
_FILTER = {"items_above": 20, "users_above": 20, "users_below": 1000}
DISTINCT = "-distinct"
RATES = (1.0, 0.02, 0.1)  # of a world's rounds: training, validation, test
_SMALL_RATES = (1.0, 0.1, 0.5)  # of a synthetic world's, whose rounds have fewer clicks
SYNTHETIC = "synthetic"  # worlds that are made of nothing
AUTHORS = "-authors"  # worlds as the paper's public code makes them, the second stage forgotten
AUTHORS_USED = "-authors-used"  # the same, with held-out rows by the second stage
_WORLD = re.compile(r"(?P<source>.+)-world-(?P<seed>\d+)")


class Source(NamedTuple):
    """A public dataset, under the paper's filter or as it is."""

    title: str
    filtered: bool


SOURCES = {
    "ml-1m": Source("MovieLens-1M", filtered=False),
    "lastfm": Source("LastFM", filtered=True),
    "goodbooks": Source("goodbooks-10k", filtered=True),
    "goodreads": Source("Goodreads", filtered=True),
    f"ml-1m{AUTHORS}": Source("MovieLens-1M, the authors' worlds", filtered=False),
    f"ml-1m{AUTHORS_USED}": Source("The authors' worlds, second stage used", filtered=False),
    SYNTHETIC: Source("Synthetic worlds", filtered=False),
    "ml-100k": Source("MovieLens-100K", filtered=False),
    "coat": Source("Coat", filtered=False),
    "open-bandit": Source("Open Bandit", filtered=False),
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where public data lie, and where what is made of them goes."""

    data: Path
    out: Path

    def found(self, source: str) -> Path | None:
        """Return the folder of a public dataset, None where it is not there."""
        return _public(self.data).get(source)

    def has(self, source: str) -> bool:
        """Tell whether what data are made of is there; synthetic worlds need nothing."""
        return source == SYNTHETIC or self.found(public_name(source)) is not None

    def prepared(self, data: str) -> Path:
        """Return the folder of prepared data; a world's log is in it."""
        return self.out / "data" / data

    def world(self, data: str) -> Path:
        """Return the folder of a world."""
        folder = self.prepared(data)
        return folder / "world" if is_authors(data) else folder

    def log(self, data: str) -> Path:
        """Return the dataset directory to train on."""
        return self.prepared(data) / "log" if is_world(data) else self.prepared(data)


@lru_cache
def _public(data: Path) -> dict[str, Path]:
    """Return the public datasets in a folder, by name; Open Bandit has folders within its own."""
    found = {
        known.name: folder
        for folder in sorted([data, *data.iterdir()])
        if (known := dataset_at(folder)) is not None
    }
    for path in data.glob("*/random/all/item_context.csv"):
        found["open-bandit"] = path.parents[2]
    return found


def check_data(folder: Path) -> None:
    """Refuse a place for data that is none."""
    if not folder.is_dir():
        raise DataError(
            "--data must be a folder with public datasets, each in a folder of its own; found none "
            f"at '{folder}'; name another, or fetch some with counterplay download"
        )


def world_of(source: str, seed: int) -> str:
    """Return the name of a world, two-stage or synthetic."""
    return f"{source}-world-{seed}"


def is_world(data: str) -> bool:
    """Tell whether data are the log of a world."""
    return _WORLD.fullmatch(data) is not None


def is_authors(data: str) -> bool:
    """Tell whether data are the log of a world of the authors."""
    return is_world(data) and public_name(source_of(data)) != source_of(data)


def source_of(data: str) -> str:
    """Return what prepared data are made of: a public dataset, or nothing."""
    world = _WORLD.fullmatch(data)
    return world["source"] if world else data.removesuffix(DISTINCT)


def public_name(source: str) -> str:
    """Return the public dataset that the authors' worlds are made of; of others, itself."""
    return source.removesuffix(AUTHORS_USED).removesuffix(AUTHORS)


def make(data: str, place: Place) -> None:
    """Prepare data, unless they are there.

    Logs are split by leave-last-two-out, or at random where there are no times. Distinct data keep
    the first event of a pair, among the users and items that the paper's filter leaves. A world's
    last round is the test, so that the weight of a test row is known.
    """
    if place.prepared(data).exists():
        return
    world = _WORLD.fullmatch(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CounterplayWarning)  # pages say how data are split
        if world:
            seed, source = int(world["seed"]), world["source"]
            if public_name(source) != source:
                write_authors(source, seed, place, place.prepared(data))
                return
            if source == SYNTHETIC:
                made, rates = Synthetic(seed=seed).world(), _SMALL_RATES
            else:
                made, rates = TwoStage(seed=seed).world(whole(source, place)), RATES
            write_world(made, place.prepared(data), rates=rates)
        else:
            save(_split(data, place), place.prepared(data))


def write_authors(source: str, seed: int, place: Place, out: Path) -> None:
    """Write a world of the authors, what it is judged by, what held-out rows are from, its log."""
    second: SecondStage = "used" if source.endswith(AUTHORS_USED) else "forgotten"
    made = Authors(seed=seed, second_stage=second).stages(whole(public_name(source), place))
    with new_directory(out) as folder:
        save_world(made.world, folder / "world")
        save_world(made.held_out, folder / "held-out")
        save_world(made.judge, folder / "judge")
        log = replace(made.split.interactions, source=source_of_world(folder / "world"))
        save(replace(made.split, interactions=log), folder / "log")


@lru_cache(maxsize=2)
def whole(source: str, place: Place) -> Interactions:
    """Return a public dataset, filtered, without a split."""
    found = prepare(public_folder(source, place), _plan(source, "none"))
    return found.interactions if isinstance(found, Split) else found


def _split(data: str, place: Place) -> Split:
    source = source_of(data)
    if data != source:
        return leave_last_two_out(without_duplicates(whole(source, place), "first"))
    found = prepare(public_folder(source, place), _plan(source, "auto"))
    assert isinstance(found, Split)
    return found


def _plan(source: str, split: str) -> Preparation:
    filters = _FILTER if SOURCES[source].filtered else {}
    return Preparation.model_validate({"split": split, **filters})


def public_folder(source: str, place: Place) -> Path:
    """Return the folder of a public dataset, which must be there."""
    if source not in SOURCES:
        raise ConfigError(
            f"data must be made of {', '.join(SOURCES)}; found '{source}'; choose one of them"
        )
    folder = place.found(source)
    if folder is None:
        raise DataError(
            f"{SOURCES[source].title} must be there to be read; found it nowhere in "
            f"'{place.data}'; fetch it with counterplay download {source}"
        )
    return folder
