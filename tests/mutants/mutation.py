"""One-line mistakes, each made in a copy of the sources and run against the tests nearest to it.

A mutant is killed when a test fails or hangs. It is alive when all tests pass, and void when pytest
could not even run them: then the mutant proves nothing, and must be written anew.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("mutants.toml")
SECONDS = 180  # after which tests count as hanging
_COPIED = (
    *("src", "tests", "docs", "reproduction", "benchmarks/results"),
    *("README.md", "pyproject.toml"),
)
_PRELOADED = ["pyarrow", "pydantic", "scipy.stats", "torch._dynamo"]

Outcome = Literal["killed", "alive", "void"]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mistake: `old` stands once in `file`, and becomes `new`; `tests` must notice.

    Attributes:
        name: What the mistake does.
        file: Below `src/counterplay`.
        old: Text within one line.
        new: What takes its place.
        tests: Files below `tests` that are nearest to it, or single tests in them (`file::name`).
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def path(self) -> Path:
        """The mutated file, from the root."""
        return Path("src/counterplay") / self.file

    @property
    def test_paths(self) -> tuple[Path, ...]:
        """The files of the tests, from the root."""
        return tuple(Path("tests") / each.partition("::")[0] for each in self.tests)

    def applied(self, source: str) -> str:
        """Return the source with the mistake in it."""
        if source.count(self.old) != 1 or "\n" in self.old + self.new or self.old == self.new:
            raise ValueError(
                f"a mutant must change one place in one line; found {source.count(self.old)} "
                f"places for {self.old!r} in {self.file}; write {self.name!r} anew"
            )
        return source.replace(self.old, self.new)


def mutants(path: Path = LIST) -> list[Mutant]:
    """Return the list."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]
    return [Mutant(**entry | {"tests": tuple(entry["tests"])}) for entry in entries]


def concerned(chosen: Sequence[Mutant], changed: set[Path]) -> list[Mutant]:
    """Return the mutants whose file or tests have changed; all, where the list itself has."""
    if any(path.parts[:2] == ("tests", "mutants") for path in changed):
        return list(chosen)
    return [each for each in chosen if {each.path, *each.test_paths} & changed]


def changed_since(revision: str) -> set[Path]:
    """Return the files that differ between a revision and what is here."""
    command = ["git", "diff", "--name-only", "--relative", revision, "--"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return {Path(line) for line in found.stdout.splitlines()}


def try_all(
    chosen: Sequence[Mutant], work: Path, n_workers: int
) -> Iterator[tuple[Mutant | None, Outcome, str]]:
    """Yield each mutant with its outcome and what pytest said; first None, for no mistake at all.

    Tests that fail without a mistake would kill every mutant, so they are run without one first.
    """
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["COUNTERPLAY_DATA"] = str(work / "no-real-data")  # near tests are quick ones
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)  # most of what a test process would wait for

    def tried(number: int, mutant: Mutant | None) -> tuple[Mutant | None, Outcome, str]:
        copy, log = work / str(number), work / f"{number}.log"
        _copy_to(copy)
        tests = sorted({test for each in ([mutant] if mutant else chosen) for test in each.tests})
        if mutant is not None:
            file = copy / mutant.path
            file.write_text(mutant.applied(file.read_text(encoding="utf-8")), encoding="utf-8")
        process = context.Process(target=_test, args=(copy, tests, log))
        process.start()
        process.join(None if mutant is None else SECONDS)
        hanging = process.is_alive()
        process.kill()
        process.join()
        shutil.rmtree(copy)
        outcome: Outcome = "killed" if hanging or process.exitcode == 1 else "void"
        return mutant, "alive" if process.exitcode == 0 else outcome, log.read_text("utf-8")

    with ThreadPoolExecutor(n_workers) as workers:
        yield from workers.map(tried, range(len(chosen) + 1), [None, *chosen])


def _copy_to(folder: Path) -> None:
    for name in _COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=_ignored)
        else:
            shutil.copy(ROOT / name, folder / name)


def _ignored(folder: str, _: list[str]) -> set[str]:
    """Leave out what is compiled, and the many files beside results that no test reads."""
    large = {"data", "runs", "work"} if Path(folder).name == "results" else set()
    return {"__pycache__"} | large


def _test(copy: Path, tests: list[str], log: Path) -> None:
    """Run tests against a copy, in a process of their own, up to the first failure."""
    with log.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(copy)
    sys.path.insert(0, str(copy / "src"))
    import pytest

    options = ["--exitfirst", "--quiet", "--no-header", "-p", "no:cacheprovider"]
    code = pytest.main([*options, *(f"tests/{test}" for test in tests)])
    sys.stdout.flush()
    os._exit(int(code))
