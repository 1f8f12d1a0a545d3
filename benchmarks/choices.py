"""Which choice of a default mapping, changed alone, is faster: ``python -m benchmarks.choices "Z[m, n] = A[m, n] * x[m]" M=2000 N=999``.

Every option of every choice that the rules took is tried with all others as they are, and the cascade as it was written beside its default
rewriting. All kernels are timed in turns in one process. An option that is faster shows a rule that does not fit this workload: try it
on workloads that no rule was made for. Several Einsums are several arguments.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Iterator

import pyopencl as cl

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.device.catalogue import find_device, target
from feinsum_fuse.device.timing.timing import time_together
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.mappings.choices import Chooser, Given, Noted
from feinsum_fuse.mappings.default_mapping import default_space
from feinsum_fuse.mappings.family import Family
from feinsum_fuse.mappings.forms.joined_axes import with_joined_axes
from feinsum_fuse.mappings.forms.suited import suited
from feinsum_fuse.presentation import table
from feinsum_fuse.schedule.target import Target

from .fidelity.measuring import Runnable

SLOW = 1.1
"""Kernels that took so many times as long as the default's in a first run are not timed again."""
FASTER = 1.1
"""An option is shown if its quartile is so many times as fast."""
RUNS = 15


def changed(cascade: Cascade, processor: Target) -> Iterator[tuple[str, Spec]]:
    """The default mapping, then those with one choice changed, each with what was changed."""
    fitting = suited(with_joined_axes(cascade, processor), processor)
    family = Family(default_space(fitting, target=processor), processor, outputs=fitting.outputs)
    noted = Noted(next(iter(family.fallbacks())))
    yield "default", family.spec.replace(mapping=family.mapping(noted))
    if fitting.rewritings:
        plain = Family(default_space(cascade, target=processor), processor, outputs=cascade.outputs)
        yield "as it was written", _mapped(plain, next(iter(plain.fallbacks())))
    for choice in noted.choices:
        for option in choice.options:
            if option != noted.taken[choice.name]:
                yield f"{choice.name} = {option}", _mapped(family, Given({choice.name: option}))


def _mapped(family: Family, chooser: Chooser) -> Spec:
    return family.spec.replace(mapping=family.mapping(chooser))


def runnable(cascade: Cascade, device: cl.Device) -> dict[str, Runnable]:
    """What was changed -> its kernel, for texts that differ; mappings that the device cannot have are left out."""
    found: dict[str, Runnable] = {}
    texts: set[str] = set()
    for name, spec in changed(cascade, target(device)):
        try:
            program = ff.compile(spec, device)
        except ff.Error:
            continue
        if program.source not in texts:
            texts.add(program.source)
            found[name] = Runnable(program.executable.to_json(), device)
    return found


def _once(program: Runnable) -> float:
    program.run(1)
    start = time.perf_counter()
    program.run(1)
    return time.perf_counter() - start


def report(cascade: Cascade, device: cl.Device) -> str:
    """What is faster than the default mapping."""
    programs = runnable(cascade, device)
    once = {name: _once(program) for name, program in programs.items()}
    names = [name for name in programs if name == "default" or once[name] < SLOW * once["default"]]
    runs = [samples.host_ns for samples in time_together([programs[name] for name in names], repeats=RUNS)]
    quartiles = {name: statistics.quantiles(run, n=4)[0] for name, run in zip(names, runs, strict=True)}
    usual = quartiles["default"]
    faster = sorted((name for name in names if usual > FASTER * quartiles[name]), key=lambda name: quartiles[name])
    rows = [(name, f"{quartiles[name] * 1e-6:.3f} ms", f"{usual / quartiles[name]:.2f}") for name in ("default", *faster)]
    return f"{len(programs)} kernels\n{table(('changed alone', 'quartile', 'faster'), rows, numbers=2)}"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="+", help="Einsums, and sizes as RANK=NUMBER")
    parser.add_argument("--device", help="a part of a device's name")
    given = parser.parse_intermixed_args()
    warnings.simplefilter("ignore")
    sizes = dict(word.split("=") for word in given.words if "[" not in word)
    lines = [word for word in given.words if "[" in word]
    print(report(ff.cascade(lines, sizes={rank: int(size) for rank, size in sizes.items()}), find_device(given.device)))


if __name__ == "__main__":
    main()
