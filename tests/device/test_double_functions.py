"""Our own functions on vectors of float64: their largest errors where they are hardest, against long double, and special values."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pyopencl as cl
import pytest
from numpy.typing import NDArray

import feinsum_fuse as ff
from feinsum_fuse.codegen.executable import Executable
from feinsum_fuse.device.catalogue import target
from feinsum_fuse.device.runtime.loaded_executable import Loaded, queue_of
from feinsum_fuse.formats.language.functions import FUNCTIONS
from feinsum_fuse.mappings.default_mapping import default_spec
from feinsum_fuse.schedule.kernel.definitions import anywhere, own_function
from feinsum_fuse.schedule.target import POCL
from tests.sweeps import SEED, SLOW

OWN = [name for name, function in FUNCTIONS.items() if function.own_double and function.own_ulps]
WHOLE = ("floor", "round")
"""Functions that are exact."""
COUNT = 1_000_000 if SLOW else 20_000
"""Numbers of each place."""
LONG = np.longdouble
Doubles = NDArray[np.float64]


def near(centres: Doubles, random: np.random.Generator) -> Doubles:
    """Numbers close to some, from their neighbours to a tenth away, on either side; and these."""
    chosen = random.choice(centres, COUNT)
    away = 10.0 ** random.uniform(-16, -1, COUNT) * random.choice([-1.0, 1.0], COUNT)
    return np.concatenate([centres, chosen + chosen * away])


def places(name: str) -> Doubles:
    """Where a function is hard: all sizes, ends, halves between two powers of two, and where it passes from one formula to another."""
    random = np.random.default_rng(SEED)
    sizes = 10.0 ** random.uniform(-323.2, 308.2, COUNT)
    match name:
        case "exp":
            halves = (np.arange(-1074, 1024) + 0.5) * np.log(2.0)
            ends = np.array([709.782712893384, -708.3964185322641, -745.1332191019411, -745.2, 710.0, -746.0])
            return np.concatenate([sizes, -sizes, near(halves, random), near(ends, random), random.uniform(-746, 710, COUNT)])
        case "log":
            powers = np.ldexp(1.0, np.arange(-1074, 1024))
            return np.concatenate([sizes, near(powers, random), near(powers[50:] * np.sqrt(0.5), random), near(np.ones(1), random)])
        case "tanh":
            halves = (np.arange(0, 64) + 0.5) * np.log(2.0) / 2
            one = np.concatenate([sizes, near(halves, random), near(np.array([19.0, 22.0]), random), random.uniform(0, 23, COUNT)])
        case "sin" | "cos":
            quarters = np.arange(1, 1 << 20, 97) * (np.pi / 2)
            ends = np.array([np.pi / 4, 1647099.0, 1e-8])
            uniform = [random.uniform(0, end, COUNT) for end in (7, 2e6)]
            one = np.concatenate([sizes, near(quarters, random), near(ends, random), *uniform])
        case _:
            one = np.concatenate([sizes, near(np.ones(1), random), random.uniform(0, 6.2, COUNT), random.uniform(0.9, 1.5, COUNT)])
    return np.concatenate([one, -one])


def long_erf(x: Doubles) -> NDArray[np.longdouble]:
    """By the series of positive terms, exp(-x x) (x + 2 x^3 / 3 + 4 x^5 / 15 + ...), beyond which it is 1."""
    size = np.minimum(np.abs(x), 6.5).astype(LONG)
    term = total = size
    for n in range(1, 160):
        term = term * (2 * size * size / (2 * n + 1))
        total = total + term
    pi = LONG(np.pi) + LONG(1.2246467991473532e-16)
    return np.copysign(np.exp(-size * size) * 2 / np.sqrt(pi) * total, x)


PROMISED = {"exp": 2, "log": 2, "tanh": 4, "erf": 3, "sin": 4, "cos": 4}
"""Units in the last place that the functions' own texts state; the table's bounds hold for float32, too."""
EXACT: dict[str, Callable[..., NDArray[np.longdouble]]] = {
    "exp": lambda x: np.exp(x.astype(LONG)),
    "log": lambda x: np.log(x.astype(LONG)),
    "tanh": lambda x: np.tanh(x.astype(LONG)),
    "erf": long_erf,
    "sin": lambda x: np.sin(x.astype(LONG)),
    "cos": lambda x: np.cos(x.astype(LONG)),
}


def computed(name: str, values: Doubles, lanes: int, device: cl.Device) -> Doubles:
    """What our function gives on vectors, built as kernels are."""
    given = np.resize(values, -(-values.size // lanes) * lanes)
    head = own_function(FUNCTIONS[name], "mine", lanes, "double") + anywhere("double", lanes, POCL)
    each = f"set_double{lanes}(__global, z + i, mine(get_double{lanes}(__global, x + i)));"
    body = f"for (int i = 0; i < {given.size}; i += {lanes}) {each}"
    source = f"{head}\n__kernel void all_of(__global double const *x, __global double *z) {{ {body} }}"
    queue, found = queue_of(device), np.empty_like(given)
    x, z = (cl.Buffer(queue.context, cl.mem_flags.COPY_HOST_PTR, hostbuf=array) for array in (given, found))
    program = Loaded(Executable(source, ("-cl-mad-enable",), (), ()), queue.context).program
    cl.Kernel(program, "all_of")(queue, (1,), (1,), x, z)
    cl.enqueue_copy(queue, found, z)
    return found[: values.size]


@pytest.mark.skipif(np.finfo(LONG).nmant <= np.finfo(np.float64).nmant, reason="long double is float64 here")
@pytest.mark.parametrize("lanes", [2, 4, 8] if SLOW else [8])
@pytest.mark.parametrize("name", OWN)
def test_largest_errors(name: str, lanes: int, processor: cl.Device) -> None:
    values = places(name)
    with np.errstate(over="ignore"):
        exact = EXACT[name](values)
        rounded = exact.astype(np.float64)
    found = computed(name, values, lanes, processor)
    ends = np.isinf(rounded)
    np.testing.assert_array_equal(found[ends], rounded[ends])
    errors = np.abs(found[~ends].astype(LONG) - exact[~ends]) / np.spacing(np.abs(rounded[~ends]))
    most = min(PROMISED[name], FUNCTIONS[name].own_ulps)
    assert 0 < errors.max() <= most, f"{errors.max():.3f} units at {values[~ends][errors.argmax()]!r}"


SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 2.3e-308, 1.7e308, -1.7e308, 709.9, -745.2, 7.0, -7.0])


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
@pytest.mark.parametrize("name", OWN)
def test_special_values(name: str, lanes: int, processor: cl.Device) -> None:
    """Signs of zeros included."""
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name].numpy(SPECIAL)  # type: ignore[misc]
    found = computed(name, SPECIAL, lanes, processor)
    np.testing.assert_allclose(found, expected, rtol=1e-15, atol=0)
    zero = expected == 0
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("is_named", [True, False])
def test_whole_numbers(name: str, lanes: int, is_named: bool, processor: cl.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the compiler's own name of the instruction and without it; signs of zeros included."""
    if not is_named:
        text = FUNCTIONS[name].own_double.replace("__has_builtin(__builtin_elementwise", "0 && __has_builtin(__builtin_elementwise")
        monkeypatch.setitem(FUNCTIONS, name, dataclasses.replace(FUNCTIONS[name], own_double=text))  # type: ignore[arg-type]
    ends = np.array([4503599627370495.5, 4503599627370496.0, 4503599627370497.0, 0.49999999999999994])
    values = np.concatenate([SPECIAL, places(name), np.arange(-300, 300) / 2, ends, -ends])
    expected = FUNCTIONS[name].numpy(values)  # type: ignore[misc]
    found = computed(name, values, lanes, processor)
    np.testing.assert_array_equal(found, expected)
    zero = expected == 0
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("dtype", ["float64", "int32", "int64"])
@pytest.mark.parametrize("name", ["min", "max"])
def test_extrema(name: str, dtype: str, processor: cl.Device) -> None:
    cascade = ff.cascade([f"Z[m] = {name}(A[m], B[m])", f"Y[n] = {name}(A[m])"], sizes={"M": 67, "N": 1}, dtypes={"All": dtype})
    given = {array: np.random.default_rng(5).integers(0, 1 << 31, 67).astype(dtype) for array in "AB"}
    found = ff.compile(default_spec(cascade, target=target(processor)), processor)(**given)
    ufunc = getattr(np, f"{name}imum")
    np.testing.assert_array_equal(found["Z"], ufunc(given["A"], given["B"]))
    np.testing.assert_array_equal(found["Y"], [ufunc.reduce(given["A"])])


def test_every_own_function_is_tested() -> None:
    assert {name for name, function in FUNCTIONS.items() if function.own_double} == {*OWN, *WHOLE, "min", "max"}
    assert set(OWN) == set(EXACT) and all(FUNCTIONS[name].largest_ulps >= FUNCTIONS[name].own_ulps > 0 for name in OWN)


def test_what_is_made_of_them_is_right(processor: cl.Device) -> None:
    einsums = ["Z[m] = sigmoid(A[m]) + tanh(A[m]) + log(1.5 + exp(A[m]))", "G[m] = gelu(A[m]) * silu(A[m])"]
    cascade = ff.cascade(einsums, sizes={"M": 203}, dtypes={"All": "float64"})
    program = ff.compile(default_spec(cascade, target=target(processor)), processor)
    assert "Cody" in program.executable.source
    given = np.random.default_rng(0).normal(size=203) * 4
    for name, expected in cascade.reference(A=given).items():
        np.testing.assert_allclose(program(A=given)[name], expected, rtol=1e-13, atol=1e-15)
