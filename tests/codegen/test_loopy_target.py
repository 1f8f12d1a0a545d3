"""Our target of loopy: what it keeps on disk is found again only by the code that has made it; its texts are the same in every process."""

from __future__ import annotations

import dataclasses
import io
import pickle
from itertools import permutations
from types import SimpleNamespace

import loopy as lp
import numpy as np
import pymbolic.primitives as p
import pytest
from loopy.tools import LoopyKeyBuilder

from feinsum_fuse.cascades.kernel.tags import EinsumTag, KeptTag, RankVariableTag, TensorTag
from feinsum_fuse.cascades.matching.match import match
from feinsum_fuse.codegen import loopy_target
from feinsum_fuse.codegen.statements import Compound
from feinsum_fuse.schedule.kernel.remarks import Description
from feinsum_fuse.schedule.kernel.tagging import OwnedTag
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.statement import Place
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.target import ANY_DEVICE, Quirks
from feinsum_fuse.schedule.tree.nest import For, Nest


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


def kept_tags() -> tuple[KeptTag, ...]:
    """The tags that a kernel carries once a schedule has written it, made anew: pytools notes keys on what it has hashed."""
    args = [lp.GlobalArg(name, np.float32, shape=shape) for name, shape in {"A": (7, 3), "B": (3, 5), "C": (7, 5)}.items()]
    text = "C[m,n] = sum(k, exp(A[m,k])*B[k,n])"
    given = lp.make_kernel("{[m,n,k] : 0 <= m < 7 and 0 <= n < 5 and 0 <= k < 3}", text, [*args, ...], lang_version=(2018, 2))
    found = match(given)
    kernel = Schedule((Explicate(),)).apply(found.prepared, found.names).default_entrypoint
    return tuple(sorted((tag for tag in kernel.tags if isinstance(tag, KeptTag)), key=lambda tag: type(tag).__name__))


class Noting(pickle.Unpickler):
    """Reads, and notes our classes that it has to find."""

    def __init__(self, pickled: bytes) -> None:
        super().__init__(io.BytesIO(pickled))
        self.found: set[type] = set()

    def find_class(self, module_name: str, global_name: str) -> object:
        found = super().find_class(module_name, global_name)
        if module_name.startswith("feinsum_fuse.") and isinstance(found, type):
            self.found.add(found)
        return found


def test_a_class_anywhere_in_a_tag_that_has_moved_makes_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """What loopy has kept of a release whose classes lie elsewhere is not found, instead of found and unreadable."""
    ours = LoopyKeyBuilder()(kept_tags())
    assert LoopyKeyBuilder()(kept_tags()) == ours
    reader = Noting(pickle.dumps(kept_tags()))
    reader.load()
    assert {Place, Nest, For} <= reader.found
    for kind in reader.found:
        with monkeypatch.context() as changed:
            changed.setattr(kind, "__module__", "feinsum_fuse.elsewhere")
            assert LoopyKeyBuilder()(kept_tags()) != ours, kind


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
