"""Named random streams from one seed.

A stream depends on the seed and on its name alone, so drawing more from one stream, or
adding a new one, never changes what another yields.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from counterplay.errors import ConfigError

if TYPE_CHECKING:
    import torch

_WHOLE = (int, np.integer)


@dataclass(frozen=True, slots=True)
class Streams:
    """The random streams of one run.

    Example:
        >>> streams = Streams(7)
        >>> first = streams.numpy("negatives", 0).integers(1000, size=3)
        >>> again = streams.numpy("negatives", 0).integers(1000, size=3)
        >>> bool((first == again).all())
        True
    """

    seed: int

    def __post_init__(self) -> None:
        if isinstance(self.seed, bool) or not isinstance(self.seed, _WHOLE) or self.seed < 0:
            raise ConfigError(
                f"a seed must be a whole number of 0 or more; found {self.seed!r}; "
                "give one such as seed=0"
            )
        object.__setattr__(self, "seed", int(self.seed))

    def numpy(self, *name: str | int) -> np.random.Generator:
        """Return the numpy stream called `name`, from its beginning."""
        return np.random.Generator(np.random.PCG64(self._entropy(name)))

    def torch(self, *name: str | int, device: str = "cpu") -> torch.Generator:
        """Return the torch stream called `name`, from its beginning."""
        import torch

        generator = torch.Generator(device=device)
        generator.manual_seed(self._entropy(name) & (2**63 - 1))
        return generator

    def _entropy(self, name: tuple[str | int, ...]) -> int:
        parts = (f"str:{part}" if isinstance(part, str) else f"int:{int(part)}" for part in name)
        text = "\x1f".join([str(self.seed), *parts])
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "little")
