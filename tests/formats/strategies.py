"""Random Specs, built from Python objects, for round trips."""

from __future__ import annotations

from constantdict import constantdict
from hypothesis import strategies as st
from pymbolic.primitives import Call, Product, Sum, Variable

from feinsum_fuse.formats.affine import Affine
from feinsum_fuse.formats.arch import (
    Action,
    Arch,
    ArchNode,
    Compute,
    Container,
    Fanout,
    Fork,
    Hierarchical,
    Memory,
    Network,
    SizeConstraint,
    TensorRules,
    Toll,
)
from feinsum_fuse.formats.mapping import Compute as ComputeNode
from feinsum_fuse.formats.mapping import Mapping, Nested, Node, Sequential, Spatial, Storage, Temporal, TextBox
from feinsum_fuse.formats.opencl import OpenCL
from feinsum_fuse.formats.reading.assembly import spec as build
from feinsum_fuse.formats.spec import EinsumRename, Spec
from feinsum_fuse.formats.workload import Operation, TensorAccess, Workload, WorkloadEinsum, operand_name

AWKWARD_TEXTS = ["{{ x }}", "{% y %}", "{# z #}", "# no", "a: b", "yes", "1e3", "~", "!Tag", "%d", "- x", "'", '"', "\\", "\n", " "]
TEXTS = st.one_of(st.none(), st.text(max_size=12), st.sampled_from(AWKWARD_TEXTS))
VARIABLES = ("m", "n", "k", "p")
FINITE = st.floats(0, 1e12, allow_nan=False)
NUMBERS = st.one_of(st.integers(0, 10**12), FINITE, st.just(float("inf")))


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """A chain of Einsums over up to four rank variables."""
    sizes = {v: draw(st.integers(1, 40)) for v in VARIABLES}
    einsums: list[WorkloadEinsum] = []
    previous = "T0"
    for number in range(draw(st.integers(1, 3))):
        used = draw(st.lists(st.sampled_from(VARIABLES), min_size=1, max_size=3, unique=True))
        shared = einsums[-1].outputs[0].projection if einsums else None
        first = TensorAccess(previous, shared or constantdict({v.upper(): Affine.variable(v) for v in used}), bits_per_value=16)
        weight_index = {"W1": Affine.of({used[0]: draw(st.integers(1, 3)), used[-1]: 1}, draw(st.integers(0, 2)))}
        bits = draw(st.integers(1, 64))
        weight = TensorAccess(f"W{number}", constantdict(weight_index), persistent=draw(st.booleans()), bits_per_value=bits)
        kept = list(dict.fromkeys([*first.rank_variables, *weight.rank_variables]))[: draw(st.integers(1, 3))]
        previous = f"T{number + 1}"
        output = TensorAccess(previous, constantdict({v.upper(): Affine.variable(v) for v in kept}), True, bits_per_value=16)
        operation = Operation(
            draw(st.sampled_from([None, MAP_EXP, MAP_SUM])),
            draw(st.sampled_from(["add", "max", "min", "mul", "none"])),
            draw(st.sampled_from([None, 0.0, 1.5, float("-inf")])),
        )
        name = f"E{number}"
        bounds = constantdict({v: sizes[v] for v in dict.fromkeys([*first.rank_variables, *weight.rank_variables])})
        reduced = frozenset(bounds) - frozenset(kept)
        einsums.append(
            WorkloadEinsum(
                name=name,
                tensor_accesses=(first, weight, output),
                operation=operation,
                n_instances=draw(st.integers(1, 3)),
                renames=constantdict({"input": frozenset({first.name}), "nothing": frozenset[str](), "reduced": reduced}),
                rank_variable_renames=frozenset({"reduced"}),
                bounds=bounds,
            )
        )
    shape = {v: f"0 <= {v} < {size}" for v, size in sizes.items() if any(v in e.bounds for e in einsums)}
    table = draw(st.sampled_from([{}, {"All": 16}, {"T1": 16, "Other": 8}]))
    return Workload(tuple(einsums), constantdict(), constantdict(shape), draw(st.integers(1, 3)), constantdict(table))


A, B = (Variable(operand_name(k)) for k in range(2))
MAP_EXP = Call(Variable("exp"), (Sum((A, Product((-1, B)))),))
MAP_SUM = Sum((A, Product((0.5, B)), 2))


