"""Where the numbers come from: data, configuration, versions, seeds, commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterplay.report.blocks import Block, Code, Fold, Items, Pairs, Section, Table, Tree
from counterplay.report.words import NONE, count, ends, metric, number, plain, share, short

if TYPE_CHECKING:
    from collections.abc import Sequence

    from counterplay.data.profiling import Profile
    from counterplay.evaluation.records import ColdRows
    from counterplay.study.records import Findings, NamedRun, SplitRecord


def data_section(record: Findings) -> Section | None:
    """Return the log at a glance, how it was prepared and split."""
    blocks: list[Block] = []
    if record.profile:
        blocks += [Pairs(_profile(record.profile)), _events(record.profile)]
    if record.split:
        blocks.append(Pairs(_split(record.split)))
    if record.evaluation and record.evaluation.cold:
        blocks.append(_cold(record.evaluation.cold, record.evaluation.part))
    if record.steps:
        blocks.append(Fold("What preparation did", [Items(record.steps)]))
    if not blocks:
        return None
    reading = "The log as it was after preparation, and which rows were kept for what."
    return Section("data", "The data", reading, blocks)


def _profile(found: Profile) -> dict[str, str]:
    rows = {
        "log": found.name,
        "feedback": found.feedback,
        "interactions": count(found.n_interactions),
        "users": count(found.n_users),
        "items": count(found.n_items),
        "density": f"{share(found.density)} of all pairs",
        "popularity": f"Gini {number(found.popularity_gini)}; 0 is equal, near 1 few have "
        "everything",
        "repeated pairs": f"{share(found.repeated_share)} of rows",
    }
    if found.rating_range:
        rows["ratings"] = _range(*found.rating_range)
    if found.first_time:
        rows["days"] = f"{found.first_time:.10} to {found.last_time or '':.10}"
    if found.n_implausible_times:
        rows["implausible times"] = f"{count(found.n_implausible_times)} rows"
    if found.exposed_share is not None:
        rows["flagged as exposed"] = f"{share(found.exposed_share)} of rows"
    if found.n_organic:
        rows["organic clicks"] = f"{count(found.n_organic)}, clicked without being shown"
    if found.n_impressions is not None and found.click_rate is not None:
        rows["impressions"] = f"{count(found.n_impressions)}, {share(found.click_rate)} clicked"
    if found.position_range:
        rows["positions"] = _range(*found.position_range)
    if found.n_random is not None:
        rows["random rows"] = count(found.n_random)
    if found.propensity_range:
        rows["logged propensities"] = _range(*found.propensity_range)
    return rows | {f"{role} features": plain(names) for role, names in found.features.items()}


def _range(low: float, mean: float, high: float) -> str:
    return f"{short(low)} to {short(high)}, mean {short(mean)}"


def _events(found: Profile) -> Table:
    spread = {"events a user": found.user_events, "events an item": found.item_events}
    columns = {"quantile": list(spread)} | {
        level: [short(quantiles.get(level)) for quantiles in spread.values()]
        for level in {**found.user_events, **found.item_events}
    }
    return Table("How activity and popularity are spread", columns, {"quantile"})


def _split(found: SplitRecord) -> dict[str, str]:
    rows = {"split": found.kind}
    rows |= {f"{name} rows": count(value) for name, value in found.counts.items()}
    if found.seen_share is not None:
        rows["test pairs that are in training too"] = share(found.seen_share)
    for name, cold in found.cold.items():
        for role in ("user", "item"):
            if cold[role]:
                rows[f"{name} rows of {role}s without training rows"] = (
                    f"{count(cold[role])} ({share(cold[role] / found.counts[name])})"
                )
    return rows


def _cold(found: ColdRows, part: str) -> Table:
    """Return what candidates are worth to users with training rows, and to those without."""
    title = (
        f"Cold: the {count(found.rows)} {part} rows ({share(found.share)}) of users without "
        "training rows, for whom models rank by popularity; warm: the others"
    )
    cells = [
        (each.candidate, f"{count(each.n)} {each.rows}", metric(*each.key), number(each.value),
         ends(each))
        for each in found.estimates
    ]  # fmt: skip
    heads = ("candidate", "rows", "metric", "value", "interval")
    return Table.of(title, heads, cells, set(heads[:3]))


def origin_section(record: Findings) -> Section | None:
    """Return all that is needed to get the same numbers again."""
    blocks: list[Block] = [Code(record.commands)] if record.commands else []
    facts = {} if record.seed is None else {"seed": str(record.seed)}
    facts |= record.versions or {}
    if facts:
        blocks.append(Pairs(facts))
    if record.runs:
        blocks.append(_runs(record.runs))
    settings = [("the study", record.configuration or {})]
    if record.evaluation:
        settings.append(("the evaluation", record.evaluation.configuration))
    settings += [(run.name, run.configuration.model_dump(mode="json")) for run in record.runs]
    blocks += [
        Fold(f"Configuration of {name}", [Tree(values)]) for name, values in settings if values
    ]
    if not blocks:
        return None
    reading = "The same data, seed and versions give the same numbers."
    return Section("origin", "How to get these numbers again", reading, blocks)


def _runs(runs: Sequence[NamedRun]) -> Table:
    def model(run: NamedRun, role: str) -> str:
        if role not in run.parameters:
            return NONE
        return f"{run.model_of(role)}, {count(run.parameters[role])} parameters"

    columns = {
        "run": [run.name for run in runs],
        "method": [run.configuration.method for run in runs],
        "candidate": [model(run, "candidate") for run in runs],
        "exposure model": [model(run, "exposure") for run in runs],
        "seed": [str(run.seed) for run in runs],
        "dataset": [run.dataset.name for run in runs],
        "fingerprint": [f"{run.dataset.fingerprint:.19}" for run in runs],
    }
    return Table("Runs", columns, set(columns) - {"seed"})
