"""The variants of the benchmarked workloads are right at sizes that nothing divides, and at the smallest."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.variants import VARIANTS, Variant
from feinsum_fuse.device.catalogue import find_device
from tests.sweeps import SLOW

PRIMES = {"M": 13, "N": 7, "K": 11, "E": 5, "A": 5, "F": 3, "B": 11, "H": 2, "R": 3}
ONES = dict.fromkeys(PRIMES, 1)


@pytest.mark.parametrize(
    ("sizes", "default"),
    [(PRIMES, False), (PRIMES, True), (ONES, False)] + ([(ONES, True)] if SLOW else []),
    ids=lambda value: ("default" if value else "mapped") if isinstance(value, bool) else ("ones" if value is ONES else "primes"),
)
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: f"{variant.name}{variant.place}")
def test_variants_compute_what_they_say(variant: Variant, sizes: dict[str, int], default: bool) -> None:
    program = variant.program(find_device("portable"), sizes, default=default)
    generator = np.random.default_rng(5)
    inputs = {t: generator.uniform(0.5, 1.5, shape).astype(np.float32) for t, shape in program.input_shapes.items()}
    expected = program.cascade.reference(**inputs)
    for tensor, found in program(**inputs).items():
        np.testing.assert_allclose(found, expected[tensor], rtol=1e-4, atol=1e-5)
