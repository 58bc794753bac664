"""Our defaults under another library's protocol, whose full-ranking figures of such models are out.

Rows with a rating of 3 or more, the 10-core, a random tenth of each user's rows for validation and
another as test. Test items are ranked among all that the user has in no other part; a user's value
is the mean over all his test rows as RecBole has it. What is done is not run again.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from counterplay.data.filters import k_core
from counterplay.data.jobs import Job
from counterplay.data.preparation import Preparation, prepare
from counterplay.data.splits import TEST, Split
from counterplay.errors import CounterplayWarning
from counterplay.learning.fitting import fit
from counterplay.learning.methods import method_of
from counterplay.metrics.ranks import full_ranks
from counterplay.metrics.scoring import ModelScores
from counterplay.runs.config import ValidationSettings
from counterplay.runs.validating import Judge
from counterplay.seeding import Streams
from reproduction.datasets import public_folder
from reproduction.execution import results_of
from reproduction.models_fit import JUDGED_BY, K, Settings, tuning_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.data.jobs import Result
    from counterplay.metrics.ranks import Ranks
    from reproduction.datasets import Place

DATA = "ml-1m"
SOURCES: tuple[str, ...] = (DATA,)
LIKED, CORE, TENTH = 3.0, 10, 0.1
EPOCHS, PATIENCE = 100, 15  # as `run` and `tune` have them by default
JUDGED_ON = 1000  # users who choose the epoch
SEEDS = (0, 1, 2)
METRICS = ("recall", "ndcg", "hit")
_FIGURES = (*METRICS, "best_epoch", "seconds")


class Theirs(NamedTuple):
    """What RecBole's benchmark reports of a model, in per cent, and our line nearest to it."""

    line: str
    ours: str
    settings: Settings
    model: str
    recall: float
    ndcg: float
    hit: float


PUBLISHED = (  # benchmark/hyper/general/MODEL-ml-1m_general.md in RUCAIBox/RecBole
    Theirs("ease", "ease", {}, "EASE", 21.39, 28.65, 78.37),
    Theirs("gmf", "gmf", {}, "BPR", 17.34, 23.96, 71.49),
    Theirs("gmf, dim 64", "gmf", {"candidate.dim": 64}, "BPR", 17.34, 23.96, 71.49),
    Theirs("gmf, patience 5", "gmf", {"training.patience": 5}, "BPR", 17.34, 23.96, 71.49),
    Theirs("mlp", "mlp", {}, "NeuMF", 16.11, 22.87, 69.45),
    Theirs("ncf", "ncf", {}, "NeuMF", 16.11, 22.87, 69.45),
)
LINES = {each.line: each for each in PUBLISHED}


class PublishedFit(Job):
    """Fit a line to the rows of their protocol."""

    line: str
    seed: Annotated[int, Field(ge=0)] = 0

    @property
    def label(self) -> str:
        """Log, line and seed."""
        return f"{DATA}/published/{self.line.replace(', ', '-')}/seed-{self.seed}"


def run(place: Place) -> dict[str, Any]:
    """Fit each line, and return what it reaches beside what was published."""
    jobs = [PublishedFit(line=line, seed=seed) for seed in SEEDS for line in LINES]
    results = results_of(jobs, place, fitted)
    fits = {
        line: [r for j, r in zip(jobs, results, strict=True) if j.line == line] for line in LINES
    }
    found = {line: averaged(each) for line, each in fits.items()}
    log = prepared(place).interactions
    counts = {"rows": len(log), "users": log.n_users, "items": log.n_items}
    return {
        "counts": counts,
        "lines": found,
        "fits": fits,
        "rows": [_row(each, found[each.line]) for each in PUBLISHED],
        "pages": {"published.md": page(found, counts)},
    }


