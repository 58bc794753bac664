"""Held-out rows that training knows nothing of, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from counterplay.data.splits import Split


def cold_notes(split: Split) -> list[str]:
    """Say how many held-out rows have a user, or an item, that training knows nothing of."""
    counts, notes = split.counts, []
    found = {
        role: ", ".join(
            f"{cold[role]:,} of {counts[name]:,} {name} rows ({cold[role] / counts[name]:.1%})"
            for name, cold in split.cold_counts.items()
            if cold[role]
        )
        for role in ("user", "item")
    }
    if found["user"]:
        notes.append(
            f"users without a training row have {found['user']}: models rank for them by "
            "popularity, and evaluation shows these rows apart; split in another way for fewer"
        )
    if found["item"]:
        notes.append(
            f"items without a training row are in {found['item']}: nothing was learnt from what "
            "users did with them"
        )
    return notes
