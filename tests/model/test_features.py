"""Each idea of the model on a case small enough to work out by hand."""

from __future__ import annotations

import pytest

from feinsum_fuse import ModelError, SpecError, loads, predict
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.model.prediction import Prediction
from tests.model.specs import arch, chain, product

WHOLE = "- !Storage {tensors: [A, B, Z], component: Main}"
ONES = "\n".join(f"- !Temporal {{rank_variable: {v}, tile_shape: 1}}" for v in "mnk")
END = "- !Compute {einsum: Z, component: MAC}"


def spec(*lines: str, architecture: str | None = None, m: int, k: int, n: int, more: str = "") -> Spec:
    return product("\n".join(lines), architecture, m, k, n, more)


ARRAY = """
arch:
  nodes:
  - !Memory {name: Main, size: inf, leak_power: 0.5, area: 0,
      actions: [{name: read, energy: 1, throughput: 1}, {name: write, energy: 1, throughput: 1}]}
  - !Container {name: PE, spatial: [{name: X, fanout: 4, may_reuse: REUSE, power_gateable: GATE}]}
  - !Memory {name: Register, size: inf, leak_power: 0.25, area: 0,
      actions: [{name: read, energy: 1, throughput: 1}, {name: write, energy: 1, throughput: 1}]}
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
"""


def array(reuse: str = "All", gate: str = "false") -> str:
    return ARRAY.replace("REUSE", reuse).replace("GATE", gate)


def spatial(variable: str, tile: int, reuse: str = "All", gate: str = "false") -> Spec:
    """4 x 4 x 4, one loop spread over X, everything in registers below."""
    loop = f"- !Spatial {{rank_variable: {variable}, tile_shape: {tile}, name: X, component: PE}}"
    held = "- !Storage {tensors: [A, B, Z], component: Register}"
    return spec(WHOLE, loop, held, ONES, END, architecture=array(reuse, gate), m=4, k=4, n=4)


def test_an_irrelevant_tensor_is_multicast() -> None:
    actions = predict(spatial("m", 1)).actions
    assert actions["Z", "Main", "A", "read"] == 4 * 4 * 8  # each instance its own row
    assert actions["Z", "Main", "B", "read"] == 4 * 4 * 8  # once for all four
    assert actions["Z", "Register", "B", "write"] == 4 * 4 * 4 * 8  # but four copies are filled


def test_what_may_not_be_reused_is_sent_to_each() -> None:
    assert predict(spatial("m", 1, reuse="Nothing")).actions["Z", "Main", "B", "read"] == 4 * 4 * 4 * 8


def test_outputs_are_reduced_in_space() -> None:
    actions = predict(spatial("k", 1)).actions
    assert actions["Z", "Main", "Z", "write"] == 4 * 4 * 8
    assert actions["Z", "Main", "Z", "read"] == 0
    assert actions["Z", "Register", "Z", "read"] == 4 * 4 * 4 * 8  # four drains; each accumulator is touched once


def test_latency_is_per_instance() -> None:
    seconds = predict(spatial("m", 1)).component_latency
    assert seconds["Z", "MAC"] == 16
    assert seconds["Z", "Main"] == (16 + 16 + 16) * 8


def test_leakage_of_all_instances() -> None:
    prediction = predict(spatial("m", 1))
    assert prediction.leak_energy["Z", "Main"] == 0.5 * prediction.latency
    assert prediction.leak_energy["Z", "Register"] == 4 * 0.25 * prediction.latency


def test_power_gated_instances_leak_by_usage_over_fanout() -> None:
    prediction = predict(spatial("m", 2, gate="true"))
    assert prediction.usage["Z", "PE", "X"] == 0.5
    assert prediction.leak_energy["Z", "Register"] == 4 * 0.25 * prediction.latency * 0.5 / 4


def test_more_instances_than_there_are() -> None:
    loop = "- !Spatial {rank_variable: m, tile_shape: 1, name: X, component: PE}"
    with pytest.raises((ModelError, SpecError), match="fanout"):
        predict(spec(WHOLE, loop, ONES, END, architecture=array(), m=8, k=2, n=2))


def test_a_buffer_cuts_reads_of_the_outer_memory() -> None:
    held = "- !Storage {tensors: [A], component: Buffer}"
    actions = predict(spec(WHOLE, held, ONES, END, m=4, k=2, n=3)).actions
    assert actions["Z", "Main", "A", "read"] == 4 * 2 * 8
    assert actions["Z", "Buffer", "A", "read"] == 4 * 2 * 3 * 8
    assert actions["Z", "Main", "B", "read"] == 4 * 2 * 3 * 8


