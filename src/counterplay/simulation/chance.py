"""What chance adds to a pair on an occasion: hashed, so always the same and never stored."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from counterplay.data.vocabulary import mixed

if TYPE_CHECKING:
    from collections.abc import Callable

    from counterplay.simulation.factors import Indices, Numbers

_STEP = np.uint64(0x9E3779B97F4A7C15)
_HIGH = np.uint64(32)
_LEAST = 1e-9  # standard deviation that makes a difference
_CELLS = 64  # of the table of means, a unit of logits
_REACH = 40  # units on each side
_BLOCK = 1 << 14  # numbers at a time: they stay in a cache


def mean_sigmoid(logits: Numbers, deviation: float) -> Numbers:
    """Return the mean of `σ(logit + ε)` over ε ~ N(0, deviation²).

    It comes from a table of the mean and its derivatives: the relative error is below 1e-9 where
    the mean is above 1e-9; elsewhere the absolute error is below 1e-13.

    Example:
        >>> mean_sigmoid(np.array([-2.0, 0.0, 2.0]), 1.0).round(4)
        array([0.1555, 0.5   , 0.8445])
    """
    from scipy.special import expit

    if not deviation:
        plain: Numbers = expit(logits)
        return plain
    cell, table = _means(float(deviation))
    middle = table.shape[1] // 2
    flat = np.ascontiguousarray(logits, dtype=np.float64).reshape(-1)
    found = np.empty_like(flat)
    for begin in range(0, len(flat), _BLOCK):
        part = slice(begin, begin + _BLOCK)
        place = np.clip(flat[part] / cell, -middle, middle)
        near = np.rint(place)
        place -= near
        place *= cell
        nearest = near.astype(np.intp) + middle
        mean = table[-1].take(nearest)
        for terms in table[-2::-1]:
            mean *= place
            mean += terms.take(nearest)
        found[part] = np.minimum(mean, 1.0)  # rounding may have carried it past
    return found.reshape(logits.shape)


def mean_capped(logs: Numbers, deviation: float) -> Numbers:
    """Return `E[min(1, e^(a + s Z))] = e^(a + s²/2) Φ(−a/s − s) + Φ(a/s)` for logarithms a.

    Example:
        >>> mean_capped(np.array([0.0, -1.0]), 0.0).round(3)
        array([1.   , 0.368])
    """
    from scipy.special import log_ndtr, ndtr

    if deviation < _LEAST:
        return np.exp(np.minimum(logs, 0))
    z = logs / deviation
    below = np.exp(logs + deviation**2 / 2 + log_ndtr(-z - deviation))
    mean: Numbers = ndtr(z) + below
    return np.minimum(mean, 1.0, out=mean)


@lru_cache(maxsize=8)
def _means(deviation: float) -> tuple[float, Numbers]:
    """Return a width of cells and the terms of Taylor's series of the mean in each, `[4, n]`.

    The sum of a normal and a logistic number is below z with that mean. One of the two is summed
    over a grid, the narrower: such sums converge faster than any power of the step.
    """
    from scipy.special import expit, ndtr

    cell = max(1.0, deviation / 4) / _CELLS
    z = cell * np.arange(-_CELLS * _REACH, _CELLS * _REACH + 1.0)
    total = np.zeros((4, len(z)))
    if deviation < 1:
        nodes = np.arange(-10, 10.5, 0.5)
        shares = np.exp(-(nodes**2) / 2)
        for node, share in zip(deviation * nodes, shares / shares.sum(), strict=True):
            p, q = expit(z + node), expit(-z - node)
            total += share * np.stack(
                [p, p * q, p * q * (1 - 2 * p) / 2, p * q * (1 - 6 * p * q) / 6]
            )
    else:
        nodes = np.arange(-2.0 * _REACH, 2 * _REACH + 0.5, 0.5)
        shares = expit(nodes) * expit(-nodes)
        for node, share in zip(nodes, shares / shares.sum(), strict=True):
            u = (z - node) / deviation
            density = np.exp(-(u**2) / 2) / (deviation * (2 * np.pi) ** 0.5)
            total += share * np.stack(
                [
                    ndtr(u),
                    density,
                    -u * density / (2 * deviation),
                    (u**2 - 1) * density / (6 * deviation**2),
                ]
            )
    return cell, total


def normal(key: int, users: Indices, items: Indices) -> Numbers:
    """Return a standard normal number for each pair; users and items are broadcast together.

    Every key gives other numbers, and they do not depend on which pairs are asked for together.

    Example:
        >>> together = normal(7, np.array([[1], [2]]), np.array([[3, 4]]))
        >>> bool(together[1, 0] == normal(7, np.array(2), np.array(3)))
        True
    """
    from scipy.special import ndtri

    with np.errstate(over="ignore"):  # wrapping around is what hashes do
        start = mixed(np.array(key % 2**64, dtype=np.uint64) + _STEP)
        pair = (users.astype(np.uint64) << _HIGH) | items.astype(np.uint64)
        bits = mixed(mixed(pair * _STEP) + start)
    uniform = (bits >> np.uint64(12)).astype(np.float64)  # 52 bits, so that none rounds to 1
    uniform += 0.5
    uniform *= 2.0**-52
    numbers: Numbers = ndtri(uniform)
    return numbers


def bisected(
    is_below: Callable[[float], bool], low: float, high: float, n_halvings: int
) -> tuple[float, float]:
    """Return the ends of the interval that is left around the place where `is_below` ends."""
    for _ in range(n_halvings):
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return low, high
