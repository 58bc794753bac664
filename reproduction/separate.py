"""Propensity scoring whose exposure model has settings of its own, as the appendix tunes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from counterplay.learning.config import NotNegative, Rate, Weighted
from counterplay.learning.methods.ps import Ps

if TYPE_CHECKING:
    from counterplay.learning.method import Method

NAME = "reproduction.separate:SeparatePs"  # how a run asks for it


class Separate(Weighted):
    """What the exposure model's own stage adds."""

    exposure_rate: Rate = 0.01  #: Learning rate of the exposure model.
    exposure_l2: NotNegative = 0.0  #: Strength of its ℓ2 regularization.


class SeparatePs(Ps):
    """`ps`, with g fitted by its own rate and ℓ2."""

    settings = Separate

    def first(self) -> Method[Any] | None:
        """Fit g alone with its own settings."""
        config = self.config
        assert isinstance(config, Separate)
        own = {"rate": config.exposure_rate, "l2": config.exposure_l2}
        self.exposure_config = config.plain().model_copy(update=own)
        return super().first()
