"""Right-hand sides are read as arithmetic, and anything that cannot be honoured is refused."""

from __future__ import annotations

import math

import pytest
from constantdict import constantdict
from hypothesis import given
from hypothesis import strategies as st
from pymbolic.primitives import Call, Comparison, LogicalAnd, LogicalNot, LogicalOr, Power, Product, Quotient, Sum, Variable
from pymbolic.typing import Expression

import feinsum_fuse as ff
from feinsum_fuse.formats.affine import Affine
from feinsum_fuse.formats.language.einsum_text import parse_affine, parse_einsum
from feinsum_fuse.formats.language.functions import FUNCTIONS
from feinsum_fuse.formats.language.map_text import map_text
from feinsum_fuse.formats.workload import Operation, operand_name

A, B, C = (Variable(operand_name(k)) for k in range(3))


def function(name: str, *arguments: Expression) -> Call:
    return Call(Variable(name), arguments)


@pytest.mark.parametrize(
    ("text", "names", "operation"),
    [
        ("Z[m,n] = A[m,k] * B[k,n]", ["A", "B"], Operation()),
        ("Z[m] = A[m]", ["A"], Operation()),
        ("Z[m] = sum(A[m,k])", ["A"], Operation()),
        ("X[m] = max(S[m,p])", ["S"], Operation(None, "max")),
        ("X[m] = min(S[m,p] * T[p])", ["S", "T"], Operation(None, "min")),
        ("X[m] = prod(S[m,p])", ["S"], Operation(None, "mul")),
        ("Z[m] = max(A[m], B[m])", ["A", "B"], Operation(function("max", A, B))),
        ("P[m,p] = exp(S[m,p] - X[m])", ["S", "X"], Operation(function("exp", Sum((A, Product((-1, B))))))),
        ("Y[m] = relu(0.5*Z[m] + 1)", ["Z"], Operation(function("relu", Sum((Product((0.5, A)), 1))))),
        ("Z[m] = A[m]**2 / 4", ["A"], Operation(Quotient(Power(A, 2), 4))),
        ("Z[m] = A[m] * (1/4)", ["A"], Operation(Product((A, 0.25)))),
        ("Z[m] = -A[m]", ["A"], Operation(Product((-1, A)))),
        ("Z[m,n] = A[m,k]*A[n,k]", ["A", "A"], None),
        ("Z[m] = A[m]*A[m]", ["A"], Operation(Product((A, A)))),
        ("Z[m] = B[m] * A[m]", ["B", "A"], Operation()),
        ("Z[m] = A[m] + B[m] + C[m]", ["A", "B", "C"], Operation(Sum((A, B, C)))),
        ("S[m,p] = where(p <= m, Q[m,p], -inf)", ["Q"],
         Operation(function("where", Comparison(Variable("p"), "<=", Variable("m")), A, -math.inf))),
        ("S[m,p] = Q[m,p] if p == m else 0", ["Q"], Operation(function("where", Comparison(Variable("p"), "==", Variable("m")), A, 0))),
        ("S[m,p] = where(0 < p < m and not m >= 4, Q[m,p], 0)", ["Q"], Operation(function("where", LogicalAnd((
            LogicalAnd((Comparison(0, "<", Variable("p")), Comparison(Variable("p"), "<", Variable("m")))),
            LogicalNot(Comparison(Variable("m"), ">=", 4)))), A, 0))),
        ("Z[e] = e * A[e]", ["A"], Operation(Product((Variable("e"), A)))),
        ("Z[m] = pi * A[m]", ["A"], Operation(Product((math.pi, A)))),
        ("P[m,p] = softmax(S[m,p], p)", ["S"], Operation(function("softmax", A, Variable("p")))),
        ("Z [ m , n ]=A[ m,k ]*B[k,n]", ["A", "B"], Operation()),
    ],
)  # fmt: skip
def test_right_hand_sides(text: str, names: list[str], operation: Operation | None) -> None:
    parsed = parse_einsum(text)
    assert [name for name, _ in parsed.inputs] == names
    assert parsed.operation == (Operation() if operation is None else operation)


def test_projections_name_ranks() -> None:
    parsed = parse_einsum("O[m, P: p, q] = I[C: c, H: 2*p+r-1, W: q] * K[b, M: p]")
    assert parsed.output_projection == {"M": Affine.variable("m"), "P": Affine.variable("p"), "Q": Affine.variable("q")}
    assert parsed.inputs[0][1] == constantdict({"C": parse_affine("c"), "H": Affine((("p", 2), ("r", 1)), -1), "W": parse_affine("q")})
    assert list(parsed.inputs[0][1]) == ["C", "H", "W"]


