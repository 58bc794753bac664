"""The job lists of a preparation by ranges of users, and what their results add up to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterplay.data.assembly import check_two
from counterplay.data.cuts import CutPiece, MergePieces
from counterplay.data.filters import core_rule, duplicates_step, events_rule, filter_step
from counterplay.data.findings import Step
from counterplay.data.impressions import FROM_ZERO, organic_step, refuse_both_ends
from counterplay.data.interactions import no_ratings, threshold_step
from counterplay.data.jobs import Result
from counterplay.data.parts import (
    PARTS,
    check_fractions,
    check_timed,
    check_trained,
    cold_notes_of,
    empty_notes,
    given_moments,
    last_two_notes,
)
from counterplay.data.pieces import alike
from counterplay.data.preparation import refuse_unused
from counterplay.data.shards import CountShard, MeasureShard, OrderShard, PartShard
from counterplay.data.whole import CountCold, DrawParts, SelectMoments, TallyItems
from counterplay.data.workplace import PlacedJob
from counterplay.errors import ConfigError, CounterplayError, DataError

if TYPE_CHECKING:
    from counterplay.data.pieces import ReadPiece
    from counterplay.data.preparation import Preparation

LARGEST = 15_000_000  # rows of a range that a worker holds at once, at 200 bytes each
Run = Callable[[str, Sequence[PlacedJob]], list[Result]]  # what is done, by which jobs


@dataclass(slots=True)
class Stages:
    """A preparation under way; each stage needs the one before."""

    run: Run
    plan: Preparation
    shards: int
    roles: dict[str, str] = field(default_factory=dict)
    read_steps: list[Step] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)  # after reading
    notes: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)  # rows, users and items so far
    merged: Result = field(default_factory=dict)
    ordered: list[Result] = field(default_factory=list)
    filtering: dict[str, Any] = field(default_factory=dict)  # what jobs are to be told of it
    mask: Any = None  # of the items that filters leave
    n_items: int = 0  # before any filter

    def read(self, pieces: Sequence[ReadPiece]) -> None:
        """Read all pieces, and cut them into ranges of users."""
        found = self.run("reading", pieces)
        some = [(piece, each) for piece, each in zip(pieces, found, strict=True) if each["rows"]]
        if not some:
            raise DataError(
                "a log must have rows; found none in any file; check that these are the right ones "
                "and that their export ended"
            )
        self.roles = some[0][1]["roles"]
        texts = alike(some)
        self.counts["rows"] = sum(each["rows"] for _, each in some)
        self._check_split()
        several = len({piece.path for piece, _ in some}) > 1
        for piece, each in some:
            within = f"'{Path(piece.path).name}': " if several else ""
            self.read_steps += [
                Step(kind, within + text, more) for kind, text, more in each["steps"]
            ]
        from_zero = self._positions([each["columns"] for _, each in some])
        about = tuple(
            (piece.piece, each["rows"], each["files"]["items"], each["files"]["sample"])
            for piece, each in some
        )
        kinds: dict[str, Any] = {f"{role}_text": texts[role] for role in ("user", "item")}
        (self.merged,) = self.run(
            "merging", [MergePieces(pieces=about, shards=self.shards, **kinds)]
        )
        self.n_items = self.merged["items"]
        check_two("item", self.roles["item"], self.n_items, self.merged["first_item"])
        digests = {"all_items": self.merged["files"]["items"], "cuts": self.merged["files"]["cuts"]}
        cut = [
            CutPiece(
                piece=piece.piece,
                **{name: each["files"][name] for name in ("rows", "users", "items")},
                **digests, **kinds, from_zero=from_zero,
            )
            for piece, each in some
        ]  # fmt: skip
        self._order(
            [(job.piece, each) for job, each in zip(cut, self.run("cutting", cut), strict=True)]
        )

    def _check_split(self) -> None:
        """Refuse a plan that the columns do not allow, before the long work."""
        refuse_unused(self.plan, self.kind)
        check_timed(self.kind, "time" in self.roles)
        check_fractions(self.fractions)
        given_moments(self.plan.validation_from, self.plan.test_from)
        if self.plan.threshold is not None and "rating" not in self.roles:
            raise no_ratings()

    @property
    def kind(self) -> str:
        """Of the split."""
        if self.plan.split != "auto":
            return self.plan.split
        return "leave-last-two" if "time" in self.roles else "random"

    @property
    def fractions(self) -> tuple[float, float]:
        """Shares of validation and test."""
        validation, test = self.plan.validation, self.plan.test
        return 0.1 if validation is None else validation, 0.1 if test is None else test

    def _positions(self, found: Sequence[Mapping[str, int]]) -> bool:
        """Tell whether positions count from 0; count organic clicks."""
        from_zero = False
        if "position" in self.roles:
            from_zero = min(each["lowest"] for each in found) <= 0
        if from_zero:
            refuse_both_ends(max(each["highest"] for each in found))
            self.steps.append(FROM_ZERO)
        if "exposed" in self.roles:
            n_organic = sum(each["organic"] for each in found)
            self.steps += organic_step(n_organic, self.counts["rows"])
        return from_zero

    def _order(self, cut: Sequence[tuple[int, Result]]) -> None:
        """Put the rows of each range together; leave out repetitions and low ratings."""
        n_rows = [
            sum(each["rows"][shard] for _, each in cut) for shard in range(self.merged["shards"])
        ]
        _add_up("cut into ranges", self.counts["rows"], sum(n_rows))
        if max(n_rows) > LARGEST:
            raise ConfigError(
                f"a range of users must have at most {LARGEST:,} rows to fit into memory; found "
                f"one with {max(n_rows):,}; raise --shards, or leave out the user who has most"
            )
        how = {"items": self.merged["files"]["items"], "duplicates": self.plan.duplicates}
        jobs = [
            OrderShard(
                shard=shard,
                slices=tuple(
                    (number, each["slices"][shard]) for number, each in cut if each["rows"][shard]
                ),
                threshold=self.plan.threshold,
                **how,
            )
            for shard in range(len(n_rows))
        ]
        self.ordered = self.run("ordering", jobs)
        total = {
            name: sum(each[name] for each in self.ordered)
            for name in ("rows", "users", "repeats", "tied", "distinct", "kept")
        }
        _add_up("put in order", self.counts["rows"], total["rows"])
        check_two("user", self.roles["user"], total["users"], self.ordered[0]["first_user"])
        if total["repeats"]:
            timed = "time" in self.roles
            step = duplicates_step(self.plan.duplicates, total, timed=timed)
            self.steps.append(step)
            _add_up("repetitions left out", total["rows"], total["distinct"] + step.counts["rows"])
        if self.plan.threshold is not None:
            highest = max(each["highest"] for each in self.ordered)
            step = threshold_step(self.plan.threshold, total["distinct"], total["kept"], highest)
            self.steps.append(step)
        self.counts = {"rows": total["kept"], "users": total["users"], "items": self.n_items}

    def filter(self) -> None:
        """Find which items the filters keep, and count what is left."""
        plan, counts = self.plan, [each["items"] for each in self.ordered]
        if plan.filters_events:
            bounds = plan.model_dump(include={"users_above", "users_below"})
            first = self._tally(counts, plan.items_above)
            self.filtering = {"masks": (first["mask"], None), **bounds}
            counts, left = self._count()
            self._filtered(
                events_rule(plan.items_above, plan.users_above, plan.users_below), left, counts
            )
        if plan.core is None:
            return
        before = (self.filtering.get("masks") or (None, None))[0]
        found = self._tally(counts, plan.core - 1)
        while True:
            self.filtering |= {"masks": (before, found["mask"]), "core": plan.core}
            counts, left = self._count()
            found = self._tally(counts, plan.core - 1)
            if not found["rare"]:
                break
        self._filtered(core_rule(plan.core), left, counts)

    def _jobs(self) -> list[dict[str, Any]]:
        """Return what jobs on the rows that filters keep are told, one a range."""
        return [
            {
                "shard": shard, "rows": each["files"]["rows"], "n_users": each["users"],
                "n_items": self.n_items, **self.filtering,
            }
            for shard, each in enumerate(self.ordered)
        ]  # fmt: skip

    def _tally(self, counts: Sequence[Any], above: int) -> Result:
        job = TallyItems(counts=tuple(counts), n_items=self.n_items, above=above)
        return self.run("counting items", [job])[0]

    def _count(self) -> tuple[list[Any], dict[str, int]]:
        found = self.run("filtering", [CountShard(**values) for values in self._jobs()])
        left = {name: sum(each[name] for each in found) for name in ("rows", "users")}
        return [each["items"] for each in found], left

    def _filtered(self, rule: str, left: dict[str, int], counts: Sequence[Any]) -> None:
        present = self._tally(counts, 0)
        self.mask = present["mask"]
        left["items"] = present["items"]
        self.steps.append(filter_step(rule, self.counts, left))
        self.counts = left

    def split(self) -> tuple[list[Result], dict[str, Any] | None]:
        """Give each row its part; return what was made of each range, and what goes for all."""
        plan, values = self.plan, self._jobs()
        more: list[dict[str, Any]] = [{} for _ in self.ordered]
        if self.kind == "time":
            moments = given_moments(plan.validation_from, plan.test_from)
            if moments is None:
                times = [each["times"] for each in self._measure(times=True)]
                select = SelectMoments(times=tuple(times), fractions=self.fractions)
                moments = self.run("selecting moments", [select])[0]["moments"]
            more = [{"moments": moments} for _ in more]
        elif self.kind == "random":
            pairs = [each["pairs"] for each in self._measure(times=False)]
            draw = DrawParts(pairs=tuple(pairs), fractions=self.fractions, seed=plan.seed or 0)
            more = [{"drawn": each} for each in self.run("drawing", [draw])[0]["slices"]]
        users = [{"users": each["files"]["users"]} for each in self.ordered]
        told = {"mask": self.mask, "split": self.kind}
        jobs = [
            PartShard(**one, **two, **three, **told)
            for one, two, three in zip(values, more, users, strict=True)
        ]
        found = self.run("splitting", jobs)
        for name in ("rows", "users"):
            _add_up("split", self.counts[name], sum(each[name] for each in found), name)
        return found, None if self.kind == "none" else self._described(found)

    def _measure(self, *, times: bool) -> list[Result]:
        jobs = [MeasureShard(**values, times=times) for values in self._jobs()]
        found = self.run("measuring", jobs)
        _add_up("measured", self.counts["rows"], sum(each["rows"] for each in found))
        return found

    def _described(self, found: Sequence[Result]) -> dict[str, Any]:
        """Return what is said of a split, and note what is to be known of it."""
        counts = {
            name: sum(each["counts"][part] for each in found) for part, name in enumerate(PARTS)
        }
        check_trained(counts["train"], self.kind)
        if self.kind == "leave-last-two":
            ties = [sum(each["ties"][place] for each in found) for place in range(2)]
            named = [name for each in found for name in each["named"]][:5]
            n_short = sum(each["short"] for each in found)
            self.notes += last_two_notes(
                self.counts["users"], (ties[0], ties[1]), n_short, named, in_file_order=False
            )
        else:
            self.notes += empty_notes(counts["test"], self.kind, self.fractions)
        files = [each["items"] for each in found]
        (by_item,) = self.run(
            "counting cold rows", [CountCold(counts=tuple(files), n_items=self.counts["items"])]
        )
        cold = {
            name: {"user": sum(each["cold"][part] for each in found), "item": by_item["cold"][part]}
            for part, name in enumerate(PARTS)
            if part
        }
        self.notes += cold_notes_of(counts, cold)
        return {"kind": self.kind, "counts": counts, "cold": cold}


def _add_up(what: str, before: int, after: int, name: str = "rows") -> None:
    """Make sure that nothing is lost without a count."""
    if before != after:
        raise CounterplayError(
            f"no {name} may be lost; found {before:,} {name} before they were {what}, and "
            f"{after:,} after; report this as a mistake"
        )
