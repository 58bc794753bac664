from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from counterplay.models.lookups import Lookup, lookup, shared_lookups
from counterplay.models.rows import products

INDICES = st.tuples(
    st.lists(st.integers(1, 4), min_size=1, max_size=2),
    st.integers(1, 6),
    st.integers(0, 99),
    st.booleans(),
)


def drawn(shape: list[int], n: int, seed: int, ascending: bool) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    index = torch.randint(0, n, shape, generator=generator, dtype=torch.int32)
    return index.reshape(-1).sort().values.reshape(shape) if ascending else index


@given(INDICES)
def test_groups_hold_every_entry_once_by_row_and_in_order(
    given: tuple[list[int], int, int, bool],
) -> None:
    index, n = drawn(*given), given[1]
    begins, entries, queries = (each.tolist() for each in Lookup(index).groups(n))
    flat, a_query = index.reshape(-1).tolist(), index.numel() // len(index)
    by_row = [[place for place, row in enumerate(flat) if row == each] for each in range(n)]
    assert [entries[begins[row] : begins[row + 1]] for row in range(n)] == by_row
    assert queries == [entry // a_query for entry in entries]


@given(INDICES)
def test_touched_rows_are_distinct_and_lead_back_to_the_index(
    given: tuple[list[int], int, int, bool],
) -> None:
    index = drawn(*given)
    rows, among = Lookup(index).touched
    assert rows.tolist() == sorted(set(index.reshape(-1).tolist()))
    assert torch.equal(rows[among.index], index)


def test_an_index_is_laid_out_once_where_lookups_are_shared() -> None:
    index, other = torch.tensor([[0, 1]]), torch.tensor([[0, 1]])
    assert lookup(index) is not lookup(index)
    with shared_lookups():
        first = lookup(index)
        assert lookup(index) is first
        assert lookup(other) is not first
        assert first.groups(2) is first.groups(2)
        assert first.groups(2) is not first.groups(3)
    assert lookup(index) is not first


@pytest.mark.parametrize("sparse", [False, True])
def test_gradients_are_the_same_bytes_shared_or_not(sparse: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    index = torch.randint(0, 9, (20, 3), generator=generator, dtype=torch.int32)
    tables = [torch.randn(9, 4, generator=generator) for _ in range(2)]
    vectors = torch.randn(20, 4, generator=generator)

    def gradients() -> list[torch.Tensor]:
        found = []
        for table in tables:  # of the same rows, one after the other
            leaf = table.clone().requires_grad_()
            products(vectors, leaf, index, sparse=sparse).square().sum().backward()
            assert leaf.grad is not None
            found.append(leaf.grad.to_dense())
        return found

    alone = gradients()
    with shared_lookups():
        shared = gradients()
    assert all(torch.equal(*both) for both in zip(alone, shared, strict=True))
