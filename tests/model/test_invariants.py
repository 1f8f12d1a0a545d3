"""What must hold for every mapping with perfect factors and unit strides."""

from __future__ import annotations

import math
import random

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from feinsum_fuse import predict
from feinsum_fuse.formats.mapping import Mapping, Node, Spatial, Storage, Temporal
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.model import Prediction, bounds
from tests.generators.single_einsums import EINSUMS, WINDOWS, Draw
from tests.sweeps import sweep_size

MEMORIES = ("Main", "Buffer", "Register")
EXAMPLES = settings(max_examples=sweep_size(1000))


def drawn(chance: random.Random) -> Spec:
    return Draw(chance).spec((*EINSUMS, *WINDOWS))


def with_nodes(spec: Spec, nodes: list[Node]) -> Spec:
    return spec.replace(mapping=Mapping(tuple(nodes)))


def nodes_of(spec: Spec) -> list[Node]:
    assert spec.mapping is not None
    return list(spec.mapping.nodes)


def fills(prediction: Prediction, einsum: str, memory: str, tensor: str) -> float:
    """Values that enter a memory from above, or leave it upwards."""
    return prediction.actions[einsum, memory, tensor, "write"]


@EXAMPLES
@given(st.randoms(use_true_random=False))
def test_moving_a_storage_node_down_raises_neither_tile_nor_reuse(chance: random.Random) -> None:
    spec = drawn(chance)
    einsum, nodes = spec.workload.einsums[0], nodes_of(spec)
    inputs = {access.name for access in einsum.inputs}
    places = [
        place
        for place, node in enumerate(nodes[:-1])
        if isinstance(node, Storage)
        and node.component != "Main"
        and isinstance(nodes[place + 1], Temporal)
        and not isinstance(nodes[place + 1], Spatial)
        and set(node.tensors) <= inputs
    ]
    assume(places)
    place = chance.choice(places)
    moved = [*nodes[:place], nodes[place + 1], nodes[place], *nodes[place + 2 :]]
    before, after = predict(spec), predict(with_nodes(spec, moved))
    node = nodes[place]
    assert isinstance(node, Storage)
    for tensor in node.tensors:
        key = (einsum.name, node.component, tensor)
        assert after.occupancy[key] <= before.occupancy[key]
        assert fills(after, einsum.name, node.component, tensor) >= fills(before, einsum.name, node.component, tensor)


@EXAMPLES
@given(st.randoms(use_true_random=False))
def test_every_value_moves_at_least_once(chance: random.Random) -> None:
    spec = drawn(chance)
    einsum, prediction = spec.workload.einsums[0], predict(spec)
    for access in einsum.tensor_accesses:
        size = math.prod(index.extent(einsum.bounds) for index in access.projection.values())
        action = "write" if access.output else "read"
        assert prediction.actions[einsum.name, "Main", access.name, action] >= size
    floor = bounds(spec)
    assert floor.latency <= prediction.latency * (1 + 1e-12)
    for (memory, action), count in floor.actions.items():
        assert count <= prediction.actions.total(component=memory, action=action)


@EXAMPLES
@given(st.randoms(use_true_random=False))
def test_splitting_a_loop_changes_nothing(chance: random.Random) -> None:
    spec = drawn(chance)
    nodes = nodes_of(spec)
    current: dict[str, int] = dict(spec.workload.einsums[0].bounds)
    choices: list[tuple[int, int]] = []
    for place, node in enumerate(nodes):
        if isinstance(node, Temporal):
            assert isinstance(node.rank_variable, str)
            outer = current[node.rank_variable]
            middles = [t for t in range(node.tile_shape, outer + 1) if outer % t == 0 and t % node.tile_shape == 0]
            choices += [(place, middle) for middle in middles if not isinstance(node, Spatial)]
            current[node.rank_variable] = node.tile_shape
    assume(choices)
    place, middle = chance.choice(choices)
    loop = nodes[place]
    assert isinstance(loop, Temporal)
    split = [*nodes[:place], Temporal(loop.rank_variable, middle), *nodes[place:]]
    before, after = predict(spec), predict(with_nodes(spec, split))
    assert dict(before.actions) == dict(after.actions)
    assert dict(before.component_latency) == dict(after.component_latency)
    window = any(len(index.terms) > 1 for access in spec.workload.einsums[0].tensor_accesses for index in access.projection.values())
    if not window:  # a reservation sinks below the first partially relevant loop only
        assert dict(before.occupancy) == dict(after.occupancy)


@EXAMPLES
@given(st.randoms(use_true_random=False))
def test_json_gives_back_an_equal_prediction(chance: random.Random) -> None:
    prediction = predict(drawn(chance))
    assert Prediction.from_json(prediction.to_json()) == prediction
