"""What lists are like besides being right: coverage, novelty, diversity, popularity lift."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterplay.report.blocks import Block, Cell, Matrix, Pairs, Part, Section
from counterplay.report.words import NONE, count, ends, metric, number, share, short

if TYPE_CHECKING:
    from counterplay.evaluation.records import Recommended
    from counterplay.study.records import Findings

_FORMULAS = {
    "coverage": "items that are in any list / all items",
    "Gini": "0 where all items are recommended equally often, near 1 where few take every place",
    "novelty": "mean over a list of log2((users + 1) / (users who have the item + 1)), in bits: 0 "
    "for what everybody has",
    "diversity": "1 − the mean cosine of the pairs of a list, by the users whom two items share: 0 "
    "where all items have the same users, 1 where no two share any",
    "popularity lift": "mean popularity of what is recommended / mean popularity of what the same "
    "users chose before, minus 1: above 0 the popular is recommended more than it was chosen",
}


def quality_section(record: Findings) -> Section | None:
    """Return each candidate's lists beside its accuracy."""
    diagnostics = record.evaluation.diagnostics if record.evaluation else None
    found = diagnostics.popularity.recommended if diagnostics else ()
    if not found or diagnostics is None:
        return None
    logged = short(diagnostics.popularity.logged_mean_popularity)
    blocks: list[Block] = [
        _matrix(record, found, logged),
        Part("How they are computed", [Pairs(_FORMULAS)]),
    ]
    reading = (
        "Two candidates that are equally accurate may show very different lists. None of these is "
        "better because it is larger: they say what users would see."
    )
    return Section("quality", "Beyond accuracy", reading, blocks)


def _matrix(record: Findings, found: tuple[Recommended, ...], logged: str) -> Matrix:
    key = record.key
    assert key is not None
    by_estimator = record.by_estimator(key)
    estimator = record.verdict.estimator if record.verdict else next(iter(by_estimator))
    accuracy, signs = by_estimator.get(estimator, {}), {"popularity lift": "+"}
    rows = {}
    for each in found:
        own = accuracy.get(each.candidate)
        measures = {one.name: one for one in each.measures}
        rows[each.candidate] = [
            Cell(NONE) if own is None else Cell(number(own.value), (ends(own),)),
            Cell(share(each.coverage)),
            *(
                Cell(NONE)
                if (one := measures.get(name)) is None
                else Cell(
                    number(one.value, signs.get(name, "")),
                    (ends(one, signs.get(name, "")), f"{count(one.n)} users"),
                )
                for name in ("novelty", "diversity", "popularity lift")
            ),
            Cell(number(each.gini)),
            Cell(short(each.mean_popularity)),
        ]
    k, n = found[0].k, found[0].n_users
    columns = {
        metric(*key): estimator,
        "coverage": "of all items",
        "novelty": "bits",
        "diversity": "0 to 1",
        "popularity lift": "against histories",
        "Gini": "of the items",
        "mean popularity": f"logged: {logged}",
    }
    title = f"Lists of {count(k)} items for {count(n)} users, with intervals over users"
    return Matrix(title, "candidate", columns, rows)
