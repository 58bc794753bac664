from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from counterplay.models import neural
from counterplay.models.neural import MLP, NCF


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1, 30), st.integers(1, 9), st.integers(1, 40), st.booleans())
def test_scores_of_all_items_are_those_of_pairs_whatever_the_blocks(
    monkeypatch: pytest.MonkeyPatch, n_items: int, n_users: int, n_pairs: int, both: bool
) -> None:
    monkeypatch.setattr(neural, "_PAIRS", n_pairs)
    generator = torch.Generator().manual_seed(n_items)
    model = (NCF if both else MLP)(n_users, n_items, dim=4, generator=generator).eval()
    users, items = torch.arange(n_users), torch.arange(n_items).expand(n_users, -1)
    with torch.no_grad():
        torch.testing.assert_close(model.score_all(users), model(users, items))
