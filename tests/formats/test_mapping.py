"""LoopTrees: node kinds, both ways to write them, and every misfit that is refused when they are loaded."""

from __future__ import annotations

import textwrap

import pytest

import feinsum_fuse as ff
from feinsum_fuse.errors import SpecWarning
from feinsum_fuse.formats.mapping import Compute, Mapping, Nested, Pipeline, Sequential, Spatial, Split, Storage, Temporal, TextBox, Toll
from feinsum_fuse.formats.reading.assembly import spec as build
from tests.formats.cases import ARCH, MAPPING, MATMUL, WHOLE

MATVECS = """
workload:
  rank_sizes: {NI: 6, NA: 8, NB: 10}
  bits_per_value: {All: 8}
  einsums: ["A[nA] = I[nI] * WA[nI, nA]", "B[nB] = A[nA] * WB[nA, nB]"]
arch:
  nodes:
  - !Memory {name: OffChip, size: inf, component_class: Dummy}
  - !Memory {name: OnChip, size: inf, component_class: Dummy}
  - !Compute {name: Unit, component_class: Dummy}
"""
TREE = """
mapping:
  nodes:
  - !Storage {component: OffChip, tensors: [I, WA, WB, B]}
  - !Storage {component: OnChip, tensors: [WA]}
  - !Temporal {rank_variable: nA, tile_shape: 1}
  - !Storage {component: OnChip, tensors: [A]}
  - !Sequential
    nodes:
    - !Nested
      nodes:
      - !Temporal {rank_variable: nI, tile_shape: 1}
      - !Storage {component: OnChip, tensors: [I]}
      - !Compute {einsum: A, component: Unit}
    - !Nested
      nodes:
      - !Temporal {rank_variable: nB, tile_shape: 1}
      - !Storage {component: OnChip, tensors: [B, WB]}
      - !Compute {einsum: B, component: Unit}
"""
CLASSES = Mapping(
    nodes=[
        Storage(component="OffChip", tensors=["I", "WA", "WB", "B"]),
        Storage(component="OnChip", tensors=["WA"]),
        Temporal(rank_variable="nA", tile_shape=1),
        Storage(component="OnChip", tensors=["A"]),
        Sequential(
            nodes=[
                Nested(
                    nodes=[
                        Temporal(rank_variable="nI", tile_shape=1),
                        Storage(component="OnChip", tensors=["I"]),
                        Compute(einsum="A", component="Unit"),
                    ]
                ),
                Nested(
                    nodes=[
                        Temporal(rank_variable="nB", tile_shape=1),
                        Storage(component="OnChip", tensors=["B", "WB"]),
                        Compute(einsum="B", component="Unit"),
                    ]
                ),
            ]
        ),
    ]
)


def mapping(text: str) -> Mapping:
    found = ff.loads(text).mapping
    assert found is not None
    return found


def test_yaml_and_classes_are_the_same_tree() -> None:
    spec = ff.loads(MATVECS + TREE)
    assert spec.mapping == CLASSES
    assert spec == build(spec.workload, spec.arch, CLASSES)
    assert ff.loads(MATVECS).replace(mapping=CLASSES) == spec
    assert hash(spec.mapping) == hash(CLASSES)


def test_type_fields_stand_for_tags() -> None:
    typed = TREE
    for tag in ("Storage", "Temporal", "Compute"):
        typed = typed.replace(f"!{tag} {{", f"{{type: {tag}, ")
    for tag in ("Sequential", "Nested"):
        typed = typed.replace(f"!{tag}\n    ", f"type: {tag}\n    ")
    assert "!" not in typed
    assert mapping(MATVECS + typed) == CLASSES
    assert mapping(MATVECS + TREE.replace("mapping:\n", "mapping: !Mapping\n")) == CLASSES


def test_positions_on_paths() -> None:
    a, b = CLASSES.path("A"), CLASSES.path("B")
    assert [placed.position for placed in a] == [(0,), (1,), (2,), (3,), (4, 0, 0, 0), (4, 0, 0, 1), (4, 0, 0, 2)]
    assert [placed.position for placed in b][4:] == [(4, 1, 0, 0), (4, 1, 0, 1), (4, 1, 0, 2)]
    assert a[:4] == b[:4]


