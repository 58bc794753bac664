"""What can go wrong, as one tree.

    CounterplayError
    ├── DataError (ValueError)      a log, a file or a table is not what it must be
    │   └── TooFewError             there are too few rows, users or items to compute something
    ├── ConfigError (ValueError)    an option or a combination of options makes no sense
    ├── NotFittedError              a result was asked for before there was one
    ├── DivergedError               training left the finite numbers
    ├── CheckpointError             a saved state cannot be continued from
    └── LostWorkerError             one of several workers is gone

    CounterplayWarning (UserWarning)   a result stands, with a reservation

Every message is one sentence: what must hold; what was found and where; what to do next.
"""


class CounterplayError(Exception):
    """Any error that counterplay raises on purpose."""


class DataError(CounterplayError, ValueError):
    """A log, a file or a table is not what it must be."""


class TooFewError(DataError):
    """There are too few rows, users or items to compute something."""


class ConfigError(CounterplayError, ValueError):
    """An option or a combination of options makes no sense."""


class NotFittedError(CounterplayError):
    """A result was asked for before there was one."""


class DivergedError(CounterplayError):
    """Training left the finite numbers."""


class CheckpointError(CounterplayError):
    """A saved state cannot be continued from."""


class LostWorkerError(CounterplayError):
    """One of several workers is gone."""


class CounterplayWarning(UserWarning):
    """A result stands, with a reservation that its reader must know."""
