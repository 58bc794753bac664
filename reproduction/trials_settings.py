"""The box and the point of the trials, chosen on worlds that are not reported.

Two seeds from 100 up of every mechanism. Whoever chooses writes the choice to
`reproduction/trial_settings.json`, sets `frozen`, and runs `trials`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reproduction import trials
from reproduction.trial_summary import summarised

if TYPE_CHECKING:
    from reproduction.datasets import Place

SOURCES = trials.SOURCES
SEEDS = range(100, 102)
LAMBDAS = ((0.0,), (0.0, 0.2), (0.0, 0.2, 0.4), (0.0, 0.2, 0.4, 0.6))
POINTS = ((0.5, 0.2), (0.5, 0.3), (0.55, 0.3), (0.6, 0.2), (0.6, 0.3), (0.75, 0.2), (0.75, 0.3))


def run(place: Place) -> dict[str, Any]:
    """Judge the worlds of the first seeds, and return what each box and each point was worth."""
    worlds = trials.judged_worlds(SEEDS, place)
    base = trials.settings()
    boxes, points = [], []
    for lambdas in LAMBDAS:
        chosen = base.model_copy(update={"lambdas": lambdas})
        boxes.append((f"λ to {lambdas[-1]:g}", summarised(worlds, chosen, "hit@10")))
    for point in POINTS:
        chosen = base.model_copy(update={"point": point})
        points.append((f"point {point}", summarised(worlds, chosen, "hit@10")))
    lines = ["# Settings of the trials", "", f"Seeds {SEEDS.start} to {SEEDS.stop - 1}.", ""]
    lines += [_told(name, found, "box") for name, found in boxes]
    lines += [_told(name, found, "point") for name, found in points]
    return {
        "seeds": list(SEEDS),
        "boxes": {name: found["overall"] for name, found in boxes},
        "points": {name: found["overall"] for name, found in points},
        "rules": boxes[0][1]["rules"],
        "rows": [],
        "pages": {"trials-settings.md": "\n".join(lines) + "\n"},
    }


def _told(name: str, found: dict[str, Any], estimator: str) -> str:
    each = next(line for line in found["overall"] if line["estimator"] == estimator)
    worst = max(
        (line["wrong"] or 0.0)
        for mechanism in found["mechanisms"].values()
        for line in mechanism["lines"]
        if line["estimator"] == estimator
    )
    rule = found["rules"]["mean over the box" if estimator == "box" else "point"]["value"]
    return (
        f"- {name}: error {100 * each['error']:.2f} points, order {each['order']:+.2f}, decided "
        f"{each['decided']:.0%}, wrong {each['wrong'] or 0:.1%} (worst mechanism {worst:.1%}), "
        f"ends hold {each['coverage']:.0%}, regret of its choice {rule:.1%}"
    )