def test_partial_sums_travel_again_for_each_pass() -> None:
    """``k`` outside the buffer: all but the first visit of an output tile fetches its partial sums."""
    lines = (WHOLE, "- !Temporal {rank_variable: k, tile_shape: 1}", "- !Storage {tensors: [Z], component: Buffer}", ONES, END)
    actions = predict(spec(*lines, m=4, k=3, n=2)).actions
    assert actions["Z", "Main", "Z", "read"] == 2 * 4 * 2 * 8
    assert actions["Z", "Main", "Z", "write"] == 3 * 4 * 2 * 8


def test_first_fetches_count_where_they_are_not_skipped() -> None:
    plain = array().replace("{name: Main,", "{name: Main, skip_initial_output_write: false,")
    lines = (WHOLE, "- !Storage {tensors: [Z], component: Register}", ONES, END)
    actions = predict(spec(*lines, architecture=plain, m=4, k=3, n=2)).actions
    assert actions["Z", "Main", "Z", "read"] == 4 * 2 * 8
    assert actions["Z", "Register", "Z", "write"] == 4 * 3 * 2 * 8


def test_irrelevant_loops_pay_whole_passes_of_imperfect_tiles() -> None:
    lines = (WHOLE, "- !Temporal {rank_variable: m, tile_shape: 12}", "- !Storage {tensors: [A, B], component: Buffer}", ONES, END)
    prediction = predict(spec(*lines, m=32, k=2, n=2))
    assert prediction.actions["Z", "Main", "B", "read"] == 3 * 2 * 2 * 8
    assert prediction.actions["Z", "Main", "A", "read"] == 32 * 2 * 8
    assert prediction.actions["Z", "MAC", None, "compute"] == 32 * 2 * 2
    assert prediction.occupancy["Z", "Buffer", "A"] == 12 * 2 * 8  # the full tile, not the average


def test_reservations_sink_below_relevant_loops_only() -> None:
    lines = (WHOLE, "- !Storage {tensors: [A], component: Buffer}", "- !Temporal {rank_variable: m, tile_shape: 1}")
    relevant = predict(spec(*lines, ONES, END, m=4, k=2, n=2))
    assert relevant.occupancy["Z", "Buffer", "A"] == 2 * 8
    lines = (WHOLE, "- !Storage {tensors: [A, B], component: Buffer}", "- !Temporal {rank_variable: m, tile_shape: 1}")
    assert predict(spec(*lines, ONES, END, m=4, k=2, n=2)).occupancy["Z", "Buffer", "A"] == 4 * 2 * 8  # another holder stops it


def test_an_overflow_is_an_error() -> None:
    lines = (WHOLE, "- !Storage {tensors: [A, B], component: Buffer}", ONES, END)
    with pytest.raises(ModelError, match="uses 1536 bits of Buffer"):
        predict(spec(*lines, architecture=arch(buffer="1535"), m=8, k=16, n=4))


def test_widths_and_scales() -> None:
    scaled = """
arch:
  nodes:
  - !Memory {name: Main, size: inf, leak_power: 0, area: 0, bits_per_action: 32, energy_scale: 2, throughput_scale: 3,
      n_parallel_instances: 2, actions_scale: 5, bits_per_value: {Outputs: 16}, values_per_action: {B: 4},
      actions: [{name: read, energy: 7, throughput: 1, energy_scale: 0.5},
                {name: write, energy: 1, throughput: 1, bits_per_action: 64, throughput_scale: 0.5}]}
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
"""
    prediction = predict(spec(WHOLE, ONES, END, architecture=scaled, m=4, k=4, n=4))
    reads_a, reads_b, reads_z, writes_z = 64 * 8 / 32 * 5, 64 / 4 * 5, 48 * 16 / 32 * 5, 64 * 16 / 64 * 5
    assert prediction.actions["Z", "Main", "A", "read"] == reads_a
    assert prediction.actions["Z", "Main", "B", "read"] == reads_b
    assert prediction.actions["Z", "Main", "Z", "read"] == reads_z
    assert prediction.actions["Z", "Main", "Z", "write"] == writes_z
    assert prediction.action_energy["Z", "Main", "A", "read"] == reads_a * 7 * 2 * 0.5
    assert prediction.component_latency["Z", "Main"] == pytest.approx((reads_a + reads_b + reads_z) / 6 + writes_z / 3)


