"""The worst case of an evaluation: its candidates under every exposure that a box of dials allows.

A click model is fitted on the validation rows, or on halves of the users where the rows that are
weighted are the validation rows or there are none (`counterplay.metrics.click_model`). With it the
held-out rows are weighted at each pair of dials (`counterplay.metrics.dials`). Where there are
random rows, they say which dials are possible (`counterplay.metrics.random_rows`).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from typing import TYPE_CHECKING

import numpy as np

from counterplay.data.impressions import without_organic
from counterplay.errors import CounterplayWarning, TooFewError
from counterplay.evaluation.records import (
    CandidateEstimate,
    Comparison,
    DialsRecord,
    LeadMap,
    RandomDials,
)
from counterplay.metrics.click_model import N_NEGATIVES, ClickModel, fit_click_model
from counterplay.metrics.dials import Box, Surface, propensities, surface
from counterplay.metrics.estimation import finite
from counterplay.metrics.intervals import top_share
from counterplay.metrics.item_sums import candidate_ranks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from counterplay.data.interactions import Interactions
    from counterplay.evaluation.propensities import Contestant
    from counterplay.evaluation.records import Key
    from counterplay.evaluation.stage import Stage
    from counterplay.metrics.click_model import Exposures
    from counterplay.metrics.random_rows import FittedDials

ROBUST = "robust"
_FOLDS = 2  # of users, where there are no other rows to fit the click model on


@dataclass(frozen=True, slots=True)
class WorstCase:
    """The candidates of a stage over the map of dials.

    Attributes:
        box: The dials that are held possible.
        fitted: What random rows say of them, if there are any.
        model: The click model.
        exposures: Of the stage's rows.
        maps: By metric and cutoff, values over the whole map.
    """

    box: Box
    fitted: FittedDials | None
    model: ClickModel
    exposures: Exposures
    maps: dict[Key, Surface]

    @property
    def top_share(self) -> float:
        """The share of the heaviest hundredth of the rows in all weights, at the worst dials."""
        return max(top_share(1 / propensities(self.exposures, *each)) for each in self.box.dials)

    def surface(self, key: Key) -> Surface:
        """Return the values over the box alone."""
        whole, box = self.maps[key], self.box
        places = [*(whole.box.dials.index(each) for each in box.dials), -1]
        return replace(
            whole,
            box=box,
            values=whole.values[places],
            covariances=whole.covariances[places],
            ess=whole.ess[places],
        )


def worst_case(stage: Stage, contestants: Sequence[Contestant]) -> WorstCase:
    """Fit the click model, and value the contestants over the map of dials."""
    settings = stage.config.dials
    validation = without_organic(stage.split.validation)
    apart = stage.config.part == "test" and len(validation) > 0
    personal = [each.scores for each in contestants if each.is_personal]
    unseen = stage.seen.n_items - np.bincount(stage.seen.user)
    lambdas = settings.lambdas(random=stage.random is not None)
    try:
        model = fit_click_model(
            validation if apart else stage.targets,
            personal,
            train=stage.split.train if apart else stage.seen,
            seen=stage.seen,
            lambdas=lambdas,
            rng=stage.streams.numpy("click model"),
            n_folds=1 if apart else _FOLDS,
            n_negatives=int(np.clip(np.median(unseen) // 2, 1, N_NEGATIVES)),
            memory=stage.config.memory,
        )
    except TooFewError as error:  # or users who have seen everything
        warnings.warn(
            f"what is personal in the clicks could not be judged ({error}): the worst case is "
            "over popularity alone",
            CounterplayWarning,
            stacklevel=2,
        )
        model = ClickModel.impersonal(stage.train, len(personal), lambdas)

    def exposures_of(rows: Interactions) -> Exposures:
        ranks = candidate_ranks(personal, rows, stage.seen, memory=stage.config.memory)
        return model.at(rows.user, rows.item, ranks)

    targets, random, fitted = stage.targets, stage.random, None
    exposures, whole = exposures_of(targets), settings.map()
    if random is not None and random.clicked is not None:
        fitted = settings.fitted(exposures_of(random), random.clicked)
        around = dict.fromkeys((*whole.dials, *fitted.box.dials))
        whole = Box(tuple(around), fitted.box.point)
    maps = {
        key: surface(
            {each.name: stage.values(each)[key] for each in contestants},
            exposures,
            np.asarray(targets.user),
            whole,
        )
        for key in stage.values(contestants[0])
    }
    box = settings.box() if fitted is None else fitted.box
    return WorstCase(box, fitted, model, exposures, maps)


def box_estimates(
    stage: Stage, contestants: Sequence[Contestant]
) -> dict[str, list[CandidateEstimate]]:
    """Return by candidate the mean of each value over the box, between its two ends.

    Sampling is in the ends; the effective sample size is the smallest of the box.
    """
    case, level = stage.worst_case(contestants), stage.config.level
    found: dict[str, list[CandidateEstimate]] = {each.name: [] for each in contestants}
    for key in case.maps:
        over = case.surface(key)
        means = over.mean()
        for name in over.names:
            low, high = over.ends(name, level=level)
            found[name].append(
                CandidateEstimate(
                    candidate=name, metric=key[0], k=key[1], estimator=ROBUST,
                    protocol=stage.protocol, value=means[name], low=finite(low),
                    high=finite(high), level=level, n=over.n, ess=float(over.ess[:-1].min()),
                    top_share=case.top_share, normalised=True,
                )
            )  # fmt: skip
    return found


def box_comparisons(stage: Stage, contestants: Sequence[Contestant]) -> list[Comparison]:
    """Return the mean difference of each pair over the box, between its ends.

    Each end is one-sided at the level, for all rivals of a candidate at once, and the worst over
    the box. So it leaves 0 out only where every pair of dials says the same.
    """
    case, level = stage.worst_case(contestants), stage.config.level
    found = []
    for key in case.maps:
        over = case.surface(key)
        n_tests, means = max(1, len(over.names) - 1), over.mean()
        for first, second in combinations(over.names, 2):
            low = over.lead(first, second, level=level, n_tests=n_tests)
            high = -over.lead(second, first, level=level, n_tests=n_tests)
            found.append(
                Comparison(
                    metric=key[0], k=key[1], estimator=ROBUST, first=first, second=second,
                    value=means[first] - means[second], low=finite(low), high=finite(high),
                    level=level, n=over.n, p=over.p_value(first, second, n_tests=n_tests),
                )
            )  # fmt: skip
    return found


def dials_record(stage: Stage, contestants: Sequence[Contestant]) -> DialsRecord:
    """Return the maps of all leads, and the click model that they rest on."""
    case, level = stage.worst_case(contestants), stage.config.level
    box, model, fitted = case.box, case.model, case.fitted
    names = [each.name for each in contestants if each.is_personal]
    leads = []
    for key, over in case.maps.items():
        n_tests = max(1, len(over.names) - 1)
        for first, second in permutations(over.names, 2):
            one, other = over.names.index(first), over.names.index(second)
            lead = (over.values[:-1, one] - over.values[:-1, other]).tolist()
            low = over.lower(first, second, level=level, n_tests=n_tests)[:-1]
            leads.append(
                LeadMap(
                    metric=key[0], k=key[1], first=first, second=second,
                    value=tuple(lead), low=tuple(finite(each) for each in low.tolist()),
                )
            )  # fmt: skip
    return DialsRecord(
        dials=next(iter(case.maps.values())).box.dials,
        box=box.dials,
        point=box.point,
        coefficients={
            "popularity": float(model.coefficients[:, 0].mean()),
            **dict(zip(names, model.coefficients[:, 1:].mean(axis=0).tolist(), strict=True)),
        },
        n_fitted=model.n_rows,
        n_left_out=model.n_left_out,
        error=case.exposures.error,
        leads=tuple(leads),
        random=None
        if fitted is None
        else RandomDials(
            n=fitted.n,
            n_clicks=round(fitted.n_clicks),
            gamma=fitted.gamma,
            lam=fitted.lam,
            exposure_only=fitted.exposure_only,
        ),
    )
