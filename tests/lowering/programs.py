"""Running a Spec's mapping on PoCL in a child process, where a crash or a hang is a result."""

from __future__ import annotations

import feinsum_fuse as ff
from feinsum_fuse.cascade.names import chosen_names
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.example import example
from feinsum_fuse.device.generation import OPTIONS, executable
from feinsum_fuse.device.isolation import Result, run_isolated
from feinsum_fuse.schedule.nest import Nest
from feinsum_fuse.schedule.parallel import kernel_starts
from feinsum_fuse.spec.spec import Spec


def outcome(spec: Spec, options: tuple[str, ...] = OPTIONS) -> Result:
    """What happens when the mapping is lowered and run on random data; errors of lowering are raised."""
    cascade = ff.cascade(spec)
    kernel = ff.lower(spec).apply(cascade.kernel())
    arrays = chosen_names(cascade).arrays
    program = executable(kernel, outputs=[arrays[tensor] for tensor in cascade.outputs], options=options)
    program = program.renamed({array: tensor for tensor, array in arrays.items()})
    trial = example(cascade)
    device = find_device("Portable")
    return run_isolated(program, trial.inputs, device, timeout_s=60, expected=trial.expected, tolerance=cascade.tolerance())


def nest_of(spec: Spec) -> Nest:
    """The tree that a mapping lowers to."""
    return ff.lower(spec).nest(ff.cascade(spec).kernel())


def kernels_of(nest: Nest) -> int:
    """How many kernels a nest makes."""
    return len(kernel_starts(nest)) + 1
