from __future__ import annotations

import loopy as lp
import pytest
from pytools.persistent_dict import KeyBuilder

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.kernel.tags import EinsumTag, RankVariableTag, TensorTag
from feinsum_fuse.cascades.kernel.typed_map import LONGEST_PRODUCT, length
from feinsum_fuse.cascades.names import chosen_names
from feinsum_fuse.number_types import BFLOAT16, type_of
from tests.cascades.randomness import RandomCascade, largest_error, random_inputs, run
from tests.sweeps import SEED, sweep_size


def check(cascade: Cascade, seed: int = 0, sizes: dict[str, int] | None = None) -> None:
    """The base kernel computes what the reference does, within the tolerance."""
    arrays = random_inputs(cascade, seed, sizes)
    expected = cascade.reference(**arrays)
    names = chosen_names(cascade).arrays
    got = run(cascade.kernel(), **{names[tensor]: array for tensor, array in arrays.items()})
    tolerance = cascade.tolerance(sizes)
    for tensor in cascade.outputs:
        assert largest_error(got[names[tensor]], expected[tensor]) <= tolerance[tensor] + 1e-12, (tensor, cascade)


def test_element_types_are_keys_of_what_loopy_keeps_on_disk() -> None:
    """Since ml_dtypes 0.7 pytools had no key for its type of 16 bits, and such kernels were not written."""
    types = [type_of(name) for name in (BFLOAT16, "float16", "float32", "int8")]
    keys = {KeyBuilder()(key) for key in (*types, types[0].type(1), types[0].type(2))}
    assert len(keys) == len(types) + 2


@pytest.mark.parametrize("number", range(6))
def test_kernels_are_those_that_loopy_makes_of_instructions_and_rules(number: int) -> None:
    """Rules are added afterwards, since loopy would write them out to find what is given."""
    kernel = RandomCascade(SEED + number).cascade().kernel().default_entrypoint
    whole = lp.make_kernel(
        kernel.domains,
        [*kernel.substitutions.values(), *kernel.instructions],
        [*kernel.args, *kernel.temporary_variables.values()],
        lang_version=(2018, 2),
        seq_dependencies=False,
    ).default_entrypoint
    assert whole.instructions == kernel.instructions
    assert whole.substitutions == kernel.substitutions
    assert whole.args == kernel.args
    assert whole.temporary_variables == kernel.temporary_variables
    assert set(whole.inames) == set(kernel.inames)


@pytest.mark.parametrize("number", range(sweep_size(500)))
def test_random_cascades(number: int) -> None:
    check(RandomCascade(SEED + number).cascade(), number)


def test_nested_powers_do_not_grow_without_limit() -> None:
    """Few of them are products, as one is; an expression of forty would have 2**40 factors."""
    text = "A[m]"
    for _ in range(40):
        text = f"pow({text}, 2)"
    deep = ff.cascade([f"Z[m] = {text}"], sizes={"M": 7})
    (instruction,) = deep.kernel().default_entrypoint.instructions
    assert length(instruction.expression) < 2 * LONGEST_PRODUCT
    assert len(deep.key) == len(ff.cascade(["Z[m] = pow(pow(A[m], 2), 2)"], sizes={"M": 7}).key)
    check(ff.cascade(["Z[m] = pow(pow(pow(A[m], 4), 4) + 1, 3)"], sizes={"M": 7}))
    with pytest.raises(ff.CascadeError, match="integers to a power"):
        ff.cascade([f"Z[m] = {text}"], sizes={"M": 7}, dtypes={"All": "int32"}).kernel()


