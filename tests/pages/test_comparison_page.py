"""A comparison as a chart, and as a page that stands alone."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

import feinsum_fuse as ff
from feinsum_fuse.pages.comparison_page import page, scatter
from feinsum_fuse.pages.picture import picture
from tests.report.test_comparison import comparison

NASTY = "</title></pre><script>alert('&')</script>"


class _Reader(HTMLParser):
    """What a browser makes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_stands_alone_and_shows_each_mapping() -> None:
    found = comparison([(10, 10), (20, 100), (40, 20)])
    reader = _Reader()
    reader.feed(page(found))
    assert reader.addresses == []
    assert reader.tags.count("article") == 3
    assert reader.texts.count(found.judged[0].tree) == 3
    assert any("Spearman 0.50" in text for text in reader.texts)


def test_names_from_files_are_escaped() -> None:
    reader = _Reader()
    reader.feed(page(comparison([(10, 10), (20, 100)], NASTY)))
    assert reader.tags.count("script") == 1
    assert any(text.startswith(f"{NASTY} 0: measured 10 us, predicted 10 us") for text in reader.texts)


def test_the_chart_has_a_point_for_each_mapping_by_what_bounds_it() -> None:
    chart = scatter(comparison([(10, 10), (20, 100)], NASTY))
    first, *lines = chart.series
    assert [line.name for line in lines] == ["equal", "half", "twice"]
    assert first.name == "Main" and first.x == pytest.approx((1e-5, 1e-4)) and first.y == pytest.approx((1e-5, 2e-5))
    assert first.notes[0] == f"{NASTY} 0: measured 10 us, predicted 10 us (1.00), floor 1 us, bound by Main 75%, launches 25%"
    root = ElementTree.fromstring(picture(chart))
    group = next(item for item in root.iter("{http://www.w3.org/2000/svg}g") if item.get("id") == "comparison-0")
    assert len(list(group.iter("{http://www.w3.org/2000/svg}use"))) == 2
    assert picture(chart, "png").startswith(b"\x89PNG\r\n\x1a\n")


def test_a_mapping_that_has_no_place_on_the_axes_keeps_the_others_theirs() -> None:
    found = page(comparison([(10, 10), (0, 10), (30, 10)]))
    assert re.search(r'data-places="([^"]*)"', found)[1] == "[0, 2]"  # type: ignore[index]


def test_nothing_judged_is_no_picture() -> None:
    with pytest.raises(ff.Error, match="No mapping was both"):
        page(comparison([]))
