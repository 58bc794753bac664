"""Two network namespaces of this machine stand for two hosts: meet, be slow, be cut off.

Needs root and `ip`; elsewhere the benchmark says so. Three trainings by two workers, one a host:

- over a free link: the run must be that of one process;
- over 20 Mbit/s: the same, and how much longer it takes;
- over a link that is cut on the way: both sides must end with one sentence within the timeout, and
  the run goes on from where it was, to the same end.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

import counterplay as cp
from benchmarks.movielens import WORK

HOSTS = {"cp-one": ("10.77.0.1", "cp-a"), "cp-two": ("10.77.0.2", "cp-b")}
FOLDER = WORK / "two-hosts"
TRAINING = ("--method", "erm", "--dim", "16", "--shards", "8", "--epochs", "30")
TIMEOUT, PORT, CLOSE = 15, 29_777, 1e-4
SLOW = ("tbf", "rate", "20mbit", "burst", "64kbit", "latency", "400ms")


def run() -> dict[str, Any]:
    if os.geteuid() or shutil.which("ip") is None:
        return {"skipped": "needs root and ip"}
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    data = checkerboard(FOLDER / "data", 2000, 400, 60_000)
    alone = _seconds([_command(data, "alone")], [dict(os.environ)])
    with _hosts():
        free = _seconds(*_both(data, "free"))
        _ip("netns", "exec", "cp-one", "tc", "qdisc", "add", "dev", "cp-a", "root", *SLOW)
        slow = _seconds(*_both(data, "slow"))
        _ip("netns", "exec", "cp-one", "tc", "qdisc", "del", "dev", "cp-a", "root")
        noticed, said = _cut(data)
        _seconds(*_both(data, "cut", "--resume"))
    apart = {name: _apart(name) for name in ("free", "slow", "cut")}
    return {
        "seconds": {"alone": alone, "free": free, "slow": slow, "noticed": noticed},
        "said": said,
        "apart": apart,
        "rows": [
            *(
                _row(f"two hosts, {what}: furthest entry from one process", f"{apart[name]:.1e}",
                     f"at most {CLOSE:g}", apart[name] <= CLOSE)
                for name, what in (("free", "a free link"), ("slow", "20 Mbit/s"),
                                   ("cut", "a link that was cut, and resumed"))
            ),
            _row("two hosts, 20 Mbit/s against a free link: seconds", f"{slow:.0f} and {free:.0f}",
                 "none", None),
            _row(f"two hosts, a cut link: seconds until both said so, timeout {TIMEOUT} s",
                 f"{noticed:.0f}", f"at most {TIMEOUT + 15}",
                 noticed <= TIMEOUT + 15 and all("workers must stay" in each for each in said)),
        ],
    }  # fmt: skip


def _row(what: str, ours: str, goal: str, met: bool | None) -> dict[str, Any]:
    return {"what": what, "ours": ours, "yardstick": "", "ratio": "", "goal": goal, "met": met}


def checkerboard(folder: Path, n_users: int, n_items: int, n: int) -> Path:
    """Write a log of users who like every other item, with a split."""
    rng = np.random.default_rng(0)
    user, item = rng.integers(0, n_users, n), rng.integers(0, n_items, n)
    liked = user % 2 == item % 2
    rows = {"user": user[liked], "item": item[liked], "time": rng.permutation(n)[liked]}
    cp.data.save(cp.data.leave_last_two_out(cp.read(rows)), folder)
    return folder


def _command(data: Path, name: str, *more: str) -> list[str]:
    words = ["train", str(data), "--out", str(FOLDER / name), *TRAINING, *more]
    return [sys.executable, "-m", "counterplay", *words]


def _both(data: Path, name: str, *more: str) -> tuple[list[list[str]], list[dict[str, str]]]:
    """Return the commands of both hosts, and their environments."""
    address = HOSTS["cp-one"][0]
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": address, "MASTER_PORT": str(PORT)}
    commands = [["ip", "netns", "exec", host, *_command(data, name, *more)] for host in HOSTS]
    environments = [
        os.environ
        | shared
        | {"RANK": str(rank), "GLOO_SOCKET_IFNAME": device, "OMP_NUM_THREADS": "1"}
        | {"COUNTERPLAY_TIMEOUT": str(TIMEOUT)}
        for rank, (_, device) in enumerate(HOSTS.values())
    ]
    return commands, environments


def _started(
    commands: list[list[str]], environments: list[dict[str, str]]
) -> list[subprocess.Popen[str]]:
    return [
        subprocess.Popen(
            command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        for command, env in zip(commands, environments, strict=True)
    ]


def _seconds(commands: list[list[str]], environments: list[dict[str, str]]) -> float:
    begin = time.perf_counter()
    for each in _started(commands, environments):
        said = each.communicate()[1]
        if each.returncode:
            raise RuntimeError(said)
    return time.perf_counter() - begin


def _cut(data: Path) -> tuple[float, list[str]]:
    """Cut the link in the middle; return the seconds until both ended, and what they said."""
    workers = _started(*_both(data, "cut"))
    while not (FOLDER / "cut" / "checkpoint" / "state.json").exists():
        time.sleep(0.05)
    _ip("-n", "cp-two", "link", "set", "cp-b", "down")
    begin = time.perf_counter()
    said = [each.communicate(timeout=10 * TIMEOUT)[1].strip().splitlines()[-1] for each in workers]
    noticed = time.perf_counter() - begin
    _ip("-n", "cp-two", "link", "set", "cp-b", "up")
    return noticed, said


def _apart(name: str) -> float:
    """Return how far an entry of a table is from one process's, at most."""
    one, other = (load_file(FOLDER / each / "model.safetensors") for each in ("alone", name))
    return max(float(torch.max(torch.abs(one[key] - other[key]))) for key in one)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@contextmanager
def _hosts() -> Iterator[None]:
    """Make two namespaces with a cable between them."""
    (one, (first, a)), (two, (second, b)) = HOSTS.items()
    try:
        _ip("netns", "add", one)
        _ip("netns", "add", two)
        _ip("link", "add", a, "type", "veth", "peer", "name", b)
        for host, address, device in ((one, first, a), (two, second, b)):
            _ip("link", "set", device, "netns", host)
            _ip("-n", host, "addr", "add", f"{address}/24", "dev", device)
            _ip("-n", host, "link", "set", device, "up")
            _ip("-n", host, "link", "set", "lo", "up")
        yield
    finally:
        for host in HOSTS:
            subprocess.run(["ip", "netns", "del", host], check=False)
