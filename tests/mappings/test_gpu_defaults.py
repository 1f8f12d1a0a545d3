"""Default mappings for GPUs, described by their figures alone: work-items as lanes, coalesced, within limits, with groups for all units.

No GPU is needed: kernels are looked at for the described one, and run on PoCL with the same mapping.
"""

from __future__ import annotations

import dataclasses
import math
import textwrap
from pathlib import Path

import pytest
from constantdict import constantdict

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.codegen.executable import Executable
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.formats.opencl import FanoutKind
from feinsum_fuse.lowering.lowering import lower
from feinsum_fuse.mappings.default_mapping import default_spec
from feinsum_fuse.mappings.family import Family
from feinsum_fuse.mappings.forms.suited import suited
from feinsum_fuse.schedule.kernel.coalescing import ItemAccess, item_accesses
from feinsum_fuse.schedule.target import ANY_GPU, DeviceLimits, Target
from tests.sweeps import SLOW

from .test_default_mapping import cases

WIDE = dataclasses.replace(ANY_GPU, limits=DeviceLimits(1024, (1024, 1024, 64), 48 << 10, 1024 << 10), units=128)
NARROW = dataclasses.replace(ANY_GPU, units=2, items_in_step=16, limits=DeviceLimits(128, (128, 128, 64), 16 << 10, 128 << 10))
WORKLOADS = ("attention", "dg_divergence", "matrix_vector", "product", "softmax", "three_products")
QUICK = {"row sums", "transpose", "batched", "attention"}


def workload(root: Path, name: str, target: Target, size: int) -> Cascade:
    return suited(ff.cascade(ff.load(root / "kit" / "workloads" / f"{name}.yaml", variables={"SIZE": size})), target)


def kernel(cascade: Cascade, target: Target) -> tuple[Executable, tuple[ItemAccess, ...]]:
    """The text for a device that is only described, and how its work-items reach memory."""
    unit = lower(default_spec(cascade, target=target), target=target).apply(cascade.kernel(), target=target)
    return executable(unit, target=target), item_accesses(unit, target)


@pytest.mark.parametrize("target", [WIDE, NARROW] if SLOW else [WIDE], ids=["wide", "narrow"] if SLOW else ["wide"])
@pytest.mark.parametrize("name", WORKLOADS)
def test_kernels_are_fit_for_gpus(root: Path, name: str, target: Target) -> None:
    """Work-items everywhere, neighbours that read and write neighbours or one element, and groups for every unit."""
    made, accesses = kernel(workload(root, name, target, 512), target)
    for launch in made.launches:
        items = math.prod(launch.local_size)
        assert target.items_in_step <= items <= target.limits.max_work_group_size
        groups = 1
        for whole, part in zip(launch.global_size, launch.local_size, strict=True):
            groups *= whole // part
        assert groups >= target.units, launch
    assert accesses and [access for access in accesses if not access.is_coalesced] == []
    assert {access.array for access in accesses} >= {array.name for array in made.arguments if array.role == "output"}


def product(m: int, n: int, k: int) -> Cascade:
    return ff.cascade(["Z[m,n] = A[m,k] * B[k,n]"], sizes={"M": m, "N": n, "K": k}, dtypes={"All": "float32"})


