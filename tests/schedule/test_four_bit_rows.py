"""Rows in four bits by a call, beside NumPy: whole blocks, groups that fill none, layouts that it takes element by element."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyopencl as cl
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.lowering.starting_point import unscheduled
from feinsum_fuse.mappings.choices import Given
from feinsum_fuse.mappings.default_mapping import default_space, default_spec
from feinsum_fuse.mappings.family import Family
from feinsum_fuse.schedule.intrinsics.four_bit_rows import GROUPS, PAYS_FROM, four_bit_rows
from feinsum_fuse.schedule.intrinsics.function_matching import as_taken, usual_function
from feinsum_fuse.schedule.intrinsics.registration import intrinsic_called, intrinsics
from feinsum_fuse.schedule.refusals import IntrinsicError
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.block_steps import Blockize, Tensorize
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.loop_steps import Reorder, Split
from feinsum_fuse.schedule.steps.tile_steps import CacheWrite
from feinsum_fuse.schedule.target import ANY_DEVICE
from feinsum_fuse.schedule.tree.nest import For, walk

from .scripts import ref


def layer(rows: int, columns: int, group: int = 32) -> Cascade:
    return ff.cascade(["Z[m] = W[m,k] * x[k]"], sizes={"M": rows, "K": columns}, dtypes={"W": f"int4/{group}", "Other": "float32"})


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).normal(size=shape).astype(np.float32)


def check(cascade: Cascade, packed: np.ndarray, scales: np.ndarray, expected: np.ndarray, x: np.ndarray) -> str:
    program = ff.compile(cascade)
    found = program(dict(zip(cascade.inputs, (scales, packed, x), strict=True)))["Z"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    return program.source


@pytest.mark.parametrize(
    ("rows", "columns", "group"),
    [
        (128, 256, 32),
        (330, 96, 32),  # less than a block
        (350, 4096 + 5 * 32, 32),  # two parts of the vector, and a group that fills no block; cores have different rows
        (301, 3 * 64, 64),
        (341, 5 * 128, 128),
    ],
)
def test_rows(rows: int, columns: int, group: int) -> None:
    packed, scales = ff.quantize4(numbers(rows, columns), group)
    x = numbers(columns)
    source = check(layer(rows, columns, group), packed, scales, ff.dequantize4(packed, scales).astype("f8") @ x, x)
    assert f"four_bit_rows_{group}" in source


def test_every_code_has_its_number() -> None:
    """Both halves of each byte of a block are the only number that is not 0, with every code."""
    columns = 128
    codes = np.arange(16, dtype=np.uint8)
    rows = np.full((2 * 64 * 16, 64), 0x88, np.uint8)
    for byte in range(64):
        rows[16 * byte : 16 * byte + 16, byte] = 0x80 | codes
        rows[1024 + 16 * byte : 1024 + 16 * byte + 16, byte] = codes << 4 | 8
    packed, scales = rows.reshape(len(rows), 4, 16), numbers(len(rows), 4)
    x = numbers(columns)
    check(layer(len(rows), columns), packed, scales, ff.dequantize4(packed, scales).astype("f8") @ x, x)


def test_groups_may_lie_anyhow() -> None:
    """Of groups that do not follow one another in a row bytes are taken one by one."""
    text = "Z[m] = S[m,g] * (low4(P[g,m,h]) * x[K:32*g+h] + high4(P[g,m,h]) * x[K:32*g+h+16])"
    cascade = ff.cascade([text], sizes={"M": 256, "G": 5, "H": 16, "K": 160}, dtypes={"P": "uint8", "Other": "float32"})
    packed, scales = ff.quantize4(numbers(256, 160), 32)
    x = numbers(160)
    turned = np.ascontiguousarray(packed.swapaxes(0, 1))
    assert "four_bit_rows_32" in check(cascade, turned, scales, ff.dequantize4(packed, scales).astype("f8") @ x, x)


@pytest.mark.parametrize("pages", [0, 2])
def test_how_far_ahead_is_the_targets(pages: int) -> None:
    """The function's text is the same on every machine, as its digest says; the program's says how many bytes lie between."""
    target = dataclasses.replace(ANY_DEVICE, pages_ahead=pages, page_bytes=16384)
    spec = default_spec(layer(128, 256), target=target)
    source = executable(ff.lower(spec).apply(unscheduled(spec).kernel), target=target).source
    assert "four_bit_rows_32" in source and ("#define BYTES_AHEAD 32768\n" in source) == bool(pages)


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("unknown", ["__AVX512F__", "__clang__"])
def test_other_compilers(group: int, unknown: str) -> None:
    """The text without an instruction that looks numbers up, and without a compiler's own types."""
    rows, columns = 3, 2 * 128 + group
    made = four_bit_rows(group)
    half, groups = group // 2, columns // group
    source = f"""#undef {unknown}
    #define BYTES_AHEAD 8192
    {made.text}
    __kernel void run(__global float *Z, __global float const *S, __global uchar const *P, __global float const *x)
    {{
      {made.function}(Z, S, P, x, x + {half}, 1, {groups}, 1, {columns // 2}, {half}, 1, {group}, 1, {group}, 1, {rows}, {groups}, {half});
    }}"""
    program = ff.compile(layer(2, 32))
    context = cl.Context([program.device])
    packed, scales = ff.quantize4(numbers(rows, columns), group)
    x, Z = numbers(columns), np.zeros(rows, np.float32)
    queue, flags = cl.CommandQueue(context), cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    Z_buffer, *inputs = (cl.Buffer(context, flags, hostbuf=array) for array in (Z, scales, packed, x))
    cl.Program(context, source).build().run(queue, (1,), (1,), Z_buffer, *inputs)
    cl.enqueue_copy(queue, Z, Z_buffer)
    expected = ff.dequantize4(packed, scales).astype("f8") @ x
    np.testing.assert_allclose(Z, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_few_rows_and_other_groups_are_computed_without_a_call() -> None:
    assert {name for name in intrinsics() if name.startswith("four_bit")} == {f"four_bit_rows_{group}" for group in GROUPS}
    for cascade in (layer(PAYS_FROM - 1, 256), layer(64, 256, 16), ff.cascade(["Z[m] = W[m,k] * x[k]"], sizes={"M": 64, "K": 256})):
        assert usual_function(cascade, cascade.einsums[0]) is None
        assert "four_bit_rows" not in ff.compile(cascade).source


def test_it_is_for_a_vector() -> None:
    """Of several columns a call computes one: a block that runs over them is refused, and the reason says so."""
    cascade = ff.cascade(["Z[m,n] = W[m,k] * x[k,n]"], sizes={"M": 32, "N": 4, "K": 64}).in_four_bits("W")
    loops = [ref(f"Z.{name}") for name in ("m/0", "k_group", "k_byte", "n", "m/1")]
    steps = [Split(ref("Z.m"), 16), Reorder("Z", tuple(loops)), CacheWrite("Z", loops[0], "private"), Blockize(loops[1])]
    with pytest.raises(IntrinsicError, match=r"Z.n indexes Z_private.* and x.*, as no index of Z\[m\] =") as refused:
        Schedule((Explicate(), *steps, Tensorize(loops[1], "four_bit_rows_32"))).nest(cascade.kernel())
    assert refused.value.hint.startswith("A call is for one iteration of it, one column of x")


@pytest.mark.parametrize("columns", [4, 7, 16])
def test_several_columns_are_computed_without_a_call(columns: int) -> None:
    """Few of them by codes that are taken apart where they are used, from eight on by numbers that are written once."""
    cascade = ff.cascade(["Z[m,n] = W[m,k] * x[k,n]"], sizes={"M": 130, "N": columns, "K": 96}).in_four_bits("W")
    assert len(cascade.einsums) == (1 if columns < 8 else 2)
    program = ff.compile(cascade)
    packed, scales = ff.quantize4(numbers(130, 96), 32)
    x = numbers(96, columns)
    found = program(W_packed=packed, W_scales=scales, x=x)["Z"]
    expected = ff.dequantize4(packed, scales).astype("f8") @ x
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_a_search_may_leave_the_call_out() -> None:
    cascade = layer(128, 256)
    family = Family(default_space(cascade))
    (call,) = (choice for choice in family.choices() if choice.kind == "call")
    assert call.options == (True, False)
    for taken in call.options:
        spec = family.spec.replace(mapping=family.mapping(Given({"call": taken})))
        assert any(isinstance(step, Tensorize) for step in ff.lower(spec).steps) == taken


def test_the_model_counts_vectors() -> None:
    """Of a block that a function computes the model sees the vectors that the function takes, along the bytes of a group."""
    family = Family(default_space(layer(128, 256)))
    spec = family.spec.replace(mapping=family.mapping())
    nest = as_taken(ff.lower(spec).nest(unscheduled(spec).kernel))
    loops = [node for node in walk(nest.body) if isinstance(node, For)]
    assert not any(loop.is_block or loop.intrinsic for loop in loops)
    assert [(loop.extent, loop.binding) for loop in loops][-3:] == [(16, "loop"), (8, "loop"), (16, "vector")]


def test_records_say_which_function() -> None:
    made = intrinsic_called("four_bit_rows_64")
    assert intrinsic_called(made.key) is made and made.key.startswith("four_bit_rows_64@")
