"""From a Spec to a program: compiled, verified, called, measured; failures as errors or as results."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest

from feinsum_fuse.cascades.reading.reader import cascade
from feinsum_fuse.codegen.executable import Executable
from feinsum_fuse.compilation.compilation import compile
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.checking.example import example, random_inputs, scales
from feinsum_fuse.device.program import building
from feinsum_fuse.device.program.program import Program
from feinsum_fuse.device.runtime import isolation
from feinsum_fuse.device.timing.harness import HostFunction, measure, measure_together
from feinsum_fuse.device.timing.measurement import Measurement
from feinsum_fuse.device.timing.outcome import KernelError, Outcome
from feinsum_fuse.errors import DeviceError
from feinsum_fuse.formats.reading.load import loads
from feinsum_fuse.formats.spec import Spec

CHAIN = """
workload:
  bits_per_value: {All: 32}
  rank_sizes: {M: 30, K: 20, N: 10, P: 6}
  einsums:
  - name: First
    tensor_accesses:
    - {name: A, projection: [m, k]}
    - {name: B, projection: [k, n]}
    - {name: T, projection: [m, n], output: True}
  - name: Second
    tensor_accesses:
    - {name: T, projection: [m, n]}
    - {name: C, projection: [n, p]}
    - {name: Z, projection: [m, p], output: True}
arch:
  nodes:
  - !Memory {name: Main, component_class: Dummy, size: inf, actions: [{name: read}, {name: write}]}
  - !Memory {name: Chip, component_class: Dummy, size: SIZE, actions: [{name: read}, {name: write}]}
  - !Compute {name: MAC, component_class: Dummy, actions: [{name: compute}]}
opencl: {memories: {Main: global, Chip: local}}
"""
UNFUSED = """
mapping:
  nodes:
  - !Storage {component: Main, tensors: [A, B, T, C, Z]}
  - !Sequential
    nodes:
    - !Nested
      nodes:
      - !Temporal {rank_variable: m, tile_shape: 1}
      - !Temporal {rank_variable: n, tile_shape: 1}
      - !Temporal {rank_variable: k, tile_shape: 1}
      - !Compute {einsum: First, component: MAC}
    - !Nested
      nodes:
      - !Temporal {rank_variable: m, tile_shape: 1}
      - !Temporal {rank_variable: p, tile_shape: 1}
      - !Temporal {rank_variable: n, tile_shape: 1}
      - !Compute {einsum: Second, component: MAC}
"""
FUSED = """
mapping:
  nodes:
  - !Storage {component: Main, tensors: [A, B, C, Z]}
  - !Temporal {rank_variable: m, tile_shape: 7}
  - !Storage {component: Chip, tensors: [T]}
  - !Sequential
    nodes:
    - !Nested
      nodes:
      - !Temporal {rank_variable: m, tile_shape: 1}
      - !Temporal {rank_variable: n, tile_shape: 1}
      - !Temporal {rank_variable: k, tile_shape: 1}
      - !Compute {einsum: First, component: MAC}
    - !Nested
      nodes:
      - !Temporal {rank_variable: m, tile_shape: 1}
      - !Temporal {rank_variable: p, tile_shape: 1}
      - !Temporal {rank_variable: n, tile_shape: 1}
      - !Compute {einsum: Second, component: MAC}
