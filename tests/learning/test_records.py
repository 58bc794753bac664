from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp
from counterplay.learning.batches import Batch
from counterplay.learning.records import Epoch, Fit, Meter
from counterplay.learning.weighting import groups_of


def fit_of(*epochs: Epoch, exposure: bool = False, best: int = 0) -> Fit:
    log = cp.read({"user": [1, 2], "item": [3, 4]})
    model = cp.models.build("gmf", log, dim=2, generator=cp.Streams(0).torch("model"))
    opponent = cp.models.build("pop", log, dim=2, generator=cp.Streams(0).torch("other"))
    players = {"candidate": model} | ({"exposure": opponent} if exposure else {})
    return Fit(players, list(epochs), best, "all were run")


def test_an_epoch_shows_what_it_has() -> None:
    epoch = Epoch(3, candidate_loss=0.512345, beta=(0.5, 1.0, -2.0), validation=0.25)
    assert repr(epoch) == (
        "<Epoch 3: candidate loss 0.5123, beta 0 0.5, beta 1 1, beta 2 -2, validation 0.25>"
    )
    page = epoch._repr_html_()
    assert "validation" in page
    assert "exposure loss" not in page


def test_epochs_as_a_frame() -> None:
    fit = fit_of(
        Epoch(0, candidate_loss=0.5), Epoch(1, candidate_loss=0.25, propensity=(0.1, 0.2, 0.3))
    )
    frame = fit.to_polars()
    assert frame["epoch"].to_list() == [0, 1]
    assert frame["candidate_loss"].to_list() == [0.5, 0.25]
    assert frame.select("propensity_low", "propensity_mean", "propensity_high").rows() == [
        (None, None, None),
        (0.1, 0.2, 0.3),
    ]
    assert frame.columns == fit_of(Epoch(0)).to_polars().columns  # whatever the method has
    assert fit.to_pandas()["candidate_loss"].tolist() == [0.5, 0.25]


def test_a_fit_shows_its_ends_and_its_best() -> None:
    fit = fit_of(*(Epoch(n, candidate_loss=1 / (n + 1)) for n in range(40)), best=20)
    assert repr(fit) == "<Fit of GMF: 40 epochs, the best 20; all were run>"
    page = fit._repr_html_()
    shown = [n for n in range(40) if f'<tr><td style="text-align: left">{n}</td>' in page]
    assert shown == [0, 1, 2, 20, 37, 38, 39]
    assert "candidate loss" in page
    assert "propensity" not in page
    assert "against" in repr(fit_of(exposure=True))


@pytest.mark.parametrize("n", [0, 1, 4])
def test_a_short_fit_shows_all_epochs(n: int) -> None:
    page = fit_of(*(Epoch(number, objective=1.0) for number in range(n)), best=-1)._repr_html_()
    assert page.count("<tr>") == (n and n + 1)


def batch_of(n: int) -> Batch:
    return Batch(torch.zeros(n), torch.zeros(n, 1), torch.ones(n, 1))


def test_a_meter_by_hand() -> None:
    """Weights 1, 2, 4, 5 and 8: Σw = 20, Σw² = 110."""
    meter = Meter()
    meter.add(batch_of(1), candidate_loss=torch.tensor(3.0))
    meter.add(batch_of(3), candidate_loss=torch.tensor(5.0), objective=torch.tensor(2.0))
    meter.add_weights(None, torch.tensor([[1.0, 2.0], [4.0, 5.0]]))
    meter.add_weights(None, torch.tensor([[8.0]]))
    epoch = meter.epoch(7, {}, None)
    assert epoch.epoch == 7
    assert epoch.candidate_loss == pytest.approx((3 + 3 * 5) / 4)
    assert epoch.objective == 2
    assert epoch.exposure_loss is None
    assert epoch.propensity == pytest.approx((1 / 8, (1 + 1 / 2 + 1 / 4 + 1 / 5 + 1 / 8) / 5, 1))
    assert epoch.ess == pytest.approx(20**2 / (5 * 110))


def test_without_weights_there_is_no_effective_sample() -> None:
    assert Meter().epoch(0, {}, None).ess is None
    assert Meter().epoch(0, {}, None).propensity is None


def test_the_effective_sample_is_that_of_the_weights_that_the_loss_sees() -> None:
    """Observed 1 and 3, sampled 2, 2, 2, 2: within groups 4² / (2 · 10) and 1."""
    weights = torch.tensor([[1.0, 2.0, 2.0], [3.0, 2.0, 2.0]])
    apart, together = Meter(), Meter()
    apart.add_weights(None, weights, groups_of("stable", 3))
    together.add_weights(None, weights, groups_of("paper", 3))
    assert apart.ess() == pytest.approx(0.8)
    assert together.ess() == pytest.approx(12**2 / (6 * 26))
    assert apart.propensity() == together.propensity()


def test_what_a_group_weighs_against_another_is_no_effect_where_groups_are_scaled() -> None:
    weights = torch.tensor([[50.0, 2.0, 2.0]] * 4)
    meter = Meter()
    meter.add_weights(None, weights, groups_of("stable", 3))
    meter.add_weights(
        None, 3 * weights, groups_of("stable", 3)
    )  # nor what a batch weighs against one
    assert meter.ess() == pytest.approx(1)
    plain = Meter()
    plain.add_weights(None, weights, groups_of("paper", 3))
    assert plain.ess() == pytest.approx(54**2 / (3 * 2508))


@given(st.lists(st.floats(1, 100), min_size=2, max_size=12), st.booleans(), st.integers(1, 3))
def test_the_effective_sample_is_the_same_however_it_is_added_up(
    values: list[float], stable: bool, times: int
) -> None:
    """The reduction of what waits changes nothing, and the share is above 0 and at most 1."""
    weights = torch.tensor(values, dtype=torch.float64)[:, None].repeat(1, 2)
    groups = groups_of("stable" if stable else "paper", 2)
    at_once, reduced = Meter(), Meter()
    for _ in range(times):
        at_once.add_weights(None, weights, groups)
        reduced.add_weights(None, weights, groups)
        assert reduced.ess() is not None
    found = at_once.ess()
    assert found == pytest.approx(reduced.ess())
    assert found is not None
    assert 1 / len(values) - 1e-9 <= found <= 1 + 1e-9
    total, squares = sum(values), sum(each**2 for each in values)
    assert found == pytest.approx(total**2 / (len(values) * squares))


def test_the_effective_sample_of_a_fit_is_that_of_the_epoch_that_was_kept() -> None:
    epochs = [Epoch(0, ess=0.3), Epoch(1, ess=0.9), Epoch(2, ess=0.5)]
    assert fit_of(*epochs, best=1).ess == 0.9
    assert fit_of(*epochs, best=-1).ess == 0.3
    assert fit_of().ess is None
