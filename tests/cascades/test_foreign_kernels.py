"""Kernels for other targets, with other element types and constants, and with values of their own: computed right, or refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import loopy as lp
import numpy as np
import pyopencl.cltypes as cltypes
import pytest
from loopy.symbolic import Reduction
from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401
from pymbolic import primitives as p
from pymbolic import var
from pymbolic.typing import Expression

import feinsum_fuse as ff
from feinsum_fuse.archive.key.recognition import recognised
from feinsum_fuse.cascades.matching.match import Match, match
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.checking import room
from feinsum_fuse.mappings.default_mapping import default_schedule
from feinsum_fuse.optimization.answer import How
from feinsum_fuse.schedule.kernel.tagging import tagged
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.explicate import Explicate
from tests.cascades.randomness import largest_error, run

DOMAIN = "{[m,n,k] : 0 <= m < 7 and 0 <= n < 5 and 0 <= k < 3}"
PRODUCT = "C[m,n] = sum(k, A[m,k]*B[k,n])"
TARGETS = ("CTarget", "ExecutableCTarget", "CudaTarget", "ISPCTarget")


def kernel(text: str = PRODUCT, dtypes: str = "float64 float64 float64", target: str = "PyOpenCLTarget") -> lp.TranslationUnit:
    """``A[7, 3]``, ``B[3, 5]``, ``C[7, 5]`` of these types."""
    shapes = {"A": (7, 3), "B": (3, 5), "C": (7, 5)}
    args = [lp.GlobalArg(name, np.dtype(t), shape=shape) for (name, shape), t in zip(shapes.items(), dtypes.split(), strict=True)]
    return lp.make_kernel(DOMAIN, text, [*args, ...], target=getattr(lp, target)(), lang_version=(2018, 2))


def arrays() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(4)
    return {"A": generator.random((7, 3)), "B": generator.random((3, 5))}


@pytest.mark.parametrize("target", TARGETS)
def test_a_kernel_for_another_target_is_read_and_named_where_opencl_is_written(target: str, tmp_path: Path) -> None:
    given = kernel(target=target)
    assert match(given).cascade.key == match(kernel()).cascade.key
    device, url = find_device("portable"), f"sqlite:///{tmp_path / 'facts.db'}"
    assert not ff.retrieve(given, device, url=url)
    found = ff.optimize(given, device, url=url)
    assert (found.kernel, found.how, found.verified) == (given, How.unchanged, False)
    assert any(f"kernel for {target}" in reason for reason in found.reasons)
    moved = given.copy(target=lp.PyOpenCLTarget())
    values = arrays()
    explicit = Schedule((Explicate(),)).apply(match(moved).prepared, match(moved).names)
    assert largest_error(run(explicit, **values)["C"], values["A"] @ values["B"]) < 1e-14


def test_a_kernel_in_c_compiles_to_an_opencl_program() -> None:
    values = arrays()
    assert largest_error(ff.compile(kernel(target="CTarget"), "portable")(**values)["C"], values["A"] @ values["B"]) < 1e-14


@pytest.mark.parametrize("target", TARGETS)
def test_a_function_that_a_target_lacks_is_refused(target: str) -> None:
    with pytest.raises(ff.MatchError, match="rsqrt"):
        match(kernel("C[m,n] = sum(k, rsqrt(A[m,k]))", target=target))


REFUSED: dict[str, tuple[str, str, str]] = {
    "a result of bools": ("C[m,n] = A[m,0] > B[0,n]", "float64 float64 bool", "no element type 'bool'"),
    "any": ("C[m,n] = reduce(any, k, A[m,k] > B[k,n])", "float64 float64 int32", "bool|any"),
    "a constant condition": ("C[m,n] = sum(k, if(True, A[m,k], B[k,n]))", "float64 float64 float64", "constant True"),
    "complex sums in real elements": (PRODUCT, "complex128 complex128 float64", "stores complex128 in C, which is float64"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_place_in_a_cascade_is_refused_by_name(name: str) -> None:
    text, dtypes, reason = REFUSED[name]
    with pytest.raises(ff.MatchError, match=reason):
        match(kernel(text, dtypes))


def test_vectors_and_records_are_refused() -> None:
    args = [lp.GlobalArg(name, cltypes.float4, shape=(16,)) for name in "AC"]
    for text in ("C[i] = 2*A[i]", "<> t = 2*A[i]\nC[i] = t"):
        with pytest.raises(ff.MatchError, match=r"vectors or records|not in global memory"):
            match(lp.make_kernel("{[i] : 0 <= i < 16}", text, args, lang_version=(2018, 2)))


def with_value(change: Callable[[Reduction], Expression], dtypes: str) -> lp.TranslationUnit:
    """The product with another right-hand side: loopy's parser knows no complex numbers of a size."""
    unit = kernel(dtypes=dtypes)
    insn = unit.default_entrypoint.instructions[0]
    return unit.with_kernel(unit.default_entrypoint.copy(instructions=[insn.copy(expression=change(insn.expression))]))


