"""Files that say of themselves, or of their neighbours, whether they are as they were written.

A JSON file of ours ends in a digest of its own bytes, the digest left out; what lies beside it
has its digest in there. So nothing is parsed that was changed or damaged since.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from counterplay.data.publishing import new_file, own_file
from counterplay.errors import DataError
from counterplay.settings import leaves

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_NONE = f"sha256:{'0' * 64}"
_SEAL = re.compile(rb'"digest": "(sha256:[0-9a-f]{64})"\n?\}\n\Z')
_TAIL = 128  # bytes that a seal is within


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def digests_of(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file in a folder, by name."""
    return {path.name: digest_of(path) for path in sorted(folder.iterdir()) if path.is_file()}


def check_digest(path: Path, digests: Mapping[str, str], *, remedy: str) -> None:
    """Refuse a file whose bytes are not those of its digest, before anybody parses it."""
    try:
        same = digest_of(path) == digests.get(path.name)
    except FileNotFoundError:
        raise _changed(path, remedy, "nothing there") from None
    except OSError as error:
        raise _changed(path, remedy, error.strerror or str(error)) from None
    if not same:
        raise _changed(path, remedy)


def check_once(path: Path, digests: Mapping[str, str], *, remedy: str) -> None:
    """Refuse a file as `check_digest` does; a process reads it again only where it has changed."""
    try:
        about = path.stat()
    except OSError:
        check_digest(path, digests, remedy=remedy)  # which says why
        return
    stamp = about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns
    _checked(path, digests.get(path.name, ""), remedy, stamp)


@lru_cache(maxsize=256)
def _checked(path: Path, digest: str, remedy: str, _: tuple[int, ...]) -> None:
    check_digest(path, {path.name: digest}, remedy=remedy)


def sealed(value: Mapping[str, Any], *, indent: int | None = 2) -> bytes:
    """Return plain values as JSON that ends in its own digest; without an indent on one line."""
    text = json.dumps({**value, "digest": _NONE}, indent=indent, ensure_ascii=False)
    blank = f"{text}\n".encode(errors="surrogatepass")  # paths may hold any bytes
    place = blank.rindex(_NONE.encode())
    digest = f"sha256:{hashlib.sha256(blank).hexdigest()}".encode()
    return blank[:place] + digest + blank[place + len(_NONE) :]


def write_json(
    value: Mapping[str, Any], path: Path, *, indent: int | None = 2, durable: bool = True
) -> None:
    """Write plain values with their seal, all of them or nothing.

    What is not `durable` has no lock of its own, and may not outlive a power cut.
    """
    content = sealed(value, indent=indent)
    with new_file(path) if durable else own_file(path) as beside:
        beside.write_bytes(content)


def read_json(
    path: Path,
    what: str,
    *,
    remedy: str = "name another",
    format: int | None = None,  # noqa: A002 - what the key is called
    may_lack_seal: bool = False,
) -> dict[str, Any]:
    """Return the plain values of a file, which must be `what` and as it was written.

    `format` is the value that its key of that name must have. With `may_lack_seal`, a file of
    before there were seals is read too.
    """
    try:
        content = path.read_bytes()
        seal = _SEAL.search(content, max(0, len(content) - _TAIL))
        if seal and not _fits(content, seal):
            raise _changed(path, remedy)
        value = json.loads(content.decode("utf-8", "surrogatepass"))
        found = None if isinstance(value, dict) else "something else"
    except DataError:
        raise
    except FileNotFoundError:
        found = "nothing there"
    except OSError as error:
        found = error.strerror or str(error)
    except RecursionError:
        found = "values within values, too deep to read"
    except ValueError as error:
        found = str(error)
    if found is not None:
        raise DataError(f"'{path}' must be {what}; found {found}; {remedy}")
    if format is not None and value.get("format") != format:
        raise DataError(
            f"'{path}' must be in format {format}; found format {value.get('format')}; {remedy} "
            "with this version"
        )
    tail = content[-_TAIL:]
    never_had_one = b"digest" not in tail and b"sha256:" not in tail  # nor a damaged one
    if not seal and not (may_lack_seal and never_had_one):
        raise _changed(path, remedy, "it changed or damaged, or of an earlier version")
    return {key: each for key, each in value.items() if key != "digest"}


def difference(began: Mapping[str, Any], asked: Mapping[str, Any]) -> str | None:
    """Say where plain values that work began with are not those that it is to go on with.

    Example:
        >>> difference({"model": {"heads": 1, "dim": 8}}, {"model": {"heads": 4, "dim": 8}})
        'model.heads: began with 1, asked for 4'
    """
    before, now = leaves(began), leaves(asked)
    for name in {**before, **now}:
        if name not in before or name not in now or before[name] != now[name]:
            one, other = (
                json.dumps(each[name], ensure_ascii=False) if name in each else "none"
                for each in (before, now)
            )
            return f"{name}: began with {one}, asked for {other}"
    return None


def _fits(content: bytes, seal: re.Match[bytes]) -> bool:
    begin, end = seal.span(1)
    blank = content[:begin] + _NONE.encode() + content[end:]
    return seal[1] == f"sha256:{hashlib.sha256(blank).hexdigest()}".encode()


def _changed(path: Path, remedy: str, found: str = "it changed or damaged") -> DataError:
    return DataError(f"'{path}' must be as it was written; found {found}; {remedy}")
