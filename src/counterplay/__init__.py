"""Learn and evaluate recommenders from logs that do not say what users were shown."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from counterplay.data.datasets import read_dataset
    from counterplay.data.features import FeatureTable
    from counterplay.data.filters import filter_by_events, k_core
    from counterplay.data.histories import Histories
    from counterplay.data.interactions import Interactions
    from counterplay.data.negatives import NegativeSampler
    from counterplay.data.profile import profile
    from counterplay.data.readers import read
    from counterplay.data.splits import (
        Split,
        leave_last_two_out,
        split_at_random,
        split_by_time,
    )
    from counterplay.data.store import load, load_split, save
    from counterplay.data.vocabulary import Vocabulary
    from counterplay.errors import (
        CheckpointError,
        ConfigError,
        CounterplayError,
        CounterplayWarning,
        DataError,
        DivergedError,
        NotFittedError,
    )
    from counterplay.seeding import Streams

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

__all__ = [
    "CheckpointError",
    "ConfigError",
    "CounterplayError",
    "CounterplayWarning",
    "DataError",
    "DivergedError",
    "FeatureTable",
    "Histories",
    "Interactions",
    "NegativeSampler",
    "NotFittedError",
    "Split",
    "Streams",
    "Vocabulary",
    "__version__",
    "filter_by_events",
    "k_core",
    "leave_last_two_out",
    "load",
    "load_split",
    "profile",
    "read",
    "read_dataset",
    "save",
    "split_at_random",
    "split_by_time",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: `import counterplay` itself costs nothing."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'counterplay' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
