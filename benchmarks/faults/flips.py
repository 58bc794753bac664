"""One bit of a stored file is flipped: whoever reads it must say so, in one sentence."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import counterplay as cp
from benchmarks.faults.campaign import command, emptied, rng_of, said_wrongly, started
from benchmarks.faults.logs import write_log

if TYPE_CHECKING:
    from pathlib import Path

_SETTINGS = ["--epochs", "3", "--seed", "3", "--dim", "4"]
_BROKEN_OFF = 1  # the epoch after which a training is broken off, for its checkpoint
# Where files are, which of them, and the command that reads all of those.
READ_BY = {
    "data": (["*"], ["evaluate", "run", "--data", "data"]),
    "run": (["*"], ["evaluate", "run", "--data", "data"]),
    "broken-off": (["**/*"], ["train", "data", "--out", "broken-off", "--resume", *_SETTINGS]),
    "study": (["*.json", "runs/*/run.json"], ["report", "study", "--out", "page.html"]),
    "world": (["*"], ["check-world", "world"]),
}


class Flips:
    """Flip number n: which file and which bit follow from the seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def prepare(self, folder: Path) -> None:
        """Make one of each."""
        given = emptied(folder / "given")
        write_log(given / "log.csv", rng_of(self.seed, "log"))
        for words in (
            ["prepare", "log.csv", "--out", "data"],
            ["train", "data", "--out", "run", *_SETTINGS],
            ["run", "log.csv", "--out", "study", "--epochs", "2", "--seed", "3"],
            ["simulate", "synthetic", "--out", "world", "--users", "60", "--set", "n_shown=15"],
        ):
            process = started(_in_folder, given, words, log=folder / "words")
            process.join(300)
            if process.exitcode != 0:
                raise RuntimeError((folder / "words").read_text())
        process = started(_break_off, given, log=folder / "words")
        process.join(300)

    def try_case(self, number: int, folder: Path) -> dict[str, Any]:
        """Flip a bit in a copy, and read it."""
        rng = rng_of(self.seed, "flips", number)
        here = folder / "here"
        shutil.rmtree(here, ignore_errors=True)
        shutil.copytree(folder / "given", here)
        what = list(READ_BY)[number % len(READ_BY)]
        patterns, words = READ_BY[what]
        files = sorted(
            each
            for pattern in patterns
            for each in (here / what).glob(pattern)
            if each.is_file() and each.stat().st_size
        )
        path = files[int(rng.integers(len(files)))]
        content = bytearray(path.read_bytes())
        place, bit = int(rng.integers(len(content))), int(rng.integers(8))
        content[place] ^= 1 << bit
        path.write_bytes(content)
        process = started(_in_folder, here, words, log=folder / "words")
        process.join(120)
        process.kill()
        said = (folder / "words").read_text(errors="replace")
        fault = said_wrongly(said)
        where = f"{path.relative_to(here)}, byte {place}, bit {bit}"
        if not fault and process.exitcode != 2:
            fault = f"exit code {process.exitcode} at {where}: {said.strip()[-200:]}"
        if not fault and said.strip().count("\n"):
            fault = f"more than one line at {where}: {said.strip()[-300:]}"
        return {"outcome": f"{what}, exit code {process.exitcode}", "where": where, "fault": fault}


def _in_folder(folder: Path, words: list[str]) -> None:
    import os

    os.chdir(folder)
    command(*words)


def _break_off(folder: Path) -> None:
    """Train up to an epoch, and break off as an interruption would."""
    import os

    from counterplay.learning.records import Epoch
    from counterplay.runs.config import run_config

    def stop(epoch: Epoch) -> None:
        if epoch.epoch == _BROKEN_OFF:
            raise KeyboardInterrupt

    os.chdir(folder)
    options = {"training.epochs": 3, "training.seed": 3, "candidate.dim": 4, "exposure.dim": 4}
    cp.train("data", "broken-off", run_config(options=options), callbacks=[stop])
