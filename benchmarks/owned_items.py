"""What a worker sends in a step: where all have a copy of all items, and where each owns a part.

The batch is that of all workers together, and the same for any number of them.
"""

from __future__ import annotations

from typing import Any

from benchmarks.workers import log_of, measured_by

N_ITEMS, N_ROWS, N_STEPS = 200_000, 262_144, 4
SIZES = (2, 4, 8)


def run() -> dict[str, Any]:
    data, batch = log_of("workers-items", N_ROWS, N_ITEMS), N_ROWS // N_STEPS
    sent = {
        name: {
            size: measured_by(data, "erm", size, batch, own_items=own)["bytes a step"]
            for size in SIZES
        }
        for name, own in (("copied", False), ("owned", True))
    }
    words = {
        name: " → ".join(f"{each / 2**20:.1f}" for each in found.values())
        for name, found in sent.items()
    }
    owned = list(sent["owned"].values())
    return {
        "log": {"rows": N_ROWS, "items": N_ITEMS, "rows a step": batch},
        "bytes a worker and step": sent,
        "rows": [
            {
                "what": f"GMF, erm, {N_ITEMS:,} items, dimension 32, {batch:,} rows a step: MiB "
                "that a worker sends in a step, by 2, 4 and 8 workers that own items' vectors",
                "ours": words["owned"],
                "yardstick": f"{words['copied']}, copies",
                "ratio": f"{sent['owned'][8] / sent['copied'][8]:.2f}",
                "goal": "falling",
                "met": sorted(owned, reverse=True) == owned,
            }
        ],
    }