def test_all_kinds() -> None:
    text = MATMUL + ARCH.replace("  - !Container", "  - !Toll {name: Link, direction: down, component_class: Dummy}\n  - !Container") + """
mapping:
  title: All kinds
  nodes:
  - !TextBox {text: a remark}
  - !Storage {tensors: [A, B, Z], component: MainMemory, persistent: true, text: everything}
  - !Reservation {purposes: [A], resource: MainMemory}
  - !Temporal {rank_variable: m, tile_shape: 4, initial_tile_shape: 6}
  - !Toll {tensors: A, component: Link}
  - !Spatial {rank_variable: {Z: m}, tile_shape: 1, name: X, component: PEArray}
  - !Split
    nodes:
    - !Pipeline
      nodes:
      - !Nested
        nodes:
        - !Temporal {rank_variable: n, tile_shape: 1}
        - !Temporal {rank_variable: k, tile_shape: 1}
        - !Compute {einsum: Z, component: MAC}
"""
    with pytest.warns(SpecWarning, match="1 Reservation nodes are ignored"):
        spec = ff.loads(text)
    assert spec.mapping == Mapping(
        (
            TextBox(text="a remark"),
            Storage(("A", "B", "Z"), "MainMemory", True, text="everything"),
            Temporal("m", 4, 6),
            Toll(("A",), "Link"),
            Spatial({"Z": "m"}, 1, None, "X", "PEArray"),  # type: ignore[arg-type]
            Split((Pipeline((Nested((Temporal("n", 1), Temporal("k", 1), Compute("Z", "MAC"))),)),)),
        ),
        "All kinds",
    )
    assert ff.loads(spec.to_yaml()) == spec


def test_loops_shared_by_einsums_whose_variables_differ() -> None:
    text = """
workload:
  rank_sizes: {P: 16, R: 3}
  iteration_space_shape: {p1: 0 <= p1 < 18, p2: 0 <= p2 < 16, r: 0 <= r < 3}
  bits_per_value: {All: 8}
  einsums: ["Y[P1: p1] = X[P1: p1]", "Z[P: p2] = Y[P1: p2+r] * W[r]"]
mapping:
  nodes:
  - !Storage {tensors: [X, Z, W], component: M}
  - !Temporal {rank_variable: {Y: p1, Z: p2}, tile_shape: 4}
  - !Storage {tensors: [Y], component: L}
  - !Sequential
    nodes:
    - !Nested {nodes: [!Temporal {rank_variable: p1, tile_shape: 1}, !Compute {einsum: Y, component: C}]}
    - !Nested
      nodes:
      - !Temporal {rank_variable: p2, tile_shape: 1}
      - !Temporal {rank_variable: r, tile_shape: 1}
      - !Compute {einsum: Z, component: C}
"""
    spec = ff.loads(text)
    assert spec.mapping is not None
    loop = spec.mapping.nodes[1]
    assert isinstance(loop, Temporal)
    assert (loop.variable("Y"), loop.variable("Z"), loop.variable("W")) == ("p1", "p2", None)
    assert ff.loads(spec.to_yaml()) == spec
    for wrong in ("{Y: p1, Q: p2}", "{Y: p2, Z: p2}"):
        with pytest.raises(ff.MappingError):
            ff.loads(text.replace("{Y: p1, Z: p2}", wrong))


SOFTMAX = """
workload:
  rank_sizes: {M: 4, P: 8}
  bits_per_value: {All: 8}
  einsums: ["SM[m, p] = softmax(QK[m, p], p)"]
mapping:
  nodes:
  - !Storage {tensors: [QK, SM], component: D}
  - !Temporal {rank_variable: m, tile_shape: 1}
"""
PART = "    - !Nested {nodes: [!Temporal {rank_variable: p, tile_shape: 1}, !Compute {einsum: NAME, component: C}]}\n"


def test_a_softmax_is_mapped_whole_or_in_its_four_parts() -> None:
    whole = SOFTMAX + "  - !Temporal {rank_variable: p, tile_shape: 1}\n  - !Compute {einsum: SM, component: C}\n"
    assert ff.loads(whole).mapping is not None
    parts = "".join(PART.replace("NAME", name) for name in ("SM.max", "SM.exp", "SM.sum", "SM"))
    tree = SOFTMAX + "  - !Storage {tensors: [SM.max, SM.exp, SM.sum], component: L}\n  - !Sequential\n    nodes:\n" + parts
    assert ff.loads(tree).mapping is not None
    with pytest.raises(ff.MappingError, match=r"The part SM\.sum of the softmax SM has no Compute node"):
        ff.loads(tree.replace(PART.replace("NAME", "SM.sum"), ""))


