"""Reading the ``workload`` key: Einsums in long form or in one line, with sizes, bounds, widths and renames resolved."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, replace

from constantdict import constantdict

from ...errors import Location, SpecError, SpecWarning
from ..checking.workload_check import check_ranks, resolved_bounds, with_persistence
from ..language.einsum_text import (
    NO_RANK,
    RANK_VARIABLE,
    ParsedEinsum,
    Projection,
    check_rank,
    check_rank_variable,
    check_tensor,
    operand_scope,
    parse_affine,
    parse_einsum,
    parse_map,
    parse_projection,
    simplified,
)
from ..language.expressions import at_least, nearest, number, parse_expression, whole
from ..language.extents import check_constraint
from ..language.reductions import NONE, REDUCTIONS
from ..language.variables import NameScope
from ..sets import resolve
from ..spec import EinsumRename
from ..validation.complaints import FieldPath
from ..workload import Operation, TensorAccess, Workload, WorkloadEinsum
from .document import Document
from .fields import AccessInput, EinsumInput, OperationsInput, WorkloadInput, read_input
from .quoting import quoting_hint
from .renames import einsum_renames, read_renames

_RESERVED_EINSUM = "Total"


@dataclass
class _Located:
    """An Einsum being read, what its file says, and where."""

    einsum: WorkloadEinsum
    given: EinsumInput
    path: FieldPath


class WorkloadReader:
    """Reads one document's workload; every error carries the place of the value at fault."""

    def __init__(self, document: Document, variables: Mapping[str, object], renames: tuple[EinsumRename, ...]) -> None:
        self.document = document
        self.variables = variables
        self.renames = renames

    def _whole(self, value: object, path: FieldPath, what: str) -> int:
        with self.document.blame(path):
            return whole(value, self.variables, what)

    def read(self) -> Workload:
        """The workload, resolved."""
        root: FieldPath = ("workload",)
        data = self.document.root["workload"].plain()
        given = read_input(WorkloadInput, {} if data is None else data, self.document, root)
        located = [self._einsum(item, path) for path, item in _flattened(given.einsums, (*root, "einsums"))]
        if not located:
            raise self.document.error(root, "The workload has no Einsums.", "List them under einsums.")
        self._check_names(located)
        workload = Workload(
            einsums=tuple(item.einsum for item in located),
            rank_sizes=constantdict(self._sizes(given.rank_sizes, (*root, "rank_sizes"))),
            iteration_space_shape=constantdict(self._shapes(given, (*root, "iteration_space_shape"))),
            n_instances=self._whole(given.n_instances, (*root, "n_instances"), "n_instances"),
            bits_per_value=constantdict(
                {key: self._whole(bits, (*root, "bits_per_value", key), "bits_per_value") for key, bits in given.bits_per_value.items()}
            ),
            persistent_tensors=given.persistent_tensors,
        )
        self._check_sizes(workload, located, root)
        check_ranks(workload, lambda index: self.document.locate(located[index].path))
        return self._resolved(workload, located, root)

    def _resolved(self, workload: Workload, located: list[_Located], root: FieldPath) -> Workload:
        einsums = []
        for item in located:
            own = (*item.path, "renames")
            with self.document.blame(own if item.given.renames else item.path):
                einsums.append(einsum_renames(workload, item.einsum, read_renames(item.given.renames), self.renames))
        workload = replace(workload, einsums=tuple(einsums))
        with self.document.blame((*root, "persistent_tensors")):
            workload = with_persistence(workload)
        table: FieldPath = (*root, "bits_per_value")
        workload = resolved_widths(
            workload, lambda index: self.document.locate(table if index is None else located[index].path), self._own_widths(located)
        )
        return resolved_bounds(workload, lambda index: self.document.locate(located[index].path))

    def _own_widths(self, located: list[_Located]) -> dict[tuple[int, str], int]:
        result = {}
        for index, item in enumerate(located):
            for position, access in enumerate(item.given.tensor_accesses):
                if access.bits_per_value is not None:
                    path = (*item.path, "tensor_accesses", position, "bits_per_value")
                    result[index, access.name] = self._whole(access.bits_per_value, path, "bits_per_value")
        return result

    def _check_names(self, located: Iterable[_Located]) -> None:
        seen: set[str] = set()
        for item in located:
            name = item.einsum.name
            path = (*item.path, "name") if item.given.name else item.path
            if name in seen:
                raise self.document.error(path, f"Two Einsums are called {name}.", "Give each Einsum a name of its own.")
            if name == _RESERVED_EINSUM:
                raise self.document.error(path, f"No Einsum can be called {name}.")
            if not name.isprintable():
                message = f"{name!r} cannot be the name of an Einsum: it holds a character that cannot be printed."
                raise self.document.error(path, message, "Use letters, digits and underscores.")
            seen.add(name)

    def _check_sizes(self, workload: Workload, located: list[_Located], root: FieldPath) -> None:
        ranks = {rank for einsum in workload.einsums for access in einsum.tensor_accesses for rank in access.projection}
        variables = {v for einsum in workload.einsums for v in einsum.rank_variables}
        self._warn_unused(workload.rank_sizes, ranks, (*root, "rank_sizes"), "No tensor has a rank", variables)
        self._warn_unused(workload.iteration_space_shape, variables, (*root, "iteration_space_shape"), "No Einsum has a rank variable")
        for name, text in workload.iteration_space_shape.items():
            with self.document.blame((*root, "iteration_space_shape", name)):
                check_constraint(text, variables | {name})
        for item in located:
            for index, text in enumerate(item.einsum.iteration_space_shape):
                with self.document.blame((*item.path, "iteration_space_shape", index)):
                    check_constraint(text, item.einsum.rank_variables)
            own = {rank for access in item.einsum.tensor_accesses for rank in access.projection}
            self._warn_unused(item.einsum.rank_sizes, own, (*item.path, "rank_sizes"), f"No tensor of Einsum {item.einsum.name} has a rank")

    def _warn_unused(
        self, given: Mapping[str, object], known: set[str], path: FieldPath, what: str, variables: Container[str] = ()
    ) -> None:
        for name, value in given.items():
            if name not in known:
                hint, variable = nearest(name, known), name.lower()
                if variable in variables:
                    hint = f"For {variable} to take so many values, write iteration_space_shape: {{{variable}: 0 <= {variable} < {value}}}."
                text = f"{self.document.locate((*path, name), key=True)}: {what} {name}; the entry has no effect. {hint}"
                warnings.warn(text, SpecWarning, stacklevel=2)

    def _sizes(self, given: Mapping[str, object], path: FieldPath) -> dict[str, int]:
        """Rank -> size; the expression for one size may use the others."""
        scope = NameScope(given, self.variables)
        result = {}
        for rank, value in given.items():
            with self.document.blame((*path, rank), key=True):
                check_rank(rank)
            with self.document.blame((*path, rank)):
                result[rank] = whole(scope[rank] if rank in scope.own else value, scope, f"The size of rank {rank}")
        return result

    def _shapes(self, given: WorkloadInput, path: FieldPath) -> dict[str, str]:
        for name in given.iteration_space_shape:
            with self.document.blame((*path, name), key=True):
                check_rank_variable(name)
        return {name: " ".join(text.split()) for name, text in given.iteration_space_shape.items()}

    def _einsum(self, item: object, path: FieldPath) -> _Located:
        if isinstance(item, str):
            item = {"einsum": item}
        self._check_quotes(item, path)
        given = read_input(EinsumInput, item, self.document, path)
        if given.einsum is not None:
            text = given.einsum
            where = (*path, "einsum") if self.document.value((*path, "einsum"))[1] else path
            with self.document.blame(where):
                parsed = parse_einsum(text)
            accesses = self._amended(parsed, given, path)
            operation = parsed.operation
            name = given.name or parsed.output
        else:
            if not given.name:
                hint = "An Einsum has a name, or is written in one line under einsum."
                raise self.document.error(path, "The field 'name' is missing.", hint)
            name = given.name
            accesses = tuple(self._access(a, (*path, "tensor_accesses", i)) for i, a in enumerate(given.tensor_accesses))
            operation = Operation()
        einsum = WorkloadEinsum(
            name=name,
            tensor_accesses=accesses,
            is_copy_operation=given.is_copy_operation,
            n_instances=self._whole(given.n_instances, (*path, "n_instances"), "n_instances"),
            iteration_space_shape=tuple(" ".join(text.split()) for text in given.iteration_space_shape),
            rank_sizes=constantdict(self._sizes(given.rank_sizes, (*path, "rank_sizes"))),
        )
        einsum = replace(einsum, operation=self._operation(einsum, operation, given.operations, path))
        with self.document.blame(path):
            _check_einsum(einsum)
        return _Located(einsum, given, path)

    def _check_quotes(self, item: object, path: FieldPath) -> None:
        value, _ = self.document.value(path)
        if value is None or not isinstance(item, dict) or item.keys() <= EinsumInput.model_fields.keys():
            return
        if hint := quoting_hint(value.source.text, value.offset):
            raise self.document.error(path, "This Einsum is not quoted, and YAML reads it as a key and its value.", hint)

    def _amended(self, parsed: ParsedEinsum, given: EinsumInput, path: FieldPath) -> tuple[TensorAccess, ...]:
        """The accesses of a line, with what ``tensor_accesses`` beside it adds."""
        amendments: dict[str, tuple[AccessInput, FieldPath]] = {}
        names = [*(tensor for tensor, _ in parsed.inputs), parsed.output]
        for index, access in enumerate(given.tensor_accesses):
            where = (*path, "tensor_accesses", index)
            if access.name not in names:
                raise self.document.error((*where, "name"), f"The Einsum has no tensor {access.name}.", nearest(access.name, names))
            if access.projection is not None or access.output is not None:
                raise self.document.error(where, f"The line above already says how {access.name} is indexed and whether it is the output.")
            amendments[access.name] = (access, where)
        accesses = [TensorAccess(tensor, projection) for tensor, projection in parsed.inputs]
        accesses.append(TensorAccess(parsed.output, parsed.output_projection, output=True))
        return tuple(self._with_fields(a, *amendments[a.name]) if a.name in amendments else a for a in accesses)

    def _with_fields(self, access: TensorAccess, given: AccessInput, path: FieldPath) -> TensorAccess:
        with self.document.blame((*path, "backing_storage_size_scale")):
            scale = at_least(0.0, finite=True)(given.backing_storage_size_scale, self.variables, "backing_storage_size_scale")
        return replace(access, persistent=given.persistent, backing_storage_size_scale=float(scale))

    def _access(self, given: AccessInput, path: FieldPath) -> TensorAccess:
        with self.document.blame((*path, "name")):
            check_tensor(given.name)
        if given.projection is None:
            raise self.document.error(path, "The field 'projection' is missing.")
        access = TensorAccess(given.name, self._projection(given, (*path, "projection")), bool(given.output))
        return self._with_fields(access, given, path)

    def _projection(self, access: AccessInput, path: FieldPath) -> Projection:
        given = access.projection
        if not given:
            raise self.document.error(path, f"Tensor {access.name} has no index.", NO_RANK)
        if isinstance(given, list):
            for index, element in enumerate(given):
                if not isinstance(element, str) or not RANK_VARIABLE.fullmatch(element):
                    hint = "In a list each index is one rank variable; write {RANK: expression} for anything else."
                    raise self.document.error((*path, index), f"{element!r} is no rank variable.", hint)
            with self.document.blame(path):
                for element in given:
                    check_rank_variable(element)
                return parse_projection([parse_expression(element) for element in given], access.name)
        result = {}
        for rank, text in given.items():
            with self.document.blame((*path, rank), key=True):
                check_rank(rank)
            if isinstance(text, bool) or not isinstance(text, str | int):
                raise self.document.error((*path, rank), f"{text!r} is no index expression.")
            with self.document.blame((*path, rank)):
                result[rank] = parse_affine(str(text))
        return constantdict(result)

    def _operation(self, einsum: WorkloadEinsum, written: Operation, given: OperationsInput | None, path: FieldPath) -> Operation:
        if given is None:
            return written
        where = (*path, "operations")
        operation = written
        if given.map is not None and str(given.map) != "None":
            if written.map is not None:
                raise self.document.error((*where, "map"), "The line above already says what the Einsum computes.")
            with self.document.blame((*where, "map")):
                operation = simplified(parse_map(parse_expression(str(given.map)), operand_scope(einsum)), len(einsum.inputs))
        if "reduce" in given.model_fields_set:
            name = NONE.name if given.reduce is None or given.reduce == "None" else given.reduce
            if name not in REDUCTIONS:
                hint = f"Reductions are {', '.join(REDUCTIONS)}."
                raise self.document.error((*where, "reduce"), f"There is no reduction {name!r}.", hint)
            operation = replace(operation, reduce=name)
        populate = None
        if given.populate is not None and given.populate != "None":
            with self.document.blame((*where, "populate")):
                populate = float(number(given.populate, self.variables, "populate"))
        return replace(operation, populate=populate, online=given.online)


