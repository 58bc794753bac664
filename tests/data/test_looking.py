from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import counterplay as cp
from counterplay.data.looking import look, otherwise
from counterplay.data.preparation import Preparation, prepare

ORDERS = (
    "InvoiceNo;StockCode;Quantity;InvoiceDate;CustomerID\n"
    "1;a;2;12/1/2010 8:26;17850\n"
    "2;b;-1;12/13/2010 8:26;17851\n"
    "3;c;2;12/13/2010 8:28;\n"
    "4;a;0;12/14/2010 8:28;17851\n"
)


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    path = tmp_path / "orders.csv"
    path.write_text(ORDERS)
    return path


def test_a_look_says_what_was_understood(orders: Path) -> None:
    found = look(orders)
    assert (found.n_rows, found.n_users, found.n_items) == (4, 2, 2)
    assert found.columns == {
        "user": "CustomerID",
        "item": "StockCode",
        "rating": "Quantity",
        "time": "InvoiceDate",
    }
    assert found.not_taken == ("InvoiceNo",)
    assert found.file["separator"] == "';'"
    assert found.times is not None
    assert found.times.startswith("2010-12-01T08:26:00Z to 2010-12-14T08:28:00Z; dates in the form")
    assert found.question is not None
    assert "--drop-missing" in found.question
    assert "found 2 of 3 rows where column 'Quantity' is 0 or less" in found.question
    assert "--threshold 1" in found.question
    assert found.feedback == "to be said: numbers from -1 to 2"
    assert found.summary()["otherwise"] == found.command
    assert found.to_dict()["columns"]["user"] == "CustomerID"
    assert len(found.to_rows()) == 1
    assert "4 rows" in repr(found)


def test_answers_are_no_questions(orders: Path) -> None:
    plan = Preparation(drop_missing=True, threshold=1)
    found = look(orders, plan)
    assert found.question is None
    assert found.feedback == "clicks: the 1 rows of at least 1 are one each"
    assert look(orders, Preparation(drop_missing=True, rating="-")).question is None
    kept = look(orders, Preparation(drop_missing=True, feedback="ratings"))
    assert kept.question is None
    assert kept.feedback.startswith("ratings from -1 to 2")


