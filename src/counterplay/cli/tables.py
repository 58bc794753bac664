"""Tables of an evaluation, as the commands print them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterplay.cli import console
from counterplay.display import named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from counterplay.evaluation.records import ColdRows, Comparison, EvaluationRecord


def show_evaluation(result: EvaluationRecord) -> None:
    """Print the estimates, bands and differences of an evaluation."""
    found, first = result.estimates, result.estimates[0]
    digits = 5 if first.protocol == "impressions" else 4  # click rates are small
    drawn = "" if (some := result.sample) is None else f" of {some.n:,} of {some.of:,} users"
    console.print_table(
        f"{result.dataset}, {first.n:,} {result.part} rows{drawn}, {first.protocol}; "
        f"{first.level:.0%} intervals over users",
        {
            "candidate": [each.candidate for each in found],
            "estimator": [each.estimator for each in found],
            "metric": [named(*each.key) for each in found],
            "value": [_number(each.value, digits=digits) for each in found],
            "low": [_number(each.low, digits=digits) for each in found],
            "high": [_number(each.high, digits=digits) for each in found],
            "effective": [f"{each.ess:,.0f}" for each in found],
        },
    )
    if result.cold:
        _show_cold(result.cold, result.part)
    if result.bands:
        console.print_table(
            "the smallest and largest value if the odds of exposure are off by a factor Γ",
            {
                "candidate": [each.candidate for each in result.bands],
                "estimator": [each.estimator for each in result.bands],
                "metric": [named(*each.key) for each in result.bands],
                "Γ": [f"{each.gamma:g}" for each in result.bands],
                "low": [f"{each.low:.4f}" for each in result.bands],
                "high": [f"{each.high:.4f}" for each in result.bands],
            },
        )
    if result.comparisons:
        _show_comparisons(result.comparisons, digits)


def _show_cold(cold: ColdRows, part: str) -> None:
    found = cold.estimates
    console.print_table(
        f"cold: the {cold.rows:,} {part} rows ({cold.share:.0%}) of users without training "
        "rows, for whom models rank by popularity; warm: the others",
        {
            "candidate": [each.candidate for each in found],
            "rows": [f"{each.n:,} {each.rows}" for each in found],
            "metric": [named(*each.key) for each in found],
            "value": [f"{each.value:.4f}" for each in found],
            "low": [_number(each.low) for each in found],
            "high": [_number(each.high) for each in found],
        },
    )


def _show_comparisons(found: Sequence[Comparison], digits: int) -> None:
    console.print_table(
        "differences on the same rows; intervals and p by resampling users, for all pairs of an "
        "estimator and metric at once",
        {
            "first − second": [f"{each.first} − {each.second}" for each in found],
            "estimator": [each.estimator for each in found],
            "metric": [named(*each.key) for each in found],
            "difference": [_number(each.value, "+", digits=digits) for each in found],
            "low": [_number(each.low, "+", digits=digits) for each in found],
            "high": [_number(each.high, "+", digits=digits) for each in found],
            "p": [f"{each.p:.4f}" for each in found],
        },
    )
    for each in found:
        if each.statement and each.decided:
            console.out.print(
                f"{named(*each.key)}, {each.estimator}: {each.statement}", markup=False
            )


def _number(value: float | None, sign: str = "", *, digits: int = 4) -> str:
    return "–" if value is None else f"{value:{sign}.{digits}f}"