def _flattened(items: Iterable[object], path: FieldPath) -> list[tuple[FieldPath, object]]:
    result: list[tuple[FieldPath, object]] = []
    for index, item in enumerate(items):
        result += _flattened(item, (*path, index)) if isinstance(item, list) else [((*path, index), item)]
    return result


def _check_einsum(einsum: WorkloadEinsum) -> None:
    if not einsum.outputs:
        raise SpecError(f"Einsum {einsum.name} has no output.", hint="Mark one of its tensor accesses with output: true.")
    if not einsum.inputs:
        raise SpecError(f"Einsum {einsum.name} reads no tensor.")
    outputs = [access.name for access in einsum.outputs]
    if len(set(outputs)) != len(outputs):
        raise SpecError(f"Einsum {einsum.name} writes {outputs[0]} twice.")
    if einsum.is_copy_operation and len(einsum.inputs) != 1:
        raise SpecError(f"The copy operation {einsum.name} has {len(einsum.inputs)} inputs; it needs exactly one.")
    for access in einsum.inputs:
        if access.name in outputs:
            _check_recurrence(einsum, access)


def _check_recurrence(einsum: WorkloadEinsum, read: TensorAccess) -> None:
    """An output read by its own Einsum is a recurrence: same ranks, one index earlier, all others equal, and an initial value."""
    written = next(access for access in einsum.outputs if access.name == read.name)
    earlier = 0
    for rank, index in written.projection.items():
        own = read.projection.get(rank)
        if own is None or own.terms != index.terms or own.constant > index.constant:
            raise SpecError(
                f"Einsum {einsum.name} reads its own output {read.name} at {rank}: {own}, which is no earlier value of {index}.",
                hint=f"A recurrence reads {read.name} at an earlier index of one rank, such as {index}-1; other reads need another tensor.",
            )
        earlier += own.constant < index.constant
    if earlier != 1:
        raise SpecError(
            f"Einsum {einsum.name} reads its own output {read.name} at the index that it writes."
            if not earlier
            else f"Einsum {einsum.name} reads its own output {read.name} at earlier indices of {earlier} ranks.",
            hint=f"A recurrence reads {read.name} at an earlier index of exactly one rank; a sum needs no accumulator on the right.",
        )
    if einsum.operation.populate is None:
        raise SpecError(
            f"The recurrence {einsum.name} has no initial value.",
            hint="Give operations: {populate: 0}, the value that is read before the first index.",
        )