def test_the_same_access_is_one_operand_and_another_index_is_another() -> None:
    parsed = parse_einsum("Z[m] = where(A[m] > 0, A[m], A[M: m+1])")
    assert len(parsed.inputs) == 2
    assert parsed.operation.map == function("where", Comparison(A, ">", 0), A, B)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Z[m] += A[m]", "is not an Einsum"),
        ("Z[m] == A[m]", "is not an Einsum"),
        ("Z[m] = A[m] = B[m]", "has two equals signs"),
        ("Z = A[m]", "is not a tensor with indices.\n  Tensors have at least one rank; a single number is a tensor of one element"),
        ("Z[] = A[m]", "Tensor Z has no index"),
        ("Z[m] = A[]", "Tensor A has no index"),
        ("Z[m] = A[m] @ B[m]", "cannot stand in an Einsum"),
        ("Z[m] = A[m] % 2", "cannot stand in an Einsum"),
        ("Z[m] = ceil(A[m])", "There is no function 'ceil'.\n  The functions are " + ", ".join(FUNCTIONS) + "; around"),
        ("Z[m] = 1 + sum(A[m, k])", "There is no function 'sum'"),
        ("Z[m] = 2 * max(A[m, k])", "max takes 2 arguments, not 1"),
        ("Z[m] = exp(x=A[m])", "has two equals signs"),
        ("Z[m] = exp(A[m], 2)", "exp takes 1 argument, not 2"),
        ("Z[m] = A[m] * q", "'q' is neither a tensor that the Einsum reads nor one of its rank variables"),
        ("Z[m] = A[m, m]", "two indices for its rank M"),
        ("Z[m] = A[m+1]", "needs the name of its rank"),
        ("Z[m] = A[m: m]", "'m' cannot be the name of a rank.\n  Ranks begin with an uppercase letter: write M."),
        ("Z[m] = A[M]", "'M' cannot be a rank variable"),
        ("Z[m] = A[M: m*k]", "is not affine"),
        ("Z[m] = A[M: m/2]", "is not affine"),
        ("Z[m] = 3", "reads no tensor"),
        ("Z[m] = A[m].T", "cannot stand in an Einsum"),
        ("Z[m] = softmax(A[m, p])", "softmax takes an expression and the rank variable"),
        ("Z[m] = 2 * softmax(A[m, p], p)", "There is no function 'softmax'"),
        ("Z[m] = A[m] / 0 * (1 / 0)", "divides by zero"),
        ("Z[m] = 'A'", "is not a number"),
        ("Z[m] = (A[m]", "Cannot read"),
        ("Z[m] = lambda: A[m]", "Cannot read|cannot stand"),
        ("Z[or] = A[m]", "'or' cannot be the name"),
        ("Z[and_] = A[eq]", "'eq' cannot be a rank variable: the name is reserved"),
        ("Z[max] = A[max]", "'max' cannot be a rank variable: the name is reserved"),
        ("Z[m] = A[m, floor]", "'floor' cannot be a rank variable: the name is reserved"),
    ],
)  # fmt: skip
def test_what_cannot_be_honoured_is_refused(text: str, message: str) -> None:
    with pytest.raises(ff.SpecError, match=message.replace("(", r"\(").replace(".", r"\.").replace("+", r"\+")):
        parse_einsum(text)


@given(st.dictionaries(st.sampled_from("abcpqr"), st.integers(-9, 9)), st.integers(-99, 99))
def test_index_expressions_read_back(coefficients: dict[str, int], constant: int) -> None:
    index = Affine.of(coefficients, constant)
    assert parse_affine(str(index)) == index


@pytest.mark.parametrize(
    ("text", "expected"), [("2*(p + 3) - q*4", {"p": 2, "q": -4, "": 6}), ("-(-p)", {"p": 1, "": 0}), ("+p - p", {"": 0})]
)
def test_index_expressions_are_expanded(text: str, expected: dict[str, int]) -> None:
    constant = expected.pop("")
    assert parse_affine(text) == Affine.of(expected, constant)


def _is_flat(kind: type, *parts: Expression) -> Expression:
    return kind(tuple(child for part in parts for child in (part.children if isinstance(part, kind) else (part,))))


