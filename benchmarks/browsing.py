"""How long the pages of an archive's browser take: ``python benchmarks/browsing.py [--facts N] [--postgres] [--url URL]``.

Without a URL the facts are made here: a few hundred are recorded, and their rows copied under other identifiers and dates, in a file of
SQLite's or in a PostgreSQL server that is started for it. Prints the seconds by the clock (a server computes, too), those of this process,
and the bytes of each page, medians of several.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import create_engine, inspect, text

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from feinsum_fuse.archive import record  # noqa: E402
from feinsum_fuse.pages.browser.site import application  # noqa: E402
from tests.archive.postgres import Server  # noqa: E402
from tests.archive.samples import HERE, measurement, product, tiled  # noqa: E402

REPEATS = 5


COPIES = {
    "sqlite": (
        "lower(hex(randomblob(16)))",
        "strftime('%Y-%m-%dT%H:%M:%S+00:00', '2026-01-01', '+' || n || ' minutes')",
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < :count)",
    ),
    "postgresql": (
        "md5(random()::text || n)",
        "to_char(timestamp '2026-01-01' + n * interval '1 minute', 'YYYY-MM-DD\"T\"HH24:MI:SS\"+00:00\"')",
        "WITH c(n) AS (SELECT generate_series(1, :count))",
    ),
}
"""Dialect -> a fact's identifier, its date, and the numbers of the copies."""


def fill(url: str, facts: int) -> None:
    """An archive of so many facts, a tenth of them failures, with fifty samples each."""
    for number in range(200):
        cascade = product(8 * (1 + number % 10), 16, 8 * (1 + number % 7))
        outcome = "ok" if number % 10 else ("crashed", "build_failed", "wrong_result")[number % 3]
        device = dataclasses.replace(HERE, name=f"device {number % 5}")
        samples = [1000.0 + number + k for k in range(50)]
        record(measurement(cascade, tiled(factor=2 ** (number % 6)), samples=samples, outcome=outcome, device=device), url=url)
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:") if "://" in url else f"sqlite:///{url}")
    fact, date, numbers = COPIES[engine.dialect.name]
    copied = [column["name"] for column in inspect(engine).get_columns("measurements") if column["name"] not in ("id", "fact", "date")]
    columns = ", ".join(copied)
    rows = f"SELECT {fact}, {date}, {columns} FROM c JOIN measurements ON measurements.id = 1 + n % 200"
    text_of_it = f"INSERT INTO measurements (fact, date, {columns}) {numbers} {rows}"
    with engine.begin() as connection:
        connection.execute(text(text_of_it), {"count": facts - 200})


@contextmanager
def made(facts: int, *, postgres: bool) -> Iterator[str]:
    """The address of a new archive."""
    if postgres:
        server = Server()
        try:
            fill(server.url(), facts)
            yield server.url()
        finally:
            server.close()
        return
    with tempfile.TemporaryDirectory() as folder:
        fill(f"{folder}/facts.sqlite3", facts)
        yield f"{folder}/facts.sqlite3"


def show(url: str) -> None:
    """A line for each page."""
    client = application(url).test_client()
    page = client.get("/").text
    fact = page.split('href="/facts/', 1)[1][:32]
    other = page.split('href="/facts/')[2][:32]
    pages = ["/", "/?outcome=crashed", "/?sizes=64+16", "/?order=fastest", "/?order=fastest&sizes=64", "/?page=300", "/failures"]
    pages += [f"/facts/{fact}", f"/facts/{fact}/history.svg", f"/facts/{fact}/kernel", f"/compare?fact={fact}&fact={other}"]
    structure = page.split('href="/?structure=', 1)[1][:64]
    for asked in [*pages, f"/?structure={structure}&outcome=ok"]:
        clock, own = [], []
        for _ in range(REPEATS):
            start, before = time.perf_counter(), time.process_time()
            answer = client.get(asked)
            clock.append(time.perf_counter() - start)
            own.append(time.process_time() - before)
        times = f"{statistics.median(clock) * 1e3:8.1f} ms, {statistics.median(own) * 1e3:8.1f} here"
        print(f"{times} {len(answer.data):9,} bytes  {answer.status_code}  {asked}")


def main() -> None:
    """Make an archive, unless one is given, and show it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--facts", type=int, default=20_000)
    parser.add_argument("--postgres", action="store_true", help="in a PostgreSQL server of our own")
    parser.add_argument("--url", default=None)
    given = parser.parse_args()
    if given.url is not None:
        show(given.url)
        return
    with made(given.facts, postgres=given.postgres) as url:
        show(url)


if __name__ == "__main__":
    main()
