"""The page in a real browser: what a reader sees, does, and is spared."""

from __future__ import annotations

import re
import shutil
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from counterplay.report.page import SECTIONS, write_report
from counterplay.report.words import interval, metric, number
from counterplay.study.records import Findings

from .conftest import make_gallery, make_record, make_values

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
HOSTILE = (
    "<b>bold</b>",
    "<img src=x onerror=alert(1)>",
    '<a href="javascript:alert(1)">a</a>',
    "</script><script>alert(1)</script>",
)
DRAWN = ".drawing.js-plotly-plot"
BLUE = "rgb(0, 114, 178)"  # of the first series, in the light


@dataclass
class Opened:
    """A page, and everything that it should not have done."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def draw_all(self) -> int:
        """Scroll to every chart and wait for it."""
        drawings = self.page.locator(".drawing:visible")
        n = drawings.count()
        for place in range(n):
            drawings.nth(place).scroll_into_view_if_needed()
            self.page.locator(
                f"#{drawings.nth(place).get_attribute('id')}.js-plotly-plot"
            ).wait_for()
        return n


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    driver = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with driver.sync_playwright() as playwright:
        quiet = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=quiet)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Give the file of a report, written once for all tests."""
    folder = tmp_path_factory.mktemp("reports")

    def written(name: str, *arguments: Any) -> Path:
        file = folder / f"{name}.html"
        if not file.exists():
            write_report(make_record(*arguments), file)
        return file

    return written


@contextmanager
def opened(browser: Browser, file: Path, *, width: int = 1280, **options: Any) -> Iterator[Opened]:
    context = browser.new_context(viewport={"width": width, "height": 900}, **options)
    found = Opened(context.new_page())

    def heard(message: Any) -> None:
        if message.type in ("error", "warning"):
            found.complaints.append(message.text)

    def asked(dialog: Any) -> None:
        found.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    found.page.on("console", heard)
    found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
    found.page.on("dialog", asked)
    found.page.on("request", lambda request: found.requests.append(request.url))
    try:
        found.page.goto(file.as_uri())
        yield found
    finally:
        context.close()
    assert found.complaints == []
    assert found.requests == [file.as_uri()]


@pytest.fixture(scope="module")
def read(browser: Browser, report: Callable[..., Path]) -> Iterator[Opened]:
    """The whole report with all charts drawn, for tests that leave it as it was."""
    with opened(browser, report("whole")) as found:
        found.draw_all()
        yield found


def colours(page: Page, drawing: str) -> set[str]:
    """Return the colours of a drawing's marks."""
    marks = page.locator(f"{drawing} .points path").all()
    return {str(mark.evaluate("mark => getComputedStyle(mark).fill")) for mark in marks}


def test_everything_is_drawn_and_seen(read: Opened, tmp_path: Path) -> None:
    page = read.page
    for drawing in page.locator(".drawing").all():
        box = drawing.locator(".main-svg").first.bounding_box()
        assert box is not None
        assert box["width"] > 200
        assert abs(box["height"] - int(drawing.get_attribute("data-height") or 0)) < 2
        assert drawing.locator(".trace").count() > 0
    cut = page.evaluate(
        """() => [...document.querySelectorAll(".xtitle, .ytitle, .xtick, .ytick")].filter(text => {
            const own = text.getBoundingClientRect();
            const frame = text.closest(".drawing").getBoundingClientRect();
            return own.left < frame.left - 2 || own.right > frame.right + 12
                || own.bottom > frame.bottom + 2 || own.top < frame.top - 8;
        }).map(text => text.textContent)"""
    )
    assert cut == []
    picture = tmp_path / "report.png"
    page.screenshot(path=picture, full_page=True)
    assert picture.stat().st_size > 100_000