WRITTEN = {
    "product": (["Z[m,n] = A[m,k] * B[k,n]"], {"M": 7, "N": 5, "K": 3}),
    "chain": (["T[m,n] = A[m,k] * B[k,n]", "Z[m,p] = T[m,n] * C[n,p]"], {"M": 5, "N": 7, "K": 3, "P": 2}),
    "strided convolution": (["O[p,q] = I[C:c, X:2*p+r, Y:q+s] * W[c,r,s]"], {"P": 4, "Q": 5, "C": 2, "R": 3, "S": 3}),
    "padded convolution": (["O[X:p, Y:q] = I[X:p+r-1, Y:q+s-1] * W[r,s]"], {"X": 6, "Y": 5, "R": 3, "S": 3}),
    "full convolution": (["Z[X:p+r] = A[p] * B[r]"], {"P": 7, "R": 3}),
    "diagonal": (["Z[i] = A[X:i, Y:i]"], {"X": 5, "Y": 5}),
    "to a diagonal": (["Z[X:i, Y:i] = A[i]"], {"X": 5, "Y": 5, "I": 5}),
    "every second element": (["Z[X:2*p] = A[p,k]"], {"P": 4, "K": 3}),
    "two in three elements": (["Z[X:3*p+r] = A[p] * B[r]"], {"P": 4, "R": 2}),
    "a window of one in two": (["Z[X:2*p+r] = A[p] * B[r]"], {"P": 4, "R": 1}),
    "maximum": (["X[m] = max(S[m,p])"], {"M": 4, "P": 9}),
    "product reduction": (["X[m] = prod(S[m,p])"], {"M": 4, "P": 9}),
    "elementwise": (["Y[m] = gelu(0.1*X[m] + 1) - silu(X[m])**3 / 7"], {"M": 11}),
    "division": (["Y[m] = X[m] / (2 + S[m])"], {"M": 11}),
    "mask": (["Y[m] = where(p <= m, S[m,p], 0)"], {"M": 11, "P": 7}),
    "attention": (
        ["QK[m,p] = 0.5 * Q[m,e] * K[p,e]", "P[m,p] = softmax(where(p <= m, QK[m,p], -inf), p)", "O[m,f] = P[m,p] * V[p,f]"],
        {"M": 6, "P": 6, "E": 3, "F": 4},
    ),
    "transformer layer": (
        [
            {"einsum": "I[b,m,d] = I_in[b,m,d]", "is_copy_operation": True},
            "V[b,m,h,e] = I[b,m,d] * WV[h,e,d]",
            "K[b,m,h,e] = I[b,m,d] * WK[h,e,d]",
            "Q[b,m,h,e] = I[b,m,d] * WQ[h,e,d]",
            "QK[b,m,p,h] = 0.5 * Q[b,m,h,e] * K[b,M:p,h,e]",
            "QK_softmax[b,m,p,h] = softmax(where(p <= m, QK[b,m,p,h], -inf), p)",
            "AV[b,m,h,f] = QK_softmax[b,m,p,h] * V[b,M:p,h,E:f]",
            "Z[b,m,g] = AV[b,m,h,f] * WZ[h,f,g]",
            "FFA[b,m,c] = gelu(Z[b,m,g]) * WFFA[g,c]",
            "FFB[b,m,j] = FFA[b,m,c] * WFFB[c,j]",
        ],
        {"B": 2, "M": 5, "P": 5, "H": 3, "E": 4, "F": 4, "D": 12, "G": 6, "C": 7, "J": 6},
    ),
    "names": (["float[m] = kernel[m] * sum[m]", "exp[m] = float[m] + I[m]"], {"M": 4}),
}


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_written_cascades(name: str, dtype: str) -> None:
    texts, sizes = WRITTEN[name]
    check(ff.cascade(texts, sizes=sizes, dtypes={"All": dtype}))


def test_a_recurrence_reads_its_initial_value_before_the_first_index() -> None:
    text = {"einsum": "S[t,n] = 0.5*S[T:t-1,N:n] + X[t,n]", "operations": {"populate": 8}}
    cascade = ff.cascade([text], sizes={"T": 6, "N": 3})
    check(cascade)
    assert cascade.reference(X=[[0.0] * 3] * 6)["S"][:2, 0].tolist() == [4.0, 2.0]


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8"])
def test_integers_are_exact(dtype: str) -> None:
    texts = ["Z[m,n] = A[m,k] * B[k,n]", "Y[m,n] = max(2*Z[m,n], 3)", "X[m] = max(Y[m,n])"]
    cascade = ff.cascade(texts, sizes={"M": 4, "N": 5, "K": 6}, dtypes={"All": dtype})
    check(cascade)
    assert set(cascade.tolerance().values()) == {0.0}


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex(dtype: str) -> None:
    check(ff.cascade(["Z[m,n] = 2 * A[m,k] * B[k,n] + A[m,k]"], sizes={"M": 4, "N": 5, "K": 6}, dtypes={"All": dtype}))


def test_mixed_types() -> None:
    cascade = ff.cascade(
        ["Z[m] = A[m,k] * B[k]", "Y[m] = Z[m] / N[m]"],
        sizes={"M": 5, "K": 6},
        dtypes={"A": "float32", "N": "int32", "Other": "float64"},
    )
    check(cascade)


