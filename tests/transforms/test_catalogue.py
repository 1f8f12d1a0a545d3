"""Every transform of the catalogue: short, documented, and right on awkward sizes."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from types import FunctionType

import numpy as np
import pytest

import feinsum_fuse as ff
from benchmarks.catalogue import contractions, einsum_entry
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.device.catalogue import devices, find_device, target
from feinsum_fuse.device.runtime.pocl_processor import POCL_PLATFORM
from feinsum_fuse.device.timing.outcome import KernelError, Outcome
from feinsum_fuse.patterns.registry import transforms
from feinsum_fuse.patterns.transform import Transform
from tests.cascades.test_one_pass import UNNAMED

MOST_LINES = 40
RUNTIMES = (POCL_PLATFORM, "Intel(R) OpenCL")
WORKLOADS: Mapping[str, tuple[list[str], dict[str, int]]] = {
    "product": (["Z[m,n] = A[m,k] * B[k,n]"], {"M": 37, "N": 41, "K": 53}),
    "one row": (["Z[m,n] = A[m,k] * B[n,k]"], {"M": 1, "N": 19, "K": 131}),
    "small products": (["Z[b,m,n] = A[b,m,k] * B[b,k,n]"], {"B": 23, "M": 5, "N": 7, "K": 3}),
    "tall": (["Z[m,n] = A[k,m] * B[k,n]"], {"M": 3, "N": 17, "K": 211}),
    "permuted": (["Z[a,b,c] = A[b,d,a] * B[d,c]"], {"A": 11, "B": 5, "C": 19, "D": 7}),
    "permuted axes": (["Z[a,b,c,d,e] = A[e,c,b,f,a] * B[f,d]"], {"A": 17, "B": 5, "C": 3, "D": 7, "E": 19, "F": 11}),
    "matrix times vector": (["y[m] = A[m,k] * x[k]"], {"M": 37, "K": 53}),
    "columns": (["y[m] = A[k,m] * x[k]"], {"M": 37, "K": 53}),
    "row sums": (["s[m] = A[m,k]"], {"M": 7, "K": 131}),
    "mttkrp": (["Z[i,r] = T[i,j,k] * B[j,r] * C[k,r]"], {"I": 13, "J": 11, "K": 7, "R": 9}),
    "ttm chain": (["Z[a,b,c] = T[i,j,k] * A[a,i] * B[b,j] * C[c,k]"], {"A": 5, "B": 3, "C": 17, "I": 7, "J": 4, "K": 5}),
    "gradient": (["O[x,e,i] = J[x,r,e] * R[r,i,j] * U[e,j]"], {"X": 3, "E": 97, "I": 10, "J": 10, "R": 3}),
    "divergence": (["O[e,i] = J[x,r,e] * R[r,i,j] * U[x,e,j]"], {"X": 3, "E": 67, "I": 4, "J": 4, "R": 3}),
    "curl": (["O[x,e,i] = N[x,y,z] * J[y,r,e] * R[r,i,j] * U[z,e,j]"], {"X": 3, "Y": 3, "Z": 3, "R": 3, "E": 293, "I": 10, "J": 10}),
    "mass": (["O[e,i] = J[e] * R[i,j] * U[e,j]"], {"E": 101, "I": 20, "J": 20}),
    "face mass": (["O[e,i] = R[i,f,j] * J[f,e] * U[f,e,j]"], {"E": 83, "I": 10, "F": 4, "J": 6}),
    "masses of one geometry": (["O[e,i] = J[e] * R[i,j] * U[e,j]", "P[e,i] = J[e] * R[i,j] * V[e,j]"], {"E": 101, "I": 10, "J": 10}),
    "convolution with a stride": (["O[k,y,x] = W[k,c,r,s] * I[c,H:2*y+r,W:2*x+s]"], {"K": 5, "C": 3, "R": 3, "S": 3, "Y": 11, "X": 13}),
    "smoothed twice": (["T[x] = I[N:x+r] * w[r]", "O[y] = T[X:y+s] * v[s]"], {"X": 41, "Y": 37, "R": 3, "S": 5}),
    "convolution": (["O[k,y,x] = W[k,c,r,s] * I[c,H:y+r,W:x+s]"], {"K": 5, "C": 3, "R": 3, "S": 3, "Y": 11, "X": 13}),
    "two convolutions": (
        ["T[k,p,q] = W[k,c,r,s] * I[c,H:p+r,W:q+s]", "O[l,y,x] = V[l,k,u,v] * T[k,P:y+u,Q:x+v]"],
        {"K": 5, "C": 3, "L": 4, "R": 3, "S": 3, "U": 3, "V": 3, "P": 13, "Q": 17, "Y": 11, "X": 15},
    ),
    "softmax": (["P[m,p] = softmax(S[m,p], p)"], {"M": 5, "P": 37}),
    "norm": (["V[m] = X[m,k] * X[m,k]", "Y[m,k] = X[m,k] / sqrt(V[m] + 1e-5)"], {"M": 7, "K": 29}),
    "attention": (
        ["S[h,m,p] = Q[h,m,e] * K[h,p,e]", "A[h,m,p] = softmax(S[h,m,p], p)", "O[h,m,f] = A[h,m,p] * V[h,p,f]"],
        {"H": 2, "M": 5, "P": 37, "E": 7, "F": 9},
    ),
    "grouped attention": (
        ["S[g,h,m,p] = Q[g,h,m,e] * K[g,p,e]", "A[g,h,m,p] = softmax(S[g,h,m,p], p)", "O[g,h,m,f] = A[g,h,m,p] * V[g,p,f]"],
        {"G": 2, "H": 3, "M": 1, "P": 37, "E": 7, "F": 9},
    ),
    "log-sum-exp": (["M[m] = max(X[m,p])", "L[m] = exp(X[m,p] - M[m])", "Y[m] = log(L[m]) + M[m]"], {"M": 5, "P": 37}),
    "norm of rows": (
        ["A[m] = X[m,k]", "B[m] = (X[m,k] - A[m] / 29) * (X[m,k] - A[m] / 29)", "Y[m,k] = (X[m,k] - A[m] / 29) / sqrt(B[m] / 29 + 1e-5)"],
        {"M": 7, "K": 29},
    ),
    "variance": (["A[m] = X[m,p]", "U[m] = A[m] / 37", "B[m] = (X[m,p] - U[m]) * (X[m,p] - U[m])"], {"M": 5, "P": 37}),
    "spread by weights": (["A[m] = W[m,p] * X[m,p]", "B[m] = W[m,p] * (X[m,p] - A[m]) * (X[m,p] - A[m])"], {"M": 5, "P": 37}),
    "perceptron": (["H[m,n] = X[m,k] * V[k,n]", "G[m,n] = relu(H[m,n])", "Y[m,l] = G[m,n] * W[n,l]"], {"M": 19, "N": 23, "K": 17, "L": 13}),
    "gated perceptron": (
        ["H[m,n] = X[m,k] * V[k,n]", "U[m,n] = X[m,k] * B[k,n]", "G[m,n] = silu(H[m,n]) * U[m,n]", "Y[m,l] = G[m,n] * W[n,l]"],
        {"M": 19, "N": 23, "K": 17, "L": 13},
    ),
    "elementwise": (["B[m,n] = exp(A[m,n])", "C[m,n] = 2 * B[m,n] + 1"], {"M": 19, "N": 23}),
    "one map": (["Y[m,n] = gelu(X[m,n]) + R[n,m]"], {"M": 37, "N": 53}),
    "a row of maps": (["Y[i] = exp(X[i])"], {"I": 1031}),
    "product of bytes": (["Z[m,n] = A[m,k] * B[k,n]"], {"M": 13, "N": 21, "K": 11}),
}
TYPES = {"product of bytes": {"A": "int8", "B": "uint8", "Z": "int32"}}
"""Of a workload that has types of its own."""
QUICK = {
    ("permuted", "products.transposed_operands"): "float64",
    ("permuted axes", "contractions.permuted"): "float32",
    ("tall", "products.split_reduction"): "float32",
    ("product", "products.kept_panels"): "float64",
    ("small products", "products.batched_small"): "float64",
    ("matrix times vector", "vectors.by_rows"): "float32",
    ("gradient", "elements.lanes_of_elements"): "float64",
    ("curl", "elements.factors_first"): "float32",
    ("divergence", "elements.fields_in_registers"): "float32",
    ("convolution", "convolutions.as_product"): "float32",
    ("perceptron", "networks.fused_perceptron"): "float32",
    ("grouped attention", "networks.split_keys"): "float32",
    ("one map", "networks.element_by_element"): "float32",
    ("variance", "networks.one_pass"): "float64",
    ("spread by weights", "networks.one_pass"): "float32",
}
"""What every run verifies; the sweep verifies all."""
ENTRIES = list(transforms().values())


def cascade_of(name: str, dtype: str = "float32") -> Cascade:
    lines, sizes = WORKLOADS[name]
    return ff.cascade(lines, sizes=sizes, dtypes=TYPES.get(name, {"All": dtype}))


def verify(transform: Transform, cascade: Cascade, runtime: str = POCL_PLATFORM, **parameters: int | str) -> None:
    """Build what a transform makes, run it, and compare with the reference."""
    device = find_device(runtime)
    program = ff.compile(transform.apply(cascade, target(device), **parameters), device)
    generator = np.random.default_rng(1)
    inputs = {}
    for name in cascade.inputs:
        values, dtype = generator.standard_normal(cascade.fixed_shape(name)), np.dtype(cascade.tensors[name].dtype)
        inputs[name] = (50 * values).astype(np.int64).astype(dtype) if dtype.kind in "iu" else values.astype(dtype)
    expected, found = cascade.reference(**inputs), program(**inputs)
    for tensor in cascade.outputs:
        scale = float(np.abs(expected[tensor]).max()) or 1.0
        np.testing.assert_allclose(np.asarray(found[tensor]) / scale, expected[tensor] / scale, atol=cascade.tolerance()[tensor])


def helpers(transform: Transform) -> list[FunctionType]:
    """The functions of a transform's module that it names, and no other transform of the catalogue does."""
    module = inspect.getmodule(transform.function)
    own = {name: one for name, one in inspect.getmembers(module, inspect.isfunction) if inspect.getmodule(one) is module}
    entries = {one.name: _named(one, own) for one in ENTRIES}
    return [one for name, one in own.items() if [entry for entry, names in entries.items() if name in names] == [transform.name]]


