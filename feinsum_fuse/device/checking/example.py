"""Random inputs for a cascade on which its results can be judged, with those results."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from ...cascades.cascade import Cascade
from ...cascades.maps import is_fractional, primitive
from ...cascades.reference.jumps import JumpsInParts, leanings
from ...cascades.reference.parts import Parts, parts
from ...cascades.reference.reference import held_bytes
from ...cascades.terms import Einsum
from ...errors import DeviceError
from ...formats.language.reductions import ADD, REDUCTIONS
from ...number_types import kind_of, largest
from .verification import OutputComparison, Verification, verify

SEED = 20261
PERTURBATION = 1e-7
BLOCK = 1 << 20
"""Elements that are drawn at once, in float64, for inputs of whatever type."""
NO_INPUTS = "no random inputs were found on which the results are numbers and well-conditioned"
ILL_CONDITIONED = 1e-4
"""A relative change of an output by more than this under a relative change of the inputs by 1e-7 says nothing about a kernel."""


@dataclass(frozen=True)
class Example:
    """Input arrays in their element types, and the outputs in float64 (integers exactly), by tensor name."""

    inputs: dict[str, np.ndarray]
    expected: dict[str, np.ndarray]
    """Empty where the outputs are computed in parts when they are asked for."""
    others: tuple[dict[str, np.ndarray], ...] = ()
    """Outputs that are as right, since arguments of jumps lie within their errors (:func:`.leanings`)."""
    parts: Parts | None = None
    """Where the outputs are not held whole."""
    jumps: JumpsInParts | None = None
    """Of these, where there are any."""

    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Tensor -> its shape in the cascade, of those whose arrays here have another one (:meth:`shaped`)."""

    def shaped(self, shapes: Mapping[str, tuple[int, ...]]) -> Example:
        """The same numbers in arrays of these shapes, as views; names that are missing keep theirs."""
        inputs, expected = _viewed(self.inputs, shapes), _viewed(self.expected, shapes)
        others = tuple(_viewed(outputs, shapes) for outputs in self.others)
        own = {name: array.shape for name, array in self.inputs.items()}
        own |= {slabs.output: slabs.cascade.fixed_shape(slabs.output) for slabs in (self.parts.outputs if self.parts else ())}
        return dataclasses.replace(self, inputs=inputs, expected=expected, others=others, shapes=own)

    def judged(self, outputs: Mapping[str, np.ndarray], tolerance: Mapping[str, float] | float) -> Verification:
        """What a kernel computed of the inputs, compared with the reference."""
        if self.parts is None:
            return verify(outputs, self.expected, tolerance, self.others)
        inputs, outputs = _viewed(self.inputs, self.shapes), _viewed(outputs, self.shapes)
        found, known = [], self.parts.known(inputs)
        sides = self.parts.sides(inputs, self.jumps)
        for tiling in self.parts.outputs:
            allowed = tolerance[tiling.output] if isinstance(tolerance, Mapping) else tolerance
            comparison = OutputComparison(tiling.output, allowed)
            for slab in tiling.slabs():
                others = slab.alternatives(sides, self.jumps)
                corner = [low for low, _ in slab.region]
                comparison.add(outputs[tiling.output][slab.place], slab.elements(known), others, corner)
            found.append(comparison.error)
        return Verification(tuple(found))


