from __future__ import annotations

import dataclasses
import os
import random
import re
import subprocess
import sys

import numpy as np
import pytest
from constantdict import constantdict

import feinsum_fuse as ff
from feinsum_fuse.cascades.canonical.canonical import Renaming, canonical
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.reading.batched import array, batched_einsum
from feinsum_fuse.cascades.terms import Access, Einsum, Tensor
from tests.cascades.isomorphism import nauty_certificate, near_miss, random_batch, shuffled_copy
from tests.cascades.randomness import RandomCascade, run
from tests.sweeps import SEED, sweep_size


@pytest.mark.parametrize("chunk", range(10))
def test_keys_agree_with_an_independent_canonicaliser(chunk: int) -> None:
    isomorphic = 0
    for number in range(sweep_size(1000)):
        chooser = random.Random(SEED + 1000 * chunk + number)
        one = random_batch(chooser)
        other = shuffled_copy(one if chooser.random() < 0.3 else near_miss(one, chooser), chooser)
        same = nauty_certificate(one) == nauty_certificate(other)
        assert (one.key == other.key) is same, (one, other)
        without_maps = nauty_certificate(one, maps=False) == nauty_certificate(other, maps=False)
        assert (one.structure_key == other.structure_key) is without_maps, (one, other)
        isomorphic += same
    assert 0 < isomorphic < sweep_size(1000)


@pytest.mark.parametrize("number", range(sweep_size(400)))
def test_names_and_orders_do_not_matter(number: int) -> None:
    cascade = RandomCascade(SEED + number).cascade()
    copy = shuffled_copy(cascade, random.Random(number))
    assert copy.key == cascade.key
    assert copy.structure_key == cascade.structure_key
    assert copy.canonical().cascade == cascade.canonical().cascade
    assert cascade.canonical().cascade.key == cascade.key


def applied(cascade: Cascade, renaming: Renaming) -> Cascade:
    """A cascade with every name replaced; maps are left out, and Einsums sorted by name."""
    einsums = []
    for einsum in cascade.einsums:
        names = {v: renaming.variables[einsum.name, v] for v in einsum.variables}

        def access(old: Access, names: dict[str, str] = names) -> Access:
            return Access(renaming.tensors[old.tensor], tuple(index.renamed(names) for index in old.indices))

        operands: list[Access | None] = [None] * len(einsum.operands)
        for operand, position in zip(einsum.operands, renaming.operands[einsum.name], strict=True):
            operands[position] = access(operand)
        einsums.append(
            dataclasses.replace(
                einsum,
                name=renaming.einsums[einsum.name],
                output=access(einsum.output),
                operands=tuple(operand for operand in operands if operand is not None),
                map=0,
                sizes=constantdict({names[v]: size for v, size in sorted(einsum.sizes.items(), key=lambda item: names[item[0]])}),
                guards=tuple(sorted(guard.renamed(names) for guard in einsum.guards)),
                reduce="add",
                populate=None,
            )
        )
    tensors = {renaming.tensors[name]: Tensor(renaming.tensors[name], t.shape, t.dtype) for name, t in cascade.tensors.items()}
    outputs = tuple(sorted(renaming.tensors[name] for name in cascade.outputs))
    return Cascade(tuple(sorted(einsums, key=lambda e: e.name)), constantdict(tensors), outputs)


@pytest.mark.parametrize("number", range(sweep_size(400)))
def test_renamings_and_automorphisms_are_isomorphisms(number: int) -> None:
    chooser = random.Random(SEED + number)
    cascade = random_batch(chooser) if number % 2 else RandomCascade(SEED + number).cascade()
    found = cascade.canonical()
    identity = found.renaming.inverse().then(found.renaming)
    assert identity.is_identity
    if not cascade.size_parameters:
        assert applied(cascade, found.renaming) == applied(found.cascade, identity)
        for automorphism in found.automorphisms:
            assert not automorphism.is_identity
            assert applied(found.cascade, automorphism) == applied(found.cascade, identity)


def orbits(cascade: Cascade) -> int:
    """How many orbits the Einsums of a cascade fall into."""
    found = cascade.canonical()
    parent = {e.name: e.name for e in found.cascade.einsums}

    def root(name: str) -> str:
        while parent[name] != name:
            name = parent[name]
        return name

    for automorphism in found.automorphisms:
        for one, other in automorphism.einsums.items():
            parent[root(one)] = root(other)
    return len({root(name) for name in parent})