def resolved_widths(workload: Workload, locate: Callable[[int | None], Location], own: dict[tuple[int, str], int]) -> Workload:
    """The workload with the width of every access filled in; a tensor has one width in all Einsums.

    ``own`` holds widths that accesses give themselves, by Einsum index and tensor; one access's own width holds for the tensor everywhere.
    ``locate`` gives the place of an Einsum, or of the workload's table for ``None``.
    """
    overrides: dict[str, int] = {}
    for (index, tensor), bits in own.items():
        if overrides.setdefault(tensor, bits) != bits:
            message = f"Tensor {tensor} has {overrides[tensor]} bits per value in one Einsum and {bits} in another."
            raise SpecError(message, location=locate(index))
    found: dict[str, int] = {}
    einsums = []
    for index, einsum in enumerate(workload.einsums):
        try:
            table = resolve(workload.bits_per_value, workload, einsum.name)
        except SpecError as error:
            raise SpecError(f"For Einsum {einsum.name}: {error.message}", location=locate(None), hint=error.hint) from None
        accesses = []
        for access in einsum.tensor_accesses:
            width = overrides.get(access.name, table.get(access.name))
            if width is None:
                raise SpecError(
                    f"Tensor {access.name} of Einsum {einsum.name} has no bits per value.",
                    location=locate(index),
                    hint="Give bits_per_value: {All: 32} in the workload, or bits_per_value in the tensor access.",
                )
            if found.setdefault(access.name, width) != width:
                raise SpecError(
                    f"Tensor {access.name} has {width} bits per value in Einsum {einsum.name}, but {found[access.name]} in an earlier one.",
                    location=locate(index),
                )
            accesses.append(replace(access, bits_per_value=width))
        einsums.append(replace(einsum, tensor_accesses=tuple(accesses)))
    return replace(workload, einsums=tuple(einsums))
