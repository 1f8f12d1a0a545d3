"""Kernels as compilers and their users write them, with sizes at which they are run; none of them is in feinsum's grammar.

Each is a domain, instructions, and arrays with their shapes. They follow what stands in the tests and examples of loopy (linear algebra,
discontinuous Galerkin), pytato (what it generates for array programs), grudge and meshmode (operators on elements) and feinsum
(contractions of quantum chemistry); lengths are ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import loopy as lp
import numpy as np


@dataclass(frozen=True)
class Case:
    """A kernel of somebody else's."""

    name: str
    domain: str
    text: str
    arrays: str
    """``name: length, ...`` for each, separated by semicolons; a length may be the name of a symbolic one."""
    dtype: str = "float64"

    def resized(self, lengths: Mapping[int, int]) -> Case:
        """The kernel with other lengths, by those that it has; what is missing stays."""

        def other(text: str) -> str:
            return re.sub(r"\b\d+\b", lambda number: str(lengths.get(int(number[0]), number[0])), text)

        return replace(self, domain=other(self.domain), arrays=other(self.arrays))

    def kernel(self) -> lp.TranslationUnit:
        """The kernel as it is written, on one work-item."""
        arguments: list[Any] = []
        symbols: dict[str, None] = {}
        for array in self.arrays.split(";"):
            names, _, shape = array.partition(":")
            words = [word.strip() for word in shape.split(",")]
            symbols |= dict.fromkeys(word for word in words if not word.isdigit())
            lengths = tuple(int(word) if word.isdigit() else word for word in words)
            arguments += [lp.GlobalArg(name.strip(), np.dtype(self.dtype), shape=lengths) for name in names.split(",")]
        arguments += [lp.ValueArg(symbol, np.int32) for symbol in symbols]
        positive = " and ".join(f"{symbol} >= 1" for symbol in symbols) or None
        return lp.make_kernel(self.domain, self.text, [*arguments, ...], lang_version=(2018, 2), name=self.name, assumptions=positive)


def _longest(entry: lp.LoopKernel, insn: lp.InstructionBase, without: frozenset[str] = frozenset()) -> list[str]:
    """The loops over an instruction's results from the longest; none if it runs inside loops that are bound already."""
    loops = sorted(insn.within_inames - without, key=lambda iname: (-int(entry.get_constant_iname_length(iname)), iname))
    return loops if len(loops) == len(insn.within_inames) else []


def _one_after_another(kernel: lp.TranslationUnit, entry: lp.LoopKernel) -> lp.TranslationUnit:
    """Kernels of their own for instructions that share no loop."""
    for first, second in pairwise(entry.instructions):
        if not first.within_inames & second.within_inames:
            kernel = lp.add_barrier(kernel, f"id:{first.id}", f"id:{second.id}")
    return kernel


def parallelised(kernel: lp.TranslationUnit) -> lp.TranslationUnit:
    """What a compiler does to any kernel: the longest loop over each result on groups of 64 work-items, the next one on groups.

    As arraycontext's ``PyOpenCLArrayContext`` does with loops over elements and degrees of freedom.
    """
    entry = kernel.default_entrypoint
    bound: frozenset[str] = frozenset()
    for insn in entry.instructions:
        loops = _longest(entry, insn, bound)
        bound |= insn.within_inames
        if len(loops) > 1:
            kernel = lp.tag_inames(kernel, {loops[1]: "g.1"})
        if loops:
            kernel = lp.split_iname(kernel, loops[0], 64, outer_tag="g.0", inner_tag="l.0")
    return _one_after_another(kernel, entry)


def on_lone_items(kernel: lp.TranslationUnit) -> lp.TranslationUnit:
    """A group of one work-item for each iteration of the longest loop over each result, which has all other loops."""
    entry = kernel.default_entrypoint
    bound: frozenset[str] = frozenset()
    for insn in entry.instructions:
        loops = _longest(entry, insn, bound)
        bound |= insn.within_inames
        if loops:
            kernel = lp.tag_inames(kernel, {loops[0]: "g.0"})
    return _one_after_another(kernel, entry)


def on_squares(kernel: lp.TranslationUnit) -> lp.TranslationUnit | None:
    """Groups of 16 by 16 work-items over the last two loops over each result, as loopy's tutorial has them; ``None`` where one has a
    single loop."""
    entry = kernel.default_entrypoint
    bound: frozenset[str] = frozenset()
    for insn in entry.instructions:
        loops = _longest(entry, insn, bound)
        if not loops:
            continue
        bound |= insn.within_inames
        assignee = insn.assignees[0].index_tuple
        last = [str(index) for index in assignee if str(index) in insn.within_inames][-2:]
        if len(last) < 2:
            return None
        for axis, loop in enumerate(reversed(last)):
            kernel = lp.split_iname(kernel, loop, 16, outer_tag=f"g.{axis}", inner_tag=f"l.{axis}")
    return _one_after_another(kernel, entry)


