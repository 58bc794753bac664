"""The page of Table 3: what offline estimators are worth, in worlds and on randomised data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


def estimators_page(result: dict[str, Any]) -> list[str]:
    """Return the lines of what each estimator was worth by family, on Coat and on Open Bandit."""
    lines = [
        "Candidates are trained on a world's log, judged offline by every estimator, and deployed "
        "in an online test. Error is the root of the mean squared difference to the online result, "
        "in points, with the ends of its 95% interval over worlds; order is Spearman's "
        "correlation. The paper's squared errors, of eight models in four tests: Hit@5 .18 "
        "standard, .14 popularity, .14 propensity model, .12 robust; its unit is not said.",
        "",
    ]
    for family in result["families"]:
        lines += [f"## {family['family']}: {family['n']} worlds, {family['state']}", ""]
        if family["missing_seconds"]:
            lines += [f"The rest would take {family['missing_seconds']:,.0f} s.", ""]
        if family["estimators"]:
            lines += [
                "| estimator | opponent | floor | Hit@5 error | bias | order | NDCG@5 error |",
                f"|{'---|' * 7}",
            ]
            lines += [*_estimator_lines(family["estimators"]), ""]
    lines += _coat(result["coat"]) + _open_bandit(result["open_bandit"])
    return lines


def _estimator_lines(rows: list[dict[str, Any]]) -> list[str]:
    ndcg = {_key(row): row for row in rows if row["metric"] == "ndcg@5"}
    lines = []
    for row in rows:
        if row["metric"] == "hit@5":
            order = row.get("rank", [None])[0]
            cells = [
                *estimator_cells(row),
                "" if order is None else f"{order:+.2f}",
                _error(ndcg[_key(row)]["mse"]),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def estimator_cells(row: dict[str, Any]) -> list[str]:
    """Return which estimator it is, its error and its bias, in points."""
    return [
        row["estimator"],
        row["kind"],
        f"{row['floor']:g}" if row["floor"] else "",
        _error(row["mse"]),
        f"{100 * row['bias'][0]:+.2f}",
    ]


def _key(row: dict[str, Any]) -> tuple[str, str, float]:
    return row["estimator"], row["kind"], row["floor"]


def _error(squared: Sequence[float | None]) -> str:
    value, low, high = (None if each is None else 100 * max(each, 0) ** 0.5 for each in squared)
    text = f"{value:.2f}"
    return text if low is None else f"{text} [{low:.2f}, {high:.2f}]"


def _coat(found: dict[str, Any] | None) -> list[str]:
    lines = ["## Coat: estimates of a candidate's squared error, against random ratings", ""]
    if found is None:
        return [*lines, "Not run.", ""]
    lines += [
        f"{found['n_seeds']} seeds.",
        "",
        "| estimator | root of squared error | bias | winner found |",
        "|---|---|---|---|",
    ]
    for each in found["estimators"]:
        if each["metric"] == "mse":
            lines.append(
                f"| {each['estimator']} | {each['squared_error']['value'] ** 0.5:.3f} | "
                f"{each['bias']['value']:+.3f} | {each['win_rate']['value']:.0%} |"
            )
    return [*lines, ""]


def _open_bandit(found: list[dict[str, Any]] | None) -> list[str]:
    lines = ["## Open Bandit: click rates from the other policy's log", ""]
    if found is None:
        return [*lines, "Not run.", ""]
    lines += ["| estimator | off by (root mean square) | better policy told |", "|---|---|---|"]
    lines += [
        f"| {each['estimator']} | {each['relative']:.0%} | {each['right']} of {each['n_decided']} |"
        for each in found
    ]
    return [*lines, ""]
