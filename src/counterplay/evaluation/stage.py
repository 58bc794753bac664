"""One evaluation's stage: held-out rows, what each contestant makes of them, and their weights."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from counterplay.data.impressions import held_out_clicks, tells_apart
from counterplay.data.splits import PARTS, TEST, VALIDATION
from counterplay.errors import ConfigError
from counterplay.evaluation.estimators import ESTIMATORS, RANDOMISED
from counterplay.evaluation.impressions import (
    DOUBLY_ROBUST,
    Imputed,
    ShownCase,
    imputed,
    shown_case,
)
from counterplay.evaluation.random_rows import unseen_random_rows
from counterplay.evaluation.records import Comparison
from counterplay.evaluation.settings import Evaluation as Evaluation  # noqa: TC001 - with Stage
from counterplay.evaluation.user_sample import UserSample
from counterplay.evaluation.worst_case import WorstCase, worst_case
from counterplay.metrics.comparison import comparisons
from counterplay.metrics.estimation import finite, weights_of
from counterplay.metrics.measures import SMALLER_IS_BETTER, ranking_metrics, rating_errors
from counterplay.metrics.ranks import full_ranks, sampled_candidates, sampled_ranks
from counterplay.metrics.sensitivity import turned
from counterplay.seeding import Streams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.data.splits import Split
    from counterplay.evaluation.propensities import Contestant
    from counterplay.evaluation.settings import EstimatorName
    from counterplay.progress import Stages
    from counterplay.simulation.world import World


class Stage:
    """The rows that all contestants of one evaluation are judged on."""

    def __init__(
        self,
        split: Split,
        config: Evaluation,
        *,
        explicit: bool,
        world: World | None = None,
        random: Interactions | None = None,
        progress: Stages = lambda *_: None,
    ) -> None:
        self.progress = progress
        self.split, self.config, self.explicit, self.world = split, config, explicit, world
        held_out = TEST if config.part == "test" else VALIDATION
        self.targets = held_out_clicks(split, config.part, tell=True)
        self.sample = UserSample.of_part(split, held_out, config.users, config.seed)
        if self.sample is not None:
            self.targets = self.sample.rows(self.targets)
        self.seen = split.interactions.take(split.part < held_out)
        if random is not None and explicit:
            raise ConfigError(
                "random rows are clicked or not; found predicted ratings; leave the random rows out"
            )
        self.random = None if random is None else unseen_random_rows(random, self.seen)
        self._at_random: Stage | None = None
        self.train = split.train if explicit else replace(split.train, rating=None)
        self.streams = Streams(config.seed)
        self._values: dict[str, dict[tuple[str, int], NDArray[np.float64]]] = {}
        self._weights: dict[tuple[str, str], NDArray[np.float64]] = {}
        self._candidates: NDArray[np.int32] | None = None
        self._worst_cases: dict[tuple[str, ...], WorstCase] = {}
        self._shown_cases: dict[tuple[str, ...], ShownCase] = {}
        self._imputed: dict[tuple[str, ...], Imputed] = {}

    @property
    def estimators(self) -> tuple[str, ...]:
        """Those that were asked for; of the usual ones, those that are of these rows.

        Whoever gives random rows asks for what they say.
        """
        names = self.config.estimators
        if self.random is not None and RANDOMISED not in names:
            names = (*names, RANDOMISED)
        of_clicks = [name for name in names if self.explicit and ESTIMATORS[name].clicks]
        if self.config.protocol == "sampled" and DOUBLY_ROBUST in names:
            of_clicks.append(DOUBLY_ROBUST)  # which is of ranks among all items
        if of_clicks and "estimators" in self.config.model_fields_set:
            raise ConfigError(
                f"the estimator {of_clicks[0]} is of clicks; found predicted ratings; choose "
                "another one"
            )
        return tuple(name for name in names if name not in of_clicks)

    def check(self, *estimators: EstimatorName) -> None:
        """Refuse estimators where what they need is absent, before what takes long."""
        there = {"world": self.world is not None, "random": self.random is not None}
        there["shown"] = tells_apart(self.split, PARTS.index(self.config.part))
        for each in estimators:
            ESTIMATORS[each].check(self.targets, **there)

    def shares(self, estimator: EstimatorName) -> bool:
        """Tell whether all contestants have the same weights, so that they can be compared."""
        own = self.config.opponent.as_trained and estimator in ("propensity", "opponent")
        return ESTIMATORS[estimator].shared and not own

    def of(self, estimator: EstimatorName) -> Stage:
        """Return the stage of an estimator's rows: of these, or of the clicked random rows."""
        if ESTIMATORS[estimator].needs != "random rows":
            return self
        ESTIMATORS[estimator].check(self.targets, world=False, random=self.random is not None)
        assert self.random is not None
        assert self.random.clicked is not None
        if self._at_random is None:
            self._at_random = copy(self)
            self._at_random.targets = self.random.take(self.random.clicked)
            self._at_random._values, self._at_random._weights = {}, {}
            self._at_random._candidates = None
        return self._at_random

    @property
    def users(self) -> NDArray[np.int32]:
        """All users who are ranked for, each once: those of the rows, and of random rows."""
        others = () if self.random is None else self.random.user
        return np.union1d(self.targets.user, np.asarray(others, np.int32))

    def worst_case(self, contestants: Sequence[Contestant]) -> WorstCase:
        """Return the contestants under all dials that are held possible."""
        names = tuple(each.name for each in contestants)
        if names not in self._worst_cases:
            self.progress("evaluating: robust", 0, None)
            self._worst_cases[names] = worst_case(self, contestants)
        return self._worst_cases[names]

    def shown_case(self, contestants: Sequence[Contestant]) -> ShownCase:
        """Return what impressions say of how likely the rows were shown."""
        names = tuple(each.name for each in contestants)
        if names not in self._shown_cases:
            self.progress("evaluating: impressions", 0, None)
            self._shown_cases[names] = shown_case(self, contestants)
        return self._shown_cases[names]

    def imputed(self, contestants: Sequence[Contestant]) -> Imputed:
        """Return the contestants' doubly robust sums."""
        if (names := tuple(each.name for each in contestants)) not in self._imputed:
            self._imputed[names] = imputed(self, contestants)
        return self._imputed[names]

    @property
    def protocol(self) -> str:
        """Return how rows are judged, for the record."""
        if self.explicit:
            return "ratings"
        full = self.config.protocol == "full"
        return "full" if full else f"sampled-{self.config.n_negatives}"

    def values(self, contestant: Contestant) -> dict[tuple[str, int], NDArray[np.float64]]:
        """Return a value a row for each metric and cutoff."""
        if contestant.name not in self._values:
            self._values[contestant.name] = self._measured(contestant)
        return self._values[contestant.name]

    def _measured(self, contestant: Contestant) -> dict[tuple[str, int], NDArray[np.float64]]:
        config, targets = self.config, self.targets
        if self.explicit:
            assert targets.rating is not None
            predicted = contestant.scores.of(targets.user, targets.item[:, None])[:, 0]
            return {
                (name, 0): errors
                for name, errors in rating_errors(predicted, targets.rating).items()
            }
        what = f"ranking by {contestant.name}"

        def tell(done: int) -> None:
            self.progress(what, done, len(targets), "rows")

        tell(0)
        if config.protocol == "full":
            ranks = full_ranks(
                contestant.scores, targets, self.seen, memory=config.memory, progress=tell
            )
        else:
            if self._candidates is None:
                rng = self.streams.numpy("candidates")
                self._candidates = sampled_candidates(self.seen, targets, config.n_negatives, rng)
            ranks = sampled_ranks(
                contestant.scores,
                targets.user,
                self._candidates,
                memory=config.memory,
                progress=tell,
            )
        return ranking_metrics(ranks, np.arange(len(ranks)), names=config.metrics, k=config.k)

    def weights(
        self, estimator: EstimatorName, contestant: Contestant, rivals: Sequence[Contestant]
    ) -> NDArray[np.float64]:
        """Return the inverse propensities of the rows."""
        key = estimator, "" if self.shares(estimator) else contestant.name
        if key not in self._weights:
            self.check(estimator)
            found = ESTIMATORS[estimator]
            assert found.propensities is not None, "a worst case has no weights"
            q = found.propensities(self, contestant, rivals)
            self._weights[key] = weights_of(q, clip=self.config.clip)
        return self._weights[key]

    def refits(
        self, estimator: EstimatorName, rivals: Sequence[Contestant]
    ) -> NDArray[np.float64] | None:
        """Return the inverse propensities by other fits, where they are fitted to impressions."""
        again = ESTIMATORS[estimator].refits
        return None if again is None else weights_of(again(self, rivals), clip=self.config.clip)

    def compared(
        self, estimator: EstimatorName, contestants: Sequence[Contestant]
    ) -> list[Comparison]:
        """Compare all contestants under one estimator's weights, metric by metric."""
        weights = self.weights(estimator, contestants[0], contestants)
        refits = self.refits(estimator, contestants)
        _, clusters = np.unique(self.targets.user, return_inverse=True)
        found = []
        for metric, k in self.values(contestants[0]):
            by_name = {each.name: self.values(each)[metric, k] for each in contestants}
            rng = self.streams.numpy("comparison", metric, k)
            for first, second, difference in comparisons(
                by_name,
                weights,
                clusters,
                rng,
                n_resamples=self.config.n_resamples,
                level=self.config.level,
                normalise=self.config.normalise,
                refits=refits,
            ):
                flip = said = None
                if ESTIMATORS[estimator].weighs:  # else there are no odds that could be off
                    sign = -1 if metric in SMALLER_IS_BETTER else 1
                    one, other = sign * by_name[first], sign * by_name[second]
                    flip, said = turned(first, second, one, other, weights, difference)
                found.append(
                    Comparison(
                        metric=metric,
                        k=k,
                        estimator=estimator,
                        first=first,
                        second=second,
                        value=difference.value,
                        low=finite(difference.low),
                        high=finite(difference.high),
                        level=difference.level,
                        n=difference.n,
                        p=difference.p_value,
                        flip=flip,
                        statement=said,
                    )
                )
        return found
