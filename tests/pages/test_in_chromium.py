"""Pages in a real browser: nothing complains, hover and keyboard work, filters filter, and a hostile archive runs no script."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("flask", reason="the extra serve is not installed")

from werkzeug.serving import make_server

from feinsum_fuse.archive import record
from feinsum_fuse.pages.browser.site import application
from feinsum_fuse.pages.comparison_page import page as compared
from feinsum_fuse.pages.report import page as written
from tests.archive.postgres import Server
from tests.archive.samples import measurement, product, tiled
from tests.pages.chromium import browser, watched
from tests.pages.hostile import NAMES
from tests.pages.test_report import matvecs, reported
from tests.report.test_comparison import comparison

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a report in whose names are scripts."""
    root = Path(__file__).resolve().parents[2]
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(written(reported(matvecs(root), labels=(" ".join(NAMES),), title=NAMES[0])))
    return file.as_uri()


@pytest.fixture(scope="module", params=["SQLite", "PostgreSQL"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an archive with a hostile message."""
    if request.param == "PostgreSQL":
        database = Server()
        request.addfinalizer(database.close)
        place = database.url()
    else:
        place = str(tmp_path_factory.mktemp("archive") / "facts.sqlite3")
    for factor in (4, 8):
        record(measurement(product(), tiled(factor=factor), median_ns=1e3 * factor), url=place)
    record(dataclasses.replace(measurement(outcome="crashed"), message=" ".join(NAMES)), url=place)
    server = make_server("127.0.0.1", 0, application(place), threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()


def test_a_report_is_drawn_and_answers_pointer_and_keyboard(chromium: Browser, report: str) -> None:
    page = chromium.new_page()
    complaints = watched(page)
    page.goto(report)
    page.wait_for_selector("figure.live .js-plotly-plot")
    assert page.locator("figure.live").count() == page.locator("figure").count()
    assert not page.locator("figure img").first.is_visible()
    loop = page.locator(".node.loop").first
    more = page.locator(".node.storage .more").first
    assert not more.is_visible()
    page.locator(".node.storage").first.hover()
    assert more.is_visible()
    loop.focus()
    assert page.locator("code.chosen").count() >= 1
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.node, .listing') !== null")
    page.emulate_media(media="print")
    assert page.locator("figure img").first.is_visible() and more.is_visible()
    assert complaints == []
    page.close()


def test_a_report_without_scripts_has_pictures_and_links(chromium: Browser, report: str) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report)
    assert page.locator("figure img").first.is_visible()
    link = page.locator(".node a").first
    line = link.get_attribute("href")
    link.click()
    assert page.url.endswith(line or "-") and page.locator(f"{line}:target").count() == 1
    context.close()


def test_an_archive_is_filtered_compared_and_runs_no_script(chromium: Browser, served: str) -> None:
    page = chromium.new_page()
    complaints = watched(page)
    page.goto(served)
    assert page.locator("tbody tr").count() == 3
    page.get_by_label("Outcome").select_option("ok")
    page.get_by_role("button", name="Search").click()
    assert page.locator("tbody tr").count() == 2
    for box in page.locator("input[type=checkbox]").all():
        box.check()
    page.get_by_role("button", name="Compare two").click()
    assert page.locator("tr.differs").count() > 2
    page.get_by_role("link", name="Failures by kind").click()
    assert NAMES[0] in page.locator("tbody").inner_text()
    page.locator("tbody a").first.click()
    page.locator("tbody a").first.click()
    page.wait_for_load_state("load")
    assert page.locator("img").evaluate("image => image.complete && image.naturalWidth > 0")
    assert complaints == []
    page.close()


def test_a_comparison_shows_the_mapping_under_the_pointer(chromium: Browser, tmp_path: Path) -> None:
    file = tmp_path / "comparison.html"
    file.write_text(compared(comparison([(10, 10), (0, 10), (30, 10)], NAMES[0])))
    page = chromium.new_page()
    complaints = watched(page)
    page.goto(file.as_uri())
    points = page.locator("svg .mapping")
    assert points.count() == 2 and not page.locator("#trees").is_visible()
    points.nth(1).hover()
    assert f"{NAMES[0]} 2: measured" in page.locator("#shown").inner_text()
    points.nth(0).focus()
    assert f"{NAMES[0]} 0: measured" in page.locator("#shown").inner_text()
    page.locator("tbody tr[data-place='1']").hover()
    assert f"{NAMES[0]} 1: measured" in page.locator("#shown").inner_text()
    assert complaints == []
    page.close()
    silent = chromium.new_context(java_script_enabled=False).new_page()
    silent.goto(file.as_uri())
    assert silent.locator("#trees article").nth(2).is_visible()
    silent.context.close()


def test_no_line_is_cut_off_in_print(chromium: Browser, report: str) -> None:
    page = chromium.new_page(viewport={"width": 300, "height": 1123})
    page.goto(report)
    page.emulate_media(media="print")
    wider = "elements => elements.filter(element => element.scrollWidth > element.clientWidth + 1).length"
    assert page.locator(".listing").count() > 0
    assert page.locator(".listing").evaluate_all(wider) == 0 and page.locator("pre").evaluate_all(wider) == 0
    page.close()