def test_the_tables_say_what_the_record_says(read: Opened, record: Findings) -> None:
    tables: dict[str, list[list[str]]] = read.page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll("table")].map(table => [
            table.caption.textContent,
            [...table.rows].map(row => [...row.cells].map(cell => cell.textContent)),
        ]))"""
    )
    for name, k in (("hit", 10), ("ndcg", 10), ("mrr", 10)):
        head, *rows = tables[metric(name, k)]
        found = {
            (row[0], re.sub(r"\d.*", "", column)): cell
            for row in rows
            for column, cell in zip(head[1:], row[1:], strict=True)
        }
        wanted = [each for each in record.estimates if each.key == (name, k)]
        assert len(wanted) == 16
        for each in wanted:
            cell = found[each.candidate, each.estimator].replace(" (best)", "")
            assert cell == number(each.value) + interval(each.low, each.high)
    for name, value in record.truth.items():
        rows = tables["Hit@10"]
        cell = next(row[-1] for row in rows if row[0] == name)
        assert cell.replace(" (best)", "") == number(value)
    rows = tables["Paired differences in Hit@10"][1:]
    assert record.evaluation is not None
    differences = {(row[0], row[1]): row[2:6] for row in rows}
    for one in record.evaluation.comparisons:
        if one.metric == "hit" and "acl" in (one.first, one.second):
            pair = f"{one.first} − {one.second}", one.estimator
            assert differences[pair][:3] == [
                number(one.value, "+"),
                interval(one.low, one.high, "+"),
                number(one.p),
            ]


def test_drawn_values_are_the_records(read: Opened, record: Findings) -> None:
    drawn = read.page.locator("#forest-2").evaluate(
        "drawing => drawing.data.flatMap(({x, y}) => x.map((value, i) => [y[i], value]))"
    )
    wanted = [
        each.value
        for each in record.estimates
        if (each.metric, each.estimator) == ("hit", "opponent")
    ]
    assert [value for _, value in sorted(drawn)] == wanted


def test_a_series_is_switched_off_and_on(read: Opened) -> None:
    page = read.page
    chart = page.locator("[data-chart=bands]")
    button = chart.get_by_role("button", name="erm", exact=True)

    def visible() -> list[list[bool]]:
        found: list[list[bool]] = chart.evaluate(
            "chart => [...chart.querySelectorAll('.drawing')].map("
            "  drawing => drawing.data.filter(t => t.visible !== false).map(t => t.meta === 1))"
        )
        return found

    assert all(any(panel) for panel in visible())
    marks = chart.locator(".points path").count()
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert not any(any(panel) for panel in visible())
    assert chart.locator(".points path").count() < marks
    button.focus()
    page.keyboard.press("Enter")
    assert button.get_attribute("aria-pressed") == "true"
    assert all(any(panel) for panel in visible())
    assert chart.locator(".points path").count() == marks


def test_a_chart_is_reached_and_read_by_keyboard(read: Opened) -> None:
    page = read.page
    page.mouse.move(0, 0)
    page.locator(".skip").focus()
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("() => document.activeElement.classList.contains('drawing')"):
            break
    focused = page.locator(".drawing:focus")
    assert focused.get_attribute("id") == "lead-0", "the picture comes first"
    page.locator("#forest-0").focus()
    focused = page.locator(".drawing:focus")
    assert "table below" in (focused.get_attribute("aria-label") or "")
    page.keyboard.press("ArrowRight")
    page.locator("#forest-0 .hovertext", has_text="erm0.29800.2771 to 0.3192").wait_for()
    assert page.locator("#spoken").inner_text() == "erm, 0.2980, 0.2771 to 0.3192"
    page.emulate_media(color_scheme="dark")  # draws everything again
    page.emulate_media(color_scheme="light")
    page.locator("#forest-0 .hovertext", has_text="erm0.29800.2771 to 0.3192").wait_for()
    page.keyboard.press("ArrowLeft")
    assert page.locator("#spoken").inner_text().startswith("pop, 0.3120")
    page.keyboard.press("Tab")
    assert page.locator(".drawing:focus").get_attribute("id") == "forest-1"


def test_light_and_dark(read: Opened) -> None:
    page = read.page
    paper = "() => getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper), colours(page, "#popularity-0")
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(paper), colours(page, "#popularity-0")
    page.emulate_media(color_scheme="light")
    assert light[0] != dark[0]
    assert BLUE in light[1]
    assert not light[1] & dark[1]
    assert colours(page, "#popularity-0") == light[1]


def test_charts_wait_until_they_come_near_or_go_on_paper(
    browser: Browser, report: Callable[..., Path]
) -> None:
    with opened(browser, report("whole"), color_scheme="dark") as found:
        page = found.page
        assert page.locator("#popularity-0.js-plotly-plot").count() == 0
        page.locator("#popularity-0").scroll_into_view_if_needed()
        page.locator("#popularity-0.js-plotly-plot").wait_for()
        assert 0 < page.locator(DRAWN).count() < page.locator(".drawing").count()
        closed = page.locator("details:not([open])").count()
        page.emulate_media(media="print")
        page.locator("html.printing").wait_for()
        assert page.locator(DRAWN).count() == page.locator(".drawing").count()
        assert page.locator("details:not([open]):not(.numbers)").count() == 0
        assert page.get_by_text("NDCG@10", exact=True).first.is_visible()
        assert page.evaluate("() => getComputedStyle(document.body).color") == "rgb(29, 29, 31)"
        assert BLUE in colours(page, "#popularity-0")
        page.emulate_media(media="screen")
        page.locator("html:not(.printing)").wait_for()
        assert page.locator("details:not([open])").count() == closed
        assert BLUE not in colours(page, "#popularity-0")
        assert page.pdf(format="A4").startswith(b"%PDF")


def test_a_phone_does_not_scroll_sideways(
    browser: Browser, report: Callable[..., Path], tmp_path: Path
) -> None:
    long = tuple(f"{'candidate_without_a_space_' * 2}{place}" for place in range(12))
    phone = {"width": 375, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}
    with opened(browser, report("phone", long, "x" * 200), **phone) as found:
        page = found.page
        for name in ("forest-0", "bands-0"):
            page.locator(f"#{name}").scroll_into_view_if_needed()
            page.locator(f"#{name}.js-plotly-plot").wait_for()
        width, room = page.evaluate("() => [document.documentElement.scrollWidth, innerWidth]")
        assert width <= room == 375
        page.evaluate("() => document.querySelectorAll('details').forEach(d => { d.open = true; })")
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 375
        page.evaluate("() => scrollTo(0, 0)")
        page.screenshot(path=tmp_path / "phone.png")
        page.locator("#choose-user").select_option("3")
        assert page.locator("#chosen-user h3").inner_text() == "User user 3"
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 375


def test_a_picture_comes_first_then_the_verdict(read: Opened) -> None:
    tops = [
        read.page.locator(each).first.bounding_box()
        for each in ("#lead-0", ".headline", ".who", "#reservations", "#next", "#map-0")
    ]
    places = [box["y"] for box in tops if box is not None]
    assert len(places) == 6
    assert places == sorted(places)
    assert read.page.locator("#lead-0").evaluate("drawing => drawing.data.length") >= 2


def test_any_user_is_found_by_id_with_the_keyboard_alone(
    browser: Browser, report: Callable[..., Path]
) -> None:
    with opened(browser, report("whole")) as found:
        page = found.page
        person = page.locator("#chosen-user")
        assert person.locator("h3").inner_text() == "User user 0"
        find = page.get_by_label("Find by id")
        find.focus()
        page.keyboard.type("R 3")
        assert person.locator("h3").inner_text() == "User user 3"
        assert page.locator("#found-users").inner_text() == "1 of 5 users of the sample"
        assert "The 8th (item-8)" in person.inner_text()
        assert person.locator(".hit").count() == 1
        cells = person.locator("tbody tr").nth(2).locator("td").all_inner_texts()
        assert [each.strip() for each in cells[1:4]] == ["The 7th (item-7)"] * 3
        for _ in range(3):
            page.keyboard.press("Backspace")
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.id") == "choose-user"
        page.keyboard.press("ArrowDown")
        assert person.locator("h3").inner_text() == "User user 1"
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.closest('#chosen-user') !== null")
        find.focus()
        page.keyboard.type("nobody")
        assert person.inner_text() == ""
        assert page.locator("#found-users").inner_text() == "0 of 5 users of the sample"


def test_a_wide_table_says_that_it_scrolls(browser: Browser, report: Callable[..., Path]) -> None:
    def tables(page: Page) -> list[tuple[bool, bool, str]]:
        found: list[tuple[bool, bool, str]] = page.evaluate(
            """() => [...document.querySelectorAll(".wide")].filter(each => each.checkVisibility())
                .map(each => [each.scrollWidth > each.clientWidth + 1,
                    each.classList.contains("scrolls"),
                    getComputedStyle(each.querySelector("caption"), "::after").content])"""
        )
        return found

    with opened(browser, report("whole"), width=375) as found:
        page = found.page
        page.locator("#estimates .scrolls").first.wait_for()
        narrow = tables(page)
        page.set_viewport_size({"width": 1280, "height": 900})
        page.locator("#estimates .wide:not(.scrolls)").first.wait_for()
        broad = tables(page)
        assert sum(wide for wide, _, _ in narrow) > sum(wide for wide, _, _ in broad)
        for wide, told, words in (*narrow, *broad):
            assert wide == told == ("scroll sideways" in words)
        page.set_viewport_size({"width": 375, "height": 900})
        page.locator("#estimates .scrolls").first.focus()
        page.keyboard.press("ArrowRight")
        page.wait_for_function("() => document.querySelector('#estimates .scrolls').scrollLeft > 0")


def test_everything_is_on_paper(browser: Browser, tmp_path: Path) -> None:
    pypdf = pytest.importorskip("pypdf", reason="pypdf is not installed")
    names = tuple(f"a rather long candidate {place}" for place in range(9))
    record = make_record(names)
    file = tmp_path / "paper.html"
    write_report(record, file)
    with opened(browser, file) as found:
        page = found.page
        found.draw_all()
        page.emulate_media(media="print")
        page.set_viewport_size({"width": 688, "height": 970})  # A4 without its margins
        page.locator("html.printing").wait_for()
        clipped = page.evaluate(
            """() => [...document.querySelectorAll("table")].filter(each => each.offsetWidth
                && each.getBoundingClientRect().right > innerWidth + 1)
                .map(each => each.caption.textContent)"""
        )
        assert clipped == []
        assert page.locator("details:not([open]):not(.numbers)").count() == 0
        page.emulate_media(media="null")
        paper = page.pdf(format="A4")
    (tmp_path / "paper.pdf").write_bytes(paper)
    pages = pypdf.PdfReader(tmp_path / "paper.pdf").pages
    text = "".join(each.extract_text() for each in pages)
    text = re.sub(r"\s+", "", unicodedata.normalize("NFKC", text))  # ﬀ is two letters
    sections = [make(record) for make in SECTIONS]
    assert None not in sections
    assert record.verdict is not None
    wanted = [text for each in sections if each for text in (each.title, each.reading)]
    wanted += [record.verdict.headline, "Configuration of the study", "MRR@10", "User user 4"]
    for said in wanted:
        assert re.sub(r"\s+", "", unicodedata.normalize("NFKC", said)) in text, said
    assert "Findbyid" not in text


def test_hostile_ids_are_shown_as_text(browser: Browser, tmp_path: Path) -> None:
    values = make_values()
    sample = make_gallery(("pop", "erm", "ps", "acl"), prefix=HOSTILE[3])
    sample |= {"names": [HOSTILE[1]] * 9, "items": list(HOSTILE[:1]) * 9}
    values["evaluation"]["diagnostics"]["gallery"] = sample
    file = tmp_path / "ids.html"
    write_report(Findings.model_validate(values), file)
    with opened(browser, file) as found:
        page = found.page
        page.locator("#choose-user").select_option("2")
        assert page.locator("#chosen-user h3").inner_text() == f"User {HOSTILE[3]}2"
        assert HOSTILE[1] in page.locator("#chosen-user").inner_text()
        assert page.locator("#users img, #users script, #users b b").count() == 0


def test_hostile_names_are_shown_as_text(browser: Browser, report: Callable[..., Path]) -> None:
    with opened(browser, report("hostile", HOSTILE, HOSTILE[1])) as found:
        page = found.page
        for name in ("popularity-0", "bands-0", "forest-0"):
            page.locator(f"#{name}").scroll_into_view_if_needed()
            page.locator(f"#{name}.js-plotly-plot").wait_for()
        assert page.locator("h1").inner_text() == HOSTILE[1]
        labels = page.locator("#forest-0 .ytick text").all()
        shown = [re.sub(r"\s", "", label.text_content() or "") for label in labels]
        assert shown == [re.sub(r"\s", "", name) for name in HOSTILE]
        page.locator("#forest-0").focus()
        for name in (*HOSTILE[1:], HOSTILE[0]):  # the best one is drawn last
            page.keyboard.press("ArrowRight")
            page.locator("#forest-0 .hovertext", has_text=name).wait_for()
            assert page.locator("#spoken").inner_text().startswith(f"{name}, 0.")
        assert tuple(page.locator("[data-chart=bands] button").all_inner_texts()) == HOSTILE
        assert page.locator("img, a[href^=javascript], .drawing a").count() == 0


def test_without_a_script_the_numbers_are_there(
    browser: Browser, report: Callable[..., Path]
) -> None:
    with opened(browser, report("whole"), java_script_enabled=False) as found:
        page = found.page
        assert page.get_by_text("The charts cannot be drawn here").is_visible()
        assert not page.locator(".panels, .legend").first.is_visible()
        assert not page.locator(".chooser").is_visible()
        assert page.get_by_text("User user 4").is_visible()
        page.locator("[data-chart=forest] summary").click()
        assert page.locator("[data-chart=forest] td", has_text="0.0571").is_visible()


def test_a_report_of_one_run(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "run.html"
    write_report(Findings(name="shop", runs=make_record().runs[-1:]), file)
    with opened(browser, file) as found:
        assert found.draw_all() == 5
        rules = found.page.locator("#training-0-0 .shapelayer path").count()
        assert rules == 1, "the epoch that was kept is marked"
