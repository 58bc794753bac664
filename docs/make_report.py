"""Write the example report of the site: `python docs/make_report.py`.

It is a study of MovieTweetings, if its folder is among the data (`COUNTERPLAY_DATA`, or
../shared/data), else of a simulated world. A report shows rows of its log, and the licences of most
other datasets forbid that; MovieTweetings has the MIT licence.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from pathlib import Path

import counterplay as cp

ROOT = Path(__file__).parents[1]
REPORT = Path(__file__).parent / "_extra" / "example-report.html"


def source(work: Path) -> Path:
    """Return the log: the public dataset if it is there, else a world that is made in `work`."""
    data = Path(os.environ.get("COUNTERPLAY_DATA", ROOT.parent / "shared" / "data"))
    found = data / "movietweetings-100k"
    if found.is_dir():
        return found
    made = cp.simulation.Synthetic(n_users=1000, n_items=100, n_shown=20, mean_relevance=0.3)
    rates = (1.0, 0.3, 0.6)
    cp.simulation.write_world(
        made.world(), work / "world", rates=rates, impressions=True, random_share=0.1
    )
    return work / "world"


def main() -> None:
    """Make the study and its report, unless the report is there."""
    if REPORT.exists():
        return
    warnings.simplefilter("ignore", cp.CounterplayWarning)  # the report has them
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        log = source(work)
        public = log.parent != work
        given = {"preparation": {"items_above": 10, "users_above": 4}} if public else {}
        config = cp.study.StudyConfig(training={"epochs": 20}, **given)
        study = cp.run(log, work / "study", config)
        REPORT.parent.mkdir(exist_ok=True)
        cp.write_report(study.record, REPORT)
    print(f"{REPORT}: {study.record.name}. {study.record.verdict.headline}")


if __name__ == "__main__":
    sys.exit(main())
