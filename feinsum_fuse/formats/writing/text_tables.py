"""What workloads, architectures, bindings and LoopTrees look like in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from ... import presentation
from ...presentation import table
from ..arch import Arch, ArchNode, Array, Component, Fork, Hierarchical, Memory
from ..language.map_text import access_text, right_hand_side
from ..mapping import Compute, Mapping, Nested, Node, Sequential, Spatial, Storage, Temporal, TextBox, Toll
from ..opencl import OpenCL
from ..workload import Workload, WorkloadEinsum

SEQUENTIAL_TEXTS = {"Sequential": "one after another", "Pipeline": "as a pipeline", "Split": "split"}


def einsum_text(einsum: WorkloadEinsum) -> str:
    """``Z[m, n] = A[m, k] * B[k, n]``."""
    outputs = ", ".join(access_text(access) for access in einsum.outputs)
    return f"{outputs} = {right_hand_side(einsum)}"


def operation_text(einsum: WorkloadEinsum) -> str:
    """What is done over the variables that the output lacks, and what is special about the Einsum."""
    kept = {v for access in einsum.outputs for v in access.rank_variables}
    summed = [v for v in einsum.rank_variables if v not in kept]
    if einsum.is_copy_operation:
        return "copy"
    parts = [f"{einsum.operation.reduce} over {', '.join(summed)}"] if summed else []
    parts += ["recurrence"] if {a.name for a in einsum.inputs} & {a.name for a in einsum.outputs} else []
    parts += ["online"] if einsum.operation.online else []
    parts += [f"starts at {einsum.operation.populate:g}"] if einsum.operation.populate is not None else []
    parts += [f"{einsum.n_instances} times"] if einsum.n_instances != 1 else []
    return "; ".join(parts) or "pointwise"


def role(workload: Workload, tensor: str) -> str:
    """``input``, ``output`` or ``intermediate``, as the cascade uses the tensor, and whether it is persistent."""
    produced, consumed = bool(workload.producers(tensor)), bool(workload.consumers(tensor))
    kind = "intermediate" if produced and consumed else "output" if produced else "input"
    persistent = any(a.persistent for e in workload.einsums for a in e.tensor_accesses if a.name == tensor)
    return f"{kind}, persistent" if persistent else kind


@presentation.text.register
def workload_text(workload: Workload) -> str:
    """The Einsums with their index notation and operation, and the tensors with shapes, bits and roles."""
    einsums = table(("Einsum", "computes", "operation"), ((e.name, einsum_text(e), operation_text(e)) for e in workload.einsums))
    widths = {access.name: access.bits_per_value for einsum in workload.einsums for access in einsum.tensor_accesses}
    rows = []
    for tensor in workload.tensors:
        shape = workload.shape(tensor)
        rows.append((tensor, " x ".join(f"{rank} {size}" for rank, size in shape.items()), f"{widths[tensor]}", role(workload, tensor)))
    bounds = {v: size for einsum in workload.einsums for v, size in einsum.bounds.items()}
    shown = f"\n\nRank variables: {', '.join(f'{v} < {size}' for v, size in bounds.items())}" if bounds else ""
    return f"{einsums}\n\n{table(('tensor', 'shape', 'bits', 'role'), rows)}{shown}"


def loop_text(loop: Temporal) -> str:
    """``for m in tiles of 8``, with the variables of each Einsum if they differ."""
    variable = loop.rank_variable
    names = variable if isinstance(variable, str) else ", ".join(f"{name} of {einsum}" for einsum, name in variable.items())
    first = f", the first of {loop.initial_tile_shape}" if loop.initial_tile_shape is not None else ""
    if isinstance(loop, Spatial):
        return f"spatial for {names} in tiles of {loop.tile_shape}{first}, over {loop.component}{f'.{loop.name}' if loop.name else ''}"
    return f"for {names} in tiles of {loop.tile_shape}{first}"


def node_text(node: Node) -> str:
    """One line for a node that does not branch."""
    if isinstance(node, Storage):
        return f"{node.component} holds {' '.join(node.tensors)}{' (persistent)' if node.persistent else ''}"
    if isinstance(node, Toll):
        return f"{node.component} passes {' '.join(node.tensors)}"
    if isinstance(node, Temporal):
        return loop_text(node)
    if isinstance(node, Compute):
        return f"{node.component} computes {node.einsum}"
    return node.text or ""


@presentation.text.register
def mapping_text(mapping: Mapping) -> str:
    """The LoopTree: nodes one inside the other under a bar, branches with their own bars."""
    return "\n".join([mapping.title or "LoopTree", *_tree_lines(mapping.nodes)])


def _flat(nodes: Sequence[Node]) -> list[Node]:
    return [inner for node in nodes for inner in (_flat(node.nodes) if isinstance(node, Nested) else [node])]


def _tree_lines(nodes: Sequence[Node]) -> list[str]:
    lines: list[str] = []
    flat = _flat(nodes)
    for index, node in enumerate(flat):
        if isinstance(node, Sequential):
            lines.append(f"│ {SEQUENTIAL_TEXTS[type(node).__name__]}:")
            for number, child in enumerate(node.nodes):
                last = number + 1 == len(node.nodes)
                lines.append(f"{'└' if last else '├'}─┐ {number + 1}")
                lines += [f"{' ' if last else '│'} {line}" for line in _tree_lines([child])]
        else:
            comment = f"  # {node.text}" if node.text and not isinstance(node, TextBox) else ""
            lines.append(f"{'└' if index + 1 == len(flat) else '│'} {node_text(node)}{comment}")
    return lines


def _number(value: float) -> str:
    return str(int(value)) if abs(value) < 1e15 and value == int(value) else f"{value:g}"


def _component_row(node: Component, depth: int) -> tuple[str, str, str, str, str]:
    size = f"{_number(node.size)} bits" if isinstance(node, Memory) else ""
    actions = ", ".join(f"{a.name} {_number(a.energy)} J {_number(a.throughput)}/s" for a in node.actions)
    fanouts = ", ".join(f"{f.name} x{f.fanout}" for f in node.spatial)
    return ("  " * depth + node.name, type(node).__name__.lower(), size, fanouts, actions)


@presentation.text.register
def arch_text(arch: Arch) -> str:
    """The hierarchy from the outside in: components with sizes, fanouts and actions."""
    rows: list[tuple[str, str, str, str, str]] = []

    def walk(nodes: Sequence[ArchNode], depth: int) -> None:
        for node in nodes:
            if isinstance(node, Hierarchical | Fork | Array):
                name = f"{type(node).__name__.lower()} {node.name}".strip() if isinstance(node, Array) else type(node).__name__.lower()
                fanouts = ", ".join(f"{f.name} x{f.fanout}" for f in node.spatial) if isinstance(node, Array) else ""
                rows.append(("  " * depth + name, "", "", fanouts, ""))
                walk(node.nodes, depth + 1)
            else:
                rows.append(_component_row(node, depth))

    walk(arch.nodes, 0)
    return table(("component", "kind", "size", "fanout", "actions"), rows)


@presentation.text.register
def opencl_text(opencl: OpenCL) -> str:
    """The bindings, one line for each kind."""
    rows = [
        (field, ", ".join(f"{name}: {kind}" for name, kind in getattr(opencl, field).items()))
        for field in ("memories", "fanouts", "dtypes", "accumulate")
        if getattr(opencl, field)
    ]
    return table(("OpenCL", "binding"), rows)
