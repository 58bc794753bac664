"""The page of the trials, and tables like its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reproduction.trial_summary import YARDSTICKS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reproduction.trials import TrialSettings

_HEAD = "| by | error | bias | order | regret | decided | wrong | ends hold |"


def page(summary: dict[str, Any], chosen: TrialSettings, n_seeds: int) -> str:
    """Return the page of the trials."""
    lines = [
        "# Dials on trial",
        "",
        f"{summary['n_worlds']} worlds of about 1,200 users and 600 items: {n_seeds} seeds of "
        f"{len(summary['mechanisms'])} mechanisms of exposure. Candidates are trained on a world's "
        "log and judged on its last round; the truth is the value of each in the world "
        "(`docs/guide/worlds.md`), here Hit@10. Error is the root of the mean squared difference "
        "to it, in points; order is Spearman's correlation; regret the share of the best true "
        "value that is lost by choosing the best estimate. A pair is decided where the lower end "
        "of its difference (one-sided, 95%, over users) is above 0 everywhere in the box; wrong "
        "is the share of decided pairs whose true order is the other. `ends hold` is how often "
        "the lower and upper end of a value have the truth between them. The click model is "
        "fitted on validation rows.",
        "",
        f"Box: γ of {', '.join(f'{each:g}' for each in chosen.gammas)}, λ of "
        f"{', '.join(f'{each:g}' for each in chosen.lambdas)}; point {chosen.point}. `random rows` "
        "has its box and point from 1,000 random rows. The values of a box are the mean over it.",
        "",
        "## All worlds",
        "",
        *table(summary["overall"]),
        "",
        "Intervals of 95% are a bootstrap over worlds.",
        "",
        "## All worlds but two-stage",
        "",
        *table(summary["but_two_stage"]),
        "",
        "## Paired differences",
        "",
        "Over all worlds, with intervals of 95%; error and wrong in points.",
        "",
        *_paired(summary["overall"]),
        "",
        "## Rules that choose",
        "",
        "| rule | regret | against standard |",
        "|---|---|---|",
        *(_rule(name, each) for name, each in summary["rules"].items()),
    ]
    for name, each in summary["mechanisms"].items():
        gamma, lam = each["dials"]
        lines += ["", f"## {name}: true dials ({gamma:.2f}, {lam:.2f})", "", *table(each["lines"])]
    return "\n".join([*lines, "", "Made by `python -m reproduction trials`.", ""])


def table(
    found: list[dict[str, Any]], more: Mapping[str, Sequence[str]] | None = None
) -> list[str]:
    """Return a table, a line an assumption; `more` are further columns."""
    head = _HEAD + "".join(f" {name} |" for name in more or ())
    lines = [head, "|" + "---|" * (head.count("|") - 1)]
    for place, each in enumerate(found):
        wrong = "–" if each["wrong"] is None else f"{each['wrong']:.1%}"
        if each["wrong_low"] is not None:
            wrong += f" [{each['wrong_low']:.1%}, {each['wrong_high']:.1%}]"
        lines.append(
            f"| {each['estimator']} | {100 * each['error']:.2f} | {100 * each['bias']:+.2f} | "
            f"{each['order']:+.2f} | {each['regret']:.1%} | {each['decided']:.0%} | {wrong} | "
            f"{each['coverage']:.0%} |"
            + "".join(f" {column[place]} |" for column in (more or {}).values())
        )
    return lines


def _paired(found: list[dict[str, Any]]) -> list[str]:
    """Return a table of what each assumption is better or worse by than two others."""
    keys = {"error": 100.0, "order": 1.0, "regret": 100.0, "decided": 100.0, "wrong": 100.0}
    lines = [f"| by | against | {' | '.join(keys)} |", "|" + "---|" * (2 + len(keys))]
    for each in found:
        for other in YARDSTICKS:
            if each["estimator"] == other:
                continue
            cells = []
            for key, scale in keys.items():
                one = each[f"{key}_against_{other}"]
                if one["value"] is None or one["low"] is None:
                    cells.append("–")
                    continue
                value, low, high = (scale * one[end] for end in ("value", "low", "high"))
                cells.append(f"{value:+.2f} [{low:+.2f}, {high:+.2f}]")
            lines.append(f"| {each['estimator']} | {other} | {' | '.join(cells)} |")
    return lines


def _rule(name: str, found: dict[str, Any]) -> str:
    other = found["against_standard"]
    reach = "" if other["low"] is None else f" [{other['low']:+.1%}, {other['high']:+.1%}]"
    return f"| {name} | {found['value']:.1%} | {other['value']:+.1%}{reach} |"
