"""What each estimator would ship, and what it assumes: where estimators first appear."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterplay.report.blocks import Block, Cards, Pairs, Part, Prose, Section
from counterplay.report.glossary import estimators_of
from counterplay.report.summary import TRUTH, choices_of
from counterplay.report.words import metric

if TYPE_CHECKING:
    from counterplay.study.records import Findings


def glance_section(record: Findings) -> Section | None:
    """Return the choices at a glance, and the estimators that they are of."""
    estimators, key = estimators_of(record), record.key
    if key is None:
        return None
    blocks: list[Block] = []
    choices = choices_of(record)
    if choices:
        blocks.append(Cards(choices, TRUTH))
    said = record.verdict.sentences[1:] if record.verdict else ()
    if said:
        blocks.append(Prose(said))
    if estimators:
        blocks.append(Part("What they assume", [Pairs(estimators)]))
    if not blocks:
        return None
    reading = (
        "An estimator is one assumption about what users had been shown; the same candidate has "
        f"another value under each. By {metric(*key)}."
    )
    return Section("glance", "At a glance: what each estimator says", reading, blocks)
