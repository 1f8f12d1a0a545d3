from __future__ import annotations

import loopy as lp
import numpy as np
import pytest
from loopy.symbolic import Reduction, TypeCast
from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

import feinsum_fuse as ff
from feinsum_fuse.cascades.matching.match import Match, match
from feinsum_fuse.cascades.names import chosen_names
from feinsum_fuse.cascades.terms import SizeParam
from tests.cascades.randomness import RandomCascade, largest_error, random_inputs, run
from tests.sweeps import SEED, sweep_size


@pytest.mark.parametrize("number", range(sweep_size(1000)))
def test_random_kernels_compute_what_is_matched(number: int) -> None:
    cascade = RandomCascade(SEED + 7000 + number).cascade(plain=number % 2 == 0)
    try:
        found = match(cascade.kernel())
    except ff.MatchError as error:
        assert "no points" in str(error)  # guards that exclude everything
        return
    arrays = random_inputs(cascade, number)
    names = chosen_names(cascade).arrays
    arguments = {names[tensor]: array for tensor, array in arrays.items()}
    expected, got, tolerance = found.reference(**arguments), run(cascade.kernel(), **arguments), found.cascade.tolerance()
    for array, value in expected.items():
        assert largest_error(got[array], value) <= tolerance[array] + 1e-12


def kernel(domains: str | list[str], text: str, arguments: str, **options: object) -> lp.TranslationUnit:
    """A kernel over float64 arrays; ``arguments``: names with shapes, outputs after a bar."""
    inputs, _, outputs = arguments.partition("|")
    args: list[object] = []
    for group, is_input in ((inputs, True), (outputs, False)):
        for word in group.split():
            name, _, shape = word.partition(":")
            lengths = tuple(int(length) if length.isdigit() else length for length in shape.split(",") if length)
            args.append(lp.GlobalArg(name, np.float64, shape=lengths, is_input=is_input, is_output=not is_input))
    return lp.make_kernel(domains, text, [*args, ...], lang_version=(2018, 2), **options)


SIZES = {"x": 3, "r": 3, "e": 11, "i": 5, "j": 4, "f": 2}
CLASSES = {
    "gradient": ("xre,rij,ej->xei", 1),
    "divergence": ("xre,rij,xej->ei", 1),
    "component": ("re,rij,ej->ei", 1),
    "face mass": ("ifj,fe,fej->ei", 1),
    "batched gradient": ("xre,rij,ej->xei", 4),
    "batched divergence": ("xre,rij,xej->ei", 3),
    "batched face mass": ("ifj,fe,fej->ei", 4),
}


def einsum_kernel(subscripts: str, rows: int, e: int | str) -> lp.TranslationUnit:
    """A batched einsum as a compiler writes it: one shared nest, rules with a rho of their own for each row's last operand."""
    inputs, output = subscripts.split("->")
    letters = sorted(set(inputs) - {","})
    sizes = {**SIZES, "e": e}
    bounds = " and ".join(f"0 <= {letter} < {sizes[letter]}" for letter in letters)
    parameters = "[nel] -> " if isinstance(e, str) else ""
    lines, arguments, outputs = [], [], []
    operands = inputs.split(",")
    for row in range(rows):
        calls = []
        for position, indices in enumerate(operands):
            shared = position < len(operands) - 1
            array = f"A{position}" if shared else f"A{position}_{row}"
            rule = f"{array}_rule_{row}"
            element = f"{array}[{','.join(indices)}]"
            lines.append(f"{rule}({','.join(indices)}) := {element if row % 2 == 0 or shared else f'2*{element} + sin({element})'}")
            calls.append(f"{rule}({','.join(indices)})")
            arguments.append(f"{array}:{','.join(str(sizes[letter]) for letter in indices)}")
        reduced = ",".join(letter for letter in letters if letter not in output)
        lines.append(f"out{row}[{','.join(output)}] = sum([{reduced}], {'*'.join(calls)}) {{id=row{row}}}")
        outputs.append(f"out{row}:{','.join(str(sizes[letter]) for letter in output)}")
    unique = " ".join(dict.fromkeys(arguments))
    return kernel(f"{parameters}{{[{','.join(letters)}] : {bounds}}}", "\n".join(lines), f"{unique} | {' '.join(outputs)}")


