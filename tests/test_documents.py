"""What the documents say must run, and the examples too."""

from __future__ import annotations

import json
import re
import runpy
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm, t

from counterplay.data import directory
from counterplay.evaluation.estimators import trusted
from counterplay.learning import checkpoint
from counterplay.runs import record
from counterplay.simulation import store

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")])
NOTEBOOKS = sorted(ROOT.glob("docs/notebooks/*.ipynb"))
WITH_CODE = [page for page in PAGES if "```python" in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.name)
def test_code_blocks_of_a_page_run_in_order(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    exec(compile(code, page.name, "exec"), {"__name__": page.stem})
    out = capsys.readouterr().out
    assert out.count("\n") >= code.count("print(")
    for printed in re.findall(r"<!-- printed -->\n```text\n(.*?)```", text, re.DOTALL):
        assert printed in out


def test_the_readme_ends_in_a_decision_that_is_right() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "<!-- printed -->\n```text\nShip shown. In truth shown is the best.\n" in text


def test_the_formats_of_files_are_those_that_the_page_of_versions_names() -> None:
    text = (ROOT / "docs/versions.md").read_text(encoding="utf-8")
    formats = {
        "dataset directory": directory.FORMAT, "run directory": record.FORMAT,
        "checkpoint": checkpoint.FORMAT, "world directory": store.FORMAT,
    }  # fmt: skip
    for name, number in formats.items():
        assert re.search(rf"^\| {name} \| .* \| {number} \|$", text, re.MULTILINE), name


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_the_cells_of_a_notebook_run_in_order(
    notebook: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
    names = {"__name__": notebook.stem}
    with warnings.catch_warnings():
        for cell in code:
            exec(compile(cell, notebook.name, "exec"), names)
    assert capsys.readouterr().out.count("\n") >= "".join(code).count("print(")


@pytest.mark.parametrize("page", [*PAGES, *NOTEBOOKS], ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    missing = [link for link in links if not (page.parent / link).exists()]
    assert missing == []


def test_the_reference_pages_are_those_of_the_commands_and_names_as_they_are() -> None:
    made: dict[str, str] = runpy.run_path(str(ROOT / "docs/make_reference.py"))["pages"]()
    folder = ROOT / "docs/reference"
    written = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    index = written.pop("index.md")
    assert written == made, "run python docs/make_reference.py"
    assert [name for name in made if f"\n{name.removesuffix('.md')}\n" not in index] == []


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_examples_run(
    example: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", [str(example), str(tmp_path / "out")])
    with warnings.catch_warnings():
        runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out


def test_the_example_leaves_a_dataset_directory(tmp_path: Path) -> None:
    example = runpy.run_path(str(ROOT / "examples" / "prepare_a_log.py"))
    example["main"](tmp_path)
    assert (tmp_path / "dataset" / "dataset.json").exists()


def regret_and_error(name: str, floor: float) -> tuple[float, float, float, float]:
    """Return the mean regret over all worlds with a 95% interval, and the mean error, of Hit@10.

    The file has means over the worlds of a family with Student's intervals: their widths give the
    standard errors.
    """
    path = ROOT / "reproduction/results/estimators.json"
    results = json.loads(path.read_text(encoding="utf-8"))
    kind = "item" if name in ("propensity", "robust-shared") else ""
    rows = [
        row
        for family in results["summaries"].values()
        for row in family
        if (row["estimator"], row["kind"], row["floor"], row["metric"])
        == (name, kind, floor, "hit@10")
    ]
    assert len(rows) == 5
    means, highs = (np.array([row["regret"][place] for row in rows]) for place in (0, 2))
    errors = (highs - means) / t.ppf(0.975, results["n_worlds"] - 1)
    reach = norm.ppf(0.975) * np.sqrt((errors**2).sum()) / len(rows)
    off = np.mean([row["mse"][0] ** 0.5 for row in rows])
    return means.mean(), means.mean() - reach, means.mean() + reach, off


def test_what_is_said_of_estimators_is_what_was_measured() -> None:
    text = (ROOT / "docs/guide/estimators.md").read_text(encoding="utf-8")
    seeds = json.loads((ROOT / "benchmarks/results/demo.json").read_text(encoding="utf-8"))["seeds"]
    lines = re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", text, re.MULTILINE)
    assert sorted(name for name, _ in lines) == sorted(
        ["standard", "propensity", "popularity", "robust-shared", "oracle"]
    )
    for name, cells in lines:
        regret, low, high, off = regret_and_error(
            name, 0.0 if name in ("standard", "oracle") else 0.01
        )
        in_demo = "not run"
        if name in seeds[0]["regret"]:
            in_demo = f"{np.mean([seed['regret'][name] for seed in seeds]):.1%}"
        assert cells.split(" | ") == [
            f"{regret:.1%}", f"{low:.1%} to {high:.1%}", f"{100 * off:.1f} points", in_demo
        ]  # fmt: skip
    assert f"floor of 0.1 it lost {regret_and_error('robust-shared', 0.1)[0]:.1%}, as" in text


def test_the_order_of_trust_on_the_pages_is_that_of_the_verdict() -> None:
    order = ", ".join(f"`{name}`" for name in trusted() if name != "randomised")
    for page in ("estimators.md", "deciding.md"):
        text = " ".join((ROOT / "docs/guide" / page).read_text(encoding="utf-8").split())
        assert order in text


def test_what_decides_from_clicks_was_wrong_least_often() -> None:
    """In the worlds of the trials, whose figures stand on the page."""
    path = ROOT / "reproduction/results/trials.json"
    found = json.loads(path.read_text(encoding="utf-8"))["summary"]["overall"]
    by_name = {each["estimator"]: each for each in found}
    names = {"box": "robust", "point": "dials", "popularity": "popularity", "standard": "standard"}
    assert all(by_name["box"]["wrong"] <= by_name[name]["wrong"] for name in names)
    text = (ROOT / "docs/guide/estimators.md").read_text(encoding="utf-8")
    for key, name in names.items():
        each = by_name[key]
        cells = [f"{100 * each['error']:.1f} points", f"{each['order']:.2f}",
                 f"{each['regret']:.1%}", f"{each['decided']:.0%}", f"{each['wrong']:.1%}",
                 f"{each['coverage']:.0%}"]  # fmt: skip
        assert f"| {name} | {' | '.join(cells)} |" in text


@pytest.mark.parametrize("page", ["README.md", "docs/guide/estimators.md"])
def test_the_ten_worlds_of_the_demo_are_those_that_were_measured(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    seeds = json.loads((ROOT / "benchmarks/results/demo.json").read_text(encoding="utf-8"))["seeds"]
    assert len(seeds) == 10
    for name in seeds[0]["ships"]:
        decided = [each for each in seeds if each["decided"][name]]
        right, wrong = (
            sum((each["ships"][name] == each["best"]) == so for each in those)
            for those, so in ((seeds, True), (decided, False))
        )
        regret, over = (
            np.mean([each[key][name] for each in seeds])
            for key in ("regret", "estimated_over_true")
        )
        cells = f"{right} of 10 | {len(decided)} of 10 | {wrong} | {regret:.1%} | {over:.1f}"
        assert f"| {name} | {cells} |" in text


def test_what_is_said_of_coat_is_what_was_measured() -> None:
    path = ROOT / "reproduction/results/random-clicks.json"
    text = (ROOT / "docs/guide/estimators.md").read_text(encoding="utf-8")
    for each in json.loads(path.read_text(encoding="utf-8"))["estimators"]:
        cells = [f"{100 * each['error']:.1f} points", f"{each['order']:.2f}",
                 f"{each['regret']:.1%}", f"{each['decided']:.0%}", f"{each['wrong']:.0%}",
                 f"{each['clearly_wrong']} of {each['clear']}"]  # fmt: skip
        assert f"| {each['estimator']} | {' | '.join(cells)} |" in text


def test_what_is_said_of_the_opponent_and_the_old_system_is_what_was_measured() -> None:
    path = ROOT / "reproduction/results/trials-opponent.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    text = (ROOT / "docs/guide/estimators.md").read_text(encoding="utf-8")
    for each in found["estimators"]:
        ends = f"[{each['wrong_low']:.1%}, {each['wrong_high']:.1%}]"
        cells = [f"{100 * each['error']:.1f} points", f"{each['order']:.2f}",
                 f"{each['regret']:.1%}", f"{each['decided']:.0%}",
                 f"{each['wrong']:.1%} {ends}"]  # fmt: skip
        assert f"| {each['estimator']} | {' | '.join(cells)} |" in text
    for each in found["old_system"]:
        cells = [f"{each['ahead']} of {each['pairs']}", f"{each['wrongly_ahead']}",
                 f"{each['behind']} of {each['pairs']}", f"{each['wrongly_behind']}"]  # fmt: skip
        assert f"| {each['estimator']} | {' | '.join(cells)} |" in text