def unrolled(kernel: lp.TranslationUnit) -> lp.TranslationUnit | None:
    """On groups of 64 work-items, and four steps of the longest loop of each sum written out; ``None`` where nothing is summed."""
    entry = kernel.default_entrypoint
    found = parallelised(kernel)
    summed = [insn.reduction_inames() for insn in entry.instructions if insn.reduction_inames()]
    for loops in summed:
        longest = max(loops, key=lambda iname: (int(entry.get_constant_iname_length(iname)), iname))
        found = lp.split_iname(found, longest, 4, inner_tag="unr")
        found = lp.prioritize_loops(found, f"{longest}_outer,{longest}_inner")
    return found if summed else None


SCHEDULES: dict[str, Callable[[lp.TranslationUnit], lp.TranslationUnit | None]] = {
    "as written": lambda kernel: kernel,
    "on groups": parallelised,
    "lone items": on_lone_items,
    "squares": on_squares,
    "unrolled": unrolled,
}
"""What people do to these kernels; ``None`` where one cannot be done to a kernel."""


def _product(name: str, m: int, n: int, k: int, text: str, arrays: str, dtype: str = "float64") -> Case:
    return Case(name, f"{{[i,j,k] : 0 <= i < {m} and 0 <= j < {n} and 0 <= k < {k}}}", text, arrays, dtype)


