"""The page of Table 3 with eight games."""

from __future__ import annotations

from typing import Any

_ABOUT = (
    "Every candidate is trained by the game, recipe `stable`; the k-th has the first k "
    "features. Four online tests compare two that follow each other. *Error* is the mean "
    "squared difference to the online result, in points², with its 95% interval over worlds. "
    "*Error to CTR* is that of estimates and click-through rates, each divided by its mean "
    "over the eight: the two have no common unit. *Order* is Spearman's correlation with the "
    "online result, *regret* what choosing the best by the estimate loses of the best true "
    "value. The paper's errors, whose unit is not said, are Hit@5 .18 standard, .14 "
    "popularity, .14 propensity, .12 robust. *Own opponent* is the paper's robust estimate: "
    "each game's own G_β(g). `opponent`, `dials` and `robust` are this library's: an opponent "
    "of all candidates together, the likeliest dials, and the mean over a box of dials."
)
_HEADS = (
    *("estimator", "Hit@5 error", "bias", "error to CTR", "order", "regret"),
    *("NDCG@5 error", "order, NDCG@5"),
)


def games_page(result: dict[str, Any]) -> list[str]:
    """Return the lines of what each estimator was worth, a table a preset."""
    lines = [_ABOUT, ""]
    for each in result["games"]:
        lines += [
            f"## Worlds of the preset {each['preset']}: {each['n']} of {each['n_wanted']}",
            "",
        ]
        missing = each["n_wanted"] - each["n"]
        if missing:
            seconds = missing * result["seconds_a_world"]
            lines += [f"{missing} worlds are not run; they would take {seconds:,.0f} s.", ""]
        if each["estimators"]:
            ess = sum(each["ess"]) / len(each["ess"])
            lines += [f"Effective sample size of the own opponents' weights: {ess:.1%}.", ""]
            lines += [f"| {' | '.join(_HEADS)} |", f"|{'---|' * len(_HEADS)}"]
            lines += [f"| {' | '.join(_cells(row))} |" for row in each["estimators"]]
            lines.append("")
    return lines


def _cells(row: dict[str, Any]) -> list[str]:
    hit, ndcg = row["hit@5"], row["ndcg@5"]
    return [
        row["estimator"],
        _error(hit["squared_error"]),
        f"{hit['bias']['value']:+.2f}",
        f"{hit['ctr_error']:.4f}",
        _number(hit["rank_correlation"]["value"]),
        f"{hit['regret']['value']:.1%}",
        _error(ndcg["squared_error"]),
        _number(ndcg["rank_correlation"]["value"]),
    ]


def _error(found: dict[str, Any]) -> str:
    text = f"{found['value']:.2f}"
    return text if found["low"] is None else f"{text} [{found['low']:.2f}, {found['high']:.2f}]"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:+.2f}"