"""


def chain(mapping: str) -> Spec:
    """Two chained matrix products with a mapping."""
    return loads(CHAIN.replace("SIZE", "1048576") + mapping)


@pytest.fixture(scope="module")
def unfused() -> Program:
    return compile(chain(UNFUSED))


@pytest.fixture(scope="module")
def fused() -> Program:
    return compile(chain(FUSED))


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    """Inputs of the chain."""
    rng = np.random.default_rng(7)
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in {"A": (30, 20), "B": (20, 10), "C": (10, 6)}.items()}


def test_program_describes_itself(fused: Program) -> None:
    assert fused.input_shapes == {"A": (30, 20), "B": (20, 10), "C": (10, 6)}
    assert fused.output_shapes == {"Z": (30, 6)}
    assert "__kernel void" in fused.source
    assert fused.spec is not None and fused.schedule.steps
    arrays = ["  A: float32[30, 20]", "  B: float32[20, 10]", "  C: float32[10, 6]", "  Z: float32[30, 6]"]
    assert str(fused).splitlines()[1:] == [*arrays, "  the given mapping"]


@pytest.mark.parametrize("which", ["fused", "unfused"])
def test_results(which: str, request: pytest.FixtureRequest, arrays: dict[str, np.ndarray]) -> None:
    compiled: Program = request.getfixturevalue(which)
    expected = arrays["A"].astype(float) @ arrays["B"] @ arrays["C"]
    result = compiled(**arrays)
    assert list(result) == ["Z"]
    assert np.allclose(result["Z"], expected, rtol=1e-4, atol=1e-4)
    queue = cl.CommandQueue(cl.Context([find_device()]))
    on_device = compiled({name: cla.to_device(queue, array) for name, array in arrays.items()})["Z"]
    assert isinstance(on_device, cla.Array)
    assert np.allclose(on_device.get(), expected, rtol=1e-4, atol=1e-4)


def test_intermediate_that_is_in_main_memory_can_be_asked_for(unfused: Program, arrays: dict[str, np.ndarray]) -> None:
    result = unfused(**arrays, outputs=["T"])
    assert np.allclose(result["T"], arrays["A"] @ arrays["B"], rtol=1e-4, atol=1e-4)
    assert "Z" in result


def test_intermediate_that_never_leaves_the_kernel_can_be_seen_all_the_same(fused: Program, arrays: dict[str, np.ndarray]) -> None:
    assert all(argument.name != "T" for argument in fused.executable.arguments)
    result = fused(**arrays, outputs=["T"])
    assert list(result) == ["Z", "T"]
    assert np.allclose(result["T"], arrays["A"] @ arrays["B"], rtol=1e-4, atol=1e-4)
    assert len(fused.companion.executable.launches) == 2
    with pytest.raises(DeviceError, match=r"^this program has no output Q\n"):
        fused(**arrays, outputs=["Q"])


def test_workload_without_a_mapping_gets_the_default(arrays: dict[str, np.ndarray]) -> None:
    plain = compile(chain(""))
    assert plain.spec is not None and plain.spec.mapping is not None
    assert measure(chain(""), repeats=2).outcome is Outcome.ok
    assert np.allclose(plain(**arrays)["Z"], arrays["A"] @ arrays["B"] @ arrays["C"], rtol=1e-4, atol=1e-4)


def test_workload_that_no_mapping_can_express_runs_all_the_same() -> None:
    scatter = loads(
        """
workload:
  bits_per_value: {All: 64}
  rank_sizes: {P: 15, R: 3}
  einsums:
  - "Z[H: p+r] = A[p]*B[r]"
