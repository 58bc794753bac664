from __future__ import annotations

import pytest
import torch

import counterplay as cp
from counterplay.models.attention import Attention, dropped
from counterplay.models.scorer import History


def model() -> Attention:
    return Attention(
        3, 9, dim=8, length=6, heads=2, generator=torch.Generator().manual_seed(0)
    ).eval()


def test_states_do_not_depend_on_what_comes_later() -> None:
    attention = model()
    first = torch.tensor([[9, 1, 2, 3, 4, 5]])
    second = torch.tensor([[9, 1, 2, 3, 8, 0]])
    torch.testing.assert_close(attention.states(first)[:, :4], attention.states(second)[:, :4])
    assert not torch.allclose(attention.states(first)[:, 4:], attention.states(second)[:, 4:])


def test_all_places_of_a_window_at_once_equal_one_query_each() -> None:
    attention = model()
    window = torch.tensor([[9, 9, 1, 7, 2, 3]])
    places = torch.arange(6)
    users, items = torch.zeros(6, dtype=torch.int64), torch.arange(9).expand(6, -1)
    at_once = attention(users, items, History(window, torch.zeros_like(places), places))
    for place in range(6):
        seen = window.clone()
        seen[:, place + 1 :] = 9
        query = History(seen, torch.tensor([0]), torch.tensor([place]))
        alone = attention(users[:1], items[:1], query)
        torch.testing.assert_close(alone[0], at_once[place])


def test_padding_is_never_attended_to() -> None:
    attention = model()
    window = torch.tensor([[9, 9, 9, 1, 7, 2]])
    before = attention.states(window)[:, 3:]
    with torch.no_grad():
        attention.start.add_(5)
    torch.testing.assert_close(attention.states(window)[:, 3:], before)


def test_shorter_windows_stand_at_the_end() -> None:
    attention = model()
    long = torch.tensor([[9, 9, 9, 9, 7, 2]])
    torch.testing.assert_close(attention.states(long)[:, -2:], attention.states(long[:, -2:]))


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(cp.ConfigError, match="must divide the dimension"):
        Attention(3, 9, dim=8, heads=3)
    with pytest.raises(cp.ConfigError, match="found no histories"):
        model()(torch.tensor([0]), torch.tensor([[1]]))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_stated_share_is_dropped_and_the_mean_stays(share: float) -> None:
    """Binomial bounds of five standard errors: a false alarm in two million runs."""
    torch.manual_seed(0)
    n = 100_001
    values = dropped(torch.ones(n, dtype=torch.float64), share)
    assert set(values.unique().tolist()) == {0.0, 2**16 / (2**16 - round(share * 2**16))}
    error = (share * (1 - share) / n) ** 0.5
    assert abs(float((values == 0).double().mean()) - share) < 5 * error + 2**-17
    assert abs(float(values.mean()) - 1) < 5 * error / (1 - share)


def test_nothing_is_dropped_at_a_share_of_nothing() -> None:
    values = torch.randn(5)
    assert torch.equal(dropped(values, 0), values)
