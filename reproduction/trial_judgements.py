"""One world: candidates trained on its log, and what every assumption on exposure says of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.data.negatives import NegativeSampler
from counterplay.evaluation.worst_case import ROBUST
from counterplay.metrics.click_model import Exposures, fit_click_model
from counterplay.metrics.dials import Box, Surface, surface
from counterplay.metrics.estimation import popularity_propensities
from counterplay.metrics.item_sums import candidate_ranks
from counterplay.metrics.measures import ranking_metrics
from counterplay.metrics.random_rows import LAMBDA_GRID, fit_dials, true_dials
from counterplay.metrics.ranks import full_ranks
from counterplay.seeding import Streams
from counterplay.simulation.logs import oracle_propensities
from counterplay.simulation.values import demand, true_values
from counterplay.simulation.writing import split_by_rounds
from reproduction.trial_candidates import trained_candidates

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.evaluation.propensities import Contestant
    from counterplay.evaluation.records import Key
    from counterplay.evaluation.stage import Stage
    from counterplay.metrics.click_model import ClickModel
    from counterplay.metrics.scoring import Scores
    from counterplay.simulation.world import World

    Floats = NDArray[np.float64]

RATES = (1.0, 0.15, 0.5)  # of the rounds: training, validation, test
METRICS = (("hit", 10), ("ndcg", 10))
GRID = tuple(product((0.0, 0.25, 0.5, 0.55, 0.6, 0.75, 1.0), (0.0, 0.1, 0.2, 0.3, 0.4, 0.6)))
N_RANDOM = 1_000  # random rows, of which about a fifth are clicked
N_TRUE = 5_000  # random pairs that a world's dials are told by


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """What one assumption says: values `[F]`, their ends, and the lower end of every difference."""

    values: Floats
    low: Floats
    high: Floats
    leads: Floats  # [F, F]: row minus column

    @classmethod
    def by(cls, found: Surface, values: Mapping[str, float] | None = None) -> Judged:
        """Judge by a surface: by its mean over the box, or other values; ends are over the box."""
        names = found.names
        value = found.mean() if values is None else values
        ends = np.array([found.ends(name) for name in names])
        leads = np.array(
            [[0.0 if f == h else found.lead(f, h) for h in names] for f in names]
        )  # fmt: skip
        return cls(np.array([value[name] for name in names]), ends[:, 0], ends[:, 1], leads)

    def plain(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {name: rounded(getattr(self, name)) for name in ("values", "low", "high", "leads")}

    @classmethod
    def of(cls, record: dict[str, Any]) -> Judged:
        """Return what `plain` wrote."""
        names = ("values", "low", "high", "leads")
        return cls(*(np.array(record[name], np.float64) for name in names))


def rounded(values: NDArray[np.floating]) -> Any:
    """Return nested lists of numbers with seven digits."""
    flat = [float(f"{each:.7g}") for each in values.ravel().tolist()]
    return np.array(flat).reshape(values.shape).tolist()


def judged_by_stage(
    stage: Stage, contestants: Sequence[Contestant], estimators: Sequence[str], key: Key
) -> dict[str, Judged]:
    """Return what estimators of the library say of contestants; robust is the box of dials."""
    found = {}
    for name in estimators:
        if name == ROBUST:
            found[name] = Judged.by(stage.worst_case(contestants).surface(key))
            continue
        place = stage.of(name)
        rows = {each.name: place.values(each)[key] for each in contestants}
        weights = place.weights(name, contestants[0], contestants)
        found[name] = Judged.by(_alone(rows, -np.log(weights), place.targets.user))
    return found


def judge_world(world: World, seed: int) -> dict[str, Any]:
    """Train the candidates, and return what every assumption says of them, beside the truth."""
    log = world.log(RATES, with_truth=True)
    split = split_by_rounds(log, len(RATES))
    train, seen, test = split.train, log.take(split.part < 2), split.test
    streams = Streams(seed)
    candidates = {each.name: each.scores for each in trained_candidates(split, seen, streams)}
    time = float(len(RATES) - 1)
    users = np.arange(world.n_users)
    total = demand(world, users, seen, time=time)
    truth = [
        true_values(world, each, seen, k=(10,), time=time, total=total)
        for each in candidates.values()
    ]
    personal = [scores for name, scores in candidates.items() if name != "pop"]
    lambdas = sorted({lam for _, lam in GRID} | set(LAMBDA_GRID))
    model = fit_click_model(
        split.validation, personal, train=train, seen=seen, lambdas=lambdas,
        rng=streams.numpy("click model"),
    )  # fmt: skip
    ranks = {name: full_ranks(scores, test, seen) for name, scores in candidates.items()}
    expected = np.stack([each.expected for name, each in ranks.items() if name != "pop"], axis=1)
    exposures = model.at(test.user, test.item, expected)
    values = {
        name: ranking_metrics(each, np.arange(len(each)), names=("hit", "ndcg"), k=(10,))
        for name, each in ranks.items()
    }
    fitted, true = _dials(world, personal, model, seen, streams, time)
    events = np.bincount(train.item, minlength=train.n_items)
    log_q = {
        "popularity": np.log(popularity_propensities(test.item, events)),
        "oracle": np.log(oracle_propensities(world, test)),
    }
    found: dict[str, Any] = {}
    for key in METRICS:
        rows = {name: each[key] for name, each in values.items()}
        grid = surface(rows, exposures, test.user, Box(GRID))
        judged = {name: Judged.by(_alone(rows, q, test.user)) for name, q in log_q.items()}
        by_rows = surface(rows, exposures, test.user, fitted.box)
        judged["random rows"] = Judged.by(by_rows, by_rows.point)
        found[f"{key[0]}@{key[1]}"] = {
            "truth": rounded(np.array([each[key] for each in truth])),
            "values": rounded(grid.values),
            "covariances": rounded(grid.covariances),
            "differing": grid.differing.tolist(),
            "ess": rounded(grid.ess),
            "judged": {name: each.plain() for name, each in judged.items()},
        }
    return {
        "candidates": list(candidates),
        "rows": {"train": len(train), "validation": len(split.validation), "test": len(test)},
        "n_users": int(grid.n_users),
        "click_model": rounded(model.coefficients[0]),
        "true_dials": [true.gamma, true.lam],
        "fitted_dials": [fitted.gamma, fitted.lam, len(fitted.box.dials), fitted.n_clicks],
        "metrics": found,
    }


def _alone(rows: Mapping[str, Floats], log_q: Floats, users: NDArray[np.integer]) -> Surface:
    """Return the values under one set of propensities."""
    nothing = np.zeros(len(log_q))
    alone = Exposures(log_q, nothing, (0.0,), nothing[None])
    return surface(rows, alone, users, Box(((1.0, 0.0),), (1.0, 0.0)))


def _dials(
    world: World,
    personal: list[Scores],
    model: ClickModel,
    seen: Interactions,
    streams: Streams,
    time: float,
) -> tuple[Any, Any]:
    """Return the dials by a few random rows, and those by the truth of many random pairs."""
    rng = streams.numpy("random rows")
    user = np.sort(rng.integers(world.n_users, size=N_RANDOM + N_TRUE)).astype(np.int32)
    item = NegativeSampler(seen).draw(user, 1, rng)
    pairs = replace(seen.take(np.zeros(0, np.int64)), **_columns(user, item[:, 0]))
    relevance = world.relevance(user, item, time=time)[:, 0]
    rows = model.at(user, item[:, 0], candidate_ranks(personal, pairs, seen))
    few = rng.permutation(len(user))[:N_RANDOM]
    clicked = rng.random(N_RANDOM) < relevance[few]
    return fit_dials(rows.take(few), clicked), true_dials(rows, relevance)


def _columns(user: NDArray[np.int32], item: NDArray[np.int32]) -> dict[str, Any]:
    """Return the columns of pairs alone."""
    nothing = ("rating", "time", "exposed", "propensity", "position")
    return {"user": user, "item": item} | dict.fromkeys(nothing)
