"""The paired differences of candidates, and what factor Γ could turn them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterplay.report.blocks import Block, Fold, Section, Table
from counterplay.report.words import NONE, chance, ends, factor, metric, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from counterplay.evaluation.records import Comparison
    from counterplay.study.records import Findings

_MANY, _MOST = 40, 2000  # rows of differences: more are folded, and more yet left out


def differences_section(record: Findings) -> Section | None:
    """Return the paired differences, those of the leading candidate first."""
    found = record.evaluation.comparisons if record.evaluation else ()
    key, verdict = record.key, record.verdict
    if not found or key is None:
        return None
    shown = [each for each in found if each.key == key]
    if verdict:
        shown = [each for each in shown if verdict.leader in (each.first, each.second)]
        if len(shown) > _MANY:
            shown = [each for each in shown if each.estimator == verdict.estimator]
    if len(shown) > _MANY:
        shown = []
    rest = [each for each in found if each.key == key and each not in shown]
    rest += [each for each in found if each.key != key]
    blocks: list[Block] = [_table(shown, "Paired differences")] if shown else []
    if rest:
        more = f"{len(rest):,} more pairs and metrics"
        if len(rest) > _MOST:
            more += f", the first {_MOST:,} of them; the evaluation's JSON has all"
        blocks.append(Fold(more, [_table(rest[:_MOST], "Other paired differences")]))
    reading = (
        "First minus second on the same rows. Intervals and p come from resampling users, and hold "
        "for all pairs under an estimator and metric at once. A difference is beyond chance where "
        "its interval leaves out 0, which is where p is at most 1 minus the level; Γ says by what "
        "factor the exposure odds may be off before the order could turn."
    )
    return Section("differences", "Paired differences", reading, blocks)


def _table(found: Sequence[Comparison], title: str) -> Table:
    columns = {
        "first − second": [f"{each.first} − {each.second}" for each in found],
        "estimator": [each.estimator for each in found],
        "metric": [metric(*each.key) for each in found],
        "difference": [number(each.value, "+") for each in found],
        "interval": [ends(each, "+") for each in found],
        "p": [chance(each.p) for each in found],
        "beyond chance": ["yes" if each.decided else "no" for each in found],
        "turns at Γ": [_flip(each) for each in found],
        "in words": [each.statement or NONE for each in found],
    }
    if len(set(columns["metric"])) == 1:
        title += f" in {columns.pop('metric')[0]}"
    words = {"first − second", "estimator", "metric", "beyond chance", "in words"}
    return Table(title, columns, words)


def _flip(each: Comparison) -> str:
    if not each.statement:
        return NONE
    return "never" if each.flip is None else factor(each.flip)
