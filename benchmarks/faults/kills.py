"""Commands that are killed at a random moment, run again, and must end in the same bytes."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from pathlib import Path
from typing import Any

from benchmarks.faults.campaign import command, emptied, rng_of, said_wrongly, started
from benchmarks.faults.logs import write_log

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
EXITS = {signal.SIGTERM: 143, signal.SIGINT: 130}
# How often each is killed: where most can go wrong, most often.
COMMANDS = ("prepare", "overwrite", "train", "train", "run", "tune", "recommend", "export")
_SETTINGS = ["--epochs", "4", "--seed", "3"]
_ONCE = ("prepare", "export")  # what they have written they do not write again


class Kills:
    """Kill number n: which command, which signal and when follow from the seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.wanted: dict[str, dict[str, str]] = {}
        self.seconds: dict[str, float] = {}

    def prepare(self, folder: Path) -> None:
        """Make the log, a dataset and a run; then each result undisturbed, twice."""
        given = emptied(folder / "given")
        write_log(given / "log.csv", rng_of(self.seed, "log"))
        write_log(given / "other.csv", rng_of(self.seed, "other"))
        for words in (
            ["prepare", str(given / "log.csv"), "--out", str(given / "data")],
            ["train", str(given / "data"), "--out", str(given / "run"), *_SETTINGS],
        ):
            _finished(words, folder)
        for name in dict.fromkeys(COMMANDS):
            for _ in range(2):
                self._begin(name, folder)
                begun = time.monotonic()
                _finished(_words(name, folder), folder)
                self.seconds[name] = time.monotonic() - begun
                found = snapshot(folder / "out")
                if self.wanted.setdefault(name, found) != found:
                    raise RuntimeError(f"{name} must end in the same bytes twice")

    def try_case(self, number: int, folder: Path) -> dict[str, Any]:
        """Kill, look at what is there, run again, compare."""
        rng = rng_of(self.seed, "kills", number)
        name = COMMANDS[number % len(COMMANDS)]
        sign = SIGNALS[int(rng.integers(len(SIGNALS)))]
        log, ended = folder / "words", True
        while ended:  # a command that was quicker than the moment is begun again
            self._begin(name, folder)
            after = float(rng.uniform(0, self.seconds[name]))
            process = started(command, *_words(name, folder), log=log)
            process.join(after)
            ended = not process.is_alive()
            self.seconds[name] *= 0.8 if ended else 1
        os.kill(process.pid, sign)
        process.join(120)
        first = log.read_text(errors="replace")
        fault = said_wrongly(first)
        early = process.exitcode == -sign and not first  # it had not begun to listen to signals
        if not fault and sign in EXITS and process.exitcode not in (0, EXITS[sign]) and not early:
            fault = f"exit code {process.exitcode} after {sign.name}: {first.strip()[-200:]}"
        if name == "overwrite" and not fault:  # at every moment there is a whole dataset
            fault = _loads(folder / "out" / "result", folder)
        if not fault:
            fault = self._run_again(name, folder, log)
        fault = fault or _difference(self.wanted[name], snapshot(folder / "out"))
        return {"outcome": f"{name}, {sign.name}", "after": round(after, 3), "fault": fault}

    def _run_again(self, name: str, folder: Path, log: Path) -> str | None:
        """Give the command once more; return what is wrong with what it says."""
        refused = name in _ONCE and (folder / "out" / "result").exists()
        words = [*_words(name, folder), *(["--resume"] if name == "train" else [])]
        again = started(command, *words, log=log)
        again.join(300)
        said = log.read_text(errors="replace")
        if again.exitcode != (2 if refused else 0):
            return f"exit code {again.exitcode} when run again: {said.strip()[-300:]}"
        return said_wrongly(said)

    def _begin(self, name: str, folder: Path) -> None:
        emptied(folder / "out")
        if name == "overwrite":
            given = folder / "given"
            out = str(folder / "out" / "result")
            _finished(["prepare", str(given / "other.csv"), "--out", out], folder)


def _words(name: str, folder: Path) -> list[str]:
    given, out = folder / "given", str(folder / "out" / "result")
    log, data, run = str(given / "log.csv"), str(given / "data"), str(given / "run")
    return {
        "prepare": ["prepare", log, "--out", out],
        "overwrite": ["prepare", log, "--out", out, "--overwrite"],
        "train": ["train", data, "--out", out, "--dim", "8", *_SETTINGS],
        "run": ["run", log, "--out", out, *_SETTINGS],
        "tune": ["tune", data, "--out", out, "--methods", "erm", "--trials", "2", *_SETTINGS],
        "recommend": ["recommend", run, "--out", f"{out}.parquet"],
        "export": ["export", run, "--out", out],
    }[name]


def snapshot(folder: Path) -> dict[str, str]:
    """Return the digest of every file below a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if not path.is_dir()
    }


def _difference(wanted: dict[str, str], found: dict[str, str]) -> str | None:
    if left := sorted(found.keys() - wanted.keys()):
        return f"left behind {', '.join(left)}"
    if missing := sorted(wanted.keys() - found.keys()):
        return f"lost {', '.join(missing)}"
    other = [name for name in wanted if wanted[name] != found[name]]
    return f"other bytes in {', '.join(other)}" if other else None


def _finished(words: list[str], folder: Path) -> None:
    process = started(command, *words, log=folder / "words")
    process.join(300)
    if process.exitcode != 0:
        said = (folder / "words").read_text(errors="replace")
        raise RuntimeError(f"{' '.join(words)} must run undisturbed; found {said}")


def _loads(data: Path, folder: Path) -> str | None:
    process = started(_load, data, log=folder / "loading")
    process.join(60)
    if process.exitcode == 0:
        return None
    return f"no whole dataset was there: {(folder / 'loading').read_text().strip()[-200:]}"


def _load(data: Path) -> None:
    import counterplay as cp

    cp.data.load_split(data)
