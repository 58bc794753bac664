"""How to learn: one validated, frozen value for each method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from counterplay.errors import ConfigError

Positive = Annotated[int, Field(ge=1)]
NotNegative = Annotated[float, Field(ge=0)]
Rate = Annotated[float, Field(gt=0)]
Discount = Annotated[float, Field(ge=1)]
Recipe = Literal["paper", "stable"]
LossName = Literal["logistic", "hinge", "exponential", "squared"]  # of `learning.losses.LOSSES`
RegularizerName = Literal["feedback", "exposure", "popularity", "known"]


class Training(BaseModel):
    """What all methods share."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)  # one method is used

    epochs: Positive = 50  #: Maximum number of epochs.
    batch_size: Positive = 8192  #: Queries per batch.
    n_negatives: Annotated[int, Field(ge=0)] = 4  #: Sampled items per query (none for ratings).
    negatives_exponent: NotNegative = 0.0  #: Sample items by popularity^this; 0 is uniform.
    loss: LossName = "logistic"  #: Loss function δ.
    rate: Rate = 0.01  #: Learning rate of the candidate.
    l2: NotNegative = 0.0  #: Strength of ℓ2 regularization, added to the gradient as in the paper.
    #: Update all rows of a table (dense), only those of the batch (lazy), or by table size (auto).
    optimizer: Literal["auto", "dense", "lazy"] = "auto"
    patience: Positive = 10  #: Epochs without a better validation value before stopping.
    #: Precision of the forward pass; bfloat16 is mixed precision.
    precision: Literal["float32", "bfloat16"] = "float32"
    device: str = "cpu"  #: Where to train: cpu, cuda, or cuda:1.
    seed: Annotated[int, Field(ge=0)] = 0  #: Seed of all random streams.

    def n_lookups(self, n_workers: int) -> float:
        """Return how many items a worker looks up in a step."""
        return self.batch_size / n_workers * (1 + self.n_negatives)

    def check_device(self) -> None:
        """Refuse a device that torch does not have here."""
        if self.device == "cpu":
            return
        import torch

        try:
            torch.empty(0, device=self.device)
        except (RuntimeError, AssertionError) as error:
            found = str(error).partition("\n")[0].rstrip(".")
            raise ConfigError(
                f"training.device must be one that torch has here; found '{self.device}', of which "
                f"torch says: {found}; choose cpu, or install torch for that device"
            ) from None

    def plain(self) -> Training:
        """Return the part that plain learning knows, for the exposure model's own stage."""
        shared = {name: getattr(self, name) for name in Training.model_fields}
        return Training(**shared | {"loss": "logistic"})


class AmongAll(Training):
    """What a softmax adds."""

    n_negatives: Annotated[int, Field(ge=0, le=0)] = 0  #: None: the batch has a sample of its own.
    n_shared: Annotated[int, Field(ge=1)] = 512  #: Items that are drawn for a batch; n.

    def n_lookups(self, n_workers: int) -> float:
        """Return how many items a worker looks up in a step: the sample too."""
        return super().n_lookups(n_workers) + self.n_shared

    @model_validator(mode="after")
    def _has_a_loss_of_its_own(self) -> AmongAll:
        if self.loss != "logistic":
            raise ValueError(f"a softmax is a loss of its own, and goes with no loss={self.loss}")
        return self


class FromShown(Training):
    """What learning from impressions adds."""

    #: Of the sampled items that were never shown to a user, beside an impression's weight of 1.
    unseen_weight: NotNegative = 0.1
    #: Of positions: joint learns it with the candidate, swaps takes it from items that were shown
    #: at several positions, none leaves positions out.
    examination: Literal["joint", "swaps", "none"] = "none"

    @model_validator(mode="after")
    def _is_logistic(self) -> FromShown:
        if self.loss != "logistic":
            raise ValueError(f"the loss of impressions must be logistic, not {self.loss}")
        return self


class Inverse(Training):
    """What logged propensities add."""

    #: Smallest propensity, as a share of their mean.
    floor: Annotated[float, Field(ge=0, le=1)] = 0.1


class Relevance(Training):
    """What relevance from clicks adds."""

    #: Of labels 1 and 0: logistic, or squared, `(label − σ(f))²`.
    label_loss: Literal["logistic", "squared"] = "logistic"
    #: Where propensities come from: logged, popularity, or auto: logged where the log has them.
    propensities: Literal["auto", "logged", "popularity"] = "auto"
    exponent: NotNegative = 0.5  #: Of popularity; 0 is plain learning.
    floor: Annotated[float, Field(gt=0, le=1)] = 0.1  #: Smallest propensity.
    nonnegative: bool = False  #: Whether a loss below 0 counts as 0.

    @model_validator(mode="after")
    def _is_logistic(self) -> Relevance:
        if self.loss != "logistic":
            raise ValueError(f"the loss of relevance is set by label_loss, not by loss={self.loss}")
        return self


