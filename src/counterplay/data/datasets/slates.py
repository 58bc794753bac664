"""MIND and the FINN.no slates: logs of lists that were shown, and what was clicked in them."""

from __future__ import annotations

import zipfile
from contextlib import ExitStack
from typing import IO, TYPE_CHECKING, Any, Unpack

import numpy as np
import polars as pl

from counterplay.data.assembly import Features, assemble
from counterplay.data.datasets.layouts import Reading, read_features
from counterplay.data.findings import Step, shortened
from counterplay.data.refusals import readable
from counterplay.data.scans import scan_separated
from counterplay.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from counterplay.data.formats import Progress
    from counterplay.data.interactions import Interactions

_BEHAVIORS = ("impression", "user", "time", "history", "shown")
_NEWS = ("id", "category", "subcategory", "title", "abstract", "url", "title_entities")
_LISTS = 1 << 15  # at a time; some hold a few hundred items
_TIME = "%m/%d/%Y %I:%M:%S %p"
_SLATES = ("userId", "click", "click_idx", "slate")
_USERS = 1 << 12  # at a time, of up to 500 items each
_NO_CLICK = 1  # the item that stands for none; 0 fills up


def read_mind(folder: Path, **how: Unpack[Reading]) -> Interactions:
    """Read MIND: `behaviors.tsv`, and categories from `news.tsv`.

    The lists were shuffled before they were published, so there are no positions. The column of
    earlier clicks has no times and is not read.
    """
    path = folder / "behaviors.tsv"
    with readable(path, "MIND behaviors"):
        rows = scan_separated(path, "\t", dict.fromkeys(_BEHAVIORS, pl.String), header=False)
        batches = (some for batch in rows.batches() for some in batch.iter_slices(_LISTS))
        names = [*_NEWS, "abstract_entities"]
        return assemble(
            _counted(_shown_news(batches, path), how.get("progress")),
            {role: role for role in ("user", "item", "time", "clicked")},
            item_features=read_features(
                folder / "news.tsv", names, ["id", "category", "subcategory"], "\t", n_optional=2
            ),
            order=how.get("order", "canonical"),
            name="mind",
            source=f"MIND: {path.parent.name}/{path.name}",
        )


def _shown_news(lists: Iterable[pl.DataFrame], path: Path) -> Iterator[pl.DataFrame]:
    n_lists = 0
    for some in lists:
        time = some["time"].str.to_datetime(_TIME, time_unit="us", strict=False)
        _refuse(
            time.is_null(), some["time"], n_lists, path, "times must be as 11/15/2019 8:55:22 AM"
        )
        shown = some.select("user", time, pl.col("shown").str.strip_chars().str.split(" "))
        flat = shown.explode("shown")
        parts = flat["shown"].str.extract_groups(r"^(.+)-([01])$").struct.unnest()
        wrong = pl.Series(parts["1"].is_null())
        if wrong.any():
            some_list = shown.with_row_index("row").explode("shown").filter(wrong)["row"].unique()
            wrong = pl.int_range(some.height, dtype=pl.UInt32, eager=True).is_in(
                some_list.to_list()
            )
            must = "what was shown must be as 'N1-0 N2-1', with what was clicked (1)"
            _refuse(wrong, some["shown"], n_lists, path, must)
        n_lists += some.height
        yield flat.select("user", "time", item=parts["1"], clicked=parts["2"] == "1")


def _refuse(bad: pl.Series, values: pl.Series, n_before: int, path: Path, must: str) -> None:
    if bad.any():
        place = int(bad.arg_true()[0])
        raise DataError(
            f"in MIND's '{path}' {must}; found {shortened(str(values[place]))} in line "
            f"{n_before + place + 1:,}; take the training or the validation part, or fetch it again"
        )


def read_finn(folder: Path, **how: Unpack[Reading]) -> Interactions:
    """Read the FINN.no slates: `data.npz`, and categories from `itemattr.npz`.

    Each user has up to 20 lists of up to 25 items, in the order in which they were shown, but
    without times: `order="file"` takes that order for the order of events.
    """
    path = folder / "data.npz"
    steps: list[Step] = []
    with readable(path, "FINN.no slates"):
        return assemble(
            _counted(_shown_items(path, steps), how.get("progress")),
            {role: role for role in ("user", "item", "position", "clicked")},
            item_features=_categories(folder / "itemattr.npz"),
            order=how.get("order", "canonical"),
            steps=steps,
            name="finn-slates",
            source=f"FINN.no slates: {path.name}",
        )


def _shown_items(path: Path, steps: list[Step]) -> Iterator[pl.DataFrame]:
    n_strange = 0
    for user, click, place, slate in _chunks(path):
        shown = slate > _NO_CLICK
        clicked = (slate == click[..., None]) & (np.arange(slate.shape[2]) == place[..., None])
        n_strange += int(((click > _NO_CLICK) & ~(clicked & shown).any(2)).sum())
        position = shown.cumsum(2)
        rows = np.broadcast_to(user[:, None, None], slate.shape)
        yield pl.DataFrame(
            {
                "user": rows[shown].astype(np.int64),
                "item": slate[shown].astype(np.int64),
                "position": position[shown].astype(np.int16),
                "clicked": clicked[shown],
            }
        )
    if n_strange:
        text = f"{n_strange:,} clicks are not where their list says; the lists have no click then"
        steps.append(Step("lists", text, {"strange": n_strange}))


def _chunks(path: Path) -> Iterator[tuple[NDArray[Any], ...]]:
    """Yield the arrays of some users at a time, as they are unpacked."""
    try:
        with ExitStack() as stack:
            archive = stack.enter_context(zipfile.ZipFile(path))
            files = [stack.enter_context(archive.open(f"{name}.npy")) for name in _SLATES]
            shapes, kinds = zip(*map(_header, files), strict=True)
            n, lists = shapes[0][0], shapes[1]
            if not (shapes[2] == lists == shapes[3][:2] and lists[0] == n and len(shapes[3]) == 3):
                raise DataError(
                    f"the arrays of '{path}' must be of the same users and lists; found the shapes "
                    f"{', '.join(map(str, shapes))}; fetch it again"
                )
            for begin in range(0, n, _USERS):
                some = min(_USERS, n - begin)
                yield tuple(
                    np.frombuffer(
                        file.read(some * int(np.prod(shape[1:])) * kind.itemsize), dtype=kind
                    ).reshape(some, *shape[1:])
                    for file, shape, kind in zip(files, shapes, kinds, strict=True)
                )
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise DataError(
            f"'{path}' must hold the arrays {', '.join(_SLATES)}; found {error}; fetch it again"
        ) from None


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return shape and type of the array that a file begins with."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0
    shape, fortran, kind = (read if version == (1, 0) else np.lib.format.read_array_header_2_0)(
        file
    )
    if fortran or kind.kind not in "iu":
        raise ValueError(f"an array of type {kind} that is not one of whole numbers, row by row")
    return shape, kind


def _categories(path: Path) -> Features | None:
    if not path.exists():
        return None
    with readable(path, "FINN.no item"), np.load(path, allow_pickle=False) as arrays:
        category = np.asarray(arrays["category"]).ravel()
    frame = pl.DataFrame({"id": np.arange(len(category)), "category": category})
    return Features(frame.with_columns(pl.col("category").cast(pl.String)), "id")


def _counted(batches: Iterable[pl.DataFrame], progress: Progress | None) -> Iterator[pl.DataFrame]:
    done = 0
    for batch in batches:
        done += batch.height
        yield batch
        if progress:
            progress(done, None)
