"""A first look: how a log is understood, before anything is done with it."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.data.assembly import Table
from counterplay.data.preparation import Preparation, known_dataset, read_known, read_plan
from counterplay.data.readers import question_of
from counterplay.data.roles import ABSENT, COLUMNS, IMPRESSION_COLUMNS, form_of, is_quantity
from counterplay.data.sources import local_path
from counterplay.data.splits import Split
from counterplay.display import Convertible, Shown, flat, pairs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from counterplay.data.findings import Reading, Step
    from counterplay.data.formats import Progress
    from counterplay.data.interactions import Interactions

_SHOWN = 12  # columns that a line names
_KINDS = ("event", "eventtype", "action", "actiontype", "behavior", "behaviortype", "interaction")
_OPTIONS = ("separator", "quote", "encoding")


@dataclass(frozen=True, slots=True, repr=False)
class Look(Shown, Convertible):
    """What `look` found."""

    name: str  #: The log's name.
    source: str  #: Where it is.
    n_rows: int  #: Rows that were read, those that were left out included.
    n_users: int
    n_items: int
    feedback: str  #: What the rows are: clicks, impressions or ratings.
    file: dict[str, str]  #: How the file is written.
    columns: dict[str, str]  #: The column of each role.
    not_taken: tuple[str, ...]  #: Columns that play no role.
    times: str | None  #: First and last time, and how times are written.
    steps: tuple[str, ...]  #: What was repaired or left out.
    question: str | None  #: What must be said before rows can be clicks.
    command: str | None  #: The command line that says the same; change it to say otherwise.

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return asdict(self)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one row of flat values."""
        return [flat(self.to_dict(), {})]

    def summary(self) -> dict[str, str]:
        """Return what was understood in words, by what it is about."""
        rows = {
            "log": f"{self.name}: {self.n_rows:,} rows, {self.n_users:,} users, "
            f"{self.n_items:,} items",
            "feedback": self.feedback,
            **said_of_file(self.file),
            "columns": said_of_columns(self.columns),
        }
        if self.not_taken:
            rows["not taken"] = _others(self.not_taken)
        rows["times"] = self.times or "none"
        steps = [step for step in self.steps if step != f"columns: {rows['columns']}"]
        rows |= {f"step {number}": step for number, step in enumerate(steps, start=1)}
        if self.question:
            rows["question"] = self.question
        return rows | ({"otherwise": self.command} if self.command else {})

    def _title(self) -> str:
        return f"of {self.name!r}: {self.n_rows:,} rows, {self.feedback}"

    def _columns(self) -> dict[str, list[object]]:
        return pairs(self.summary())


def look(
    source: object, plan: Preparation | None = None, *, progress: Progress | None = None
) -> Look:
    """Read a log as `prepare` would, and say how it was understood.

    Example:
        >>> found = look({"uid": [1, 1, 2], "sku": ["a", "b", "a"], "price": [3, 4, 3]})
        >>> found.columns, found.not_taken
        ({'user': 'uid', 'item': 'sku'}, ('price',))
    """
    plan = plan or Preparation()
    path = local_path(source)
    known = known_dataset(path, plan.format) if path else None
    if known and path:
        made = read_known(known, path, plan, progress)
        table = Table.of(made.interactions if isinstance(made, Split) else made)
    else:
        every = plan.model_copy(update={"drop_missing": True})  # to see the others
        table = read_plan(source, every, plan.impressions, progress)
    reading, rating = table.reading, table.columns.get("rating")
    roles = dict(reading.roles) if reading else {role: role for role in table.columns}
    undecided = (plan.threshold, plan.feedback) == (None, None) and "clicked" not in table.columns
    question = None
    if rating is not None and undecided and reading is not None:
        question = question_of(rating, roles["rating"])
    missing = next((step.text for step in table.steps if step.kind == "missing"), None)
    if missing and not plan.drop_missing:
        asked = f"{missing.removeprefix('left out ')}: add --drop-missing to leave them out"
        question = asked if question is None else f"{asked}; {question}"
    return Look(
        name=table.name,
        source=table.source,
        n_rows=reading.n_rows if reading else len(table.columns["user"]),
        n_users=len(table.users),
        n_items=len(table.items),
        feedback=_feedback(table.columns, roles, plan),
        file=dict(reading.facts) if reading else {},
        columns=roles,
        not_taken=reading.others if reading else (),
        times=_times(table.columns.get("time"), reading),
        steps=tuple(str(step) for step in table.steps),
        question=question,
        command=otherwise(table.source, reading, table.steps),
    )


