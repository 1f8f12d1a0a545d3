"""Which facts may speak of a cascade: its structure, sizes, element types and strides, all in canonical order.

The canonical names are those of the *skeleton*, the cascade without maps and lengths, so that one schedule can be read on cascades of
other maps and other sizes. Where the skeleton has symmetries, the lengths decide between them: the cascade is brought to its own
canonical form first, and that form alone determines the names.

The skeleton is what cascades that can share a schedule have in common.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from constantdict import constantdict
from pymbolic import var
from pymbolic.mapper.substitutor import substitute

from ...cascades.canonical.canonical import Canonical, Renaming, canonical
from ...cascades.cascade import Cascade
from ...cascades.terms import Einsum, Size, SizeParam
from ...formats.workload import operand_name
from ...schedule.schedule import Schedule

MOST_SYMMETRIES = 100
"""How many symmetries are looked through one by one, for the least schedule or the nearest sizes."""

TensorStrides = Mapping[str, tuple[int, ...]]
"""Tensor -> strides in elements; tensors that are missing, and empty tuples, are row-major."""


def digest(text: str) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Shape:
    """Lengths, element types and strides in canonical order."""

    sizes: tuple[int | None, ...]
    """One for each parameter of the canonical skeleton; ``None`` where it is symbolic."""
    dtypes: tuple[str, ...]
    """One for each tensor."""
    strides: tuple[tuple[int, ...], ...]
    """In elements; empty for a row-major array."""


@dataclass(frozen=True)
class Identity:
    """A cascade, and the way to its canonical skeleton."""

    structure: str
    """The canonical skeleton's hash."""
    shape: Shape
    labels: tuple[str, ...]
    """What the lengths of ``shape`` are called in the cascade: a rank variable, or a tensor's axis."""
    parameters: tuple[str | None, ...]
    """The cascade's own size parameters among the lengths of ``shape``."""
    renaming: Renaming
    """From the cascade to the canonical skeleton."""
    sized: Canonical[Cascade] = field(repr=False, compare=False)
    form: Canonical[Cascade] = field(repr=False, compare=False)

    def least(self, value: Callable[[Renaming], str]) -> Renaming:
        """Of the renamings that give this same shape, one for each symmetry of the sized cascade, that with the least ``value``.

        Texts are compared with numbers as numbers, so that ``E2`` comes before ``E10``.
        Where there are too many to try, generators are applied as long as one makes it less, which is exact where they exchange
        neighbouring equal parts, as those of a batch of equal rows do.
        """
        there, generators = _without_sizes(self.sized.renaming), self.sized.automorphisms
        symmetries, complete = _closure(generators)
        candidates = [self.renaming, *(there.then(symmetry).then(self.form.renaming) for symmetry in symmetries)]
        best_value, best = min(((_natural(value(candidate)), candidate) for candidate in candidates), key=lambda pair: pair[0])
        if complete:
            return best
        back = self.form.renaming.inverse()
        steps = [_without_sizes(back).then(_without_sizes(generator)).then(self.form.renaming) for generator in generators]
        improved = True
        while improved:
            improved = False
            for step in steps:
                new = best.then(step)
                if (new_value := _natural(value(new))) < best_value:
                    best_value, best, improved = new_value, new, True
        return best

    @cached_property
    def mirrored(self) -> tuple[Identity, ...]:
        """The same structure with lengths in other orders, one for each symmetry of the skeleton; this identity first."""
        return (self, *(self._after(symmetry) for symmetry in _closure(self.form.automorphisms)[0]))

    def _after(self, symmetry: Renaming) -> Identity:
        back = symmetry.inverse()
        parameters, tensors = self.form.cascade.size_parameters, tuple(self.form.cascade.tensors)
        size_places = [parameters.index(back.sizes[name]) for name in parameters]
        tensor_places = [tensors.index(back.tensors[name]) for name in tensors]
        shape = Shape(
            tuple(self.shape.sizes[k] for k in size_places),
            tuple(self.shape.dtypes[k] for k in tensor_places),
            tuple(self.shape.strides[k] for k in tensor_places),
        )
        labels, own = tuple(self.labels[k] for k in size_places), tuple(self.parameters[k] for k in size_places)
        return dataclasses.replace(self, shape=shape, labels=labels, parameters=own, renaming=self.renaming.then(symmetry))


