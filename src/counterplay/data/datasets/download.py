"""Fetch a dataset from its official address: resumable, checked, unpacked without surprises."""

from __future__ import annotations

import hashlib
import lzma
import shutil
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from counterplay.data.datasets.transfer import Transfer, fetch, is_safe
from counterplay.data.locks import locked
from counterplay.data.publishing import check_free, new_directory
from counterplay.errors import ConfigError, DataError

if TYPE_CHECKING:
    from counterplay.data.datasets.catalogue import Dataset, Remote

_LARGEST = 1 << 36  # bytes of an unpacked archive, and how often its own size they may be
_BAD_ARCHIVE = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, UnicodeError, EOFError),
    RuntimeError,  # encrypted; NotImplementedError, its child: an unknown compression
)
_DENSEST, _MOST = 200, 100_000  # and how many files


def download(
    dataset: Dataset,
    target: str | Path,
    *,
    base_url: str | None = None,
    unchecked: bool = False,
    progress: Transfer | None = None,
) -> dict[str, str]:
    """Fetch `dataset` into the new folder `target` and return the SHA-256 of each file fetched.

    A transfer that breaks off leaves its part beside `target`; the next call goes on from there,
    if the file is still the same. `base_url` replaces the official address. `unchecked` takes files
    whose SHA-256 is not known here as well, whatever they hold by now.
    """
    target = Path(target).resolve()
    check_free(target)
    if base_url is not None and not is_safe(base_url):
        raise ConfigError(
            f"a mirror must be an address such as https://host/folder; found {base_url!r}; correct "
            "it"
        )
    unknown = [remote for remote in dataset.remotes if not remote.sha256]
    if unknown and not unchecked:
        raise ConfigError(
            "a file is fetched if its checksum is known, so that it is the one that was meant; "
            f"found none for '{unknown[0].url}'; take it as it is with --unchecked, or fetch it "
            "yourself and give its folder"
        )
    parts = target.with_name(f".{target.name}.parts")
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(parts):
        digests = _fetched(dataset, parts, base_url, progress)
        with new_directory(target) as folder:
            for name in digests:
                if name.endswith(".zip"):
                    _unpack(parts / name, folder)
                else:
                    shutil.copyfile(parts / name, folder / name)
        shutil.rmtree(parts)
    return digests


def _fetched(
    dataset: Dataset, parts: Path, base_url: str | None, progress: Transfer | None
) -> dict[str, str]:
    """Bring all files into the folder `parts`; return their digests."""
    parts.mkdir(exist_ok=True)
    digests: dict[str, str] = {}
    try:
        for remote in dataset.remotes:
            path = parts / remote.name
            url = f"{base_url.rstrip('/')}/{remote.name}" if base_url else remote.url
            fetch(url, path, progress)
            digests[remote.name] = _check(path, remote)
    finally:
        if not any(parts.iterdir()):  # nothing to go on from
            parts.rmdir()
    return digests


def _check(path: Path, remote: Remote) -> str:
    """Compare a file with its checksum; a wrong one is removed, so that the next call refetches."""
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    if remote.sha256 and sha256 != remote.sha256:
        path.unlink()
        raise DataError(
            f"'{remote.name}' must have the SHA-256 {remote.sha256}; found {sha256}; fetch it "
            "again, and if that does not help, look at the source for a new release"
        )
    return sha256


def _unpack(archive: Path, folder: Path) -> None:
    """Unpack a zip archive; a single folder at its top is left out of the paths."""
    try:
        with zipfile.ZipFile(archive) as bundle:
            _check_size(archive, bundle)
            for member in bundle.infolist():
                bundle.extract(member, folder)  # below the folder, and no more than is announced
    except (OSError, *_BAD_ARCHIVE) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk's fault, not the archive's: that one stays
        archive.unlink(missing_ok=True)
        raise DataError(
            f"'{archive.name}' must be a whole zip archive; found {error}; fetch it again"
        ) from None
    shutil.rmtree(folder / "__MACOSX", ignore_errors=True)
    entries = list(folder.iterdir())
    if len(entries) == 1 and entries[0].is_dir():
        top = entries[0].rename(folder / ".top")
        for entry in top.iterdir():
            entry.rename(folder / entry.name)
        top.rmdir()


def _check_size(archive: Path, bundle: zipfile.ZipFile) -> None:
    """Refuse an archive that would fill the disk; its members hold no more than they announce."""
    members = bundle.infolist()
    announced = sum(member.file_size for member in members)
    most = min(_LARGEST, _DENSEST * archive.stat().st_size)
    if announced > most or len(members) > _MOST:
        raise zipfile.BadZipFile(
            f"{len(members):,} files of {announced:,} bytes in all, where {_MOST:,} and {most:,} "
            "are the most that is unpacked"
        )
