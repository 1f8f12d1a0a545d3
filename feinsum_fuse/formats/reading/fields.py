"""The shape of users' files: one pydantic model for each mapping that a file may hold, and the translation of its complaints."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from ..language.caps import shortened
from ..language.expressions import nearest
from ..language.reductions import ADD
from ..validation.complaints import FieldPath, complaint
from .document import Document


def _known_fields(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


class Input(BaseModel):
    """A mapping in a file; keys that no field has are errors that name the nearest field."""

    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True, protected_namespaces=())

    @model_validator(mode="before")
    @classmethod
    def _fields_are_known(cls, data: object) -> object:
        if isinstance(data, dict) and cls.model_config.get("extra") == "forbid":
            known = _known_fields(cls)
            for key in data:
                if key not in known:
                    close = nearest(str(key), known)
                    hint = close if close.startswith("Did") else f"The fields are {', '.join(known)}."
                    raise PydanticCustomError("unknown_field", "{hint}", {"key": key, "hint": hint})
        return data


def _number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise PydanticCustomError("expected", "a number or an expression", {})
    return value


def _text(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise PydanticCustomError("expected", "text", {})
    return str(value)


def _condition(value: object) -> object:
    if not isinstance(value, bool | str):
        raise PydanticCustomError("expected", "true, false or an expression", {})
    return value


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


NumberField = Annotated[int | float | str, BeforeValidator(_number)]
"""A number or the text of an expression."""
TextField = Annotated[str, BeforeValidator(_text)]
Switch = Annotated[bool | str, BeforeValidator(_condition)]
TextsField = Annotated[list[str], BeforeValidator(_listed)]


class RenameInput(Input):
    name: str
    source: TextField
    expected_count: NumberField | None = None


Renames = dict[str, TextField] | list[RenameInput]


class AccessInput(Input):
    name: str
    projection: list[Any] | dict[str, Any] | None = None
    output: bool | None = None
    persistent: bool = False
    backing_storage_size_scale: NumberField = 1.0
    bits_per_value: NumberField | None = None


class OperationsInput(Input):
    map: str | int | float | None = None
    reduce: str | None = ADD.name
    populate: NumberField | None = None
    online: bool = False


class EinsumInput(Input):
    name: str | None = None
    einsum: str | None = None
    tensor_accesses: list[AccessInput] = Field(default_factory=list)
    iteration_space_shape: TextsField = Field(default_factory=list)
    rank_sizes: dict[str, NumberField] = Field(default_factory=dict)
    is_copy_operation: bool = False
    renames: dict[str, Any] | list[Any] = Field(default_factory=dict)
    n_instances: NumberField = 1
    operations: OperationsInput | None = None


class WorkloadInput(Input):
    einsums: list[Any] = Field(default_factory=list)
    rank_sizes: dict[str, NumberField] = Field(default_factory=dict)
    iteration_space_shape: dict[str, TextField] = Field(default_factory=dict)
    n_instances: NumberField = 1
    bits_per_value: dict[str, NumberField] = Field(default_factory=dict)
    persistent_tensors: str | None = None


class EinsumRenameInput(Input):
    name: str
    tensor_accesses: dict[str, Any] | list[Any] = Field(default_factory=dict)
    rank_variables: dict[str, Any] | list[Any] = Field(default_factory=dict)


class RenamesInput(Input):
    einsums: list[EinsumRenameInput] = Field(default_factory=list)


class ActionInput(Input):
    name: str
    energy: NumberField | None = None
    throughput: NumberField | None = None
    latency: NumberField | None = None
    energy_scale: NumberField = 1.0
    throughput_scale: NumberField = 1.0
    latency_scale: NumberField | None = None
    bits_per_action: NumberField | None = None
    values_per_action: dict[str, NumberField] = Field(default_factory=dict)
    extra_attributes_for_component_model: dict[str, Any] = Field(default_factory=dict)


class ComparisonInput(Input):
    expression: TextField
    operator: str
    value: NumberField


class TensorsInput(Input):
    keep: TextField | None = None
    may_keep: TextField | None = None
    back: TextField = "Nothing"
    tile_shape: list[ComparisonInput] = Field(default_factory=list)
    no_refetch_from_above: TextField = "Nothing"
    no_resend_to_below: TextField = "Nothing"
    tensor_order_options: list[list[TextField]] = Field(default_factory=list)
    force_memory_hierarchy_order: bool = True


class FanoutInput(Input):
    name: str
    fanout: NumberField
    may_reuse: TextField | None = None
    reuse: TextField = "Nothing"
    min_usage: NumberField = 0.0
    usage_scale: NumberField = 1.0
    power_gateable: bool = False
    loop_bounds: list[ComparisonInput] = Field(default_factory=list)


class ComponentInput(Input):
    type: str = "Component"
    name: str
    component_class: str | None = None
    component_model: Any = None
    actions: list[ActionInput] = Field(default_factory=list)
    spatial: list[FanoutInput] = Field(default_factory=list)
    enabled: Switch = True
    area: NumberField | None = None
    leak_power: NumberField | None = None
    area_scale: NumberField = 1.0
    energy_scale: NumberField = 1.0
    leak_power_scale: NumberField = 1.0
    throughput_scale: NumberField = 1.0
    actions_scale: NumberField = 1.0
    latency_scale: NumberField | None = None
    n_parallel_instances: NumberField = 1.0
    total_latency: TextField | None = None
    support_concurrent_binding: Any = None
    extra_attributes_for_component_model: dict[str, Any] = Field(default_factory=dict)


class HolderInput(ComponentInput):
    bits_per_value: dict[str, NumberField] = Field(default_factory=dict)
    bits_per_action: NumberField | None = None
    values_per_action: dict[str, NumberField] = Field(default_factory=dict)
    tensors: TensorsInput = TensorsInput()


class MemoryInput(HolderInput):
    size: NumberField
    skip_initial_output_write: bool = True


class TollInput(HolderInput):
    direction: str | dict[str, str]


class ComputeInput(ComponentInput):
    skip_initial_output_write: bool = True


class ContainerInput(ComponentInput):
    pass


class NetworkInput(ComponentInput):
    topology: str = "mesh"
    bits_per_value: dict[str, NumberField] = Field(default_factory=dict)
    bits_per_action: NumberField | None = None


class BranchInput(Input):
    type: str = ""
    name: str = ""
    nodes: list[Any] = Field(default_factory=list)
    spatial: list[FanoutInput] = Field(default_factory=list)


class ArchInput(Input):
    type: str = ""
    nodes: list[Any] = Field(default_factory=list)
    variables: dict[str, Any] = Field(default_factory=dict)
    extra_attributes_for_all_component_models: dict[str, Any] = Field(default_factory=dict)


class NodeInput(Input):
    type: str
    text: str | None = None


class StorageInput(NodeInput):
    tensors: TextsField
    component: str
    persistent: bool = False
    binding: Any = None


class TollNodeInput(NodeInput):
    tensors: TextsField
    component: str
    persistent: bool = False


class TemporalInput(NodeInput):
    rank_variable: str | dict[str, str]
    tile_shape: int
    initial_tile_shape: int | None = None


class SpatialInput(TemporalInput):
    name: str = ""
    component: str


class ComputeNodeInput(NodeInput):
    einsum: str
    component: str


class NodesInput(NodeInput):
    type: str = "Nested"
    nodes: list[Any]
    binding: Any = None


class MappingInput(Input):
    type: str = "Mapping"
    text: str | None = None
    title: str | None = None
    nodes: list[Any]


class OpenCLInput(Input):
    memories: dict[str, str] = Field(default_factory=dict)
    fanouts: dict[str, str] = Field(default_factory=dict)
    dtypes: dict[str, str] = Field(default_factory=dict)
    accumulate: dict[str, str] = Field(default_factory=dict)


class MapperInput(Input):
    metrics: int | TextField | list[str] = Field(default_factory=list)
    info_metrics: int | TextField | list[str] = Field(default_factory=list)
    force_memory_hierarchy_order: bool = True
    out_of_order_hierarchy_explore_removing_spatials_for_more_temporals: bool = False
    max_fused_loops_per_rank_variable: NumberField = 1
    tiling_coarseness: NumberField = 1
    max_fused_loops: NumberField = "inf"
    max_loops_per_spatial_dimension: NumberField = "inf"
    max_loops_minus_ranks: NumberField = "inf"
    explore_loop_orders: bool = True
    memory_limit: NumberField = "inf"
    memory_limit_per_process: NumberField = "inf"
    time_limit: NumberField = "inf"
    time_limit_per_pmapping_template: NumberField = "inf"
    max_pmapping_templates_per_einsum: NumberField = "inf"
    explore_imperfect_spatial_loops: bool = False
    explore_imperfect_temporal_loops: bool = False
    prioritize_reuse_of_unfused_tensors: bool = False
    objective_tolerance: NumberField = 0
    resource_usage_tolerance: NumberField = 0


M = TypeVar("M", bound=BaseModel)


def read_input(model: type[M], data: object, document: Document, path: FieldPath) -> M:
    """The data as a model; the first complaint becomes a :class:`SpecError` at its place in the file."""

    def shown(steps: FieldPath) -> str | None:
        value, is_there = document.value((*path, *steps))
        return repr(shortened(str(value.plain() if value else None), 60)) if is_there else None

    try:
        return model.model_validate(data)
    except ValidationError as error:
        found = complaint(error, shown)
        raise document.error((*path, *found.path), found.message, found.hint, key=found.is_key) from None