def actions(*names: str) -> st.SearchStrategy[tuple[Action, ...]]:
    """One action for each name."""
    positive = st.one_of(st.floats(1e-3, 1e12), st.just(float("inf")))
    bits = st.one_of(st.none(), st.integers(1, 512))
    return st.tuples(*(st.builds(Action, st.just(name), FINITE, positive, bits_per_action=bits) for name in names))


@st.composite
def archs(draw: st.DrawFn) -> Arch:
    """Two memories, a fanout, and a compute unit, some of it in groups."""
    both = actions("read", "write")
    leak, scale = draw(FINITE), draw(st.sampled_from([1.0, 2.5]))
    keep = TensorRules("~Intermediates", tile_shape=(SizeConstraint("All", "product<=", 4),), tensor_order_options=(("All", "Nothing"),))
    outer = Memory(name="Outer", actions=draw(both), size=draw(NUMBERS), tensors=keep, leak_power=leak, energy_scale=scale)
    inner = Memory(name="Inner", actions=draw(both), size=draw(NUMBERS), bits_per_value=constantdict({"All": draw(st.integers(1, 64))}))
    rows = Container(name="Rows", spatial=(Fanout("X", 64), Fanout("Y", 64, may_reuse="Inputs", min_usage=0.25)))
    unit = Compute(name="Unit", actions=draw(actions("compute")), total_latency="sum(a.n_calls for a in actions)")
    link = Toll(name="Link", actions=draw(actions("read")), direction=constantdict({"All": draw(st.sampled_from(["up", "down"]))}))
    mesh = Network(name="Mesh", actions=(Action("hop", 1.0, 2.0, latency=draw(NUMBERS)),), topology="all_to_all", leak_power=leak)
    dummy = Memory(name="Side", component_class="Dummy", actions=(Action("read"), Action("write")))
    side = Fork((dummy, Compute(name="Other", actions=(Action("compute"),))))
    tail: tuple[ArchNode, ...] = (link, mesh, rows, unit)
    nodes = draw(st.sampled_from([(outer, inner, *tail), (outer, side, Hierarchical((inner, *tail)))]))
    return Arch(nodes, constantdict(draw(st.dictionaries(st.sampled_from(["width", "depth"]), st.integers(1, 99)))))


@st.composite
def mappings(draw: st.DrawFn, workload: Workload) -> Mapping:
    """All tensors in the outer memory, some in the inner one, each Einsum with its own loops."""
    branches: list[Node] = []
    for einsum in workload.einsums:
        nodes: list[Node] = []
        for variable, size in einsum.bounds.items():
            tile = draw(st.integers(1, size))
            nodes.append(Temporal(draw(st.sampled_from([variable, constantdict({einsum.name: variable})])), tile, text=draw(TEXTS)))
        nodes.append(Storage(einsum.tensors[:1], "Inner", draw(st.booleans())))
        spatial = draw(st.booleans())
        for number, variable in enumerate(einsum.bounds):
            fanned = spatial and number == 0
            nodes.append(Spatial(variable, 1, None, "X", "Rows") if fanned else Temporal(variable, 1, draw(st.sampled_from([None, 1]))))
        branches.append(Nested((*nodes, ComputeNode(einsum.name, "Unit"))))
    root: list[Node] = [TextBox(text=draw(TEXTS)), Storage(workload.tensors, "Outer")]
    return Mapping((*root, Sequential(tuple(branches))), draw(TEXTS))


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    """A whole Spec."""
    workload = draw(workloads())
    arch = draw(archs())
    opencl = OpenCL(constantdict({"Outer": "global"}), constantdict({"Rows.X": "local.0"}), constantdict({"All": "float32"}))
    spec = build(workload, arch, draw(st.one_of(st.none(), mappings(workload))), draw(st.sampled_from([None, opencl])))
    renames = (EinsumRename("default", (("input", "Inputs", 2), ("all", "All", "len(All)")), (("r", "All.rank_variables", None),)),)
    return spec.replace(renames=draw(st.sampled_from([(), renames])), variables=constantdict(draw(st.sampled_from([{}, {"scale": 2.5}]))))
