"""The in-core term of a calibrated device: what bounds the innermost loops besides multiply-adds.

A multiply-add's rate is measured; what else the terms ask of a processor is in :mod:`~feinsum_fuse.model.processor`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ...formats.arch import Arch, Memory
from ...formats.opencl import PRIVATE_KINDS
from ...formats.relevance import Relevance, relevance
from ...formats.spec import Spec
from ..accelforge.component import throughput_of
from ..accelforge.einsum_model import CoreTerm
from ..accelforge.einsum_nest import EinsumNest, Holder, NestLoop
from ..accelforge.tile import Tiling, shapes_below, values
from ..processor import figure, operation_seconds
from ..quantity import Number, largest, product, value

FOR_OPERANDS = 2
"""Vector registers that accumulators leave to operands."""


def is_calibrated(spec: Spec) -> bool:
    """Whether the architecture was measured: it says what a launch costs, and what its components are on a device."""
    return spec.opencl is not None and spec.arch is not None and "launch_seconds" in spec.arch.variables


def core_term(spec: Spec) -> CoreTerm | None:
    """The term for an architecture that was measured; none for others, which AccelForge's formulas describe."""
    return (lambda nest, tiles: InCore(spec, nest, tiles).seconds) if is_calibrated(spec) else None


@dataclass(frozen=True)
class InCore:
    """One Einsum's innermost loops on one core."""

    spec: Spec
    nest: EinsumNest
    tiles: Tiling

    @property
    def seconds(self) -> Number:
        """The largest of the bounds; 0 for a copy, and for a compute unit without a rate."""
        action = self.nest.compute.action("compute")
        rate = throughput_of(self.nest.compute, action) if action is not None else math.inf
        if self.nest.einsum.is_copy_operation or not 0 < rate < math.inf:
            return 0
        arch = self.arch
        latency, load, store = (operation_seconds(arch, name, rate) for name in ("multiply_add_latency", "load", "store"))
        return largest([self.chained_steps * latency, self.loads * load, self.spills * store])

    @property
    def arch(self) -> Arch:
        """The architecture."""
        assert self.spec.arch is not None
        return self.spec.arch

    @property
    def steps(self) -> Number:
        """Operations of one core, all lanes of a vector together."""
        return self._trips(loop for loop in self.nest.loops if loop.fanout is None)

    @property
    def chained_steps(self) -> Number:
        """Operations one after another: each accumulator waits for its last addition, all the others go on meanwhile."""
        output = self.nest.einsum.outputs[0]
        loops = [loop for loop in self.nest.loops if loop.fanout is None and self._turns(loop)]
        reducing = [loop for loop in loops if relevance(output, loop.variable) is Relevance.NONE]
        if not reducing:
            return 0
        last = reducing[-1].index
        accumulators = self._trips(loop for loop in loops if loop.index > last)
        outside = max((loop.index for loop in loops if loop not in reducing and loop.index < last), default=-1)
        length = self._trips(loop for loop in reducing if loop.index > outside)
        return self.steps / largest([accumulators, figure(self.arch, "lookahead_operations") / length, 1])

    @property
    def loads(self) -> Number:
        """Load instructions of one core: what is fetched into registers, by vectors where the lanes need different values."""
        count: Number = 0
        for access in self.nest.einsum.inputs:
            holder = self._private(access.name)
            if holder is None:
                count = count + self.steps
                continue
            above = tuple(loop for loop in self.nest.loops if loop.index < holder.index and not self._lane(loop))
            tile = values(access, shapes_below(access, above, self.tiles))
            arrivals = self._trips(loop for loop in above if loop.fanout is None)
            count = count + tile * arrivals / self._lanes(access.name)
        return count

    @property
    def spills(self) -> Number:
        """Operations that load and store their accumulator, because the accumulators alive do not fit into the registers."""
        output = self.nest.einsum.outputs[0]
        holder = self._private(output.name)
        if holder is None:
            return 0
        above = tuple(loop for loop in self.nest.loops if loop.index < holder.index and not self._lane(loop))
        vectors = values(output, shapes_below(output, above, self.tiles)) / self._lanes(output.name)
        return np.where(np.greater(vectors, figure(self.arch, "vector_registers") - FOR_OPERANDS), self.steps, 0) + 0.0

    def _private(self, tensor: str) -> Holder | None:
        assert self.spec.opencl is not None
        kinds = self.spec.opencl.memories
        found = [h for h in self.nest.holders if h.tensor == tensor and isinstance(h.component, Memory)]
        return next((h for h in found if kinds.get(h.component.name) in PRIVATE_KINDS), None)

    def _lane(self, loop: NestLoop) -> bool:
        assert self.spec.opencl is not None
        kinds = self.spec.opencl.fanouts
        return loop.fanout is not None and "vector" in (kinds.get(loop.fanout[0]), kinds.get(".".join(loop.fanout)))

    def _lanes(self, tensor: str) -> Number:
        """Lanes that one vector of a tensor's values fills."""
        access = self.nest.access(tensor)
        return self._trips(loop for loop in self.nest.loops if self._lane(loop) and relevance(access, loop.variable) is not Relevance.NONE)

    def _turns(self, loop: NestLoop) -> bool:
        outer, tile = self.tiles.trips(loop)
        return bool(np.any(np.greater(outer, tile)))

    def _trips(self, loops: Iterable[NestLoop]) -> Number:
        return value(product(self.tiles.trips(loop) for loop in loops))
