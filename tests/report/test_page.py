from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterplay as cp
from counterplay.evaluation.records import EvaluationRecord
from counterplay.report.blocks import charts_of
from counterplay.report.page import SECTIONS, render, write_report
from counterplay.report.words import count, interval, metric, number
from counterplay.study.records import Findings

from .conftest import CANDIDATES, Values, make_record, make_values

VOID = {"meta", "link", "br", "input"}


class Page(HTMLParser):
    """What a browser would make of a page: its tags, references, cells and texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.references: list[str] = []
        self.cells: list[str] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")
        self.references += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if "td" in self.open or "th" in self.open:
            self.cells[-1] += data

    @property
    def text(self) -> str:
        return " ".join(self.texts)


def without_plotly(page: str) -> str:
    return re.sub(r'(?s)<script type="text/plain" id="plotly">.*?</script>', "", page)


def headings(page: str) -> list[str]:
    return re.findall(r"<h2>(.*?)</h2>", page)


def test_a_whole_record_has_every_chapter(record: Findings) -> None:
    page = render(record)
    assert headings(page) == [
        "With reservations",
        "Next steps",
        "At a glance: what each estimator says",
        "Where the lead holds",
        "Candidates by estimators",
        "Paired differences",
        "For whom the lead holds",
        "Look at users",
        "Beyond accuracy",
        "Sensitivity to exposure",
        "The online test",
        "Exposure",
        "The data",
        "How to get these numbers again",
        "Appendix: the game, epoch by epoch",
    ]
    assert len(page.encode()) < 6_000_000
    assert Page(page).open == []


def test_one_picture_then_words_then_reservations_then_charts(record: Findings) -> None:
    page = render(record)
    assert record.verdict is not None
    assert record.evaluation is not None
    drawings = [found.start() for found in re.finditer('class="drawing"', page)]
    places = [drawings[0], *(page.index(each) for each in (
        record.verdict.headline, "The candidates: what might be shipped",
        'id="reservations"', record.evaluation.notes[0], 'id="next"', 'id="glance"',
    )), drawings[1], *(page.index(each) for each in (
        'id="worst-case"', 'id="training"', 'id="people"', 'id="figures"', 'id="plotly"',
    ))]  # fmt: skip
    assert places[:8] == sorted(places[:8])
    assert places[8:] == sorted(places[8:])
    assert page.index('id="training"') > page.index('id="origin"'), "β is in an appendix"


@pytest.mark.parametrize("headline", ["Ship b.", "One. Two.", "One. Two. Three.", "A, 0.5 of b."])
def test_the_top_has_three_sentences_at_most(headline: str, values: Values) -> None:
    values["verdict"] |= {"headline": headline, "reservations": ["First.", "Second.", "Third."]}
    values["verdict"]["sentences"] = ["Says.", "Turns.", "Truly."]
    page = render(Findings.model_validate(values))
    top = page[page.index('<p class="headline"') :].partition("<details")[0]
    said = re.findall(r"<p.*?>(.*?)</p>", top)
    text = " ".join(said)
    assert len(re.findall(r"[.](?= |$)", text)) <= 3
    assert said[0] == headline
    for each in ("First.", "Second.", "Third.", "Turns.", "Truly."):
        assert page.count(f">{each}<") >= 1, "nothing is lost"


def test_next_steps_are_those_of_the_verdict_and_what_always_helps(values: Values) -> None:
    values["verdict"] |= {"next_steps": ["Still in the race: a, b."], "recommended": None}
    page = Page(render(Findings.model_validate(values))).text
    assert "Still in the race: a, b." in page
    assert "Test acl online" not in page
    assert "Look at what each candidate would show some users" in page
    assert "Test acl online" in Page(render(make_record())).text
    values["evaluation"]["diagnostics"]["gallery"] = None
    assert "Look at what each" not in Page(render(Findings.model_validate(values))).text


def test_a_reservation_stands_once_and_is_absent_where_there_is_none(values: Values) -> None:
    values["evaluation"]["notes"] *= 2
    page = render(Findings.model_validate(values))
    assert page.count("<li>opponent: 1% of the rows carry 8% of the weight</li>") == 1
    values["evaluation"]["notes"] = []
    assert "With reservations" not in render(Findings.model_validate(values))


def test_every_number_of_the_evaluation_is_there_as_text(record: Findings) -> None:
    cells = Page(render(record)).cells
    text = "\n".join(cells)
    assert record.evaluation is not None
    assert record.online is not None
    for each in record.evaluation.estimates:
        assert number(each.value) in text
        assert interval(each.low, each.high) in text
        assert f"{each.n:,} rows, {count(each.ess)} effective" in text
    for pair in record.evaluation.comparisons:
        assert number(pair.value, "+") in cells
        assert interval(pair.low, pair.high, "+") in cells
        assert pair.statement is None or pair.statement in cells
    for band in record.evaluation.bands:
        if band.metric == "hit":
            assert number(band.low) in cells
            assert number(band.high) in cells
    for arm in record.online.arms:
        for measure in arm.measures:
            assert interval(measure.low, measure.high) in cells
    for day in record.online.daily:
        assert day.difference is None or number(day.difference, "+") in cells
    for epoch in record.runs[-1].epochs:
        assert number(epoch.objective) in cells
        assert epoch.beta is not None
        assert number(epoch.beta[2]) in cells


def test_beyond_chance_is_said_where_p_says_it(record: Findings) -> None:
    """The interval says the same, so that no row contradicts itself."""
    assert record.evaluation is not None
    rows = record.evaluation.comparisons
    cells = Page(render(record)).cells
    for each in rows:
        place = cells.index(interval(each.low, each.high, "+"))
        decided = each.p <= 1 - each.level
        assert cells[place + 1 : place + 3] == [number(each.p), "yes" if decided else "no"]
        assert decided == ((each.low or 0) * (each.high or 0) > 0)
    assert {each.p for each in rows} == {0.0214, 0.1523}


def test_an_undecided_verdict_recommends_nobody_and_shows_who_leads(record: Findings) -> None:
    decided = Page(render(record)).text
    assert decided.count("would ship") == 3
    assert decided.count("puts first") == 2  # popularity, and in words below the chart
    values = make_values()
    verdict = values["verdict"]
    verdict |= {"decided": False, "recommended": None, "headline": "Undecided: so it is."}
    for each in verdict["choices"]:
        each["decided"] = False
    record = Findings.model_validate(values)
    text = Page(render(record)).text
    assert "Undecided: so it is." in text
    assert "would ship" not in text
    glance = text.split("At a glance: what each estimator says")[2]  # the first is a link
    assert "beyond chance" not in glance.split("Where the lead holds")[0]
    cells = Page(render(record)).cells
    pairs = [cell for cell in cells[cells.index("first − second") :] if " − " in cell]
    assert pairs[0] == "first − second"
    assert all(verdict["leader"] in pair for pair in pairs[1:4])


def test_what_is_said_at_the_top(record: Findings) -> None:
    text = Page(render(record)).text
    assert record.verdict is not None
    for each in (record.verdict.headline, *record.verdict.sentences):
        assert each in text
    assert "turns if exposure odds are off by more than 1.4×" in text
    assert "not told apart from ps (+0.0041)" in text
    assert "loses 65% of the best true value" in text
    assert text.count("✓") == 3
    assert text.count("✗") == 1


def test_how_to_get_it_again(record: Findings) -> None:
    text = Page(render(record)).text
    assert "\n".join(record.commands) in text
    for each in ("2.6.0", "n_users", "52,310", "2,114 repeated rows dropped", "sampled-100"):
        assert each in text
    assert "somewhere" not in text, "where the data lie on this machine is nobody's business"


def test_the_same_record_gives_the_same_bytes(values: Values, tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    file.write_text(json.dumps(values))
    code = (
        "import hashlib, json, sys; from counterplay.report.page import render; "
        "from counterplay.study.records import Findings; "
        "values = json.load(open(sys.argv[1], encoding='utf-8')); "
        "page = render(Findings.model_validate(values)); "
        "print(hashlib.sha256(page.encode()).hexdigest())"
    )
    hashes = {
        subprocess.run(
            [sys.executable, "-X", "utf8", "-c", code, file],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(hashes) == 1


def test_rendering_leaves_the_record_as_it_was(record: Findings) -> None:
    before = copy.deepcopy(record.to_dict())
    render(record)
    assert record.to_dict() == before


def test_nothing_is_fetched(record: Findings) -> None:
    page = render(record)
    references = Page(page).references
    assert all(each == "data:," or each.startswith("#") for each in references)
    rest = without_plotly(page)
    for each in ("http:", "https:", "url(", "@import", "//cdn"):
        assert each not in rest
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', page)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy[1]
    assert "script-src 'unsafe-inline'" not in policy[1]


@pytest.mark.parametrize("place", range(len(CANDIDATES)))
def test_runs_alone_are_a_report(place: int, record: Findings) -> None:
    run = record.runs[place]
    page = render(Findings(name="shop", runs=(run,)))
    assert headings(page) == [
        "How to get these numbers again", "Appendix: the game, epoch by epoch",
    ]  # fmt: skip
    assert "Nothing has been evaluated on test rows yet" in page
    assert "At a glance" not in page
    game = run.configuration.method == "acl"
    assert ("exposure loss" in page) == game
    assert ("It has nothing to learn." in page) == (run.parameters["candidate"] == 0)


def test_runs_with_an_evaluation_but_no_verdict(values: Values) -> None:
    """An evaluation need not have what evaluate does not write, nor what was not written once."""
    evaluation = values["evaluation"]
    for name in ("diagnostics", "notes"):
        del evaluation[name]
    for each in evaluation["comparisons"]:
        del each["flip"]
    given = {"name": "shop", "runs": values["runs"], "evaluation": evaluation}
    page = render(Findings.model_validate(given))
    assert "puts first" in page
    assert "would ship" not in page
    assert "✓" not in page
    assert "Exposure" not in headings(page)


def test_errors_are_better_when_smaller(record: Findings) -> None:
    assert record.evaluation is not None
    estimates = tuple(
        each.model_copy(update={"metric": "mse", "k": 0})
        for each in record.estimates
        if each.metric == "hit" and each.estimator == "standard"
    )
    evaluation = EvaluationRecord(dataset="x", part="test", configuration={}, estimates=estimates)
    page = render(Findings(name="x", evaluation=evaluation))
    least = min(each.value for each in estimates)
    assert re.findall(r'class="best"><b>(.*?)</b>', page) == [number(least)]
    assert metric("mse", 0) in page
    assert "MSE (in ratings, squared)" in page
    assert "from 0 to 1" not in page


def test_many_candidates_epochs_and_metrics_stay_below_the_limit() -> None:
    values = make_values(tuple(f"candidate {place}" for place in range(20)))
    evaluation = values["evaluation"]
    for name in ("estimates", "comparisons", "bands"):
        evaluation[name] = [each | {"k": k} for k in (10, 5, 20) for each in evaluation[name]]
    for run in values["runs"]:
        run["epochs"] = [
            run["epochs"][place % 40] | {"epoch": place, "candidate_loss": place / 7}
            for place in range(300)
        ]
    page = render(Findings.model_validate(values))
    assert len(page.encode()) < 6_000_000
    assert "6,821 more pairs and metrics, the first 2,000 of them" in page
    assert all(number(place / 7) in page for place in range(300))
    figures = re.search(r'(?s)id="figures">(.*?)</script>', page)
    assert figures is not None
    drawn = json.loads(figures[1])["training-0-0"]["data"][0]["x"]
    assert len(drawn) <= 122
    assert {0, 29, 299} <= set(drawn)


def test_a_candidate_looks_the_same_on_every_chart(values: Values) -> None:
    values["evaluation"]["diagnostics"]["popularity"]["recommended"].reverse()
    record = Findings.model_validate(values)
    charts = [chart for make in SECTIONS if (found := make(record)) is not None
              for chart in charts_of(found.blocks)]  # fmt: skip
    looks = {
        (each.name, each.place)
        for chart in charts
        for each in chart.series
        if chart.name in ("bands", "online-daily", "popularity", "deciles")
    }
    assert len(looks) == len(CANDIDATES)


@settings(max_examples=20)
@given(gone=st.sets(st.sampled_from(sorted(make_values().keys() - {"name"}))))
def test_any_part_may_be_missing(gone: set[str]) -> None:
    values = make_values()
    for name in gone:
        del values[name]
    assert Page(render(Findings.model_validate(values))).open == []


@settings(max_examples=15)
@given(st.data())
def test_any_diagnostic_may_be_empty(data: st.DataObject) -> None:
    values = make_values(("a",))
    lists = ("bands", "comparisons", "notes"), ("propensities", "by_decile", "calibration")
    for name in data.draw(st.sets(st.sampled_from(("segments", "gallery")))):
        del values["evaluation"]["diagnostics"][name]
    evaluation = values["evaluation"]
    for part, names in zip((evaluation, evaluation["diagnostics"]), lists, strict=True):
        for name in data.draw(st.sets(st.sampled_from(names))):
            part[name] = []
    if data.draw(st.booleans()):
        evaluation["diagnostics"]["popularity"]["recommended"] = []
    assert Page(render(Findings.model_validate(values))).open == []


@settings(max_examples=20)
@given(st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), min_size=1))
def test_no_name_becomes_markup(name: str) -> None:
    assert _tags(name) == _tags("a")


@cache
def _tags(text: str) -> list[str]:
    """Return the tags of a report in which everything has one name."""
    names = tuple(f"{text} {place}" for place in range(4))
    values = make_values(names, text)
    values["commands"] = values["steps"] = values["evaluation"]["notes"] = [text]
    values["configuration"] = {text: {text: [text]}}
    return Page(render(Findings.model_validate(values))).tags


@pytest.mark.parametrize("name", ["</script><script>alert(1)</script>", "<!--", "{{ 7 * 7 }}", "&"])
def test_names_are_shown_as_they_are(name: str) -> None:
    page = Page(render(make_record((name, "b", "c", "d"), name)))
    assert name in page.texts
    assert name in page.cells


def test_numbers_that_are_none(values: Values) -> None:
    for each in values["evaluation"]["estimates"]:
        each["low"] = each["high"] = None
    for each in values["evaluation"]["comparisons"]:
        each["low"] = each["high"] = None
        each["value"] = float("nan")
    page = render(Findings.model_validate(values))
    figures = re.search(r'(?s)id="figures">(.*?)</script>', page)
    assert figures is not None
    assert "NaN" not in figures[1]
    json.loads(figures[1])
    assert "nan" not in [cell.lower() for cell in Page(page).cells]


def test_half_a_character_is_no_reason_to_fail(tmp_path: Path) -> None:
    write_report(Findings(name="a\ud800b"), tmp_path / "report.html")
    assert "a?b" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_what_is_no_record_is_refused(values: Values, tmp_path: Path) -> None:
    with pytest.raises(cp.DataError, match=r"made of the record .*; found dict; give"):
        write_report(values, tmp_path / "report.html")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_written_whole_and_over_an_old_one(record: Findings, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    out.write_text("old")
    write_report(record, out)
    assert out.read_text(encoding="utf-8") == render(record)
    assert list(tmp_path.iterdir()) == [out]


def test_importing_it_loads_neither_torch_nor_plotly() -> None:
    heavy = {"torch", "polars", "plotly"}
    code = f"import sys, counterplay.report.page; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_impressions_are_shown_with_the_data(values: Values) -> None:
    assert "random rows" not in Page(render(Findings.model_validate(values))).cells
    values["profile"] |= {
        "n_organic": 12,
        "n_impressions": 70_000,
        "click_rate": 0.25,
        "position_range": (1.0, 4.5, 20.0),
        "n_random": 345,
    }
    page = Page(render(Findings.model_validate(values))).text
    for said in ("organic clicks", "70,000, 25", "1 to 20, mean 4.5", "random rows", "345"):
        assert said in page
