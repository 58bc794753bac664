from __future__ import annotations

import errno
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.text import Text
from typer.main import get_command

import counterplay as cp
from counterplay.cli.arguments import spread
from counterplay.cli.exits import MEANINGS
from counterplay.cli.main import COMMANDS, app, main
from counterplay.evaluation.stage import Evaluation
from counterplay.runs.config import RunConfig
from counterplay.runs.defaults import training_for
from counterplay.simulation.logs import RATES
from counterplay.simulation.online import OnlineTest
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.two_stage import TwoStage
from counterplay.study.config import StudyConfig
from counterplay.tuning.space import Tuning

from .conftest import Outcome, Run

COMMAND: Any = get_command(app)
NAMES = sorted(COMMAND.commands)


def test_version(run: Run) -> None:
    outcome = run("--version")
    assert (outcome.code, outcome.out) == (0, f"counterplay {cp.__version__}\n")


def test_without_arguments_there_is_help(run: Run) -> None:
    assert run() == run("--help")


def test_the_help_has_panels_in_the_order_of_use(run: Run) -> None:
    out = run("--help").out
    filled = [panel for panel, commands in COMMANDS.items() if commands]
    places = [out.index(panel) for panel in filled]
    assert places == sorted(places)
    for panel, commands in COMMANDS.items():
        for command in commands:
            assert out.index(panel) < out.index(f"│ {command} ")


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_an_example_that_can_be_typed(name: str, run: Run) -> None:
    command = COMMAND.commands[name]
    _, _, example = (command.help or "").partition("\n\nExample: counterplay ")
    first, *words = spread(shlex.split(example))
    assert first == name
    command.make_context(name, words)  # which refuses what it does not know
    shown = " ".join(run(name, "--help").out.split())
    assert f"Example: counterplay {' '.join(example.split())}" in shown


def helps(command: Any) -> dict[str, str]:
    """Return the help of each option and argument, as it is read."""
    found = command.get_params(typer.Context(command))
    return {name: Text.from_markup(each.help or "").plain for each in found for name in each.opts}


TRACKED = ("refit", "run", "train", "tune")


@pytest.mark.parametrize("name", ["", *NAMES])
def test_every_option_has_a_sentence_and_no_flag_a_type(name: str, run: Run) -> None:
    told = helps(COMMAND.commands[name] if name else COMMAND)
    assert ("--json" in told) == bool(name)
    assert [each for each, text in told.items() if not text.endswith((".", ")", "]"))] == []
    shown = run(*filter(None, [name]), "--help")
    assert shown.code == 0
    assert "Usage: counterplay" in shown.out
    assert ("counterplay[trac" in shown.out) == (name in TRACKED)  # brackets are no markup
    for wrong in ("<bool>", "(default", "[default: ("):
        assert wrong not in shown.out


def test_the_reproduction_has_such_a_help_too(capsys: pytest.CaptureFixture[str]) -> None:
    from reproduction.__main__ import NAME, app

    assert "[default: one per core]" in helps(get_command(app))["--workers"]
    with pytest.raises(SystemExit):
        main(["--help"], app, NAME)
    assert "<bool>" not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["run", "prepare"])
def test_every_column_has_a_sentence_of_its_own(name: str) -> None:
    columns = [each for each in COMMAND.commands[name].params if each.rich_help_panel == "Columns"]
    assert len({each.help for each in columns}) == len(columns) > 3


