"""Functions at what is no number, at infinities and zeros of either sign, and halfway between integers."""

from __future__ import annotations

import loopy as lp
import numpy as np
import pytest
from constantdict import constantdict
from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

import feinsum_fuse as ff
from feinsum_fuse.errors import UnsupportedTypeError
from feinsum_fuse.model.kernel.machine import Machine
from tests.cascades.randomness import run
from tests.model.test_kernel_time import product

NUMPY = {"log1p": np.log1p, "expm1": np.expm1, "floor": np.floor, "round": np.round, "isnan": np.isnan, "sign": np.sign}
LINES = [f"Z{k}[m] = {name}(A[m])" for k, name in enumerate(NUMPY)]
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 1e-30, -1e-30, -1.0, -0.999, 3.7, -3.7, 1e9, -7.0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_values(dtype: str) -> None:
    """By the reference, the base kernel, and a program whose lanes are vectors, the last of them not whole."""
    cascade = ff.cascade(LINES, sizes={"M": len(SPECIAL)}, dtypes={"All": dtype})
    values = np.array(SPECIAL, dtype)
    for found in (cascade.reference(A=values), run(cascade.kernel(), A=values), ff.compile(ff.spec(cascade))(A=values)):
        for k, (name, function) in enumerate(NUMPY.items()):
            with np.errstate(all="ignore"):
                expected = function(values.astype(np.float64))
            largest = np.finfo(dtype).max
            expected = np.where(expected > largest, np.inf, expected)
            np.testing.assert_allclose(found[f"Z{k}"], expected, rtol=1e-6 if dtype == "float32" else 1e-15, err_msg=name)
            zeros = expected == 0
            if name in {"log1p", "expm1", "floor", "round"}:
                np.testing.assert_array_equal(np.signbit(found[f"Z{k}"][zeros]), np.signbit(expected[zeros]), err_msg=name)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_of_integers_they_give_integers(dtype: str) -> None:
    names = ["floor", "round", "isnan", "sign"]
    cascade = ff.cascade([f"Z{k}[m] = {name}(A[m])" for k, name in enumerate(names)], sizes={"M": 21}, dtypes={"All": dtype})
    values = np.arange(-10, 11).astype(dtype)
    values[0] = np.iinfo(dtype).max - 1  # no float64 where there are 64 bits
    for found in (cascade.reference(A=values), run(cascade.kernel(), A=values), ff.compile(ff.spec(cascade))(A=values)):
        for array, expected in zip(found.values(), (values, values, 0 * values, np.sign(values)), strict=True):
            assert array.dtype.kind == "i"
            np.testing.assert_array_equal(array, expected)


def test_steps_are_exact_and_small_arguments_keep_their_digits() -> None:
    cascade = ff.cascade(["Z[m] = floor(A[m])", "Y[m] = log1p(expm1(A[m]))"], sizes={"M": 7})
    tolerance = cascade.tolerance()
    assert tolerance["Z"] < 1e-6 < tolerance["Y"] < 1e-4
    values = np.full(7, 1e-9)
    np.testing.assert_allclose(cascade.reference(A=values)["Y"], values, rtol=1e-6)


def rounded(name: str) -> lp.TranslationUnit:
    arguments = [lp.GlobalArg("A,Z", np.float32, shape=(7,))]
    return lp.make_kernel("{[m]: 0 <= m < 7}", f"A_(m) := A[m]\nZ[m] = {name}(A_(m))", arguments, lang_version=(2018, 2))


def test_kernels_that_round_to_even_are_matched_and_others_are_not() -> None:
    """OpenCL's ``rint`` is NumPy's ``round``; its ``round`` goes away from zero."""
    plain = ff.cascade(["Z[m] = round(A[m])"], sizes={"M": 7}, dtypes={"All": "float32"})
    known = plain.kernel().callables_table["rint"]
    assert ff.match(lp.register_callable(rounded("rint"), "rint", known)).cascade.key == plain.key
    foreign = known.copy(name="round", name_in_target="round", arg_id_to_dtype=constantdict())
    away = ff.match(lp.register_callable(rounded("round"), "round", foreign))
    assert away.cascade.key != plain.key, "an operand that the caller's own function computes"
    assert any("round" in str(rule.expression) for rule in away.prepared.default_entrypoint.substitutions.values())
    assert ff.match(rounded("isnan")).cascade.key == ff.cascade(["Z[m] = isnan(A[m])"], sizes={"M": 7}, dtypes={"All": "float32"}).key


@pytest.mark.parametrize("name", NUMPY)
def test_complex_numbers_have_none(name: str) -> None:
    with pytest.raises(UnsupportedTypeError):
        ff.cascade([f"Z[m] = {name}(A[m])"], sizes={"M": 7}, dtypes={"All": "complex64"}).kernel()


def test_what_a_calibration_did_not_measure_is_priced_as_the_table_says() -> None:
    machine = Machine.of(product(4, 2))
    assert machine is not None
    assert machine.function("log1p", 8) == machine.function("log", 8)
    assert machine.function("expm1", 1) == machine.function("exp", 1)
    assert 0 < machine.function("round", 8) == machine.function("floor", 8) < machine.function("sqrt", 8)
