from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from counterplay.learning.optimizers import LazyAdam, Optimizer, OptimizerName
from counterplay.learning.touched import touched
from counterplay.models.factorization import GMF
from counterplay.models.link import Link


@pytest.mark.parametrize("kind", ["dense", "lazy"])
def test_regularization_shrinks_the_model_and_leaves_what_is_free(kind: OptimizerName) -> None:
    model, link = GMF(4, 5, dim=3), Link(initial=(1.0, 1.0, 1.0))
    before = float(model.user.own.detach().norm())
    optimizer = Optimizer(model, free=[link], rate=0.01, l2=10.0, kind=kind)
    for _ in range(3):
        scores = model(torch.arange(4), torch.zeros(4, 1, dtype=torch.int64))
        optimizer.step(0 * scores.sum() + 0 * link(scores.detach(), scores.detach()).sum())
    assert float(model.user.own.detach().norm()) < before
    assert link.beta == (1.0, 1.0, 1.0)


def test_lazy_adam_is_adam_on_the_touched_rows() -> None:
    """Written out: the moments of a row know only the steps that touched it."""
    torch.manual_seed(0)
    start = torch.randn(6, 3, dtype=torch.float64)
    ours, theirs = start.clone().requires_grad_(), start.clone()
    mean, square = torch.zeros(2, 6, 3, dtype=torch.float64)
    lazy = LazyAdam([ours], rate=0.1)
    for step in range(1, 6):
        rows, values = torch.tensor([step % 3, 4]), torch.randn(2, 3, dtype=torch.float64)
        ours.grad = torch.sparse_coo_tensor(rows[None], values, (6, 3), check_invariants=True)
        lazy.step()
        mean[rows] = 0.9 * mean[rows] + 0.1 * values
        square[rows] = 0.999 * square[rows] + 0.001 * values**2
        size = (square[rows] / (1 - 0.999**step)).sqrt() + 1e-8
        theirs[rows] -= 0.1 * mean[rows] / (1 - 0.9**step) / size
    assert torch.allclose(ours, theirs, rtol=0, atol=1e-12)
    assert torch.equal(ours[[3, 5]], start[[3, 5]])


def test_rows_that_a_gradient_names_twice_are_added_up() -> None:
    twice = torch.sparse_coo_tensor(
        torch.tensor([[2, 0, 2]]), torch.ones(3, 1), (3, 1), check_invariants=True
    )
    rows, values = touched(twice)
    assert rows.tolist() == [0, 2]
    assert values.tolist() == [[1.0], [2.0]]


def test_lazy_regularization_is_that_of_dense_adam_where_all_rows_are_touched() -> None:
    start = torch.linspace(-1, 1, 6, dtype=torch.float64).reshape(3, 2)
    lazily, densely = (start.clone().requires_grad_() for _ in range(2))
    lazy = LazyAdam([lazily], rate=0.1, l2=0.5)
    dense = torch.optim.Adam([densely], lr=0.1, weight_decay=0.5)
    for _ in range(4):
        densely.grad = torch.ones_like(start)
        lazily.grad = densely.grad.to_sparse(1)
        lazy.step()
        dense.step()
    assert torch.allclose(lazily, densely, atol=1e-12)


def test_auto_is_lazy_for_large_tables_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users have 4 · 3 values, items 5 · 3: the bound is between them."""
    monkeypatch.setattr("counterplay.learning.optimizers.LARGE", 15)
    for kind, expected in (("auto", ["item"]), ("lazy", ["user", "item"]), ("dense", [])):
        model = GMF(4, 5, dim=3)
        tables = {id(model.user.own): "user", id(model.item.own): "item"}
        optimizer = Optimizer(model, rate=0.1, kind=kind)  # type: ignore[arg-type]
        assert sorted(tables[id(each)] for each in optimizer.lazy_tables) == sorted(expected)


@pytest.mark.parametrize("kind", ["dense", "lazy"])
def test_learning_and_keeping_its_state_do_not_load_the_compiler(kind: OptimizerName) -> None:
    """It takes longer to load than a small log to learn; torch's own optimizers load it."""
    script = f"""
import sys, torch
from counterplay.learning.optimizers import Optimizer
from counterplay.models.factorization import GMF
model = GMF(4, 5, dim=3)
optimizer = Optimizer(model, rate=0.01, l2=0.1, kind="{kind}")
optimizer.step(model(torch.arange(4), torch.zeros(4, 1, dtype=torch.int64)).sum())
for part in optimizer.parts:
    part.load_state_dict(part.state_dict())
print("torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