def expected_rows(subscripts: str, rows: int, arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
    count = len(subscripts.split("->")[0].split(","))
    results = []
    for row in range(rows):
        last = arrays[f"A{count - 1}_{row}"]
        value = last if row % 2 == 0 else 2 * last + np.sin(last)
        results.append(np.einsum(subscripts, *(arrays[f"A{k}"] for k in range(count - 1)), value))
    return results


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("e", [11, "nel"])
def test_the_classes_that_feinsum_knows(name: str, e: int | str) -> None:
    subscripts, rows = CLASSES[name]
    found = match(einsum_kernel(subscripts, rows, e))
    generator = np.random.default_rng(0)
    arrays = {}
    operands = subscripts.split("->")[0].split(",")
    for position, indices in enumerate(operands):
        for array in [f"A{position}"] if position < len(operands) - 1 else [f"A{position}_{row}" for row in range(rows)]:
            arrays[array] = generator.random([SIZES[letter] for letter in indices])
    got = found.reference(**arrays)
    for row, value in enumerate(expected_rows(subscripts, rows, arrays)):
        np.testing.assert_allclose(got[f"out{row}"], value, rtol=1e-12)
    assert len(found.cascade.einsums) == rows
    assert found.cascade.size_parameters == (("nel",) if e == "nel" else ())
    plain = [f"O{row}[{','.join(subscripts.split('->')[1])}] = {' * '.join(terms(operands, row))}" for row in range(rows)]
    sizes = {letter.upper(): size for letter, size in {**SIZES, "e": e}.items() if letter in subscripts}
    assert found.cascade.structure_key == ff.cascade(plain, sizes=sizes, dtypes={"All": "float64"}).structure_key


def terms(operands: list[str], row: int) -> list[str]:
    names = [f"A{k}" if k < len(operands) - 1 else f"A{k}r{row}" for k in range(len(operands))]
    return [f"{name}[{','.join(indices)}]" for name, indices in zip(names, operands, strict=True)]


MATMUL = "{[m,n,k] : 0 <= m < 4 and 0 <= n < 5 and 0 <= k < 3}"
RULES = "A_(m,k) := A[m,k]\nB_(k,n) := B[k,n]\n"
ARGUMENTS = "A:4,3 B:3,5 | C:4,5"

REFUSED: dict[str, tuple[str | list[str], str, str, str]] = {
    "an index of the output that is no iname": (
        MATMUL,
        RULES + "C[m,(m+n) % 5] = sum(k, A_(m,k)*B_(k,n))",
        ARGUMENTS,
        "must be bare inames",
    ),
    "one element in several iterations": (MATMUL, RULES + "C[m,m] = sum(k, A_(m,k)*B_(k,n)) {inames=m:n}", ARGUMENTS, "each once"),
    "an unknown function of a result": (
        MATMUL,
        RULES + "C[m,n] = cosh(sum(k, A_(m,k)*B_(k,n)))",
        ARGUMENTS,
        "cosh",
    ),
    "elements divided with remainder": (MATMUL, RULES + "C[m,n] = sum(k, A_(m,k) // B_(k,n))", ARGUMENTS, "only loops may be divided so"),
    "a function whose name begins as another's": (
        MATMUL,
        RULES + "C[m,n] = sum(k, max_norm(0.5, A_(m,k)*B_(k,n)))",
        ARGUMENTS,
        "max_norm",
    ),
    "loops that run for some sizes alone": (
        "[nn] -> {[m,n,k] : 0 <= m < 4 and 0 <= n < 5 and 0 <= k < 3 and nn >= 3}",
        RULES + "C[m,n] = sum(k, A_(m,k)*B_(k,n))",
        ARGUMENTS,
        "run only where .*nn >= 3",
    ),
    "a part written and the whole read": (
        ["{[m,k] : 0 <= m < 4 and 0 <= k < 3}", "{[q] : 0 <= q < 9}"],
        "A_(m,k) := A[m,k]\nT_(q) := T[q]\nT[m] = sum(k, A_(m,k)) {id=T}\nZ[q] = 2*T_(q) {id=Z,dep=T}",
        "A:4,3 | T:9 Z:9",
        "reads T up to 8, of which the kernel writes 4",
    ),
    "written twice": (
        MATMUL,
        "C[m,n] = sum(k, A[m,k]*B[k,n]) {id=one}\nC[m,4-n] = 2*A[m,n] {id=two,dep=one}",
        "A:4,5 B:3,5 | C:4,5",
        "touch elements of C that the loop n around both does not tell apart",
    ),
    "a read outside": (MATMUL, "A_(m,k) := A[m,k]\nC[m,n] = sum(k, A_(m,k))", "A:4,2 | C:4,5", "beyond its length"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_einsum_is_refused_with_the_instruction(name: str) -> None:
    domain, text, arguments, reason = REFUSED[name]
    t_unit = kernel(domain, text, arguments)
    with pytest.raises(ff.MatchError, match=reason) as caught:
        match(t_unit)
    assert any(insn.id in str(caught.value) for insn in t_unit.default_entrypoint.instructions)


def test_other_kinds_of_instructions_are_refused_and_left_alone() -> None:
    t_unit = lp.make_kernel(
        ["{[m,n,k] : 0 <= m < 4 and 0 <= n < 5 and 0 <= k < 3}", "{[q] : 0 <= q < 4}"],
        [
            RULES + "C[m,n] = sum(k, A_(m,k)*B_(k,n)) {id=C}",
            lp.CInstruction("q", "D[q] = 1;", assignees=("D[q]",), id="raw"),
            "... nop {id=nop}",
        ],
        [lp.GlobalArg("A", np.float64, shape=(4, 3)), lp.GlobalArg("B", np.float64, shape=(3, 5))]
        + [lp.GlobalArg(name, np.float64, shape=shape, is_input=False) for name, shape in (("C", (4, 5)), ("D", (4,)))],
        lang_version=(2018, 2),
    )
    for name, kind in (("raw", "CInstruction"), ("nop", "NoOpInstruction")):
        with pytest.raises(ff.MatchError, match=f"instruction {name} is no Einsum: it is a {kind}"):
            match(t_unit, name)
    assert match(t_unit, "C").cascade.structure_key == match(t_unit, ["C"]).cascade.structure_key


def test_several_entrypoints_are_told_apart_by_name() -> None:
    one, other = (kernel(MATMUL, RULES + f"C[m,n] = sum(k, {text})", ARGUMENTS) for text in ("A_(m,k)*B_(k,n)", "A_(m,k) + B_(k,n)"))
    both = lp.merge([_named(one, "one"), _named(other, "other")])
    with pytest.raises(ff.MatchError, match=r"which kernel is meant cannot be told: the translation unit has (one|other), (one|other)"):
        match(both)
    with pytest.raises(ff.MatchError, match="a kernel 'third' cannot be told"):
        match(both, kernel_name="third")
    assert match(both, kernel_name="other").cascade.key == match(other).cascade.key


def _named(t_unit: lp.TranslationUnit, name: str) -> lp.TranslationUnit:
    return lp.rename_callable(t_unit, t_unit.default_entrypoint.name, name)


def test_a_cast_to_a_narrower_type_is_refused() -> None:
    t_unit = kernel(MATMUL, RULES + "C[m,n] = sum(k, A_(m,k)*B_(k,n)) {id=C}", ARGUMENTS)
    insn = t_unit.default_entrypoint.id_to_insn["C"]
    reduction = insn.expression
    narrow = Reduction(reduction.operation, reduction.inames, 1 + TypeCast(np.float32, reduction.expr), allow_simultaneous=False)
    changed = t_unit.with_kernel(t_unit.default_entrypoint.copy(instructions=[insn.copy(expression=narrow)]))
    with pytest.raises(ff.MatchError, match="casts to float32"):
        match(changed)


def check(t_unit: lp.TranslationUnit, found: Match, **arrays: np.ndarray) -> None:
    got = run(t_unit, **arrays)
    for array, expected in found.reference(**arrays).items():
        assert largest_error(got[array], expected) < 1e-12


@pytest.mark.parametrize(("operation", "reduce"), [("sum", "add"), ("max", "max"), ("min", "min"), ("product", "mul")])
def test_the_reduction_is_read(operation: str, reduce: str) -> None:
    t_unit = kernel(MATMUL, RULES + f"C[m,n] = reduce({operation}, k, A_(m,k)*B_(k,n))", ARGUMENTS)
    found = match(t_unit)
    assert found.cascade.einsums[0].reduce == reduce
    generator = np.random.default_rng(1)
    check(t_unit, found, A=generator.random((4, 3)), B=generator.random((3, 5)))


OTHERS_KERNELS = {
    "parallel loops": (RULES + "C[m,n] = sum(k, A_(m,k)*B_(k,n))", ARGUMENTS),
    "arrays larger than the loops": (RULES + "C[m,n] = sum(k, A_(m,k)*B_(k,n))", "A:9,7 B:3,8 | C:4,5"),
    "a rule with its arguments in another order": ("A_(k,m) := A[m,k]\nB_(k,n) := B[k,n]\nC[m,n] = sum(k, A_(k,m)*B_(k,n))", ARGUMENTS),
    "a rule that calls a rule": ("A0(m,k) := A[m,k]\nA_(m,k) := A0(m,k)\nB_(k,n) := B[k,n]\nC[m,n] = sum(k, A_(m,k)*B_(k,n))", ARGUMENTS),
    "an indirect access": ("A_(m,k) := A[m, map[k]]\nB_(k,n) := B[k,n]\nC[m,n] = sum(k, A_(m,k)*B_(k,n))", "A:4,3 B:3,5 map:3 | C:4,5"),
    "a branch in a rule": ("A_(m,k) := A[m+1,k] if m < 3 else 0\nB_(k,n) := B[k,n]\nC[m,n] = sum(k, A_(m,k)*B_(k,n))", ARGUMENTS),
    "a condition": (RULES + "C[m,n] = sum(k, A_(m,k)*B_(k,n) if k < n else 1)", ARGUMENTS),
    "loops as values": (RULES + "C[m,n] = sum(k, k*A_(m,k) - B_(k,n)/(1 + n))", ARGUMENTS),
}


@pytest.mark.parametrize("name", OTHERS_KERNELS)
def test_what_others_write(name: str) -> None:
    text, arguments = OTHERS_KERNELS[name]
    t_unit = kernel(MATMUL, text, arguments)
    if name == "parallel loops":
        t_unit = lp.tag_inames(t_unit, {"m": "g.0", "n": "l.0"})
    generator = np.random.default_rng(5)
    arrays: dict[str, np.ndarray] = {}
    for word in arguments.partition("|")[0].split():
        array, _, shape = word.partition(":")
        arrays[array] = generator.random(tuple(map(int, shape.split(","))))
    if "map" in arrays:
        arrays["map"] = np.array([2, 0, 1], np.int32)
        kept = [arg.copy(dtype=np.int32) if arg.name == "map" else arg for arg in t_unit.default_entrypoint.args]
        t_unit = t_unit.with_kernel(t_unit.default_entrypoint.copy(args=kept))
    check(t_unit, match(t_unit), **arrays)


def test_an_initial_value_of_the_same_operation_is_read() -> None:
    t_unit = kernel(MATMUL, RULES + "C[m,n] = 1.5 + sum(k, A_(m,k)*B_(k,n))", ARGUMENTS)
    found = match(t_unit)
    assert found.cascade.einsums[0].populate == 1.5
    check(t_unit, found, A=np.ones((4, 3)), B=np.ones((3, 5)))


def test_bounds_of_the_reduction_become_guards() -> None:
    domains = ["{[m] : 0 <= m < 6}", "[m] -> {[k] : 0 <= k <= m and k < 4}"]
    t_unit = kernel(domains, "A_(m,k) := A[m,k]\nC[m] = sum(k, A_(m,k))", "A:6,4 | C:6")
    found = match(t_unit)
    assert found.cascade.einsums[0].guards
    check(t_unit, found, A=np.random.default_rng(2).random((6, 4)))


def test_rules_that_compute_are_operands() -> None:
    text = "G(r,e) := w[e]*J[r,e]/2\nD_(r,i,j) := D[r,i,j]\nu_(e,j) := u[e,j]\ny[e,i] = sum([r,j], G(r,e)*D_(r,i,j)*u_(e,j)) {id=y}"
    t_unit = kernel("{[e,i,r,j] : 0 <= e < 7 and 0 <= i,j < 4 and 0 <= r < 3}", text, "w:7 J:3,7 D:3,4,4 u:7,4 | y:7,4")
    found = match(t_unit)
    assert found.names.rules["y", 0] == "G"
    assert set(found.cascade.inputs) == {"G", "D", "u"}
    generator = np.random.default_rng(3)
    shapes = {"w": 7, "J": (3, 7), "D": (3, 4, 4), "u": (7, 4)}
    check(t_unit, found, **{name: generator.random(shape) for name, shape in shapes.items()})
    plain = ff.cascade(["y[e,i] = J[r,e]*D[r,i,j]*u[e,j]"], sizes={"E": 7, "R": 3, "I": 4, "J": 4}, dtypes={"All": "float64"})
    assert found.cascade.structure_key == plain.structure_key


def test_rules_that_compute_with_an_intermediate_are_part_of_the_map() -> None:
    domains = ["{[m,k] : 0 <= m < 4 and 0 <= k < 3}", "{[p] : 0 <= p < 4}"]
    text = "A_(m,k) := A[m,k]\nT_(p) := exp(T[p])*w[p]\nT[m] = sum(k, A_(m,k)) {id=T}\nZ[p] = 2*T_(p) {id=Z,dep=T}"
    t_unit = kernel(domains, text, "A:4,3 w:4 | T:4 Z:4")
    found = match(t_unit)
    assert [access.tensor for access in found.cascade.einsum("Z").operands] == ["T", "w"]
    check(t_unit, found, A=np.random.default_rng(4).random((4, 3)), w=np.arange(4.0))


CHAIN = [
    "{[m,k] : 0 <= m < 4 and 0 <= k < 3}",
    "{[p,q] : 0 <= p,q < 4}",
]


def test_a_reader_that_does_not_depend_on_the_writer_is_refused() -> None:
    text = "A_(m,k) := A[m,k]\nT_(p) := T[p]\nT[m] = sum(k, A_(m,k)) {id=T}\nZ[p] = 2*T_(p) {id=Z,dep_query=none}"
    domains = [CHAIN[0], "{[p] : 0 <= p < 4}"]
    t_unit = kernel(domains, text.replace(",dep_query=none", ""), "A:4,3 | T:4 Z:4", seq_dependencies=False)
    loose = t_unit.default_entrypoint
    insns = [i.copy(depends_on=frozenset(), depends_on_is_final=True) if i.id == "Z" else i for i in loose.instructions]
    with pytest.raises(ff.MatchError, match="does not depend"):
        match(t_unit.with_kernel(loose.copy(instructions=insns)))


def test_a_shared_loop_must_index_both_in_the_same_way() -> None:
    text = "A_(m,k) := A[m,k]\nT_(m) := T[m]\nT[m] = sum(k, A_(m,k)) {id=T}\n"
    good = kernel(CHAIN[0], text + "Z[m] = 2*T_(m) {id=Z,dep=T}", "A:4,3 | T:4 Z:4")
    check(good, match(good), A=np.ones((4, 3)))
    domains = ["{[m,k] : 0 <= m < 4 and 0 <= k < 3}", "{[n] : 0 <= n < 4}"]
    bad = kernel(domains, text + "Z[m] = sum(n, T_(n)) {id=Z,dep=T}", "A:4,3 | T:4 Z:4")
    with pytest.raises(ff.MatchError, match="inside the loop m"):
        match(bad)


def test_foreign_instructions_are_left_alone() -> None:
    text = "<> s[q] = 3*w[q] {id=foreign}\n" + RULES + "C[m,n] = sum(k, A_(m,k)*B_(k,n)) {id=product}\nv[q] = s[q] {id=other,dep=foreign}"
    t_unit = kernel([MATMUL, "{[q] : 0 <= q < 6}"], text, "A:4,3 B:3,5 w:6 | C:4,5 v:6")
    with pytest.raises(ff.MatchError, match=r"foreign|other"):
        match(t_unit)
    found = match(t_unit, instructions=["product"])
    assert found.cascade.outputs == ("C",)
    assert found.names.instructions == {"product": "product"}
    with pytest.raises(ff.MatchError, match="no instruction 'nothing'"):
        match(t_unit, instructions=["nothing"])


def test_parameters_stay_apart() -> None:
    product = RULES + "C[m,n] = sum(k, A_(m,k)*B_(k,n))"
    t_unit = kernel("[a,b] -> {[m,n,k] : 0 <= m < a and 0 <= n < b and 0 <= k < a}", product, "A:a,a B:a,b | C:a,b")
    found = match(t_unit)
    assert found.cascade.einsums[0].sizes == {"m": SizeParam("a"), "n": SizeParam("b"), "k": SizeParam("a")}
    single = kernel("[a] -> {[m,n,k] : 0 <= m,n,k < a}", product, "A:a,a B:a,a | C:a,a")
    assert match(single).cascade.key != found.cascade.key


CONTRACTIONS = [
    *("acd,dbc->ab", "acd,db->abc", "acd,dcb->ab", "aebf,dfce->abcd", "ea,ebcd->abcd", "dega,gfbc->abcdef", "gdab,efgc->abcdef"),
    *("dbea,ec->abcd", "ij,j->i", "ij,ij->ij", "eij,ej->ei", "ij,ej->ei", "ijk,ijk->ijk", "ij->i"),
]


@pytest.mark.parametrize("subscripts", CONTRACTIONS)
@pytest.mark.parametrize("rows", [1, 2])
def test_tensor_contractions(subscripts: str, rows: int) -> None:
    operands = subscripts.split("->")[0].split(",")
    sizes = {letter: 2 + k % 3 for k, letter in enumerate(sorted(set("".join(operands))))}
    names = [[f"T{k}" if k else f"S{row}" for k in range(len(operands))] for row in range(rows)]
    batch = ff.batched_einsum(subscripts, names, sizes=sizes, dtype="float32")
    found = match(batch.kernel())
    assert found.cascade.key == batch.key
    arrays = random_inputs(batch, 0)
    check_single(batch.kernel(), found, **arrays)
    for row in range(rows):
        expected = np.einsum(subscripts, *(arrays[name].astype(float) for name in names[row]))
        np.testing.assert_allclose(found.reference(**arrays)[f"R{row}"], expected, rtol=1e-10, atol=1e-12)


def check_single(t_unit: lp.TranslationUnit, found: Match, **arrays: np.ndarray) -> None:
    got, tolerance = run(t_unit, **arrays), found.cascade.tolerance()
    for array, expected in found.reference(**arrays).items():
        assert largest_error(got[array], expected) <= tolerance[array]


def test_base_kernels_are_matched_back() -> None:
    texts = ["S[h,m,p] = 0.5*Q[h,m,e]*K[h,p,e]", "P[h,m,p] = softmax(where(p <= m, S[h,m,p], -inf), p)", "O[h,m,f] = P[h,m,p]*V[h,p,f]"]
    for sizes in ({"H": 2, "M": 4, "P": 5, "E": 3, "F": 3}, {"H": 2, "M": "n", "P": "k", "E": 3, "F": 3}):
        cascade = ff.cascade(texts, sizes=sizes)
        assert match(cascade.kernel()).cascade.key == cascade.key
    convolution = ff.cascade(["O[p] = I[X:2*p+r-1] * W[r]"], sizes={"P": 6, "R": 3})
    assert match(convolution.kernel()).cascade.key == convolution.key
    recurrence = ff.cascade([{"einsum": "S[t,n] = 0.5*S[T:t-1,N:n] + X[t,n]", "operations": {"populate": 8}}], sizes={"T": 6, "N": 3})
    assert match(recurrence.kernel()).cascade.key == recurrence.key


def with_edges(t_unit: lp.TranslationUnit, **edges: str) -> lp.TranslationUnit:
    """The kernel with these dependencies (instruction -> comma-separated ids) and none that loopy adds."""
    inner = t_unit.default_entrypoint
    insns = [
        insn.copy(depends_on=frozenset(filter(None, edges[insn.id].split(","))), depends_on_is_final=True) for insn in inner.instructions
    ]
    return t_unit.with_kernel(inner.copy(instructions=insns))


def twice_read(**edges: str) -> lp.TranslationUnit:
    """Two sums of A, which somebody doubles."""
    domains = ["{[m,k] : 0 <= m < 4 and 0 <= k < 3}", "{[a,b] : 0 <= a < 4 and 0 <= b < 3}", "{[c,d] : 0 <= c < 4 and 0 <= d < 3}"]
    text = "A_(m,k) := A[m,k]\nT[m] = sum(k, A_(m,k)) {id=T}\nA[a,b] = 2*A[a,b] {id=twice}\nU[c] = sum(d, A_(c,d)) {id=U}"
    return with_edges(kernel(domains, text, "A:4,3 | T:4 U:4", seq_dependencies=False), **edges)


def test_what_others_write_between_two_readers_is_no_one_tensor() -> None:
    with pytest.raises(ff.MatchError, match="T and U are no cascade: both read A, which twice writes between them"):
        match(twice_read(T="", twice="T", U="twice"), ["T", "U"])
    assert match(twice_read(T="", twice="T", U="twice"), ["U"]).cascade.inputs == ("A",)
    for edges in ({"T": "twice", "twice": "", "U": "twice"}, {"T": "", "twice": "T,U", "U": ""}):
        assert len(match(twice_read(**edges), ["T", "U"]).cascade.einsums) == 2
    with pytest.raises(ff.MatchError, match="nothing says whether twice writes that before or after"):
        match(twice_read(T="", twice="", U=""), ["T", "U"])
    with pytest.raises(ff.MatchError, match="instruction T is no Einsum: it depends on itself"):
        match(twice_read(T="U", twice="T", U="twice"), ["T"])


PER_ITERATION = {
    "an element of the next iteration": ("w[m]", "w[3-m]", " w:4"),
    "one element": ("w[m]", "w[0]", " w:4"),
}


@pytest.mark.parametrize("name", PER_ITERATION)
@pytest.mark.parametrize("factor", ["", "2*"])
def test_what_an_iteration_overwrites_is_no_tensor(name: str, factor: str) -> None:
    """A value that another instruction computes in the loop is another one in each iteration, which a cascade cannot say."""
    read, written, argument = PER_ITERATION[name]
    rule = f"s_(m) := {factor}{read}" if "m" in read else f"s_() := {factor}{read}"
    text = f"A_(m,k) := A[m,k]\n{rule}\n{written} = row[m] {{id=s}}\nC[m] = sum(k, {rule.partition(' ')[0]}*A_(m,k)) {{id=C,dep=s}}"
    t_unit = kernel("{[m,k] : 0 <= m < 4 and 0 <= k < 3}", text, f"A:4,3 row:4{argument} | C:4")
    with pytest.raises(ff.MatchError, match="in the loop m, in which s writes it for other iterations"):
        match(t_unit, ["C"])


@pytest.mark.parametrize("factor", ["", "2*"])
def test_a_number_of_each_iteration_is_what_it_was_given(factor: str) -> None:
    text = f"A_(m,k) := A[m,k]\ns_() := {factor}s\n<> s = row[m] {{id=s}}\nC[m] = sum(k, s_()*A_(m,k)) {{id=C,dep=s}}"
    matched = match(kernel("{[m,k] : 0 <= m < 4 and 0 <= k < 3}", text, "A:4,3 row:4 | C:4"), ["C"])
    scale = f"{factor.replace('*', ' * ')}row[m]"
    assert matched.cascade.key == ff.cascade([f"C[m] = {scale} * A[m, k]"], sizes={"M": 4, "K": 3}, dtypes={"All": "float64"}).key


def test_what_an_iteration_writes_for_itself_is_a_tensor() -> None:
    text = "A_(m,k) := A[m,k]\ns_(m) := 2*w[m]\nw[m] = row[m] {id=s}\nC[m] = sum(k, s_(m)*A_(m,k)) {id=C,dep=s}"
    t_unit = kernel("{[m,k] : 0 <= m < 4 and 0 <= k < 3}", text, "A:4,3 row:4 w:4 | C:4")
    assert match(t_unit, ["C"]).cascade.inputs == ("s_", "A")


def test_loops_of_computed_length_are_refused() -> None:
    domains = ["{[m] : 0 <= m < 4}", "[long] -> {[k] : 0 <= k < long}"]
    text = "A_(m,k) := A[m,k]\n<int32> long = row[m] {id=long}\nC[m] = sum(k, A_(m,k)) {id=C,dep=long}"
    t_unit = lp.make_kernel(
        domains,
        text,
        [lp.GlobalArg("A", np.float64, shape=(4, 6)), lp.GlobalArg("row", np.int32, shape=(4,)), lp.GlobalArg("C", np.float64, shape=(4,))],
        lang_version=(2018, 2),
    )
    with pytest.raises(ff.MatchError, match="depend on long, which is no argument of the kernel"):
        match(t_unit, ["C"])


def test_arrays_that_share_memory_are_refused() -> None:
    shared = {"base_storage": "memory", "shape": (4,), "address_space": lp.AddressSpace.GLOBAL}
    t_unit = lp.make_kernel(
        ["{[m,k] : 0 <= m < 4 and 0 <= k < 3}", "{[q] : 0 <= q < 4}"],
        "A_(m,k) := A[m,k]\nU_(q) := U[q]\nU[m] = sum(k, A_(m,k)) {id=U}\nV[q] = 2*U_(q) {id=V,dep=U}",
        [lp.GlobalArg("A", np.float64, shape=(4, 3)), *(lp.TemporaryVariable(name, np.float64, **shared) for name in "UV")],
        lang_version=(2018, 2),
    )
    with pytest.raises(ff.MatchError, match="instruction U is no Einsum: it writes U, which shares its memory"):
        match(t_unit)


def test_loops_may_be_divided_with_remainder() -> None:
    t_unit = kernel(MATMUL, RULES + "C[m,n] = sum(k, A_(m,k)*B_(k,n) if m // 2 == n % 2 else 0)", ARGUMENTS)
    found = match(t_unit)
    assert "where(m // 2 == n % 2, A[m, k] * B[k, n], 0)" in str(found)
    generator = np.random.default_rng(6)
    check(t_unit, found, A=generator.random((4, 3)), B=generator.random((3, 5)))


def test_an_argument_that_is_no_array_is_refused() -> None:
    kernel = lp.make_kernel("{[i, j]: 0 <= i, j < 4}", "y[i] = sum(j, A[i, j] * x[j])", lang_version=(2018, 2))
    nested: list[object] = []
    nested.append(nested)
    with pytest.raises(ff.CascadeError, match="the argument x is no array"):
        ff.match(lp.add_dtypes(kernel, {"A": "float32", "x": "float32"})).reference(A=np.ones((4, 4), "float32"), x=nested)
