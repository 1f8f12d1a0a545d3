"""Our target of loopy: what it keeps on disk is found again only by the code that has made it; its texts are the same in every process."""

from __future__ import annotations

import dataclasses
from itertools import permutations
from types import SimpleNamespace

import pymbolic.primitives as p
import pytest
from loopy.tools import LoopyKeyBuilder

from feinsum_fuse.cascades.kernel.tags import EinsumTag, KeptTag, RankVariableTag, TensorTag
from feinsum_fuse.codegen import loopy_target
from feinsum_fuse.codegen.statements import Compound
from feinsum_fuse.schedule.kernel.remarks import Description
from feinsum_fuse.schedule.kernel.tagging import OwnedTag
from feinsum_fuse.schedule.target import ANY_DEVICE, Quirks


def key(description: Description, quirks: Quirks) -> str:
    """The key of a target in loopy's caches."""
    found: str = LoopyKeyBuilder()(loopy_target.TreeTarget(description, quirks))
    return found


def test_another_release_does_not_read_what_loopy_has_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels and trees are pickled by the names of their classes, under keys that know neither modules nor methods."""
    ours = key(Description(), ANY_DEVICE.quirks)
    assert key(Description(), ANY_DEVICE.quirks) == ours
    monkeypatch.setattr(loopy_target, "release", lambda: "another")
    assert key(Description(), ANY_DEVICE.quirks) != ours


def test_what_is_written_is_part_of_the_key() -> None:
    """Remarks and quirks make another text of the same kernel."""
    keys = {key(Description(), Quirks()), key(Description(), ANY_DEVICE.quirks), key(Description(remarks={"m": "m (T)"}), Quirks())}
    assert len(keys) == 3


@pytest.mark.parametrize("tag", [EinsumTag("Z"), RankVariableTag("Z", "m"), TensorTag("A"), OwnedTag()], ids=lambda tag: type(tag).__name__)
def test_tags_of_another_module_are_others(tag: KeptTag, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel with tags of a release that had them elsewhere cannot be read back."""
    ours = LoopyKeyBuilder()(tag)
    assert LoopyKeyBuilder()(dataclasses.replace(tag)) == ours
    monkeypatch.setattr(type(tag), "__module__", "feinsum_fuse.elsewhere")
    assert LoopyKeyBuilder()(dataclasses.replace(tag)) != ours


def test_conditions_stand_in_one_order_whatever_that_of_the_sets_they_come_from() -> None:
    """Hashes of names, which differ from process to process, decide loopy's."""
    builder = loopy_target.TreeTarget(Description(), Quirks()).get_device_ast_builder()
    terms = (p.Product((-64, p.Variable("gid")(0))), p.Product((-1, p.Variable("lid")(0))), 223)
    other = p.Comparison(p.Variable("m"), ">=", 1)
    found = {
        builder.emit_if(SimpleNamespace(expr=p.LogicalAnd(tests)), Compound()).condition
        for sum_of in permutations(terms)
        for tests in permutations((p.Comparison(p.Sum(sum_of), ">=", 0), other))
    }
    assert len(found) == 1
