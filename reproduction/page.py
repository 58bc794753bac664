"""A reproduction as a Markdown page: our numbers beside the paper's, and what became of its claims.

Nothing on it is typed by hand: it is made of the JSON that lies beside it.
"""

from __future__ import annotations

import re
from typing import Any

from reproduction.datasets import SOURCES, SYNTHETIC
from reproduction.effects import effect_cell, effects_page
from reproduction.estimators_page import estimators_page
from reproduction.games_page import games_page
from reproduction.paper import AT_LEAST, STAND_INS

_NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")
_SHOWN = ("hit@10", "ndcg@10")
_TITLES = {"hit@10": "Hit@10", "ndcg@10": "NDCG@10", "hit@5": "Hit@5", "ndcg@5": "NDCG@5"}
_RULE = (
    "A difference is paired over seeds: runs of one seed share their data, and in worlds the "
    "world. A claim is reproduced if the 95% Student interval of the mean difference lies on the "
    "claimed side of 0, not reproduced if it lies on the other side, undecided otherwise; for "
    "“does not lose” the bound is a loss of 1% of the rival's level instead of 0."
)
_COLUMNS = (
    "*100 sampled* ranks a test item among 100 items that the user has not seen, clean ones: never "
    "one that was seen, never the target. *Full ranking* ranks it among all items that the user "
    "has not seen. Means over seeds, ± their standard deviation; in brackets the 95% interval of "
    "the first seed over users. The paper's numbers are its mean and, in parentheses, its standard "
    "deviation over ten repetitions."
)
_WORLDS = (
    "Logs come from worlds, a world a seed; those made of ratings are two-stage worlds. Test "
    "clicks are weighted by the inverse of their true exposure; *truth* is what the ranking is "
    "worth in the world, known exactly. The paper does not say how its negatives meet its weights, "
    "so levels need not agree."
)
_SYNTHETIC = (
    "Not in the paper. Two-stage worlds hold little personal taste; these hold more, and a "
    "recommender with an idea of it did the exposing."
)
_DISTINCT = (
    "LastFM's users tag the same artist many times: among 100 sampled the data are as in the "
    "paper, where the test artist has usually been seen in training; full ranking is on distinct "
    "pairs."
)
_NO_TIMES = (
    "goodbooks-10k stands in for Goodreads and has no times: a tenth of the pairs each is held out "
    "at random for validation and test, and Attn has no true order to learn from. The paper's "
    "numbers beside it are those of Goodreads."
)


def markdown(result: dict[str, Any]) -> str:
    """Return the page of a result."""
    lines = [f"# {result['title']}", "", *_made_by(result), ""]
    if "games" in result:
        lines += games_page(result)
    else:
        lines += _methods_page(result) if "cells" in result else estimators_page(result)
    lines += _claims(result["claims"])
    return "\n".join(lines).rstrip() + "\n"


def _made_by(result: dict[str, Any]) -> list[str]:
    jobs, plan = result["jobs"], result["plan"]
    missing = jobs["known"] - jobs["done"] - jobs["failed"]
    text = (
        f"Made by `{result['command']}`: seeds: {plan['seeds']}, tuning trials a method: "
        f"{plan['trials']}, epochs at most: {plan['epochs']}, patience: {plan['patience']}. "
        f"{jobs['done']:,} of {jobs['known']:,} jobs that are known by now are done, "
        f"{jobs['failed']:,} failed, {missing:,} not run; together they took "
        f"{_hours(result['seconds'])} of one process."
    )
    return [text]


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} hours" if seconds >= 3600 else f"{seconds / 60:.1f} minutes"


def _methods_page(result: dict[str, Any]) -> list[str]:
    cells = result["cells"]
    worlds = any(cell["column"] == "truth" for cell in cells)
    said = result.get("about") or [_COLUMNS, *([_WORLDS] if worlds else [])]
    lines = [line for each in said for line in (each, "")]
    lines += effects_page(result.get("effects", []))
    for dataset in dict.fromkeys(cell["dataset"] for cell in cells):
        of_it = [cell for cell in cells if cell["dataset"] == dataset]
        lines += [f"## {SOURCES[dataset].title}", ""]
        if of_it[0]["state"] == "no data":
            lines += ["Not run: no data.", ""]
            continue
        if dataset == SYNTHETIC:
            lines += [_SYNTHETIC, ""]
        if dataset == "lastfm":
            lines += [_DISTINCT, ""]
        if dataset in STAND_INS and not worlds:
            lines += [_NO_TIMES, ""]
        lines += [*_table(of_it), "", *_bounds(of_it)]
        if dataset == "ml-1m" and not worlds:
            lines += _baselines(of_it)
        lines += _remarks(of_it)
    return lines


def _bounds(cells: list[dict[str, Any]]) -> list[str]:
    """Say between what the truth can lie."""
    for cell in cells:
        if cell["bounds"]:
            random, best = cell["bounds"]["random"], cell["bounds"]["best"]
            text = (
                f"In truth, Hit@10 of a random ranking is {random:.3f}, and of one by relevance "
                f"itself {best:.3f}: a value is the share of all clicks that users would give."
            )
            return [text, ""]
    return []


