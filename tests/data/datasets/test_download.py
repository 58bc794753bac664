import hashlib
import io
import socket
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import counterplay as cp
from counterplay.data.datasets import Dataset, read_dataset
from counterplay.data.datasets import download as fetch_dataset
from counterplay.data.datasets.catalogue import DATASETS
from counterplay.data.datasets.described import Remote
from counterplay.data.datasets.download import is_safe

from .conftest import LAYOUTS

Refused = Callable[..., AbstractContextManager[None]]
Calls = list[tuple[int, int | None]]


@dataclass
class Site:
    """What the server has, how it behaves, and what it was asked for."""

    files: dict[str, bytes] = field(default_factory=dict)
    url: str = ""
    understands_ranges: bool = True
    break_after: int | None = None  # bytes of the next answer's body
    chunked: bool = False
    raw_answer: bytes | None = None
    versions: dict[str, str] = field(default_factory=dict)  # header and value, of all files
    honours_if_range: bool = True
    redirect: str | None = None
    conditions: list[str | None] = field(default_factory=list)  # of If-Range
    requests: list[tuple[str, str | None]] = field(default_factory=list)  # path, range

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        name, wanted = request.path.removeprefix("/"), request.headers.get("Range")
        self.requests.append((name, wanted))
        condition = request.headers.get("If-Range")
        self.conditions.append(condition)
        request.close_connection = True
        if self.raw_answer is not None:
            request.wfile.write(self.raw_answer)
            return
        if self.redirect is not None:
            request.send_response(302)
            request.send_header("Location", self.redirect)
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        versions = self.versions or {"ETag": f'"{sha256(self.files.get(name, b""))[:8]}"'}
        if self.honours_if_range and condition not in (None, *versions.values()):
            wanted = None
        if name not in self.files:
            request.send_error(404)
            return
        body, first = self.files[name], 0
        if wanted is not None and self.understands_ranges:
            first = int(wanted.removeprefix("bytes=").removesuffix("-"))
        if first >= len(body) > 0:
            request.send_response(416)
            request.send_header("Content-Range", f"bytes */{len(body)}")
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        request.send_response(206 if first else 200)
        for header, value in versions.items():
            request.send_header(header, value)
        if first:
            request.send_header("Content-Range", f"bytes {first}-{len(body) - 1}/{len(body)}")
        body = body[first:]
        sent, self.break_after = body[: self.break_after], None
        if self.chunked:
            request.send_header("Transfer-Encoding", "chunked")
            request.end_headers()
            end = b"\r\n0\r\n\r\n" if sent == body else b""
            request.wfile.write(f"{len(body):x}\r\n".encode() + sent + end)
        else:
            request.send_header("Content-Length", str(len(body)))
            request.end_headers()
            request.wfile.write(sent)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")  # loopback is not to be reached through one


@pytest.fixture
def site() -> Iterator[Site]:
    served = Site()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            served.answer(self)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield served
        server.shutdown()
        thread.join()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "place" / "data"


