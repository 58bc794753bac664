"""What a study leaves behind, how it is read, and all that a report can be made of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from counterplay.data.files import read_json
from counterplay.data.profiling import Profile
from counterplay.display import Shown
from counterplay.evaluation.deployment import OnlineRecord
from counterplay.evaluation.records import (
    CandidateEstimate,
    EvaluationRecord,
    Key,
    Number,
    Record,
    Settings,
    Text,
    read_as,
    validated,
)
from counterplay.runs.record import RunRecord, read_record

if TYPE_CHECKING:
    from counterplay.evaluation.records import Kind

PLAN, STUDY, EVALUATION, ONLINE = "plan.json", "study.json", "evaluation.json", "online.json"
BESIDE = {"commands", "runs", "evaluation", "online"}  # of a study's record, in files of their own
_PART = "a part of a finished study"
_REMEDY = "make a study with counterplay run, or let it go on with the same command"


class Lead(Record):
    """How far one candidate is before another."""

    value: float
    low: Number
    high: Number


class Choice(Record):
    """Whom an estimator puts first, and how far that is beyond chance and beyond doubt.

    Attributes:
        estimator: Which.
        candidate: Whom it puts first, with `value`, `low`, `high`, `n` and `ess` of the estimate.
        runner_up: The nearest rival that it cannot be told apart from, or else the second.
        difference: To the runner-up.
        decided: Whether the candidate is ahead of every rival beyond chance.
        flip: The smallest factor of the odds of exposure that would put a rival before it.
        turned_by: That rival.
    """

    estimator: str
    candidate: Text
    value: float
    low: Number
    high: Number
    n: int
    ess: float
    runner_up: Text | None = None
    difference: Lead | None = None
    decided: bool = False
    flip: Number = None
    turned_by: Text | None = None


class Truth(Record):
    """Who is truly the best, and what share of that each estimator's choice loses."""

    candidate: Text
    values: dict[Text, float]
    regret: dict[str, float]


class OnlinePlan(Record):
    """An online test that would decide between two candidates.

    Attributes:
        candidate: The one that leads.
        rival: The one that is nearest to it.
        difference: Of the metric that decides, by what knows exposure, or at the likeliest dials.
        users: In each of the two arms; None where the difference is too small to be found.
    """

    candidate: Text
    rival: Text
    difference: float
    users: int | None


class Verdict(Record):
    """What to ship by the most trusted estimator, and what the others say.

    Attributes:
        metric: That decides.
        k: Its cutoff.
        smaller_is_better: Whether a smaller value is the better one.
        estimator: The most trusted one.
        decided: Whether its leader is ahead of every rival beyond chance.
        leader: Whom it puts first.
        recommended: The leader, where that is decided.
        choices: What each estimator puts first.
        truth: In a world, who is truly the best.
        headline: What to do.
        reservations: What speaks against it.
        next_steps: What to do where nothing is decided.
        sentences: What the estimator that decides says; `choices` has the others.
        left: Who may be the best, where nothing is decided.
        online: The test that would decide.
    """

    metric: str
    k: int
    smaller_is_better: bool
    estimator: str
    decided: bool
    leader: Text
    recommended: Text | None
    choices: tuple[Choice, ...]
    truth: Truth | None
    headline: Text = ""
    reservations: tuple[Text, ...] = ()
    next_steps: tuple[Text, ...] = ()
    sentences: tuple[Text, ...] = ()
    left: tuple[Text, ...] = ()
    online: OnlinePlan | None = None

    @property
    def said(self) -> tuple[str, ...]:
        """All that is said after the headline."""
        return *self.sentences[:1], *self.reservations, *self.next_steps, *self.sentences[1:]

    @property
    def key(self) -> Key:
        """The metric and cutoff that decide."""
        return self.metric, self.k


class SplitRecord(Record):
    """How the rows were split: `counts` by part, `cold` by part and role."""

    kind: str
    counts: dict[str, int]
    cold: dict[str, dict[str, int]]
    seen_share: Number