def identify(cascade: Cascade, layout: TensorStrides | None = None) -> Identity:
    """The identity of a cascade whose tensors lie in memory as ``layout`` says."""
    return _identify(cascade, constantdict({tensor: tuple(strides) for tensor, strides in (layout or {}).items() if strides}))


@lru_cache(maxsize=256)
def _identify(cascade: Cascade, layout: constantdict[str, tuple[int, ...]]) -> Identity:
    sized = canonical(_with_types(cascade, {tensor: f"{cascade.tensors[tensor].dtype} {layout[tensor]}" for tensor in layout}), maps=False)
    there = _without_sizes(sized.renaming)
    names = there.inverse().tensors
    bare = skeleton(_with_types(sized.cascade, {new: cascade.tensors[old].dtype for new, old in names.items()}))
    form = canonical(bare.cascade, maps=False)
    parameters = [form.renaming.inverse().sizes[name] for name in form.cascade.size_parameters]
    renaming = there.then(form.renaming)
    tensors = [renaming.inverse().tensors[name] for name in form.cascade.tensors]
    sizes = [bare.sizes[parameter] for parameter in parameters]
    shape = Shape(
        tuple(size if isinstance(size, int) else None for size in sizes),
        tuple(cascade.tensors[tensor].dtype for tensor in tensors),
        tuple(layout.get(tensor, ()) for tensor in tensors),
    )
    labels = tuple(_label(bare.axes[parameter], there.inverse()) for parameter in parameters)
    own = sized.renaming.inverse().sizes
    symbols = tuple(own[size.name] if isinstance(size, SizeParam) else None for size in sizes)
    return Identity(form.key, shape, labels, symbols, renaming, sized, form)


def _label(axis: Dimension, renaming: Renaming) -> str:
    if axis.owner in renaming.einsums and isinstance(axis.which, str):
        return renaming.variables[axis.owner, axis.which]
    return f"axis {axis.which} of {renaming.tensors[axis.owner]}"


def _natural(text: str) -> tuple[str | int, ...]:
    """Text between numbers, and the numbers; these alternate, so that two such tuples can always be compared."""
    return tuple(int(part) if place % 2 else part for place, part in enumerate(re.split(r"(\d+)", text)))


def _without_sizes(renaming: Renaming) -> Renaming:
    """The renaming without size parameters: those of a cascade and of its skeleton have nothing to do with each other."""
    return dataclasses.replace(renaming, sizes=constantdict())


def _with_types(cascade: Cascade, dtypes: Mapping[str, str]) -> Cascade:
    tensors = {name: dataclasses.replace(tensor, dtype=dtypes.get(name, tensor.dtype)) for name, tensor in cascade.tensors.items()}
    return dataclasses.replace(cascade, tensors=constantdict(tensors))


def _closure(generators: tuple[Renaming, ...]) -> tuple[tuple[Renaming, ...], bool]:
    """The elements of a group but the neutral one, at most :data:`MOST_SYMMETRIES`, and whether these are all."""
    found = dict.fromkeys(generators)
    queue = list(found)
    for element in queue:
        for generator in generators:
            new = element.then(generator)
            if new not in found and not new.is_identity:
                if len(found) >= MOST_SYMMETRIES:
                    return tuple(found), False
                found[new] = None
                queue.append(new)
    return tuple(found), True


def renamed_schedule(schedule: Schedule, renaming: Renaming) -> Schedule:
    """The schedule in the new names of a renaming."""
    return schedule.renamed(renaming.einsums, renaming.variables, renaming.tensors)


def renamed_cascade(cascade: Cascade, renaming: Renaming) -> Cascade:
    """The cascade in the new names of a renaming, size parameters excepted; Einsums stay in their order."""
    tensors = {
        renaming.tensors[name]: dataclasses.replace(tensor, name=renaming.tensors[name], ranks=())
        for name, tensor in cascade.tensors.items()
    }
    einsums = tuple(_renamed_einsum(einsum, renaming) for einsum in cascade.einsums)
    return Cascade(einsums, constantdict(dict(sorted(tensors.items()))), tuple(sorted(renaming.tensors[name] for name in cascade.outputs)))