def _named(transform: Transform, functions: Mapping[str, FunctionType]) -> set[str]:
    """Which of some functions the text of a transform, decorator included, or of those that it names, names."""
    found: set[str] = set()
    texts = [inspect.getsource(transform.function)]
    while texts:
        words = {node.id for node in ast.walk(ast.parse(texts.pop())) if isinstance(node, ast.Name)}
        texts += [inspect.getsource(functions[name]) for name in functions.keys() & words - found]
        found |= functions.keys() & words
    return found


@pytest.mark.parametrize("transform", ENTRIES, ids=lambda t: t.name)
def test_it_is_short_and_says_what_it_is(transform: Transform) -> None:
    assert sum(len(inspect.getsourcelines(function)[0]) for function in (transform.function, *helpers(transform))) <= MOST_LINES
    assert "::" in transform.document and len(transform.idea) > 40 and transform.source


@pytest.mark.parametrize("transform", ENTRIES, ids=lambda t: t.name)
def test_it_is_for_something(transform: Transform) -> None:
    assert any(transform.applies_to(cascade_of(name)) for name in WORKLOADS)


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_class_has_a_transform(name: str) -> None:
    assert ff.transforms_for(cascade_of(name))


@pytest.mark.parametrize(("name", "transform"), QUICK)
def test_results_on_awkward_sizes(name: str, transform: str) -> None:
    verify(transforms()[transform], cascade_of(name, QUICK[name, transform]))