def test_work_items_of_a_product_go_along_two_axes() -> None:
    """Each has 16 rows of 4 neighbours in registers; what a group reads again lies in local memory, and the output is written once."""
    made, accesses = kernel(product(2048, 2048, 2048), WIDE)
    (launch,) = made.launches
    assert launch.local_size == (32, 4) and launch.global_size == (32 * 2048 // 64, 4 * 2048 // 128)
    assert "float4 Z_private[16];" in made.source and "A_local" in made.source and "B_local" in made.source
    assert [access.array for access in accesses if access.is_write] == ["Z"]
    assert not any(access.array == "Z" for access in accesses if not access.is_write)


def test_a_small_product_has_work_items_for_all_units() -> None:
    """Work-items have fewer rows each: as many as leave 256 of them for each unit, and the fewest where that is never so."""
    for sizes, rows in (((1024, 1024, 1024), 8), ((1024, 512, 512), 4), ((512, 512, 512), 4)):
        made, _ = kernel(product(*sizes), WIDE)
        (launch,) = made.launches
        assert launch.local_size == (32, 4) and f"float4 Z_private[{rows}];" in made.source
        assert launch.global_size == (32 * sizes[0] // (4 * rows), 4 * sizes[1] // 128)


IMAGES = {
    "3x3": ("O[n,m,p,q] = I[n,c,H: p+r,X: q+s] * W[m,c,r,s]", {"N": 2, "M": 19, "P": 13, "Q": 29, "C": 7, "R": 3, "S": 3}),
    "strides": ("O[n,m,p,q] = I[n,c,H: 2*p+r,X: 2*q+s] * W[m,c,r,s]", {"N": 1, "M": 20, "P": 14, "Q": 14, "C": 5, "R": 3, "S": 3}),
    "dilation": ("O[n,m,p,q] = I[n,c,H: p+2*r,X: q+2*s] * W[m,c,r,s]", {"N": 1, "M": 8, "P": 11, "Q": 17, "C": 3, "R": 3, "S": 3}),
    "1x1": ("O[n,m,p,q] = I[n,c,p,q] * W[m,c]", {"N": 2, "M": 40, "P": 14, "Q": 14, "C": 33}),
    "signals": ("O[n,m,q] = I[n,c,X: q+s] * W[m,c,s]", {"N": 2, "M": 64, "Q": 500, "C": 9, "S": 5}),
    "one channel": ("O[m,p,q] = I[H: p+r,X: q+s] * W[m,r,s]", {"M": 16, "P": 60, "Q": 52, "R": 5, "S": 5}),
    "volumes": (
        "O[m,o,p,q] = I[c,D: o+t,H: p+r,X: q+s] * W[m,c,t,r,s]",
        {"M": 16, "O": 6, "P": 14, "Q": 28, "C": 4, "T": 3, "R": 3, "S": 3},
    ),
    "channels last": ("O[p,q,m] = I[H: p+r,X: q+s,c] * W[r,s,c,m]", {"M": 64, "P": 14, "Q": 14, "C": 32, "R": 3, "S": 3}),
    "small": ("O[n,m,p,q] = I[n,c,H: p+r,X: q+s] * W[m,c,r,s]", {"N": 8, "M": 64, "P": 7, "Q": 7, "C": 32, "R": 3, "S": 3}),
    "groups": ("O[g,m,p,q] = I[g,c,H: p+r,X: q+s] * W[g,m,c,r,s]", {"G": 4, "M": 8, "P": 14, "Q": 14, "C": 8, "R": 3, "S": 3}),
    "contraction": ("Z[a,b,c,d] = A[a,e,c] * B[d,b,e]", {"A": 9, "B": 8, "C": 13, "D": 21, "E": 17}),
}
"""Products whose outputs have short rows."""


@pytest.mark.parametrize("name", IMAGES if SLOW else ["3x3", "1x1", "one channel", "channels last", "contraction"])
def test_short_rows_leave_the_second_axis_to_another_variable(name: str) -> None:
    """Each work-item has several of what only weights have, and the group what lies beside; at sizes that nothing divides."""
    equation, sizes = IMAGES[name]
    spec = default_spec(suited(ff.cascade([equation], sizes=sizes, dtypes={"All": "float32"}), NARROW), target=NARROW)
    assert "over Row.row" in str(spec.mapping)
    ff.compile(spec, "Portable")  # verifies


def test_a_block_reads_what_windows_share_once() -> None:
    """Of an image 10 by 58 numbers for 8 by 56 outputs and 9 weights each, of four channels at a time."""
    image = IMAGES["3x3"][0], {"N": 16, "M": 128, "P": 56, "Q": 56, "C": 64, "R": 3, "S": 3}
    made, _ = kernel(ff.cascade([image[0]], sizes=image[1], dtypes={"All": "float32"}), WIDE)
    (launch,) = made.launches
    assert launch.local_size == (14, 8, 1) and launch.global_size == (14 * 7, 8 * 8, 16)
    assert "__local float I_local[4 * 10 * 60]" in made.source and "float4 O_private[16];" in made.source


def test_the_second_axis_is_the_one_for_which_less_is_fetched() -> None:
    """Groups along ``b`` would read 8 matrices of B for each block, those along ``a`` read 8 rows of A."""
    made, _ = kernel(ff.cascade([IMAGES["contraction"][0]], sizes=dict.fromkeys("ABCDE", 48), dtypes={"All": "float32"}), WIDE)
    assert "// lid(1): a (Z)" in made.source


def test_work_items_fetch_rows_of_blocks_together() -> None:
    """By vectors, of which a row of 16 numbers has four: eight rows for work-items that run in step."""
    source = kernel(product(2048, 2048, 2048), WIDE)[0].source
    fetched = [line.strip() for line in source.splitlines() if "_local[" in line and "global" in line]
    assert [line.split("(")[0] for line in fetched] == ["vstorealigned_local_float4"] * 2
    assert "for (int m_A = 0; m_A < 2; ++m_A)" in source and "A_local[16 * (32 * m_A + 8 * lid(1) + lid(0) / 4)" in source
    odd = kernel(product(2048, 2048, 2045), WIDE)[0].source
    assert "A_local[16 * (8 * m_A + 2 * lid(1) + lid(0) / 16)" in odd


def test_rows_of_what_is_turned_lie_in_different_banks() -> None:
    """Work-items write neighbours of B into rows of 128 numbers, which are a vector longer."""
    turned = ff.cascade(["Z[m,n] = A[m,k] * B[n,k]"], sizes={"M": 2048, "N": 2048, "K": 2048}, dtypes={"All": "float32"})
    assert "B_local[16 * 132]" in kernel(turned, WIDE)[0].source
    assert "B_local[16 * 128]" in kernel(product(2048, 2048, 2048), WIDE)[0].source


@pytest.mark.parametrize("sizes", [(97, 131, 33), (256, 129, 16), (61, 512, 47)], ids=str)
def test_products_on_two_axes_compute_the_same(sizes: tuple[int, int, int]) -> None:
    """Rows, columns and blocks that nothing divides; two units have enough with few groups."""
    spec = default_spec(product(*sizes), target=NARROW)
    assert "over Row.row" in str(spec.mapping)
    program = ff.compile(spec, "Portable")  # verifies
    assert program.output_shapes == {"Z": sizes[:2]}


def test_two_axes_are_those_of_work_items() -> None:
    """Another fanout of an architecture, such as groups along a second axis, is none."""
    spec = default_spec(product(2048, 2048, 2048), target=WIDE)
    assert spec.opencl is not None
    kinds: tuple[tuple[FanoutKind, bool], ...] = (("local.1", True), ("group.1", False), ("unroll", False))
    for kind, two in kinds:
        opencl = dataclasses.replace(spec.opencl, fanouts=constantdict({**spec.opencl.fanouts, "Row": kind}))
        assert ("over Row.row" in str(Family(spec.replace(opencl=opencl, mapping=None), WIDE).mapping())) == two


def test_products_of_attention_are_kernels_of_their_own(root: Path) -> None:
    """Each device kernel has the work-items that it uses, and not those of the largest."""
    made, _ = kernel(workload(root, "attention", WIDE, 1024), WIDE)
    assert [launch.local_size for launch in made.launches] == [(32, 4, 1), (64, 1, 1), (16, 8, 1), (64, 1, 1)]


def test_columns_and_sums_of_columns_have_work_items_along_them() -> None:
    added = ff.cascade(["Z[m,n] = A[m,n] + B[m,n]"], sizes={"M": 512, "N": 1024}, dtypes={"All": "float32"})
    assert kernel(added, WIDE)[0].launches[0].local_size == (128, 1)
    summed = ff.cascade(["Z[n] = A[m,n]"], sizes={"M": 4096, "N": 1024}, dtypes={"All": "float32"})
    first, *_ = kernel(suited(summed, WIDE), WIDE)[0].launches
    groups = [whole // part for whole, part in zip(first.global_size, first.local_size, strict=True)]
    assert first.local_size[0] == 128 and groups[0] * groups[1] >= WIDE.units


@pytest.mark.parametrize(("rows", "columns", "parts"), [(4096, 4096, 64), (4096, 1024, 64), (1 << 20, 32, 512), (40000, 96, 200)])
def test_parts_of_sums_are_as_many_as_each_has_rows(rows: int, columns: int, parts: int) -> None:
    """A work-item adds up the rows of a part, and then the parts, one after another; there are no more than give all units enough to do."""
    summed = suited(ff.cascade(["Z[n] = A[m,n]"], sizes={"M": rows, "N": columns}, dtypes={"All": "float32"}), WIDE)
    assert summed.fixed_shape("Z_part") == (parts, columns)


def test_groups_of_few_numbers_have_few_work_items() -> None:
    """Of 4,096 numbers, each of which a work-item adds up, all units have some; at least as many as run in step stay together."""
    summed = ff.cascade(["Z[n] = A[m,n]"], sizes={"M": 4096, "N": 4096}, dtypes={"All": "float32"})
    first, second = kernel(suited(summed, WIDE), WIDE)[0].launches
    assert first.local_size == (128, 1) and second.local_size == (32, 1) and second.global_size == (4096, 1)
    assert kernel(suited(summed, NARROW), NARROW)[0].launches[-1].local_size[0] > NARROW.items_in_step


def test_a_processor_s_mappings_are_its_own(root: Path) -> None:
    cascade = ff.cascade(["Z[m,n] = A[m,k] * B[k,n]"], sizes={"M": 64, "N": 64, "K": 64})
    assert default_spec(cascade).opencl != default_spec(cascade, target=ANY_GPU).opencl
    assert "local.0" in set(default_spec(cascade, target=ANY_GPU).opencl.fanouts.values())  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "cascade"), [(n, c) for n, c in cases() if SLOW or n in QUICK], ids=[n for n, _ in cases() if SLOW or n in QUICK]
)
def test_mappings_for_gpus_compute_the_same(name: str, cascade: Cascade) -> None:
    """On PoCL, by the mapping for the described device; compiling verifies."""
    program = ff.compile(default_spec(suited(cascade, NARROW), target=NARROW), "Portable")
    assert set(program.output_shapes) == set(cascade.outputs), name


def test_the_page_s_example_runs(root: Path) -> None:
    text = (root / "doc" / "gpu.rst").read_text()
    block = text.split(".. code-block:: python\n\n")[1].split("\n\nBy default")[0]
    exec(textwrap.dedent(block), {})


def test_strides_between_work_items_are_seen() -> None:
    """A transposition by a mapping that does not care: work-items along the rows write a line each."""
    text = """
workload: {bits_per_value: {All: 32}, rank_sizes: {M: 64, N: 64}, einsums: ["Z[n,m] = A[m,n]"]}
mapping:
  nodes:
  - !Storage {component: MainMemory, tensors: [A, Z]}
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Temporal {rank_variable: n, tile_shape: 32}
  - !Spatial {rank_variable: n, tile_shape: 1, component: Lane, name: lane}
  - !Compute {einsum: Z, component: MAC}
"""
    arch = default_spec(ff.cascade(["Z[m] = A[m]"], sizes={"M": 64}), target=ANY_GPU)
    spec = ff.loads(text).replace(arch=arch.arch, opencl=arch.opencl)
    unit = lower(spec, target=ANY_GPU).apply(ff.cascade(spec).kernel(), target=ANY_GPU)
    read, write = sorted(item_accesses(unit, ANY_GPU), key=lambda access: access.is_write)
    assert (read.array, read.lines, read.least, read.is_coalesced) == ("A", 1, 1, True)
    assert (write.array, write.lines, write.least, write.is_coalesced) == ("Z", 32, 1, False)
