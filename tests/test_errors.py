from __future__ import annotations

import inspect

import pytest

from counterplay import errors


def test_all_errors_are_in_one_tree() -> None:
    found = [each for _, each in inspect.getmembers(errors, inspect.isclass)]
    raised = [each for each in found if not issubclass(each, Warning)]
    assert len(raised) == 8
    assert all(issubclass(each, errors.CounterplayError) for each in raised)


@pytest.mark.parametrize("error", [errors.DataError, errors.ConfigError])
def test_bad_input_is_a_value_error(error: type[Exception]) -> None:
    assert issubclass(error, ValueError)


def test_the_tree_is_drawn_at_the_top_of_the_file() -> None:
    found = inspect.getmembers(errors, inspect.isclass)
    assert errors.__doc__ is not None
    assert all(name in errors.__doc__ for name, _ in found)
