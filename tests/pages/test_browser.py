"""The browser of an archive: what it finds, that it only reads, and that nothing in a hostile archive becomes markup."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from pathlib import Path

import pytest

pytest.importorskip("flask", reason="the extra serve is not installed")

from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from feinsum_fuse.archive import import_facts, record
from feinsum_fuse.pages.browser.site import HEADERS, application, is_loopback
from tests.archive.postgres import Server
from tests.archive.samples import HERE, measurement, product, tiled
from tests.pages.documents import Elements
from tests.pages.hostile import NAMES
from tests.sweeps import SLOW

ELSEWHERE = dataclasses.replace(HERE, name="pthread-other", units=8)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Facts of two sizes, two devices, three schedules, and two failures of one kind."""
    place = str(tmp_path_factory.mktemp("archive") / "facts.sqlite3")
    small, large = product(8, 16, 24), product(64, 32, 48)
    for number, date in enumerate(("2026-01-01", "2026-01-02", "2026-01-03")):
        record(measurement(small, median_ns=1000.0 + number, date=f"{date}T00:00:00+00:00"), url=place)
    record(measurement(large, tiled(factor=4), median_ns=5.0, date="2026-02-01T00:00:00+00:00"), url=place)
    record(measurement(large, device=ELSEWHERE, median_ns=7.0, date="2026-02-02T00:00:00+00:00"), url=place)
    for _ in range(2):
        record(measurement(large, tiled(factor=16), outcome="crashed", date="2026-03-01T00:00:00+00:00"), url=place)
    return place


@pytest.fixture(scope="module")
def client(url: str) -> FlaskClient:
    return application(url).test_client()


def rows(answer: TestResponse) -> list[str]:
    """The facts of a list."""
    assert answer.status_code == 200
    return [item["value"] for item in Elements(answer.text).of("input") if item.get("type") == "checkbox"]


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", 7), ("?outcome=ok", 5), ("?outcome=crashed", 2), ("?sizes=64", 4), ("?sizes=64+32", 4), ("?sizes=8,16,24", 3), ("?sizes=4", 0),
        ("?device=pthread", 0), ("?order=fastest", 5), ("?page=2", 0), ("?stage=launch", 2),
    ],
)  # fmt: skip
def test_a_search_finds(client: FlaskClient, query: str, count: int) -> None:
    assert len(rows(client.get(f"/{query}"))) == count


def test_a_search_by_structure_and_device(client: FlaskClient) -> None:
    text = client.get("/").text
    devices = [item["value"] for item in Elements(text).of("option") if "pthread" in item.get("value", "")]
    assert len(devices) == 2
    assert len(rows(client.get("/", query_string={"device": next(name for name in devices if "other" in name)}))) == 1
    (structure,) = {item["value"] for item in Elements(text).of("option") if len(item.get("value", "")) == 64}
    assert len(rows(client.get("/", query_string={"structure": structure[:12]}))) == 7
    assert rows(client.get("/", query_string={"structure": "0" * 64})) == []


def test_orders(client: FlaskClient) -> None:
    newest, oldest, fastest = (rows(client.get(f"/?outcome=ok&order={order}")) for order in ("newest", "oldest", "fastest"))
    assert newest == oldest[::-1]
    assert "5 ns" in client.get(f"/facts/{fastest[0]}").text


@pytest.mark.parametrize("query", ["?structure=%22xyz", "?outcome=odd", "?sizes=a", "?page=0", "?order=x", "?sizes=9999999999999999999999"])
def test_what_is_no_search_is_said(client: FlaskClient, query: str) -> None:
    assert client.get(f"/{query}").status_code == 400


def test_a_fact_has_its_history_kernel_and_provenance(client: FlaskClient) -> None:
    fact = rows(client.get("/?sizes=8+16+24&order=oldest"))[0]
    found = Elements(client.get(f"/facts/{fact}").text)
    links = [item["href"] for item in found.of("a") if item["href"].startswith("/facts/")]
    assert len({link for link in links if not link.endswith("kernel")}) == 3
    assert "Split" in found.text and "loopy 2025.2" in found.text and "1 us" in found.text
    assert "__kernel void" in client.get(f"/facts/{fact}/kernel").text
    picture = client.get(f"/facts/{fact}/history.svg")
    assert picture.mimetype == "image/svg+xml" and "2026-01-02" in picture.text


def test_two_facts_side_by_side(client: FlaskClient) -> None:
    first, second = rows(client.get("/?order=fastest"))[:2]
    found = Elements(client.get(f"/compare?fact={first}&fact={second}").text)
    assert "5 ns" in found.text and "7 ns" in found.text
    assert len([item for item in found.of("tr") if item.get("class") == "differs"]) > 3
    assert client.get(f"/compare?fact={first}").status_code == 400


def test_failures_are_counted_by_kind(client: FlaskClient) -> None:
    found = Elements(client.get("/failures").text)
    assert "crashed launch" in found.text
    (link,) = [item["href"] for item in found.of("a") if "outcome=crashed" in item["href"]]
    assert len(rows(client.get(link))) == 2


