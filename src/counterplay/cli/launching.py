"""Where a command runs: several times on this machine, as workers, or its jobs elsewhere."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from counterplay.cli import console, signals
from counterplay.errors import ConfigError
from counterplay.groups import PARENT, PLACES, SECONDS, SHARDS, TIMEOUT, check_shards

if TYPE_CHECKING:
    from collections.abc import Iterator

    from counterplay.data.jobs import Executor

_GRACE = 10.0  # seconds beyond the workers' own timeout, in which they say what happened
_LEAVE = 5.0  # seconds to end in when asked to
_LOOK = 0.05  # seconds between two looks at them


@contextmanager
def jobs_run(workers: int | None, *, ray: bool) -> Iterator[Executor]:
    """Give what runs jobs: this process, several processes, or a Ray cluster."""
    from counterplay.data.jobs import in_turn, on_ray, processes

    if ray and workers is not None:
        raise ConfigError(
            "jobs run in processes or on Ray; found both --workers and --ray; leave one out"
        )
    if workers in (None, 1):
        yield on_ray() if ray else in_turn
    else:
        with processes(workers) as executor:
            yield executor


def check_place(out: Path | None, *, ray: bool) -> None:
    """Refuse jobs on other machines that have nowhere to leave what they make."""
    if ray and out is None:
        raise ConfigError(
            "jobs on Ray leave what they make beside the output; found --ray without --out; name a "
            "file where all nodes see it"
        )


def shards_for(shards: int | None, workers: int | None, *, ray: bool) -> int | None:
    """Return how many jobs users are cut into: as many as asked for, else enough for workers."""
    return shards or (None if workers is None and not ray else SHARDS)


def check_size(n: int | None) -> None:
    """Refuse another number of workers than those that this process was started with."""
    size = os.environ["WORLD_SIZE"]
    if n is not None and str(n) != size:
        raise ConfigError(
            f"--workers must be the number of workers that were started; found {n}, and "
            f"WORLD_SIZE={size}; leave --workers out, or unset RANK and WORLD_SIZE"
        )


def leave(code: int) -> NoReturn:
    """End a worker at once: what is left of its group may wait for others who never come."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def launch(n: int, n_shards: int) -> NoReturn:
    """Run this command in `n` processes, and end as they do; the first one speaks for all."""
    check_shards(n_shards, n)
    children: list[subprocess.Popen[bytes]] = []
    interrupted = False
    with tempfile.TemporaryDirectory() as folder:
        words = [Path(folder, str(rank)) for rank in range(n)]
        try:
            _start(children, words)
            _wait(children)
        except KeyboardInterrupt:
            interrupted = True
            _end(children, signal.SIGINT)
        finally:
            _end(children, signal.SIGTERM)
        said = [_last_line(each) for each in words[1:]]
    if interrupted:
        signals.leave()
    codes = [each.returncode for each in children]
    if codes[0] < 0 or (codes[0] == 0 and any(codes)):  # then the first one said nothing
        lost = [f"worker {rank} ended with exit code {it}" for rank, it in enumerate(codes) if it]
        console.say(next(filter(None, said), "; ".join(lost)).removeprefix("counterplay: "))
    raise typer.Exit(next((code for code in codes if code > 0), int(any(codes))))


def _start(children: list[subprocess.Popen[bytes]], words: list[Path]) -> None:
    """Start the workers; what all but the first say goes to files."""
    n = len(words)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    threads = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // n))}  # unless it is given
    for rank, path in enumerate(words):
        places = dict(zip(PLACES, map(str, (rank, n, "127.0.0.1", port)), strict=True))
        with path.open("wb") as said:
            children.append(
                subprocess.Popen(
                    [sys.executable, "-P", "-m", "counterplay", *sys.argv[1:]],
                    env=threads | os.environ | places | {PARENT: str(os.getpid())},
                    stdout=said if rank else None,
                    stderr=said if rank else None,
                    start_new_session=True,  # signals are passed on once, from here
                )
            )


def _wait(children: list[subprocess.Popen[bytes]]) -> None:
    """Wait until all have ended; once one has, the others must notice, or be done too."""
    limit = float("inf")
    while n_left := sum(each.poll() is None for each in children):
        if limit == float("inf") and n_left < len(children):
            limit = time.monotonic() + float(os.environ.get(TIMEOUT, SECONDS)) + _GRACE
        if time.monotonic() > limit:
            return
        time.sleep(_LOOK)


def _end(children: list[subprocess.Popen[bytes]], number: signal.Signals) -> None:
    """Ask those that are left to end, then end them."""
    left = [each for each in children if each.poll() is None]
    for each in left:
        each.send_signal(number)
    for each in left:
        try:
            each.wait(_LEAVE)
        except subprocess.TimeoutExpired:
            each.kill()
            each.wait()


def _last_line(path: Path) -> str:
    if not path.exists():  # interrupted before it was started
        return ""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((line for line in reversed(lines) if line.startswith("counterplay: ")), "")
