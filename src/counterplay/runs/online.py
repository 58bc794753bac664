"""Online tests, in a world, of runs that were trained on its log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from counterplay.errors import ConfigError
from counterplay.evaluation.deployment import OnlineRecord, deployed
from counterplay.evaluation.stage import Evaluation
from counterplay.runs.candidates import staged
from counterplay.simulation.store import source_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from counterplay.simulation.online import OnlineTest


def online_runs(
    world: str | Path,
    runs: Sequence[str | Path],
    config: OnlineTest | None = None,
    *,
    data: str | Path | None = None,
) -> OnlineRecord:
    """Deploy runs in a world, the first as the control; return what was measured, and the truth.

    Users are not shown what they clicked in training and validation. Unless the configuration says
    when, the test takes place in the round that offline tests are of.
    """
    if len({Path(run).resolve() for run in runs}) < len(runs):
        named = ", ".join(str(run) for run in runs)
        raise ConfigError(
            f"the arms of an online test must be different runs; found {named}; name each once"
        )
    source_of(world)  # which refuses what is no world, before anything is loaded
    return deployed(*staged(runs, data or Path(world) / "log", Evaluation(), world=world), config)
