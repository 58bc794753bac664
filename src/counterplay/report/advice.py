"""What speaks against the verdict, and what to do next: before any chart but the first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterplay.report.blocks import Items, Section

if TYPE_CHECKING:
    from counterplay.study.records import Findings


def reservations_section(record: Findings) -> Section | None:
    """Return all that was noted: against the verdict, of the data and of the settings."""
    said = record.verdict.reservations if record.verdict else ()
    notes = list(dict.fromkeys([*said, *(record.evaluation.notes if record.evaluation else ())]))
    if not notes:
        return None
    reading = "What speaks against the result, and what limits it. Read it before the numbers."
    return Section("reservations", "With reservations", reading, [Items(notes)])


def next_steps_section(record: Findings) -> Section | None:
    """Return what to do with the verdict."""
    found = record.verdict
    if found is None:
        return None
    steps = list(found.next_steps)
    if found.recommended is not None:
        steps.append(
            f"Test {found.recommended} online against what runs today: offline evaluation chooses "
            "what is worth a test, and does not replace it."
        )
    diagnostics = record.evaluation.diagnostics if record.evaluation else None
    if diagnostics is not None and diagnostics.gallery is not None:
        steps.append(
            "Look at what each candidate would show some users, below: a list that no user would "
            "want is a reason, whatever the estimate."
        )
    steps.append(
        "Log what is shown from now on, with its probability, and show a small share at random: "
        "then the next decision needs fewer assumptions."
    )
    return Section("next", "Next steps", "In the order of what they cost.", [Items(steps)])