def first_rows(unit: lp.TranslationUnit) -> Expression:
    (iname,) = (name for name in unit.default_entrypoint.all_inames() if name.startswith("m"))
    return p.Comparison(var(iname), "<", 3)


def agree(unit: lp.TranslationUnit, values: dict[str, np.ndarray]) -> Match:
    """The kernel, its match's reference and the first step of a schedule give the same."""
    found, expected = match(unit), run(unit, **values)
    explicit = Schedule((Explicate(),)).apply(found.prepared, found.names)
    for got in (run(explicit, **values), found.reference(**values)):
        for name, array in expected.items():
            assert largest_error(got[name], array) < 1e-13
    return found


NUMBERS = [1 + 2j, np.complex64(1 + 2j), np.complex128(1 + 2j)]
COMPLEX: dict[str, Callable[[Reduction], Expression]] = {
    "a factor": lambda total: p.Product((NUMBERS[0], total)),
    "a factor inside": lambda total: Reduction(total.operation, total.inames, 2j * total.expr, allow_simultaneous=False),
    "a summand": lambda total: p.Sum((NUMBERS[2], total)),
    "elsewhere": lambda total: p.If(first_rows(kernel()), total, NUMBERS[1]),
    "elsewhere inside": lambda total: Reduction(
        total.operation, total.inames, p.If(first_rows(kernel()), total.expr, NUMBERS[2]), allow_simultaneous=False
    ),
}


@pytest.mark.parametrize("form", COMPLEX)
def test_complex_numbers_are_operands(form: str) -> None:
    found = agree(with_value(COMPLEX[form], "float64 float64 complex128"), arrays())
    assert any(np.dtype(tensor.dtype).kind == "c" and not tensor.shape for tensor in found.cascade.tensors.values())


@pytest.mark.parametrize("text", ["C[m,n] = real(Z[m,n])*B[0,n]", "C[m,n] = imag(Z[m,n]) + A[m,0]", "C[m,n] = sum(k, abs(Z[m,k])*B[k,n])"])
def test_parts_of_complex_numbers_are_operands_of_another_type(text: str) -> None:
    shapes = {"A": (7, 3), "B": (3, 5), "C": (7, 5), "Z": (7, 5)}
    args = [lp.GlobalArg(n, np.complex128 if n == "Z" else np.float64, shape=shape) for n, shape in shapes.items()]
    used = [arg for arg in args if f"{arg.name}[" in text]
    unit = lp.make_kernel(DOMAIN, text, [*used, ...], lang_version=(2018, 2))
    generator = np.random.default_rng(5)
    values = {**arrays(), "Z": generator.random((7, 5)) + 1j * generator.random((7, 5))}
    found = agree(unit, {name: value for name, value in values.items() if f"{name}[" in text})
    assert {tensor.dtype for tensor in found.cascade.tensors.values()} == {"float64"}


def test_a_rule_may_compute_with_its_loops_alone() -> None:
    agree(kernel("ramp(k) := 0.5*k + 1\nC[m,n] = sum(k, A[m,k]*ramp(k)*B[k,n])"), arrays())


def test_a_gather_has_the_type_of_what_is_gathered() -> None:
    """What the indices are does not widen it."""
    shapes = {"A": (7, 3), "C": (7, 5), "B": (3, 5)}
    args = [lp.GlobalArg(name, np.float32, shape=shape) for name, shape in shapes.items()]
    rows = lp.GlobalArg("rows", np.int64, shape=(7,))
    unit = lp.make_kernel(DOMAIN, "C[m,n] = sum(k, A[rows[m],k]*B[k,n])", [*args, rows], lang_version=(2018, 2))
    values = {name: value.astype(np.float32) for name, value in arrays().items()}
    found = match(unit)
    nest = Schedule((Explicate(),)).nest(tagged(found.prepared, found.names))
    assert {source.dtype for source in nest.sources.values()} == {"float32"}
    values["rows"] = np.array([6, 0, 3, 3, 1, 2, 5])
    explicit = Schedule((Explicate(),)).apply(found.prepared, found.names)
    assert largest_error(run(explicit, **values)["C"], values["A"][values["rows"]] @ values["B"]) < 1e-6


