"""What of a log is not as one might think, said before anything is trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterplay.data.splits import TEST, cold_notes
from counterplay.runs.defaults import n_ranked
from counterplay.study.field import FIELD, too_large

if TYPE_CHECKING:
    from counterplay.data.splits import Split
    from counterplay.study.config import StudyConfig

_MANY = 0.05  # of the test rows


def reservations(config: StudyConfig, split: Split) -> list[str]:
    """Say what of the rows is not as one might think."""
    notes = []
    if split.interactions.rating is not None and config.feedback == "clicks":
        notes.append(
            "ratings are not looked at: every row counts as a click, whatever its rating; "
            "--feedback ratings predicts them"
        )
    at_random = split.interactions.time is None and split.kind == "random"
    if at_random and config.preparation.split == "auto":
        notes.append(
            "no column is taken for the time, so rows are held out at random; name it with "
            "--time if there is one"
        )
    notes += cold_notes(split)
    n_items = split.interactions.n_items
    if "candidates" not in config.model_fields_set and config.feedback == "clicks":
        left_out = ((word, too_large(word, n_items)) for word in FIELD)
        notes += [f"{word} is left out: {why}" for word, why in left_out if why]
    if not split.counts["test"]:
        return notes
    if split.seen_share > _MANY:
        notes.append(
            f"{split.seen_share:.0%} of the test rows repeat a pair of training and are ranked "
            "all the same, and a model that remembers does well on those; "
            "preparation.duplicates=first keeps each pair once"
        )
    if config.feedback == "ratings" or config.evaluation.protocol == "sampled":
        return notes
    k = max(config.cutoffs(split))
    if config.cutoffs(split) != config.evaluation.k:
        notes.append(
            f"most rows are ranked among so few items that a list of {max(config.evaluation.k)} "
            f"would hold them all, so lists of {k} are judged; evaluation.k says otherwise"
        )
    certain = float((n_ranked(split, TEST) <= k).mean())
    if certain > _MANY:
        notes.append(
            f"{certain:.0%} of the test rows are ranked among {k} items or fewer, and are hits "
            f"at {k} whatever the ranking; lower evaluation.k, or take a log of more items"
        )
    return notes
