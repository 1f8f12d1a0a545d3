"""Candidates follow from one another by single decisions, and one seed gives the same ones."""

from __future__ import annotations

import pickle
from random import Random

import pytest

import feinsum_fuse as ff
from feinsum_fuse.errors import Error
from feinsum_fuse.formats.checking.mapping_check import check_mapping
from feinsum_fuse.mappings.components import default_architecture
from feinsum_fuse.mappings.forms.variants import variants
from feinsum_fuse.model.floor import bounds
from feinsum_fuse.schedule.target import ANY_DEVICE, ANY_GPU
from feinsum_fuse.tuning.candidate import Candidate
from feinsum_fuse.tuning.preparation import Sent, predict_all, predict_sent
from feinsum_fuse.tuning.space import Space
from feinsum_fuse.tuning.task import floor_of

from .spaces import product, space


@pytest.fixture(scope="module")
def small() -> Space:
    return space()


def descendants(small: Space, seed: int) -> list[Candidate]:
    random = Random(seed)
    found = small.defaults()[:1]
    for k in range(20):
        try:
            made = (small.mutated, small.moved)[k % 2](random.choice(found), random)
            found += [made, small.crossed(made, found[0], random), small.drawn(random)]
        except Error:
            continue
    return found


def test_one_seed_gives_the_same_candidates(small: Space) -> None:
    assert descendants(small, 7) == descendants(small, 7) != descendants(small, 8)
    assert len(set(descendants(small, 7))) > 10


def test_the_first_default_is_the_default_mapping(small: Space) -> None:
    cascade = next(iter(small.families.values())).cascade
    first = small.defaults()[0]
    assert first.tree == str(ff.default_mapping(cascade, target=next(iter(small.families.values())).target))


def test_the_last_default_has_half_the_lanes_of_the_first(small: Space) -> None:
    """Searches begin with it, and ``ff.compile`` times it where the model finds it faster."""
    first, *_, last = small.defaults()
    assert (last.variant, last.decisions["width"]) == (first.variant, int(str(first.decisions["width"])) // 2)
    assert last.decisions["budget"] == first.decisions["budget"]


def test_where_lanes_are_work_items_no_default_has_half_of_them() -> None:
    found = Space(ff.cascade(product()), *default_architecture(None, ANY_GPU), ANY_GPU).defaults()
    assert found
    assert len({candidate.variant for candidate in found}) == len(found)


def test_the_decisions_of_a_candidate_make_it_again(small: Space) -> None:
    for candidate in descendants(small, 3):
        assert small.decided(candidate.variant, candidate.decisions) == candidate


def test_trees_fit_what_they_are_made_for(small: Space) -> None:
    """A search does not check them: each loads as a user's file would."""
    for candidate in descendants(small, 5):
        spec = candidate.spec
        assert spec.mapping is not None
        check_mapping(spec.mapping, spec.workload, spec.arch)


def test_a_mutation_changes_a_decision(small: Space) -> None:
    parent, random = small.defaults()[0], Random(1)
    for _ in range(20):
        try:
            child = small.mutated(parent, random)
        except Error:
            continue
        assert child.decisions != parent.decisions


def test_rewritings_that_are_tried() -> None:
    tall = ff.cascade(["Z[m] = A[k, m]"], sizes={"M": 8, "K": 4096})
    parts = {rewriting.parts for variant in variants(tall) for rewriting in variant.rewritings if hasattr(rewriting, "parts")}
    assert parts >= {4, 16, 64}
    three = ff.cascade(["Z[i, l] = A[i, j] * B[j, k] * C[k, l]"], sizes={"I": 64, "J": 8, "K": 64, "L": 8})
    assert any(len(variant.einsums) == 2 for variant in variants(three))
    assert len({variant.key for variant in variants(three)}) == len(variants(three))
    assert [str(v) for v in variants(ff.cascade(["Z[i] = A[i]"], sizes={"I": 5}))] == [str(ff.cascade(["Z[i] = A[i]"], sizes={"I": 5}))]


def test_a_space_may_be_limited_to_some_decisions() -> None:
    spec = product()
    assert spec.arch is not None and spec.opencl is not None
    limited = Space(ff.cascade(spec), spec.arch, spec.opencl, ANY_DEVICE, kinds=("down", "vectors"))
    first, random = limited.defaults()[0], Random(0)
    assert list(limited.families) == [""]
    for _ in range(10):
        for made in (limited.drawn(random), limited.mutated(first, random)):
            changed = {name.split(" of ")[0] for name, option in made.decisions.items() if first.decisions.get(name, option) != option}
            assert changed <= {"down", "vectors"}


def test_a_floor_counts_the_work_that_no_mask_skips() -> None:
    def floor(*lines: str) -> float:
        spec = product()
        assert spec.arch is not None and spec.opencl is not None
        made = Space(ff.cascade(list(lines), sizes={"M": 64, "N": 64, "K": 4096}), spec.arch, spec.opencl, ANY_DEVICE).families
        plain = made[""].spec
        if len(lines) == 1:
            assert floor_of(plain) <= bounds(plain).latency
        return floor_of(plain)

    whole = floor("Z[m, n] = A[m, k] * B[k, n]")
    half = (64 * 65 / 2) / 64**2
    assert floor("Z[m, n] = where(n <= m, A[m, k] * B[k, n], 0)") == pytest.approx(whole * half)
    # What its readers leave out is not computed either; of the exponential and its sum the half that counts.
    last = ("E[m, n] = exp(S[m, n])", "L[m] = E[m, n]")
    both = floor("S[m, n] = where(n <= m, A[m, k] * B[k, n], -inf)", *last)
    assert both == pytest.approx(half * floor("S[m, n] = A[m, k] * B[k, n]", *last))


def test_candidates_that_are_sent_share_what_is_kept_for_their_workload(small: Space) -> None:
    """Another process reads the workload once for all of them, and predicts what this one does."""
    candidates = descendants(small, 3)[:4]
    sent = pickle.loads(pickle.dumps([Sent.of(candidate.spec) for candidate in candidates]))
    there = [pickle.loads(pickle.dumps(one)).spec for one in sent]
    by_variant = {candidate.variant: spec for candidate, spec in zip(candidates, there, strict=True)}
    assert all(spec.workload is by_variant[c.variant].workload for c, spec in zip(candidates, there, strict=True))
    assert [spec.mapping for spec in there] == [candidate.spec.mapping for candidate in candidates]
    assert predict_sent(sent, small.target) == predict_all([candidate.spec for candidate in candidates], small.target)
