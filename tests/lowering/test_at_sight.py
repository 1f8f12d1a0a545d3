"""What indices and limits tell at sight is what integer sets find: candidates of a search are lowered alike with and without."""

from __future__ import annotations

from random import Random

import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.errors import Error
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.lowering import lowering
from feinsum_fuse.mappings.default_mapping import default_space
from feinsum_fuse.schedule.target import ANY_DEVICE, ANY_GPU, Target
from feinsum_fuse.schedule.tree import polyhedra
from feinsum_fuse.schedule.tree.initial_values import ElementBox
from feinsum_fuse.tuning.space import Space

CASCADES = {
    "odd product": (["Z[m,n] = A[m,k] * B[k,n]"], {"M": 37, "N": 83, "K": 29}),
    "chain": (["T[m,n] = A[m,k] * B[k,n]", "Z[m,p] = T[m,n] * C[n,p]"], {"M": 67, "N": 23, "K": 19, "P": 31}),
    "convolution": (["Z[p,c] = A[P: p + r, d] * W[c,d,r]"], {"P": 41, "C": 13, "D": 5, "R": 3}),
    "masked sum": (["S[m,p] = where(p <= m, A[m,k] * B[p,k], 0)", "Z[m,f] = S[m,p] * V[p,f]"], {"M": 45, "P": 45, "K": 7, "F": 11}),
}


def candidates(cascade: Cascade, target: Target, count: int = 8) -> list[Spec]:
    bare = default_space(cascade, target=target)
    assert bare.arch is not None and bare.opencl is not None
    space, random, found = Space(cascade, bare.arch, bare.opencl, target), Random(5), list[Spec]()
    while len(found) < count:
        try:
            found.append(space.drawn(random).spec)
        except Error:
            continue
    return found


def lowered(spec: Spec, target: Target) -> str:
    """The steps and the nest, or the refusal."""
    lowering._cut.cache_clear()
    try:
        schedule = lowering.lower(spec, target=target)
    except Error as error:
        return error.message
    return f"{schedule}\n{schedule.reached}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("target", [ANY_DEVICE, ANY_GPU], ids=["processor", "gpu"])
@pytest.mark.parametrize("name", CASCADES)
def test_integer_sets_find_the_same(name: str, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, sizes = CASCADES[name]
    specs = candidates(ff.cascade(lines, sizes=sizes), target)
    at_sight = [lowered(spec, target) for spec in specs]
    monkeypatch.setattr(polyhedra, "_some_axis_tells_apart", lambda *_: False)
    monkeypatch.setattr(ElementBox, "of", classmethod(lambda *_: None))
    assert [lowered(spec, target) for spec in specs] == at_sight