LINEAR_ALGEBRA = (
    Case("axpy", "{[i] : 0 <= i < 4000000}", "z[i] = 5*x[i] + 7*y[i]", "x,y,z: 4000000", "float32"),
    Case("outer_product", "{[i,j] : 0 <= i < 1500 and 0 <= j < 1500}", "C[i,j] = x[i]*y[j]", "x,y: 1500; C: 1500,1500", "float32"),
    Case("transpose", "{[i,j] : 0 <= i < 1500 and 0 <= j < 1400}", "B[i,j] = A[j,i]", "A: 1400,1500; B: 1500,1400"),
    Case("matrix_vector", "{[i,k] : 0 <= i < 2000 and 0 <= k < 1900}", "y[i] = sum(k, A[i,k]*x[k])", "A: 2000,1900; x: 1900; y: 2000"),
    Case("vector_matrix", "{[i,k] : 0 <= i < 1900 and 0 <= k < 2000}", "y[i] = sum(k, x[k]*A[k,i])", "A: 2000,1900; x: 2000; y: 1900"),
    _product("product", 512, 512, 512, "C[i,j] = sum(k, A[i,k]*B[k,j])", "A,B,C: 512,512", "float32"),
    _product("product_double", 500, 400, 300, "C[i,j] = sum(k, A[i,k]*B[k,j])", "A: 500,300; B: 300,400; C: 500,400"),
    _product("product_transposed", 384, 384, 384, "C[i,j] = sum(k, A[k,i]*B[j,k])", "A,B,C: 384,384", "float32"),
    _product("scaled_product", 400, 300, 500, "C[i,j] = 2.5*sum(k, A[i,k]*B[k,j]) + D[i,j]", "A: 400,500; B: 500,300; C,D: 400,300"),
    _product("gram", 300, 300, 700, "C[i,j] = sum(k, A[k,i]*A[k,j])", "A: 700,300; C: 300,300"),
    Case(
        "batched_product",
        "{[e,i,j,k] : 0 <= e < 20000 and 0 <= i,j,k < 8}",
        "C[e,i,j] = sum(k, A[e,i,k]*B[e,k,j])",
        "A,B,C: 20000,8,8",
        "float32",
    ),
)
ARRAY_PROGRAMS = (
    Case("row_sums", "{[i,j] : 0 <= i < 2000 and 0 <= j < 1900}", "out[i] = sum(j, a[i,j])", "a: 2000,1900; out: 2000"),
    Case("column_maxima", "{[i,j] : 0 <= i < 1900 and 0 <= j < 2000}", "out[i] = reduce(max, j, a[j,i])", "a: 2000,1900; out: 1900"),
    Case("norms", "{[i,j] : 0 <= i < 3000 and 0 <= j < 500}", "out[i] = sqrt(sum(j, a[i,j]**2))", "a: 3000,500; out: 3000"),
    Case(
        "gaussian",
        "{[i,j] : 0 <= i < 900 and 0 <= j < 1000}",
        "out[i,j] = exp(-a[i,j]*a[i,j])*b[j]",
        "a,out: 900,1000; b: 1000",
        "float32",
    ),
    Case(
        "softmax_numerator",
        "{[i,j,k] : 0 <= i < 1000 and 0 <= j,k < 500}",
        "top[i] = reduce(max, k, a[i,k]) {id=top}\nout[i,j] = exp(a[i,j] - top[i]) {dep=top}",
        "a,out: 1000,500; top: 1000",
        "float32",
    ),
    Case(
        "two_products",
        "{[i,j,k,l,m] : 0 <= i,l < 400 and 0 <= j,m < 200 and 0 <= k < 300}",
        "t[i,j] = sum(k, a[i,k]*b[k,j]) {id=t}\nout[l] = sum(m, t[l,m]*w[m]) {dep=t}",
        "a: 400,300; b: 300,200; t: 400,200; w: 200; out: 400",
    ),
    Case(
        "stencil",
        "{[i,j] : 1 <= i < 1499 and 1 <= j < 1499}",
        "out[i,j] = a[i-1,j] + a[i+1,j] + a[i,j-1] + a[i,j+1] - 4*a[i,j]",
        "a,out: 1500,1500",
    ),
    Case("lower_half", "{[i,j] : 0 <= i < 1200 and 0 <= j <= i}", "out[i,j] = a[i,j]*b[i]", "a,out: 1200,1200; b: 1200"),
    Case("lower_product", "{[i,k] : 0 <= i < 2000 and 0 <= k <= i}", "out[i] = sum(k, a[i,k]*b[k])", "a: 2000,2000; b,out: 2000"),
)
OPERATORS = (
    Case(
        "gradient",
        "{[d,e,i,r,j] : 0 <= d,r < 3 and 0 <= e < 8000 and 0 <= i,j < 20}",
        "out[d,e,i] = sum((r,j), geo[d,r,e]*D[r,i,j]*u[e,j])",
        "geo: 3,3,8000; D: 3,20,20; u: 8000,20; out: 3,8000,20",
    ),
    Case(
        "divergence",
        "{[e,i,d,r,j] : 0 <= d,r < 3 and 0 <= e < 8000 and 0 <= i,j < 20}",
        "out[e,i] = sum((d,r,j), geo[d,r,e]*D[r,i,j]*u[d,e,j])",
        "geo: 3,3,8000; D: 3,20,20; u: 3,8000,20; out: 8000,20",
    ),
    Case(
        "face_mass",
        "{[e,i,f,j] : 0 <= e < 10000 and 0 <= i < 20 and 0 <= f < 4 and 0 <= j < 10}",
        "out[e,i] = sum((f,j), J[f,e]*L[i,f,j]*u[f,e,j])",
        "J: 4,10000; L: 20,4,10; u: 4,10000,10; out: 10000,20",
    ),
    Case(
        "mass",
        "{[e,i,j] : 0 <= e < 20000 and 0 <= i,j < 20}",
        "out[e,i] = sum(j, J[e]*M[i,j]*u[e,j])",
        "J: 20000; M: 20,20; u,out: 20000,20",
    ),
    Case(
        "mass_low_order",
        "{[e,i,j] : 0 <= e < 100000 and 0 <= i,j < 4}",
        "out[e,i] = sum(j, J[e]*M[i,j]*u[e,j])",
        "J: 100000; M: 4,4; u,out: 100000,4",
    ),
    Case(
        "interpolation",
        "{[e,i,j] : 0 <= e < 20000 and 0 <= i < 35 and 0 <= j < 20}",
        "out[e,i] = sum(j, V[i,j]*u[e,j])",
        "V: 35,20; u: 20000,20; out: 20000,35",
        "float32",
    ),
    Case("element_sums", "{[e,j] : 0 <= e < 100000 and 0 <= j < 20}", "out[e] = sum(j, w[j]*u[e,j])", "w: 20; u: 100000,20; out: 100000"),
)
CONTRACTIONS = (
    Case(
        "three_modes",
        "{[a,b,c,d] : 0 <= a,b < 96 and 0 <= c < 96 and 0 <= d < 64}",
        "C[a,b,c] = sum(d, A[b,d,a]*B[d,c])",
        "A: 96,64,96; B: 64,96; C: 96,96,96",
        "float32",
    ),
    Case(
        "four_modes",
        "{[a,b,c,d,e,f] : 0 <= a,b,c,d < 24 and 0 <= e,f < 20}",
        "C[a,b,c,d] = sum((e,f), A[a,e,b,f]*B[d,f,c,e])",
        "A: 24,20,24,20; B: 24,20,24,20; C: 24,24,24,24",
        "float32",
    ),
    Case(
        "mttkrp",
        "{[i,r,j,k] : 0 <= i,j,k < 160 and 0 <= r < 32}",
        "out[i,r] = sum((j,k), X[i,j,k]*B[j,r]*C[k,r])",
        "X: 160,160,160; B,C,out: 160,32",
        "float32",
    ),
)
CASES = {case.name: case for case in (*LINEAR_ALGEBRA, *ARRAY_PROGRAMS, *OPERATORS, *CONTRACTIONS)}