def test_what_a_rule_computes_is_a_tensor_that_steps_can_name() -> None:
    """A view by division, of which the default mapping copies a tile."""
    args = [lp.GlobalArg("x", np.float64, shape=(3, 5, 4)), lp.GlobalArg("o", np.float64, shape=(5, 12))]
    unit = lp.make_kernel("{[i,j] : 0 <= i < 5 and 0 <= j < 12}", "o[i,j] = x[j//4,i,j%4]", args, lang_version=(2018, 2))
    found, values = match(unit), {"x": np.random.default_rng(2).random((3, 5, 4))}
    nest = Schedule((Explicate(),)).nest(tagged(found.prepared, found.names))
    assert {source.tensor for source in nest.sources.values()} == set(found.cascade.tensors)
    got = run(default_schedule(found.cascade).apply(found.prepared, found.names), **values)["o"]
    assert largest_error(got, run(unit, **values)["o"]) == 0


def with_callee(text: str) -> lp.TranslationUnit:
    """``C = twice(A @ B)`` and what is done with it, where ``twice`` is a kernel of the caller's."""
    callee = lp.make_function("{[i,j] : 0 <= i < 7 and 0 <= j < 5}", "y[i,j] = 2*x[i,j] + 1", name="twice")
    held = [lp.TemporaryVariable(name, np.float64, shape=(7, 5), address_space=lp.AddressSpace.GLOBAL) for name in "TU"]
    args = [lp.GlobalArg(name, np.float64, shape=shape) for name, shape in {"A": (7, 3), "B": (3, 5), "C": (7, 5)}.items()]
    domains = [DOMAIN, "{[p,q] : 0 <= p < 7 and 0 <= q < 5}", "{[r,s] : 0 <= r < 7 and 0 <= s < 5}", "{[a,b] : 0 <= a < 7 and 0 <= b < 5}"]
    caller = lp.make_kernel(domains, text, [*args, *held, ...], lang_version=(2018, 2), name="caller")
    return lp.merge([caller, callee])


BETWEEN = """
T[m,n] = sum(k, A[m,k]*B[k,n]) {id=first}
[r,s]: U[r,s] = twice([p,q]: T[p,q]) {id=call, dep=first}
C[a,b] = U[a,b]*U[a,b] {id=last, dep=call}
"""


def test_a_callee_is_put_in_place_of_its_call() -> None:
    unit, values = with_callee(BETWEEN), arrays()
    found = match(unit)
    assert (len(found.cascade.einsums), found.instructions) == (3, ("first", "call", "last"))
    assert any(rewriting.name == "callee in place" for rewriting in found.rewritings)
    expected = (2 * values["A"] @ values["B"] + 1) ** 2
    assert largest_error(found.reference(**values)["C"], expected) < 1e-13
    for schedule in (Schedule((Explicate(),)), default_schedule(found.cascade)):  # with and without vectors
        assert largest_error(run(schedule.apply(found.prepared, found.names), **values)["C"], expected) < 1e-13


@pytest.mark.parametrize("zero", [0j, np.complex128(0)])
def test_a_complex_zero_is_the_sum_of_nothing(zero: complex) -> None:
    condition = first_rows(kernel())
    unit = with_value(lambda total: p.If(condition, total, zero), "float64 float64 complex128")
    values = arrays()
    assert largest_error(match(unit).reference(**values)["C"], run(unit, **values)["C"]) < 1e-14


@pytest.mark.parametrize("text", ["{} + sum(k, A[m,k]*B[k,n])", "if(m < 3, sum(k, A[m,k]*B[k,n]), {})"])
def test_large_integers_are_not_rounded(text: str) -> None:
    unit = kernel(f"C[m,n] = {text.format(2**60 + 1)}", "int64 int64 int64")
    generator = np.random.default_rng(4)
    values = {"A": generator.integers(0, 9, (7, 3)), "B": generator.integers(0, 9, (3, 5))}
    np.testing.assert_array_equal(match(unit).reference(**values)["C"], run(unit, **values)["C"])


def own_values(space: lp.AddressSpace) -> lp.TemporaryVariable:
    return lp.TemporaryVariable("B", np.float64, shape=(3, 5), address_space=space, initializer=arrays()["B"], read_only=True)


