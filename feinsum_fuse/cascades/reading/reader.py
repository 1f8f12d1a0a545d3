"""From a Spec, or from strings such as ``Z[m,n] = A[m,k] * B[k,n]``, to a Cascade.

The iteration space of an Einsum becomes a box that starts at 0, and guards for what is cut off it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import islpy as isl
from constantdict import constantdict
from pymbolic.typing import Expression

from ...arguments import ANYTHING, COUNT, NOTHING, TEXT, checked, described, element_type, mapping
from ...errors import CascadeError, SpecError
from ...formats.affine import Affine
from ...formats.integer_sets import conditions_of, value_on
from ...formats.language.einsum_text import parse_einsum
from ...formats.language.extents import iteration_space, rank_ranges
from ...formats.language.reductions import NONE, REDUCTIONS
from ...formats.spec import Spec, expect_spec
from ...formats.workload import TensorAccess, Workload, WorkloadEinsum, operand_name
from ...quantization import group_of
from ..cascade import Cascade
from ..element_types import accumulators, tensor_types
from ..four_bits import InFourBits
from ..maps import product_of, variables_in
from ..rewriting.online import Online
from ..rewriting.softmax import ExpandSoftmax, softmax_arguments
from ..terms import Access, Einsum, Size, SizeParam, Tensor


def expanded(spec: Spec) -> Spec:
    """The Spec with the workload that its mapping speaks of.

    A mapping may name the Einsums that a softmax expands to; then the workload becomes the expanded cascade's. Otherwise the Spec stays as
    it is: one Einsum, as AccelForge models it.
    """
    expect_spec(spec)
    if spec.mapping is None or {c.einsum for c in spec.mapping.computes} <= {e.name for e in spec.workload.einsums}:
        return spec
    workload = replace(cascade(spec).workload, n_instances=spec.workload.n_instances)
    return replace(spec, workload=workload)


@dataclass(frozen=True)
class IterationBox:
    """The box ``0 <= v < sizes[v]`` of shifted variables, cut down by ``guards >= 0``; ``v`` as written is ``shifted + lower[v]``."""

    sizes: dict[str, int]
    lower: dict[str, int]
    guards: tuple[Affine, ...]

    def shifted(self, index: Affine) -> Affine:
        """An index expression over the variables as written, rewritten over the shifted ones."""
        return Affine(index.terms, index.constant + sum(factor * self.lower[name] for name, factor in index.terms))


def effective_rank_sizes(workload: Workload, einsum: WorkloadEinsum) -> dict[str, int]:
    """Rank -> size in this Einsum; its own sizes win over the workload's."""
    return {**workload.rank_sizes, **einsum.rank_sizes}


def bounding_accesses(einsum: WorkloadEinsum) -> list[TensorAccess]:
    """The accesses whose indices stay inside: all but a recurrence's reads, which give the initial value outside."""
    outputs = {access.name for access in einsum.outputs}
    return [access for access in einsum.tensor_accesses if access.output or access.name not in outputs]


def iteration_set(workload: Workload, einsum: WorkloadEinsum) -> isl.Set:
    """All points of an Einsum: its own and the workload's constraints, and every index inside its rank where the rank has a size."""
    variables = einsum.rank_variables
    shared = [workload.iteration_space_shape[v] for v in variables if v in workload.iteration_space_shape]
    ranges = rank_ranges([access.projection for access in bounding_accesses(einsum)], effective_rank_sizes(workload, einsum))
    return iteration_space(variables, ranges, [*einsum.iteration_space_shape, *shared])


def largest_index(points: isl.Set, variables: tuple[str, ...], index: Affine) -> int:
    """The largest value of an index expression over a set of points, whose dimensions are ``variables``."""
    return int(points.max_val(value_on(points, variables, index)).to_python())


def space(workload: Workload, einsum: WorkloadEinsum, points: isl.Set) -> IterationBox:
    """The box around an Einsum's points, and the guards that cut the points out of it; indices below 0 are guarded as well."""
    variables = einsum.rank_variables
    if points.is_empty():
        raise CascadeError(f"Einsum {einsum.name} has no points: its constraints contradict each other")
    lower, sizes = {}, {}
    for position, name in enumerate(variables):
        least, most = points.dim_min_val(position), points.dim_max_val(position)
        if not (least.is_int() and most.is_int()):
            raise CascadeError(f"Einsum {einsum.name}: rank variable {name} is unbounded", hint="Give one of its ranks a size.")
        lower[name] = int(least.to_python())
        sizes[name] = int(most.to_python()) - lower[name] + 1
    box = isl.Set.universe(points.space)
    for position, name in enumerate(variables):
        box = box.lower_bound_val(isl.dim_type.set, position, lower[name])
        box = box.upper_bound_val(isl.dim_type.set, position, lower[name] + sizes[name] - 1)
    ranks = effective_rank_sizes(workload, einsum)
    unsized = [i for access in bounding_accesses(einsum) for rank, i in access.projection.items() if rank not in ranks]
    guarded = _without_negative(points, variables, unsized)
    result = IterationBox(sizes, lower, ())
    if guarded.is_equal(box):
        return result
    return IterationBox(sizes, lower, tuple(dict.fromkeys(map(result.shifted, _guards(guarded.gist(box), variables, einsum)))))


