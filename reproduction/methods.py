"""The methods of the tables: what is trained, and which settings are tried for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from counterplay.learning.config import Recipe
from counterplay.models.registry import ModelName, ModelSettings
from counterplay.runs.config import Method, RunConfig, ValidationSettings, config_of
from counterplay.runs.defaults import training_for
from reproduction.separate import NAME as SEPARATE
from reproduction.turns import NAME as TURNS

if TYPE_CHECKING:
    from counterplay.data.interactions import Interactions

Settings = tuple[tuple[str, float], ...]  # by the names below
# The grids of the appendix without our defaults, those next to them first. Its ℓ2 strengths are of
# a loss summed over a batch, and ours is a mean: they are divided by the size of a batch. It names
# no numbers of attention heads.
SPACE: dict[str, tuple[float, ...]] = {
    "rate": (0.005, 0.05, 0.001, 0.1),
    "l2": (0.05, 0.1, 0.01, 0.2, 0.0, 0.3),
    "heads": (2,),
    "alpha": (0.1, 2.0),
    "exposure_rate": (0.05, 0.01, 0.005, 0.1, 0.001),
}
# The paper judges among 100 sampled items, and so epochs and settings are chosen.
_PAPERS = ValidationSettings(protocol="sampled", metric="hit", k=10, n_negatives=100)
# What the authors' public code trains with, where ours can do the same. Its ℓ2 of 1e-7 is next to
# nothing; its game bounds the opponent's gain, which is not here. Five epochs of g alone are first.
_CODE = {"epochs": 10, "batch_size": 2048, "l2": 0.0, "rate": 0.01, "optimizer": "lazy"}
_OF_CODE: dict[str, dict[str, Any]] = {
    "erm": _CODE,
    "ps": _CODE
    | {"recipe": "paper", "link": {"floor": 0.1, "learn": False, "with_outcome": False}},
    "acl": _CODE
    | {"recipe": "paper", "link": {"floor": 0.1}, "alpha": 0.5, "exposure_rate": 0.01}
    | {"warmup": 5, "epochs": 15},
}
AS_THE_CODE = frozenset({"product", "turns"})  # what its game does otherwise than Algorithm 1
DOUBLED: dict[Method, int] = {"erm": 2, "ps": 1, "acl": 1}  # so that parameters are alike
_NAMES = {"pop": "Pop", "attn": "Attn", "oracle": "oracle"}


class TableMethod(BaseModel):
    """A method of a table.

    Attributes:
        method: erm, ps or acl.
        candidate: The model that is learnt.
        exposure: Its propensity model (ps) or opponent (acl).
        recipe: Of ps and acl.
        dim: Of both models.
        fixed: Settings that are the point of it, and are not tuned.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: Method
    candidate: ModelName
    exposure: ModelName | Literal["oracle"] = "pop"
    recipe: Recipe = "stable"
    dim: Annotated[int, Field(ge=1)] = 32
    fixed: Settings = ()

    @property
    def printed(self) -> str:
        """Its name in the paper's tables, which know no recipes."""
        if self.method == "erm":
            return self.candidate
        exposure = f"-{self.exposure}" if self.method == "ps" else ""
        return f"{self.method}-{self.candidate}{exposure}"

    @property
    def name(self) -> str:
        """What it is called in labels of jobs."""
        recipe = () if self.method == "erm" else (self.recipe,)
        special = [f"{name}={value:g}" for name, value in self.fixed]
        return "-".join([self.printed, *recipe, str(self.dim), *special])

    @property
    def title(self) -> str:
        """What it is called on a page."""
        candidate, exposure = (_NAMES.get(x, x.upper()) for x in (self.candidate, self.exposure))
        if self.method == "erm":
            return candidate
        return f"{self.method.upper()} {candidate} / {exposure}, {self.recipe}"

    @property
    def tuned(self) -> tuple[str, ...]:
        """The settings that are tuned."""
        if self.candidate == "pop":
            return ()
        heads = ("heads",) if self.candidate == "attn" else ()
        game = ("alpha", "exposure_rate") if self.method == "acl" else ()
        fixed = {name for name, _ in self.fixed}
        return tuple(name for name in ("rate", "l2", *heads, *game) if name not in fixed)

    def trial(self, number: int) -> Settings:
        """Return the settings of a trial: the defaults first, then one setting at a time.

        The appendix selects them separately. They take turns, and each has its values in an order
        that is the same for all methods: so none has better luck than another.
        """
        if number == 0 or not self.tuned:
            return ()
        turn, place = divmod(number - 1, len(self.tuned))
        name = self.tuned[place]
        return ((name, SPACE[name][turn % len(SPACE[name])]),)

    def run_config(
        self, settings: Settings, train: Interactions, *, seed: int, epochs: int, patience: int
    ) -> RunConfig:
        """Return what is trained with these settings on these rows; see `TruePropensities`."""
        chosen = dict(self.fixed) | dict(settings)
        epochs = 1 if self.candidate == "pop" else epochs
        training = training_for(train, seed=seed, epochs=epochs, patience=patience)
        if "code" in chosen and self.candidate != "pop":
            training |= _OF_CODE[self.method]
        elif self.method != "erm":
            training["recipe"] = self.recipe
        for name in ("l2", "exposure_l2"):
            if name in chosen:
                training[name] = chosen[name] / training["batch_size"]
        link = {name: bool(chosen[name]) for name in ("with_outcome", "learn") if name in chosen}
        if link:
            training["link"] = training.get("link", {}) | link
        for name in ("rate", "alpha", "exposure_rate"):
            if name in chosen:
                training[name] = chosen[name]
        if "lazy" in chosen:
            training["optimizer"] = "lazy"
        if "objective" in chosen:
            training["stop_by"] = "objective"
        size: dict[str, Any] = {"dim": self.dim, "heads": int(chosen.get("heads", 1))}
        models = {"candidate": ModelSettings(name=self.candidate, use_features=False, **size)}
        if self.method != "erm" and self.exposure != "oracle":
            models["exposure"] = ModelSettings(name=self.exposure, use_features=False, **size)
        own = self.method == "ps" and not {"exposure_rate", "exposure_l2"}.isdisjoint(chosen)
        method = SEPARATE if own else self.method
        if not AS_THE_CODE.isdisjoint(chosen):
            method = TURNS
            training |= {name: name in chosen for name in sorted(AS_THE_CODE)}
        if "turns" in chosen:  # an epoch of each
            training["epochs"] = 2 * training["epochs"] - training["warmup"]
        return config_of({"method": method, "training": training, "validation": _PAPERS, **models})


def baselines(names: tuple[ModelName, ...], dim: int) -> list[TableMethod]:
    """Return plain learning of models, at the doubled dimension."""
    doubled = DOUBLED["erm"] * dim
    return [TableMethod(method="erm", candidate=name, dim=doubled) for name in names]


def weighted(
    names: tuple[ModelName, ...], dim: int, *, with_oracle: bool = False
) -> list[TableMethod]:
    """Return PS by popularity, by the same model, and perhaps by the truth, in both recipes."""
    return [
        TableMethod(method="ps", candidate=name, exposure=exposure, recipe=recipe, dim=dim)
        for name in names
        for exposure in ("pop", name, *(("oracle",) if with_oracle else ()))
        for recipe in ("stable", "paper")
    ]


def games(
    names: tuple[ModelName, ...],
    dim: int,
    *,
    recipes: tuple[Recipe, ...] = ("stable", "paper"),
    fixed: Settings = (),
) -> list[TableMethod]:
    """Return the game of models against their own kind."""
    return [
        TableMethod(
            method="acl", candidate=name, exposure=name, recipe=recipe, dim=dim, fixed=fixed
        )
        for name in names
        for recipe in recipes
    ]