@pytest.mark.parametrize("space", ["GLOBAL", "PRIVATE"])
@pytest.mark.parametrize("text", [PRODUCT, "b_(k, n) := 2*B[k,n]\nC[m,n] = sum(k, A[m,k]*b_(k,n))"])
def test_values_that_lie_in_the_kernel_are_no_inputs(text: str, space: str) -> None:
    args = [lp.GlobalArg("A", np.float64, shape=(7, 3)), lp.GlobalArg("C", np.float64, shape=(7, 5))]
    unit = lp.make_kernel(DOMAIN, text, [*args, own_values(getattr(lp.AddressSpace, space))], lang_version=(2018, 2))
    with pytest.raises(ff.MatchError, match="reads B, whose values lie in the kernel"):
        match(unit)
    if space == "GLOBAL":
        with pytest.raises(ff.LoweringError, match="B is a global array whose values lie in the kernel"):
            executable(unit)


@pytest.mark.parametrize("state", ["preprocessed", "linearized"])
def test_a_kernel_that_loopy_has_prepared_is_prepared_anew(state: str) -> None:
    plain = kernel("C[m,n] = 2*A[m,0]*B[0,n]")
    done = lp.preprocess_program(plain)
    done = lp.linearize(done) if state == "linearized" else done
    found, values = match(done), arrays()
    explicit = Schedule((Explicate(),)).apply(found.prepared, found.names)
    for got in (run(explicit, **values), found.reference(**values)):
        assert largest_error(got["C"], run(plain, **values)["C"]) < 1e-14


PRODUCT_OF_BITS = "C[m,n] = sum(k, ((A[m,k] >> 2) & 7) * (B[k,n] ^ 5))"


def test_bits_of_inputs_are_operands() -> None:
    values = {name: (100 * array).astype(np.int32) for name, array in arrays().items()}
    agree(kernel(PRODUCT_OF_BITS, "int32 int32 int32"), values)
    expected = ((values["A"] >> 2) & 7) @ (values["B"] ^ 5)
    assert np.array_equal(run(kernel(PRODUCT_OF_BITS, "int32 int32 int32"), **values)["C"], expected)


@pytest.mark.parametrize("text", ["C[m,n] = (m & 1)*A[m,0]", "C[m,n] = A[m,0]*(n << 1)"])
def test_bits_of_loops_are_refused_by_name(text: str) -> None:
    with pytest.raises(ff.MatchError, match="cannot stand in a map"):
        match(kernel(text, "int32 int32 int32"))


def test_schedules_put_barriers_of_their_own() -> None:
    """Those of the kernel's author are left out; what he ordered by them stays in this order."""
    domains = [DOMAIN, "{[p,q] : 0 <= p < 7 and 0 <= q < 5}"]
    texts = [f"{PRODUCT} {{id=first}}", "... gbarrier {id=wait, dep=first}", "D[p,q] = 2*C[p,q] + A[p,0] {id=second, dep=wait}"]
    shapes = {"A": (7, 3), "B": (3, 5), "C": (7, 5), "D": (7, 5)}
    unit = lp.make_kernel(domains, texts, [lp.GlobalArg(n, np.float64, shape=s) for n, s in shapes.items()], lang_version=(2018, 2))
    matched = match(unit)
    assert str(matched.rewritings[0]) == "barriers left out: wait"
    assert matched.instructions == match(unit, ["first", "second"]).instructions == ("first", "second")
    values = arrays()
    made = default_schedule(matched.cascade).apply(matched.prepared, matched.names)
    expected = 2 * (values["A"] @ values["B"]) + values["A"][:, :1]
    assert largest_error(run(made, **values, C=np.zeros((7, 5)))["D"], expected) < 1e-14
    assert not ff.retrieve(unit, "portable")  # all parts of it are asked about


def test_calls_beside_parts_of_a_resolved_kernel_are_read() -> None:
    """A function of a kernel that loopy has prepared is no variable; what is read in its arguments is seen."""
    text = ["C[m,n] = atan2(A[m,0], B[0,n]) {id=part, if=m < 4}"]
    unit = lp.preprocess_program(kernel("\n".join(text)))
    values = arrays()
    made = default_schedule(match(unit).cascade).apply(match(unit).prepared, match(unit).names)
    got = run(made, **values, C=np.zeros((7, 5)))["C"]
    assert largest_error(got[:4], np.arctan2(values["A"][:4, :1], values["B"][:1])) < 1e-14
    assert not got[4:].any()


