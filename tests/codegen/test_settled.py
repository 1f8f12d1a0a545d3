"""What is found out once for all loops is what loopy finds out for each."""

from __future__ import annotations

from random import Random

import loopy as lp
import pymbolic.primitives as p
import pytest
from loopy.symbolic import simplify_using_aff

import feinsum_fuse as ff
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.codegen.settled import SettledKernel, bounded, settled
from tests.generators.trees import random_tree

BOUNDS = "enforce_array_accesses_within_bounds"


def written(seed: int) -> lp.TranslationUnit:
    """The kernel of a random tree."""
    spec = random_tree(seed).spec
    return ff.lower(spec).apply(ff.cascade(spec).kernel())


@pytest.mark.parametrize("seed", [0, 3, 5, 6])
def test_indices_are_as_short_as_loopy_makes_them(seed: int) -> None:
    """Random sums of multiples of the inames around each instruction."""
    random = Random(seed)
    unit = written(seed)
    plain, kernel = unit.default_entrypoint, settled(unit).default_entrypoint
    assert isinstance(kernel, SettledKernel)
    for insn in kernel.instructions:
        names = sorted(insn.within_inames)
        for _ in range(3):
            chosen = random.sample(names, random.randint(0, len(names)))
            index = p.Sum((random.randint(-2, 2), *(p.Product((random.choice([-1, 1, 2, 8]), p.Variable(n))) for n in chosen)))
            assert kernel.shortest(index) == simplify_using_aff(plain, index)


def test_an_iname_of_one_value_is_that_value() -> None:
    unit = lp.make_kernel("{[i, j]: 2 <= i < 3 and 0 <= j < 4}", "a[i, j] = j", [lp.GlobalArg("a", "int32", shape=(4, 4))])
    assert settled(unit).default_entrypoint.shortest(p.Sum((p.Variable("i"), p.Variable("j")))) == p.Sum((2, p.Variable("j")))


@pytest.mark.parametrize(
    ("domain", "index", "checked"),
    [
        ("{[i, j]: 0 <= i < 8 and 0 <= j < 4}", "4*i + j", False),
        ("{[i, j]: 0 <= i < 9 and 0 <= j < 4 and 4*i + j < 32}", "4*i + j", False),
        ("{[i, j]: 0 <= i < 9 and 0 <= j < 4}", "4*i + j", True),
        ("{[i, j]: 0 <= i < 8 and 0 <= j < 4}", "4*i - j", True),
        ("{[i, j]: 0 <= i < 8 and 0 <= j < 4}", "(4*i + j) // 2", True),
    ],
    ids=["box", "limit", "beyond", "before", "quotient"],
)
def test_the_check_of_bounds_is_left_out_where_they_are_known_to_be_kept(domain: str, index: str, checked: bool) -> None:
    unit = lp.make_kernel(domain, f"a[{index}] = 1.0", [lp.GlobalArg("a", "float32", shape=(32,))], lang_version=(2018, 2))
    prepared = bounded(lp.preprocess_program(unit)).default_entrypoint
    assert (getattr(prepared.options, BOUNDS) != "no_check") == checked


def test_what_lies_outside_an_array_is_refused() -> None:
    unit = lp.make_kernel("{[i]: 0 <= i < 33}", "a[i] = 1.0", [lp.GlobalArg("a", "float32", shape=(32,))], lang_version=(2018, 2))
    with pytest.raises(ff.LoweringError, match="out-of-bounds"):
        executable(unit)
