"""Compare what a world draws with the probabilities that it states.

Counts are compared with probabilities by `z = ±√(2n · KL(share found ‖ share expected))`. For
independent draws `P(|z| ≥ l) ≤ 2 e^(−l²/2)`, however few they are (Chernoff and Hoeffding): so the
limits hold their false-alarm rate without a normal approximation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import expit, logit, rel_entr

from counterplay.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.simulation.factors import Numbers

PAIRS = 1 << 20  # pairs that are examined in one log
FEW = 1 << 16  # rows, and pairs in other checks
NEAR = 1e-4, 1e-7  # relative and absolute: a policy's scores may have single precision
N_LOGS = 3
_ROWS = 1 << 18  # of a log, about
N_GROUPS = 10
N_CHECKS = 6  # of logs by their counts, which share the false-alarm rate


class WorldError(DataError):
    """One sentence on what is wrong with a world."""


class Draws:
    """Impressions of round 0 in sample 0, of round 1 in sample 1, …, all at one `rate`.

    For all pairs of some users, `expected` has the probabilities that they are shown, exposed and
    clicked, and `found` how often they were, `[n_logs, B, n_items]`.
    """

    def __init__(self, world: Any, users: NDArray[np.int64]) -> None:
        per_user = float(world.shown(users).sum(1).mean())
        self.rate = min(1.0, _ROWS / max(per_user * world.n_users, 1.0))
        self.logs: list[Interactions] = [
            world.log(
                (self.rate,),
                sample=number,
                first_round=number,
                impressions=True,
                with_truth=True,
            )
            for number in range(N_LOGS)
        ]
        shape = N_LOGS, len(users), world.n_items
        names = "shown", "exposed", "clicked"
        self.expected = {name: np.empty(shape) for name in names}
        self.found = {name: np.zeros(shape) for name in names}
        for number, log in enumerate(self.logs):
            occasion = "log", number, number
            shown, exposed, clicked = (self.expected[name][number] for name in names)
            shown[:] = self.rate * world.shown(users, occasion=occasion)
            exposed[:] = self.rate * world.propensity(users, occasion=occasion)
            clicked[:] = exposed * world.relevance(users, time=float(number), occasion=occasion)
            place = np.searchsorted(users, log.user)
            mine = users[np.minimum(place, len(users) - 1)] == log.user
            pairs = place[mine], log.item[mine]
            if log.exposed is None or log.clicked is None:
                raise DataError(
                    "a log of impressions with the truth must have exposed and clicked; found "
                    f"{', '.join(name for name, _ in log.columns())}; add the others"
                )
            np.add.at(self.found["shown"][number], pairs, 1.0)
            np.add.at(self.found["exposed"][number], pairs, log.exposed[mine])
            np.add.at(self.found["clicked"][number], pairs, log.clicked[mine])


def logged_propensities(world: Any, draws: Draws) -> str:
    """Compare the propensities in logs with those of their pairs, occasions and positions."""
    for number, log in enumerate(draws.logs):
        if log.propensity is None or log.position is None:
            raise WorldError(
                "a log with the truth must have propensity and position; found "
                f"{', '.join(name for name, _ in log.columns())}; add the others"
            )
        rows = slice(None, FEW)
        stated = world.shown(
            log.user[rows], log.item[rows, None], occasion=("log", number, number)
        )[:, 0]
        stated = stated * draws.rate * world.examination ** (log.position[rows] - 1.0)
        wrong = np.flatnonzero(~np.isclose(log.propensity[rows], stated, *NEAR))
        if len(wrong):
            raise WorldError(
                "a logged propensity must be the rate of the round times the probability of "
                "being shown on its occasion, times examination^(position − 1); found "
                f"{log.propensity[wrong[0]]:.4g} for {stated[wrong[0]]:.4g} in row {wrong[0]}, and "
                f"{len(wrong):,} such rows; probably position bias, the rate or the occasion was "
                "left out of one of them: log what the draw used"
            )
    return "logged propensities are the stated ones"


def whole_log(world: Any, draws: Draws, rng: np.random.Generator, alpha: float) -> str:
    """Compare one log of all users with a sample of all pairs; its error is overestimated."""
    n, n_pairs = min(PAIRS, world.n_users * world.n_items), world.n_users * world.n_items
    users = rng.integers(world.n_users, size=n)
    items = (rng.integers(world.n_items) + np.arange(n)[:, None]) % world.n_items
    p = draws.rate * world.shown(users, items, occasion=("log", 0, 0))[:, 0]
    found, expected = len(draws.logs[0]), n_pairs * float(p.mean())
    error = (n_pairs**2 * float(p.var()) / n + expected) ** 0.5
    z, most = (found - expected) / max(error, 1e-300), limit(alpha / N_CHECKS, 1)
    about = (
        f"{found:,} rows for about {expected:,.0f} of {n_pairs:,} pairs "
        f"(z = {z:+.1f}, limit {most:.1f})"
    )
    if abs(z) > most:
        raise WorldError(
            f"a log must show as many pairs as shown() says; found {about}; probably some users "
            "or items are never drawn, or the rate is left out: draw all of them"
        )
    return about


def counted(draws: Draws, name: str, cause: str, alpha: float) -> str:
    """Compare the counts of `name` (shown, exposed, clicked) in groups of pairs."""
    expected, found = draws.expected[name], draws.found[name]
    most = limit(alpha / N_CHECKS, 3 * N_GROUPS)
    ways = {
        "all pairs": np.zeros(expected.shape),
        "a tenth by probability": expected,
        "a tenth by popularity of the item": np.broadcast_to(expected.mean((0, 1)), expected.shape),
    }
    worst, where = farthest(expected, found, ways, name)
    where = f"{where} (z = {worst:+.1f}, limit {most:.1f})"
    total = f"{int(found.sum()):,} {name} for {expected.sum():,.1f} expected in all"
    if abs(worst) > most:
        raise WorldError(
            f"how often pairs are {name} must match its probability; found {where}, and {total}; "
            f"probably {cause}: use the same function for both"
        )
    return f"{total}; the farthest: {where}"


def farthest(
    expected: Numbers, found: NDArray[Any], ways: dict[str, Numbers], name: str
) -> tuple[float, str]:
    """Return the largest deviation in groups by each of the values, with its sign, in words too."""
    worst, where = 0.0, f"all {name} as expected"
    for way, values in ways.items():
        group = groups(values.ravel(), expected.ravel())
        sums, counts, sizes = (
            np.bincount(group, weights.ravel(), minlength=N_GROUPS).astype(np.float64)
            for weights in (expected, found, np.ones_like(expected))
        )
        z = deviations(counts, sums, sizes)
        place = int(np.abs(z).argmax())
        if abs(z[place]) > abs(worst):
            worst = float(z[place])
            where = f"{int(counts[place]):,} {name} for {sums[place]:,.1f} expected in {way}"
    return worst, where


def fitted_propensities(draws: Draws, alpha: float) -> str:
    """Fit the propensities to the logs again, and compare."""
    p, y = draws.expected["exposed"].ravel(), draws.found["exposed"].ravel()
    fit = refitted(*(each[(p > 0) & (p < 1)] for each in (p, y)))
    most = 2 * float(np.log(N_CHECKS / alpha))
    about = (
        f"slope {fit.slope:.3f} and intercept {fit.intercept:+.3f} in a logistic regression of "
        f"{int(y.sum()):,} exposures on the logit of their propensity (likelihood ratio "
        f"{fit.ratio:.1f}, limit {most:.1f})"
    )
    if not fit.ratio <= most:
        raise WorldError(
            "propensities must come back when they are fitted to the log, with slope 1 and "
            f"intercept 0; found {about}; probably propensity() is tempered or scaled but the "
            "draw is not, or the reverse: use one function for both"
        )
    return about


class Refit(NamedTuple):
    """`logit P(y) = intercept + slope · logit p`, and its likelihood ratio over (0, 1)."""

    intercept: float
    slope: float
    ratio: float


def refitted(p: Numbers, y: Numbers) -> Refit:
    """Fit `logit P(y) = a + b · logit p` by Newton's method; equal p leave a alone to be fitted."""
    x = np.stack([np.ones(len(p)), logit(p)])
    if not len(p) or np.ptp(x[1]) < 1e-6:
        x = x[:1]
    given = logit(p) if len(x) == 1 else 0.0
    start = np.array([0.0]) if len(x) == 1 else np.array([0.0, 1.0])

    def likelihood(at: Numbers) -> float:
        z = given + at @ x
        return float((y * z - np.logaddexp(0, z)).sum())

    at, best = start, likelihood(start)
    for _ in range(30):
        mean = expit(given + at @ x)
        information = (x * (mean * (1 - mean))) @ x.T
        step = np.linalg.lstsq(information, x @ (y - mean), rcond=None)[0]
        while (value := likelihood(at + step)) < best and np.abs(step).max() > 1e-9:
            step = step / 2
        if not value > best:
            break
        gain, at, best = value - best, at + step, value
        if gain < 1e-6:
            break
    slope = float(at[1]) if len(at) == 2 else 1.0
    return Refit(float(at[0]), slope, 2 * (best - likelihood(start)))


def groups(values: Numbers, expected: Numbers) -> NDArray[np.int64]:
    """Return groups by size of `values`, with about as much expected in each; equals together."""
    place = np.unique(values, return_inverse=True)[1]
    each = np.bincount(place, expected)
    share = (np.cumsum(each) - each / 2) / max(float(each.sum()), 1e-300)
    of_value = np.minimum((share * N_GROUPS).astype(np.int64), N_GROUPS - 1)
    found: NDArray[np.int64] = of_value[place]
    return found


def deviations(counts: Numbers, expected: Numbers, sizes: Numbers) -> Numbers:
    """Return z of counts, as the module's docstring has it; nan becomes infinite."""
    n = np.maximum(sizes, 1.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        q, p = counts / n, expected / n
        divergence = rel_entr(q, p) + rel_entr(1 - q, 1 - p)
    z = np.sign(counts - expected) * np.sqrt(2 * n * np.maximum(divergence, 0))
    return np.where(np.isnan(z), np.inf, z)


def limit(alpha: float, n_tests: int) -> float:
    """Return the limit of |z| that one of the tests passes wrongly with probability `alpha`."""
    return float(np.sqrt(2 * np.log(2 * n_tests / alpha)))
