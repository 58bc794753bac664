"""What happens when things go wrong: kills at random moments, flipped bits, malformed files.

Every case has a number, and with the seed its number says all of it, so that one can be tried again
alone: `python -m benchmarks.faults kills 17`. Cases that were tried are kept in `benchmarks/.work`,
and a campaign that broke off goes on there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from benchmarks.faults.campaign import Cases, campaign
from benchmarks.faults.flips import Flips
from benchmarks.faults.kills import Kills
from benchmarks.faults.malformed import Malformed

SEED = 2026
PARTS: dict[str, tuple[Callable[[int], Cases], int]] = {
    "kills": (Kills, 200),
    "flips": (Flips, 500),
    "malformed": (Malformed, 10_000),
}


def run() -> dict[str, Any]:
    """Run the three campaigns."""
    parts = {name: campaign(name, kind(SEED), n) for name, (kind, n) in PARTS.items()}
    return {
        "seed": SEED,
        "parts": {
            name: {
                "cases": len(cases),
                "outcomes": dict(sorted(Counter(each["outcome"] for each in cases).items())),
                "faults": [each for each in cases if each["fault"]],
            }
            for name, cases in parts.items()
        },
        "rows": [_row(name, cases) for name, cases in parts.items()],
    }


def _row(name: str, cases: list[dict[str, Any]]) -> dict[str, Any]:
    n_faults = sum(bool(each["fault"]) for each in cases)
    said = {
        "kills": "killed at random moments and run again: other bytes, leftovers or a traceback",
        "flips": "one bit of a stored file flipped: accepted, a crash or a traceback",
        "malformed": "malformed files: rows lost or misread, a crash, a traceback or leftovers",
    }
    return {
        "what": said[name],
        "ours": f"{n_faults} of {len(cases):,}",
        "yardstick": "",
        "ratio": "",
        "goal": "0",
        "met": not n_faults,
    }
