"""Fetch a dataset from its official address: resumable, checked, unpacked without surprises."""

from __future__ import annotations

import hashlib
import http.client
import lzma
import re
import shutil
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from counterplay.data.publishing import check_free, new_directory
from counterplay.errors import ConfigError, DataError

if TYPE_CHECKING:
    from counterplay.data.datasets.catalogue import Dataset, Remote

Transfer = Callable[[int, int | None], None]  # bytes so far, bytes in all where known
_BLOCK = 1 << 20


def download(
    dataset: Dataset,
    target: str | Path,
    *,
    base_url: str | None = None,
    progress: Transfer | None = None,
) -> dict[str, str]:
    """Fetch `dataset` into the folder `target` and return the SHA-256 of each file fetched.

    A transfer that breaks off leaves its part beside `target`; the next call goes on from there.

    Args:
        dataset: What to fetch.
        target: A folder that does not exist yet.
        base_url: Take the files from here instead of their official addresses.
        progress: Called with the bytes so far and, where known, their total.
    """
    target = Path(target).resolve()
    check_free(target)
    if base_url is not None and not re.fullmatch(r"https?://[^\s/]+(/\S*)?", base_url):
        raise ConfigError(
            f"a mirror must be an address such as https://host/folder; found {base_url!r}; correct "
            "it"
        )
    parts = target.with_name(f".{target.name}.parts")
    parts.mkdir(parents=True, exist_ok=True)
    digests: dict[str, str] = {}
    try:
        for remote in dataset.remotes:
            path = parts / remote.name
            url = f"{base_url.rstrip('/')}/{remote.name}" if base_url else remote.url
            _fetch(url, path, progress)
            digests[remote.name] = _check(path, remote)
    finally:
        if not any(parts.iterdir()):  # nothing to go on from
            parts.rmdir()
    with new_directory(target) as folder:
        for remote in dataset.remotes:
            path = parts / remote.name
            if path.suffix == ".zip":
                _unpack(path, folder)
            else:
                shutil.copyfile(path, folder / remote.name)
    shutil.rmtree(parts)
    return digests


def _fetch(url: str, path: Path, progress: Transfer | None) -> None:
    """Bring `url` to `path`, going on after the bytes that are there already."""
    if path.exists():
        return
    unfinished = path.with_name(f"{path.name}.part")
    have = unfinished.stat().st_size if unfinished.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "counterplay"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            begins = response.headers.get("Content-Range", "")
            resumed = response.status == 206 and begins.startswith(f"bytes {have}-")
            if response.status == 206 and not resumed:
                raise _broken(url, f"'{begins}' where the bytes from {have:,} on were asked for")
            length = response.headers.get("Content-Length")
            done = have if resumed else 0
            total = done + int(length) if length else None
            with unfinished.open("ab" if resumed else "wb") as file:
                while block := response.read(_BLOCK):
                    file.write(block)
                    done += len(block)
                    if progress:
                        progress(done, total)
    except urllib.error.HTTPError as error:
        with error:
            whole = error.headers.get("Content-Range") == f"bytes */{have}"
        if error.code != 416:
            raise _broken(url, str(error)) from None
        if not whole:  # the part is not of this file: the next call begins anew
            unfinished.unlink()
            raise _broken(url, "a file shorter than the part that is here") from None
        done = total = have
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _broken(url, str(error).strip() or type(error).__name__) from None
    if total is not None and done < total:
        raise _broken(url, f"{done:,} of {total:,} bytes")
    unfinished.rename(path)


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
            bundle.extractall(folder)  # extractall keeps members below the folder
    except (
        OSError,
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
        UnicodeError,
        EOFError,
        RuntimeError,  # encrypted; NotImplementedError, its child: an unknown compression
    ) as error:
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


def _broken(url: str, what: str) -> DataError:
    return DataError(
        f"'{url}' must answer with the whole file; found {what}; try again to go on where it broke "
        "off, or fetch the files yourself and give their folder"
    )