def test_symmetries_are_found() -> None:
    J, D = array("J", (3, 3, "nel")), array("D", (3, 8, 8))
    rows = [[J, D, array(f"u{k}", (3, "nel", 8))] for k in range(16)]
    assert orbits(batched_einsum("xre,rij,xej->ei", rows)) == 1
    rows[3][2] = dataclasses.replace(rows[3][2], dtype="float32")
    assert orbits(batched_einsum("xre,rij,xej->ei", rows)) == 2
    cube = batched_einsum("ij,ij,ij->i", [[array("A", (4, 4))] * 3])
    assert {a.operands["E0"] for a in cube.canonical().automorphisms} >= {(1, 0, 2)} or len(cube.canonical().automorphisms) == 2


MATMUL_SIZES = {"M": 4, "N": 5, "K": 3}


def written(text: str, **sizes: int | str) -> Cascade:
    return ff.cascade([text], sizes=sizes or {rank: size for rank, size in MATMUL_SIZES.items() if re.search(rf"\b{rank.lower()}\b", text)})


DIFFERENT = {
    "size": (written("Z[m,n] = A[m,k]*B[k,n]"), written("Z[m,n] = A[m,k]*B[k,n]", M=4, N=5, K=4)),
    "element type": (written("Z[m,n] = A[m,k]*B[k,n]"), ff.cascade(["Z[m,n] = A[m,k]*B[k,n]"], MATMUL_SIZES, {"All": "float64"})),
    "sharing": (written("Z[m,n] = A[M:m,K:k]*B[M:n,K:k]", M=4, K=3), written("Z[m,n] = A[M:m,K:k]*A[M:n,K:k]", M=4, K=3)),
    "storage order": (written("Z[m,n] = A[m,k]*B[k,n]", M=4, N=4, K=4), written("Z[m,n] = A[m,k]*B[n,k]", M=4, N=4, K=4)),
    "coefficient": (written("Z[p] = A[X:2*p+r]*B[r]", X=9, R=3, P=4), written("Z[p] = A[X:p+2*r]*B[r]", X=9, R=3, P=4)),
    "offset": (written("Z[p] = A[X:p+1]*B[p]", X=9, P=4), written("Z[p] = A[X:p]*B[p]", X=9, P=4)),
    "reduction": (written("Z[m] = max(A[m,k])"), written("Z[m] = min(A[m,k])")),
    "equal symbolic sizes": (written("Z[m,n] = A[m]*B[n]", M="a", N="b"), written("Z[m,n] = A[m]*B[n]", M="a", N="a")),
    "accumulator": (
        written("Z[m,n] = A[m,k]*B[k,n]"),
        ff.cascade(["Z[m,n] = A[m,k]*B[k,n]"], MATMUL_SIZES, accumulate={"All": "float64"}),
    ),
    "initial value": (
        written("Z[m] = A[m,k]"),
        ff.cascade([{"einsum": "Z[m] = A[m,k]", "operations": {"populate": 1}}], {"M": 4, "K": 3}),
    ),
    "data flow": (
        ff.cascade(["T[m,n] = A[m,k]*B[k,n]", "Z[m,p] = T[m,n]*C[n,p]"], {"M": 4, "N": 4, "K": 4, "P": 4}),
        ff.cascade(["T[m,n] = A[m,k]*B[k,n]", "Z[p,n] = C[p,m]*T[m,n]"], {"M": 4, "N": 4, "K": 4, "P": 4}),
    ),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_what_changes_both_keys(what: str) -> None:
    one, other = DIFFERENT[what]
    assert one.key != other.key
    assert one.structure_key != other.structure_key


EQUAL = {
    "order of factors": ("Z[m] = A[m]*B[m] + 1", "Z[m] = 1 + B[m]*A[m]"),
    "direction of a comparison": ("Z[m] = where(m >= 2, A[m], 0)", "Z[m] = where(2 <= m, A[m], 0)"),
    "a composed function": ("Z[m] = relu(A[m])", "Z[m] = max(0, A[m])"),
    "a square": ("Z[m] = A[m]**2", "Z[m] = A[m]*A[m]"),
    "nested products": ("Z[m] = 2*(A[m]*(3*B[m]))", "Z[m] = 6*B[m]*A[m]"),
}


@pytest.mark.parametrize("what", EQUAL)
def test_equal_maps(what: str) -> None:
    one, other = (written(text, M=5) for text in EQUAL[what])
    if what != "a square":
        assert one.key == other.key
    assert one.key == written(EQUAL[what][0].replace("Z", "Y"), M=5).key


def test_a_map_changes_the_key_alone() -> None:
    one, other = written("Z[m] = A[m]*B[m]", M=5), written("Z[m] = exp(A[m]) - B[m]", M=5)
    assert one.key != other.key
    assert one.structure_key == other.structure_key


def test_maps_are_kept_or_not() -> None:
    cascade = ff.cascade(["Z[m, n] = A[m, k] * B[k, n]"], sizes={"M": 2, "N": 3, "K": 4})
    with pytest.raises(ff.errors.CascadeError, match="maps is to be a truth value, not a value of type ndarray"):
        cascade.canonical(maps=np.ones(2))  # type: ignore[arg-type]


def test_keys_of_this_format_do_not_change() -> None:
    cascade = ff.cascade(["T[m,n] = A[m,k]*B[k,n]", "Z[m,p] = gelu(T[m,n])*C[n,p]"], {"M": 4, "N": 5, "K": 6, "P": 7})
    assert cascade.key == "27b74ab536357533ee16fac4e55e5197fe9fd3274eeb2bd626923787a8446e4d"
    assert cascade.structure_key == "df246ab528afdf1fc2fbe40ac821db0b9634f97f86885f708b590fab8c3f2934"


def test_deep_maps_are_written_out_whole() -> None:
    deep = "tanh(sin(cos(abs(tanh(sin({} * A[m]))))))"
    assert written(f"Z[m] = {deep.format(2)}", M=5).key != written(f"Z[m] = {deep.format(3)}", M=5).key


def test_keys_do_not_depend_on_the_process() -> None:
    code = (
        "import feinsum_fuse as ff\n"
        "c = ff.cascade(['T[m,n] = A[m,k]*B[k,n]', 'Z[m,p] = gelu(T[m,n])*C[n,p]'], {'M': 4, 'N': 4, 'K': 4, 'P': 4})\n"
        "print(c.key, c.structure_key)"
    )
    results = set()
    for seed in ("0", "1", "12345"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        results.add(subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(results) == 1


def test_canonical_einsums_are_ordered_and_named() -> None:
    cascade = ff.cascade(["T[m,n] = A[m,k]*B[k,n]", "Z[m,p] = T[m,n]*C[n,p]"], {"M": 4, "N": 4, "K": 4, "P": 4})
    names = [einsum.name for einsum in canonical(cascade).cascade.einsums]
    assert names == ["E0", "E1"]
    assert isinstance(canonical(cascade).cascade.einsum("E0"), Einsum)
    assert canonical(cascade).renaming.einsums == {"T": "E0", "Z": "E1"}


def test_numbers_are_exact_and_may_overflow() -> None:
    one, other = (ff.cascade([f"Z[m] = A[m] + {n}"], {"M": 4}, {"All": "int64"}) for n in (2**53, 2**53 + 1))
    assert one.key != other.key
    assert ff.cascade([f"Z[m] = A[m] + {2**53} + 1"], {"M": 4}, {"All": "int64"}).key == other.key
    largest = np.array([1, 2, 3, 4])
    canonical = other.canonical()
    found = canonical.cascade.reference(**{canonical.renaming.tensors["A"]: largest})
    np.testing.assert_array_equal(found[canonical.renaming.tensors["Z"]], other.reference(A=largest)["Z"])
    assert written("Z[m] = A[m] + 1e308 + 1e308", M=5).key == written("Z[m] = A[m] + inf", M=5).key
    assert written("Z[m] = A[m] + inf - inf", M=5).key != written("Z[m] = A[m]", M=5).key


@pytest.mark.parametrize("condition", ["m < 2", "2.0 <= m", "m > 1.5", "m/2 < 1.25", "m - 1", "not (m < 1 or m == 3)", "m*m < 5"])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_predicates_of_loops_survive_canonical_form_and_kernel(condition: str, dtype: str) -> None:
    text = f"Z[m] = where({condition}, A[m], 1) + where({condition}, 1, 0) * A[m]"
    cascade = ff.cascade([text], {"M": 5}, {"All": dtype})
    canonical = cascade.canonical()
    values = np.arange(2, 7)
    expected = cascade.reference(A=values)["Z"]
    for made, name in ((cascade, "A"), (canonical.cascade, canonical.renaming.tensors["A"])):
        np.testing.assert_array_equal(made.reference(**{name: values})[made.outputs[0]], expected)
        kernel = made.kernel()
        np.testing.assert_array_equal(run(kernel, **{name: values.astype(dtype)})[made.outputs[0]], expected)
        assert ff.match(kernel).cascade.key == cascade.key


@pytest.mark.parametrize("function", ["floor", "round"])
def test_integers_are_left_as_they_are_by_what_makes_integers(function: str) -> None:
    """It counts for nothing in their key, and is read back from a kernel all the same; of floating-point numbers it counts."""
    plain, stepped = "Z[m] = A[m] * B[m, k]", f"Z[m] = {function}(A[m]) * B[m, k]"
    for dtype, same in (("int32", True), ("float32", False)):
        made, bare = (ff.cascade([text], sizes={"M": 5, "K": 3}, dtypes={"All": dtype}) for text in (stepped, plain))
        assert (made.key == bare.key) is same
        matched = ff.match(made.kernel()).cascade
        assert matched.key == made.key
        assert [einsum.map for einsum in matched.einsums] == [einsum.map for einsum in made.einsums]