def _viewed(arrays: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    return {name: array.reshape(shapes[name]) if name in shapes else array for name, array in arrays.items()}


def example(cascade: Cascade, seed: int = SEED, *, budget: int | None = None) -> Example:
    """:func:`whole_example`, or where its reference would hold more than ``budget`` bytes one in parts.

    Raises :class:`~feinsum_fuse.cascades.reference.slabs.NotSlicedError` where there are no parts of this size.
    """
    if budget is None or held_bytes(cascade) <= budget:
        return whole_example(cascade, seed)
    return _sliced_example(cascade, seed, budget)


@functools.lru_cache(maxsize=2)
def _sliced_example(cascade: Cascade, seed: int, budget: int) -> Example:
    cut = parts(cascade, budget)
    for lowest in (-1.0, 0.5):
        inputs = random_inputs(cascade, lowest, seed)
        jumps = JumpsInParts.of(cascade)
        with np.errstate(all="ignore"):
            if _are_telling(cascade, cut, inputs, jumps):
                for array in inputs.values():
                    array.flags.writeable = False
                return Example(inputs, {}, (), cut, jumps)
    raise DeviceError(NO_INPUTS)


def _are_telling(cascade: Cascade, cut: Parts, inputs: Mapping[str, np.ndarray], jumps: JumpsInParts | None) -> bool:
    """Whether outputs consist of numbers that their types can hold, and tiny changes of the inputs change little; jumps are noted."""
    known = cut.known(inputs, jumps)
    for tiling in cut.outputs:
        if not all(_representable(cascade, {tiling.output: slab.elements(known, jumps)}) for slab in tiling.slabs()):
            return False
    if _is_multilinear(cascade):
        return True
    changed, near = cut.known(_perturbed(inputs)), jumps and jumps.of_inexact_inputs(cascade, PERTURBATION)
    sides = cut.sides(inputs, near)
    for tiling in cut.outputs:
        comparison = OutputComparison(tiling.output, ILL_CONDITIONED)
        for slab in tiling.slabs():
            comparison.add(slab.elements(changed), slab.elements(known), slab.alternatives(sides, near))
        if not comparison.error.passed:
            return False
    return True


@functools.lru_cache(maxsize=2)
def whole_example(cascade: Cascade, seed: int = SEED) -> Example:
    """Random inputs with the reference's outputs; the arrays are shared by all who ask for the same cascade, and cannot be written.

    Inputs are drawn from [-1, 1), so that a wrong sign, a forgotten maximum or an initial value show. Where that makes a result infinite
    or ill-conditioned (logarithms, roots, quotients), from [1/2, 1) instead. Operands that are summed over are scaled by the number of
    terms, so that values neither vanish nor overflow along a long cascade. Raises :class:`~feinsum_fuse.errors.DeviceError` if the
    reference is no number on either.
    """
    for lowest in (-1.0, 0.5):
        inputs = random_inputs(cascade, lowest, seed)
        with np.errstate(all="ignore"):
            expected = cascade.reference(**inputs)
            if _representable(cascade, expected) and (_is_multilinear(cascade) or _well_conditioned(cascade, inputs, expected)):
                others = leanings(cascade, inputs)
                for arrays in (inputs, expected, *others):
                    for array in arrays.values():
                        array.flags.writeable = False
                return Example(inputs, expected, others)
    raise DeviceError(NO_INPUTS)


def random_inputs(cascade: Cascade, lowest: float, seed: int = SEED) -> dict[str, np.ndarray]:
    """Inputs drawn from [lowest, 1) and scaled by :func:`scales`; integers from -1..1 (0..1 unsigned)."""
    generators = np.random.default_rng(seed).spawn(len(cascade.inputs))
    factors = scales(cascade, lowest)
    result = {}
    for tensor, generator in zip(cascade.inputs, generators, strict=True):
        drawn = np.empty(cascade.fixed_shape(tensor), cascade.tensors[tensor].dtype)
        kind = kind_of(drawn.dtype)
        for part in (drawn.real, drawn.imag) if kind == "c" else (drawn,):
            for block in _blocks(part):
                if kind in "fc":
                    block[...] = generator.uniform(lowest, 1.0, block.shape) * factors[tensor]
                else:
                    block[...] = generator.integers(0 if kind == "u" else -1, 2, block.shape)
        result[tensor] = drawn
    return result


def _blocks(array: np.ndarray) -> Iterator[np.ndarray]:
    """The parts of an array, so small that a copy of one in a wider type is no burden."""
    if array.ndim == 0 or array.size <= BLOCK:
        yield array
        return
    rows = max(1, BLOCK * len(array) // array.size)
    for start in range(0, len(array), rows):
        part = array[start : start + rows]
        if len(part) == 1 and part.size > BLOCK:
            yield from _blocks(part[0])
        else:
            yield part


def scales(cascade: Cascade, lowest: float) -> dict[str, float]:
    """A factor for each input: one operand of every sum of products is divided by what keeps the sum as large as its other operands.

    A sum of n products with a factor from [-1, 1), whose variance is 1/3, grows by the square root of n/3; with one from [lowest, 1) for
    a positive lowest it grows by n times their mean.
    """
    factors = dict.fromkeys(cascade.inputs, 1.0)
    settled: set[str] = set()
    for einsum in cascade.einsums:
        free = [a.tensor for a in einsum.operands if a.tensor in factors and a.tensor not in settled]
        if REDUCTIONS[einsum.reduce].is_sum and free:
            terms = _terms(cascade, einsum)
            factors[free[-1]] = (3 / terms) ** 0.5 if lowest < 0 else 2 / (terms * (lowest + 1))
        settled.update(a.tensor for a in einsum.operands)
    return factors


def _terms(cascade: Cascade, einsum: Einsum) -> float:
    """How many points reach one output element, on average."""
    points, elements = 1.0, 1.0
    for size in einsum.sizes.values():
        points *= size if isinstance(size, int) else 1
    for length in cascade.fixed_shape(einsum.output.tensor):
        elements *= max(1, length)
    return max(1.0, points / elements)


def _representable(cascade: Cascade, expected: Mapping[str, np.ndarray]) -> bool:
    """Whether every output is a number that its element type can hold; infinities of a mask's making count as numbers."""
    for name, array in expected.items():
        dtype = np.dtype(cascade.tensors[name].dtype)
        finite = np.abs(array[np.isfinite(array)])
        if np.isnan(array).any() or (kind_of(dtype) in "fc" and finite.max(initial=0.0) > largest(dtype) / 2):
            return False
    return True


def _is_multilinear(cascade: Cascade) -> bool:
    """Whether there are only sums of products, which are well-conditioned in the norm whatever the signs."""
    sums = all(REDUCTIONS[einsum.reduce].operator == ADD.operator for einsum in cascade.einsums)
    return sums and not any(is_fractional(primitive(einsum.map)) for einsum in cascade.einsums)


def _well_conditioned(cascade: Cascade, inputs: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> bool:
    """Whether a tiny relative change of all inputs changes no output by much."""
    others = leanings(cascade, inputs, inexact=PERTURBATION)
    return verify(cascade.reference(**_perturbed(inputs)), expected, ILL_CONDITIONED, others).passed


def _perturbed(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The inputs, those of inexact types with each value changed a little and rounded to its type, as the reference reads it."""
    generator = np.random.default_rng(SEED)
    changed = dict(inputs)
    for name, array in inputs.items():
        if kind_of(array.dtype) in "fc":
            changed[name] = array.copy()
            for block in _blocks(changed[name]):
                block[...] = block * (1 + PERTURBATION * generator.uniform(-1, 1, block.shape))
    return changed
