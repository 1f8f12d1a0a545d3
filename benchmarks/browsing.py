"""How long the pages of an archive's browser take: ``python benchmarks/browsing.py [--facts N] [--url URL]``.

Without a URL the facts are made here: a few hundred are recorded, and their rows copied under other identifiers and dates. Prints the
processor time and the bytes of each page, the median of several.
"""

from __future__ import annotations

import argparse
import dataclasses
import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from feinsum_fuse.archive import record  # noqa: E402
from feinsum_fuse.pages.browser.application import application  # noqa: E402
from tests.archive.samples import HERE, measurement, product, tiled  # noqa: E402

REPEATS = 5


def fill(place: Path, facts: int) -> None:
    """An archive of so many facts, a tenth of them failures, with fifty samples each."""
    for number in range(200):
        cascade = product(8 * (1 + number % 10), 16, 8 * (1 + number % 7))
        outcome = "ok" if number % 10 else ("crashed", "build_failed", "wrong_result")[number % 3]
        device = dataclasses.replace(HERE, name=f"device {number % 5}")
        samples = [1000.0 + number + k for k in range(50)]
        record(measurement(cascade, tiled(factor=2 ** (number % 6)), samples=samples, outcome=outcome, device=device), url=str(place))
    with sqlite3.connect(place) as database:
        names = [row[1] for row in database.execute("PRAGMA table_info(measurements)")]
        copied = [name for name in names if name not in ("id", "fact", "date")]
        columns = ", ".join(copied)
        counter = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < ?)"
        database.execute(
            f"{counter} INSERT INTO measurements (fact, date, {columns}) "
            f"SELECT lower(hex(randomblob(16))), strftime('%Y-%m-%dT%H:%M:%S+00:00', '2026-01-01', '+' || n || ' minutes'), {columns} "
            "FROM c JOIN measurements ON measurements.id = 1 + n % 200",
            (facts - 200,),
        )


def main() -> None:
    """Print a line for each page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--facts", type=int, default=20_000)
    parser.add_argument("--url", default=None)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = given.url
        if url is None:
            place = Path(folder) / "facts.sqlite3"
            fill(place, given.facts)
            url = str(place)
            print(f"{given.facts} facts, {place.stat().st_size / 2**20:.0f} MiB")
        client = application(url).test_client()
        text = client.get("/").text
        fact = text.split('href="/facts/', 1)[1][:32]
        other = text.split('href="/facts/')[2][:32]
        pages = ["/", "/?outcome=crashed", "/?sizes=64+16", "/?order=fastest", "/?order=fastest&sizes=64", "/?page=300", "/failures"]
        pages += [f"/facts/{fact}", f"/facts/{fact}/history.svg", f"/facts/{fact}/kernel", f"/compare?fact={fact}&fact={other}"]
        structure = text.split('href="/?structure=', 1)[1][:64]
        for page in [*pages, f"/?structure={structure}&outcome=ok"]:
            seconds = []
            for _ in range(REPEATS):
                start = time.process_time()
                answer = client.get(page)
                seconds.append(time.process_time() - start)
            print(f"{statistics.median(seconds) * 1e3:8.1f} ms {len(answer.data):9,} bytes  {answer.status_code}  {page}")


if __name__ == "__main__":
    main()