def test_the_command_says_the_same_again(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(
        "uid;sku;stars;when\nZoë;a;3,5;31.12.2010\nb;b;4;01.01.2011\n".encode("cp1252")
    )
    first = look(path, Preparation(user="uid", item="sku", time="when"))
    assert first.command is not None
    words = shlex.split(first.command)[3:]
    names = [word.removeprefix("--").replace("-", "_") for word in words if word.startswith("--")]
    values = [word for word in words if not word.startswith("--")]
    given = dict(zip([name for name in names if name != "header"], values, strict=True))
    again = look(path, Preparation(**given, header="header" in names))  # type: ignore[arg-type]
    assert (again.columns, again.times, again.file) == (first.columns, first.times, first.file)
    assert again.feedback == first.feedback


@pytest.mark.parametrize("name", ["quote", "separator"])
def test_every_fact_of_a_text_file_has_its_option(name: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user|item\n'a'|'b'\n'c'|'d'\n")
    found = look(path)
    assert found.command is not None
    words = shlex.split(found.command)
    assert words[words.index(f"--{name}") + 1] == {"quote": "'", "separator": "|"}[name]


def test_a_frame_has_no_command() -> None:
    found = look(pl.DataFrame({"user": [1, 2], "item": [1, 2], "clicked": [1, 0]}))
    assert found.command is None
    assert found.feedback == "impressions, 1 of them clicked"
    assert found.summary()["times"] == "none"
    assert otherwise("x", None, ()) is None


def test_a_known_dataset_can_be_looked_at(tmp_path: Path) -> None:
    folder = tmp_path / "ml-20m"
    folder.mkdir()
    rows = "userId,movieId,rating,timestamp\n1,2,4.5,1000000000\n2,3,3.0,1000000001\n"
    (folder / "ratings.csv").write_text(rows)
    found = look(folder)
    assert found.columns == {"user": "user", "item": "item", "rating": "rating", "time": "time"}
    assert found.command is None


def log(**columns: object) -> pl.DataFrame:
    return pl.DataFrame({"user": [1, 1, 2, 2, 3], "item": list("abcab"), **columns})


NONE = Preparation(split="none")


@pytest.mark.parametrize("ratings", [[5, 0, 3, 2, 1], [5, -1, 3, 2, 1], [0, 0, 0, 0, 0]])
def test_ratings_of_0_or_less_are_asked_about(ratings: list[int]) -> None:
    frame = log(rating=ratings)
    with pytest.raises(cp.DataError, match=r"ratings must be above 0; found .*--feedback ratings"):
        prepare(frame, NONE)
    for answer in ({"feedback": "ratings"}, {"feedback": "clicks"}, {"rating": "-"}):
        made = prepare(frame, Preparation(split="none", **answer))  # type: ignore[arg-type]
        assert isinstance(made, cp.Interactions)
        assert len(made) == 5
    if max(ratings) > 0:
        assert len(prepare(frame, Preparation(split="none", threshold=1))) == 4  # type: ignore[arg-type]


def test_quantities_above_0_are_clicks_and_others_are_asked_about() -> None:
    made = prepare(log(Quantity=[1, 2, 3, 4, 5]), NONE)
    assert isinstance(made, cp.Interactions)
    assert made.rating is None
    assert "each row is a click, whatever its quantity in column 'Quantity'" in str(made.steps)
    with pytest.raises(cp.DataError, match="column 'Quantity' is 0 or less, the first at row 2"):
        prepare(log(Quantity=[1, -2, 3, 4, 5]), NONE)
    kept = prepare(log(qty=[1, -2, 3, 0, 5]), Preparation(split="none", threshold=1))
    assert len(kept) == 3  # type: ignore[arg-type]
    named = prepare(log(qty=[1, 2, 3, 4, 5]), Preparation(split="none", rating="qty"))
    assert isinstance(named, cp.Interactions)
    assert named.rating is not None
    words = prepare(log(quantity=["one", "two", "3", "4", "5"]), NONE)
    assert isinstance(words, cp.Interactions)
    assert words.rating is None  # it does not fit, and a step says so
    assert "column 'quantity' is not taken for rating" in str(words.steps)


def test_impressions_are_clicked_or_not_whatever_their_rating() -> None:
    frame = log(rating=[0, 1, 0, 2, 0], clicked=[0, 1, 0, 1, 0])
    split = prepare(frame, Preparation(split="random", validation=0, test=0))
    assert isinstance(split, cp.Split)
    assert len(split.interactions) == 2


def test_reading_alone_asks_nothing() -> None:
    rating = cp.read(log(rating=[0, -1, 2, 3, 4])).rating
    assert rating is not None
    assert rating.min() == -1
    assert np.isclose(rating.max(), 4)


def test_the_command_says_the_separator_of_the_file_itself(tmp_path: Path) -> None:
    path = tmp_path / "ratings.dat"
    path.write_text("1::7::4::978300760\n2::8::5::978302109\n2::9::3::978301968\n")
    with pytest.raises(cp.DataError, match="found '1::7::4::978300760', which looks like data"):
        look(path)
    found = look(path, Preparation(header=False))
    assert found.command is not None
    assert "--no-header --separator ::" in found.command
    assert look(path, Preparation(header=False, separator="::")).columns == found.columns


def test_the_finest_time_is_taken(tmp_path: Path) -> None:
    frame = {
        "user": [1, 2],
        "item": [3, 4],
        "date": ["2022-04-08"] * 2,
        "time_ms": [1649400000000] * 2,
    }
    assert look(frame).columns["time"] == "time_ms"


def test_kinds_of_events_that_are_taken_alike_are_said(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text(
        "visitorid,event,itemid,when\n1,view,2,2020-01-31T10:00:00Z\n3,buy,4,2020-01-31T10:01:00Z\n"
    )
    said = look(path, Preparation(time="when")).summary()
    assert said["not taken"] == "'event'; rows are taken whatever their 'event'"
    assert said["times"].endswith("; dates in ISO 8601")


def test_what_was_taken_is_said_once(orders: Path) -> None:
    said = look(orders).summary()
    assert sum("took user from 'CustomerID'" in text for text in said.values()) == 1
