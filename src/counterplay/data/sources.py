"""Where a log is: a file, a folder, a pattern, a list of files, standard input, or an address."""

from __future__ import annotations

import glob
import re
import sys
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from counterplay.data.findings import Step
from counterplay.data.formats import FileFormat, format_of, known_format, refuse_pipe
from counterplay.data.refusals import first_line
from counterplay.data.scratch import UNPACKED, Scratch, unpacked
from counterplay.errors import CounterplayError, DataError
from counterplay.extras import needed

STDIN = "-"
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_WEB = ("http", "https")


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one log, all of one format."""

    paths: tuple[Path, ...]
    kind: FileFormat
    name: str  # of the log
    source: str  # as it was given
    scratch: Scratch | None = None  # what copies lie in
    steps: tuple[Step, ...] = ()  # what was left out

    @property
    def values(self) -> dict[str, set[str]]:
        """What folders say of columns, as in `day=2024-01-31/part-0.parquet`."""
        found: dict[str, set[str]] = {}
        for path in self.paths:
            for name, sign, value in (part.partition("=") for part in path.parts[:-1]):
                if name and sign:
                    found.setdefault(name, set()).update({value} - {_NO_VALUE})
        return found


def is_place(source: object) -> bool:
    """Tell whether a source says where a log is, and is not the log itself."""
    if isinstance(source, list | tuple) and source:
        return all(isinstance(each, str | Path) for each in source)
    return isinstance(source, str | Path)


def is_address(source: object) -> bool:
    """Tell whether a source is an address such as s3://bucket/log.parquet."""
    return isinstance(source, str) and _ADDRESS.match(source) is not None


def local_path(source: object) -> Path | None:
    """Return the one file or folder that a source names, if it does."""
    if isinstance(source, list | tuple) and len(source) == 1 and is_place(source):
        source = source[0]
    if not isinstance(source, str | Path) or str(source) == STDIN or is_address(source):
        return None
    return Path(source)


def files_of(source: Any, kind: FileFormat | None = None) -> Files:
    """Return the files of a log, copied to this machine where they are elsewhere."""
    places = list(source) if isinstance(source, list | tuple) else [source]
    scratch: Scratch | None = None
    paths: list[Path] = []
    steps: list[Step] = []
    for place in places:
        if str(place) == STDIN or is_address(place):
            scratch = scratch or Scratch()
            found = [_standard_input(scratch)] if str(place) == STDIN else _fetched(place, scratch)
        else:
            found = _found(Path(place), steps)
        paths += found
    _refuse_twice(paths)
    for number, path in enumerate(paths):
        if path.suffix.lower() in UNPACKED:
            scratch = scratch or Scratch()
            paths[number] = unpacked(path, scratch)
    kinds = {each: kind or format_of(each) for each in paths}
    first = next(iter(kinds))
    other = next((each for each in paths if kinds[each] != kinds[first]), None)
    if other is not None:
        raise DataError(
            f"all files of a log must have one format; found {kinds[first]} in '{first}' and "
            f"{kinds[other]} in '{other}'; name those that belong together"
        )
    said = ", ".join(map(str, places[:3])) + (" …" if len(places) > 3 else "")
    return Files(tuple(paths), kinds[first], name_of(places[0]), said, scratch, tuple(steps))


def _refuse_twice(paths: list[Path]) -> None:
    """Refuse a file that is named twice: its rows would count double."""
    seen: dict[Path, Path] = {}
    for path in paths:
        other = seen.setdefault(path.resolve(), path)
        if other is not path:
            raise DataError(
                f"every file of a log must be named once; found '{path}' twice; name it once"
            )


def name_of(place: object) -> str:
    """Return what to call a log that is at a place."""
    if str(place) == STDIN:
        return "stdin"
    text = urlsplit(str(place)).path if is_address(place) else str(Path(str(place)).resolve())
    path = PurePosixPath(text.split("*")[0].rstrip("/")) if "*" in text else PurePosixPath(text)
    return path.name.split(".")[0] or "log"


def _standard_input(scratch: Scratch) -> Path:
    if sys.stdin is None or sys.stdin.isatty():
        raise DataError(
            "standard input must have a log; found a terminal; pipe a file into the command"
        )
    path = scratch.take(sys.stdin.buffer, "stdin")
    if not path.stat().st_size:
        raise DataError(
            "standard input must have a log; found nothing; check the command that writes into it"
        )
    return path


def _found(path: Path, steps: list[Step]) -> list[Path]:
    """Return a file, those of a folder, or those that fit a pattern, in order of their names."""
    if path.is_dir():
        there = files_in(path)
        found = [each for each in there if known_format(each) or _packed(each)]
        if not found:
            raise DataError(
                f"a folder must hold files of a log; found none in '{path}' that ends as CSV, TSV, "
                "Parquet or NDJSON does; name the file, or the dataset with --format"
            )
        if others := sorted({*there} - {*found}):
            text = f"left out {len(others):,} files of '{path}' that do not end as a table does"
            text += f", the first is {others[0].name!r}"
            steps.append(Step("files", text, {"files": len(others)}))
        return found
    if not path.exists() and glob.has_magic(str(path)):
        found = sorted(Path(each) for each in glob.glob(str(path), recursive=True))  # noqa: PTH207 - absolute ones too
        found = [each for each in found if each.is_file()]
        if not found:
            raise DataError(f"a pattern must fit a file; found none for '{path}'; check the path")
        return found
    refuse_pipe(path)
    return [path]


def _packed(path: Path) -> bool:
    return path.suffix.lower() in UNPACKED and known_format(path.with_suffix("")) is not None


def files_in(folder: Path) -> list[Path]:
    """Return the files of a folder in order of their names, the hidden ones left out."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    within = ((path, path.relative_to(folder).parts) for path in found)
    return [path for path, parts in within if not any(part[0] in "._" for part in parts)]


def _fetched(address: str, scratch: Scratch) -> list[Path]:
    """Copy what is at an address: a file, all files of a folder, or those that fit a pattern."""
    with needed(f"reading {address.split(':')[0]}://", "cloud"):
        import fsspec

        try:
            system, place = fsspec.core.url_to_fs(address)
            names = _remote_names(system, place, address)
            return [_copied(system, name, _within(name, place), scratch) for name in names]
        except (CounterplayError, ImportError):
            raise
        except Exception as error:  # every store has errors of its own
            what = "nothing" if isinstance(error, FileNotFoundError) else first_line(error)
            raise DataError(
                f"an address must be of a file or a folder that can be read; found {what} at "
                f"'{address}'; check it, and that you may read it"
            ) from None


def _remote_names(system: Any, place: str, address: str) -> list[str]:
    if address.startswith(_WEB) or system.isfile(place):
        return [place]
    names = system.glob(place) if glob.has_magic(place) else system.find(place)
    parts = {name: PurePosixPath(_within(name, place)).parts for name in names}
    kept = [name for name in sorted(names) if not any(part[0] in "._" for part in parts[name])]
    if not kept:
        raise FileNotFoundError(address)
    return kept


def _within(name: str, place: str) -> str:
    """Return a name below a place, with folders that say values of columns."""
    root = place.split("*")[0].rstrip("/")
    below = name[len(root) :].strip("/") if name.startswith(root) else ""
    return below or PurePosixPath(urlsplit(name).path).name


def _copied(system: Any, name: str, below: str, scratch: Scratch) -> Path:
    folder = Path(*(part for part in PurePosixPath(below).parts if part not in ("..", "/")))
    with system.open(name, "rb") as stream:
        return scratch.take(stream, str(folder))
