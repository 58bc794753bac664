"""Make every mistake of the list, and see whether the tests notice.

Usage: python -m tests.mutants [--since REVISION] [WORD ...]

With a revision, only mutants whose file or tests have changed since are made; with words, only
those whose name or file has one of them. Exits with 1 if one survives.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.mutants.mutation import changed_since, concerned, mutants, try_all


def main() -> int:
    """Try the mutants, print the survivors, return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--since", metavar="REVISION")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("words", nargs="*")
    asked = parser.parse_args()
    chosen = mutants()
    if asked.since:
        chosen = concerned(chosen, changed_since(asked.since))
    if asked.words:
        chosen = [
            each for each in chosen if any(word in each.name + each.file for word in asked.words)
        ]
    if not chosen:
        print("no mutant is concerned")
        return 0
    begun, survivors = time.monotonic(), []
    with tempfile.TemporaryDirectory() as work:
        for mutant, outcome, said in try_all(chosen, Path(work), asked.workers):
            if mutant is None:
                if outcome != "alive":
                    print(f"{said}\nthe tests must pass without a mistake first")
                    return 1
                continue
            print(f"{outcome}  {mutant.file}: {mutant.name}", flush=True)
            if outcome != "killed":
                survivors.append((mutant, outcome, said))
    minutes = (time.monotonic() - begun) / 60
    print(f"{len(chosen)} mutants, {len(survivors)} not killed, {minutes:.1f} minutes")
    for mutant, outcome, said in survivors:
        print(f"\n{outcome}: {mutant.name}\n  {mutant.file}: {mutant.old!r} → {mutant.new!r}")
        print(f"  tests: {', '.join(mutant.tests)}")
        if outcome == "void":
            print(said)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