def test_total_latency_of_separate_ports() -> None:
    ported = array().replace("{name: Register,", "{name: Register, total_latency: max(a.n_calls / a.throughput for a in actions),")
    lines = (WHOLE, "- !Storage {tensors: [A], component: Register}", ONES, END)
    prediction = predict(spec(*lines, architecture=ported, m=4, k=2, n=3))
    assert prediction.component_latency["Z", "Register"] == 4 * 2 * 3 * 8


def test_instances_multiply() -> None:
    once, thrice = predict(chain(2)), predict(chain(2, more="\n  n_instances: 3"))
    assert thrice.energy == pytest.approx(3 * once.energy)
    assert thrice.latency == pytest.approx(3 * once.latency)
    assert dict(thrice.peak) == dict(once.peak)


def test_tolls_charge_what_passes() -> None:
    text = array().replace(
        "  - !Container",
        "  - !Toll {name: Link, direction: {Inputs: down, Outputs: up}, leak_power: 0, area: 0,\n"
        "      actions: [{name: read, energy: 1, throughput: 1}]}\n  - !Container",
    )
    lines = (WHOLE, "- !Toll {tensors: [A, Z], component: Link}", "- !Storage {tensors: [A, B, Z], component: Register}", ONES, END)
    prediction = predict(spec(*lines, architecture=text, m=4, k=2, n=3))
    assert prediction.actions["Z", "Link", "A", "read"] == 4 * 2 * 8
    assert prediction.actions["Z", "Link", "Z", "read"] == 4 * 3 * 8
    assert prediction.occupancy["Z", "Link", "A"] == 0


COPY = """
workload:
  rank_sizes: {M: 4, K: 2}
  bits_per_value: {All: 8}
  einsums:
  - {einsum: "I[m, k] = J[m, k]", is_copy_operation: true, renames: {input: J, output: I, weight: Nothing}}
"""
COPY_NODES = """
mapping:
  nodes:
  - !Storage {tensors: [FIRST], component: Main}
  - !Storage {tensors: [SECOND], component: WHERE}
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Temporal {rank_variable: k, tile_shape: 1}
  - !Compute {einsum: I, component: MAC}
"""


def copy(first: str, second: str, where: str) -> dict[str, float]:
    mapping = COPY_NODES.replace("FIRST", first).replace("SECOND", second).replace("WHERE", where)
    actions = predict(loads(COPY + arch() + mapping)).actions
    assert actions["I", "MAC", None, "compute"] == 0
    return {f"{memory} {action}": actions["I", memory, "J", action] for memory in ("Main", "Buffer") for action in ("read", "write")}


def test_a_copy_moves_its_data_once() -> None:
    assert copy("J", "I", "Buffer") == {"Main read": 64, "Main write": 0, "Buffer read": 0, "Buffer write": 64}
    assert copy("I", "J", "Buffer") == {"Main read": 0, "Main write": 64, "Buffer read": 64, "Buffer write": 0}
    assert set(copy("J", "I", "Main").values()) == {0.0}


def test_a_copy_between_widths_writes_the_destination_in_its_own() -> None:
    """AccelForge reads 10 values of 8 bits and writes 10 of 32; within one memory it moves nothing and takes the smaller."""
    widths = COPY.replace("{All: 8}", "{J: 8, I: 32}").replace("{M: 4, K: 2}", "{M: 5, K: 2}")
    for where, moved, taken in (("Buffer", {"Main read": 80, "Buffer write": 320}, 320), ("Main", {}, 80)):
        mapping = COPY_NODES.replace("FIRST", "J").replace("SECOND", "I").replace("WHERE", where)
        prediction = predict(loads(widths + arch() + mapping))
        found = {f"{m} {a}": prediction.actions["I", m, "J", a] for m in ("Main", "Buffer") for a in ("read", "write")}
        assert {name: count for name, count in found.items() if count} == moved
        assert prediction.occupancy["I", where, "J"] == taken


def network(more: str = "", hop: str = "latency: 3, throughput: 2") -> str:
    """The array behind a network; a hop takes 1 J."""
    mesh = f"  - !Network {{name: Mesh, leak_power: 0, actions: [{{name: hop, energy: 1, {hop}}}]{more}}}\n"
    return array().replace("  - !Container", f"{mesh}  - !Container")


