"""loopy kernels become executables: sources, arguments, launches; run in a child and compared."""

from __future__ import annotations

import loopy as lp
import numpy as np
import pyopencl.cltypes as cltypes
import pytest
from constantdict import constantdict
from loopy.kernel.function_interface import ScalarCallable
from loopy.types import NumpyType
from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

import feinsum_fuse as ff
from feinsum_fuse.codegen.executable import Argument, Executable, Launch
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.runtime.isolation import run_isolated
from feinsum_fuse.errors import LoweringError
from feinsum_fuse.formats.language.functions import FUNCTIONS
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.loop_steps import Reorder, Split
from feinsum_fuse.schedule.steps.vector_steps import Vectorize
from tests.schedule.scripts import ref, refs


def matmul(m: int, n: int, k: int) -> lp.TranslationUnit:
    """C = A B with a row-major A and a column-major C."""
    return lp.make_kernel(
        f"{{[i,j,k]: 0<=i<{m} and 0<=j<{n} and 0<=k<{k}}}",
        "C[i,j] = sum(k, A[i,k]*B[k,j])",
        [
            lp.GlobalArg("A", np.float32, shape=(m, k)),
            lp.GlobalArg("B", np.float32, shape=(k, n)),
            lp.GlobalArg("C", np.float32, shape=(m, n), is_input=False, order="F"),
        ],
    )


def vectors(n: int) -> list[lp.GlobalArg]:
    """An input A and an output C of n elements."""
    return [lp.GlobalArg("A", np.float32, shape=(n,)), lp.GlobalArg("C", np.float32, shape=(n,), is_input=False)]


