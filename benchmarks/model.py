"""How fast the model is: medians and spread of single predictions, and the rate of predictions over arrays of tile shapes.

Run as ``python -m benchmarks.model``. Targets: three matrix products under 5 ms, a GPT layer under 30 ms, 100,000 assignments a second on
one core for a tree of three matrix products.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import statistics
import time
from collections.abc import Callable

import numpy as np

from feinsum_fuse import loads, predict, predict_many
from feinsum_fuse.formats.mapping import Temporal
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.model import predicted_seconds

from .fidelity.cases import DEVELOPED, Device

ARCH = """
arch:
  nodes:
  - !Memory {name: Main, size: inf, leak_power: 0, area: 0,
      actions: [{name: read, energy: 10, throughput: 1e12}, {name: write, energy: 10, throughput: 1e12}]}
  - !Memory {name: Buffer, size: inf, leak_power: 0, area: 0,
      actions: [{name: read, energy: 1, throughput: 1e13}, {name: write, energy: 1, throughput: 1e13}]}
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1e12}]}
"""

GPT = {
    "Q": "Q[b, m, h, e] = I[b, m, d] * WQ[d, h, e]",
    "K": "K[b, m, h, e] = I[b, m, d] * WK[d, h, e]",
    "V": "V[b, m, h, f] = I[b, m, d] * WV[d, h, f]",
    "QK": "QK[b, h, m, p] = Q[b, m, h, e] * K[b, M: p, h, e]",
    "SM": "SM[b, h, m, p] = exp(QK[b, h, m, p])",
    "AV": "AV[b, m, h, f] = SM[b, h, m, p] * V[b, M: p, h, f]",
    "Z": "Z[b, m, g] = AV[b, m, h, f] * WZ[h, f, g]",
    "FFA": "FFA[b, m, j] = Z[b, m, g] * W1[g, j]",
    "FFB": "FFB[b, m, k] = FFA[b, m, j] * W2[j, k]",
}
GPT_SIZES = "{B: 4, M: 256, P: 256, D: 512, H: 8, E: 64, F: 64, G: 512, J: 2048, K: 512}"
PRODUCTS = {f"T{i + 1}": f"T{i + 1}[m, n{i + 1}] = T{i}[m, n{i}] * W{i}[n{i}, n{i + 1}]" for i in range(3)}
PRODUCT_SIZES = "{M: 1024, N0: 512, N1: 512, N2: 512, N3: 512}"


def layered(einsums: dict[str, str], sizes: str) -> Spec:
    """Each Einsum on its own, its loops split in two around the buffer's holders."""
    text = f"workload:\n  rank_sizes: {sizes}\n  bits_per_value: {{All: 16}}\n  einsums:\n"
    text += "".join(f"  - '{einsum}'\n" for einsum in einsums.values())
    bare = loads(text)
    branches = ""
    for einsum in bare.workload.einsums:
        lines = [f"- !Temporal {{rank_variable: {v}, tile_shape: {min(16, bound)}}}" for v, bound in einsum.bounds.items()]
        lines.append(f"- !Storage {{tensors: [{', '.join(einsum.tensors)}], component: Buffer}}")
        lines += [f"- !Temporal {{rank_variable: {v}, tile_shape: 1}}" for v in einsum.bounds]
        lines.append(f"- !Compute {{einsum: {einsum.name}, component: MAC}}")
        branches += "    - !Nested\n      nodes:\n" + "".join(f"      {line}\n" for line in lines)
    tensors = ", ".join(bare.workload.tensors)
    head = f"mapping:\n  nodes:\n  - !Storage {{tensors: [{tensors}], component: Main}}\n  - !Sequential\n    nodes:\n"
    return loads(text + ARCH + head + branches)


def timed(run: Callable[[], object], repeats: int = 101) -> list[float]:
    """Milliseconds of each of so many runs, after one that warms up."""
    run()
    samples = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        samples.append((time.perf_counter() - start) * 1e3)
    return samples


def line(name: str, samples: list[float], unit: str, target: str) -> str:
    """Median and quartiles of samples."""
    low, middle, high = statistics.quantiles(samples, n=4)
    return f"{name:<42} {middle:12.4g} {unit}  (quartiles {low:.4g} to {high:.4g}; target {target})"


def rate(spec: Spec, count: int = 100_000, repeats: int = 9) -> list[float]:
    """Assignments a second, all outer loops varied."""
    assert spec.mapping is not None
    nodes = {placed.position: placed.node for path in spec.mapping.paths() for placed in path}
    loops = {place for place, node in nodes.items() if isinstance(node, Temporal) and node.tile_shape > 1}
    chance = np.random.default_rng(0)
    shapes = {place: 2 ** chance.integers(0, 8, count) for place in sorted(loops)}
    return [count / (ms / 1e3) for ms in timed(lambda: predict_many(spec, shapes), repeats)]


def candidates() -> dict[str, list[float]]:
    """Workload -> milliseconds of processor time in which its drawn mappings are lowered, legality included, and timed by the model."""
    device = Device("xeon_avx512")
    found: dict[str, list[float]] = {}
    for case in DEVELOPED:
        specs = device.mapped(case)
        predicted_seconds(specs[0])
        for spec in specs:
            start = time.process_time()
            predicted_seconds(spec)
            found.setdefault(case, []).append((time.process_time() - start) * 1e3)
    return found


def main() -> None:
    """Print the figures."""
    products, layer = layered(PRODUCTS, PRODUCT_SIZES), layered(GPT, GPT_SIZES)
    print(line("predict, three matrix products", timed(lambda: predict(products)), "ms", "5 ms"))
    print(line("predict, GPT layer (9 Einsums)", timed(lambda: predict(layer)), "ms", "30 ms"))
    for case, samples in candidates().items():
        print(line(f"a candidate of a search, {case}", samples, "ms", "10 ms"))
    print(line("predict_many, three products, 9 loops", rate(products), "/s", "100,000 /s"))


if __name__ == "__main__":
    main()
