"""How a command ends, as a number for whoever called it."""

from __future__ import annotations

FAILED, BAD_INPUT, UNDECIDED, INTERRUPTED = 1, 2, 3, 130
MEANINGS = {
    0: "done",
    FAILED: "failed: training diverged, memory ran out, a worker was lost, or a mistake of ours",
    BAD_INPUT: "refused: an option, a file or a folder is not as it must be; no result was written",
    UNDECIDED: "undecided: the verdict ships no candidate (run --fail-if-undecided)",
    INTERRUPTED: "interrupted by Ctrl-C (143: ended by SIGTERM); the same command goes on",
}