def check(program: Executable, inputs: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """Run in a child and compare."""
    result = run_isolated(program, inputs, find_device(), expected=expected, tolerance=1e-5)
    assert result.outcome == "ok", result


def test_guarded_split_with_groups_and_items() -> None:
    kernel = lp.split_iname(matmul(13, 7, 5), "i", 4, outer_tag="g.0", inner_tag="l.0")
    program = executable(kernel)
    assert program.launches == (Launch("loopy_kernel", (16,), (4,), ("A", "B", "C"), ("C",)),)
    assert program.argument("C") == Argument("C", "float32", (13, 7), "output", strides=(1, 13))
    a, b = np.random.default_rng(1).random((13, 5)), np.random.default_rng(2).random((5, 7))
    check(program, {"A": a, "B": b}, {"C": a @ b})


def test_global_barrier_gives_two_launches_and_a_temporary() -> None:
    kernel = lp.make_kernel(
        "{[i,j]: 0<=i,j<64}",
        "<> T[i] = 2*A[i] {id=a,dep=}\n... gbarrier {dep=a,id=bar}\nC[j] = T[63-j] {dep=bar}",
        [lp.GlobalArg("A", np.float64, shape=(64,)), lp.GlobalArg("C", np.float64, shape=(64,), is_input=False)],
        seq_dependencies=False,
    )
    kernel = lp.tag_inames(lp.set_temporary_address_space(kernel, "T", "global"), {"i": "g.0", "j": "g.0"})
    program = executable(kernel)
    assert [(x.kernel, x.arguments) for x in program.launches] == [("loopy_kernel", ("A", "T")), ("loopy_kernel_0", ("C", "T"))]
    assert [a.role for a in program.arguments] == ["input", "output", "temporary"]
    a = np.arange(64.0)
    check(program, {"A": a}, {"C": 2 * a[::-1]})
    check(executable(kernel, outputs=["C", "T"]), {"A": a}, {"C": 2 * a[::-1], "T": 2 * a})


class Intrinsic(ScalarCallable):
    """A function of a known type that expands to a macro."""

    table = constantdict(
        {
            "vload_at": (cltypes.float4, "vload_at", "#define vload_at(x) vload4(0, &(x))"),
            "lane_at": (np.float32, "lane_at", "#define lane_at(v, l) (((__private float const *)&(v))[l])"),
        }
    )

    def with_types(self, arg_id_to_dtype, clbl_inf_ctx):
        known = {k: v for k, v in arg_id_to_dtype.items() if k >= 0}
        if any(v is None for v in known.values()):
            return self.copy(arg_id_to_dtype=constantdict(known)), clbl_inf_ctx
        result = NumpyType(np.dtype(self.table[self.name][0]))
        return self.copy(name_in_target=self.table[self.name][1], arg_id_to_dtype=constantdict({**known, -1: result})), clbl_inf_ctx

    def generate_preambles(self, target):
        yield ("10_" + self.name, self.table[self.name][2])


def vector_kernel(space: str) -> lp.TranslationUnit:
    """exp(A) in vectors of four, through a tile of vector elements in this address space."""
    kernel = lp.make_kernel(
        "{[i,j,l]: 0<=i,j<8 and 0<=l<4}" if space == "global" else "{[i,l]: 0<=i<8 and 0<=l<4}",
        "T[i] = exp(vload_at(A[4*i])) {id=a,dep=}\n"
        + ("... gbarrier {id=bar,dep=a}\n" if space == "global" else "")
        + f"out = T[{'j' if space == 'global' else 'i'}] {{id=out,dep={'bar' if space == 'global' else 'a'}}}\n"
        + f"C[4*{'j' if space == 'global' else 'i'}+l] = lane_at(out, l) {{dep=out}}",
        [
            lp.GlobalArg("A", np.float32, shape=(32,)),
            lp.GlobalArg("C", np.float32, shape=(32,), is_input=False),
            lp.TemporaryVariable("T", cltypes.float4, shape=(8,), address_space=getattr(lp.AddressSpace, space.upper())),
            lp.TemporaryVariable("out", cltypes.float4, shape=(), address_space=lp.AddressSpace.PRIVATE),
        ],
        seq_dependencies=False,
    )
    for name in Intrinsic.table:
        kernel = lp.register_callable(kernel, name, Intrinsic(name))
    return lp.tag_inames(kernel, {"j": "g.0"} if space == "global" else {})


@pytest.mark.parametrize("space", ["private", "global"])
def test_vector_elements_and_preambles(space: str) -> None:
    program = executable(vector_kernel(space))
    assert "#define vload_at" in program.source and "float4" in program.source
    if space == "global":
        assert program.argument("T") == Argument("T", "float32", (8, 4), "temporary")
        assert program.vectors == (("T", 4),) and program.alignment("T") == 16 and program.alignment("A") == 4
    a = np.linspace(-1, 1, 32)
    check(program, {"A": a}, {"C": np.exp(a)})


def test_scalar_argument() -> None:
    kernel = lp.make_kernel(
        "{[i]: 0<=i<8}",
        "C[i] = s*A[i]",
        [lp.ValueArg("s", np.float32), *vectors(8)],
    )
    program = executable(kernel)
    assert program.argument("s") == Argument("s", "float32", (), "input", by_value=True)
    a = np.arange(8.0)
    check(program, {"A": a, "s": np.array(3.0)}, {"C": 3 * a})


def test_json_round_trip() -> None:
    program = executable(vector_kernel("global"))
    assert Executable.from_json(program.to_json()) == program
    assert Executable.from_json(program.to_json()).source_hash == program.source_hash


def test_symbolic_size_is_refused() -> None:
    kernel = lp.make_kernel("{[i]: 0<=i<n}", "C[i] = 2*A[i]", [lp.GlobalArg("A,C", np.float32, shape="n"), lp.ValueArg("n", np.int32)])
    with pytest.raises(LoweringError, match=r"depends on .*n"):
        executable(kernel)


def test_unknown_output_is_refused() -> None:
    with pytest.raises(LoweringError, match=r"^cannot return Q: no such array"):
        executable(matmul(4, 4, 4), outputs=["Q"])


def test_write_race_is_an_error_unless_one_item_writes() -> None:
    def kernel(items: int) -> lp.TranslationUnit:
        body = lp.make_kernel(
            f"{{[i,l]: 0<=i<8 and 0<=l<{items}}}",
            "C[i] = A[i] {inames=i:l}",
            vectors(8),
        )
        return lp.tag_inames(body, {"l": "l.0", "i": "g.0"})

    with pytest.raises(LoweringError, match="parallel loop l write the same element of C"):
        executable(kernel(4))
    assert executable(kernel(1)).launches[0].local_size == (1,)


@pytest.mark.parametrize("name", sorted({name for name, function in FUNCTIONS.items() if function.arity == 1} - {"low4", "high4", "conj"}))
def test_a_function_of_vectors_beside_a_vector_and_a_scalar(name: str) -> None:
    """loopy multiplies these three only where both vectors' types are one object, which they are not in all that it makes by itself."""
    cascade = ff.cascade([f"Y[m, n] = X[m, n] * {name}(X[m, n]) * G[n]"], sizes={"M": 8, "N": 3}, dtypes={"All": "float32"})
    order = refs("Y.n Y.m/0 Y.m/1")
    schedule = Schedule((Explicate(), Split(ref("Y.m"), 4), Reorder("Y", order), Vectorize(refs("Y.m/1"))))
    assert "float4 Y_vector" in executable(schedule.apply(cascade.kernel())).source
