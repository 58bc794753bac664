"""A random sample of the users of held-out rows: what is known of them holds for all, less exactly.

Users are drawn, with all their rows: estimates stay right, and so do intervals over users.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from counterplay.errors import DataError
from counterplay.evaluation.records import SampledUsers
from counterplay.seeding import Streams

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.data.splits import Split


@dataclass(frozen=True, slots=True, eq=False)
class UserSample:
    """Whose rows are evaluated.

    Attributes:
        drawn: Whether a user is in the sample, `[n_users]`.
        n: Number of users in it.
        of: Number of users with held-out rows.
    """

    drawn: NDArray[np.bool_]
    n: int
    of: int

    @classmethod
    def of_part(cls, split: Split, held_out: int, n: int | None, seed: int) -> UserSample | None:
        """Draw `n` users, or all if there are fewer, of those who clicked or were shown something.

        Without a number there is no sample: all users are evaluated.
        """
        if n is None:
            return None
        there = np.zeros(split.interactions.n_users, dtype=np.bool_)
        there[split.interactions.user[split.part == held_out]] = True
        if split.unclicked is not None:
            there[split.unclicked.user[split.unclicked_part == held_out]] = True
        users = np.flatnonzero(there)
        drawn = np.zeros_like(there)
        drawn[Streams(seed).numpy("users").permutation(users)[:n]] = True
        return cls(drawn, min(n, len(users)), len(users))

    def rows(self, rows: Interactions) -> Interactions:
        """Return the rows of the users who were drawn; refuse a sample without any."""
        found = rows.take(self.drawn[rows.user])
        if not len(found):
            raise DataError(
                f"a sample of users must have rows to evaluate; found none of {len(rows):,} with "
                f"{self.n:,} of {self.of:,} users; draw more users"
            )
        return found

    @property
    def record(self) -> SampledUsers:
        """How many they are, for the record."""
        return SampledUsers(n=self.n, of=self.of)
