"""A finished study: its verdict, frames and pictures, and what to do with its winner."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack

from counterplay.display import Shown, value_first
from counterplay.study.records import StudyRecord, study_record

if TYPE_CHECKING:
    from collections.abc import Iterable

    import polars as pl
    from plotly.graph_objects import Figure  # type: ignore[import-untyped]

    from counterplay.learning.fitting import Callback
    from counterplay.runs.record import RunRecord
    from counterplay.serving.asked import Ids
    from counterplay.serving.recommend import More


@dataclass(frozen=True, repr=False)
class Study(Shown):
    """A finished study.

    Attributes:
        folder: Where it lies.
        record: All that came of it; a report is made of it.
    """

    folder: Path
    record: StudyRecord

    @property
    def verdict(self) -> str:
        """What to ship, and how sure that is, in words."""
        found = self.record.verdict
        return "\n".join([found.headline, *found.said])

    @property
    def recommended(self) -> str | None:
        """The candidate to ship; None where none is ahead of all others beyond chance."""
        return self.record.verdict.recommended

    @property
    def estimates(self) -> pl.DataFrame:
        """Every candidate under every estimator, with intervals."""
        return self._frame("estimates")

    @property
    def comparisons(self) -> pl.DataFrame:
        """The differences of all pairs of candidates."""
        return self._frame("comparisons")

    @property
    def bands(self) -> pl.DataFrame:
        """What each estimate could be, if the odds of exposure were off by a factor Γ."""
        return self._frame("bands")

    def plot(self) -> Figure:
        """Return the picture at the top of the report: the leader's lead over each rival."""
        import counterplay  # the report's room lies above this one; see docs/decisions

        return counterplay.report.plot(self.record)

    def report(self, path: str | Path | None = None) -> Path:
        """Write the report, by default into the study's folder, and return where it is."""
        import counterplay

        out = self.folder / "report.html" if path is None else Path(path)
        counterplay.report.write_report(self.record, out)
        return out

    def refit(
        self,
        candidate: str | None = None,
        out: str | Path | None = None,
        *,
        data: str | Path | None = None,
        callbacks: Iterable[Callback] = (),
    ) -> RunRecord:
        """Train the winner, or another candidate, on all rows; see `counterplay.study.refit`."""
        from counterplay.study import shipping

        return shipping.refit(self.folder, candidate, out, data=data, callbacks=callbacks)

    def recommend(
        self,
        users: Ids | None = None,
        k: int = 10,
        *,
        candidate: str | None = None,
        **options: Unpack[More],
    ) -> pl.DataFrame:
        """Return the `k` best items of each of `users`, or of all; see `counterplay.recommend`."""
        from counterplay.study import shipping

        return shipping.recommend(self.folder, candidate=candidate, users=users, k=k, **options)

    def _frame(self, name: Literal["estimates", "comparisons", "bands"]) -> pl.DataFrame:
        import polars as pl

        rows = [value_first(each.to_dict()) for each in getattr(self.record.evaluation, name)]
        return pl.DataFrame(rows, infer_schema_length=None)

    def _title(self) -> str:
        return self.record._title()

    def _columns(self) -> dict[str, list[object]]:
        return self.record._columns()


def load_study(directory: str | Path) -> Study:
    """Return a finished study."""
    return Study(Path(directory), study_record(directory))
