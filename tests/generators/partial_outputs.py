"""Workloads whose points do not reach every element of an output: shifted, strided, cut and slanted accesses, and masks.

The elements that no point reaches hold the initial value.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random

from feinsum_fuse.formats.reading.load import loads
from feinsum_fuse.formats.workload import Workload

from .workloads import WorkloadKind

REDUCTIONS = ("{}", "{}", "max({})", "min({})", "any({})")
FORMS = ("shifted", "strided", "cut", "slanted")


@dataclass(frozen=True)
class PartialOutput(WorkloadKind):
    """One Einsum of this form with one or two reductions, and half of the time a second one that reads all of what it writes."""

    def sized(self, random: Random) -> Workload:
        length = random.choice((1, 3, 5, 6, 8))
        shift = random.randint(0, 3)
        window = random.randint(2, 3)
        index, reach = {
            "shifted": (f"p + {shift}", length - 1 + shift),
            "strided": (f"2*p + {shift}", 2 * length - 2 + shift),
            "cut": ("p", length - 1),
            "slanted": (f"p + r + {shift}", length + window - 2 + shift),
        }[self.name]
        sizes = {"M": reach + 1 + random.randint(0, 3), "N": random.choice((1, 2, 5)), "C": random.choice((1, 3, 4)), "K": 3}
        inner = "n, k" if random.random() < 0.5 else "n"
        operand = f"A[I: p, {inner}]" + (" * B[R: r]" if self.name == "slanted" else "")
        if random.random() < 0.3:
            operand = f"where({random.choice(('n <= p', 'p < 4', 'p + n < 5'))}, {operand}, 0)"
        other = random.choice(("", ", c"))
        if other:
            operand += " + D[n, c]"
        first = f"Y[M: {index}{other}] = {random.choice(REDUCTIONS).format(operand)}"
        bounds = {"p": f"0 <= p < {length}"} | ({"r": f"0 <= r < {window}"} if self.name == "slanted" else {})
        einsums = [first, f"Z[m{other}] = Y[m{other}] + 1"] if random.random() < 0.5 else [first]
        ranks = {"M", "N", *("C" if other else ""), *("K" if "k" in inner else "")}
        sizes = {rank: size for rank, size in sizes.items() if rank in ranks}
        document = {"rank_sizes": sizes, "bits_per_value": {"All": 32}, "iteration_space_shape": bounds, "einsums": einsums}
        return loads(json.dumps({"workload": document})).workload


PARTIAL_OUTPUTS = tuple(PartialOutput(form, (), "") for form in FORMS)
