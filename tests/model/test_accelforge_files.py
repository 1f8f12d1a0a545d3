"""The committed counts of AccelForge's own files hold what is promised of them, and plain mappings are made for any architecture."""

from __future__ import annotations

import gzip
import json

import feinsum_fuse as ff
from benchmarks.accelforge_files import COMMIT, COUNTS, FIGURES, plain_mapping
from tests.formats.test_their_files import ARCH, TWO


def test_the_counts_are_of_the_figures() -> None:
    """95 % of what AccelForge loads; each of the rest is listed by its cause."""
    found = json.loads(COUNTS.read_text())
    rows = [json.loads(line) for line in gzip.decompress(FIGURES.read_bytes()).decode().splitlines()]
    counts = found["counts"]
    assert found["commit"] == COMMIT
    assert counts["loaded by AccelForge"] == sum(bool(row.get("loaded")) for row in rows)
    assert counts["loaded here"] >= 0.95 * counts["loaded by AccelForge"]
    assert counts["evaluated by AccelForge"] == sum("figures" in row for row in rows)
    unloaded = counts["loaded by AccelForge"] - counts["loaded here"]
    unlike = counts["evaluated by AccelForge"] - counts["predicted alike"]
    assert max(unloaded, unlike) <= sum(map(len, found["rest"].values())) <= unloaded + unlike


def test_a_plain_mapping_can_be_predicted() -> None:
    spec = ff.loads(TWO + ARCH)
    spec = spec.replace(mapping=plain_mapping(spec))
    assert ff.predict(spec).computes["T"] == 64
