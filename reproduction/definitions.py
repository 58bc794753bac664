"""The paper's tables and figures of methods, and what is in each.

Goodreads has rows of its own where its file is there; goodbooks-10k stands in for it. Two-stage
worlds hold little personal taste; synthetic ones, which the paper has not, hold more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reproduction.authors import NORMALISED, PLAIN, PROTOCOL, TRUTH
from reproduction.datasets import AUTHORS, AUTHORS_USED, SYNTHETIC
from reproduction.methods import TableMethod, baselines, games, weighted
from reproduction.tables import Column, MethodTable

if TYPE_CHECKING:
    from counterplay.models.registry import ModelName
    from reproduction.jobs import Plan
    from reproduction.methods import Settings

_ALL: tuple[ModelName, ...] = ("pop", "cf", "mlp", "ncf", "gmf", "attn")
_FOUR: tuple[ModelName, ...] = ("mlp", "gmf", "ncf", "attn")
_TWO: tuple[ModelName, ...] = ("mlp", "gmf")
_SHOWN: tuple[ModelName, ...] = ("gmf", "attn")
_BOOKS, _REAL_DATA = ("goodbooks", "goodreads"), ("ml-1m", "lastfm", "goodbooks", "goodreads")
_REAL_TABLES = ("real-full-ps", "real-acl", "real", "real-main", "real-main-lastfm")
_ALPHAS = (0.1, 0.5, 1.0, 2.0, 5.0)
_AS_CODE: Settings = (("code", 1.0),)
CODE_DIM = 16  # of all models in the authors' public code
_IN_AUTHORS_WORLDS = (
    Column("plain mean", PROTOCOL, PLAIN),
    Column("self-normalised", PROTOCOL, NORMALISED),
    Column("truth", PROTOCOL, TRUTH),
)
_AUTHORS_ABOUT = (
    "In worlds as the paper's public code makes them: the first 500 users and 1,000 items of "
    "MovieLens-1M, a world a seed. *Plain mean* is what that code prints, the mean over test "
    "clicks of hit × relevance / exposure, with another ε and the refitted exposure: it is no "
    "share of hits, and may exceed 100. *Self-normalised* weights test clicks by the inverse of "
    "the exposure that they were drawn by. *Truth* is what both would like to know: the share of "
    "all clicks that users would give under full exposure, known exactly. All rank among 100 "
    "items that are drawn evenly, those that the user has seen too. Means over seeds, ± their "
    "standard deviation.",
)
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


def _code(plan: Plan) -> list[TableMethod]:
    """Return the methods of Table 1 as the authors' public code trains them."""
    del plan
    code: dict[str, Any] = {"dim": CODE_DIM, "recipe": "paper", "fixed": _AS_CODE}
    names: tuple[ModelName, ...] = ("pop", "cf", "mlp", "gmf")
    otherwise: tuple[Settings, ...] = (
        (("product", 1.0),),
        (("product", 1.0), ("turns", 1.0)),
    )
    return [
        *(TableMethod(method="erm", candidate=name, **code) for name in names),
        *(
            TableMethod(method="ps", candidate=name, exposure=exposure, **code)
            for name in _TWO
            for exposure in ("pop", name, "oracle")
        ),
        *(
            TableMethod(
                method="acl", candidate=name, exposure=name, **code | {"fixed": (*_AS_CODE, *more)}
            )
            for more in ((), *otherwise)
            for name in _TWO
        ),
    ]


def _papers_only(methods: list[TableMethod]) -> list[TableMethod]:
    return [method for method in methods if method.recipe == "paper" or method.method == "erm"]


def _variants(names: tuple[ModelName, ...], plan: Plan) -> list[TableMethod]:
    """Return the game without the outcome, with σ(g) alone, and as the appendix stops it."""
    no_outcome = ("with_outcome", 0.0)
    return [
        each
        for fixed in (
            (no_outcome,),
            (no_outcome, ("learn", 0.0)),
            (("lazy", 1.0), ("objective", 1.0)),
        )
        for each in games(names, plan.dim, recipes=("paper",), fixed=fixed)
    ]


def _selected_worlds(plan: Plan) -> list[TableMethod]:
    first = baselines(("pop", "cf", "mlp", "gmf"), plan.dim)
    others = _papers_only(weighted(_TWO, plan.dim, with_oracle=True))
    return [*first, *others, *games(_TWO, plan.dim), *_variants(_TWO, plan)]


def _selected_real(plan: Plan) -> list[TableMethod]:
    others = _papers_only(weighted(_FOUR, plan.dim))
    return [
        *baselines(_ALL, plan.dim), *others, *games(_FOUR, plan.dim), *_variants(("gmf",), plan)
    ]  # fmt: skip


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
        _REAL_TABLES, _REAL_DATA, worlds=False, methods=_real,
    ),
    MethodTable(
        "table1-authors", "Table 1 in the authors' worlds, trained as their code trains",
        ("synthetic", "synthetic-baselines"), (f"ml-1m{AUTHORS}", f"ml-1m{AUTHORS_USED}"),
        worlds=True, methods=_code, measured=_IN_AUTHORS_WORLDS, about=_AUTHORS_ABOUT,
        by_appendix=True,
    ),
    MethodTable(
        "table1-selected", "Table 1 in the authors' worlds, settings selected as in the appendix",
        ("synthetic", "synthetic-baselines"), (f"ml-1m{AUTHORS}",),
        worlds=True, methods=_selected_worlds, measured=_IN_AUTHORS_WORLDS, about=_AUTHORS_ABOUT,
        by_appendix=True,
    ),
    MethodTable(
        "table2-selected", "Table 2 on LastFM, settings selected as in the appendix",
        _REAL_TABLES, ("lastfm",), worlds=False, methods=_selected_real,
        measured=(Column("100 sampled", "sampled-100", "standard"),), by_appendix=True,
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
