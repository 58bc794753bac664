from __future__ import annotations

import numpy as np
import pytest
import torch

from counterplay import ConfigError
from counterplay.models.popularity import Popularity


def test_items_rank_by_their_events() -> None:
    model = Popularity(2, 3, np.array([5, 0, 9]))
    assert model.score_all(torch.tensor([0, 1])).argsort(1).tolist() == [[1, 0, 2]] * 2


@pytest.mark.parametrize("exponent", [0.0, 0.5, 2.0])
def test_the_exponent_tempers(exponent: float) -> None:
    logits = Popularity(1, 2, np.array([3, 0]), exponent=exponent).score_all(torch.tensor([0]))[0]
    assert float(logits[0] - logits[1]) == pytest.approx(exponent * np.log(4))


def test_an_unknown_item_is_one_that_never_occurred() -> None:
    model = Popularity(1, 2, np.array([3, 0]))
    known, unknown = model(torch.tensor([0]), torch.tensor([[1, -1]]))[0]
    assert float(known) == pytest.approx(float(unknown))


def test_counts_must_cover_the_items() -> None:
    with pytest.raises(ConfigError, match="all 3 items; found 2 counts"):
        Popularity(1, 3, np.array([1, 2]))
