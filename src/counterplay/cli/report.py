"""`counterplay report`: one HTML page of a study, of several side by side, or of runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from counterplay.cli import console
from counterplay.cli.arguments import check_out
from counterplay.cli.options import Json
from counterplay.errors import ConfigError, DataError

if TYPE_CHECKING:
    from counterplay.evaluation.records import EvaluationRecord
    from counterplay.study.records import Findings, StudyRecord


def report(
    paths: Annotated[
        list[Path],
        typer.Argument(help="Study directories (several are compared), or run directories."),
    ],
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("report.html"),
    evaluation: Annotated[
        Path | None,
        typer.Option(help="JSON file that evaluate or compare wrote with --out. For runs only."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write an HTML report: results, their uncertainty, and the data and commands behind them.

    Several studies are put side by side on one page.

    Example: counterplay report runs/erm runs/game --evaluation result.json --out report.html
    """
    check_out(out, evaluation, ending=".html")
    studies = _studies(paths, evaluation)
    runs = None if studies else _runs(paths, evaluation)
    from counterplay.report.page import write_report
    from counterplay.report.several import write_studies

    if len(studies) > 1:
        write_studies(studies, out)
        name = ", ".join(studies)
        found = {"studies": {each: record.to_dict() for each, record in studies.items()}}
    else:
        record = runs or next(iter(studies.values()))
        write_report(record, out)
        name, found = record.name, record.to_dict()
    if as_json:
        console.print_json(found)
    else:
        size = f"{out.stat().st_size / 1e6:.1f} MB, opens in any browser, offline"
        console.print_pairs({"report": name, "written to": f"{out}; {size}"})


def _studies(paths: list[Path], evaluation: Path | None) -> dict[str, StudyRecord]:
    """Return the records of the studies that are named, if they are studies."""
    studies = [path for path in paths if (path / "study.json").is_file()]
    if not studies:
        return {}
    if len(studies) < len(paths):
        other = next(path for path in paths if path not in studies)
        raise ConfigError(
            f"a report is of studies, or of runs; found the study '{studies[0]}' beside '{other}', "
            "which is none; name studies alone, or runs alone"
        )
    if evaluation is not None:
        raise ConfigError(
            "a study has its own evaluation; found --evaluation beside one; leave it out"
        )
    from counterplay.study.records import study_record

    return {
        name: study_record(path) for name, path in zip(_names(paths, "study"), paths, strict=True)
    }


def _names(paths: list[Path], what: str) -> list[str]:
    """Return what folders are called, their paths where that is not enough; refuse one twice."""
    if len({path.resolve() for path in paths}) < len(paths):
        named = ", ".join(str(path) for path in paths)
        raise ConfigError(f"a report has each {what} once; found {named}; name each once")
    names = [path.resolve().name for path in paths]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]


def _runs(paths: list[Path], evaluation: Path | None) -> Findings:
    """Return the record of runs, with an evaluation where there is one."""
    for path in paths:
        if not (path / "run.json").is_file():
            found = "a folder that holds neither" if path.is_dir() else "no folder"
            raise DataError(
                "a report is of a folder with a study.json or a run.json; found "
                f"{found} at '{path}'; name a study, or runs that have been trained"
            )
    names = _names(paths, "run")
    from counterplay.runs.config import training_command
    from counterplay.runs.record import read_record
    from counterplay.study.records import Findings, NamedRun

    runs = [
        NamedRun(name=name, **dict(read_record(path)))
        for name, path in zip(names, paths, strict=True)
    ]
    return Findings(
        name=", ".join(dict.fromkeys(run.dataset.name for run in runs)),
        versions=runs[0].versions,
        commands=tuple(
            training_command(run.configuration.model_dump(mode="json"), run.name) for run in runs
        ),
        runs=tuple(runs),
        evaluation=None if evaluation is None else _evaluation(evaluation),
    )


def _evaluation(path: Path) -> EvaluationRecord:
    from counterplay.evaluation.records import EvaluationRecord, read_as

    what = "the JSON that counterplay evaluate or compare wrote with --out"
    return read_as(EvaluationRecord, path, what, remedy="write it again", may_lack_seal=True)
