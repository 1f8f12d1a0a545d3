"""Architectures: node kinds, attributes, expressions, and what is read but not modelled."""

from __future__ import annotations

import math
import warnings

import pytest
from constantdict import constantdict

import feinsum_fuse as ff
from feinsum_fuse.errors import SpecWarning
from feinsum_fuse.formats.arch import Action, Arch, Array, Compute, Container, Fork, Hierarchical, Memory, Network, TensorRules, Toll
from feinsum_fuse.formats.opencl import OpenCL
from feinsum_fuse.formats.spec import Spec
from tests.formats.cases import MATMUL, WHOLE

FULL = """
variables: {scale: 2}
arch:
  variables: {width: 8 * scale, depth: width * 4}
  nodes:
  - !Memory
    name: DRAM
    size: inf
    leak_power: 0.5
    area: size / inf if size < inf else 3
    tensors: {keep: ~Intermediates, may_keep: All}
    total_latency: max(a.n_calls / a.throughput for a in actions) * scale
    actions:
    - {name: read, energy: width / 4, throughput: 1e9, bits_per_action: width * scale}
    - {name: write, energy: 5, latency: 0.25}
  - !Toll
    name: Link
    direction: {Inputs: down, Other: up_and_down}
    leak_power: 0
    bits_per_action: 64
    actions: [{name: read, energy: 1, throughput: inf}]
  - !Hierarchical
    nodes:
    - !Memory
      name: Buffer
      size: depth * 1024
      leak_power: 0
      n_parallel_instances: 4
      bits_per_value: {Outputs: 32}
      values_per_action: {Inputs: 4}
      skip_initial_output_write: false
      actions: [{name: read, energy: DRAM.size, throughput: 1}, {name: write, energy: 0, throughput: 1}]
      enabled: len(All) == 3
    - !Fork
      nodes:
      - !Memory {name: Side, component_class: Dummy, size: 10}
      - !Compute {name: Special, component_class: Dummy}
    - !Container {name: Rows, spatial: [{name: X, fanout: width / 2, may_reuse: Inputs, reuse: All, min_usage: 0.5, power_gateable: true}]}
    - type: Compute
      name: MAC
      component_class: Dummy
"""


def load(text: str) -> Spec:
    return ff.loads(MATMUL + text.replace("DRAM.size", "DRAM.leak_power"))


def arch(text: str) -> Arch:
    found = load(text).arch
    assert found is not None
    return found


def test_all_kinds_and_expressions() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        read = arch(FULL)
    assert dict(read.variables) == {"width": 16, "depth": 64}
    dram, link, inner = read.nodes
    assert isinstance(dram, Memory)
    assert (dram.size, dram.leak_power, dram.area) == (math.inf, 0.5, 3)
    assert dram.actions == (Action("read", 4.0, 1e9, bits_per_action=32), Action("write", 5, 4.0))
    assert dram.tensors == TensorRules("~Intermediates", "All")
    assert dram.total_latency == "max(a.n_calls / a.throughput for a in actions) * scale"
    assert isinstance(link, Toll)
    assert link.direction == {"Inputs": "down", "Other": "up_and_down"}
    assert link.bits_per_action == 64
    assert isinstance(inner, Hierarchical)
    buffer, fork, rows, mac = inner.nodes
    assert isinstance(buffer, Memory)
    assert (buffer.size, buffer.n_parallel_instances, buffer.skip_initial_output_write) == (65536, 4, False)
    assert (buffer.bits_per_value, buffer.values_per_action, buffer.enabled) == ({"Outputs": 32}, {"Inputs": 4}, "len(All) == 3")
    assert buffer.actions[0].energy == 0.5
    assert isinstance(fork, Fork)
    assert isinstance(rows, Container)
    fanout = rows.spatial[0]
    assert (fanout.fanout, fanout.may_reuse, fanout.min_usage, fanout.power_gateable) == (8, "Inputs", 0.5, True)
    assert isinstance(mac, Compute)
    assert mac.actions == (Action("compute"),)


