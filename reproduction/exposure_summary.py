"""What learning from impressions gained over learning from clicks: differences, and their page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import t

from reproduction.exposure_learning import DIM, MECHANISMS, METHODS, N_SHOWN, PATIENCE, RATE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from counterplay.data.jobs import Result

N_PLANNED = 10  # seeds
LEVEL = 0.95
GOAL = 10.0  # per cent over ERM
_OTHERS = (*(name for name in METHODS if name != "erm"), "pop")


def summarised(worlds: Sequence[Result]) -> list[dict[str, Any]]:
    """Return the truth and the gains of all methods, a cell of density and mechanism each."""
    cells = []
    for density in N_SHOWN:
        for mechanism in MECHANISMS:
            here = [
                each
                for each in worlds
                if (each["density"], each["mechanism"]) == (density, mechanism)
            ]
            if here:
                cells.append({"density": density, "mechanism": mechanism, **_cell(here)})
    return cells


def _cell(worlds: Sequence[Result]) -> dict[str, Any]:
    truth = {name: np.array([each["fits"][name]["truth"] for each in worlds]) for name in METHODS}
    truth["pop"] = np.array([each["pop"] for each in worlds])
    return {
        "n": len(worlds),
        "clicks": float(np.mean([each["rows"]["clicks"] for each in worlds])),
        "impressions": float(np.mean([each["rows"]["impressions"] for each in worlds])),
        "perfect": float(np.mean([each["perfect"] for each in worlds])),
        "truth": {name: float(values.mean()) for name, values in truth.items()},
        "gain": {
            name: interval(100 * (truth[name] / truth["erm"] - 1), len(_OTHERS)) for name in _OTHERS
        },
    }


def interval(values: np.ndarray, n_comparisons: int) -> dict[str, float | None]:
    """Return the mean with an interval by Student's t, at a level that holds for all comparisons.

    Example:
        >>> found = interval(np.array([1.0, 2.0, 3.0]), 1)
        >>> found["value"], round(found["low"], 2)
        (2.0, -0.48)
    """
    n, mean = len(values), float(values.mean())
    if n < 2:
        return {"value": mean, "low": None, "high": None}
    wide = t.ppf(1 - (1 - LEVEL) / 2 / n_comparisons, n - 1) * values.std(ddof=1) / n**0.5
    return {"value": mean, "low": mean - float(wide), "high": mean + float(wide)}


def rows(cells: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the lines of the summary of all experiments: the cell with the smallest gain each."""
    found = []
    for name in ("shown", "shown, examination"):
        worst = min(cells, key=lambda each: each["gain"][name]["value"])
        best = max(cells, key=lambda each: each["gain"][name]["value"])
        reached = [_reaches(each["gain"][name]) for each in cells]
        whole = len(cells) == len(N_SHOWN) * len(MECHANISMS)
        found.append(
            {
                "what": f"{name}: gain in true Hit@10 over ERM on clicks, smallest of "
                f"{len(cells)} kinds of worlds",
                "ours": f"{told(worst['gain'][name])}, {worst['mechanism']}, {worst['density']}",
                "yardstick": f"largest {told(best['gain'][name])}, {best['mechanism']}, "
                f"{best['density']}; reached in {sum(reached)} of {len(cells)}",
                "ratio": "–",
                "goal": f"at least {GOAL:g} %, interval above 0, in all 12",
                "met": (True if whole else None) if all(reached) else False,
            }
        )
    return found


def _reaches(gain: Mapping[str, float | None]) -> bool:
    value, low = gain["value"], gain["low"]
    return value is not None and value >= GOAL and low is not None and low > 0


def told(gain: Mapping[str, float | None]) -> str:
    """Return a gain in per cent, with its interval."""
    if gain["low"] is None or gain["high"] is None:
        return f"{gain['value']:+.1f} %"
    return f"{gain['value']:+.1f} % [{gain['low']:+.1f}, {gain['high']:+.1f}]"