def swept(slow: bool, runtime: str) -> None:
    """Skip a sweep where it is not asked for, or the runtime is not there."""
    if not slow:
        pytest.skip("a sweep: FEINSUM_FUSE_SLOW=1")
    if all(device.platform.name != runtime for device in devices()):
        pytest.skip(f"{runtime} is not installed")


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", WORKLOADS)
def test_all_results_on_awkward_sizes(name: str, runtime: str, slow: bool) -> None:
    swept(slow, runtime)
    for dtype in ("float32", "float64"):
        cascade = cascade_of(name, dtype)
        for transform in ff.transforms_for(cascade):
            verify(transform, cascade, runtime)


def _small(name: str, dtype: str = "float32") -> Cascade:
    """A contraction of the TCCG collection with lengths of two to five."""
    subscripts = {key: text for key, text, _ in contractions(1 << 20)}[name]
    sizes = {v: 2 + k % 4 for k, v in enumerate(sorted(set(subscripts) - set(",->")))}
    entry = einsum_entry(name, "tccg", subscripts, sizes)
    return ff.cascade(entry.lines(), sizes=dict(entry.sizes), dtypes={"All": dtype})


def test_every_contraction_of_tccg_has_transforms() -> None:
    names = [name for name, _, _ in contractions(1 << 20)]
    assert len(names) == 48
    for name in names:
        found = {one.name for one in ff.transforms_for(_small(name))}
        assert {"products.register_tiles", "products.transposed_operands"} <= found
        assert ("contractions.permuted" in found) is (name != "tccg-12")  # a product of matrices as they are


