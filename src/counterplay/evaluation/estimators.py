"""The estimators, by name: what each assumes of exposure, what it needs, how far it is trusted.

An estimator gives the propensities of held-out rows, whose inverses are their weights. One of one's
own is a value like those below, entered as `ESTIMATORS["mine"] = Estimator("mine", …)`.

The order of trust goes by what choosing cost where the truth is known. Logged propensities are the
exposure itself. In the 25 worlds of `reproduction/results/estimators.json` the choices of standard,
propensity and popularity lost 2.6, 2.9 and 2.9% of the best true value, which is no difference, and
those of robust-shared 5.9%. Between the three, popularity comes first because its values are near
the truth, where those of standard are several times too high, and because in the ten worlds of the
demo standard lost 3.1% and popularity nothing; docs/guide/estimators.md has all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal

from counterplay.errors import ConfigError, DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.evaluation.propensities import Contestant
    from counterplay.evaluation.stage import Stage

Propensities = Callable[["Stage", "Contestant", "Sequence[Contestant]"], "NDArray[np.float64]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimator:
    """One assumption about exposure.

    Attributes:
        name: In configurations and records.
        title: What it is called at the beginning of a sentence.
        assumes: What it does and what that rests on; the sentence begins with its name.
        propensities: Of the rows of a stage `[n]`, for a candidate among its rivals.
        needs: What a log alone does not have.
        shared: Whether all candidates have the same weights, so that they can be compared.
        trust: A verdict is that of the estimator with the most; with 0 it chooses for nobody.
        usual: Whether a comparison has it without being asked, where it applies.
        selects: Whether tuning may select by it.
        weighs: Whether weights differ, so that the odds of exposure can be off.
    """

    name: str
    title: str
    assumes: str
    propensities: Propensities
    needs: Literal["propensities", "world"] | None = None
    shared: bool = True
    trust: int = 0
    usual: bool = False
    selects: bool = False
    weighs: bool = True

    def applies(self, log: Interactions, *, world: bool) -> bool:
        """Tell whether what it needs is there."""
        if self.needs == "propensities":
            return log.propensity is not None
        return self.needs is None or world

    def check(self, log: Interactions, *, world: bool) -> None:
        """Refuse where what it needs is absent."""
        if self.applies(log, world=world):
            return
        if self.needs == "world":
            raise ConfigError(
                f"the {self.name} estimator needs the world that the log was drawn from; found a "
                "log alone; name the world, or choose another estimator"
            )
        raise DataError(
            f"the {self.name} estimator needs propensities in the data; found none; choose another"
        )


def _ones(stage: Stage, *_: Any) -> NDArray[np.float64]:
    import numpy as np

    return np.ones(len(stage.targets))


def _by_popularity(stage: Stage, *_: Any) -> NDArray[np.float64]:
    from counterplay.evaluation.propensities import popularity

    return popularity(stage.train, stage.targets, stage.config.exponent, stage.config.floor)


def _logged(stage: Stage, *_: Any) -> NDArray[np.float64]:
    import numpy as np

    return np.array(stage.targets.propensity)


def _true(stage: Stage, *_: Any) -> NDArray[np.float64]:
    from counterplay.simulation.logs import oracle_propensities

    assert stage.world is not None
    return oracle_propensities(stage.world, stage.targets)


def _fitted(name: str) -> Propensities:
    def propensities(
        stage: Stage, contestant: Contestant, rivals: Sequence[Contestant]
    ) -> NDArray[np.float64]:
        from counterplay.evaluation.propensities import fitted_propensities

        return fitted_propensities(
            name, contestant, rivals, stage.train, stage.seen, stage.targets,
            stage.config.opponent, stage.config.seed, progress=stage.progress,
        )  # fmt: skip

    return propensities


ESTIMATORS: dict[str, Estimator] = {
    each.name: each
    for each in (
        Estimator(
            name="standard",
            title="Standard offline evaluation",
            assumes="takes every test row at face value, as if users had been shown everything. On "
            "worlds with a known truth it was far too high: it rewards whoever imitates the old "
            "exposure.",
            propensities=_ones,
            trust=2,
            usual=True,
            selects=True,
            weighs=False,
        ),
        Estimator(
            name="popularity",
            title="Weighting by popularity",
            assumes="weights a row by how rarely its item occurs in training: what is popular is "
            "taken to have been shown more. Simple, and on worlds with a known truth its values "
            "were never far behind the nearest.",
            propensities=_by_popularity,
            trust=4,
            usual=True,
            selects=True,
        ),
        Estimator(
            name="propensity",
            title="Weighting by a fitted exposure model",
            assumes="weights rows by an exposure model that was fitted alone.",
            propensities=_fitted("propensity"),
            trust=3,
            selects=True,
        ),
        Estimator(
            name="robust",
            title="The robust evaluation of each candidate alone",
            assumes="weights rows by the worst exposure for each candidate. Every candidate has "
            "its own weights, so their values are not compared row by row.",
            propensities=_fitted("robust"),
            shared=False,
        ),
        Estimator(
            name="robust-shared",
            title="The robust evaluation",
            assumes="weights rows by the worst exposure that the data allow for these candidates, "
            "one for all of them. On worlds with a known truth it came about as near as "
            "popularity, and far nearer than standard; it is a worst case, not a measurement.",
            propensities=_fitted("robust-shared"),
            trust=1,
            usual=True,
        ),
        Estimator(
            name="logged",
            title="Weighting by the logged propensities",
            assumes="weights rows by the propensities that the log itself states.",
            propensities=_logged,
            needs="propensities",
            trust=5,
            usual=True,
            selects=True,
        ),
        Estimator(
            name="oracle",
            title="Weighting by the true propensities",
            assumes="weights rows by the true propensities. Only a simulated world has them: it "
            "shows what weighting could do at best.",
            propensities=_true,
            needs="world",
            usual=True,
        ),
    )
}


def trusted() -> list[str]:
    """Return the estimators that a verdict may follow, the most trusted first."""
    decide = [each for each in ESTIMATORS.values() if each.shared and each.trust]
    return [each.name for each in sorted(decide, key=lambda each: -each.trust)]


def known(name: str) -> str:
    """Return the name of an estimator; refuse another one."""
    if name not in ESTIMATORS:
        near = get_close_matches(name, ESTIMATORS, n=1)
        advice = f"did you mean '{near[0]}'" if near else "choose one of them"
        raise ConfigError(
            f"an estimator must be one of {', '.join(ESTIMATORS)}; found '{name}'; {advice}"
        )
    return name
