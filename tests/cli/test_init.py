from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from pydantic import BaseModel

import counterplay as cp
from counterplay.cli.init import meanings
from counterplay.runs.config import RunConfig, run_config
from counterplay.settings import configured, leaves
from counterplay.study.config import StudyConfig

from .conftest import Run


def kinds(kind: type[BaseModel]) -> list[type[BaseModel]]:
    """Return a kind of settings and those of its sections."""
    defaults = [field.get_default() for field in kind.model_fields.values()]
    sections = [type(each) for each in defaults if isinstance(each, BaseModel)]
    return [kind, *(each for section in sections for each in kinds(section))]


@pytest.mark.parametrize("kind", sorted({*kinds(StudyConfig), *kinds(RunConfig)}, key=str))
def test_every_setting_says_what_it_means(kind: type[BaseModel]) -> None:
    said = meanings(kind)
    assert [name for name in kind.model_fields if not said.get(name)] == []


def test_meanings_come_from_the_docstring_and_from_comments() -> None:
    class Above(BaseModel):
        """Settings.

        Attributes:
            first: Of two
                lines.

        Not a setting: this.
        """

        first: int = 1

    class Below(Above):
        #: Before
        #: it.
        second: int = 2
        third: int = 3  #: Beside it.
        fourth: int = 4

    assert meanings(Below) == {"first": "Of two lines.", "second": "Before it.",
                               "third": "Beside it."}  # fmt: skip


def test_the_file_changes_nothing_until_it_is_edited(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "study.toml"
    outcome = run("init", file)
    assert (outcome.code, outcome.err) == (0, "")
    assert f"next: counterplay run … --config {file}" in outcome.out
    found = configured(StudyConfig, file)
    assert found == StudyConfig()
    assert leaves(found.model_dump(exclude_unset=True)) == {
        name: {} for name in ("training", "preparation", "online", "evaluation.opponent",
                              "evaluation.dials")
    }  # fmt: skip


@pytest.mark.parametrize("command", ["run", "train"])
def test_every_line_may_be_uncommented(command: str, tmp_path: Path, run: Run) -> None:
    file = tmp_path / "settings.toml"
    told = json.loads(run("init", file, "--for", command, "--json").out)
    assert told == {"out": str(file), "command": command}
    text = file.read_text(encoding="utf-8")
    live = re.sub(r"^#(?=\[|\w+ = )", "", text, flags=re.MULTILINE)
    file.write_text(live, encoding="utf-8")
    found: BaseModel = configured(StudyConfig, file) if command == "run" else run_config(file)
    usual: BaseModel = StudyConfig() if command == "run" else RunConfig()
    assert found == usual
    all_live = re.sub(r"^#?(\w+) =$", r"\1 = 0", live, flags=re.MULTILINE)
    assert leaves(tomllib.loads(all_live)).keys() == leaves(usual.model_dump()).keys()


def test_choices_are_listed_and_long_lines_wrapped(tmp_path: Path, run: Run) -> None:
    run("init", tmp_path / "study.toml")
    text = (tmp_path / "study.toml").read_text(encoding="utf-8")
    assert "One of: clicks, ratings.\n#feedback" in text
    assert "One of: s, ms, us, ns.\n#time_unit =\n" in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_file_that_is_there_is_not_replaced(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "study.toml"
    file.write_text("seed = 3\n", encoding="utf-8")
    outcome = run("init", file)
    assert outcome.code == 2
    assert f"found '{file}' there already" in outcome.err
    assert file.read_text(encoding="utf-8") == "seed = 3\n"
    assert run("init", tmp_path / "no" / "such" / "place.toml").code == 2


def test_run_takes_the_file_as_it_is(tmp_path: Path, run: Run) -> None:
    rng = cp.Streams(0).numpy("clicks")
    log, file = tmp_path / "clicks.csv", tmp_path / "study.toml"
    pairs = np.unique(rng.integers(0, 40, (600, 2)), axis=0)
    rows = "".join(f"u{user},i{item}\n" for user, item in pairs)
    log.write_text("user,item\n" + rows, encoding="utf-8")
    run("init", file)
    outcome = run("run", log, "--config", file, "--out", tmp_path / "study", "--candidates", "pop",
                  "--set", "evaluation.n_resamples=200")  # fmt: skip
    assert (outcome.code, (tmp_path / "study" / "report.html").exists()) == (0, True)
