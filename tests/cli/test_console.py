from __future__ import annotations

import io
import json
import re
import warnings
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

import counterplay as cp
from counterplay.cli import console


def terminal(width: int = 80) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, force_terminal=True, width=width, color_system=None), file


def test_nothing_moves_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with console.progress("reading", unit="rows") as bar, console.working("on it"):
        bar(5, 10)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("unit", ["rows", "bytes", "epochs"])
def test_progress_on_a_terminal(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    err, file = terminal(120)
    monkeypatch.setattr(console, "err", err)
    with console.progress("reading [bold]my[/bold] log", unit=unit) as bar:
        bar(3, 12)
        bar(12, 12)
    shown = file.getvalue()
    assert "reading [bold]my[/bold] log" in shown  # names of files are not markup
    assert ("12/12 bytes" if unit == "bytes" else f"12/12 {unit}") in shown


def test_without_a_terminal_there_is_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = [0.0]
    with console.progress("comparing", clock=lambda: now[0]) as bar:
        for seconds, done, more in (
            (0, 0, {}),
            (9, 10, {}),
            (10, 2_000, {}),
            (15, 3_000, {}),
            (20, 0, {"text": "training a", "unit": "epochs"}),
            (40, 5, {"text": "training a", "unit": "epochs", "left": 3_661.0}),
        ):
            now[0] = seconds
            bar(done, 50 if more else 4_000, **more)
        now[0] = 60
        bar(0, None, "reading b")
    assert capsys.readouterr().err.splitlines() == [
        "comparing: 2,000 of 4,000 rows, 200/s, 0:00:10 left",
        "training a: 0 of 50 epochs",
        "training a: 5 of 50 epochs, 4.0 s each, 1:01:01 left",
        "reading b",
    ]


def test_what_is_left_of_the_whole_is_shown_and_nothing_where_nothing_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    err, file = terminal(120)
    monkeypatch.setattr(console, "err", err)
    with console.progress("starting") as bar:
        bar(0, None, "reading the log", unit="")
        assert "/?" not in file.getvalue()
        bar(3, 50, "training erm", unit="epochs", left=125.4)
    assert "3/50 epochs" in file.getvalue()
    assert "0:02:05 left" in file.getvalue()


def test_work_of_unknown_length_shows_how_long_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    err, file = terminal()
    monkeypatch.setattr(console, "err", err)
    with console.working("checking"):
        pass
    assert "checking 0:00:00" in file.getvalue()
    assert "rows" not in file.getvalue()


@pytest.mark.parametrize(
    ("speed", "finished", "text"),
    [(None, None, "rows"), (12345.6, None, "rows, 12,346/s"), (0.25, None, "rows, 4.0 s each"),
     (2.0, 3.0, "rows, 3/s"), (0.0, None, "rows")],
)  # fmt: skip
def test_rates(speed: float | None, finished: float | None, text: str) -> None:
    task: Any = SimpleNamespace(speed=speed, finished_speed=finished)
    assert console._Rate("rows").render(task).plain == text


def test_an_interruption_of_what_can_go_on() -> None:
    with pytest.raises(console.Interrupted, match="again"), console.resumable("again"):
        raise KeyboardInterrupt
    with pytest.raises(ValueError, match="other"), console.resumable("again"):
        raise ValueError("other")


def test_pairs_are_whole_lines_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console.out, "_width", 80)
    value = "word " * 60 + "[red] :smile:"
    console.print_pairs({"name": value, "other": "x"})
    assert capsys.readouterr().out == f"name   {value}\nother  x\n"


def test_pairs_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    out, file = terminal(40)
    monkeypatch.setattr(console, "out", out)
    path = "/" + "x" * 100
    console.print_pairs({"written to": path, "popularity": "Gini 0.5"})
    lines = file.getvalue().splitlines()
    assert max(map(len, lines)) <= 40
    assert "popularity  Gini 0.5" in [line.rstrip() for line in lines]
    assert "".join(line.removeprefix("written to").strip() for line in lines[:-1]) == path


def test_a_table_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    out, file = terminal(80)
    monkeypatch.setattr(console, "out", out)
    names = ["a-run-with-a-very-long-name-indeed-that-somebody-gave", "b"]
    numbers = {f"column {n}": ["0.1234", "0.5678"] for n in range(6)}
    console.print_table("title", {"candidate": names} | numbers)
    lines = file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert sum("0.1234" in line for line in lines) == 1
    assert "…" not in file.getvalue()


EVIL = "a\x1b[2J\x07\x9b1m\u202eb\rc\x7f"
SHOWN = r"a\x1b[2J\x07\x9b1m\u202eb\rc\x7f"


def test_control_characters_are_shown_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    console.say(f"found '{EVIL}' [bold]x[/bold] :smile:")
    console.print_pairs({EVIL: f"{EVIL}\nsecond"})
    console.print_table(EVIL, {EVIL: [EVIL, "[red]x"]})
    console.out.print(EVIL)
    console.out.out(EVIL)
    tell = console.stages()
    tell(EVIL)
    with console.notes():
        warnings.warn(f"[b]{EVIL}\nx", cp.CounterplayWarning, stacklevel=1)
    out, err = capsys.readouterr()
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", out + err)
    assert out.count(SHOWN) == 7
    assert rf"{SHOWN}\nsecond" in out
    assert "[red]x" in out
    spaceless = " ".join(SHOWN.replace(r"\r", " ").split())  # a sentence is one line of words
    assert err == (
        f"counterplay: found '{spaceless}' [bold]x[/bold] :smile:\n{SHOWN}\n"
        rf"note: [b]{SHOWN}\nx" + "\n"
    )


def test_control_characters_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    out, file = terminal(200)
    monkeypatch.setattr(console, "out", out)
    monkeypatch.setattr(console, "err", out)
    console.print_pairs({"name": EVIL})
    console.print_table("t", {"name": [EVIL]})
    with console.progress(EVIL) as bar:
        bar(1, 2, f"{EVIL}2")
    with console.working(EVIL):
        pass
    assert "\x1b[2J" not in file.getvalue()
    assert file.getvalue().count(SHOWN) >= 4


def test_json_for_machines_is_the_value_and_has_no_controls(
    capsys: pytest.CaptureFixture[str],
) -> None:
    console.print_json({EVIL: [EVIL, "é\n"]})
    out = capsys.readouterr().out
    assert json.loads(out) == {EVIL: [EVIL, "é\n"]}
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", out)
    assert "é" in out