def maps() -> st.SearchStrategy[Expression]:
    """Maps over two operands and a rank variable, in the flat form that the reader builds."""
    leaves = st.one_of(
        st.sampled_from([A, B, Variable("m")]), st.integers(-20, 20), st.floats(-1e6, 1e6).filter(lambda x: not x.is_integer())
    )

    def grow(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        tensors = inner.filter(lambda e: not isinstance(e, int | float))
        condition = st.builds(Comparison, inner, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), inner)
        logic = st.one_of(
            condition,
            st.builds(lambda a, b: LogicalAnd((a, b)), condition, condition),
            st.builds(lambda a, b: LogicalOr((a, b)), condition, condition),
            st.builds(LogicalNot, condition),
        )
        unary = st.sampled_from([name for name, function in FUNCTIONS.items() if function.arity == 1])
        binary = st.sampled_from([name for name, function in FUNCTIONS.items() if function.arity == 2])
        return st.one_of(
            st.builds(lambda a, b: _is_flat(Sum, a, b), tensors, inner),
            st.builds(lambda a, b: _is_flat(Sum, a, _is_flat(Product, -1, b)), inner, tensors),
            st.builds(lambda a, b: _is_flat(Product, a, b), inner, tensors),
            st.builds(Quotient, tensors, inner),
            st.builds(Power, tensors, inner),
            st.builds(function, unary, inner),
            st.builds(function, binary, inner, inner),
            st.builds(lambda c, a, b: function("where", c, a, b), logic, inner, inner),
        )

    return st.recursive(leaves, grow, max_leaves=12)


@given(maps())
def test_maps_read_back(expression: Expression) -> None:
    text = map_text(expression, ["A[m]", "B[m]"])
    parsed = parse_einsum(f"Z[m] = where(A[m] > B[m], {text}, 0)")
    assert parsed.operation.map is not None
    assert parsed.operation.map.parameters[1] == expression, text


WORDS = [
    ("Z[m,n] = lambda[m,k] * B[k,n]", "'lambda' cannot be the name of a tensor"),
    ("global[m,n] = A[m,k] * B[k,n]", "'global' cannot be the name of a tensor"),
    ("Z[m,n] = A[m,k] * if[k,n]", "'if' cannot be the name of a tensor"),
    ("Z[m,n] = True[m,k] * B[k,n]", "'True' cannot be the name of a tensor"),
    ("Z[m,n] = A[m,in] * B[in,n]", "'in' cannot be the name of a rank or a rank variable"),
    ("Z[m,n] = A[m, M: 2*is + n]", "'is' cannot be the name of a rank or a rank variable"),
    ("Z[m,n] = A[m, None: n]", "'None' cannot be the name of a rank or a rank variable"),
]


@pytest.mark.parametrize(("text", "message"), WORDS)
def test_names_that_are_words_of_the_language_are_refused_by_name(text: str, message: str) -> None:
    """Which name, where, and what to do; in a cascade and in a file."""
    with pytest.raises(ff.SpecError, match=message) as caught:
        parse_einsum(text)
    assert "Give it another name, for example" in str(caught.value)
    with pytest.raises(ff.SpecError, match=message) as caught:
        ff.loads(f'workload:\n  bits_per_value: {{All: 32}}\n  einsums:\n  - "{text}"\n')
    assert "<text>:4:5: workload.einsums[0]" in str(caught.value)


@pytest.mark.parametrize("projection", ["[m, in]", "{M: m, N: 2*in + 1}"])
def test_rank_variables_in_files_that_are_words_are_refused_by_name(projection: str) -> None:
    accesses = f"[{{name: A, projection: {projection}}}, {{name: Z, projection: [m], output: True}}]"
    text = f"workload:\n  bits_per_value: {{All: 32}}\n  einsums:\n  - {{name: Z, tensor_accesses: {accesses}}}\n"
    with pytest.raises(ff.SpecError, match=r"'in' cannot be the name of a rank variable: .*\n.*in_ or in0") as caught:
        ff.loads(text)
    assert "projection" in str(caught.value) and "<text>:4:" in str(caught.value)


def test_words_that_join_conditions_stay_usable() -> None:
    """``and``, ``or``, ``not`` and ``if ... else`` mean what they say, and names that only contain a word are names."""
    conditional = parse_einsum("Z[m] = A[m] if m < 3 and not (B[m] > 1 or inner[m] == 0) else B[m]")
    assert [name for name, _ in conditional.inputs] == ["B", "inner", "A"]
    assert ff.cascade(["is_[m,n] = global_[m,in0] * B[in0,n]"], sizes={"M": 2, "IN0": 3, "N": 4}).einsums[0].output.tensor == "is_"