def _feedback(columns: Mapping[str, Any], roles: Mapping[str, str], plan: Preparation) -> str:
    """Say what the rows of a log are taken for."""
    rating, clicked = columns.get("rating"), columns.get("clicked")
    if clicked is not None:
        text = f"impressions, {int(clicked.sum()):,} of them clicked"
        return text if columns.get("random") is None else f"{text}; some were drawn at random"
    if rating is None:
        return "clicks: every row is one"
    if (plan.threshold, plan.feedback) == (None, None) and rating.min() <= 0:
        return f"to be said: numbers from {rating.min():g} to {rating.max():g}"
    if plan.threshold is not None:
        n_liked = int((rating >= np.float32(plan.threshold)).sum())
        return f"clicks: the {n_liked:,} rows of at least {plan.threshold:g} are one each"
    if is_quantity(roles["rating"]) and plan.rating is None and plan.feedback != "ratings":
        return f"clicks: every row is one, whatever its quantity in '{roles['rating']}'"
    return f"ratings from {rating.min():g} to {rating.max():g}, mean {rating.mean():.3g}"


def _times(time: Any, reading: Reading | None) -> str | None:
    if time is None:
        return None
    first, last = (np.datetime64(int(each), "us").astype("datetime64[s]") for each in
                   (time.min(), time.max()))  # fmt: skip
    written = f"; {reading.times}" if reading and reading.times else ""
    written = written.replace("in the form %+", "in ISO 8601")
    return f"{first}Z to {last}Z{written}"


def said_of_file(facts: Mapping[str, str]) -> dict[str, str]:
    """Return one line on how a file is written."""
    words = {"files": "{} files", "header": "header: {}", "separator": "separated by {}",
             "quote": "quotes {}", "encoding": "in {}"}  # fmt: skip
    said = (words.get(name, "{}").format(value) for name, value in facts.items())
    return {"file": ", ".join(said)} if facts else {}


def said_of_columns(roles: Mapping[str, str]) -> str:
    """Return one line on which column is what."""
    return "took " + ", ".join(f"{role} from '{name}'" for role, name in roles.items())


def _names(names: tuple[str, ...]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:_SHOWN])
    return shown + (f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else "")


def _others(names: tuple[str, ...]) -> str:
    """Name the columns that were not taken, and the one that says what kind of event a row is."""
    kind = next((name for name in names if form_of(name) in _KINDS), None)
    return _names(names) + (f"; rows are taken whatever their '{kind}'" if kind else "")


def otherwise(source: str, reading: Reading | None, steps: Iterable[Step]) -> str | None:
    """Return the command line that says of a file what was found; None for a frame."""
    if reading is None or reading.facts.get("format") == "frame":
        return None
    words = ["counterplay", "look", *source.split(", "), "--format", reading.facts["format"]]
    if "header" in reading.facts:
        words.append("--no-header" if reading.facts["header"].startswith("none") else "--header")
    for name in _OPTIONS:
        if name in reading.facts:
            words += [f"--{name}", reading.facts[name].strip("'") or "'"]
    for role in (*COLUMNS, *IMPRESSION_COLUMNS):
        if role in reading.roles or role in ("rating", "time"):
            words += [f"--{role}", reading.roles.get(role, ABSENT)]
    how, _, form = reading.times.partition(" in ")
    if form:
        unit = how == "numbers"
        words += ["--time-unit" if unit else "--date-format", form.removeprefix("the form ")]
    words += ["--drop-missing"] if any(step.kind == "missing" for step in steps) else []
    return shlex.join(words)


def understood(found: Interactions | Split) -> dict[str, str]:
    """Say how the rows and the columns of a log were understood, in a few lines."""
    split = found if isinstance(found, Split) else None
    log = found.interactions if isinstance(found, Split) else found
    counts = {"ratings" if log.is_explicit else "clicks": len(log)}
    if log.exposed is not None:
        counts["of them organic"] = len(log) - int(log.exposed.sum())
    if split is not None and split.unclicked is not None:
        counts["impressions without a click"] = len(split.unclicked)
    if split is not None and split.random is not None:
        counts["random rows"] = len(split.random)
    n_rows = sum(counts.values()) - counts.get("of them organic", 0)
    kinds = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    said = {"log": f"{n_rows:,} rows: {kinds}"}
    texts = [step.text for step in log.steps if step.kind == "columns"]
    taken = [text for text in texts if text.removeprefix("impressions: ").startswith("took ")]
    said["columns"] = "; ".join(taken) or ", ".join(name for name, _ in log.columns())
    others = [text for text in texts if text not in taken]
    reading = log.reading
    if reading is not None:
        said |= said_of_file(reading.facts)
        said["columns"] = "; ".join(taken) or said_of_columns(reading.roles)
        others = [*([_others(reading.others)] if reading.others else []), *others]
        if times := _times(log.time, reading):
            said["times"] = times
    if others:
        said["not taken"] = "; ".join(others)
    dropped = [str(step) for step in log.steps if step.counts and step.kind != "columns"]
    said |= {"done": "; ".join(dropped)} if dropped and reading is not None else {}
    command = otherwise(log.source, reading, log.steps)
    return said | ({"otherwise": command} if command else {})
