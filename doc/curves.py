"""Draws ``doc/curves.svg``: ``python doc/curves.py``. The curves of the attention that :doc:`mapper` has as its example."""

from __future__ import annotations

from pathlib import Path

import feinsum_fuse as ff
from feinsum_fuse.mapper.curves import CURVE_KINDS
from feinsum_fuse.pages import figures
from feinsum_fuse.pages.picture import picture

SPEC = """
workload:
  rank_sizes: {HEAD: 4, M: 8, P: 8, E: 4, F: 4}
  bits_per_value: {All: 8}
  einsums:
  - 'T[head, m, p] = Q[head, m, e] * K[p, e]'
  - 'Z[head, m, f] = T[head, m, p] * V[p, f]'
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, leak_power: 0, area: 0, tensors: {keep: ~Intermediates, may_keep: All},
      actions: [{name: read, energy: 10, throughput: inf}, {name: write, energy: 10, throughput: inf}]}
  - !Memory {name: Buffer, size: 300, leak_power: 0, area: 0,
      actions: [{name: read, energy: 1, throughput: inf}, {name: write, energy: 1, throughput: inf}]}
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
"""

if __name__ == "__main__":
    spec = ff.loads(SPEC)
    Path(__file__).with_suffix(".svg").write_bytes(picture(figures.curves([ff.curve(spec, "Buffer", kind) for kind in CURVE_KINDS])))
