"""The paper's tables and figures of methods, and what is in each.

Goodreads has rows of its own where its file is there; goodbooks-10k stands in for it. Two-stage
worlds hold little personal taste; synthetic ones, which the paper has not, hold more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reproduction.datasets import SYNTHETIC
from reproduction.methods import TableMethod, baselines, games, weighted
from reproduction.tables import MethodTable

if TYPE_CHECKING:
    from counterplay.models.registry import ModelName
    from reproduction.jobs import Plan

_ALL: tuple[ModelName, ...] = ("pop", "cf", "mlp", "ncf", "gmf", "attn")
_FOUR: tuple[ModelName, ...] = ("mlp", "gmf", "ncf", "attn")
_TWO: tuple[ModelName, ...] = ("mlp", "gmf")
_SHOWN: tuple[ModelName, ...] = ("gmf", "attn")
_BOOKS, _REAL_DATA = ("goodbooks", "goodreads"), ("ml-1m", "lastfm", "goodbooks", "goodreads")
_ALPHAS = (0.1, 0.5, 1.0, 2.0, 5.0)
_SHARES = (0.25, 0.5, 1.0, 2.0)  # of the plan's dimension


def _synthetic(plan: Plan) -> list[TableMethod]:
    first = baselines(("pop", "cf", "mlp", "gmf"), plan.dim)
    return [*first, *weighted(_TWO, plan.dim, with_oracle=True), *games(_TWO, plan.dim)]


def _real(plan: Plan) -> list[TableMethod]:
    return [*baselines(_ALL, plan.dim), *weighted(_FOUR, plan.dim), *games(_FOUR, plan.dim)]


def _with_and_without_outcome(names: tuple[ModelName, ...], plan: Plan) -> list[TableMethod]:
    return [
        method
        for fixed in ((), (("with_outcome", 0.0),))
        for method in games(names, plan.dim, fixed=fixed)
    ]


def _sizes(plan: Plan) -> list[TableMethod]:
    sizes = [max(1, round(share * plan.dim)) for share in _SHARES]
    return [each for dim in sizes for each in [*baselines(_SHOWN, dim), *games(_SHOWN, dim)]]


def _alphas(plan: Plan) -> list[TableMethod]:
    return [
        method for alpha in _ALPHAS for method in games(_SHOWN, plan.dim, fixed=(("alpha", alpha),))
    ]


METHOD_TABLES = (
    MethodTable(
        "table1", "Table 1: unbiased evaluation on semi-synthetic data",
        ("synthetic", "synthetic-baselines"), ("ml-1m", *_BOOKS, SYNTHETIC), worlds=True,
        methods=_synthetic,
    ),
    MethodTable(
        "table2", "Table 2, with the two full tables of the appendix: standard evaluation",
        ("real-full-ps", "real-acl", "real"), _REAL_DATA, worlds=False, methods=_real,
    ),
    MethodTable(
        "figure-a1", "Figure A.1: the training process on semi-synthetic data",
        (), _BOOKS, worlds=True,
        methods=lambda plan: _with_and_without_outcome(("gmf", "mlp"), plan), history=True,
    ),
    MethodTable(
        "figure-a2", "Figure A.2: the training process on real data",
        (), ("ml-1m", "goodreads"), worlds=False,
        methods=lambda plan: _with_and_without_outcome(("attn",), plan), history=True,
    ),
    MethodTable(
        "figure-a3", "Figure A.3: sensitivity to the hidden dimension",
        (), _REAL_DATA, worlds=False, methods=_sizes,
    ),
    MethodTable(
        "figure-a4", "Figure A.4: sensitivity to α",
        (), _REAL_DATA, worlds=False, methods=_alphas,
    ),
)  # fmt: skip
