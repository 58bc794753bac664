"""The worked examples of `docs/add` apply to the tree as it is, and their tests pass."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ADD = ROOT / "docs/add"
KINDS = ("model", "method", "estimator", "metric", "dataset", "section")
TOUCHED = {
    kind: re.findall(r"^diff --git a/(.+) b/\1$", (ADD / f"{kind}.diff").read_text("utf-8"), re.M)
    for kind in KINDS
}


def run(folder: Path, *command: str) -> None:
    """Run a command on a copy of the tree; what it says is the failure."""
    environment = os.environ | {
        "GIT_CEILING_DIRECTORIES": str(folder.parent),  # git apply takes paths from the copy
        "PYTHONPATH": str(folder / "src"),
    }
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a copy of the sources and tests."""
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_every_example_is_here_and_on_the_page() -> None:
    assert sorted(each.stem for each in ADD.glob("*.diff")) == sorted(KINDS)
    page = (ADD / "index.md").read_text("utf-8")
    assert [kind for kind in KINDS if f"]({kind}.diff)" not in page] == []


@pytest.mark.parametrize("kind", KINDS)
def test_an_example_touches_two_source_files_and_a_test_at_most(kind: str) -> None:
    sources = [path for path in TOUCHED[kind] if path.startswith("src/counterplay/")]
    tests = [path for path in TOUCHED[kind] if re.fullmatch(r"tests/(\w+/)*test_\w+\.py", path)]
    assert 1 <= len(sources) <= 2
    assert len(tests) == 1
    assert sorted(sources + tests) == sorted(TOUCHED[kind])


def test_the_page_quotes_the_examples_as_they_are() -> None:
    quoted = re.findall(r"```diff\n(.*?)```", (ADD / "index.md").read_text("utf-8"), re.DOTALL)
    diffs = [(ADD / f"{kind}.diff").read_text("utf-8") for kind in KINDS]
    assert len(quoted) >= len(KINDS)
    assert [text for text in quoted if not any(text in diff for diff in diffs)] == []


def test_the_examples_apply_together_and_their_tests_pass(copy: Path) -> None:
    for kind in KINDS:
        run(copy, "git", "apply", str(ADD / f"{kind}.diff"))
    tests = [path for paths in TOUCHED.values() for path in paths if path.startswith("tests/")]
    run(copy, sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", *tests)
