"""Running schedules of small cascades on PoCL: compiled without optimisation, which halves the time, except in the slow suite.

What a step means does not depend on it; kernels of whole mappings are compiled as users have them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache

import loopy as lp
import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.names import chosen_names
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.program.runner import Runner
from feinsum_fuse.device.runtime.loaded_executable import context_of
from feinsum_fuse.schedule.schedule import Schedule
from tests.sweeps import SLOW

Arrays = Mapping[str, np.ndarray]


@cache
def queue() -> cl.CommandQueue:
    """A queue on PoCL; its context lives as long as the process."""
    return cl.CommandQueue(context_of(find_device("Portable")))


def whole_numbers(cascade: Cascade, seed: int = 0) -> dict[str, np.ndarray]:
    """Inputs that are small whole numbers: sums and products of them are exact in any order."""
    generator = np.random.default_rng(seed)
    return {t: generator.integers(-3, 4, cascade.fixed_shape(t)).astype(cascade.tensors[t].dtype) for t in cascade.inputs}


def outputs_of(t_unit: lp.TranslationUnit, cascade: Cascade, inputs: Arrays) -> dict[str, np.ndarray]:
    """What a kernel computes into outputs that hold NaN (integers: 77) before."""
    names = chosen_names(cascade).arrays
    program = executable(t_unit, outputs=[names[tensor] for tensor in cascade.outputs])
    if not SLOW:
        program = dataclasses.replace(program, options=(*program.options, "-cl-opt-disable"))
    runner = Runner(program, find_device("Portable"))
    given = {names[tensor]: cla.to_device(queue(), np.ascontiguousarray(array)) for tensor, array in inputs.items()}
    results = {}
    for tensor in cascade.outputs:
        dtype = np.dtype(cascade.tensors[tensor].dtype)
        poison = np.full(cascade.fixed_shape(tensor), np.nan if dtype.kind in "fc" else 77, dtype)
        results[names[tensor]] = cla.to_device(queue(), poison)
    runner(given, out=results)
    return {tensor: results[names[tensor]].get() for tensor in cascade.outputs}


def run(cascade: Cascade, schedule: Schedule, inputs: Arrays) -> dict[str, np.ndarray]:
    """What the cascade's kernel computes after these steps."""
    return outputs_of(schedule.apply(cascade.kernel()), cascade, inputs)
