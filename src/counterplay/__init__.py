"""Learn and evaluate recommenders from logs that do not say what users were shown."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from counterplay.data.datasets import read_dataset as read_dataset
    from counterplay.data.features import FeatureTable as FeatureTable
    from counterplay.data.filters import filter_by_events as filter_by_events
    from counterplay.data.filters import k_core as k_core
    from counterplay.data.histories import Histories as Histories
    from counterplay.data.interactions import Interactions as Interactions
    from counterplay.data.negatives import NegativeSampler as NegativeSampler
    from counterplay.data.profile import profile as profile
    from counterplay.data.readers import read as read
    from counterplay.data.splits import Split as Split
    from counterplay.data.splits import leave_last_two_out as leave_last_two_out
    from counterplay.data.splits import split_at_random as split_at_random
    from counterplay.data.splits import split_by_time as split_by_time
    from counterplay.data.store import load as load
    from counterplay.data.store import load_split as load_split
    from counterplay.data.store import save as save
    from counterplay.data.vocabulary import Vocabulary as Vocabulary
    from counterplay.errors import CheckpointError as CheckpointError
    from counterplay.errors import ConfigError as ConfigError
    from counterplay.errors import CounterplayError as CounterplayError
    from counterplay.errors import CounterplayWarning as CounterplayWarning
    from counterplay.errors import DataError as DataError
    from counterplay.errors import DivergedError as DivergedError
    from counterplay.errors import NotFittedError as NotFittedError
    from counterplay.seeding import Streams as Streams


__version__ = "0.1.0"

_HOMES = {
    "counterplay.data.datasets": ("read_dataset",),
    "counterplay.data.features": ("FeatureTable",),
    "counterplay.data.filters": ("filter_by_events", "k_core"),
    "counterplay.data.histories": ("Histories",),
    "counterplay.data.interactions": ("Interactions",),
    "counterplay.data.negatives": ("NegativeSampler",),
    "counterplay.data.profile": ("profile",),
    "counterplay.data.readers": ("read",),
    "counterplay.data.splits": (
        "Split",
        "leave_last_two_out",
        "split_at_random",
        "split_by_time",
    ),
    "counterplay.data.store": ("load", "load_split", "save"),
    "counterplay.data.vocabulary": ("Vocabulary",),
    "counterplay.errors": (
        "CheckpointError",
        "ConfigError",
        "CounterplayError",
        "CounterplayWarning",
        "DataError",
        "DivergedError",
        "NotFittedError",
    ),
    "counterplay.seeding": ("Streams",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(["__version__", *_HOME_OF])


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: `import counterplay` itself costs nothing."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'counterplay' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