def test_paths_leave_out_forks_and_other_computes() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        read = arch(FULL)
    assert [leaf.name for leaf in read.path("MAC")] == ["DRAM", "Link", "Buffer", "Rows", "MAC"]
    assert [leaf.name for leaf in read.path("Special")] == ["DRAM", "Link", "Buffer", "Side", "Special"]


def test_latency_is_deprecated() -> None:
    with pytest.warns(DeprecationWarning, match="throughput = 1 / latency"):
        arch(FULL)


def test_what_is_not_modelled_is_named_once() -> None:
    text = """
arch:
  nodes:
  - !Network {name: NoC, topology: mesh, leak_power: 0, actions: [
      {name: hop, energy: 1, latency: 0, throughput: 1}, {name: stall, energy: 1, throughput: 1}]}
  - !Array {name: Chips, spatial: [{name: N, fanout: 2, loop_bounds: [{expression: m, operator: <=, value: 1}]}], nodes: [
      !Memory {name: M, size: 8, component_class: SRAM, leak_power: 0, component_model: x, actions: [
        {name: read, energy: 0, throughput: 1}, {name: write, energy: 0, throughput: 1}, {name: refresh, energy: 0, throughput: 1}]},
      !Compute {name: MAC, component_class: Dummy}]}
"""
    with pytest.warns(SpecWarning) as caught:
        read = arch(text)
    assert [str(warning.message).partition(": ")[2] for warning in caught] == [
        "the action stall of NoC, the action refresh of M, component_model of M, component_class SRAM of M."
    ]
    assert isinstance(read.nodes[0], Network)
    array = read.nodes[1]
    assert isinstance(array, Array)
    assert (array.name, array.spatial[0].fanout) == ("Chips", 2)


SETS = """
renames: {einsums: [{name: default, tensor_accesses: {weight: B}}]}
variables:
  name: "a text"
  table: [1, 2, 4]
  width: table[2] * len(name)
arch:
  nodes:
  - !Memory {name: Outer, component_class: Dummy, size: width, tensors: {keep: ~Intermediates}}
  - !Memory {name: Register, component_class: Dummy, size: weight.bits_per_value if weight else 0, tensors: {keep: weight & Above | Outer}}
  - !Compute {name: MAC, component_class: Dummy, enabled: len(All) == 3}
"""


def test_expressions_may_use_the_einsums_sets() -> None:
    register = arch(SETS).component("Register")
    assert isinstance(register, Memory)
    assert register.size == 8
    second = ff.loads(MATMUL + '  - "Y[m, n] = Z[m, n]"\n' + SETS).arch
    assert second is not None
    both = second.component("Register")
    assert isinstance(both, Memory)
    sizes = [both.for_einsum(einsum) for einsum in "ZY"]
    assert [both.size, *(memory.size for memory in sizes if isinstance(memory, Memory))] == [8, 8, 0]
    with pytest.raises(ff.SpecError, match="The name 'wieght' is not known"):
        load(SETS.replace("size: weight.", "size: wieght."))


def test_variables_may_be_texts_and_lists() -> None:
    spec = load(SETS)
    assert dict(spec.variables) == {"width": 24}
    assert ff.loads(spec.to_yaml()) == spec


def test_names_in_constraints_that_the_workload_lacks() -> None:
    with pytest.warns(SpecWarning, match="'input' in the constraint 'input' is neither a set of this workload nor a memory"):
        load(SETS.replace("keep: ~Intermediates", "keep: input"))
    with pytest.raises(ff.SpecError, match="'Intermediate' is neither a set nor a memory"):
        load(SETS.replace("keep: ~Intermediates", "keep: ~Intermediate"))
    with pytest.raises(ff.SpecError, match="'read_latency' is not known in total_latency"):
        load(SETS.replace("name: MAC,", "name: MAC, total_latency: read_latency * 2,"))