def test_an_accumulator_wider_than_its_output() -> None:
    cascade = ff.cascade(["Z[m] = A[m,k] * B[k]"], sizes={"M": 5, "K": 6}, dtypes={"All": "float32"}, accumulate={"All": "float64"})
    check(cascade)
    assert "double acc" in ff_source(cascade)


def ff_source(cascade: Cascade) -> str:
    return str(lp.generate_code_v2(cascade.kernel()).device_code())


def test_single_precision_stays_single() -> None:
    cascade = ff.cascade(["Y[m] = 0.1*gelu(X[m]) + silu(X[m])*m - sigmoid(0.3*X[m])**2.5"], sizes={"M": 5})
    assert "double" not in ff_source(cascade)
    check(cascade)


def test_symbolic_sizes() -> None:
    cascade = ff.cascade(["Z[e,i] = J[r,e] * D[r,i,j] * u[e,j]"], sizes={"E": "nel", "R": 2, "I": 3, "J": 3})
    assert cascade.size_parameters == ("nel",)
    check(cascade, sizes={"nel": 13})
    check(cascade, sizes={"nel": 1})


def tagged_names(t_unit: lp.TranslationUnit) -> dict[type, dict[object, frozenset[str]]]:
    """What a kernel's tags say, per tag class: Einsum -> instructions, (Einsum, variable) -> inames, tensor -> arrays."""
    kernel = t_unit.default_entrypoint
    found: dict[type, dict[object, set[str]]] = {EinsumTag: {}, RankVariableTag: {}, TensorTag: {}}
    for insn in kernel.instructions:
        for tag in insn.tags_of_type(EinsumTag):
            found[EinsumTag].setdefault(tag.einsum, set()).add(insn.id)
    for name, iname in kernel.inames.items():
        for tag in iname.tags_of_type(RankVariableTag):
            found[RankVariableTag].setdefault((tag.einsum, tag.variable), set()).add(name)
    for array in (*kernel.args, *kernel.temporary_variables.values()):
        for tag in array.tags_of_type(TensorTag):
            found[TensorTag].setdefault(tag.tensor, set()).add(array.name)
    return {kind: {key: frozenset(names) for key, names in table.items()} for kind, table in found.items()}


def test_entities_carry_tags() -> None:
    cascade = ff.cascade(["T[m,n] = A[m,k] * B[k,n]", "Z[m,p] = T[m,n] * C[n,p]"], sizes={"M": 5, "N": 7, "K": 3, "P": 2})
    names, tagged = chosen_names(cascade), tagged_names(cascade.kernel())
    assert tagged[EinsumTag] == {einsum: {insn} for einsum, insn in names.instructions.items()}
    assert tagged[RankVariableTag] == {key: {iname} for key, iname in names.inames.items()}
    assert tagged[TensorTag] == {tensor: {array} for tensor, array in names.arrays.items()}


@pytest.mark.parametrize(
    ("text", "reason"),
    [("Z[m] = max(A[m,k])", "reduces uint32 by max"), ("Z[m] = A[m,k] - B[k]", "the number -1 is none of type uint32")],
)
def test_what_kernels_cannot_compute_of_a_type_is_said(text: str, reason: str) -> None:
    cascade = ff.cascade([text], sizes={"M": 4, "K": 5}, dtypes={"All": "uint32"})
    with pytest.raises(ff.UnsupportedTypeError, match=reason):
        cascade.kernel()


@pytest.mark.parametrize(("accumulate", "stored"), [("int8", "int64"), ("int8", "float32"), ("uint32", "float64"), ("int16", "int32")])
def test_sums_that_wrap_are_not_taken_in_a_longer_type(accumulate: str, stored: str) -> None:
    inputs = {"A": "int8", "B": "int8", "Z": stored}
    cascade = ff.cascade(["Z[m,n] = A[m,k] * B[k,n]"], sizes={"M": 3, "K": 5, "N": 2}, dtypes=inputs, accumulate={"Z": accumulate})
    with pytest.raises(ff.UnsupportedTypeError, match=f"Z adds up in {accumulate}, which wraps, what it stores as {stored}"):
        cascade.kernel()


def test_extrema_do_not_wrap() -> None:
    """In whatever type they are taken."""
    ff.cascade(["Z[m] = max(A[m,k])"], sizes={"M": 3, "K": 5}, dtypes={"A": "int8", "Z": "int64"}, accumulate={"Z": "int8"}).kernel()
