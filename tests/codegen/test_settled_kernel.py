"""What is found out once for all loops is what loopy finds out for each."""

from __future__ import annotations

import dataclasses
import pickle
from random import Random

import islpy as isl
import loopy as lp
import pymbolic.primitives as p
import pytest
from loopy.symbolic import simplify_using_aff

import feinsum_fuse as ff
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.codegen.settled_kernel import SettledKernel, bounded, settled
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


def test_loopy_defines_no_class_for_each_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = written(0)
    with lp.CacheMode(False):
        executable(unit)
        defined = []
        monkeypatch.setattr(dataclasses, "_process_class", lambda found, *_: defined.append(found.__qualname__))
        executable(unit)
    assert defined == []


def test_an_iname_of_one_value_is_that_value() -> None:
    unit = lp.make_kernel("{[i, j]: 2 <= i < 3 and 0 <= j < 4}", "a[i, j] = j", [lp.GlobalArg("a", "int32", shape=(4, 4))])
    assert settled(unit).default_entrypoint.shortest(p.Sum((p.Variable("i"), p.Variable("j")))) == p.Sum((2, p.Variable("j")))


@pytest.mark.parametrize("seed", [0, 5])
def test_domains_are_those_that_loopy_combines(seed: int) -> None:
    """Of each instruction and of random sets of its inames, with their dimensions in the same order; in any order of questions."""
    random = Random(seed)
    unit = written(seed)
    plain, kernel = unit.default_entrypoint, settled(unit).default_entrypoint
    around = [sorted(insn.within_inames) for insn in kernel.instructions]
    asked = [frozenset(random.sample(names, random.randint(1, len(names)))) for names in around for _ in range(3) if names]
    for names in [*asked, *map(frozenset, around), frozenset[str]()]:
        mine, theirs = kernel.get_inames_domain(names), plain.get_inames_domain(names)
        assert f"{mine}" == f"{theirs}"
    name = sorted(kernel.all_inames())[0]
    assert kernel.get_inames_domain(name).plain_is_equal(plain.get_inames_domain(name))


def test_a_domain_that_names_an_iname_around_it_has_that_among_its_own() -> None:
    """loopy moves it there where the domain around is not asked for."""
    unit = lp.make_kernel(["{[i]: 0 <= i < 4}", "[i, n] -> {[j]: 0 <= j <= i and j < n}"], "a[i, j] = j", lang_version=(2018, 2))
    plain, kernel = unit.default_entrypoint, settled(unit).default_entrypoint
    for domains in ((1,), (0, 1), (0,), ()):
        assert f"{kernel.combine_domains(domains)}" == f"{plain.combine_domains(domains)}"


def test_copies_know_their_own_domains() -> None:
    """They share what is known where the domains are the same, and only there."""
    unit = lp.make_kernel("{[i, j]: 0 <= i < 4 and 0 <= j < 4}", "a[i, j] = j", [lp.GlobalArg("a", "int32", shape=(4, 4))])
    kernel = settled(unit).default_entrypoint
    both = frozenset({"i", "j"})
    before = kernel.get_inames_domain(both)
    assert kernel.copy(name="other").get_inames_domain(both) is before
    narrow = kernel.copy(domains=[domain.add_constraint(_at_most(domain, 1)) for domain in kernel.domains])
    assert isinstance(narrow, SettledKernel)
    assert narrow.get_inames_domain(both).is_strict_subset(before)
    assert kernel.get_inames_domain(both) is before


def _at_most(domain: isl.BasicSet, most: int) -> isl.Constraint:
    """The first dimension of a set is at most this."""
    return isl.Constraint.ineq_from_names(domain.space, {domain.get_dim_name(isl.dim_type.set, 0): -1, 1: most})


def test_equal_kernels_have_equal_hashes_and_are_kept_on_disk() -> None:
    """Whatever loopy keeps of a settled kernel is one again; what it knows of domains is found out anew."""
    unit = lp.preprocess_program(settled(written(3)))
    kernel = unit.default_entrypoint
    kernel.get_inames_domain(kernel.instructions[0].within_inames)
    read = pickle.loads(pickle.dumps(kernel))
    assert isinstance(read, SettledKernel)
    assert hash(read) == hash(kernel) and hash(kernel.copy()) == hash(kernel)
    assert not read.facts.of_inames and kernel.facts.of_inames


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
