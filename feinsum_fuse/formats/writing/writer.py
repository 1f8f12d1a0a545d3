"""Writing a Spec as YAML that loads back to an equal Spec."""

from __future__ import annotations

from collections.abc import Mapping as Table
from dataclasses import MISSING, fields

from ... import presentation
from ...errors import SpecError
from ..arch import Action, Arch, ArchNode, Array, Component, Container, Fanout, Fork, Hierarchical, TensorRules
from ..language.map_text import operand_texts, operation_fields
from ..mapper import METRICS, MapperSettings
from ..mapping import Compute, Mapping, Nested, Node, Sequential, Spatial, Storage, Temporal, TextBox, Toll
from ..opencl import OpenCL
from ..sets import resolve
from ..spec import EinsumRename, Spec
from ..workload import TensorAccess, Workload, WorkloadEinsum
from .yaml_text import Expression, Tagged, YamlData, yaml_text

YamlBlock = dict[str, YamlData]


@presentation.yaml.register
def spec_text(spec: Spec) -> str:
    """The whole Spec, one block for each top key that it has."""
    data: YamlBlock = {}
    if spec.variables:
        data["variables"] = dict(spec.variables)
    if spec.workload.einsums:
        data["workload"] = workload_data(spec.workload)
    if spec.renames:
        data["renames"] = {"einsums": [_top_level_rename(item) for item in spec.renames]}
    if spec.arch is not None:
        data["arch"] = arch_data(spec.arch)
    if spec.mapping is not None:
        data["mapping"] = mapping_data(spec.mapping)
    if spec.opencl is not None:
        data["opencl"] = opencl_data(spec.opencl)
    if spec.mapper is not None:
        data["mapper"] = mapper_data(spec.mapper)
    return yaml_text(data)


@presentation.yaml.register
def mapping_text(mapping: Mapping) -> str:
    """The ``mapping`` block alone."""
    return yaml_text({"mapping": mapping_data(mapping)})


def _without_defaults(item: object, keep: tuple[str, ...] = ()) -> YamlBlock:
    """The fields of a dataclass that differ from their defaults; nested values are left to the caller."""
    result: YamlBlock = {}
    for field in fields(item):  # type: ignore[arg-type]
        value = getattr(item, field.name)
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        if field.name in keep or default is MISSING or value != default:
            result[field.name] = dict(value) if isinstance(value, Table) else value
    return result


def mapper_data(settings: MapperSettings) -> YamlBlock:
    """The ``mapper`` block; metrics as the numbers that AccelForge's reader takes."""
    data = _without_defaults(settings)
    for name in ("metrics", "info_metrics"):
        if name in data:
            data[name] = sum(METRICS[metric] for metric in getattr(settings, name))
    return data


def workload_data(workload: Workload) -> YamlBlock:
    """The ``workload`` block."""
    data: YamlBlock = {}
    for name in ("rank_sizes", "iteration_space_shape", "bits_per_value"):
        if getattr(workload, name):
            data[name] = dict(getattr(workload, name))
    if workload.persistent_tensors is not None:
        data["persistent_tensors"] = workload.persistent_tensors
    if workload.n_instances != 1:
        data["n_instances"] = workload.n_instances
    data["einsums"] = [_einsum(workload, einsum) for einsum in workload.einsums]
    return data


def _einsum(workload: Workload, einsum: WorkloadEinsum) -> YamlBlock:
    try:
        table = resolve(workload.bits_per_value, workload, einsum.name)
    except SpecError:
        table = {}
    data: YamlBlock = {"name": einsum.name}
    if einsum.is_copy_operation:
        data["is_copy_operation"] = True
    data["tensor_accesses"] = [_access(access, table.get(access.name)) for access in einsum.tensor_accesses]
    operations = operation_fields(einsum.operation, operand_texts(einsum))
    if operations:
        data["operations"] = operations
    if einsum.iteration_space_shape:
        data["iteration_space_shape"] = list(einsum.iteration_space_shape)
    if einsum.rank_sizes:
        data["rank_sizes"] = dict(einsum.rank_sizes)
    if einsum.renames:
        data["renames"] = {name: _set_text(elements, name in einsum.rank_variable_renames) for name, elements in einsum.renames.items()}
    if einsum.n_instances != 1:
        data["n_instances"] = einsum.n_instances
    return data


def _set_text(elements: frozenset[str], of_variables: bool) -> str:
    return " | ".join(sorted(elements)) or ("Nothing.rank_variables" if of_variables else "Nothing")


def _access(access: TensorAccess, bits: int | None) -> YamlBlock:
    simple = all(index.bare and index.bare.upper() == rank for rank, index in access.projection.items())
    indices = {rank: str(index) for rank, index in access.projection.items()}
    data: YamlBlock = {"name": access.name, "projection": list(indices.values()) if simple else indices}
    if access.output:
        data["output"] = True
    if access.persistent:
        data["persistent"] = True
    if access.backing_storage_size_scale != 1:
        data["backing_storage_size_scale"] = access.backing_storage_size_scale
    if access.bits_per_value != bits:
        data["bits_per_value"] = access.bits_per_value
    return data


