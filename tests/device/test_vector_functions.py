"""Our own functions on vectors: their largest errors against the device's in float64, which NumPy's vouch for, and special values."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest

import feinsum_fuse as ff
from feinsum_fuse.codegen.executable import Executable
from feinsum_fuse.codegen.generation import OPTIONS
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.program.instruction_mix import machine_loops, mix_table
from feinsum_fuse.device.runtime.loaded_executable import Loaded, context_of, queue_of
from feinsum_fuse.device.runtime.pocl_functions import built
from feinsum_fuse.formats.language.double_functions import DOUBLE_EXP
from feinsum_fuse.formats.language.functions import FUNCTIONS
from feinsum_fuse.formats.language.vector_functions import EXP
from feinsum_fuse.mappings.default_mapping import default_spec
from feinsum_fuse.schedule.kernel.definitions import anywhere, own_function
from feinsum_fuse.schedule.target import ANY_DEVICE, POCL
from tests.device.test_instruction_mix import READABLE
from tests.device.test_quirks import written
from tests.sweeps import SLOW

OWN = [name for name, function in FUNCTIONS.items() if function.own]
LARGEST = {name: FUNCTIONS[name].own_ulps for name in OWN if FUNCTIONS[name].own_ulps and FUNCTIONS[name].arity == 1}
"""Units in the last place."""
STRIDE = 1 if SLOW else 4099
"""Every float32 number in the slow tests; numbers of all sizes in the others."""
GROUPS, EACH = 1024, 1024
"""Of one launch: work-groups, and numbers of each."""
_NUMBER = f"""
float number(ulong at) {{ return as_float((uint) min(at * {STRIDE}UL, (1UL << 32) - 1)); }}
"""
"""The numbers that are tried, in order."""
_FILL = """
__kernel void fill(ulong first, __global float *x)
{
  for (int i = 0; i < EACH; ++i) x[get_group_id(0) * EACH + i] = number(first + get_group_id(0) * EACH + i);
}
"""
_COMPUTE = """
__kernel void compute(ulong first, __global float *z)
{
  ulong at = get_group_id(0) * EACH;
  for (int i = 0; i < EACH; i += LANES)
  {
    float x[LANES];
    for (int l = 0; l < LANES; ++l) x[l] = number(first + at + i + l);
    STORE(__global, z + at + i, mine(LOAD(__private, x)));
  }
}
"""
_JUDGE = """
__kernel void judge(ulong first, __global float const *found, __global float *worst)
{
  ulong at = get_group_id(0) * EACH;
  float largest = worst[get_group_id(0)];
  for (int i = 0; i < EACH; ++i)
  {
    float x = number(first + at + i), z = found[at + i];
    double exact = FUNCTION((double) x), size = fabs(exact);
    float rounded = (float) exact, error;
    if (isnan(exact)) error = isnan(z) ? 0 : INFINITY;
    else if (z == 0 && size < LEAST) error = 0;
    else if (isinf(rounded) || z == rounded) error = z == rounded ? 0 : INFINITY;
    else error = (float) (fabs(z - exact) / ldexp(1.0, max(size > 0 ? ilogb(size) : -126, -126) - 23));
    if (!(error <= largest)) largest = error;
  }
  worst[get_group_id(0)] = largest;
}
"""
"""A kernel of its own: it is the same for all lanes, and its functions of float64 take long to compile."""
COMPOSED = {"sigmoid": ("1 / (1 + exp(-(x)))", 4)}
"""Functions that are written with those: in float64, and their largest error; what float32 has no normal number for may be 0."""


def _own(name: str, lanes: int) -> str:
    """A function of ours, and how vectors are read and written: PoCL has no right ``vstore16`` on every processor (``widest_builtins``)."""
    return own_function(FUNCTIONS[name], "mine", lanes) + anywhere("float", lanes, POCL)


def _over_numbers(device: cl.Device, text: str, name: str, **meanings: object) -> Callable[..., object]:
    """A kernel over the numbers from one on, with words defined before its text; built as generated kernels are."""
    words = "".join(f"#define {word} {meaning}\n" for word, meaning in (meanings | {"EACH": EACH}).items())
    queue = queue_of(device)
    kernel = cl.Kernel(Loaded(Executable(words + _NUMBER + text, OPTIONS, (), ()), queue.context).program, name)
    return lambda first, *arrays: kernel(queue, (GROUPS,), (1,), np.uint64(first), *(array.data for array in arrays))


def _largest_error(device: cl.Device, exact: str, compute: Callable[[int, cla.Array], object], least: str = "0") -> float:
    """Units in the last place, of what ``compute`` writes into an array for the numbers from one on.

    ``exact``: the function of ``x`` in float64. Results whose size is below ``least`` may be 0.
    """
    judge = _over_numbers(device, _JUDGE, "judge", **{"FUNCTION(x)": exact, "LEAST": least})
    found, largest = (cla.zeros(queue_of(device), size, np.float32) for size in (GROUPS * EACH, GROUPS))
    for first in range(0, -(-(1 << 32) // STRIDE), GROUPS * EACH):
        compute(first, found)
        judge(first, found, largest)
    return float(largest.get().max())


@pytest.mark.parametrize("lanes", [16] if SLOW else [4, 8, 16])
@pytest.mark.parametrize("name", LARGEST)
def test_largest_errors(name: str, lanes: int, processor: cl.Device) -> None:
    words = {"LANES": lanes, "STORE": f"set_float{lanes}", "LOAD": f"get_float{lanes}"}
    compute = _over_numbers(processor, _own(name, lanes) + _COMPUTE, "compute", **words)
    worst = _largest_error(processor, f"{name}(x)", compute)
    assert 0 < worst <= LARGEST[name], f"{name}: {worst} units in the last place"


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_errors_next_to_quarters_of_turns(name: str, processor: cl.Device) -> None:
    """What is left of a number there is small beside the errors of the multiple of pi that is taken off it."""
    numbers = (np.arange(1, 637) * (np.pi / 2)).astype(np.float32)
    program = ff.compile(ff.cascade(f"Z[m] = {name}(A[m])", sizes={"M": len(numbers)}), processor)
    exact = getattr(np, name)(numbers.astype(np.float64))
    off = np.abs(program(A=numbers)["Z"] - exact) / np.spacing(np.abs(exact).astype(np.float32))
    assert off.max() <= LARGEST[name], numbers[off.argmax()]


@pytest.mark.parametrize("name", COMPOSED)
def test_largest_errors_of_compositions(name: str, processor: cl.Device) -> None:
    """Of kernels as they are generated."""
    exact, most = COMPOSED[name]
    program = ff.compile(ff.cascade(f"Z[m] = {name}(A[m])", sizes={"M": GROUPS * EACH}), processor)
    fill, numbers = _over_numbers(processor, _FILL, "fill"), cla.zeros(queue_of(processor), GROUPS * EACH, np.float32)

    def compute(first: int, found: cla.Array) -> None:
        fill(first, numbers)
        program(A=numbers, out={"Z": found})

    worst = _largest_error(processor, exact, compute, least="0x1p-126")
    assert 0 < worst <= most, f"{name}: {worst} units in the last place"


def _run(source: str, kernel: str, groups: int, *arrays: np.ndarray) -> None:
    """Run a kernel on arrays of this process."""
    queue = queue_of(find_device())
    program = Loaded(Executable(source, OPTIONS, (), ()), queue.context).program
    buffers = [cl.Buffer(queue.context, cl.mem_flags.COPY_HOST_PTR, hostbuf=array) for array in arrays]
    cl.Kernel(program, kernel)(queue, (groups,), (1,), *buffers)
    for array, buffer in zip(arrays, buffers, strict=True):
        cl.enqueue_copy(queue, array, buffer)


def computed(name: str, *arguments: np.ndarray) -> np.ndarray:
    """What our function gives, on vectors of 16 lanes."""
    names = "ab"[: len(arguments)]
    given = ", ".join(f"get_float16(__global, {x} + i)" for x in names)
    parameters = ", ".join(f"__global float const *{x}" for x in names)
    head = _own(name, 16)
    body = f"for (int i = 0; i < {arguments[0].size}; i += 16) set_float16(__global, z + i, mine({given}));"
    found = np.zeros_like(arguments[0])
    _run(f"{head}\n__kernel void all_of({parameters}, __global float *z) {{ {body} }}", "all_of", 1, *arguments, found)
    return found


SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-38, 3e38, -3e38, 88.9, -104.5, 5.0, -5.0], np.float32)


@pytest.mark.parametrize("name", LARGEST)
def test_special_values(name: str) -> None:
    """Signs of zeros included."""
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name].numpy(SPECIAL.astype(np.float64)).astype(np.float32)  # type: ignore[misc]
    found = computed(name, SPECIAL)
    np.testing.assert_allclose(found, expected, rtol=3e-7, atol=1.5e-45 if name == "erf" else 0)  # a quarter of the least
    zero = expected == 0
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("name", LARGEST)
def test_the_judge_agrees_with_numpy(name: str) -> None:
    """The errors are taken against the device's functions in float64."""
    values = np.random.default_rng(0).normal(size=4096) * 4
    found = np.zeros_like(values)
    source = f"__kernel void judge(__global double const *x, __global double *z) {{ int i = get_group_id(0); z[i] = {name}(x[i]); }}"
    _run(source, "judge", 4096, values, found)
    np.testing.assert_allclose(found, FUNCTIONS[name].numpy(values), rtol=1e-14)  # type: ignore[misc]


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_no_lane_depends_on_another(name: str, lanes: int) -> None:
    """PoCL's own are wrong in small lanes beside very large ones and infinities."""
    rng = np.random.default_rng(0)
    values = (rng.normal(size=4096) * 10.0 ** rng.uniform(-8, 30, size=4096)).astype(np.float32)
    special = rng.random(size=4096) < 0.1
    values[special] = rng.choice(SPECIAL, special.sum())
    alone, beside = np.zeros_like(values), np.zeros_like(values)
    head = _own(name, lanes)
    body = f"""
__kernel void both(__global float const *x, __global float *alone, __global float *beside)
{{
  int i = get_group_id(0) * {lanes};
  float z[{lanes}];
  for (int l = 0; l < {lanes}; ++l) {{ set_float{lanes}(__private, z, mine(x[i + l])); alone[i + l] = z[0]; }}
  set_float{lanes}(__global, beside + i, mine(get_float{lanes}(__global, x + i)));
}}"""
    _run(head + body, "both", 4096 // lanes, values, alone, beside)
    with np.errstate(invalid="ignore"):
        exact = FUNCTIONS[name].numpy(values.astype(np.float64))  # type: ignore[misc]
    np.testing.assert_allclose(beside, exact, rtol=5e-7)
    np.testing.assert_allclose(alone, beside, rtol=5e-7)


def test_exponentials_beside_those_that_are_no_normal_numbers() -> None:
    """Where a lane's result is too large, too small or none, all lanes are computed in another way."""
    rng = np.random.default_rng(0)
    values = rng.uniform(-120, 100, size=4096).astype(np.float32)
    values[2048:] = rng.uniform(-86, 86, size=2048)
    values[2048::19] = rng.choice(SPECIAL, values[2048::19].size)
    with np.errstate(all="ignore"):
        exact = np.exp(values.astype(np.float64))
        expected = exact.astype(np.float32)
        unit = np.spacing(np.abs(expected))
    found, finite = computed("exp", values), np.isfinite(expected)
    assert (np.abs(found[finite] - exact[finite]) <= LARGEST["exp"] * unit[finite]).all()
    np.testing.assert_array_equal(found[~finite], expected[~finite])


def test_exponentials_that_are_0_are_made_of_zeros() -> None:
    """Not of a power of two times itself, which is too small to be normal: Intel's processors take 150 cycles for each such result, masks
    make whole rows of them, and vectors of them took eleven times as long."""
    product = "(1.0f + (r + r * r * q)) * power_of_two * power_of_two"
    assert EXP.count(product) == 1 and "half_power = x < -746.0 ? (VECTOR)(0.0) : " in DOUBLE_EXP
    text = own_function(replace(FUNCTIONS["exp"], own=EXP.replace(product, "power_of_two")), "mine", 16) + anywhere("float", 16, POCL)
    body = "set_float16(__global, z, mine(get_float16(__global, x)));"
    values = np.array([-104.1, -150, -1e4, -1e30, -np.inf, *np.linspace(-104, -88, 11)], np.float32)
    powers = np.zeros_like(values)
    _run(f"{text}\n__kernel void powers_of(__global float const *x, __global float *z) {{ {body} }}", "powers_of", 1, values, powers)
    assert (powers[:5] == 0).all() and (powers[5:] >= np.finfo(np.float32).tiny).all()


@pytest.mark.parametrize("name", ["min", "max"])
def test_extrema_are_those_of_c(name: str) -> None:
    """Of a number and what is none, the number."""
    one, other = (array.ravel() for array in np.meshgrid(SPECIAL, SPECIAL))
    one, other = np.ascontiguousarray(one), np.ascontiguousarray(other)
    np.testing.assert_array_equal(computed(name, one, other), {"min": np.fmin, "max": np.fmax}[name](one, other))


def test_powers() -> None:
    """Of numbers of all sizes, with those for which C has rules of their own in every lane beside them."""
    random, count = np.random.default_rng(0), 1_000_000 if SLOW else 50_000
    ends = np.array([*SPECIAL, 2, 0.5, -0.5, 1.5, 16777215, -16777217, 1e30], np.float32)
    base, exponent = (array.ravel() for array in np.meshgrid(ends, ends))
    bases = [base, np.exp(random.uniform(-80, 80, count)), random.uniform(0.5, 2, count), -random.uniform(0, 9, count)]
    exponents = [exponent, random.normal(size=count), 50 * random.normal(size=count), random.integers(-9, 9, count) / 2]
    order = random.permutation(len(base) + 3 * count)
    base, exponent = (np.concatenate(arrays).astype(np.float32)[order] for arrays in (bases, exponents))
    base, exponent = (np.resize(array, -(-len(array) // 16) * 16) for array in (base, exponent))
    found = computed("pow", base, exponent)
    with np.errstate(all="ignore"):
        exact = np.power(base.astype(np.float64), exponent.astype(np.float64))
        expected = exact.astype(np.float32)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(found[~finite], expected[~finite])
    np.testing.assert_array_equal(np.signbit(found[finite]), np.signbit(expected[finite]))
    errors = np.abs(found[finite] - exact[finite]) / np.spacing(np.abs(expected[finite]))
    assert errors.max() <= FUNCTIONS["pow"].own_ulps, (base[finite][errors.argmax()], exponent[finite][errors.argmax()])


@pytest.mark.parametrize("name", ["floor", "round"])
@pytest.mark.parametrize("is_named", [True, False])
def test_whole_numbers(name: str, is_named: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the compiler's own name of the instruction and without it; signs of zeros included."""
    if not is_named:
        text = FUNCTIONS[name].own.replace("__has_builtin(__builtin_elementwise", "0 && __has_builtin(__builtin_elementwise")
        monkeypatch.setitem(FUNCTIONS, name, replace(FUNCTIONS[name], own=text))  # type: ignore[arg-type]
    ends = np.array([8388607.5, 8388608.0, 8388609.0, 0.49999997])
    values = np.concatenate([SPECIAL, np.arange(-300, 300) / 2, ends, -ends]).astype(np.float32)
    expected = FUNCTIONS[name].numpy(values)  # type: ignore[misc]
    found = computed(name, values)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found[expected == 0]), np.signbit(expected[expected == 0]))


@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.parametrize("reduction", ["min", "max"])
def test_running_extrema_pass_over_what_is_no_number(reduction: str, lanes: int) -> None:
    """What a reduction has so far is always a number, which its function on vectors makes use of."""
    values = np.random.default_rng(0).normal(size=(7, 5 * lanes + 3)).astype(np.float32)
    values[1, ::3], values[2], values[3, :lanes], values[4, 0] = np.nan, np.nan, np.nan, np.inf
    cascade = ff.cascade([f"Z[m] = {reduction}(A[m, k])"], sizes=dict(zip("MK", values.shape, strict=True)))
    spec = default_spec(cascade, target=replace(ANY_DEVICE, vector_bytes=4 * lanes))
    assert f"vrunning{reduction}_float{lanes}" in written(spec, POCL).source
    ufunc, neutral = (np.fmin, np.inf) if reduction == "min" else (np.fmax, -np.inf)
    np.testing.assert_array_equal(ff.compile(spec)(A=values)["Z"], ufunc.reduce(values, axis=1, initial=np.float32(neutral)))


@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.parametrize("clipped", ["max(min(A[m, k], 1), -0.5)", "max(-0.5, min(1, A[m, k]))"])
def test_extrema_beside_numbers_of_the_text_do_not_ask_whether_these_are_numbers(clipped: str, lanes: int) -> None:
    """By the function of one instruction, which gives the number where the other argument is none."""
    values = np.random.default_rng(0).normal(size=(7, 5 * lanes + 3)).astype(np.float32)
    values[1, ::3], values[2], values[4, 0], values[4, 1] = np.nan, np.nan, np.inf, -np.inf
    cascade = ff.cascade([f"Z[m, k] = {clipped}"], sizes=dict(zip("MK", values.shape, strict=True)))
    spec = default_spec(cascade, target=replace(ANY_DEVICE, vector_bytes=4 * lanes))
    text = written(spec, POCL).source
    assert f"vrunningmin_float{lanes}(1.0f" in text and "vmax_float" not in text
    expected = np.fmax(np.fmin(values, np.float32(1)), np.float32(-0.5))
    np.testing.assert_array_equal(ff.compile(spec)(A=values)["Z"], expected)


@pytest.mark.parametrize("name", [*LARGEST, "min", "max", "pow", "floor", "round"])
def test_they_are_compiled_without_a_warning(name: str) -> None:
    device = find_device("pocl")
    source = f"// {uuid.uuid4()}: no cache knows it\n{_own(name, 16)}\n__kernel void nothing(__global float *x) {{ x[0] = 0; }}"
    log = built(context_of(device), source, list(OPTIONS)).get_build_info(device, cl.program_build_info.LOG)
    assert "warning" not in log


def test_every_own_function_is_tested() -> None:
    assert set(OWN) == {*LARGEST, "min", "max", "pow", "floor", "round", "low4", "high4"}  # these two: test_four_bits


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_kernels_call_them_where_the_targets_own_are_slow(dtype: str) -> None:
    cascade = ff.cascade(["Z[m] = max(erf(A[m]) + tanh(B[m]), exp(A[m]))"], sizes={"M": 77}, dtypes={"All": dtype})
    spec = default_spec(cascade, target=ANY_DEVICE)
    texts = [written(spec, quirks).source for quirks in (POCL, replace(POCL, slow_functions=False))]
    assert ["Cody" in text for text in texts] == [True, False]
    assert ff.compile(spec).example.expected


def test_powers_of_kernels() -> None:
    """A device whose ``pow`` is fast keeps it."""
    spec = default_spec(ff.cascade(["Z[m] = pow(A[m], 0.3) + pow(A[m], B[m])"], sizes={"M": 77}), target=ANY_DEVICE)
    texts = [written(spec, quirks).source for quirks in (POCL, replace(POCL, slow_powers=False))]
    assert ["of_size" in text for text in texts] == [True, False]
    program = ff.compile(spec)
    inputs = {name: np.random.default_rng(1).uniform(0.1, 4, 77).astype(np.float32) for name in "AB"}
    np.testing.assert_allclose(program(**inputs)["Z"], program.cascade.reference(**inputs)["Z"], rtol=1e-6)


@pytest.mark.skipif(not READABLE, reason="no machine code to be read")
def test_turns_are_no_calls() -> None:
    """What numbers beyond some turns need is long, and made calls of what it was a part of: all registers passed memory around them."""
    text = "Z[m] = V[k] * (G[m, k] * cos(T[m] - S[k]) + B[m, k] * sin(T[m] - S[k]))"
    program = ff.compile(ff.cascade(text, sizes={"M": 512, "K": 512}))
    found = machine_loops(program.executable, program.device)
    assert any(loop.multiply_adds and not loop.calls for loop in found), mix_table(found)
