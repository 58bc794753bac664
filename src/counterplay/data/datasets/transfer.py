"""Bring one file over the net: encrypted, resumable, and never pieced together of two versions.

NAME.part       the bytes so far
NAME.version    what the server calls the version that they are of (its ETag, or its date)
"""

from __future__ import annotations

import http.client
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from counterplay.errors import DataError

if TYPE_CHECKING:
    from email.message import Message
    from pathlib import Path

Transfer = Callable[[int, int | None], None]  # bytes so far, bytes in all where known
_BLOCK = 1 << 20
_ADDRESS = re.compile(r"(?P<scheme>https?)://(?P<host>\[[0-9a-fA-F:.]+\]|[^\s/:@]+)(:\d+)?(/\S*)?")
_LOOPBACK = re.compile(r"localhost|127(\.\d+){3}|\[::1\]")


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
