"""What must hold of a cascade before anything is computed by it: what is read or matched holds it, what is put together by hand may not."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import CascadeError
from ..formats.language.reductions import REDUCTIONS
from ..formats.workload import operand_name
from .element_types import checked
from .maps import primitive, variables_in
from .sequence import EinsumSequence
from .terms import Access, Einsum, SizeParam


def validate(cascade: EinsumSequence) -> None:
    """:class:`CascadeError` that names the Einsum and what is wrong with it."""
    names = [einsum.name for einsum in cascade.einsums]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated or not names:
        raise CascadeError(f"two Einsums are called {repeated[0]}" if repeated else "the cascade has no Einsums")
    for tensor in cascade.tensors.values():
        checked(tensor.dtype)
    written: set[str] = set()
    later = {einsum.output.tensor for einsum in cascade.einsums}
    for einsum in cascade.einsums:
        for problem in _problems(einsum, cascade):
            raise CascadeError(f"Einsum {einsum.name} {problem}")
        if einsum.output.tensor in written:
            raise CascadeError(f"Einsum {einsum.name} writes {einsum.output.tensor}, which another one has written")
        early = {a.tensor for a in einsum.operands if a.tensor in later - written - {einsum.output.tensor}}
        if early:
            raise CascadeError(f"Einsum {einsum.name} reads {min(early)} before it is written")
        written.add(einsum.output.tensor)
    lost = [tensor for tensor in cascade.outputs if tensor not in written]
    if lost:
        raise CascadeError(f"the output {lost[0]} is written by no Einsum")


def _problems(einsum: Einsum, cascade: EinsumSequence) -> Iterator[str]:
    for access in (einsum.output, *einsum.operands):
        yield from _access_problems(access, einsum, cascade)
    for variable, size in einsum.sizes.items():
        if not isinstance(size, SizeParam) and size < 1:
            yield f"has the length {size} for {variable}"
    stray = {v for guard in einsum.guards for v in guard.variables} - einsum.sizes.keys()
    if stray:
        yield f"has a guard over {min(stray)}, which is no rank variable of it"
    unknown = variables_in(primitive(einsum.map)) - einsum.sizes.keys() - {operand_name(k) for k in range(len(einsum.operands))} - {"inf"}
    if unknown:
        yield f"has a map that names {min(unknown)}, which is neither an operand nor a rank variable"
    if einsum.reduce not in REDUCTIONS:
        yield f"has the reduction {einsum.reduce!r}; there are {', '.join(REDUCTIONS)}"
    elif REDUCTIONS[einsum.reduce].of_truths and einsum.populate not in (None, 0, 1):
        yield f"has the initial value {einsum.populate:g}; that of {einsum.reduce} is 0 or 1"
    elif not REDUCTIONS[einsum.reduce].combines and einsum.reduces:
        yield "says reduce: none, but several points meet in one output element"
    if einsum.is_recurrence:
        einsum.iterative_variable()


def _access_problems(access: Access, einsum: Einsum, cascade: EinsumSequence) -> Iterator[str]:
    tensor = cascade.tensors.get(access.tensor)
    if tensor is None:
        yield f"accesses {access}, and there is no tensor {access.tensor}"
    elif len(tensor.shape) != len(access.indices):
        yield f"accesses {access}, and {access.tensor} has {len(tensor.shape)} axes"
    stray = set(access.variables) - einsum.sizes.keys()
    if stray:
        yield f"accesses {access}, and {min(stray)} is no rank variable of it"