def page(cells: Sequence[Mapping[str, Any]], chosen: Mapping[Any, Any], notes: str) -> str:
    """Return the page of the learning half."""
    lines = [
        "# Learning from impressions",
        "",
        "True Hit@10 in per cent, mean over seeds, of a factorisation (`cf`) of dimension "
        f"{DIM} in "
        "worlds of 1,200 users and 600 items. Sparse worlds showed 40 items to a user, dense ones "
        f"120. All methods have four trials of settings on seed 100, a rate of {RATE:g} and a "
        f"patience of {PATIENCE}. Validation chooses settings and epochs: hits on validation "
        "clicks; for `shown` the AUC of validation impressions.",
        "",
        _missing(cells),
        "",
        "| world | seeds | clicks, impressions | perfect | pop | " + " | ".join(METHODS) + " |",
        "|---|---|---|---|---|" + "---|" * len(METHODS),
    ]
    for each in cells:
        truth = each["truth"]
        values = " | ".join(f"{truth[name]:.2f}" for name in ("pop", *METHODS))
        lines.append(
            f"| {each['mechanism']}, {each['density']} | {each['n']} | {each['clicks']:,.0f}, "
            f"{each['impressions']:,.0f} | {each['perfect']:.2f} | {values} |"
        )
    lines += [
        "",
        "## Gain over ERM on clicks",
        "",
        f"Mean over seeds of the paired difference in per cent. Intervals are Student's t over "
        f"seeds, at a level of {LEVEL:.0%} for all {len(_OTHERS)} comparisons of a row together.",
        "",
        "| world | " + " | ".join(_OTHERS) + " |",
        "|---|" + "---|" * len(_OTHERS),
    ]
    for each in cells:
        gains = " | ".join(told(each["gain"][name]) for name in _OTHERS)
        lines.append(f"| {each['mechanism']}, {each['density']} | {gains} |")
    lines += ["", "## What it says", "", _verdict(cells, "shown"), notes.strip()]
    lines += ["", "## Settings", ""]
    for density, mechanisms in chosen.items():
        for mechanism, methods in mechanisms.items():
            said = "; ".join(
                f"{name} {', '.join(f'{key} {value:g}' for key, value in settings.items())}"
                for name, settings in methods.items()
            )
            lines.append(f"- {mechanism}, {density}: {said}")
    return "\n".join(lines) + "\n"


def _verdict(cells: Sequence[Mapping[str, Any]], name: str) -> str:
    """Say where a method reaches the goal, and where it does not."""
    kinds: dict[str, list[str]] = {"reached": [], "undecided": [], "missed": []}
    for each in cells:
        gain = each["gain"][name]
        missed = gain["value"] < GOAL
        found = "missed" if missed else "reached" if _reaches(gain) else "undecided"
        kinds[found].append(f"{each['mechanism']}, {each['density']} ({gain['value']:+.1f} %)")
    told = {
        "reached": f"a gain of at least {GOAL:g} % with an interval above 0",
        "undecided": f"at least {GOAL:g} %, but an interval that has 0",
        "missed": f"less than {GOAL:g} %",
    }
    said = [f"{told[kind]}: {'; '.join(names)}" for kind, names in kinds.items() if names]
    return f"- *Goal for `{name}`.* " + ". ".join(each.capitalize() for each in said) + "."


def _missing(cells: Sequence[Mapping[str, Any]]) -> str:
    """Say how much of the plan has been run."""
    done = {(each["density"], each["mechanism"]): each["n"] for each in cells}
    said = []
    for density in N_SHOWN:
        counts = [done.get((density, mechanism), 0) for mechanism in MECHANISMS]
        alike = len(set(counts)) == 1
        named = (f"{name} {n}" for name, n in zip(MECHANISMS, counts, strict=True))
        said.append(f"{density} {counts[0]}" if alike else f"{density} ({', '.join(named)})")
    return f"Planned: {N_PLANNED} seeds. Run: {'; '.join(said)}."