def archive(members: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, content in members.items():
            bundle.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


LONG = b"".join(b"%d::%d::%d::%d\n" % (n, n * n, n % 5, n**3) for n in range(5_000))
ARCHIVE = archive({"top/ratings.dat": LONG, "top/deep/notes.txt": b"notes"})
UNPACKED = {"ratings.dat": LONG, "deep/notes.txt": b"notes"}


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def of(*remotes: Remote) -> Dataset:
    """Return a dataset with these files; the rest of it does not matter here."""
    return Dataset(
        "invented", "Invented", "5", "none", "none", remotes, "*.dat", DATASETS["ml-1m"].read
    )


def served_at(site: Site, name: str, content: bytes, digest: str | None = None) -> Dataset:
    """Put a file on the site; without a digest its own one is expected."""
    site.files[name] = content
    return of(Remote(f"{site.url}/{name}", sha256(content) if digest is None else digest))


def files_in(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def download(dataset: Dataset, target: Path | str, **options: Any) -> dict[str, str]:
    """Fetch whatever is there: what is refused without a checksum has its own tests."""
    return fetch_dataset(dataset, target, **{"unchecked": True, **options})


def break_off(site: Site, dataset: Dataset, target: Path, after: int) -> None:
    """Have a transfer break off after some bytes."""
    site.break_after = after
    with pytest.raises(cp.DataError):
        download(dataset, target)
    assert not target.exists()


class TestWholeFile:
    def test_an_archive_is_unpacked_without_its_top_folder(self, site: Site, target: Path) -> None:
        digests = download(served_at(site, "a.zip", ARCHIVE), target)
        assert digests == {"a.zip": sha256(ARCHIVE)}
        assert files_in(target) == UNPACKED
        assert site.requests == [("a.zip", None)]

    @pytest.mark.parametrize(
        ("members", "expected"),
        [
            ("one.csv two/three.csv", "one.csv two/three.csv"),
            ("one.csv", "one.csv"),
            ("top/top/one.csv top/two.csv", "top/one.csv two.csv"),
            ("top/one.csv __MACOSX/top/._one.csv", "one.csv"),
        ],
        ids=["several at the top", "one file", "a folder named as its parent", "what a Mac adds"],
    )
    def test_members_keep_their_places(
        self, site: Site, target: Path, members: str, expected: str
    ) -> None:
        packed = archive({name: name[-6:].encode() for name in members.split()})
        download(served_at(site, "a.zip", packed), str(target))
        assert files_in(target) == {name: name[-6:].encode() for name in expected.split()}
        assert list(target.parent.iterdir()) == [target]

    def test_files_that_are_no_archives_keep_their_names(self, site: Site, target: Path) -> None:
        first = served_at(site, "ratings.dat", LONG)
        second = served_at(site, "reviews.json.gz", b"packed", "")
        digests = download(of(*first.remotes, *second.remotes), target)
        assert digests == {"ratings.dat": sha256(LONG), "reviews.json.gz": sha256(b"packed")}
        assert files_in(target) == {"ratings.dat": LONG, "reviews.json.gz": b"packed"}

    @pytest.mark.parametrize("chunked", [False, True])  # then the length is not known
    def test_progress_ends_at_the_whole(self, site: Site, target: Path, chunked: bool) -> None:
        calls, site.chunked = Calls(), chunked
        dataset = served_at(site, "a.zip", ARCHIVE)
        download(dataset, target, progress=lambda *call: calls.append(call))
        assert files_in(target) == UNPACKED
        assert calls[-1] == (len(ARCHIVE), None if chunked else len(ARCHIVE))
        assert [done for done, _ in calls] == sorted(done for done, _ in calls)

    @pytest.mark.parametrize("end", ["", "/"])
    def test_a_mirror_stands_in_for_the_official_address(
        self, site: Site, target: Path, end: str
    ) -> None:
        site.files["mirror/a.zip"] = ARCHIVE
        dataset = of(Remote("https://example.invalid/long/way/a.zip", sha256(ARCHIVE)))
        download(dataset, target, base_url=f"{site.url}/mirror{end}")
        assert files_in(target) == UNPACKED
        assert site.requests == [("mirror/a.zip", None)]

    def test_what_was_fetched_can_be_read(self, site: Site, target: Path) -> None:
        packed = archive({f"ml-1m/{name}": it for name, it in LAYOUTS["ml-1m"].items()})
        download(served_at(site, "ml-1m.zip", packed), target)
        assert "4 rows, 2 users, 3 items" in repr(read_dataset("ml-1m", target))


class TestBrokenTransfer:
    def test_the_next_call_goes_on_where_it_broke_off(
        self, site: Site, target: Path, refused: Refused
    ) -> None:
        dataset, calls = served_at(site, "a.zip", ARCHIVE), Calls()
        site.break_after = 1_000
        with refused(f"{site.url}/a.zip", f"1,000 of {len(ARCHIVE):,} bytes"):
            download(dataset, target)
        assert not target.exists()
        digests = download(dataset, target, progress=lambda *call: calls.append(call))
        assert site.requests == [("a.zip", None), ("a.zip", "bytes=1000-")]
        assert digests == {"a.zip": sha256(ARCHIVE)}
        assert files_in(target) == UNPACKED
        assert calls[0][0] > 1_000
        assert calls[-1] == (len(ARCHIVE), len(ARCHIVE))
        assert list(target.parent.iterdir()) == [target]

    @pytest.mark.parametrize(
        ("breaks", "ranges"),
        [((700, 700, 700), ["bytes=700-", "bytes=1400-", "bytes=2100-"]), ((0,), [None])],
        ids=["several times", "before the first byte"],
    )
    def test_it_may_break_off_anywhere(
        self, site: Site, target: Path, breaks: tuple[int, ...], ranges: list[str | None]
    ) -> None:
        dataset = served_at(site, "a.zip", ARCHIVE)
        for after in breaks:
            break_off(site, dataset, target, after)
        download(dataset, target)
        assert [wanted for _, wanted in site.requests] == [None, *ranges]
        assert files_in(target) == UNPACKED

    def test_a_server_without_ranges_starts_again(self, site: Site, target: Path) -> None:
        dataset, calls = served_at(site, "a.zip", ARCHIVE), Calls()
        break_off(site, dataset, target, after=1_000)
        site.understands_ranges = False
        digests = download(dataset, target, progress=lambda *call: calls.append(call))
        assert site.requests[-1] == ("a.zip", "bytes=1000-")
        assert digests == {"a.zip": sha256(ARCHIVE)}
        assert files_in(target) == UNPACKED
        assert calls[-1] == (len(ARCHIVE), len(ARCHIVE))

    def test_a_part_that_is_whole_needs_no_more_bytes(self, site: Site, target: Path) -> None:
        dataset = served_at(site, "a.zip", ARCHIVE)
        break_off(site, dataset, target, after=1_000)
        (part,) = target.parent.rglob("*.part")
        part.write_bytes(ARCHIVE)
        assert download(dataset, target) == {"a.zip": sha256(ARCHIVE)}
        assert site.requests[-1] == ("a.zip", f"bytes={len(ARCHIVE)}-")
        assert files_in(target) == UNPACKED

    def test_a_part_longer_than_the_file_is_not_taken_for_it(
        self, site: Site, target: Path
    ) -> None:
        dataset = served_at(site, "ratings.dat", LONG, digest="")
        break_off(site, dataset, target, after=1_000)
        site.files["ratings.dat"] = LONG[:500]
        with suppress(cp.DataError):  # starting again at once or with the next call are both right
            download(dataset, target)
        if not target.exists():
            download(dataset, target)
        assert files_in(target) == {"ratings.dat": LONG[:500]}

    def test_files_that_are_whole_already_are_not_fetched_again(
        self, site: Site, target: Path
    ) -> None:
        first = served_at(site, "one.dat", b"one")
        second = of(Remote(f"{site.url}/two.dat", sha256(b"two")))
        both = of(*first.remotes, *second.remotes)
        with pytest.raises(cp.DataError):
            download(both, target)
        site.files["two.dat"] = b"two"
        download(both, target)
        assert [name for name, _ in site.requests] == ["one.dat", "two.dat", "two.dat"]
        assert files_in(target) == {"one.dat": b"one", "two.dat": b"two"}

    def test_an_answer_in_chunks_may_break_off(
        self, site: Site, target: Path, refused: Refused
    ) -> None:
        dataset = served_at(site, "a.zip", ARCHIVE)
        site.chunked, site.break_after = True, 1_000
        with refused(f"{site.url}/a.zip"):
            download(dataset, target)
        assert not target.exists()
        download(dataset, target)
        assert files_in(target) == UNPACKED


class TestRefusedAddress:
    def test_a_missing_file_or_server_is_named_by_its_address(
        self, site: Site, target: Path, refused: Refused
    ) -> None:
        with refused(f"{site.url}/absent.zip", "404"):
            download(of(Remote(f"{site.url}/absent.zip")), target)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{free.getsockname()[1]}/a.zip"
        with refused(url):
            download(of(Remote(url)), target)
        assert not target.exists()

    @pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 abc\r\n\r\n"])
    def test_a_server_of_something_else_is_named_by_its_address(
        self, site: Site, target: Path, refused: Refused, answer: bytes
    ) -> None:
        site.raw_answer = answer
        with refused(f"{site.url}/a.zip"):
            download(of(Remote(f"{site.url}/a.zip")), target)
        assert not target.exists()

    @pytest.mark.parametrize(
        "base_url",
        ["mirror/files", "ftpx://host", "http://a b", "http://", "http://127.0.0.1:9/\n"],
    )
    def test_a_mirror_that_is_no_address_is_refused(
        self, target: Path, refused: Refused, base_url: str
    ) -> None:
        with refused(base_url.strip(), error=cp.ConfigError):
            download(of(Remote("https://example.invalid/a.zip")), target, base_url=base_url)
        assert not target.exists()

    @pytest.mark.parametrize(
        "url",
        ["ftp://127.0.0.1/a.zip", "file:///etc/passwd", "http://example.org/a.zip", "data:,x"],
    )
    def test_only_https_is_fetched(
        self, site: Site, target: Path, refused: Refused, url: str
    ) -> None:
        with refused(url, "by https"):
            download(of(Remote(url)), target)
        site.redirect = url
        with refused("edirection to ", url):
            download(of(Remote(f"{site.url}/a.zip")), target)
        assert not target.exists()

    def test_a_redirection_on_this_machine_is_followed(self, site: Site, target: Path) -> None:
        assert is_safe("http://[::1]:80/x")
        assert not is_safe("http://127.0.0.1.evil.org/x")
        assert not is_safe("http://localhost@evil.org/x")
        dataset = served_at(site, "a.zip", ARCHIVE)
        site.redirect = f"{site.url}/a.zip"
        with pytest.raises(cp.DataError, match="must answer with the whole file"):  # in a circle
            download(dataset, target)

    def test_a_file_without_a_checksum_needs_a_word(
        self, site: Site, target: Path, refused: Refused
    ) -> None:
        dataset = served_at(site, "a.zip", ARCHIVE, digest="")
        with refused("its checksum is known", "--unchecked", error=cp.ConfigError):
            fetch_dataset(dataset, target)
        assert site.requests == []
        assert fetch_dataset(dataset, target, unchecked=True) == {"a.zip": sha256(ARCHIVE)}

    def test_addresses_of_the_catalogue_are_safe_and_do_not_move(self) -> None:
        remotes = [remote for each in DATASETS.values() for remote in each.remotes]
        assert all(is_safe(remote.url) for remote in remotes)
        assert not [each.url for each in remotes if "/master/" in each.url or "/main/" in each.url]


class TestWrongContent:
    def test_a_wrong_checksum_is_refused_and_the_next_call_fetches_again(
        self, site: Site, target: Path, refused: Refused
    ) -> None:
        dataset = served_at(site, "a.zip", b"tampered with", digest=sha256(ARCHIVE))
        with refused("a.zip", sha256(ARCHIVE), sha256(b"tampered with")):
            download(dataset, target)
        assert not target.exists()
        site.files["a.zip"] = ARCHIVE
        download(dataset, target)
        assert site.requests == [("a.zip", None), ("a.zip", None)]
        assert files_in(target) == UNPACKED

    def test_a_file_that_changed_between_two_transfers_is_fetched_from_the_start(
        self, site: Site, target: Path
    ) -> None:
        dataset = served_at(site, "a.zip", ARCHIVE)
        site.files["a.zip"] = bytes(len(ARCHIVE))
        break_off(site, dataset, target, after=1_000)
        site.files["a.zip"] = ARCHIVE
        download(dataset, target)
        assert site.requests[-1] == ("a.zip", "bytes=1000-")
        assert site.conditions[-1] == f'"{sha256(bytes(len(ARCHIVE)))[:8]}"'
        assert files_in(target) == UNPACKED

    def test_a_server_that_ignores_the_condition_is_noticed(
        self, site: Site, target: Path, refused: Refused
    ) -> None:
        dataset = served_at(site, "ratings.dat", LONG, digest="")
        site.files["ratings.dat"] = bytes(len(LONG))
        break_off(site, dataset, target, after=1_000)
        site.files["ratings.dat"], site.honours_if_range = LONG, False
        with refused("another version than that of the bytes"):
            download(dataset, target)
        download(dataset, target)
        assert files_in(target) == {"ratings.dat": LONG}

    @pytest.mark.parametrize(
        ("versions", "condition"),
        [
            ({"ETag": '"x"', "Last-Modified": "Tue, 17 Nov 2026 08:00:00 GMT"}, '"x"'),
            (
                {"ETag": 'W/"x"', "Last-Modified": "Tue, 17 Nov 2026 08:00:00 GMT"},
                "Tue, 17 Nov 2026 08:00:00 GMT",
            ),
            ({"Server": "x"}, None),
        ],
    )
    def test_it_goes_on_only_where_versions_can_be_told_apart(
        self, site: Site, target: Path, versions: dict[str, str], condition: str | None
    ) -> None:
        dataset, site.versions = served_at(site, "a.zip", ARCHIVE), versions
        break_off(site, dataset, target, after=1_000)
        download(dataset, target)
        assert site.conditions == [None, condition]
        assert site.requests[-1] == ("a.zip", "bytes=1000-" if condition else None)
        assert files_in(target) == UNPACKED
        assert list(target.parent.iterdir()) == [target]

    def test_an_archive_that_would_fill_the_disk_is_refused(
        self, site: Site, target: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bomb = archive({"zeros.csv": bytes(50_000_000)})
        with refused("a.zip", "1 files of 50,000,000 bytes in all, where 100,000 and"):
            download(served_at(site, "a.zip", bomb), target)
        many = archive({f"{number}": b"" for number in range(20)})
        module = sys.modules["counterplay.data.datasets.download"]  # a function hides its name
        monkeypatch.setattr(module, "_MOST", 10)
        with refused("b.zip", "20 files of 0 bytes"):
            download(served_at(site, "b.zip", many), target)
        assert [path for path in target.parent.rglob("*") if path.is_file()] == []

    def test_a_member_that_announces_less_than_it_holds_is_refused(
        self, site: Site, target: Path, refused: Refused
    ) -> None:
        packed = bytearray(archive({"zeros.csv": bytes(100_000)}))
        for start, place in ((0, 22), (packed.rindex(b"PK\x01\x02"), 24)):
            packed[start + place : start + place + 4] = (10).to_bytes(4, "little")
        with refused("a.zip"):
            download(served_at(site, "a.zip", bytes(packed)), target)
        assert not target.exists()

    @pytest.mark.parametrize("digest", ["", None])
    def test_a_truncated_archive_is_refused_and_the_next_call_fetches_again(
        self, site: Site, target: Path, refused: Refused, digest: str | None
    ) -> None:
        dataset = served_at(site, "a.zip", ARCHIVE[:-200], digest)
        for _ in range(2):
            with refused("a.zip", "whole zip archive"):
                download(dataset, target)
            assert not target.exists()
        assert site.requests == [("a.zip", None), ("a.zip", None)]
        assert [path for path in target.parent.rglob("*") if path.is_file()] == []

    @pytest.mark.parametrize(
        ("local", "central"),
        [
            ((6, b"\x01"), (8, b"\x01")),
            ((8, b"\x63"), (10, b"\x63")),
            ((8, b"\x0c"), (10, b"\x0c")),
            ((8, b"\x0e"), (10, b"\x0e")),
            ((7, b"\x08\x08\0"), (9, b"\x08\x08\0")),
        ],
        ids=["encrypted", "unknown compression", "not bzip2", "not lzma", "name not UTF-8"],
    )
    def test_an_archive_that_cannot_be_unpacked_is_refused(
        self,
        site: Site,
        target: Path,
        refused: Refused,
        local: tuple[int, bytes],
        central: tuple[int, bytes],
    ) -> None:
        packed = bytearray(archive({"top/ratings.dat": LONG}).replace(b"top/", b"top\xff"))
        for start, (place, value) in ((0, local), (packed.rindex(b"PK\x01\x02"), central)):
            packed[start + place : start + place + len(value)] = value
        dataset = served_at(site, "a.zip", bytes(packed))
        with refused("a.zip"):
            download(dataset, target)
        assert not target.exists()

    @pytest.mark.parametrize("place", [60, 500, len(ARCHIVE) // 2])
    def test_damage_within_an_archive_is_refused_and_the_next_call_fetches_again(
        self, site: Site, target: Path, refused: Refused, place: int
    ) -> None:
        damaged = ARCHIVE[:place] + b"\xff" * 20 + ARCHIVE[place + 20 :]
        dataset = served_at(site, "a.zip", damaged, digest="")
        with refused("a.zip"):
            download(dataset, target)
        assert not target.exists()
        site.files["a.zip"] = ARCHIVE
        download(dataset, target)
        assert files_in(target) == UNPACKED

    def test_members_cannot_escape_from_the_target(
        self, site: Site, target: Path, tmp_path: Path
    ) -> None:
        members = {
            "top/good.csv": b"good",
            "../above.csv": b"bad",
            "top/../../../far.csv": b"bad",
            f"{tmp_path}/absolute.csv": b"bad",
        }
        download(served_at(site, "a.zip", archive(members)), target)
        assert set(files_in(tmp_path)) == {f"place/data/{name}" for name in files_in(target)}
        assert list(target.parent.iterdir()) == [target]
        assert files_in(target)["top/good.csv"] == b"good"

    def test_a_link_in_an_archive_leads_nowhere(
        self, site: Site, target: Path, tmp_path: Path
    ) -> None:
        link = zipfile.ZipInfo("out")
        link.create_system, link.external_attr = 3, 0o120777 << 16
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as bundle:
            bundle.writestr(link, str(tmp_path))
            bundle.writestr("one.csv", b"1")
        download(served_at(site, "a.zip", packed.getvalue()), target)
        assert not any(path.is_symlink() for path in target.rglob("*"))
        assert (target / "one.csv").read_bytes() == b"1"


class TestTarget:
    @pytest.mark.parametrize("file", ["data", "data/mine.txt"])
    def test_what_is_there_is_refused_before_anything_is_fetched(
        self, site: Site, target: Path, refused: Refused, file: str
    ) -> None:
        path = target.parent / file
        path.parent.mkdir(parents=True)
        path.write_text("mine")
        with refused(str(target), error=cp.ConfigError):
            download(served_at(site, "a.zip", ARCHIVE), target)
        assert site.requests == []
        assert files_in(target.parent) == {file: b"mine"}

    def test_an_empty_folder_is_filled(self, site: Site, target: Path) -> None:
        target.mkdir(parents=True)
        download(served_at(site, "a.zip", ARCHIVE), target)
        assert files_in(target) == UNPACKED
        assert list(target.parent.iterdir()) == [target]

    def test_the_empty_folder_one_stands_in_is_filled_or_refused(
        self, site: Site, target: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        target.mkdir(parents=True)
        monkeypatch.chdir(target)
        fetched: dict[str, bytes] = {}
        with suppress(cp.ConfigError):
            download(served_at(site, "a.zip", ARCHIVE), ".")
            fetched = UNPACKED
        assert files_in(Path()) == files_in(target) == fetched
