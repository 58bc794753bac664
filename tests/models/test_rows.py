from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from counterplay.models.rows import Bags, bag_sums, dots, products, rows

SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=3)


@given(SHAPES, st.integers(1, 6), st.integers(1, 3), st.integers(0, 99), st.booleans())
def test_values_and_gradients_equal_the_plain_ones(
    shape: list[int], n: int, width: int, seed: int, sparse: bool
) -> None:
    generator = torch.Generator().manual_seed(seed)
    index = torch.randint(0, n, shape, generator=generator)
    factor = torch.randn(*shape, width, generator=generator, dtype=torch.float64)
    tables = [torch.zeros(n, width, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    ours, plain = rows(tables[0], index, sparse=sparse), F.embedding(index, tables[1])
    assert torch.equal(ours, plain)
    (ours * factor).sum().backward()
    (plain * factor).sum().backward()
    gradient = tables[0].grad
    assert gradient is not None
    assert gradient.is_sparse == sparse
    torch.testing.assert_close(gradient.to_dense() if sparse else gradient, tables[1].grad)


@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 6), st.integers(0, 99), st.booleans())
def test_products_and_their_gradients_equal_the_plain_ones(
    n_queries: int, n_items: int, n: int, seed: int, sparse: bool
) -> None:
    generator = torch.Generator().manual_seed(seed)
    index = torch.randint(0, n, (n_queries, n_items), generator=generator)
    factor = torch.randn(n_queries, n_items, generator=generator, dtype=torch.float64)
    values = [torch.randn(n_queries, 3, generator=generator, dtype=torch.float64)]
    values += [torch.randn(n, 3, generator=generator, dtype=torch.float64)]
    vectors, table = (value.clone().requires_grad_() for value in values)
    plain_vectors, plain_table = (value.clone().requires_grad_() for value in values)
    ours = products(vectors, table, index, sparse=sparse)
    plain = dots(plain_vectors, F.embedding(index, plain_table))
    torch.testing.assert_close(ours, plain)
    (ours * factor).sum().backward()
    (plain * factor).sum().backward()
    assert table.grad is not None
    torch.testing.assert_close(vectors.grad, plain_vectors.grad)
    torch.testing.assert_close(table.grad.to_dense(), plain_table.grad)
    assert table.grad.is_sparse == sparse


def test_an_empty_index_gives_no_rows() -> None:
    assert rows(torch.ones(3, 2), torch.empty(0, 4, dtype=torch.int64)).shape == (0, 4, 2)


def test_sparse_gradients_touch_only_the_rows_asked_for() -> None:
    table = torch.zeros(1000, 2, requires_grad=True)
    rows(table, torch.tensor([5, 7, 5]), sparse=True).sum().backward()
    assert table.grad is not None
    gradient = table.grad.coalesce()
    assert gradient.indices().tolist() == [[5, 7]]
    assert gradient.values().tolist() == [[2, 2], [1, 1]]


@pytest.mark.parametrize("wrong", [-1, 3])
@pytest.mark.parametrize("learning", [True, False])
def test_rows_that_are_not_there_are_refused(wrong: int, learning: bool) -> None:
    table, vectors = torch.ones(3, 2, requires_grad=True), torch.ones(1, 2)
    with torch.set_grad_enabled(learning), pytest.raises(IndexError):
        products(vectors, table, torch.tensor([[0, wrong]]))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.integers(1, 5), st.integers(0, 99))
def test_sums_of_bags_and_their_gradients_equal_the_plain_ones(
    sizes: list[int], n: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    begins = torch.tensor([0, *sizes]).cumsum(0)
    entries = torch.randint(0, n, (sum(sizes),), generator=generator)
    bags = Bags(entries, begins, torch.rand(len(entries), generator=generator))
    factor = torch.randn(len(sizes), 3, generator=generator)
    start = torch.randn(n, 3, generator=generator)
    ours, plain = (start.clone().requires_grad_() for _ in range(2))
    found = bag_sums(ours, bags, bags.by_entry(n))
    weighted = bags.weights[:, None] * plain[entries]
    expected = torch.stack([each.sum(0) for each in weighted.split(sizes)])
    torch.testing.assert_close(found, expected)
    (found * factor).sum().backward()
    (expected * factor).sum().backward()
    torch.testing.assert_close(ours.grad, plain.grad)
    with torch.no_grad():
        assert torch.equal(bag_sums(ours, bags, bags.by_entry(n)), found)