def _table(cells: list[dict[str, Any]]) -> list[str]:
    """Return a line a method: the paper's number and ours by column, metric by metric."""
    columns = list(dict.fromkeys(cell["column"] for cell in cells))
    has_paper = any(cell["paper"] for cell in cells)
    heads = ["method"]
    for metric in _SHOWN:
        heads += [f"{_TITLES[metric]}, paper"] if has_paper else []
        heads += [f"{_TITLES[metric]}, {column}" for column in columns]
    weighted = any(effect_cell(cell) for cell in cells)
    heads += ["validation Hit@10, f", "the same, g"] + (["ESS"] if weighted else [])
    heads += ["parameters", "settings", "seeds"]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for name in dict.fromkeys(cell["method"] for cell in cells):
        own = {(cell["metric"], cell["column"]): cell for cell in cells if cell["method"] == name}
        first = own[_SHOWN[0], columns[0]]
        row = [_title(first)]
        for metric in _SHOWN:
            row += [_printed(own[metric, columns[0]])] if has_paper else []
            row += [_value(own[metric, column]) for column in columns]
        row += [_points(first["validation"]), _points(first["exposure_validation"])]
        row += [effect_cell(first)] if weighted else []
        row += [_parameters(first), _settings(first), str(first["n"])]
        lines.append(f"| {' | '.join(row)} |")
    return lines


def _title(cell: dict[str, Any]) -> str:
    """Return the title with what the name says beyond it: the dimension, and what is fixed."""
    return f"{cell['title']} ({', '.join(cell['about'])})"


def _printed(cell: dict[str, Any]) -> str:
    if cell["paper"] is None:
        return ""
    both = [cell["paper"], *cell.get("paper_also", ())]
    return " or ".join(f"{value:.2f} ({deviation:g})" for value, deviation in both)


def _value(cell: dict[str, Any]) -> str:
    if cell["value"] is None:
        missing = cell.get("missing_seconds")
        return str(cell["state"]) + (f" ({missing:,.0f} s)" if missing else "")
    digits = _digits(cell["value"])
    text = f"{cell['value']:.{digits}f}"
    if cell["deviation"] is not None:
        text += f" ± {cell['deviation']:.{digits}f}"
    low, high = cell["over_users"]
    return text if low is None else f"{text} [{low:.{digits - 1}f}, {high:.{digits - 1}f}]"


def _digits(value: float) -> int:
    """Return how many decimals show what matters of points."""
    return 2 if abs(value) >= 1 else 3


def _points(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _parameters(cell: dict[str, Any]) -> str:
    return f"{sum(cell['parameters'].values()):,}" if cell["parameters"] else ""


def _settings(cell: dict[str, Any]) -> str:
    if cell["settings"] is None:
        return ""
    return ", ".join(f"{name} {value:g}" for name, value in cell["settings"].items()) or "defaults"


def _baselines(cells: list[dict[str, Any]]) -> list[str]:
    """Say whether the baselines are as strong as they must be for a comparison to mean anything."""
    found = {
        cell["printed_as"]: cell["value"]
        for cell in cells
        if cell["printed_as"] in AT_LEAST
        and (cell["metric"], cell["column"]) == ("hit@10", "100 sampled")
        and cell["value"] is not None
    }
    said = [
        f"{name} {value:.1f} ({'at least' if value >= AT_LEAST[name] else 'BELOW'} "
        f"{AT_LEAST[name]:g})"
        for name, value in found.items()
    ]
    text = (
        "Baselines, Hit@10 among 100 sampled, and what they must reach to be worth comparing with"
    )
    return [f"{text}: {', '.join(said)}.", ""] if said else []


def _remarks(cells: list[dict[str, Any]]) -> list[str]:
    """Return what failed, and what was noted of runs that did not."""
    lines = []
    failed = dict.fromkeys(
        f"- {_title(each)}: {each['failed']}" for each in cells if each["failed"]
    )
    notes: dict[str, dict[str, None]] = {}  # by method, each once
    for each in cells:
        notes.setdefault(_title(each), {}).update(dict.fromkeys(each["notes"]))
    noted = [line for title, own in notes.items() for line in _alike(title, list(own))]
    for title, said in (("Failed:", failed), ("With reservations:", noted)):
        lines += [title, "", *said, ""] if said else []
    return lines


def _alike(title: str, notes: list[str]) -> list[str]:
    """Return a line a note; those that differ in numbers alone are one, and are counted."""
    kinds: dict[str, list[str]] = {}
    for note in notes:
        kinds.setdefault(_NUMBER.sub("", note), []).append(note)
    return [
        f"- {title}: {same[0]}" + (f" ({len(same)} runs, alike)" if len(same) > 1 else "")
        for same in kinds.values()
    ]


def _claims(claims: list[dict[str, Any]]) -> list[str]:
    if not claims:
        return []
    lines = ["## Claims", "", _RULE, ""]
    heads = ("data", "column", "difference", "paper", "ours", "95% interval", "seeds", "verdict")
    for claim in dict.fromkeys(each["claim"] for each in claims):
        lines += [f"### {claim[0].upper()}{claim[1:]}", ""]
        lines += [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
        for each in claims:
            if each["claim"] == claim:
                lines.append(f"| {' | '.join(_claim(each))} |")
        lines.append("")
    return lines


def _claim(each: dict[str, Any]) -> list[str]:
    known = each["low"] is not None
    digits = _digits(each["value"] or 0.0)
    return [
        each["dataset"],
        f"{_TITLES[each['metric']]}, {each['column']}",
        f"{each['first']} − {each['second']}",
        "" if each["paper"] is None else f"{each['paper']:+.2f}",
        "not run" if each["value"] is None else f"{each['value']:+.{digits}f}",
        f"[{each['low']:+.{digits}f}, {each['high']:+.{digits}f}]" if known else "",
        str(each["n"]),
        each["verdict"] if each["n"] else "not run",
    ]