@pytest.mark.parametrize("chosen", [None, ["first"]])
def test_instructions_that_wait_for_each_other_are_refused_by_name(chosen: list[str] | None) -> None:
    """loopy adds a dependency wherever one instruction alone writes what another one reads."""
    text = ["C[m,n] = A[m,0] {id=first}", "A[m,k] = A[m,k]*B[k,0] {id=second}", "B[k,n] = A[0,k] + B[k,n] {id=third, dep=second}"]
    unit = lp.make_kernel(DOMAIN, text, kernel().default_entrypoint.args, lang_version=(2018, 2))
    with pytest.raises(ff.MatchError, match="instruction second is no Einsum: it depends on itself"):
        match(unit, chosen)


LOOPS = "{[i,j] : 0 <= i < 8 and 0 <= j < 4}"


@pytest.mark.parametrize(
    ("text", "types", "message", "hint"),
    [
        ("y[i] = sum(j, a[i,j]*x[j])", {"x": np.float64}, "the element type of a is not known", "{'a': np.float64}"),
        ("y[i] = sum(j, n[i,j] // 3)", {"n": np.int32, "y": np.int32}, "with remainder, n[i, j] // 3;", "rounded by floor"),
        ("y[i] = sum(j, a[i,j])", {"a": np.complex64, "y": np.float32}, "it stores complex64 in y, which is float32", "real(...)"),
    ],
)
def test_refusals_speak_of_what_was_written_and_say_what_to_do(text: str, types: dict[str, type], message: str, hint: str) -> None:
    arguments = [lp.GlobalArg(name, dtype, shape=lp.auto) for name, dtype in types.items()]
    with pytest.raises(ff.MatchError) as caught:
        match(lp.make_kernel(LOOPS, text, [*arguments, ...]))
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_division_by_a_zero_that_is_written_ends_in_an_error_of_ours() -> None:
    given = lp.make_kernel(LOOPS, "y[i] = sum(j, a[i,j]/0)", [lp.GlobalArg("a,y", np.float64, shape=lp.auto), ...])
    with pytest.raises(ff.Error, match=r"inf|no random inputs"):
        ff.compile(given, find_device("portable"))


def test_what_is_no_kernel_is_named_where_a_schedule_is_applied_that_knows_another() -> None:
    schedule = default_schedule(match(kernel()).cascade)
    with pytest.raises(ff.ScheduleError, match="a kernel is expected"):
        schedule.apply(np.ones(3))  # type: ignore[arg-type]


def test_loops_that_were_split_are_named_as_such() -> None:
    with pytest.raises(ff.MatchError, match=r"the indices must be bare inames\n.*before its loops are split"):
        match(lp.split_iname(kernel(), "m", 4))


def test_a_rule_that_stands_without_brackets_takes_loops_from_around_it() -> None:
    arguments = [lp.GlobalArg("x,z,y", np.float64, shape=(8,))]
    given = lp.make_kernel("{[i] : 0 <= i < 8}", "<>t = x[i]*z[i] {id=t}\ny[i] = t*t + 1 {dep=t}", [*arguments, ...])
    matched = match(lp.assignment_to_subst(given, "t"))
    x, z = np.random.default_rng(0).random((2, 8))
    found = run(Schedule((Explicate(),)).apply(matched.prepared, matched.names), x=x, z=z)
    assert largest_error(found["y"], (x * z) ** 2 + 1) < 1e-14


def test_what_another_instruction_fetched_is_read_where_it_lies() -> None:
    """No vectors are loaded from an array of whose memory the kernel says nothing."""
    given = lp.add_prefetch(kernel(), "B", ["k", "n"], default_tag="for", fetch_outer_inames=frozenset())
    matched = recognised(given)
    values = arrays()
    found = run(default_schedule(matched.cascade).apply(matched.prepared, matched.names), **values)
    assert largest_error(found["C"], values["A"] @ values["B"]) < 1e-14


def test_a_kernel_that_does_not_fit_the_memory_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "free_bytes", lambda: 1 << 34)
    arguments = [lp.GlobalArg("a,y", np.float64, shape=lp.auto)]
    given = lp.make_kernel("{[i,j] : 0 <= i < 4294967296 and 0 <= j < 16}", "y[i] = sum(j, a[i,j])", [*arguments, ...])
    found = ff.optimize(given, find_device("portable"), url=f"sqlite:///{tmp_path / 'facts.db'}")
    assert found.how is How.unchanged
    assert any("of memory, of which" in reason for reason in found.reasons)