def _renamed_einsum(einsum: Einsum, renaming: Renaming) -> Einsum:
    names = {variable: renaming.variables[einsum.name, variable] for variable in einsum.variables}
    positions = renaming.operands[einsum.name]

    new_names = {**names, **{operand_name(old): operand_name(new) for old, new in enumerate(positions)}}
    by_position = sorted(zip(positions, einsum.operands, strict=True), key=lambda pair: pair[0])
    return dataclasses.replace(
        einsum,
        name=renaming.einsums[einsum.name],
        output=einsum.output.renamed(renaming.tensors, names),
        operands=tuple(operand.renamed(renaming.tensors, names) for _, operand in by_position),
        map=substitute(einsum.map, {old: var(new) for old, new in new_names.items()}),
        sizes=constantdict({names[variable]: size for variable, size in einsum.sizes.items()}),
        guards=tuple(guard.renamed(names) for guard in einsum.guards),
    )


@dataclass(frozen=True)
class Dimension:
    """Something that has a length: a rank variable of an Einsum, or an axis of a tensor by its number."""

    owner: str
    which: str | int


@dataclass(frozen=True)
class Skeleton:
    """A cascade whose lengths are parameters, and the lengths that the parameters stand for."""

    cascade: Cascade
    sizes: constantdict[str, Size]
    """Parameter -> the length in the original cascade."""
    axes: constantdict[str, Dimension]
    """Parameter -> one of the axes that have this length."""


class _Classes:
    """Axes grouped by what must be equally long (a union-find)."""

    def __init__(self) -> None:
        self.parent: dict[Dimension, Dimension] = {}

    def find(self, axis: Dimension) -> Dimension:
        root = self.parent.setdefault(axis, axis)
        while root != self.parent[root]:
            root = self.parent[root]
        while axis != root:
            self.parent[axis], axis = root, self.parent[axis]
        return root

    def join(self, first: Dimension, second: Dimension) -> None:
        self.parent[self.find(second)] = self.find(first)


def skeleton(cascade: Cascade) -> Skeleton:
    """The skeleton of a cascade, in the cascade's own names.

    Two lengths share a parameter exactly when an access forces them to be equal: an axis that a rank variable alone indexes belongs to
    that variable. An axis that is longer than its variable (a halo, or padding) stays its own.
    """
    classes = _Classes()
    for einsum in cascade.einsums:
        for variable in einsum.variables:
            classes.find(Dimension(einsum.name, variable))
        for access in (einsum.output, *einsum.operands):
            for position, index in enumerate(access.indices):
                axis = Dimension(access.tensor, position)
                if index.bare is not None and einsum.sizes[index.bare] == cascade.tensors[access.tensor].shape[position]:
                    classes.join(Dimension(einsum.name, index.bare), axis)
    for tensor in cascade.tensors.values():
        for position in range(len(tensor.shape)):
            classes.find(Dimension(tensor.name, position))
    roots = list(dict.fromkeys(classes.find(axis) for axis in classes.parent))
    parameters = {root: SizeParam(f"size_{number}") for number, root in enumerate(roots)}
    return Skeleton(
        _generalised(cascade, {axis: parameters[classes.find(axis)] for axis in list(classes.parent)}),
        constantdict({parameter.name: _length(cascade, root) for root, parameter in parameters.items()}),
        constantdict({parameter.name: root for root, parameter in parameters.items()}),
    )


def _length(cascade: Cascade, axis: Dimension) -> Size:
    if isinstance(axis.which, int):
        return cascade.tensors[axis.owner].shape[axis.which]
    return cascade.einsum(axis.owner).sizes[axis.which]


def _generalised(cascade: Cascade, parameters: dict[Dimension, SizeParam]) -> Cascade:
    einsums = tuple(
        dataclasses.replace(einsum, sizes=constantdict({v: parameters[Dimension(einsum.name, v)] for v in einsum.variables}))
        for einsum in cascade.einsums
    )
    tensors = {
        name: dataclasses.replace(tensor, shape=tuple(parameters[Dimension(name, axis)] for axis in range(len(tensor.shape))))
        for name, tensor in cascade.tensors.items()
    }
    return dataclasses.replace(cascade, einsums=einsums, tensors=constantdict(tensors))