def _without_negative(points: isl.Set, variables: tuple[str, ...], indices: Iterable[Affine]) -> isl.Set:
    for index in indices:
        points = points & value_on(points, variables, index).ge_set(isl.Aff.zero_on_domain_space(points.space))
    return points


def _guards(points: isl.Set, variables: tuple[str, ...], einsum: WorkloadEinsum) -> list[Affine]:
    parts = points.coalesce().remove_redundancies().get_basic_sets()
    if len(parts) != 1 or parts[0].dim(isl.dim_type.div):
        raise CascadeError(
            f"Einsum {einsum.name}: its iteration space is no single set of affine inequalities",
            hint="Put the condition into the map, as where(condition, value, 0).",
        )
    return list(conditions_of(parts[0]))


_FIRST_STAND_IN = 10**12
"""Symbolic sizes are read as integers from here on, a million apart, and replaced afterwards."""
_SIZES = mapping("a mapping from ranks to sizes", TEXT, ANYTHING)
_TYPES = mapping("a mapping from set expressions to types", TEXT, TEXT)
_SYMBOLIC_HINT = "Index a symbolic rank by a bare variable."


@checked(CascadeError, sizes=_SIZES | NOTHING, dtypes=_TYPES | NOTHING, accumulate=_TYPES | NOTHING)
def cascade(
    spec: Spec | Sequence[str | Mapping[str, object]],
    sizes: Mapping[str, int | str | SizeParam] | None = None,
    dtypes: Mapping[str, str] | None = None,
    accumulate: Mapping[str, str] | None = None,
) -> Cascade:
    """The Cascade of a Spec's workload, or of Einsums written as strings, one or a list (or as mappings, as in a workload's ``einsums``).

    ``sizes``: rank -> size, for strings only; a name instead of a number makes the length symbolic. A number for what is no rank, but the
    name of a rank variable in capitals, is how many values that takes (``R`` of ``max(X[H: 2*p + r])``). ``dtypes`` and ``accumulate``: set
    expression -> NumPy type name, instead of the Spec's ``opencl`` key (default for strings: float32). A tensor of the type ``int4``, or
    ``int4/G`` for groups of ``G``, is read in four bits, as by :meth:`Cascade.in_four_bits`.
    Raises :class:`CascadeError` and :class:`SpecError`.
    """
    if isinstance(spec, Spec):
        if sizes:
            raise CascadeError("sizes are given with strings only", hint="A Spec has its own: load it with variables=... instead.")
        opencl = spec.opencl
        return _from_workload(
            spec.workload,
            dtypes if dtypes is not None else (opencl.dtypes if opencl else None),
            accumulate if accumulate is not None else (opencl.accumulate if opencl else None),
        )
    einsums = [spec] if isinstance(spec, str) else spec
    if not isinstance(einsums, Sequence) or not all(isinstance(einsum, str | Mapping) for einsum in einsums):
        raise CascadeError(f"a cascade is read from a Spec, a string or a list of strings, not from {described(spec)}")
    return _from_strings(einsums, sizes or {}, dtypes, accumulate)


def _from_strings(
    einsums: Sequence[str | Mapping[str, object]],
    sizes: Mapping[str, int | str | SizeParam],
    dtypes: Mapping[str, str] | None,
    accumulate: Mapping[str, str] | None,
) -> Cascade:
    from ...formats.reading.load import loads

    sizes = {rank: int(size) if COUNT.holds(size) else size for rank, size in sizes.items()}  # type: ignore[arg-type]
    if wrong := [rank for rank, size in sizes.items() if not _is_size(size)]:
        raise CascadeError(f"the size of {wrong[0]} is {described(sizes[wrong[0]])}", hint="A size is an integer, or the name of one.")
    symbols = {rank: SizeParam(size) if isinstance(size, str) else size for rank, size in sizes.items() if not isinstance(size, int)}
    stand_ins = {symbol: _FIRST_STAND_IN + 10**6 * k for k, symbol in enumerate(dict.fromkeys(symbols.values()))}
    numbers = {rank: stand_ins[symbols[rank]] if rank in symbols else size for rank, size in sizes.items()}
    bits = {key: 4 if group_of(dtype) else 8 * element_type(dtype, CascadeError).itemsize for key, dtype in (dtypes or {}).items()}
    if not {"All", "Tensors", "Other"} & bits.keys():
        bits |= {"Other": 32} if bits else {"All": 32}
    windows = sorted(v for v in _windows(einsums) if v.upper() in numbers)
    if wrong := [v for v in windows if not isinstance(size := sizes[v.upper()], int) or size < 1]:
        given = f"{wrong[0].upper()} is {described(sizes[wrong[0].upper()])}"
        raise CascadeError(f"{given}, but says how many values {wrong[0]} takes: no rank is called so", hint="Give a number from 1.")
    shape = {v: f"0 <= {v} < {numbers.pop(v.upper())}" for v in windows}
    document = {
        "workload": {"rank_sizes": numbers, "iteration_space_shape": shape, "bits_per_value": bits, "einsums": list(einsums)}
    }
    try:
        text = json.dumps(document)
    except (TypeError, ValueError, RecursionError) as error:
        raise CascadeError(f"an Einsum is no text and no mapping of plain values: {error}") from None
    result = _from_workload(loads(text).workload, dtypes, accumulate)
    return _with_symbols(result, {number: symbol for symbol, number in stand_ins.items()}) if stand_ins else result


