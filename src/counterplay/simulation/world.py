"""A world: who likes what, what the old system showed, and what nobody observed.

    shown     O ~ cap_i · accept(u, i; ε2) · rate           ε1, ε2: unobserved factors of an
    examined  ρ^(position − 1)                              occasion, normal, with correlation κ
    click     shown, examined, and relevant: σ(taste(u, i) + ε1)

At κ = 0 exposure says nothing about relevance beyond the pair itself: the click model holds. Above
0, what was shown was liked more on that occasion than it would be on another.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from counterplay.data.vocabulary import Vocabulary
from counterplay.display import Shown, pairs
from counterplay.errors import ConfigError, DataError
from counterplay.seeding import Streams
from counterplay.simulation.chance import mean_sigmoid, normal
from counterplay.simulation.logs import RATES, draw, draw_in_turn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from counterplay.data.interactions import Interactions
    from counterplay.simulation.factors import Indices, Numbers
    from counterplay.simulation.policies import Policy

Occasion = tuple[str | int, ...]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
_LONGEST = 1000  # places of a list


class Taste(Protocol):
    """The logits of relevance; `time` counts rounds."""

    @property
    def n_users(self) -> int:
        """Number of users."""

    @property
    def n_items(self) -> int:
        """Number of items."""

    def of(self, users: Indices, items: Indices, time: float = 0.0) -> Numbers:
        """Return the logits of `items` `[B, K]` for `users` `[B]`, `[B, K]`."""

    def of_all(self, users: Indices, time: float = 0.0) -> Numbers:
        """Return the logits of all items for `users` `[B]`, `[B, n_items]`."""


@dataclass(frozen=True, eq=False, repr=False)
class World(Shown):
    """A population, the system that showed it things, and the chance that both are subject to.

    Attributes:
        taste: Logits of relevance.
        policy: Logging policy: what is shown, with which probability.
        noise: Standard deviation of ε1, which moves relevance.
        exposure_noise: Standard deviation of ε2, which moves exposure.
        confounding: Correlation κ of the two, from 0 to 1; without noise it does nothing.
        examination: ρ: users examine position p with probability ρ^(p − 1); 1 for no bias.
        list_length: Number of positions in a list.
        seed: Of all random streams.
        name: Name of the world.
        users: User IDs; by default 0, 1, ….
        items: Item IDs; by default 0, 1, ….
    """

    taste: Taste
    policy: Policy
    noise: float = 0.0
    exposure_noise: float = 0.0
    confounding: float = 0.0
    examination: float = 1.0
    list_length: int = 10
    seed: int = 0
    name: str = "world"
    users: Vocabulary = field(default=None)  # type: ignore[assignment]  # then the numbers
    items: Vocabulary = field(default=None)  # type: ignore[assignment]  # likewise

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("confounding", self.confounding, 0.0, 1.0),
            ("examination", self.examination, 1e-6, 1.0),
            ("noise", self.noise, 0.0, 1e6),
            ("exposure_noise", self.exposure_noise, 0.0, 1e6),
            ("list_length", self.list_length, 1, _LONGEST),
        ):
            if not low <= value <= high:
                raise ConfigError(
                    f"{name} of a world must be from {low:g} to {high:g}; found {value:g}; "
                    "change it"
                )
        Streams(self.seed)  # which refuses what is no seed
        for name, n in (("users", self.taste.n_users), ("items", self.taste.n_items)):
            if getattr(self, name) is None:
                object.__setattr__(self, name, Vocabulary.of(np.arange(n)))
        counts = len(self.users), len(self.items), len(self.policy.caps)
        if counts != (self.n_users, self.n_items, self.n_items):
            raise DataError(
                f"all parts of a world must be of its {self.n_users:,} users and "
                f"{self.n_items:,} items; found {counts[0]:,} user ids, {counts[1]:,} item ids and "
                f"a policy for {counts[2]:,} items; make them agree"
            )

    def _title(self) -> str:
        return f"{self.name!r}: {self.n_users:,} users, {self.n_items:,} items; seed {self.seed}"

    def _columns(self) -> dict[str, list[object]]:
        return pairs(
            {
                "taste": type(self.taste).__name__,
                "policy": type(self.policy).__name__,
                "noise": self.noise,
                "exposure noise": self.exposure_noise,
                "confounding": self.confounding,
                "examination": self.examination,
                "places of a list": self.list_length,
            }
        )

    @property
    def n_users(self) -> int:
        """Number of users."""
        return self.taste.n_users

    @property
    def n_items(self) -> int:
        """Number of items."""
        return self.taste.n_items

    @cached_property
    def streams(self) -> Streams:
        """The world's random streams."""
        return Streams(self.seed)

    def relevance(
        self,
        users: Indices,
        items: Indices | None = None,
        *,
        time: float = 0.0,
        occasion: Occasion | None = None,
    ) -> Numbers:
        """Return the probability that `items` `[B, K]`, or all, are clicked if they are seen.

        Without an occasion it is the mean over the unobserved factors.
        """
        logits = (
            self.taste.of_all(users, time) if items is None else self.taste.of(users, items, time)
        )
        if occasion is None or not self.noise:
            return mean_sigmoid(logits, self.noise)
        logits = logits + self.noise * self._unobserved("taste", users, items, occasion)
        return mean_sigmoid(logits, 0.0)

    def shown(
        self, users: Indices, items: Indices | None = None, *, occasion: Occasion | None = None
    ) -> Numbers:
        """Return the probability that `items` `[B, K]`, or all, are shown in a round of rate 1."""
        caps = self.policy.caps[slice(None) if items is None else items]
        return caps * self.accepted(users, items, occasion=occasion)

    def accepted(
        self, users: Indices, items: Indices | None = None, *, occasion: Occasion | None = None
    ) -> Numbers:
        """Return the probability that they are shown, as a share of the items' caps."""
        if occasion is None or not self.exposure_noise:
            return self.policy.mean_accept(users, items, self.exposure_noise)
        shift = self.exposure_noise * self._shift(users, items, occasion)
        return self.policy.accept(users, items, shift)

    def propensity(
        self, users: Indices, items: Indices | None = None, *, occasion: Occasion | None = None
    ) -> Numbers:
        """Return the probability that `items` `[B, K]` are exposed: shown, and examined."""
        return self.shown(users, items, occasion=occasion) * self.examined(users, items)

    def examined(self, users: Indices, items: Indices | None = None) -> Numbers:
        """Return the probability that what is shown is examined: the mean of `ρ^(place − 1)`.

        A place is 1 + Binomial(length − 1, 1 − prominence), so the mean has a closed form.
        """
        down = (1 - self.policy.prominence(users, items)) * (1 - self.examination)
        return (1 - down) ** (self.list_length - 1)

    def log(
        self,
        rates: Sequence[float] = RATES,
        *,
        sample: int = 0,
        first_round: int = 0,
        before: Interactions | None = None,
        impressions: bool = False,
        random_share: float = 0.0,
        policies: Sequence[Policy] | None = None,
        with_truth: bool = False,
    ) -> Interactions:
        """Draw a log: in each round, a day, every pair is shown or not, and clicked or not.

        Users are not shown again what they clicked.

        Args:
            rates: For each round, the factor of the probabilities of being shown.
            sample: Another number is another log of the same world.
            first_round: Number of the first round.
            before: An earlier log, whose pairs are not shown again.
            impressions: Return all that was shown, with `clicked`, and with `position` where
                users do not examine every place.
            random_share: Share of what is shown that is random, up to 0.9: on top of what the
                policy shows, every pair that was not clicked yet has the same probability, and so
                has every place of a list. `random` marks these rows. They change no others: the
                policy may show again what was clicked there.
            policies: One for each round, in place of the world's own.
            with_truth: Add list position, exposure (whether it was examined) and true propensity.
        """
        earlier = () if before is None else (before,)
        options: dict[str, Any] = {
            "impressions": impressions,
            "random_share": random_share,
            "with_truth": with_truth,
        }
        if policies is None:
            return draw(self, rates, sample, first_round, earlier, **options)
        return draw_in_turn(self, policies, rates, sample, first_round, earlier, **options)

    def _shift(self, users: Indices, items: Indices | None, occasion: Occasion) -> Numbers:
        """Return ε2 with standard deviation 1: κ of ε1, and the rest of its own."""
        own = (1 - self.confounding**2) ** 0.5
        shift = np.zeros(1)
        if own:
            shift = own * self._unobserved("exposure", users, items, occasion)
        if self.confounding:
            shift = shift + self.confounding * self._unobserved("taste", users, items, occasion)
        return shift

    def _unobserved(
        self, name: str, users: Indices, items: Indices | None, occasion: Occasion
    ) -> Numbers:
        key = int(self.streams.numpy("unobserved", name, *occasion).integers(2**63))
        return normal(
            key, users[:, None], np.arange(self.n_items)[None] if items is None else items
        )


class WorldSettings(BaseModel):
    """What all makers of worlds let one choose; `World` says what each means."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    noise: NotNegative = 0.5
    exposure_noise: NotNegative = 0.5
    confounding: Share = 0.0
    examination: Annotated[float, Field(gt=0, le=1)] = 1.0
    list_length: Annotated[int, Field(ge=1)] = 10
    seed: Annotated[int, Field(ge=0)] = 0

    def _world(self, taste: Taste, policy: Policy, **others: Any) -> World:
        chosen = {name: getattr(self, name) for name in WorldSettings.model_fields}
        return World(taste, policy, **(chosen | others))
