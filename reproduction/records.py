"""A measurement as a file, with its command and its machine, and one page of all in a folder.

The benchmarks write theirs the same way. A record that was measured before a change, and would come
out a little different now, says `"older": true`; the page marks it until it is measured anew.
"""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_COLUMNS = ("what", "ours", "yardstick", "ratio", "goal")
_ABOUT = Path("/proc/cpuinfo")
_PACKAGES = ("numpy", "polars", "pyarrow", "torch")
_OLDER = (
    "† Measured before rows of one user at one time had an order of their own, before ties "
    "counted by the mean of a metric, and before epochs were chosen by full ranks; "
)


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    return {
        "cores": os.cpu_count(),
        "processor": processor(_ABOUT.read_text(encoding="utf-8") if _ABOUT.exists() else ""),
        "python": platform.python_version(),
        "versions": {package: version(package) for package in _PACKAGES},
    }


def processor(about: str) -> str:
    """Return what a processor calls itself, with the instructions that matrix products use.

    Args:
        about: Lines of `name: value`, as Linux has them.
    """
    told = dict(line.split(":", 1) for line in about.splitlines() if ":" in line)
    fields = {key.strip(): value.strip() for key, value in told.items()}
    has = [name for name in ("avx2", "avx512f") if name in fields.get("flags", "").split()]
    return " ".join([fields.get("model name", platform.machine()), *has])


def write_record(result: dict[str, Any], folder: Path, name: str, command: str) -> Path:
    """Write what was found, with the command that finds it and the machine that did."""
    path = folder / f"{name}.json"
    record = {"name": name, "command": f"{command} {name}", "machine": machine(), **result}
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return path


def write_summary(folder: Path, about: Iterable[str], names: Iterable[str], command: str) -> Path:
    """Write README.md: the rows of all results that are there.

    Args:
        folder: Of the results.
        about: The first lines of the page.
        names: Of the results, in order.
        command: What measures one, before its name.
    """
    lines = [*about, "", f"| {' | '.join(_COLUMNS)} | met |", "|---|---|---|---|---|---|"]
    paths = [path for name in names if (path := folder / f"{name}.json").exists()]
    records = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    for record in records:
        mark = " †" if record.get("older") else ""
        for row in record["rows"]:
            what, *others = (row[key] for key in _COLUMNS)
            met = {True: "yes", False: "no", None: ""}[row["met"]]
            lines.append(f"| {' | '.join([what + mark, *others, met])} |")
    if any(record.get("older") for record in records):
        lines += ["", f"{_OLDER}`{command} NAME` measures anew."]
    page = folder / "README.md"
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return page
