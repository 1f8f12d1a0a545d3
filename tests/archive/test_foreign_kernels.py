"""Random kernels of others under the default mapping: computed right, or refused by name."""

from __future__ import annotations

from collections import Counter

import loopy as lp
import numpy as np
import pyopencl as cl

import feinsum_fuse as ff
from feinsum_fuse.cascades.matching.match import match
from feinsum_fuse.codegen.executable import Argument
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.device.catalogue import DeviceInfo, find_device, target_of
from feinsum_fuse.device.program.runner import Runner
from feinsum_fuse.mappings.default_mapping import default_schedule
from tests.cascades.randomness import largest_error, queue
from tests.generators.foreign_kernels import ForeignKernel
from tests.sweeps import SEED, SLOW

COUNT = 200 if SLOW else 3
LEAST_COMPUTED = 0.6


def outcome(number: int, device: cl.Device) -> str:
    """``computed``, or why not; an assertion fails for a wrong value."""
    foreign = ForeignKernel(SEED + number)
    t_unit, inputs = foreign.kernel(), foreign.inputs()
    try:
        found = match(t_unit)
        target = target_of(DeviceInfo.of(device))
        schedule = default_schedule(found.cascade, target)
        transformed = schedule.apply(found.prepared, found.names, target=target)
        program = executable(transformed, target=target)
    except ff.Error as error:
        return f"{type(error).__name__}: {error.message}"
    expected = foreign.run(queue())
    rounded = in_single_precision(t_unit)
    # What a kernel does not write, it leaves as it was.
    untouched = {argument.name: _zeros(argument) for argument in program.outputs}
    results = Runner(program, device)(inputs, out=untouched)
    for name, value in expected.items():
        # Inputs are of magnitude 1 at most and sums have at most 300 terms.
        assert largest_error(results[name], value) < (1e-3 if name in rounded else 1e-10), (number, name)
    return "computed"


def in_single_precision(t_unit: lp.TranslationUnit) -> set[str]:
    """Arrays of float32, and those that are computed from them: sums of float32 are taken in it, also where results are float64."""
    kernel = lp.expand_subst(lp.infer_unknown_types(t_unit)).default_entrypoint
    found = {name for name, given in {**kernel.arg_dict, **kernel.temporary_variables}.items() if given.dtype.numpy_dtype == np.float32}
    for _ in kernel.instructions:  # as long as the longest chain of them
        found |= {name for insn in kernel.instructions if found & insn.read_dependency_names() for name in insn.assignee_var_names()}
    return found


def _zeros(argument: Argument) -> np.ndarray:
    memory = np.zeros(1 + sum((n - 1) * s for n, s in zip(argument.shape, argument.element_strides, strict=True)), argument.dtype)
    return np.lib.stride_tricks.as_strided(memory, argument.shape, [stride * memory.itemsize for stride in argument.element_strides])


def test_random_kernels_are_computed_right_or_refused_by_name() -> None:
    device = find_device("portable")
    outcomes = Counter(outcome(number, device) for number in range(COUNT))
    assert outcomes["computed"] >= LEAST_COMPUTED * COUNT, outcomes
