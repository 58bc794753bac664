from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import benchmarks.run
from reproduction import experiments
from reproduction.records import processor, write_record, write_summary


def row(what: str, met: bool | None) -> dict[str, Any]:
    return {"what": what, "ours": "1", "yardstick": "2", "ratio": "0.50", "goal": "", "met": met}


def test_a_record_says_what_was_run_and_where(tmp_path: Path) -> None:
    path = write_record({"rows": []}, tmp_path, "speed", "python -m benchmarks.run")
    found = json.loads(path.read_text())
    assert list(found) == ["name", "command", "machine", "rows"]
    assert found["command"] == "python -m benchmarks.run speed"
    assert set(found["machine"]) == {"cores", "processor", "python", "versions"}


def test_a_processor_is_told_by_its_name_and_what_products_use_of_it() -> None:
    two = "processor: 0\nmodel name\t: Fast CPU\nflags\t\t: sse avx2 avx\n\nprocessor: 1\n"
    assert processor(two) == "Fast CPU avx2"
    assert processor("") == platform.machine()


def test_what_is_older_is_marked_until_it_is_measured_anew(tmp_path: Path) -> None:
    old = {"older": True, "rows": [row("an old one", True), row("another, a | b", None)]}
    write_record(old, tmp_path, "old", "run")
    write_record({"rows": [row("a new one", False)]}, tmp_path, "new", "run")
    page = write_summary(tmp_path, ["# All"], ("new", "absent", "old"), "run").read_text()
    assert page.splitlines()[:2] == ["# All", ""]
    assert "| a new one | 1 | 2 | 0.50 |  | no |\n| an old one † | 1 | 2 | 0.50 |  | yes |" in page
    assert "`run NAME` measures anew" in page
    write_record({"rows": [row("an old one", True)]}, tmp_path, "old", "run")
    assert "†" not in write_summary(tmp_path, ["# All"], ("new", "old"), "run").read_text()


def test_pages_that_are_kept_are_those_of_the_records_beside_them(tmp_path: Path) -> None:
    for kept, names, about, command in (
        (benchmarks.run.RESULTS, benchmarks.run.ALL, benchmarks.run.ABOUT, "benchmarks.run"),
        (experiments.RESULTS, experiments.EXPERIMENTS, experiments.ABOUT, "reproduction"),
    ):
        for name in names:
            if name in benchmarks.run.LONG and not (kept / f"{name}.json").exists():
                continue  # takes hours, and is written when it is done
            text = (kept / f"{name}.json").read_text(encoding="utf-8")
            assert json.loads(text)["command"] == f"python -m {command} {name}"
            (tmp_path / f"{name}.json").write_text(text, encoding="utf-8")
        page = write_summary(tmp_path, about, names, f"python -m {command}")
        assert page.read_text(encoding="utf-8") == (kept / "README.md").read_text(encoding="utf-8")