def carried(variable: str, more: str = "", hop: str = "latency: 3, throughput: 2") -> Prediction:
    """Four instances along one dimension, a loop of 4 trips spread over them; A is 4 x 2 and B is 2 x 4, a byte each value."""
    spread = f"- !Spatial {{rank_variable: {variable}, tile_shape: 1, name: X, component: PE}}"
    held = "- !Storage {tensors: [A, B, Z], component: Register}"
    return predict(spec(WHOLE, spread, held, ONES, END, architecture=network(more, hop), m=4, k=2, n=4))


def test_a_mesh_carries_what_is_shared_once_and_what_is_not_all_the_way() -> None:
    hops = carried("m").actions
    assert hops["Z", "Mesh", "B", "hop"] == 3 * 2 * 4 * 8  # all of B along three links
    assert hops["Z", "Mesh", "A", "hop"] == (1 + 2 + 3) * 2 * 8  # a row of A each, over one link, two, three
    assert hops["Z", "Mesh", "Z", "hop"] == (1 + 2 + 3) * 4 * 8


def test_through_a_switch_each_instance_is_one_hop_away() -> None:
    found = carried("m", ", topology: all_to_all")
    assert found.actions["Z", "Mesh", "B", "hop"] == 3 * 2 * 4 * 8
    assert found.actions["Z", "Mesh", "A", "hop"] == 3 * 2 * 8
    assert found.action_energy["Z", "Mesh", "A", "hop"] == 3 * 2 * 8


def test_a_network_takes_its_longest_route_or_its_busiest_link() -> None:
    link = 8 * (2 * 4 + 3 * 2 + 3 * 4)  # B once, and three rows of A and of Z
    assert carried("m").component_latency["Z", "Mesh"] == link / 2
    assert carried("m", hop="latency: 300, throughput: 2").component_latency["Z", "Mesh"] == 4 * 300
    assert carried("m", ", total_latency: max_hops").component_latency["Z", "Mesh"] == 4
    with pytest.raises(ModelError, match="A hop of the network Mesh has no latency"):
        carried("m", hop="throughput: 2")


def test_a_network_counts_in_its_own_bits() -> None:
    assert carried("m", ", bits_per_value: {A: 4}, bits_per_action: 2").actions["Z", "Mesh", "A", "hop"] == 6 * 2 * 2


def test_windows_that_overlap_cross_no_network() -> None:
    """AccelForge has no formula for them."""
    space = "iteration_space_shape: {p: 0 <= p < 4, r: 0 <= r < 2}"
    text = f'workload: {{bits_per_value: {{All: 8}}, {space}, einsums: ["O[p] = I[H: p + r] * F[r]"]}}'
    nodes = "!Storage {tensors: [O, I, F], component: Main}, !Spatial {rank_variable: p, tile_shape: 1, name: X, component: PE}"
    end = "!Temporal {rank_variable: r, tile_shape: 1}, !Compute {einsum: O, component: MAC}"
    with pytest.raises(ModelError, match="windows of I that overlap: their hops are not modelled"):
        predict(loads(f"{text}\n{network()}\nmapping: {{nodes: [{nodes}, {end}]}}"))


TWO = """
workload: {rank_sizes: {M: 4, K: 2, N: 3}, bits_per_value: {All: 8}, einsums: ["T[m, n] = A[m, k] * B[k, n]", "Z[m] = T[m, n] * C[n]"]}
"""
TWO_BRANCHES = """
mapping:
  nodes:
  - !Storage {tensors: [A, B, C, Z], component: Main}
  - !Sequential
    nodes:
    - !Nested {nodes: [!Storage {tensors: [T], component: FIRST}, ONES, LAST, !Compute {einsum: T, component: MAC}]}
    - !Nested {nodes: [!Storage {tensors: [T], component: SECOND}, ONES, !Compute {einsum: Z, component: MAC}]}
"""
for place, variables in (("ONES", "mn"), ("LAST", "k")):
    TWO_BRANCHES = TWO_BRANCHES.replace(place, ", ".join(f"!Temporal {{rank_variable: {v}, tile_shape: 1}}" for v in variables))