def _is_size(size: object) -> bool:
    """Whether a value is a length, or the name of one; a text of digits is neither."""
    return isinstance(size, SizeParam) or (size.isidentifier() if isinstance(size, str) else COUNT.holds(size))


def _windows(einsums: Iterable[str | Mapping[str, object]]) -> set[str]:
    """The rank variables after which no rank is called, as those of a window that moves over a rank."""
    ranks: set[str] = set()
    variables: set[str] = set()
    for einsum in einsums:
        text = einsum if isinstance(einsum, str) else einsum.get("einsum")
        if not isinstance(text, str):
            return set()  # whose tensors are written as mappings: sizes are those of ranks
        try:
            parsed = parse_einsum(text)
        except SpecError:
            return set()  # which is said with its place where it is read
        for projection in (parsed.output_projection, *(projection for _, projection in parsed.inputs)):
            ranks |= projection.keys()
            variables.update(*(index.variables for index in projection.values()))
    return {variable for variable in variables if variable.upper() not in ranks}


def _with_symbols(cascade: Cascade, symbols: Mapping[int, SizeParam]) -> Cascade:
    def symbolic(size: Size, where: str) -> Size:
        if isinstance(size, int) and size in symbols:
            return symbols[size]
        if isinstance(size, int) and size >= _FIRST_STAND_IN // 2:
            raise CascadeError(f"{where} has a symbolic size that is shifted or multiplied", hint=_SYMBOLIC_HINT)
        return size

    einsums = []
    for einsum in cascade.einsums:
        if any(abs(guard.constant) >= _FIRST_STAND_IN // 2 for guard in einsum.guards):
            raise CascadeError(f"Einsum {einsum.name} has a symbolic size that is shifted", hint=_SYMBOLIC_HINT)
        lengths = constantdict({v: symbolic(size, f"rank variable {v} of {einsum.name}") for v, size in einsum.sizes.items()})
        einsums.append(replace(einsum, sizes=lengths))
    tensors = {
        name: Tensor(name, tuple(symbolic(size, f"tensor {name}") for size in tensor.shape), tensor.dtype, tensor.ranks)
        for name, tensor in cascade.tensors.items()
    }
    return Cascade(tuple(einsums), constantdict(tensors), cascade.outputs, cascade.rewritings)


def _from_workload(workload: Workload, dtypes: Mapping[str, str] | None, accumulate: Mapping[str, str] | None) -> Cascade:
    for einsum in workload.einsums:
        if len(einsum.outputs) != 1:
            raise CascadeError(
                f"Einsum {einsum.name} writes {len(einsum.outputs)} tensors; it can compute one", hint="Write one Einsum per output."
            )
    ordered = _in_order(workload)
    types = tensor_types(workload, dtypes)
    in_four_bits = {tensor: group for tensor, dtype in types.items() if (group := group_of(dtype)) is not None}
    types |= dict.fromkeys(in_four_bits, "float32")
    sums = accumulators(workload, accumulate, types)
    points = {einsum.name: iteration_set(workload, einsum) for einsum in ordered}
    spaces = {einsum.name: space(workload, einsum, points[einsum.name]) for einsum in ordered}
    axes = _axes(ordered)

    def length(einsum: WorkloadEinsum, access: TensorAccess, rank: str) -> int:
        given = effective_rank_sizes(workload, einsum).get(rank)
        return given or largest_index(points[einsum.name], einsum.rank_variables, access.projection[rank]) + 1

    accesses: dict[str, list[tuple[WorkloadEinsum, TensorAccess]]] = {}
    for einsum in ordered:
        for access in bounding_accesses(einsum):
            accesses.setdefault(access.name, []).append((einsum, access))

    def shape(tensor: str) -> tuple[int, ...]:
        return tuple(max(length(einsum, access, rank) for einsum, access in accesses[tensor]) for rank in axes[tensor])

    tensors = {tensor: Tensor(tensor, shape(tensor), types[tensor], axes[tensor]) for tensor in axes}
    einsums = tuple(_einsum(einsum, spaces[einsum.name], axes, sums[einsum.name]) for einsum in ordered)
    result = Cascade(einsums, constantdict(tensors))
    online = {einsum.name for einsum in workload.einsums if einsum.operation.online}
    for read in result.einsums:
        if read.name in online:
            result = Online(read.name).apply(result)
        elif softmax_arguments(read) is not None:
            result = ExpandSoftmax(read.name).apply(result)
    for tensor, group in in_four_bits.items():
        result = InFourBits(tensor, group).apply(result)
    return result


def _axes(einsums: Sequence[WorkloadEinsum]) -> dict[str, tuple[str, ...]]:
    """Tensor -> its ranks: in the order of the access that writes it, or of its first access."""
    axes: dict[str, tuple[str, ...]] = {}
    for output in (True, False):
        for einsum in einsums:
            for access in einsum.tensor_accesses:
                if access.output is output:
                    axes.setdefault(access.name, tuple(access.projection))
    for einsum in einsums:
        for access in einsum.tensor_accesses:
            if set(access.projection) != set(axes[access.name]):
                raise CascadeError(
                    f"Einsum {einsum.name} accesses {access.name} by the ranks {', '.join(access.projection)}; elsewhere it has "
                    f"{', '.join(axes[access.name])}"
                )
    order = dict.fromkeys(access.name for einsum in einsums for access in einsum.tensor_accesses)
    return {tensor: axes[tensor] for tensor in order}


def _in_order(workload: Workload) -> list[WorkloadEinsum]:
    """The Einsums, each after those that write what it reads; otherwise as written."""
    writers: dict[str, str] = {}
    for einsum in workload.einsums:
        output = einsum.outputs[0].name
        if output in writers:
            raise CascadeError(f"tensor {output} is written by two Einsums, {writers[output]} and {einsum.name}")
        writers[output] = einsum.name
    waiting, done = list(workload.einsums), list[WorkloadEinsum]()
    while waiting:
        names = {einsum.name for einsum in waiting}
        ready = next((e for e in waiting if not any(writers.get(a.name, e.name) in names - {e.name} for a in e.inputs)), None)
        if ready is None:
            raise CascadeError(f"the Einsums {', '.join(sorted(names))} need each other's results: there is no order to run them in")
        done.append(ready)
        waiting.remove(ready)
    return done


def _einsum(einsum: WorkloadEinsum, points: IterationBox, axes: Mapping[str, tuple[str, ...]], accumulate: str) -> Einsum:
    def access(written: TensorAccess) -> Access:
        return Access(written.name, tuple(points.shifted(written.projection[rank]) for rank in axes[written.name]))

    output, operands = access(einsum.outputs[0]), tuple(access(written) for written in einsum.inputs)
    order = dict.fromkeys((*output.variables, *(v for operand in operands for v in operand.variables), *einsum.rank_variables))
    expression = _shifted_map(einsum, points)
    unknown = variables_in(expression) - order.keys() - {operand_name(k) for k in range(len(operands))}
    if unknown:
        raise CascadeError(f"the map of Einsum {einsum.name} names {', '.join(sorted(unknown))}: neither an operand nor a rank variable")
    result = Einsum(
        einsum.name,
        output,
        operands,
        expression,
        constantdict({v: points.sizes[v] for v in order}),
        NONE.name if einsum.is_copy_operation else einsum.operation.reduce,
        einsum.operation.populate,
        points.guards,
        accumulate,
        einsum.is_copy_operation,
    )
    _check(result)
    return result


def _shifted_map(einsum: WorkloadEinsum, points: IterationBox) -> Expression:
    from pymbolic import substitute, var

    if einsum.operation.map is None:
        return product_of(len(einsum.inputs))
    moved = {v: var(v) + lower for v, lower in points.lower.items() if lower}
    return substitute(einsum.operation.map, moved) if moved else einsum.operation.map


def _check(einsum: Einsum) -> None:
    if not REDUCTIONS[einsum.reduce].combines and einsum.reduces:
        lost = ", ".join(einsum.reduction_variables) or str(einsum.output)
        raise CascadeError(f"Einsum {einsum.name} says reduce: none, but several points meet in one output element ({lost})")
    if einsum.is_copy and len(einsum.operands) != 1:
        raise CascadeError(f"the copy Einsum {einsum.name} has {len(einsum.operands)} inputs; it needs exactly one")
    if einsum.is_recurrence:
        einsum.iterative_variable()