class Robust(Training):
    """What worst-case weights in closed form add."""

    #: Weights that the opponent may choose: kl bounds their mean of w log w by the radius, cvar
    #: bounds each by 1 + radius. A radius of 0 is plain learning.
    ball: Literal["kl", "cvar"] = "kl"
    radius: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1  #: Size of the ball.
    #: What has a weight of its own: an item, over the log, or a click, within its batch.
    group: Literal["item", "click"] = "item"
    #: What one click leaves of the running mean of its item's loss, for item.
    memory: Annotated[float, Field(ge=0, lt=1)] = 0.9


class Joint(Training):
    """What doubly robust learning of ratings adds."""

    loss: LossName = "squared"
    n_negatives: Positive = 4  #: Sampled items per row that nobody rated.
    imputation_rate: Rate = 0.01  #: Learning rate of the imputation model.
    #: Where propensities come from: logged, fitted by the exposure model, or auto: logged where the
    #: log has them.
    propensities: Literal["auto", "logged", "fitted"] = "auto"
    #: Smallest propensity, as a share of the mean over all pairs.
    floor: Annotated[float, Field(gt=0, le=1)] = 0.1

    @model_validator(mode="after")
    def _is_of_ratings(self) -> Joint:
        if self.loss != "squared":
            raise ValueError(f"the loss of dr must be squared, not {self.loss}")
        if self.negatives_exponent:
            raise ValueError("dr samples unrated items evenly, so negatives_exponent must be 0")
        return self


class LinkSettings(BaseModel):
    """The link between exposure scores and propensities."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    with_outcome: bool = True  #: Whether the outcome enters, with the coefficient β2.
    floor: Annotated[float, Field(gt=0, lt=1)] = 0.01  #: Smallest propensity μ.
    intercept: float = 0.0  #: Initial value of β0.
    learn: bool = True  #: Whether β is learnt with the candidate.


class Weighted(Training):
    """What propensity scoring adds: the link, and how weights are used."""

    #: paper is equation 9 to the letter; stable keeps the link monotone, and the mean weight of a
    #: batch at 1, among its observed items and among its sampled ones.
    recipe: Recipe = "stable"
    link: LinkSettings = LinkSettings()  #: Link from exposure scores to propensities.
    #: Rows that the exposure model is fitted to: clicks, or impressions, clicked or not. With
    #: impressions, the defaults are weigh=observed and link.learn=false.
    exposure_from: Literal["clicks", "impressions"] = "clicks"
    #: Items that are weighted: all, or observed ones only; sampled items then have a weight of 1.
    weigh: Literal["all", "observed"] = "all"
    _observed_only: ClassVar[bool] = False  # whether a method has the defaults of impressions

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_impressions(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        if not cls._observed_only and values.get("exposure_from") != "impressions":
            return values
        link = values.get("link", {})
        if isinstance(link, LinkSettings):
            link = link.model_dump(exclude_unset=True)
        if isinstance(link, Mapping):
            link = {"learn": False} | dict(link)
        return {"weigh": "observed"} | dict(values) | {"link": link}

    def n_weighted(self, n_places: int) -> int:
        """Return how many of a row's places are weighted; the first is the observed item."""
        return 1 if self.weigh == "observed" else n_places

    def link_options(self) -> dict[str, Any]:
        """Return the options of the link: in the stable recipe it is monotone."""
        return {
            "with_outcome": self.link.with_outcome,
            "floor": self.link.floor,
            "monotone": self.recipe == "stable",
            "initial": (self.link.intercept, 1.0, 0.0),
        }


class Bounded(Weighted):
    """What weights within Γ of fitted ones add; weigh=observed and link.learn=false by default."""

    _observed_only: ClassVar[bool] = True

    gamma: Annotated[float, Field(ge=1, le=1e6)] = 2.0  #: Γ; 1 is propensity scoring.
    #: Whether weights are the worst for the difference to a benchmark, which is learnt by ps.
    benchmarked: bool = False


class Game(Weighted):
    """What the game adds."""

    alpha: NotNegative = 1.0  #: Weight α of the exposure model's regularizer.
    regularizer: RegularizerName = "feedback"  #: Regularizer of the exposure model.
    exposure_rate: Rate = 0.02  #: Learning rate of the exposure model.
    discount: Discount = 1.0  #: Divides the candidate's rate after every epoch, d_f.
    exposure_discount: Discount = 1.0  #: The same for the exposure model, d_g.
    warmup: Annotated[int, Field(ge=0)] = 0  #: Epochs of the exposure model alone at the start.
    #: Stop by the validation metric (patience), or when the objective changed by less than 0.001
    #: in ten epochs (objective).
    stop_by: Literal["patience", "objective"] = "patience"

    @model_validator(mode="after")
    def _leaves_epochs_to_play(self) -> Game:
        if self.warmup >= self.epochs:
            raise ValueError(f"warmup must be below epochs, {self.epochs}")
        return self