@lru_cache(maxsize=1)
def prepared(place: Place) -> Split:
    """Return the log without features, each user's rows split at random."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CounterplayWarning)
        whole = prepare(public_folder(DATA, place), Preparation(split="none"))
    assert not isinstance(whole, Split)
    assert whole.rating is not None
    liked = k_core(whole.take(whole.rating >= LIKED).compact(), CORE)
    log = replace(liked, rating=None, user_features=None, item_features=None)
    return Split(log, parts(log.user, Streams(0).numpy("published")), "a tenth of each user's rows")


def parts(user: NDArray[np.int32], rng: np.random.Generator) -> NDArray[np.int8]:
    """Return the part of each row: 2 for a tenth of a user's, rounded down, 1 for another, else 0.

    Users come in order; one with fewer than ten rows has one row of each.
    """
    n = np.bincount(user)
    tenth = np.maximum((TENTH * n).astype(np.int64), 1)[user]
    order = np.lexsort((rng.random(len(user)), user))
    place = np.empty(len(user), dtype=np.int64)
    place[order] = np.arange(len(user)) - (np.cumsum(n) - n)[user]
    return np.where(place < tenth, 2, np.where(place < 2 * tenth, 1, 0)).astype(np.int8)


def fitted(job: Job, place: Place) -> Result:
    """Fit a line, and return its means over users."""
    assert isinstance(job, PublishedFit)
    begun, split, own = time.process_time(), prepared(place), LINES[job.line]
    train, seen = split.train, split.interactions.take(split.part < TEST)
    ends = {"training.epochs": EPOCHS, "training.patience": PATIENCE}
    config = tuning_of(own.ours, job.seed, train).run_config("erm", train, ends | own.settings)
    by = ValidationSettings.model_validate(JUDGED_BY | {"users": JUDGED_ON})
    judge = Judge(split, train, by, Streams(job.seed))
    players = config.players(train, Streams(job.seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CounterplayWarning)
        found = fit(method_of("erm")(players, train, config.of_method()), validate=judge)
    ranks = full_ranks(ModelScores(found.candidate, seen, train=train), split.test, seen)
    means = {name: float(each.mean()) for name, each in values(ranks, split.test).items()}
    seconds = round(time.process_time() - begun, 1)
    return {"best_epoch": found.best_epoch, **means, "seconds": seconds}


def values(ranks: Ranks, targets: Interactions) -> dict[str, NDArray[np.float64]]:
    """Return recall, NDCG and hit at K of each user with test rows, in per cent, `[n_users]`.

    A user with n test rows has the best NDCG when they fill the first min(n, K) places.
    """
    _, place, n = np.unique(targets.user, return_inverse=True, return_counts=True)
    above = ranks.expected - 1
    listed = above < K
    hits = np.bincount(place[listed], minlength=len(n))
    gain = np.where(listed, 1 / np.log2(above + 2), 0)
    best = np.cumsum(1 / np.log2(np.arange(K) + 2))[np.minimum(n, K) - 1]
    ndcg = np.bincount(place, gain, minlength=len(n)) / best
    return {"recall": 100 * hits / n, "ndcg": 100 * ndcg, "hit": 100.0 * (hits > 0)}


def averaged(fits: list[Result]) -> Result:
    """Return the means of several fits, and the standard deviation of their NDCG."""
    means = {name: float(np.mean([each[name] for each in fits])) for name in _FIGURES}
    return means | {"deviation": float(np.std([each["ndcg"] for each in fits], ddof=1))}


def _row(theirs: Theirs, ours: Result) -> dict[str, Any]:
    return {
        "what": f"MovieLens-1M by RecBole's protocol: full-ranking NDCG@{K} (%) of "
        f"{theirs.line}{'' if theirs.settings else ', defaults'}",
        "ours": f"{ours['ndcg']:.2f} ± {ours['deviation']:.2f}",
        "yardstick": f"{theirs.ndcg:.2f}, RecBole's {theirs.model}, tuned",
        "ratio": f"{ours['ndcg'] / theirs.ndcg:.2f}",
        "goal": "at least 1",
        "met": ours["ndcg"] >= theirs.ndcg,
    }


def page(found: dict[str, Result], counts: dict[str, int]) -> str:
    """Return the page: ours beside theirs, and how it was measured."""
    shares = ", ".join(
        f"`{each.line}` {found[each.line]['ndcg'] / each.ndcg:.0%} of {each.model}'s"
        for each in PUBLISHED
    )
    table = [
        f"| `{each.line}` | {_told(found[each.line])} | {each.model} | "
        f"{_cells(each._asdict())} | {found[each.line]['best_epoch'] + 1:.0f} | "
        f"{found[each.line]['seconds']:.0f} |"
        for each in PUBLISHED
    ]
    lines = [
        "# Defaults beside published levels of full ranking",
        "",
        f"On MovieLens-1M by RecBole's protocol our NDCG@{K} is, by line: {shares}. Their settings "
        "were chosen by grid on this log, ours are defaults but for what a line names.",
        "",
        f"| ours | Recall@{K} | NDCG@{K} | Hit@{K} | RecBole's | Recall@{K} | NDCG@{K} | Hit@{K} | "
        "epoch kept | seconds |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *table,
        "",
        f"Per cent, means over users and {len(SEEDS)} seeds of one split; ± is the standard "
        "deviation over seeds. RecBole has no figure of MLP alone, so `mlp` stands beside NeuMF, "
        "of which it is a part. With a patience of 5 `gmf` keeps earlier epochs.",
        "",
        "- Theirs: the test results in `benchmark/hyper/general/MODEL-ml-1m_general.md` of the "
        "repository RUCAIBox/RecBole, at the best validation value; vectors of 64 places.",
        f"- Their protocol: rows with a rating of {LIKED:g} or more, the {CORE}-core (834,449 rows "
        f"of 6,040 users and 3,124 items there; {counts['rows']:,} of {counts['users']:,} and "
        f"{counts['items']:,} here), a random tenth of each user's rows as test, another for "
        "validation, full ranking. A user has several test items, so hits are far likelier than "
        "for one last item: compare these figures with no other page.",
        f"- What differs: the random split is ours; `gmf`, a factorization with a logistic loss, "
        "stands beside BPR, whose loss is pairwise, because their NCF experiment has no GMF; "
        "vectors have 32 places unless a line says otherwise; "
        f"{EPOCHS} epochs at most and a patience of {PATIENCE}, judged by {JUDGED_ON:,} users.",
        "",
    ]
    return "\n".join(lines)


def _told(of: dict[str, Any]) -> str:
    recall, ndcg, hit = (f"{of[name]:.2f}" for name in METRICS)
    return f"{recall} | {ndcg} ± {of['deviation']:.2f} | {hit}"


def _cells(of: dict[str, Any]) -> str:
    return " | ".join(f"{of[name]:.2f}" for name in METRICS)
