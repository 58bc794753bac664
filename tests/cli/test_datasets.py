from __future__ import annotations

import functools
import json
import shlex
import threading
import zipfile
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from counterplay.data.datasets import DATASETS

from .conftest import Run

BOOKS = "goodreads_reviews_history_biography.json.gz"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    folder = tmp_path / "served"
    folder.mkdir()
    handler = functools.partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}", folder
        running.shutdown()
        thread.join()


def test_every_dataset_is_listed_with_its_terms(run: Run) -> None:
    outcome = run("datasets")
    assert outcome.code == 0
    for dataset in DATASETS.values():
        assert dataset.columns
        for text in (dataset.name, dataset.title, dataset.licence, dataset.citation,
                     f"columns: {dataset.columns}", *dataset.quick_start):  # fmt: skip
            assert text in outcome.out
    listed = json.loads(run("datasets", "--json").out)
    assert [each["name"] for each in listed] == list(DATASETS)
    assert all(each["files"] or each["page"] for each in listed)
    assert [len(each["quick_start"]) for each in listed] == [2] * len(DATASETS)


def test_a_quick_start_goes_from_nothing_to_a_study(
    server: tuple[str, Path], tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, folder = server
    rows = "".join(f"{user},{user * 3 + item},4\n" for user in range(40) for item in range(8))
    with zipfile.ZipFile(folder / "goodbooks-10k.zip", "w") as archive:
        archive.writestr("ratings.csv", f"user_id,book_id,rating\n{rows}")
    monkeypatch.chdir(tmp_path)
    download, study = (shlex.split(line)[1:] for line in DATASETS["goodbooks"].quick_start)
    fetched = run(*download, "--from", address)
    assert fetched.code == 0
    assert f"next: counterplay run {download[3]}" in fetched.out
    assert run(*study, "--candidates", "pop").code == 0
    assert (tmp_path / "studies/goodbooks/report.html").exists()


def test_quick_starts_read_the_folder_that_they_download_to() -> None:
    for dataset in (each for each in DATASETS.values() if each.remotes):
        download, study = (shlex.split(line) for line in dataset.quick_start)
        assert download[1:3] == ["download", dataset.name]
        assert Path(study[2]).is_relative_to(download[4])
        assert Path(study[2]) == dataset.place(Path(download[4]))
        assert ("--unchecked" in download) == any(not it.sha256 for it in dataset.remotes)


def test_a_file_without_checksum_is_fetched_if_told_and_said_so(
    server: tuple[str, Path], tmp_path: Path, run: Run
) -> None:
    address, folder = server
    (folder / BOOKS).write_bytes(b"")
    arguments = ("download", "goodreads", "--out", tmp_path / "books", "--from", address)
    refused = run(*arguments)
    assert refused.code == 2
    assert "take it as it is with --unchecked" in refused.err
    assert not (tmp_path / "books").exists()
    outcome = run(*arguments, "--unchecked")
    assert outcome.code == 0
    assert (tmp_path / "books" / BOOKS).read_bytes() == b""
    assert f"note: no checksum is known for {BOOKS}" in outcome.err
    assert "next: counterplay run" in outcome.out
    result = json.loads(run(*arguments[:3], tmp_path / "b", *arguments[4:], "--json",
                            "--unchecked").out)  # fmt: skip
    assert result["unchecked"] == [BOOKS]
    assert result["sha256"][BOOKS].startswith("e3b0c44298fc1c14")


def test_a_wrong_checksum_is_one_sentence(
    server: tuple[str, Path], tmp_path: Path, run: Run
) -> None:
    address, folder = server
    (folder / "ml-100k.zip").write_bytes(b"not the archive")
    outcome = run("download", "ml-100k", "--out", tmp_path / "ml", "--from", address)
    assert outcome.code == 2
    assert "must have the SHA-256 50d2a982" in outcome.err
    assert not (tmp_path / "ml").exists()


@pytest.mark.parametrize(
    ("name", "expected"), [("ml-1", "did you mean 'ml-1m'"), ("x", "take one")]
)
def test_unknown_datasets_are_refused(name: str, expected: str, tmp_path: Path, run: Run) -> None:
    outcome = run("download", name, "--out", tmp_path / "x")
    assert outcome.code == 2
    assert expected in outcome.err


def test_an_interrupted_transfer_goes_on(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("counterplay.data.datasets.download", interrupted)
    outcome = run("download", "ml-100k", "--out", tmp_path / "ml")
    assert (outcome.code, outcome.out) == (130, "")
    assert "same command" in outcome.err
