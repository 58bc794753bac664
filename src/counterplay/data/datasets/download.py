"""Fetch a dataset from its official address: resumable, checked, unpacked without surprises.

NAME.part       the bytes so far
NAME.version    what the server calls the version that they are of (its ETag, or its date)
"""

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
from typing import TYPE_CHECKING, Any

from counterplay.data.locks import locked
from counterplay.data.publishing import check_free, new_directory
from counterplay.errors import ConfigError, DataError

if TYPE_CHECKING:
    from email.message import Message

    from counterplay.data.datasets.described import Dataset, Remote

Transfer = Callable[[int, int | None], None]  # bytes so far, bytes in all where known
_BLOCK = 1 << 20
_ADDRESS = re.compile(r"(?P<scheme>https?)://(?P<host>\[[0-9a-fA-F:.]+\]|[^\s/:@]+)(:\d+)?(/\S*)?")
_LOOPBACK = re.compile(r"localhost|127(\.\d+){3}|\[::1\]")
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
    if not dataset.remotes:
        raise ConfigError(
            f"a dataset is fetched from its address; found none of {dataset.title}; get it from "
            f"{dataset.page}, and give its folder"
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


def is_safe(url: str) -> bool:
    """Tell whether an address is encrypted, or on this machine.

    Example:
        >>> [is_safe(each) for each in ("https://a.org/b", "http://a.org/b", "ftp://a.org/b")]
        [True, False, False]
    """
    parts = _ADDRESS.fullmatch(url)
    return parts is not None and (
        parts["scheme"] == "https" or _LOOPBACK.fullmatch(parts["host"]) is not None
    )


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows to safe addresses alone."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if not is_safe(newurl):
            said = f"a redirection to '{newurl}', which is not https"
            raise urllib.error.HTTPError(newurl, code, said, headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> urllib.request.OpenerDirector:
    """Return what opens http and https, and nothing else."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        _SafeRedirects(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
    ):
        opener.add_handler(handler)
    return opener


def fetch(url: str, path: Path, progress: Transfer | None) -> None:
    """Bring `url` to `path`, going on after the bytes that are there already."""
    if path.exists():
        return
    if not is_safe(url):
        raise DataError(
            f"a file is fetched by https; found the address '{url}'; take another mirror"
        )
    part, version = (path.with_name(f"{path.name}.{end}") for end in ("part", "version"))
    known = version.read_text(encoding="latin-1") if version.exists() else ""
    have = part.stat().st_size if known and part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "counterplay"})
    if have:
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", known)
    try:
        with _opener().open(request, timeout=60) as response:
            begins = response.headers.get("Content-Range", "")
            resumed = response.status == 206 and begins.startswith(f"bytes {have}-")
            if response.status == 206 and not resumed:
                raise _broken(url, f"'{begins}' where the bytes from {have:,} on were asked for")
            if resumed and _version(response.headers) not in ("", known):
                part.unlink()  # of another version: the next call begins anew
                raise _broken(url, "another version than that of the bytes that are here")
            if not resumed:
                part.unlink(missing_ok=True)
                version.write_text(_version(response.headers), encoding="latin-1")
            length = response.headers.get("Content-Length")
            done = have if resumed else 0
            total = done + int(length) if length else None
            with part.open("ab") as file:
                while block := response.read(_BLOCK):
                    file.write(block)
                    done += len(block)
                    if progress:
                        progress(done, total)
    except urllib.error.HTTPError as error:
        with error:
            whole = error.headers.get("Content-Range") == f"bytes */{have}"
            same = _version(error.headers) in ("", known)
        if error.code != 416:
            raise _broken(url, str(error)) from None
        if not whole or not same:  # the part is not of this file: the next call begins anew
            part.unlink()
            raise _broken(url, "a file shorter than the part that is here") from None
        done = total = have
    except (OSError, http.client.HTTPException, ValueError) as error:
        if isinstance(error, DataError):
            raise
        if isinstance(error, OSError) and error.filename is not None:
            raise  # the disk's refusal, not the server's
        raise _broken(url, str(error).strip() or type(error).__name__) from None
    if total is not None and done < total:
        raise _broken(url, f"{done:,} of {total:,} bytes")
    part.rename(path)
    version.unlink(missing_ok=True)


def _version(headers: Message) -> str:
    """Return what tells versions of a file apart and may stand in If-Range; nothing if unknown."""
    tag = headers.get("ETag", "")
    return tag if tag and not tag.startswith("W/") else headers.get("Last-Modified", "")


def _broken(url: str, what: str) -> DataError:
    return DataError(
        f"'{url}' must answer with the whole file; found {what}; try again to go on where it broke "
        "off, or fetch the files yourself and give their folder"
    )
