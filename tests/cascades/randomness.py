"""Random cascades, and a run of any cascade's base kernel on the first OpenCL device."""

from __future__ import annotations

import functools
import random
import warnings

import loopy as lp
import numpy as np
import pyopencl as cl
from constantdict import constantdict
from pymbolic import parse, var
from pymbolic import primitives as p

from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.terms import Access, Einsum, Tensor
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.formats.affine import Affine
from feinsum_fuse.formats.workload import operand_name

TYPES = ("float32", "float64", "float32", "int32")


@functools.cache
def context() -> cl.Context:
    """A context on the default device; one that is collected takes its queues with it on some platforms."""
    return cl.Context([find_device()])


@functools.cache
def queue() -> cl.CommandQueue:
    """A queue on the default device."""
    return cl.CommandQueue(context())


def run(t_unit: lp.TranslationUnit, **arrays: np.ndarray) -> dict[str, np.ndarray]:
    """The outputs of a kernel as NumPy arrays."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, outputs = lp.set_options(t_unit, return_dict=True)(queue(), **arrays)
    return {name: np.asarray(value) for name, value in outputs.items() if isinstance(value, np.ndarray)}


def random_inputs(cascade: Cascade, seed: int, sizes: dict[str, int] | None = None) -> dict[str, np.ndarray]:
    """Inputs of either sign, small enough that products and exponentials stay in range."""
    generator = np.random.default_rng(seed)
    result = {}
    for name in cascade.inputs:
        shape = cascade.fixed_shape(name, sizes)
        kind = np.dtype(cascade.tensors[name].dtype)
        if kind.kind == "c":
            values = generator.uniform(-1, 1, shape) + 1j * generator.uniform(-1, 1, shape)
        else:
            values = generator.uniform(-1, 1, shape) if kind.kind == "f" else generator.integers(-3, 4, shape)
        result[name] = np.asarray(values).astype(kind)
    return result


def largest_error(got: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference relative to the largest magnitude, at least 0.1 (sums cancel); infinite unless infinities agree."""
    with np.errstate(invalid="ignore"):
        difference = np.where(got == expected, 0.0, np.abs(got.astype(expected.dtype) - expected))
    if not np.isfinite(difference).all():
        return float("inf")
    magnitude = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
    return float(difference.max(initial=0.0) / max(magnitude, 0.1))


class RandomCascade:
    """Draws cascades: products, functions, predicates, all reductions, affine accesses, guards, initial values, shared operands."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.tensors: dict[str, Tensor] = {}

    def cascade(self, largest: int = 3, plain: bool = False) -> Cascade:
        """A cascade of at most ``largest`` Einsums; ``plain``: outputs are indexed by whole bare variables, without guards."""
        dtype = self.random.choice(TYPES)
        einsums = tuple(self.einsum(f"E{k}", dtype, plain) for k in range(self.random.randint(1, largest)))
        return Cascade(einsums, constantdict(self.tensors))

    def einsum(self, name: str, dtype: str, plain: bool) -> Einsum:
        random = self.random
        sizes = {f"v{k}": random.choice((1, 2, 3, 4, 5, 7)) for k in range(random.randint(1, 4))}
        variables = list(sizes)
        random.shuffle(variables)
        outer = variables[: random.randint(0, len(variables))]
        inner = variables[len(outer) :]
        operands = tuple(self.operand(name, k, variables, sizes, dtype) for k in range(random.randint(1, 3)))
        used = {v for operand in operands for v in operand.variables}
        variables = [v for v in variables if v in used or v in outer]
        inner = [v for v in inner if v in used]
        reduce = random.choice(("add", "add", "add", "max", "min", "mul")) if inner else random.choice(("add", "none"))
        output, shape = self.output(name, outer, sizes, plain)
        if set(output.variables) != set(outer) or len(output.indices) != len(outer):
            reduce = random.choice(("add", "max", "min"))
        guards = () if plain or not variables or random.random() < 0.7 else self.guards(variables)
        populate = float(random.choice((0, 1, 2))) if random.random() < 0.2 and reduce != "none" else None
        self.tensors[output.tensor] = Tensor(output.tensor, shape, dtype)
        order = dict.fromkeys((*output.variables, *variables))
        return Einsum(
            *(name, output, operands, self.map(len(operands), variables, dtype), constantdict({v: sizes[v] for v in order})),
            *(reduce, populate, guards, dtype),
        )

    def operand(self, einsum: str, position: int, variables: list[str], sizes: dict[str, int], dtype: str) -> Access:
        random = self.random
        indices = []
        for _ in range(random.randint(0, 3)):
            variable = random.choice(variables)
            if random.random() < 0.8:
                indices.append(Affine.variable(variable))
            else:
                indices.append(Affine.of({variable: random.choice((1, 2)), random.choice(variables): 1}, random.choice((0, 0, 1))))
        needed = tuple(index.largest(sizes) + 1 for index in indices)
        for tensor in self.tensors.values():
            fits = len(tensor.shape) == len(needed) and all(have >= need for have, need in zip(tensor.shape, needed, strict=True))
            if fits and random.random() < 0.7:
                return Access(tensor.name, tuple(indices))
        name = f"T{len(self.tensors)}{einsum}{position}"
        self.tensors[name] = Tensor(name, needed, dtype if random.random() < 0.8 or dtype == "int32" else "float32")
        return Access(name, tuple(indices))

    def output(self, einsum: str, outer: list[str], sizes: dict[str, int], plain: bool) -> tuple[Access, tuple[int, ...]]:
        random = self.random
        indices = [Affine.variable(variable) for variable in outer]
        if not plain and len(outer) > 1 and random.random() < 0.2:
            indices = [Affine.of({outer[0]: 1, outer[1]: random.choice((1, 2))}), *indices[2:]]
        elif not plain and outer and random.random() < 0.1:
            indices[0] = Affine.of({outer[0]: 1}, 1)
        extra = 0 if plain or random.random() < 0.8 else random.randint(1, 2)
        return Access(f"R{einsum}", tuple(indices)), tuple(index.largest(sizes) + 1 + extra for index in indices)

    def guards(self, variables: list[str]) -> tuple[Affine, ...]:
        one, other = self.random.choice(variables), self.random.choice(variables)
        return (Affine.of({one: 1, other: -1}),) if one != other else (Affine.of({one: 1}, -1),)

    def map(self, operands: int, variables: list[str], dtype: str) -> p.ExpressionNode:
        random = self.random
        values = [var(operand_name(k)) for k in range(operands)]
        product = values[0] if operands == 1 else p.Product(tuple(values))
        choice = random.random()
        if choice < 0.4 or not variables:
            return product
        if choice < 0.55:
            return var("where")(parse(f"{random.choice(variables)} <= {random.choice(variables)} + 1"), product, random.choice((0, 1, 2)))
        if choice < 0.7:
            return p.Sum((product, p.Product((2, values[-1])), random.choice(values)))
        if dtype == "int32":
            return var("max")(product, p.Product((-1, values[0])))
        name = random.choice(("exp", "tanh", "relu", "sigmoid", "gelu", "silu", "erf", "sin", "cos", "abs"))
        return p.Sum((var(name)(product), p.Product((0.5, var(random.choice(variables))))))