class _Named(Record):
    name: Text


class NamedRun(RunRecord, _Named):
    """A run under the name of its candidate."""


class Plan(Record):
    """What a study is of and what it does, and what was noted in reading: plan.json."""

    source: Text | None
    files: dict[Text, str]
    configuration: Settings
    log: dict[str, str] | None = None
    command: Text = ""
    notes: tuple[Text, ...] = ()


class Findings(Shown, Record):
    """All that a report can be made of; what is not there is left out of it."""

    name: Text
    kind: Literal["log", "world"] = "log"
    seed: int | None = None
    versions: dict[str, str] | None = None
    configuration: Settings | None = None
    candidates: tuple[Text, ...] = ()
    profile: Profile | None = None
    steps: tuple[Text, ...] = ()
    split: SplitRecord | None = None
    verdict: Verdict | None = None
    commands: tuple[Text, ...] = ()
    runs: tuple[NamedRun, ...] = ()
    evaluation: EvaluationRecord | None = None
    online: OnlineRecord | None = None

    def _title(self) -> str:
        said = self.verdict.headline if self.verdict else f"{len(self.runs)} runs"
        return f"of {self.name!r}: {said}"

    def _columns(self) -> dict[str, list[object]]:
        names = {"estimator": "estimator", "puts first": "candidate", "before": "runner_up"}
        names |= {end: end for end in ("value", "low", "high")}
        choices = self.verdict.choices if self.verdict else ()
        return {shown: [getattr(each, key) for each in choices] for shown, key in names.items()}

    @property
    def estimates(self) -> tuple[CandidateEstimate, ...]:
        """All estimates, if there are any."""
        return self.evaluation.estimates if self.evaluation else ()

    @property
    def key(self) -> Key | None:
        """The metric and cutoff that decide: the verdict's, or those of the first estimate."""
        found = self.verdict or next(iter(self.estimates), None)
        return None if found is None else found.key

    @property
    def truth(self) -> dict[str, float]:
        """What candidates are truly worth at the metric that decides; empty outside of worlds."""
        return self.verdict.truth.values if self.verdict and self.verdict.truth else {}

    def by_estimator(self, key: Key) -> dict[str, dict[str, CandidateEstimate]]:
        """The estimates at one metric, by estimator and candidate."""
        found: dict[str, dict[str, CandidateEstimate]] = {}
        for each in self.estimates:
            if each.key == key:
                found.setdefault(each.estimator, {})[each.candidate] = each
        return found


class StudyRecord(Findings):
    """What came of a study: study.json, and beside it its runs, evaluation and online test."""

    seed: int
    versions: dict[str, str]
    configuration: Settings
    profile: Profile
    split: SplitRecord
    verdict: Verdict
    evaluation: EvaluationRecord


def study_record(directory: str | Path) -> StudyRecord:
    """Return all that a finished study says."""
    folder = Path(directory)
    summary = read_json(folder / STUDY, _PART, remedy=_REMEDY)
    plan = read_part(Plan, folder / PLAN)
    names = summary.get("candidates")
    parts = {
        "commands": [plan.command] if plan.command else [],
        "runs": [_named(str(name), folder) for name in names] if isinstance(names, list) else [],
        "evaluation": read_part(EvaluationRecord, folder / EVALUATION),
        "online": read_online(folder),
    }
    return validated(StudyRecord, summary | parts, folder / STUDY, _PART, _REMEDY)


def read_part(kind: type[Kind], path: Path) -> Kind:
    """Read one of the files that a study is made of."""
    return read_as(kind, path, _PART, remedy=_REMEDY)


def read_online(folder: Path) -> OnlineRecord | None:
    """Read the online test of a study; None where the log is not of a world."""
    return read_part(OnlineRecord, folder / ONLINE) if (folder / ONLINE).exists() else None


def _named(name: str, folder: Path) -> NamedRun:
    return NamedRun(name=name, **dict(read_record(folder / "runs" / name)))
