"""Where the numbers come from: data, configuration, versions, seeds, commands."""

from __future__ import annotations

from typing import Any

from counterplay.report.blocks import Block, Code, Fold, Items, Pairs, Section, Table, Tree
from counterplay.report.words import NONE, count, interval, metric, number, plain, share, short


def data_section(record: dict[str, Any]) -> Section | None:
    """Return the log at a glance, how it was prepared and split."""
    blocks: list[Block] = []
    profile, split = record.get("profile"), record.get("split")
    if profile:
        blocks += [Pairs(_profile(profile)), _events(profile)]
    if split:
        blocks.append(Pairs(_split(split)))
    cold = (record.get("evaluation") or {}).get("cold")
    if cold:
        blocks.append(_cold(cold, (record.get("evaluation") or {}).get("part") or "test"))
    if record.get("steps"):
        blocks.append(Fold("What preparation did", [Items(record["steps"])]))
    if not blocks:
        return None
    reading = "The log as it was after preparation, and which rows were kept for what."
    return Section("data", "The data", reading, blocks)


def _profile(found: dict[str, Any]) -> dict[str, str]:
    rows = {
        "log": plain(found.get("name")),
        "feedback": plain(found.get("feedback")),
        "interactions": count(found.get("n_interactions")),
        "users": count(found.get("n_users")),
        "items": count(found.get("n_items")),
        "density": f"{share(found.get('density'))} of all pairs",
        "popularity": f"Gini {number(found.get('popularity_gini'))}; 0 is equal, near 1 few have "
        "everything",
        "repeated pairs": f"{share(found.get('repeated_share'))} of rows",
    }
    if found.get("rating_range"):
        low, mean, high = found["rating_range"]
        rows["ratings"] = f"{short(low)} to {short(high)}, mean {short(mean)}"
    if found.get("first_time"):
        rows["days"] = f"{found['first_time']:.10} to {found.get('last_time') or '':.10}"
    if found.get("n_implausible_times"):
        rows["implausible times"] = f"{count(found['n_implausible_times'])} rows"
    if found.get("exposed_share") is not None:
        rows["flagged as exposed"] = f"{share(found['exposed_share'])} of rows"
    if found.get("propensity_range"):
        low, mean, high = found["propensity_range"]
        rows["logged propensities"] = f"{short(low)} to {short(high)}, mean {short(mean)}"
    for role, names in (found.get("features") or {}).items():
        rows[f"{role} features"] = plain(names)
    return rows


def _events(found: dict[str, Any]) -> Table:
    spread = {
        "events a user": found.get("user_events") or {},
        "events an item": found.get("item_events") or {},
    }
    levels = list(dict.fromkeys(level for quantiles in spread.values() for level in quantiles))
    columns = {"quantile": list(spread)} | {
        level: [short(quantiles.get(level)) for quantiles in spread.values()] for level in levels
    }
    return Table("How activity and popularity are spread", columns, {"quantile"})


def _split(found: dict[str, Any]) -> dict[str, str]:
    counts = found.get("counts") or {}
    rows = {"split": plain(found.get("kind"))}
    rows |= {f"{name} rows": count(value) for name, value in counts.items()}
    if found.get("seen_share") is not None:
        rows["test pairs that are in training too"] = share(found["seen_share"])
    for name, cold in (found.get("cold") or {}).items():
        for role in ("user", "item"):
            if cold.get(role):
                part = cold[role] / counts[name] if counts.get(name) else None
                rows[f"{name} rows of {role}s without training rows"] = (
                    f"{count(cold[role])} ({share(part)})"
                )
    return rows


def _cold(found: dict[str, Any], part: str) -> Table:
    """Return what candidates are worth to users with training rows, and to those without."""
    lines = found.get("estimates") or []
    columns = {
        "candidate": [str(each["candidate"]) for each in lines],
        "rows": [f"{count(each['n'])} {each['rows']}" for each in lines],
        "metric": [metric(each["metric"], each["k"]) for each in lines],
        "value": [number(each["value"]) for each in lines],
        "interval": [interval(each["low"], each["high"]) for each in lines],
    }
    title = (
        f"Cold: the {count(found['rows'])} {part} rows ({share(found['share'])}) of users without "
        "training rows, for whom models rank by popularity; warm: the others"
    )
    return Table(title, columns, {"candidate", "rows", "metric"})


def origin_section(record: dict[str, Any]) -> Section | None:
    """Return all that is needed to get the same numbers again."""
    runs = record.get("runs") or []
    blocks: list[Block] = []
    if record.get("commands"):
        blocks.append(Code(record["commands"]))
    facts = {}
    if record.get("seed") is not None:
        facts["seed"] = plain(record["seed"])
    facts |= {name: plain(value) for name, value in (record.get("versions") or {}).items()}
    if facts:
        blocks.append(Pairs(facts))
    if runs:
        blocks.append(_runs(runs))
    if record.get("configuration"):
        blocks.append(Fold("Configuration of the study", [Tree(record["configuration"])]))
    evaluation = record.get("evaluation") or {}
    if evaluation.get("configuration"):
        blocks.append(Fold("Configuration of the evaluation", [Tree(evaluation["configuration"])]))
    blocks += [
        Fold(f"Configuration of {run['name']}", [Tree(run["configuration"])])
        for run in runs
        if run.get("configuration")
    ]
    if not blocks:
        return None
    reading = "The same data, seed and versions give the same numbers."
    return Section("origin", "How to get these numbers again", reading, blocks)


def _runs(runs: list[dict[str, Any]]) -> Table:
    def dataset(run: dict[str, Any], key: str) -> str:
        return plain((run.get("dataset") or {}).get(key))

    def model(run: dict[str, Any], role: str) -> str:
        if role not in (run.get("parameters") or {}):
            return NONE
        name = ((run.get("configuration") or {}).get(role) or {}).get("name", role)
        return f"{name}, {count(run['parameters'][role])} parameters"

    columns = {
        "run": [run["name"] for run in runs],
        "method": [plain((run.get("configuration") or {}).get("method")) for run in runs],
        "candidate": [model(run, "candidate") for run in runs],
        "exposure model": [model(run, "exposure") for run in runs],
        "seed": [plain(run.get("seed")) for run in runs],
        "dataset": [dataset(run, "name") for run in runs],
        "fingerprint": [f"{dataset(run, 'fingerprint'):.19}" for run in runs],
    }
    return Table("Runs", columns, set(columns) - {"seed"})
