from __future__ import annotations

import pytest

import counterplay as cp
from counterplay.learning.records import Epoch, Fit


def fit_of(*epochs: Epoch, exposure: bool = False, best: int = 0) -> Fit:
    log = cp.read({"user": [1, 2], "item": [3, 4]})
    model = cp.build("gmf", log, dim=2, generator=cp.Streams(0).torch("model"))
    opponent = cp.build("pop", log, dim=2, generator=cp.Streams(0).torch("other"))
    return Fit(model, opponent if exposure else None, None, list(epochs), best, "all were run")


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
