"""The list of mutants fits the sources; `make mutants` tries them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from .mutation import ROOT, Mutant, concerned, mutants

ALL = mutants()
ROOMS = {"learning", "models", "metrics", "evaluation", "data", "runs", "study"}


def test_there_are_many_of_different_names_in_all_rooms() -> None:
    assert len(ALL) >= 60
    assert max(Counter(each.name for each in ALL).values()) == 1
    assert {Path(each.file).parts[0] for each in ALL} >= ROOMS


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_one_line_that_tests_are_near(mutant: Mutant) -> None:
    source = (ROOT / mutant.path).read_text(encoding="utf-8")
    changed = mutant.applied(source)
    compile(changed, mutant.file, "exec")
    pairs = zip(source.splitlines(), changed.splitlines(), strict=True)
    assert sum(one != other for one, other in pairs) == 1
    assert mutant.tests
    assert all((ROOT / path).exists() for path in mutant.test_paths)


def test_a_mutant_that_does_not_fit_is_refused() -> None:
    mutant = Mutant("sign", "learning/game.py", "+ b", "- b", ("learning/test_game.py",))
    assert mutant.applied("a + b") == "a - b"
    for source in ("a - b", "a + b + b"):
        with pytest.raises(ValueError, match="one place"):
            mutant.applied(source)


def test_only_mutants_of_changed_files_are_concerned() -> None:
    one = Mutant("one", "learning/game.py", "+", "-", ("learning/test_game.py",))
    other = Mutant("other", "models/link.py", "+", "-", ("models/test_link.py",))
    for changed, wanted in (
        ("src/counterplay/learning/game.py", [one]),
        ("tests/models/test_link.py", [other]),
        ("src/counterplay/learning/erm.py", []),
        ("tests/mutants/mutants.toml", [one, other]),
    ):
        assert concerned([one, other], {Path(changed)}) == wanted