"""
    )
    rng = np.random.default_rng(1)
    a, b = rng.random(15), rng.random(3)
    assert np.allclose(compile(scatter)(A=a, B=b)["Z"], np.convolve(a, b))


def test_argument_errors_name_tensors(fused: Program, arrays: dict[str, np.ndarray]) -> None:
    with pytest.raises(DeviceError, match=r"^input C is missing\n  This program reads A, B, C\.$"):
        fused(A=arrays["A"], B=arrays["B"])
    with pytest.raises(DeviceError, match=r"^B has shape \(20, 9\), expected \(20, 10\)$"):
        fused(**{**arrays, "B": arrays["B"][:, :9]})


def test_measurement_is_verified_and_complete(fused: Program) -> None:
    m = measure(fused, repeats=3, label="fused")
    assert (m.outcome, m.stage, m.cache_state, m.label) == (Outcome.ok, "done", "warm", "fused")
    assert len(m.samples_ns) == len(m.event_ns) == 3
    assert 0 < m.minimum <= m.median
    assert m.error is not None and m.tolerance is not None and m.error <= m.tolerance
    assert m.provenance.source_hash == fused.executable.source_hash
    assert m.subject is not None and m.subject.schedule == fused.schedule
    assert Measurement.from_json(m.to_json()) == m


def test_programs_and_numpy_are_measured_together(fused: Program, unfused: Program, arrays: dict[str, np.ndarray]) -> None:
    host = HostFunction("numpy", lambda: arrays["A"] @ arrays["B"] @ arrays["C"])
    together = measure_together([fused, unfused, host], repeats=3, labels=["fused", "unfused"])
    assert [m.label for m in together] == ["fused", "unfused", "numpy"]
    assert all(m.outcome is Outcome.ok and len(m.samples_ns) == 3 for m in together)
    assert together[2].provenance.device.platform == "NumPy"


def test_cold_measurement_says_so(fused: Program) -> None:
    m = measure(fused, repeats=2, cold=True)
    assert (m.cache_state, m.runs_per_sample, len(m.samples_ns)) == ("cold", 1, 2)


def broken(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    """Make code generation produce a text with this replacement."""
    honest = building.executable

    def generate(*args: object, **kwargs: object) -> Executable:
        made = honest(*args, **kwargs)  # type: ignore[arg-type]
        assert old in made.source
        return dataclasses.replace(made, source=made.source.replace(old, new))

    monkeypatch.setattr(building, "executable", generate)


FAULTS = {
    "wrong": ("Z[", "(&Z[0])[0 * ", Outcome.wrong_result, "check"),
    "build": ("__kernel", "__kernel nonsense", Outcome.build_failed, "build"),
    "crash": ("A[", "A[1000000000000L + ", Outcome.crashed, "launch"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_broken_kernel_is_an_error_of_compile_and_a_result_of_measure(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new, outcome, stage = FAULTS[fault]
    broken(monkeypatch, old, new)
    with pytest.raises(KernelError) as caught:
        compile(chain(UNFUSED))
    assert (caught.value.outcome, caught.value.stage) == (outcome, stage)
    m = measure(chain(UNFUSED), repeats=2)
    assert (m.outcome, m.stage, m.samples_ns) == (outcome, stage, ())
    assert m.message and m.subject is not None and m.subject.schedule is not None
    assert m.provenance.source_hash == caught.value.executable.source_hash
    assert [argument.name for argument in m.arguments] == ["A", "B", "C", "Z", "T"]


def test_failures_do_not_stop_the_others(fused: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch, "__kernel", "__kernel nonsense")
    failed, good = measure_together([chain(UNFUSED), fused], repeats=2)
    assert (failed.outcome, good.outcome) == (Outcome.build_failed, Outcome.ok)


def test_mapping_beyond_the_device_is_rejected() -> None:
    huge = CHAIN.replace("SIZE", "1e12").replace("M: 30", "M: 300000")
    m = measure(loads(huge + FUSED.replace("tile_shape: 7", "tile_shape: 300000")), repeats=2)
    assert (m.outcome, m.stage) == (Outcome.rejected, "lower")
    assert m.message


def test_time_limit_covers_building_and_the_first_run(monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch, "{", "{ for (volatile int go = 1; go; ) ;")
    m = measure(chain(UNFUSED), repeats=2, timeout_s=2)
    assert m.outcome is Outcome.timeout, m


def test_values_stay_near_one_along_a_long_cascade() -> None:
    texts = [f"T{k + 1}[m,n{k + 1}] = T{k}[m,n{k}] * W{k}[n{k},n{k + 1}]" for k in range(32)]
    deep = cascade(texts, sizes={"M": 8, **{f"N{k}": 64 for k in range(33)}})
    out = example(deep).expected["T32"]
    assert 0.1 < np.abs(out).max() < 100
    assert scales(deep, -1.0)["T0"] == 1


def test_examples_are_reproducible_and_signed() -> None:
    product = cascade(["Z[m,n] = A[m,k] * B[k,n]"], sizes={"M": 8, "K": 8, "N": 8})
    first, second = example(product), random_inputs(product, -1.0)
    assert all(np.array_equal(first.inputs[name], second[name]) for name in second)
    assert first.inputs["A"].min() < 0 < first.inputs["A"].max()
    with pytest.raises(ValueError, match="read-only"):
        first.inputs["A"][0] = 1


def test_logarithm_gets_positive_inputs() -> None:
    logarithm = cascade(["Z[m] = log(A[m])"], sizes={"M": 100})
    assert example(logarithm).inputs["A"].min() > 0


def test_integers_are_small() -> None:
    integers = cascade(["Z[m] = A[m,k] * B[k]"], sizes={"M": 8, "K": 8}, dtypes={"All": "int32"})
    assert set(np.unique(random_inputs(integers, -1.0)["A"])) <= {-1, 0, 1}


def test_nothing_is_run_in_this_process_before_a_child_survived_it(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    honest = isolation.run_isolated

    def watched(*args: object, **kwargs: object) -> isolation.RunResult:
        order.append("child")
        return honest(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(building, "run_isolated", watched)
    monkeypatch.setattr("feinsum_fuse.device.program.runner.Loaded", lambda *_: order.append("here"))
    compile(chain(UNFUSED))
    assert order == ["child"]


def test_results_print_themselves(fused: Program) -> None:
    assert repr(fused) == str(fused)
    m = measure(fused, repeats=1)
    assert repr(m) == str(m) and repr(fused.first_run.verification) == str(fused.first_run.verification)


def test_program_that_this_process_cannot_load_is_a_result(fused: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise cl.MemoryError("create_buffer", -4, "")

    monkeypatch.setattr("feinsum_fuse.device.timing.harness.Loaded.buffer", refuse)
    m = measure(fused, repeats=1)
    assert (m.outcome, m.stage) == (Outcome.launch_failed, "load")
    assert m.subject is not None and m.subject.schedule == fused.schedule and m.samples_ns == ()


SIXTEEN_LANES = """
workload:
  bits_per_value: {All: 32}
  rank_sizes: {M: 6, N: 32}
  einsums:
  - Y[m,n] = exp(A[m,n])