def test_the_help_shows_the_defaults_that_hold() -> None:
    log = cp.read({"user": [0, 1, 1], "item": [0, 0, 1]})
    run, tuning, study = RunConfig(), Tuning(), StudyConfig()
    evaluation, online, world = Evaluation(), OnlineTest(), Synthetic()
    epochs = training_for(log, seed=0)["epochs"]
    seeds: Any = (run.training, tuning, study, evaluation, evaluation, online, world)
    expected: dict[str, dict[str, Any]] = {
        "train": {
            "--method": run.method,
            "--candidate": run.candidate.name,
            "--exposure": run.exposure.name,
            "--recipe": run.training.recipe,
            "--dim": run.candidate.dim,
            "--alpha": run.training.alpha,
            "--rate": run.training.rate,
            "--epochs": run.training.epochs,
        },
        "tune": {
            "--candidate": tuning.candidate.name,
            "--exposure": tuning.exposure.name,
            "--trials": tuning.trials,
            "--epochs": epochs,
            "--estimator": tuning.selection.estimator,
            "--metric": tuning.selection.metric,
            "--k": tuning.selection.k,
            "--protocol": tuning.selection.protocol,
        },
        "run": {"--candidates": ", ".join(study.candidates), "--model": study.model,
                "--feedback": study.feedback, "--epochs": epochs,
                "--order": study.preparation.order},
        "evaluate": {"--protocol": evaluation.protocol, "--k": evaluation.k[0],
                     "--part": evaluation.part, "--estimators": ", ".join(evaluation.estimators)},
        "compare": {"--protocol": evaluation.protocol, "--k": evaluation.k[0],
                    "--part": evaluation.part},
        "online": {"--days": online.n_days, "--k": online.k[0],
                   "--temperature": online.temperature},
        "simulate": {
            "--users": world.n_users,
            "--items": world.n_items,
            "--exposure": world.exposure,
            "--confounding": world.confounding,
            "--examination": f"{world.examination} for synthetic, {TwoStage().examination} for "
            "two-stage",
            "--rates": " ".join(map(str, RATES)),
        },
    }  # fmt: skip
    for (name, options), seeded in zip(expected.items(), seeds, strict=True):
        told = helps(COMMAND.commands[name])
        for option, value in (options | {"--seed": seeded.seed}).items():
            assert told[option].endswith(f". [default: {value}]"), (name, option)
            assert told[option].count("[default:") == 1


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (cp.DataError("a; b; c"), 2, "counterplay: a; b; c\n"),
        (cp.ConfigError("a; b; c"), 2, "counterplay: a; b; c\n"),
        (cp.DivergedError("a; b; c"), 1, "counterplay: a; b; c\n"),
        (PermissionError("locked"), 2, "found locked"),
        (cp.CheckpointError("a; b; c"), 2, "counterplay: a; b; c\n"),
        (
            OSError(errno.ENOSPC, "No space left on device", "/x/[b]\x1b[2Jy"),
            2,
            "must have room for what is written; found no space left at '/x/[b]\\x1b[2Jy'; free",
        ),
        (RuntimeError("I/O error: No space left on device (os error 28)"), 2, "no space left; fr"),
        (RuntimeError("Permission denied (os error 13): x"), 2, "found Permission denied (os er"),
        (
            PermissionError(errno.EACCES, "Permission denied", "/x"),
            2,
            "files must be readable and writable; found Permission denied at '/x'; check the path",
        ),
        (MemoryError(), 1, "must fit into memory; found too little; ask for less\n"),
        (RuntimeError("can't allocate memory: 8 bytes"), 1, "must fit into memory; found can't"),
        (cp.DataError("[b]a\n :smile:"), 2, "counterplay: [b]a :smile:\n"),
    ],
)
def test_every_way_out_has_a_sentence_and_a_code(
    error: BaseException, code: int, text: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = run_failing(error, run, monkeypatch)
    assert outcome.code == code
    assert text in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("error", [TypeError("no\nint"), AssertionError()])
def test_a_mistake_of_ours_is_one_sentence_too(
    error: Exception, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COUNTERPLAY_DEBUG", raising=False)
    outcome = run_failing(error, run, monkeypatch)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == (
        f"counterplay: this is a mistake in counterplay; found {type(error).__name__}: "
        f"{' '.join(str(error).split())}; run again with COUNTERPLAY_DEBUG=1 for the details, and "
        "report it\n"
    )
    monkeypatch.setenv("COUNTERPLAY_DEBUG", "1")
    detailed = run_failing(error, run, monkeypatch)
    assert detailed.code == 1
    assert detailed.err.startswith("Traceback (most recent call last):")
    assert detailed.err.endswith(outcome.err)


def test_a_reader_who_leaves_ends_it_silently() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        command = [sys.executable, "-m", "counterplay", "datasets"]
        ended = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, check=False)
    assert (ended.returncode, ended.stderr) == (1, b"")


@pytest.mark.parametrize(
    ("shell", "typed", "expected"),
    [
        ("zsh", "counterplay tr", "train"),
        ("fish", "counterplay train x --method ", "acl"),
        ("zsh", "counterplay evaluate x --k 5 10 --est", "--estimators"),
    ],
)
def test_shells_complete_what_is_typed(
    shell: str, typed: str, expected: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_COUNTERPLAY_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", typed)
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    outcome = run()
    assert (outcome.code, outcome.err) == (0, "")
    assert expected in outcome.out
    assert "prepare" not in outcome.out


def test_completing_is_quick() -> None:
    code = (
        "import sys\n"
        "from counterplay.cli.main import main\n"
        "try:\n    main()\n"
        "finally:\n    print({'torch', 'polars', 'numpy', 'scipy'} & set(sys.modules))"
    )
    typed = {"COMP_WORDS": "counterplay tr", "COMP_CWORD": "1"}
    ended = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | typed | {"_COUNTERPLAY_COMPLETE": "complete_bash"},
    )
    assert ended.stdout.split("\n") == ["train", "set()", ""]


def run_failing(error: BaseException, run: Run, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    def failing(*_: object) -> None:
        raise error

    monkeypatch.setattr("counterplay.cli.console.print_json", failing)
    return run("datasets", "--json")


def test_the_module_is_the_command(tmp_path: Path) -> None:
    outcome = subprocess.run(
        [sys.executable, "-m", "counterplay", "prepare", "none.csv", "--out", "out"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert outcome.returncode == 2
    assert outcome.stderr == (
        "counterplay: a file must exist to be read; found nothing at 'none.csv'; check the path\n"
    )
    assert outcome.stdout == ""
    assert list(tmp_path.iterdir()) == []


FAKE = """
import os, time
from counterplay.cli import console, main

def waiting(value):
    with console.resumable("say it again") if os.environ["HOW"] == "resumable" else console.notes():
        print("ready", flush=True)
        while True:
            time.sleep(0.01)

console.print_json = waiting
main()
"""


@pytest.mark.parametrize(
    ("how", "number", "said"),
    [
        ("resumable", signal.SIGINT, "say it again"),
        ("not", signal.SIGTERM, "nothing half-written was left behind"),
    ],
)
def test_being_ended_says_what_being_interrupted_says(
    how: str, number: signal.Signals, said: str
) -> None:
    command = [sys.executable, "-c", FAKE, "datasets", "--json"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"HOW": how},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    _, err = process.communicate()
    assert (process.returncode, err) == (128 + number, f"counterplay: interrupted; {said}\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_output_that_nobody_takes_is_one_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "counterplay", "datasets"]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith("counterplay: the disk must have room")
    assert ended.stderr.count("\n") == 1


def test_exit_codes_are_in_the_help_and_on_their_page(run: Run, root: Path) -> None:
    told = " ".join(run("--help").out.split())
    page = (root / "docs/guide/automation.md").read_text(encoding="utf-8")
    for code, meaning in MEANINGS.items():
        assert f"{code} {meaning}" in told
        assert f"| {code} | {meaning} |" in page


@pytest.mark.parametrize("page", ["automation", "deciding", "serving", "training"])
def test_commands_on_the_pages_have_the_options_that_they_are_given(page: str, root: Path) -> None:
    text = (root / "docs/guide" / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(?:sh|yaml)\n(.*?)```", text, re.DOTALL)
    typed = re.findall(r"^ *(?:- run: )?counterplay (\S+) (.*)$", "\n".join(blocks), re.MULTILINE)
    assert typed
    for name, rest in typed:
        known = {each for option in COMMAND.commands[name].params for each in option.opts}
        assert {each for each in rest.split() if each.startswith("--")} <= known


@pytest.mark.parametrize(("code", "ends"), [(0, 0), (3, 0), (1, 1), (2, 1)])
def test_the_recipe_takes_an_undecided_verdict_for_a_result(
    code: int, ends: int, root: Path, tmp_path: Path
) -> None:
    text = (root / "docs/guide/automation.md").read_text(encoding="utf-8")
    found = re.search(r"- id: study\n +run: \|\n((?: {10}.*\n)+)", text)
    assert found
    stand_in = tmp_path / "counterplay"
    stand_in.write_text(f"#!/bin/sh\nexit {code}\n")
    stand_in.chmod(0o755)
    environment = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    environment["GITHUB_OUTPUT"] = str(tmp_path / "output")
    done = subprocess.run(["bash", "-e", "-c", found[1]], env=environment, check=False)
    assert done.returncode == ends
    assert (tmp_path / "output").read_text() == f"code={code}\n"
