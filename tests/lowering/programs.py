"""Running a Spec's mapping on PoCL in a child process, where a crash or a hang is a result."""

from __future__ import annotations

import feinsum_fuse as ff
from feinsum_fuse.cascades.names import chosen_names
from feinsum_fuse.codegen.generation import OPTIONS, executable
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.checking.example import example
from feinsum_fuse.device.runtime.isolation import RunResult, run_isolated
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.schedule.tree.nest import Nest
from feinsum_fuse.schedule.tree.parallel import kernel_starts


def outcome(spec: Spec, options: tuple[str, ...] = OPTIONS) -> RunResult:
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