def test_a_device_needs_no_workload() -> None:
    text = "arch: {nodes: [!Memory {name: G, size: inf, component_class: Dummy}, !Compute {name: C, component_class: Dummy}]}\n"
    spec = ff.loads(text + "opencl: {memories: {G: global}, dtypes: {All: float32}}\n")
    assert spec.workload.einsums == ()
    assert ff.loads(spec.to_yaml()) == spec
    with pytest.raises(ff.SpecError, match="has no workload"):
        ff.loads("opencl: {dtypes: {All: float32}}\n")


def test_the_table_shows_the_hierarchy() -> None:
    assert str(ff.loads(WHOLE).arch) == """\
component     kind       size         fanout      actions
MainMemory    memory     inf bits                 read 1 J inf/s, write 1 J inf/s
GlobalBuffer  memory     131072 bits              read 1 J 64/s, write 1 J 64/s
PEArray       container               X x4, Y x4
MAC           compute                             compute 1 J 1/s"""


@pytest.mark.parametrize(
    ("binding", "message"),
    [
        ("{memories: {GlobalBufer: local}}", "The architecture has no memory GlobalBufer.\n  Did you mean GlobalBuffer?"),
        ("{memories: {PEArray: local}}", "The architecture has no memory PEArray."),
        (
            "{memories: {GlobalBuffer: shared}}",
            "'shared' is no binding of a memory.\n  Bindings are global, cache, local, private, distributed.",
        ),
        ("{fanouts: {PEArray: local.0}}", "The architecture has no fanout PEArray.\n  Did you mean PEArray.X or PEArray.Y?"),
        ("{fanouts: {PEArray.X: local.3}}", "'local.3' is no binding of a fanout."),
        ("{fanouts: {PEArray.X: local.0, PEArray.Y: local.0}}", "are both bound to local.0"),
        ("{dtypes: {All: float}}", "There is no element type 'float'."),
        ("{dtypes: {Al: float32}}", "The name 'Al' is not known."),
        ("{dtypes: {All: float32, Inputs: float64}}", "both cover tensor A"),
        ("{accumulate: {All: double}}", "There is no element type 'double'."),
        ("{memory: {}}", "The field 'memory' is not known here.\n  Did you mean memories?"),
    ],
)
def test_bad_bindings(binding: str, message: str) -> None:
    with pytest.raises(ff.SpecError) as caught:
        ff.loads(WHOLE + f"opencl: {binding}\n")
    assert message in str(caught.value)


def test_replacing_the_bindings_validates_them() -> None:
    spec = ff.loads(WHOLE)
    assert spec.replace(opencl=OpenCL(memories=constantdict({"MainMemory": "global"}))).opencl is not None
    with pytest.raises(ff.SpecError, match=r"opencl\.memories\.MainMemry: The architecture has no memory MainMemry"):
        spec.replace(opencl=OpenCL(memories=constantdict({"MainMemry": "global"})))


def test_bindings() -> None:
    bindings = "memories: {MainMemory: global, GlobalBuffer: cache}, fanouts: {PEArray.X: local.0, PEArray.Y: vector}"
    spec = ff.loads(f"{WHOLE}opencl: {{{bindings}, dtypes: {{All: float32}}}}\n")
    assert spec.opencl is not None
    assert dict(spec.opencl.memories) == {"MainMemory": "global", "GlobalBuffer": "cache"}
    assert dict(spec.opencl.fanouts) == {"PEArray.X": "local.0", "PEArray.Y": "vector"}
    assert ff.loads(spec.to_yaml()) == spec


UNIT = """
arch:
  nodes:
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
"""


@pytest.mark.parametrize("where", ["name: MAC", "name: compute"])
def test_latency_scale_is_the_inverse_of_throughput_scale(where: str) -> None:
    with pytest.warns(DeprecationWarning, match="latency_scale of"):
        slow = load(UNIT.replace(where, f"{where}, latency_scale: 4")).arch
    assert slow is not None
    unit = slow.component("MAC")
    assert unit.throughput_scale * unit.actions[0].throughput_scale == 0.25
    with pytest.raises(ff.SpecError, match="both throughput_scale and latency_scale"):
        load(UNIT.replace(where, f"{where}, latency_scale: 4, throughput_scale: 2"))
