from __future__ import annotations

import torch

import counterplay as cp
from counterplay.models.table import Calibrated


def test_scores_are_on_another_scale_in_the_same_order() -> None:
    log = cp.read({"user": [0, 0, 1], "item": [0, 1, 2]})
    model = cp.build("attn", log, dim=4, length=3, generator=torch.Generator().manual_seed(0))
    calibrated = Calibrated(model.eval(), 2.0, -1.0)
    assert calibrated.history_length == model.history_length > 0
    users, items = torch.tensor([0, 1]), torch.tensor([[0, 1, 2], [2, 1, 0]])
    history = cp.History.of(torch.from_numpy(cp.Histories(log).last(users.numpy(), 3)))
    expected = 2 * model(users, items, history) - 1
    torch.testing.assert_close(calibrated(users, items, history), expected)
    torch.testing.assert_close(
        calibrated.score_all(users, history), 2 * model.score_all(users, history) - 1
    )
