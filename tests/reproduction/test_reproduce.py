"""Tables end to end on invented data: waves, resuming, failures, worlds, figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

import counterplay as cp
from counterplay.data.files import read_json
from counterplay.data.jobs import Job, Result, Work, in_turn
from reproduction.jobs import Plan, TrainJob
from reproduction.reproduce import REPRODUCIBLE, Reproduction
from reproduction.sections import write_page

MakePlan = Callable[..., Plan]
GAME = ("ml-1m/acl-gmf-stable",)
BASE = ("ml-1m/gmf",)
EXECUTE = "reproduction.reproduce.execute"


def without_seconds(value: Any) -> Any:
    if isinstance(value, dict):
        timed = ("seconds", "missing_seconds")
        return {name: without_seconds(each) for name, each in value.items() if name not in timed}
    return [without_seconds(each) for each in value] if isinstance(value, list) else value


def cells_of(result: dict[str, Any], method: str, **wanted: str) -> list[dict[str, Any]]:
    return [
        cell
        for cell in result["cells"]
        if cell["method"] == method and all(cell[name] == each for name, each in wanted.items())
    ]


class Broken:
    """An executor that is interrupted after so many jobs."""

    def __init__(self, after: int) -> None:
        self.after = after

    def __call__(self, work: Work, jobs: Sequence[Job]) -> Generator[tuple[Job, Result]]:
        for place, found in enumerate(in_turn(work, jobs)):
            if place == self.after:
                raise KeyboardInterrupt
            yield found


def test_a_table_that_was_interrupted_ends_in_the_same(
    public: Path, finished: Path, tmp_path: Path, plan: MakePlan
) -> None:
    broken = Reproduction("table2", public, tmp_path, plan(), GAME)
    with pytest.raises(KeyboardInterrupt):
        broken.run(Broken(after=1))
    assert json.loads((tmp_path / "table2.json").read_text())["jobs"]["done"] == 1
    told: list[tuple[int, int]] = []
    for only in (GAME, BASE):
        again = Reproduction("table2", public, tmp_path, plan(), only)
        again.run(progress=lambda done, total, _: told.append((done, total)))
    assert told[-1] == (3, 3)  # two trials, and a repetition of the better one
    whole, resumed = (
        read_json(folder / "table2.json", "a table") for folder in (finished, tmp_path)
    )
    assert without_seconds(whole) == without_seconds(resumed)
    assert whole["jobs"]["done"] == 6
    assert not list((tmp_path / "work").iterdir())


def test_cells_have_both_protocols_and_claims_an_interval(
    public: Path, finished: Path, plan: MakePlan
) -> None:
    result = Reproduction("table2", public, finished, plan()).result()
    (sampled,) = cells_of(result, "gmf-8", dataset="ml-1m", column="100 sampled", metric="hit@10")
    (full,) = cells_of(result, "gmf-8", dataset="ml-1m", column="full ranking", metric="hit@10")
    assert sampled["state"] == full["state"] == "done"
    assert (sampled["n"], list(sampled["values"])) == (2, ["0", "1"])
    assert full["value"] <= sampled["value"]  # among more items
    assert sampled["low"] < sampled["value"] < sampled["high"]
    assert sampled["over_users"][0] < sampled["values"]["0"] < sampled["over_users"][1]
    assert sampled["paper"] == [63.97, 0.1]
    decided = [claim for claim in result["claims"] if claim["n"]]
    assert [claim["column"] for claim in decided] == ["100 sampled"] * 2 + ["full ranking"] * 2
    assert decided[0]["first"] == "ACL GMF / GMF, stable"
    assert [claim["paper"] for claim in decided] == [0.35, 0.35, None, None]
    (unrun,) = cells_of(result, "mlp-8", dataset="ml-1m", column="100 sampled", metric="hit@10")
    assert (unrun["state"], unrun["value"]) == ("not run", None)
    assert {cell["state"] for cell in result["cells"] if cell["dataset"] == "goodreads"} == {
        "no data"
    }
    page = (finished / "table2.md").read_text()
    assert "Not run: no data." in page
    assert f"| 63.97 (0.1) | {sampled['value']:.2f} ± " in page
    assert "`python -m reproduction table2 --data DIR --out DIR --seeds 2 --trials 2" in page
    assert str(finished) not in page


def test_the_best_trial_is_repeated_by_validation_alone(
    public: Path, finished: Path, plan: MakePlan
) -> None:
    reproduction = Reproduction("table2", public, finished, plan(), BASE)
    jobs = [job for job, _ in reproduction.states()]
    done = [(job, found) for job in jobs if (found := reproduction.results.of(job)) is not None]
    trials = [(job, found) for job, found in done if isinstance(job, TrainJob) and not job.seed]
    repeated = [job.settings for job, _ in done if isinstance(job, TrainJob) and job.seed]
    best = max(trials, key=lambda each: each[1]["validation"]["value"])
    assert len(trials) == 2
    assert repeated == [best[0].settings]


def test_a_failure_is_shown_and_run_again_when_asked(
    public: Path, tmp_path: Path, plan: MakePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def diverging(job: Job, place: Any) -> Result:
        raise cp.DivergedError("losses must stay finite; found nan; lower the rates")

    monkeypatch.setattr(EXECUTE, diverging)
    small = plan(trials=1, seeds=1)
    result = Reproduction("table2", public, tmp_path, small, BASE).run()
    (cell,) = cells_of(result, "gmf-8", dataset="ml-1m", column="100 sampled", metric="hit@10")
    assert (cell["state"], result["jobs"]["failed"]) == ("failed", 1)
    page = (tmp_path / "table2.md").read_text()
    assert "- GMF (dim 8): losses must stay finite; found nan; lower the rates" in page
    monkeypatch.undo()
    again = Reproduction("table2", public, tmp_path, small, BASE)
    assert again.run()["jobs"]["done"] == 0
    assert again.run(retry=True)["jobs"] | {"known": 0} == {"known": 0, "done": 1, "failed": 0}


def test_worlds_tell_the_truth_and_figures_keep_every_epoch(
    public: Path, tmp_path: Path, plan: MakePlan
) -> None:
    small, only = plan(trials=1, seeds=1), ("goodbooks-world", "ps-gmf-oracle-stable")
    result = Reproduction("table1", public, tmp_path, small, only).run()
    found = cells_of(result, "ps-gmf-oracle-stable-4", dataset="goodbooks", metric="hit@10")
    assert [cell["column"] for cell in found] == ["100 sampled", "full ranking", "truth"]
    assert [cell["estimator"] for cell in found] == ["oracle", "oracle", "truth"]
    assert all(0 < cell["value"] < 100 for cell in found)
    assert found[0]["parameters"]["exposure"] == 0  # the world's own
    assert "two-stage worlds" in (tmp_path / "table1.md").read_text()

    result = Reproduction("table1", public, tmp_path, small, ("goodbooks-world", "/pop")).run()
    *_, pop = cells_of(result, "pop-8", dataset="goodbooks", metric="hit@10")
    assert pop["column"] == "truth"
    assert 0 < pop["bounds"]["random"] < pop["value"] <= pop["bounds"]["best"]
    assert "Hit@10 of a random ranking is" in (tmp_path / "table1.md").read_text()

    two = plan(trials=2, seeds=1)
    figure = Reproduction("figure-a1", public, tmp_path, two, ("acl-gmf-stable",))
    result = figure.run()
    record = figure.record(result)
    assert record["reproduction"] is result
    assert [run["name"] for run in record["runs"]] == [
        "goodbooks: acl-gmf-stable-4",
        "goodbooks: acl-gmf-stable-4-with_outcome=0",
    ]
    assert [len(run["epochs"]) for run in record["runs"]] == [2, 2]
    assert not Reproduction("table1", public, tmp_path, small).record({})["runs"]


@pytest.mark.parametrize("name", REPRODUCIBLE)
def test_everything_has_jobs_and_a_page_before_any_is_run(
    name: str, public: Path, tmp_path: Path, plan: MakePlan
) -> None:
    reproduction = Reproduction(name, public, tmp_path, plan(), ("no such job",))
    result = reproduction.run()
    assert result["jobs"]["done"] == 0 < result["jobs"]["known"]
    assert all(claim["verdict"] == "undecided" for claim in result["claims"])
    assert (tmp_path / f"{name}.md").read_text().startswith(f"# {result['title']}")
    jobs = [job for job, _ in Reproduction(name, public, tmp_path, plan()).states()]
    assert len({job.key for job in jobs}) == len(jobs)
    write_page(reproduction.record(result), tmp_path / "empty.html")
    assert escape(result["title"]) in (tmp_path / "empty.html").read_text()
