from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import counterplay as cp
from counterplay.learning.methods.erm import erm
from counterplay.simulation.authors import Authors
from reproduction import levels
from reproduction.authors import PLAIN, estimates
from reproduction.datasets import Place
from reproduction.levels import (
    CLICKS,
    MODELS,
    PAPER,
    RATED,
    VARIANTS,
    Freer,
    LevelsJob,
    measured,
    page,
    rows,
    summarised,
)


@pytest.fixture
def log() -> Any:
    rng = np.random.default_rng(0)
    pairs = np.unique(rng.integers(60 * 40, size=1200))
    rating = 1.0 + rng.integers(5, size=len(pairs))
    return cp.read({"user": pairs // 40, "item": pairs % 40, "rating": rating})


def test_every_variant_is_the_preset_but_for_what_it_names() -> None:
    stated = Freer().model_dump()
    for name, settings in VARIANTS.items():
        differing = {key for key, value in Freer(**settings).model_dump().items()
                     if value != stated[key]}  # fmt: skip
        assert differing == set(settings), name


def test_vectors_start_at_the_scale_and_biases_may_be_left_out(log: Any) -> None:
    def start(**settings: Any) -> torch.Tensor:
        made = Freer(dim=3, **settings)._model(log, torch.Generator().manual_seed(0))
        return made.user.own.detach()

    preset = Authors(dim=3)._model(log, torch.Generator().manual_seed(0))
    assert torch.equal(start(), preset.user.own.detach())
    torch.testing.assert_close(start(scale=1.0), 10 * start())
    assert (start().shape[1], start(biases=False).shape[1]) == (4, 3)


def test_a_world_is_measured_by_all_rankings(
    log: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(levels, "whole", lambda *_: log)
    small: dict[str, Any] = {"n_users": 30, "n_items": 25, "dim": 2, "epochs": 2, "epsilon": 1.0}
    small["batch_size"] = 64
    monkeypatch.setitem(VARIANTS, "small", small)
    trained: list[tuple[int, int, int]] = []
    learn = erm

    def watched(model: Any, train: Any, training: Any) -> Any:
        trained.append((training.epochs, training.batch_size, training.seed))
        return learn(model, train, training)

    monkeypatch.setattr(levels, "erm", watched)
    found = measured(LevelsJob(variant="small", seed=1), Place(tmp_path, tmp_path))
    assert trained == [(1, 64, 1), *[(2, 64, 1)] * 3]  # epochs and batches of the world's factors
    assert set(found) == {"n", "seconds", *MODELS, CLICKS, RATED}
    stages = Freer(seed=1, **small).stages(log)
    users = np.arange(30)
    clicks = stages.held_out.relevance(users) * stages.held_out.propensity(users)
    for name, table in ((CLICKS, clicks), (RATED, np.tile(_ratings(log), (30, 1)))):
        scores = type("Scores", (), {"of": lambda _, u, i, t=table: t[u[:, None], i]})()
        judged = estimates(scores, stages.split.test, stages.held_out, stages.judge)
        assert found[name] == pytest.approx(100 * judged[PLAIN]["hit", 10].value)


def _ratings(log: Any) -> Any:
    return np.bincount(log.item, minlength=40)[:25]


def test_the_most_rated_are_kept_where_asked(
    log: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = []
    monkeypatch.setattr(levels, "whole", lambda *_: log)
    monkeypatch.setitem(VARIANTS, "small", {"n_users": 5, "n_items": 3, "most_rated": True})

    def stages(self: Freer, log: Any) -> Any:
        kept.append(log)
        raise InterruptedError

    monkeypatch.setattr(Freer, "stages", stages)
    with pytest.raises(InterruptedError):
        measured(LevelsJob(variant="small", seed=1), Place(tmp_path, tmp_path))
    users = np.argsort(-np.bincount(log.user), kind="stable")[:5]
    assert set(kept[0].users.ids) == {log.users.ids[int(user)] for user in users}
    assert kept[0].n_items == 3
    least = np.bincount(kept[0].item).min()
    everything = log.take(np.isin(log.user, users))
    assert np.sort(np.bincount(everything.item))[-3:].min() == least


def test_the_gap_is_the_largest_of_the_four_by_the_mean_over_worlds() -> None:
    near = {name: value + 1.0 for name, value in PAPER.items()}
    far = near | {"pop": PAPER["pop"] + 5.0}
    others = {CLICKS: 50.0, RATED: 30.0}
    jobs = [LevelsJob(variant=name, seed=seed) for name in ("a", "b") for seed in (0, 1)]
    found = summarised(jobs, [near | others, near | others, near | others, far | others])
    assert (found["a"]["gap"], found["b"]["gap"]) == (pytest.approx(1), pytest.approx(3))
    below = near | {"pop": PAPER["pop"] - 5.0} | others
    (low,) = summarised(jobs[:1], [below]).values()
    assert low["gap"] == pytest.approx(5)
    rest = np.mean([PAPER[name] for name in MODELS[1:]])
    above = found["b"]["above popularity"]["value"]
    assert above == pytest.approx(rest - PAPER["pop"] - 2)
    result = {"tried": found, "nearest": "a", "reported": {"a": found["a"]}}
    text = page(result)
    assert "| a | 34.8 | 39.3 | 40.4 | 40.0 | +5.1 | 1.0 | 50.0 | 30.0 |" in text
    assert text.endswith("Nearest of those tried: a.\n")
    assert rows(result)[0]["ratio"] == "largest gap 1.0"


def test_the_nearest_is_chosen_on_seeds_that_are_not_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []

    def results(jobs: Any, *_: Any) -> list[dict[str, float]]:
        asked.extend((job.variant, job.seed) for job in jobs)
        off = [1.0 if job.variant == "no noise" else 3.0 for job in jobs]
        others = {CLICKS: 50.0, RATED: 30.0}
        return [{name: value + by for name, value in PAPER.items()} | others for by in off]

    monkeypatch.setattr(levels, "results_of", results)
    found = levels.run(Place(tmp_path, tmp_path))
    assert found["nearest"] == "no noise"
    assert set(found["reported"]) == {levels.STATED, "no noise"}
    first, then = asked[: 2 * len(VARIANTS)], asked[2 * len(VARIANTS) :]
    assert {seed for _, seed in first} == {100, 101}
    assert {seed for _, seed in then} == set(range(5))
    assert found["reported"]["no noise"]["levels"]["pop"]["n"] == 5
    assert "[34.8, 34.8]" in found["pages"]["levels.md"]  # an interval only where worlds are many
    assert "| no noise | 34.8 | 39.3 |" in found["pages"]["levels.md"]