def test_contractions_are_scaled_to_a_size() -> None:
    for _, subscripts, sizes in contractions(30 << 20):
        total = 4 * sum(int(np.prod([sizes[v] for v in tensor])) for tensor in subscripts.replace("->", ",").split(","))
        assert (20 << 20) < total <= (30 << 20)


@pytest.mark.parametrize("name", ["tccg-3", "tccg-25"])
def test_contractions_of_tccg_are_right(name: str) -> None:
    verify(transforms()["products.transposed_operands"], _small(name))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("moved", ["nothing", "output", "columns", "operands"])
def test_whatever_is_moved_the_result_is_right(moved: str, dtype: str) -> None:
    cascade = cascade_of("permuted axes", dtype)
    verify(transforms()["contractions.permuted"], cascade, moved=moved, lanes="read", second="shortest", down=4, vectors=2)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_all_contractions_of_tccg_are_right(dtype: str, runtime: str, slow: bool) -> None:
    swept(slow, runtime)
    for name, _, _ in contractions(1 << 20):
        for one in ff.transforms_for(_small(name, dtype)):
            verify(one, _small(name, dtype), runtime)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", UNNAMED)
def test_cascades_that_no_rule_names_run_in_one_pass(name: str, runtime: str, slow: bool) -> None:
    swept(slow, runtime)
    for dtype in ("float32", "float64"):
        cascade = ff.cascade(UNNAMED[name], sizes={"M": 5, "P": 37}, dtypes={"All": dtype})
        verify(transforms()["networks.one_pass"], cascade, runtime)
        try:
            verify(transforms()["networks.split_keys"], cascade, runtime, parts=4)
        except KernelError as error:
            if runtime == POCL_PLATFORM or error.outcome is not Outcome.wrong_result:
                raise
            pytest.skip(f"verification refuses what this runtime's compiler makes of the parts: {error.message}")


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("order", range(1, 5))
def test_operators_of_all_orders_are_right(order: int, runtime: str, slow: bool) -> None:
    """On tetrahedra, as many as nothing divides."""
    swept(slow, runtime)
    nodes, face = (order + 1) * (order + 2) * (order + 3) // 6, (order + 1) * (order + 2) // 2
    sizes = {"E": 1013, "I": nodes, "J": nodes}
    for name in ("gradient", "divergence", "curl", "mass", "face mass"):
        lines, usual = WORKLOADS[name]
        lengths = {**usual, **sizes, **({"J": face} if name == "face mass" else {})}
        for dtype in ("float32", "float64"):
            cascade = ff.cascade(lines, sizes=lengths, dtypes={"All": dtype})
            transform = transforms()["elements.factors_first"]
            assert transform.applies_to(cascade)
            verify(transform, cascade, runtime)