mapping:
  nodes:
  - !Storage {component: Main, tensors: [A, Y]}
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Temporal {rank_variable: n, tile_shape: 16}
  - !Storage {component: Register, tensors: [Y]}
  - !Spatial {rank_variable: n, tile_shape: 1, name: lane, component: Lane}
  - !Compute {einsum: Y, component: MAC}
arch:
  nodes:
  - !Memory {name: Main, component_class: Dummy, size: inf, actions: [{name: read}, {name: write}]}
  - !Memory {name: Register, component_class: Dummy, size: inf, actions: [{name: read}, {name: write}]}
  - !Container {name: Lane, spatial: [{name: lane, fanout: 16}]}
  - !Compute {name: MAC, component_class: Dummy, actions: [{name: compute}]}
opencl: {memories: {Main: global, Register: private}, fanouts: {Lane: vector}}
"""


@pytest.mark.parametrize(
    "text", [SIXTEEN_LANES, SIXTEEN_LANES.replace("All: 32", "All: 64").replace("tile_shape: 16", "tile_shape: 8").replace("16}", "8}")]
)
def test_functions_of_the_widest_vectors_survive(text: str) -> None:
    """PoCL 3.0 dies of the exponential of 16 lanes, and of 8 of float64 where a vector register holds 4; it is taken of two halves."""
    m = measure(loads(text), repeats=1, device="portable")
    assert (m.outcome, m.stage) == (Outcome.ok, "done"), m.message
