"""Try single cases again.

Usage: python -m benchmarks.faults PART NUMBER …
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.faults import PARTS, SEED

if __name__ == "__main__":
    part, *numbers = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        cases = PARTS[part][0](SEED)
        cases.prepare(Path(folder))
        for number in numbers:
            print(number, cases.try_case(int(number), Path(folder)))
