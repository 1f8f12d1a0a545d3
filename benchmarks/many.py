"""What a cascade of many different Einsums costs: ``python -m benchmarks.many [100 1000]`` prints processor seconds of each part.

The Einsums are chained, no two alike: products with rows of other lengths, functions, biases, scalings with other numbers.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from typing import TypeVar

import feinsum_fuse as ff
from feinsum_fuse.mappings.default_mapping import default_spec

T = TypeVar("T")


def chain(count: int) -> tuple[list[str], dict[str, int]]:
    """So many Einsums, and the sizes of their ranks."""
    draw, sizes, last, width = random.Random(count), {"M": 64, "N0": 16}, "T0", 0
    lines = []
    for number in range(count):
        row = f"{last}[m, n{width}]"
        last = f"T{number + 1}"
        kind = draw.randrange(4)
        if kind == 0:
            sizes[f"N{width + 1}"] = 16 + number * 7 % 301
            lines.append(f"{last}[m, n{width + 1}] = {row} * W{number}[n{width}, n{width + 1}]")
            width += 1
            continue
        bias = f"{row} * U{number}[m] - B{number}[n{width}] * {number + 2}"
        texts = [f"exp({row} * {0.25 + number}) + {number}", bias, f"{row} * {0.5 + number}"]
        lines.append(f"{last}[m, n{width}] = {texts[kind - 1]}")
    return lines, sizes


def seconds(name: str, what: Callable[[], T]) -> T:
    """Its result, and a line with its processor time."""
    start = time.process_time()
    result = what()
    print(f"  {name:<16}{time.process_time() - start:8.2f} s", flush=True)
    return result


def measure(count: int) -> None:
    """Print what each part costs for so many Einsums."""
    lines, sizes = chain(count)
    cascade = seconds("ff.cascade", lambda: ff.cascade(lines, sizes=sizes))
    workload = seconds("to YAML", lambda: ff.spec(cascade).to_yaml())
    seconds("from YAML", lambda: ff.loads(workload))
    spec = seconds("default mapping", lambda: default_spec(cascade))
    seconds("check", lambda: spec.replace())
    seconds("predict", lambda: ff.predict(spec))
    seconds("as text", lambda: repr(spec))
    seconds("keys", lambda: (cascade.key, cascade.structure_key))
    seconds("kernel", lambda: cascade.kernel())


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("counts", nargs="*", type=int, default=[100, 1000])
    ff.predict(default_spec(ff.cascade(["Z[m] = A[m]"], sizes={"M": 3})))
    for count in parser.parse_intermixed_args().counts:
        print(f"{count} Einsums")
        measure(count)


if __name__ == "__main__":
    main()
