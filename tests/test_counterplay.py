from __future__ import annotations

import subprocess
import sys

import pytest

import counterplay as cp


def run_python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_public_names_are_exactly_those_announced() -> None:
    assert dir(cp) == sorted(cp.__all__)
    for name in cp.__all__:
        assert getattr(cp, name) is not None


def test_public_names_are_few_and_frozen() -> None:
    assert cp.__all__ == [
        "CheckpointError",
        "ConfigError",
        "CounterplayError",
        "CounterplayWarning",
        "DataError",
        "DivergedError",
        "FeatureTable",
        "Histories",
        "Interactions",
        "NegativeSampler",
        "NotFittedError",
        "Split",
        "Streams",
        "Vocabulary",
        "__version__",
        "filter_by_events",
        "k_core",
        "leave_last_two_out",
        "load",
        "load_split",
        "profile",
        "read",
        "read_dataset",
        "save",
        "split_at_random",
        "split_by_time",
    ]


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'reed'"):
        _ = cp.reed


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = "{'torch', 'polars', 'pyarrow', 'scipy', 'pydantic', 'plotly'}"
    assert run_python(f"import sys, counterplay; print({heavy} & set(sys.modules))") == "set()"


def test_reading_a_log_does_not_load_torch() -> None:
    code = (
        "import sys, counterplay as cp; cp.read({'user': [1, 2], 'item': [3, 4]}); "
        "print('torch' in sys.modules)"
    )
    assert run_python(code) == "False"
