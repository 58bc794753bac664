"""The estimators, by name: what each assumes of exposure, what it needs, how far it is trusted.

An estimator gives the propensities of held-out rows, whose inverses are their weights; robust has
none, and takes the worst case over a box of dials instead. One of one's own is a value like those
below, entered as `ESTIMATORS["mine"] = Estimator("mine", …)`.

The order of trust begins with what knows exposure; then comes the worst case, whose decisions were
wrong least often where the truth is known, and then what chose best there. Nearest to the true
values is another one: docs/guide/estimators.md has the figures and the commands that made them.
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

RANDOMISED = "randomised"
Propensities = Callable[["Stage", "Contestant", "Sequence[Contestant]"], "NDArray[np.float64]"]
Refits = Callable[["Stage", "Sequence[Contestant]"], "NDArray[np.float64]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimator:
    """One assumption about exposure.

    Attributes:
        name: In configurations and records.
        title: What it is called at the beginning of a sentence.
        assumes: What it does and what that rests on; the sentence begins with its name.
        propensities: Of the rows of a stage `[n]`, for a candidate among its rivals; None for
            what has no weights: the worst case over a box of dials, and doubly robust values.
        needs: What a log of clicks alone does not have.
        refits: The same propensities by other fits of their model `[n_refits, n]`, where they are
            fitted: intervals are wider by what that moves.
        shared: Whether all candidates have the same weights, so that they can be compared.
        trust: A verdict is that of the estimator with the most; with 0 it chooses for nobody.
        usual: Whether a comparison has it without being asked, where it applies.
        selects: Whether tuning may select by it.
        weighs: Whether weights differ, so that the odds of exposure can be off.
        clicks: Whether it is of clicks alone, and not of ratings.
    """

    name: str
    title: str
    assumes: str
    propensities: Propensities | None
    needs: Literal["propensities", "random rows", "impressions", "world"] | None = None
    refits: Refits | None = None
    shared: bool = True
    trust: int = 0
    usual: bool = False
    selects: bool = False
    weighs: bool = True
    clicks: bool = False

    def applies(
        self, log: Interactions, *, world: bool, random: bool = False, shown: bool = False
    ) -> bool:
        """Tell whether what it needs is there."""
        there = {
            None: True,
            "propensities": log.propensity is not None,
            "random rows": random,
            "impressions": shown,
            "world": world,
        }
        return there[self.needs]

    def check(
        self, log: Interactions, *, world: bool, random: bool = False, shown: bool = False
    ) -> None:
        """Refuse where what it needs is absent."""
        if self.applies(log, world=world, random=random, shown=shown):
            return
        if self.needs == "impressions":
            raise ConfigError(
                f"the {self.name} estimator needs impressions, clicked or not; found clicks alone; "
                "give a log with a column 'clicked', or choose another estimator"
            )
        if self.needs == "random rows":
            raise ConfigError(
                f"the {self.name} estimator needs random rows; found none; give them with "
                "--random-rows, in Python random_rows, or choose another estimator"
            )
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


def _fitted(kind: Literal["propensity", "opponent"]) -> Propensities:
    def propensities(
        stage: Stage, contestant: Contestant, rivals: Sequence[Contestant]
    ) -> NDArray[np.float64]:
        from counterplay.evaluation.propensities import fitted_propensities, own_propensities

        rows, opponent = (stage.train, stage.seen, stage.targets), stage.config.opponent
        if opponent.as_trained:
            return own_propensities(contestant, *rows)
        return fitted_propensities(
            kind, rivals, *rows, opponent, stage.config.seed, progress=stage.progress
        )

    return propensities


def _at_the_point(stage: Stage, _: Contestant, rivals: Sequence[Contestant]) -> NDArray[np.float64]:
    from counterplay.metrics.dials import propensities

    case = stage.worst_case(rivals)
    return propensities(case.exposures, *case.box.point)


def _shown(stage: Stage, _: Contestant, rivals: Sequence[Contestant]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = stage.shown_case(rivals).propensities[0]
    return found


def _shown_again(stage: Stage, rivals: Sequence[Contestant]) -> NDArray[np.float64]:
    return stage.shown_case(rivals).propensities[1:]


ESTIMATORS: dict[str, Estimator] = {
    each.name: each
    for each in (
        Estimator(
            name="standard",
            title="Standard offline evaluation",
            assumes="counts every test row alike, as if users had been shown everything. It "
            "overestimates models that imitate the old system.",
            propensities=_ones,
            trust=3,
            usual=True,
            selects=True,
            weighs=False,
        ),
        Estimator(
            name="popularity",
            title="Weighting by popularity",
            assumes="weights a row by the inverse of its item's popularity in training: all of "
            "popularity is taken to be exposure, nothing of it quality.",
            propensities=_by_popularity,
            trust=1,
            usual=True,
            selects=True,
        ),
        Estimator(
            name="dials",
            title="Weighting by the likeliest dials",
            assumes="takes one share of popularity and one of taste to be exposure: by default "
            "55% and 30%, about what randomised data showed.",
            propensities=_at_the_point,
            trust=4,
            usual=True,
            clicks=True,
        ),
        Estimator(
            name="robust",
            title="The worst case over exposures",
            assumes="takes the worst case over the shares of popularity and of taste that may be "
            "exposure: by default any share of popularity, and up to 40% of taste. Its value is "
            "the mean over them; its ends are the least and the greatest, sampling included.",
            propensities=None,
            trust=5,
            usual=True,
            weighs=False,
            clicks=True,
        ),
        Estimator(
            name="propensity",
            title="Weighting by a fitted exposure model",
            assumes="weights rows by an exposure model that was fitted to the clicks.",
            propensities=_fitted("propensity"),
            trust=2,
            selects=True,
        ),
        Estimator(
            name="opponent",
            title="Weighting by the paper's opponent",
            assumes="weights rows by an exposure model that was trained against the candidates. "
            "It was wrong more often than standard where the truth is known.",
            propensities=_fitted("opponent"),
        ),
        Estimator(
            name="impressions",
            title="Weighting by what was shown",
            assumes="weights rows by an exposure model that was fitted to the impressions: to "
            "how often each item was shown, and to how the ranks of the candidates go with it.",
            propensities=_shown,
            refits=_shown_again,
            needs="impressions",
            trust=7,
            usual=True,
            clicks=True,
        ),
        Estimator(
            name="doubly-robust",
            title="Doubly robust evaluation",
            assumes="adds up what a model of clicks among impressions expects of every item, "
            "corrected by the impressions. It is right if that model or the exposure model is.",
            propensities=None,
            needs="impressions",
            trust=6,
            usual=True,
            weighs=False,
            clicks=True,
        ),
        Estimator(
            name="logged",
            title="Weighting by the logged propensities",
            assumes="weights rows by the propensities that the log itself states.",
            propensities=_logged,
            needs="propensities",
            trust=8,
            usual=True,
            selects=True,
        ),
        Estimator(
            name=RANDOMISED,
            title="Evaluation on random rows",
            assumes="counts the clicked ones among rows whose item was drawn at random, all alike. "
            "It assumes nothing of exposure; its interval is wide where such rows are few.",
            propensities=_ones,
            needs="random rows",
            trust=9,
            weighs=False,
            clicks=True,
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
