from __future__ import annotations

import pkgutil
import subprocess
import sys
from types import ModuleType

import pytest

import counterplay as cp


def run_python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


TOP = {
    "CheckpointError", "ConfigError", "CounterplayError", "CounterplayWarning", "DataError",
    "DivergedError", "Interactions", "NotFittedError", "Scorer", "Split", "Streams", "__version__",
    "compare", "evaluate", "prepare", "read", "recommend", "run", "train", "tune", "write_report",
}  # fmt: skip
ROOMS = {
    "data", "evaluation", "learning", "metrics", "models", "report", "runs", "serving",
    "simulation", "study", "testing", "tuning",
}  # fmt: skip


def test_the_names_at_the_top_are_those_announced() -> None:
    assert set(cp.__all__) == TOP | ROOMS  # type: ignore[attr-defined]
    for name in TOP:
        assert getattr(cp, name) is not None


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_every_name_of_a_room_is_there_and_no_module_hides_it(room: str) -> None:
    """A module of the same name would take its place once somebody imports it."""
    package = getattr(cp, room)
    modules = {each.name for each in pkgutil.iter_modules(package.__path__)}
    assert not modules & set(package.__all__)
    for name in package.__all__:
        assert not isinstance(getattr(package, name), ModuleType)


def test_unknown_name_is_an_attribute_error() -> None:
    for place in (cp, cp.data):
        with pytest.raises(AttributeError, match=r"reed"):
            getattr(place, "reed")  # noqa: B009 - the name is unknown to the type checker


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = "{'torch', 'polars', 'pyarrow', 'scipy', 'pydantic', 'plotly'}"
    assert run_python(f"import sys, counterplay; print({heavy} & set(sys.modules))") == "set()"


def test_reading_a_log_does_not_load_torch() -> None:
    code = (
        "import sys, counterplay as cp; cp.read({'user': [1, 2], 'item': [3, 4]}); "
        "print('torch' in sys.modules)"
    )
    assert run_python(code) == "False"