def test_a_selection_is_exported_and_read_back(client: FlaskClient, tmp_path: Path) -> None:
    answer = client.get("/export.jsonl?outcome=ok&sizes=64")
    file = tmp_path / "facts.jsonl"
    file.write_bytes(answer.data)
    assert [json.loads(line)["measurement"]["outcome"] for line in answer.text.splitlines()] == ["ok", "ok"]
    assert import_facts(file, str(tmp_path / "other.sqlite3")).added == 2


def test_nothing_writes(client: FlaskClient, url: str) -> None:
    before = Path(url).read_bytes()
    paths = [rule.rule.replace("<fact>", "abcd") for rule in client.application.url_map.iter_rules()]
    for path in paths:
        for method in ("post", "put", "delete", "patch"):
            assert getattr(client, method)(path).status_code == 405
    assert Path(url).read_bytes() == before
    assert {method for rule in client.application.url_map.iter_rules() for method in rule.methods or ()} == {"GET", "HEAD", "OPTIONS"}


@pytest.mark.parametrize("path", ["/", "/failures", "/nowhere", "/facts/abcdef", "/facts/..%2f..", "/page.css", "/?page=x"])
def test_every_answer_has_the_headers(client: FlaskClient, path: str) -> None:
    answer = client.get(path)
    assert {name: answer.headers.get(name) for name in HEADERS if name != "Cache-Control"} == {
        name: value for name, value in HEADERS.items() if name != "Cache-Control"
    }
    assert Elements(answer.text).of("script") == [] and "Set-Cookie" not in answer.headers


def test_another_name_for_this_machine_is_refused(client: FlaskClient) -> None:
    assert client.get("/", headers={"Host": "elsewhere.example:8180"}).status_code == 400
    assert client.get("/", headers={"Host": "127.0.0.1:8180"}).status_code == 200
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "10.0.0.1", "host")] == [True] * 3 + [False] * 3


@pytest.mark.skipif(not SLOW, reason="runs with FEINSUM_FUSE_SLOW=1")
def test_a_server_answers_alike() -> None:
    server = Server()
    try:
        place = server.new_schema()
        for factor in (4, 8):
            record(measurement(product(), tiled(factor=factor)), url=place)
        record(measurement(outcome="crashed"), url=place)
        client = application(place).test_client()
        assert [len(rows(client.get(f"/{query}"))) for query in ("", "?sizes=64+32", "?sizes=6", "?order=fastest", "?outcome=crashed")] == [
            3, 3, 0, 2, 1,
        ]  # fmt: skip
        first, second = rows(client.get("/?order=fastest"))
        paths = (f"/facts/{first}", f"/facts/{first}/history.svg", f"/compare?fact={first}&fact={second}", "/failures", "/export.jsonl")
        assert [client.get(path).status_code for path in paths] == [200] * 5
    finally:
        server.stop("fast")


def test_an_archive_that_is_not_there_is_empty(tmp_path: Path) -> None:
    place = tmp_path / "none.sqlite3"
    assert rows(application(place).test_client().get("/")) == []
    assert not place.exists()


def test_an_archive_that_is_none_is_said(tmp_path: Path) -> None:
    place = tmp_path / "text.sqlite3"
    place.write_text("no database " * 100)
    answer = application(place).test_client().get("/")
    assert answer.status_code == 400 and "no SQLite database" in answer.text


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An archive whose every text is a hostile name."""
    place = str(tmp_path_factory.mktemp("hostile") / "facts.sqlite3")
    bad = " ".join(NAMES)
    device = dataclasses.replace(HERE, name=bad, driver=bad, vendor=bad, platform=bad, version=bad)
    for outcome in ("ok", "crashed"):
        made = dataclasses.replace(measurement(product(), outcome=outcome, device=device), stage=bad[:30], message=bad)
        record(made, url=place)
    with sqlite3.connect(place) as database:
        database.execute("UPDATE measurements SET origin = ?, mapping = ?, applicable = ?", (bad, bad, bad))
    return place


def test_a_hostile_archive_is_text(hostile: str) -> None:
    client = application(hostile).test_client()
    facts = rows(client.get("/"))
    assert len(facts) == 2
    single = [f"/facts/{fact}{part}" for fact in facts for part in ("", "/kernel")]
    for path in ("/", "/failures", f"/compare?fact={facts[0]}&fact={facts[1]}", *single):
        found = Elements(client.get(path).text)
        assert found.of("script") == [] and found.handlers() == [] and found.of("svg") == []
        assert [item for item in found.of("img") if not item["src"].startswith("/facts/")] == []
    assert "onerror=alert(1)" in Elements(client.get(f"/facts/{facts[0]}").text).text


@pytest.mark.parametrize("name", NAMES)
def test_what_an_address_says_is_text(client: FlaskClient, name: str) -> None:
    for path in ("/", "/compare"):
        found = Elements(client.get(path, query_string=dict.fromkeys(("structure", "device", "sizes", "stage", "fact"), name)).text)
        assert found.of("script") == [] and found.handlers() == [] and found.of("img") == []
    assert Elements(client.get("/", query_string={"device": name, "stage": name}).text).handlers() == []


def test_a_database_is_named_as_seen_from_here(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert url in application(url).test_client().get("/").text
    monkeypatch.chdir(Path(url).parent)
    found = application(url).test_client().get("/").text
    assert url not in found and "facts.sqlite3" in found