STORAGE = "  - !Storage {tensors: [A, B, Z], component: MainMemory}\n"
LOOP = "  - !Temporal {rank_variable: k, tile_shape: 1}\n"
COMPUTE = "  - !Compute {einsum: Z, component: MAC}\n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (COMPUTE, "", "This branch ends in a Temporal, without a Compute node."),
        (MAPPING[MAPPING.index("  nodes:") :], "  nodes: []\n", "A branch of the mapping has no nodes."),
        (MAPPING[MAPPING.index("  nodes:") :], "  nodes: [!TextBox {text: x}]\n", "The mapping has no Compute node."),
        (COMPUTE, "  - !Sequential {nodes: []}\n", "The Sequential has no branches."),
        (COMPUTE, COMPUTE + LOOP, "A Compute must be the last node of its branch"),
        (COMPUTE, f"  - !Nested {{nodes: [{COMPUTE[4:-1]}]}}\n" + LOOP, "A Nested must be the last node of its branch"),
        (COMPUTE, f"  - !Split {{nodes: [{COMPUTE[4:-1]}, {COMPUTE[4:-1]}]}}\n", "Einsum Z has two Compute nodes."),
        ("einsum: Z", "einsum: Y", "There is no Einsum Y."),
        ("component: MAC", "component: MCA", "The architecture has no Compute MCA.\n  Did you mean MAC?"),
        ("component: MAC", "component: GlobalBuffer", "GlobalBuffer is a Memory of the architecture; a Compute is needed here."),
        ("component: GlobalBuffer", "component: MAC", "MAC is a Compute of the architecture; a Memory is needed here."),
        ("[A, B, Z], component: Main", "[A, B, Q], component: Main", "No Einsum has a tensor Q."),
        ("rank_variable: n", "rank_variable: q", "No Einsum has a rank variable q."),
        ("tile_shape: 4", "tile_shape: 0", "The tile shape 0 is not positive."),
        ("tile_shape: 4", "tile_shape: -4", "The tile shape -4 is not positive."),
        ("tile_shape: 4", "tile_shape: 33", "The tile shape 33 of m exceeds its bound, 32, in Einsum Z."),
        (LOOP, LOOP.replace("1}", "4}") + LOOP.replace("1}", "8}") + LOOP,
         "The tile shape 8 of k exceeds the tile that it cuts, 4, in Einsum Z."),
        ("tile_shape: 4", "tile_shape: 4, initial_tile_shape: 40", "The initial tile shape 40 of m must lie between 1 and 32."),
        ("tile_shape: 4", "tile_shape: 2.5", "A whole number is expected, not '2.5'."),
        ("tile_shape: 4", "tile_shape: 2*2", "A whole number is expected, not '2*2'."),
        ("tile_shape: 4", "loop_bound: 4", "The field 'loop_bound' is not known here."),
        (LOOP, "", "Missing loop with tile shape 1 for the rank variable k in Einsum Z."),
        (LOOP, LOOP.replace("1}", "2}"), "Missing loop with tile shape 1 for the rank variable k in Einsum Z."),
        ("tile_shape: 4", "tile_shape: 5", "The mapping uses 5 spatial instances of PEArray dimension X, but its fanout is only 4."),
        (LOOP, LOOP.replace("!Temporal", "!Spatial").replace("1}", "1, name: X, component: PEArray}"),
         "The mapping uses 64 spatial instances of PEArray dimension X, but its fanout is only 4."),
        ("1, name: X, ", "1, name: Q, ", "PEArray has no fanout dimension 'Q'.\n  Known: X, Y."),
        ("component: PEArray", "component: MAC", "MAC has no fanout.\n  Known: PEArray."),
        ("component: PEArray", "component: PEArry", "The architecture has no component PEArry.\n  Did you mean PEArray?"),
        (", component: PEArray", "", "The field 'component' is missing."),
        (MAPPING, MAPPING.replace("MainMemory", "x").replace("GlobalBuffer", "MainMemory").replace("x}", "GlobalBuffer}"),
         "Tensor A is held in MainMemory below GlobalBuffer, but MainMemory is the outer one."),
        (MAPPING, MAPPING.replace("A, B, Z", "A, Z"), "Tensor B of Einsum Z has no Storage node above its Compute."),
        ("!Spatial", "!Spacial", "The tag '!Spacial' is not known.\n  Did you mean Spatial?"),
        ("!Spatial", "!Memory", "'Memory' is no kind of mapping node."),
        ("  - !Spatial {", "  - {", "The node has no tag."),
        ("  - !Spatial {rank_variable: m, tile_shape: 1, name: X, component: PEArray}", "  - m", "A mapping node is a tagged mapping"),
    ],
)  # fmt: skip
def test_misfits_are_refused_at_load(old: str, new: str, message: str) -> None:
    assert old in WHOLE
    with pytest.raises(ff.SpecError) as caught:
        ff.loads(WHOLE.replace(old, new))
    assert message in str(caught.value)
    assert caught.value.location is not None
    assert caught.value.location.line is not None