@pytest.mark.parametrize("memories", [("Main", "Buffer"), ("Buffer", "Buffer")])
def test_what_one_branch_writes_no_other_finds_in_a_place_of_its_own(memories: tuple[str, str]) -> None:
    mapping = TWO_BRANCHES.replace("FIRST", memories[0]).replace("SECOND", memories[1])
    with pytest.raises(ModelError, match=f"hold T as if it lived in each: in {memories[0]} and in {memories[1]}"):
        predict(loads(TWO + arch() + mapping))


def test_a_window_counts_its_halo() -> None:
    text = """
workload:
  iteration_space_shape: {p: 0 <= p < 8, r: 0 <= r < 3}
  bits_per_value: {All: 8}
  einsums: ["O[p] = I[H: 2*p + r] * F[r]"]
mapping:
  nodes:
  - !Storage {tensors: [O, I, F], component: Main}
  - !Temporal {rank_variable: p, tile_shape: 4}
  - !Storage {tensors: [I], component: Buffer}
  - !Temporal {rank_variable: p, tile_shape: 1}
  - !Temporal {rank_variable: r, tile_shape: 1}
  - !Compute {einsum: O, component: MAC}
"""
    prediction = predict(loads(text + arch()))
    assert prediction.actions["O", "Main", "I", "read"] == 2 * 9 * 8
    assert prediction.occupancy["O", "Main", "I"] == 17 * 8
    assert prediction.occupancy["O", "Buffer", "I"] == 3 * 8  # below the first partially relevant loop


def test_peak_of_fused_and_of_separate_einsums() -> None:
    fused = predict(chain(2, m=16, n=8))
    weights, row = 2 * 8 * 8 * 8, 8 * 8
    assert fused.peak["Buffer"] == weights + 2 * row
    assert fused.peak["Main"] == weights + 2 * 16 * 8 * 8
    assert fused.actions["T2", "Main", "T1", "read"] == 0


def test_persistent_tensors_are_alive_throughout() -> None:
    lines = (WHOLE, "- !Storage {tensors: [B], component: Buffer, persistent: true}", ONES, END)
    prediction = predict(spec(*lines, m=4, k=2, n=2, more="\n  n_instances: 3"))
    assert prediction.occupancy["Z", "Buffer", "B"] == 3 * 2 * 2 * 8 == prediction.peak["Buffer"]


@pytest.mark.parametrize("first", [2, 6, 8])
def test_a_first_tile_of_its_own_changes_no_figure(first: int) -> None:
    text = """
workload:
  iteration_space_shape: {p: 0 <= p < 8, r: 0 <= r < 3}
  bits_per_value: {All: 8}
  einsums: ["T[p] = I[H: p + r] * F[r]", "O[p] = T[p]"]
mapping:
  nodes:
  - !Storage {tensors: [O, I, F], component: Main}
  - !Temporal {rank_variable: p, tile_shape: 4, initial_tile_shape: FIRST}
  - !Storage {tensors: [T], component: Buffer}
  - !Sequential
    nodes:
    - !Nested
      nodes:
      - !Temporal {rank_variable: p, tile_shape: 1}
      - !Temporal {rank_variable: r, tile_shape: 1}
      - !Compute {einsum: T, component: MAC}
    - !Nested {nodes: [!Temporal {rank_variable: p, tile_shape: 1}, !Compute {einsum: O, component: MAC}]}
"""
    given = predict(loads(text.replace("FIRST", str(first)) + arch()))
    assert given == predict(loads(text.replace(", initial_tile_shape: FIRST", "") + arch()))
    assert given.occupancy["T", "Buffer", "T"] == 4 * 8
    assert given.actions["T", "Main", "I", "read"] == 8 * 3 * 8


PERSISTENT = """
  - !Storage {tensors: [T0, T2, W0, W1], component: Main}
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Storage {tensors: [T1], component: Buffer, persistent: true}
"""


def test_a_shared_tensor_that_persists_below_a_loop_is_refused() -> None:
    """AccelForge refuses it, too."""
    whole = chain(2, m=16).to_yaml()
    head, _, rest = whole.partition("mapping:\n  nodes:\n")
    tail = rest[rest.index("  - !Sequential") :]
    with pytest.raises(ModelError) as raised:
        predict(loads(f"{head}mapping:\n  nodes:{PERSISTENT}{tail}"))
    assert str(raised.value) == "T1 is persistent in Buffer below a loop.\n  Put its Storage node above all loops."