def _top_level_rename(item: EinsumRename) -> YamlBlock:
    data: YamlBlock = {"name": item.name}
    for field in ("tensor_accesses", "rank_variables"):
        rows: tuple[tuple[str, str, int | str | None], ...] = getattr(item, field)
        if rows:
            data[field] = [
                {"name": name, "source": source} | ({} if count is None else {"expected_count": count}) for name, source, count in rows
            ]
    return data


def arch_data(arch: Arch) -> YamlBlock:
    """The ``arch`` block."""
    expressions = {name: Expression(text) for name, text in arch.expressions.items()}
    data: YamlBlock = {"variables": {**arch.variables, **expressions}} if arch.variables or expressions else {}
    data["nodes"] = [_arch_node(node) for node in arch.nodes]
    return data


def _arch_node(node: ArchNode) -> Tagged:
    if isinstance(node, Hierarchical | Fork | Array):
        data: YamlBlock = {}
        if isinstance(node, Array):
            data = ({"name": node.name} if node.name else {}) | ({"spatial": [_fanout(f) for f in node.spatial]} if node.spatial else {})
        return Tagged(type(node).__name__, data | {"nodes": [_arch_node(child) for child in node.nodes]})
    return Tagged(type(node).__name__, _component(node))


def _component(node: Component) -> YamlBlock:
    # AccelForge wants the leakage of what has any; its containers have none.
    keep = ("name", "size", "direction") if isinstance(node, Container) else ("name", "leak_power", "size", "direction")
    plain = _without_defaults(node, keep)
    plain = {name: value for name, value in plain.items() if name not in ("expressions", "by_einsum")}
    if isinstance(rules := plain.get("tensors"), TensorRules):
        plain["tensors"] = _rules(rules)
    result: YamlBlock = {"name": plain.pop("name")} | plain
    if node.actions:
        result["actions"] = [_action(action) for action in node.actions]
    if node.spatial:
        result["spatial"] = [_fanout(fanout) for fanout in node.spatial]
    for name, text in node.expressions.items():
        _put_expression(result, name, text)
    return result


def _put_expression(component: YamlBlock, name: str, text: str) -> None:
    """Write an expression in the place of a field's number; leave the field out if there is none."""
    owner, _, key = name.rpartition(".")
    table: object = component
    if name.startswith(("bits_per_value.", "values_per_action.")):
        owner, _, key = name.partition(".")
        table = component[owner]
    elif owner:
        named = component["spatial" if owner.startswith("spatial.") else "actions"]
        assert isinstance(named, list)
        table = next(item for item in named if item["name"] == owner.removeprefix("spatial."))
    assert isinstance(table, dict)
    table.pop(key, None)
    if text:
        table[key] = text


def _action(action: Action) -> YamlBlock:
    return _without_defaults(action, ("name", "energy", "throughput"))


def _rules(rules: TensorRules) -> YamlBlock:
    options = {"tensor_order_options": [list(option) for option in rules.tensor_order_options]} if rules.tensor_order_options else {}
    shapes = {"tile_shape": [_without_defaults(one) for one in rules.tile_shape]} if rules.tile_shape else {}
    return _without_defaults(rules) | options | shapes


def _fanout(fanout: Fanout) -> YamlBlock:
    # A fanout that must reuse a tensor may, unless it says otherwise, reuse no other.
    own = ("may_reuse",) if fanout.reuse != "Nothing" else ()
    bounds = {"loop_bounds": [_without_defaults(one) for one in fanout.loop_bounds]} if fanout.loop_bounds else {}
    return _without_defaults(fanout, ("name", "fanout", *own)) | bounds


def mapping_data(mapping: Mapping) -> YamlBlock:
    """The ``mapping`` block."""
    data: YamlBlock = {"title": mapping.title} if mapping.title is not None else {}
    data["nodes"] = [_node(node) for node in mapping.nodes]
    return data


def _node(node: Node) -> Tagged:
    data: YamlBlock
    if isinstance(node, Storage | Toll):
        data = {"tensors": list(node.tensors), "component": node.component}
        if isinstance(node, Storage) and node.persistent:
            data["persistent"] = True
    elif isinstance(node, Temporal):
        variable = node.rank_variable
        data = {"rank_variable": variable if isinstance(variable, str) else dict(variable), "tile_shape": node.tile_shape}
        if node.initial_tile_shape is not None:
            data["initial_tile_shape"] = node.initial_tile_shape
        if isinstance(node, Spatial):
            data |= ({"name": node.name} if node.name else {}) | {"component": node.component}
    elif isinstance(node, Compute):
        data = {"einsum": node.einsum, "component": node.component}
    elif isinstance(node, Sequential | Nested):
        data = {"nodes": [_node(child) for child in node.nodes]}
    else:
        assert isinstance(node, TextBox)
        data = {}
    return Tagged(type(node).__name__, ({"text": node.text} if node.text is not None else {}) | data)


def opencl_data(opencl: OpenCL) -> YamlBlock:
    """The ``opencl`` block."""
    return {field.name: dict(getattr(opencl, field.name)) for field in fields(opencl) if getattr(opencl, field.name)}
