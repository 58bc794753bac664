"""Workers on a Ray cluster: the same training, a process each, wherever Ray has room."""

from __future__ import annotations

import os
import socket
from importlib import import_module
from typing import TYPE_CHECKING, Any

from counterplay.data.jobs import connect
from counterplay.errors import ConfigError, CounterplayError, LostWorkerError
from counterplay.extras import needed
from counterplay.groups import PLACES, check_shards

if TYPE_CHECKING:
    from pathlib import Path

    from counterplay.runs.config import RunConfig
    from counterplay.runs.record import RunRecord

_ROOM = 60.0  # seconds to wait for room on the cluster


def train_on_ray(
    data: Path, out: Path, config: RunConfig, *, n_workers: int, shards: int, **how: Any
) -> RunRecord:
    """Train with `n_workers` processes of a Ray cluster, which share the folders `data` and `out`.

    Ray finds the cluster by RAY_ADDRESS; without it, this machine is one. `how` is as in
    `counterplay.runs.training.train`: `resume`, `own_items` and `checkpoint_every`.
    """
    with needed("training on Ray", "ray"):
        ray = import_module("ray")
        groups = import_module("ray.util.placement_group")
    check_shards(shards, n_workers)
    connect(ray)
    room = groups.placement_group([{"CPU": 1}] * n_workers)
    try:
        if not room.wait(_ROOM):
            there = int(ray.cluster_resources().get("CPU", 0))
            raise ConfigError(
                f"the cluster must have a processor for each worker; found {there} for "
                f"{n_workers:,} workers, or others busy; ask for fewer, or add machines"
            )
        data, out = data.resolve(), out.resolve()  # nodes work elsewhere
        address = ray.get(_on(ray, room, 0, _address).remote())
        values = config.model_dump(mode="json", exclude_unset=True)  # each method has its defaults
        work = [
            _on(ray, room, rank, _work).remote(
                rank, n_workers, address, str(data), str(out), values, {"shards": shards, **how}
            )
            for rank in range(n_workers)
        ]
        _wait(ray, work)
    finally:
        groups.remove_placement_group(room)
    from counterplay.runs.record import read_record

    return read_record(out)


def _on(ray: Any, room: Any, place: int, function: Any) -> Any:
    """Return a function that runs at one place of the room, and once."""
    kinds = import_module("ray.util.scheduling_strategies")
    where = kinds.PlacementGroupSchedulingStrategy(room, placement_group_bundle_index=place)
    return ray.remote(num_cpus=1, max_retries=0, scheduling_strategy=where)(function)


def _wait(ray: Any, work: list[Any]) -> None:
    """Wait for all workers; say the first thing that went wrong with one of them."""
    waiting, lost = list(work), None
    while waiting:
        (done,), waiting = ray.wait(waiting)
        try:
            ray.get(done)
        except LostWorkerError as error:
            lost = lost or error  # another one has the cause
        except CounterplayError as error:
            raise getattr(error, "cause", error) from None  # what Ray wrapped, without its trace
        except ray.exceptions.RayError as error:
            said = str(error).strip().splitlines()
            lost = lost or LostWorkerError(
                f"all {len(work)} workers must stay until the end; found worker "
                f"{work.index(done)} gone ({said[-1] if said else type(error).__name__}); give the "
                "same command again with --resume"
            )
    if lost is not None:
        raise lost


def _address() -> tuple[str, int]:
    """Return where the first worker can be reached."""
    with socket.socket() as free:
        free.bind(("", 0))
        port: int = free.getsockname()[1]
    return str(import_module("ray").util.get_node_ip_address()), port


def _work(
    rank: int,
    size: int,
    address: tuple[str, int],
    data: str,
    out: str,
    values: dict[str, Any],
    how: dict[str, Any],
) -> None:
    """Train as one of the workers."""
    places = zip(PLACES, (rank, size, *address), strict=True)
    os.environ.update({name: str(value) for name, value in places})
    import torch

    from counterplay.runs.config import config_of
    from counterplay.runs.training import train
    from counterplay.runs.workers import joined

    torch.set_num_threads(1)
    with joined() as group:
        train(data, out, config_of(values), group=group, **how)
