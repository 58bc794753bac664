"""What is known of a public dataset: how to read it, where its files are, on what terms."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from counterplay.data.interactions import Interactions
    from counterplay.data.splits import Split


@dataclass(frozen=True, slots=True)
class Remote:
    """A file at its official address; without a known `sha256` it is fetched only if told to."""

    url: str
    sha256: str = ""

    @property
    def name(self) -> str:
        """The file's own name."""
        return self.url.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True)
class Dataset:
    """A public dataset: how to read it, where it is, on what terms."""

    name: str  # its name here
    title: str  # its full name
    rows: str  # published number of rows
    licence: str  # the terms in a few words; the source has them in full
    citation: str  # what to cite
    remotes: tuple[Remote, ...]  # where its files are
    marker: str  # a file or pattern that tells a folder of it from others
    read: Callable[..., Interactions | Split]  # from its folder (or file)
    first_line: str = ""  # how the marker begins, where its name is not enough
    subfolder: str = ""  # which of its folders to prepare, where it has several
    columns: str = ""  # what its rows say
    page: str = ""  # where to get it, where no address can be fetched

    def place(self, folder: Path) -> Path:
        """Return what to read of the `folder` that it was downloaded to."""
        return folder / self.subfolder if self.subfolder else folder

    @property
    def quick_start(self) -> tuple[str, str]:
        """The commands that go from nothing to a study."""
        folder = Path("data") / self.name
        unchecked = "" if all(remote.sha256 for remote in self.remotes) else " --unchecked"
        return (
            f"counterplay download {self.name} --out {folder}{unchecked}"
            if self.remotes
            else f"# get it from {self.page}, into {folder}",
            f"counterplay run {self.place(folder)} --out studies/{self.name}",
        )