def test_a_loop_that_no_einsum_below_has_is_refused() -> None:
    loop = "      - !Temporal {rank_variable: nI"
    text = (MATVECS + TREE).replace(loop, f"      - !Temporal {{rank_variable: nB, tile_shape: 1}}\n{loop}")
    with pytest.raises(ff.MappingError, match="No Einsum below this loop has the rank variable nB"):
        ff.loads(text)


def test_components_off_the_way_to_the_compute_are_refused() -> None:
    nodes = "!Memory {name: Side, size: 1, component_class: Dummy}, !Compute {name: Other, component_class: Dummy}"
    text = WHOLE.replace("  - !Container", f"  - !Fork {{nodes: [{nodes}]}}\n  - !Container")
    text = text.replace("component: GlobalBuffer}", "component: Side}")
    with pytest.raises(ff.MappingError, match="Side does not lie on the way to MAC in the architecture"):
        ff.loads(text)


def test_a_toll_may_not_be_the_outermost_holder_of_a_shared_tensor() -> None:
    unit, link = "  - !Compute {name: Unit", "  - !Toll {name: Link, direction: up, component_class: Dummy}\n"
    last = "  - !Memory {name: Last, size: inf, component_class: Dummy}\n"
    holder = "  - !Storage {component: OnChip, tensors: [A]}"
    text = (MATVECS + TREE).replace(unit, link + last + unit)
    text = text.replace(holder, "  - !Toll {component: Link, tensors: [A]}\n" + holder.replace("OnChip", "Last"))
    with pytest.raises(ff.MappingError, match="The Toll Link is the outermost holder of A, which several Einsums use"):
        ff.loads(text)


def test_replacing_validates_again() -> None:
    spec = ff.loads(WHOLE)
    assert spec.mapping is not None
    with pytest.raises(ff.MappingError, match="has no Storage node"):
        spec.replace(mapping=Mapping(spec.mapping.nodes[1:2] + spec.mapping.nodes[3:]))
    with pytest.raises(ff.MappingError, match="has no Memory MainMemory"):
        spec.replace(arch=ff.loads(MATVECS).arch)
    assert spec.replace(mapping=None).mapping is None


def test_the_tree_as_text() -> None:
    assert str(CLASSES) == """\
LoopTree
│ OffChip holds I WA WB B
│ OnChip holds WA
│ for nA in tiles of 1
│ OnChip holds A
│ one after another:
├─┐ 1
│ │ for nI in tiles of 1
│ │ OnChip holds I
│ └ Unit computes A
└─┐ 2
  │ for nB in tiles of 1
  │ OnChip holds B WB
  └ Unit computes B"""


def test_loops_over_the_dimensions_of_an_array() -> None:
    inside = ARCH[ARCH.index("  - !Memory\n    name: GlobalBuffer") :]
    array = "  - !Array\n    name: Chips\n    spatial: [{name: C, fanout: 2}]\n    nodes:\n" + textwrap.indent(inside, "  ")
    loop = "  - !Spatial {rank_variable: n, tile_shape: 4, name: C, component: Chips}\n"
    first = "  - !Temporal {rank_variable: m"
    text = MATMUL + ARCH.replace(inside, array) + MAPPING.replace(first, loop + first)
    spec = ff.loads(text)
    assert spec.arch is not None
    assert spec.arch.arrays_around("MAC") == ("Chips",)
    assert ff.loads(spec.to_yaml()) == spec
    with pytest.raises(ff.MappingError, match="8 spatial instances of Chips dimension C, but its fanout is only 2"):
        ff.loads(text.replace("tile_shape: 4, name: C", "tile_shape: 1, name: C"))
