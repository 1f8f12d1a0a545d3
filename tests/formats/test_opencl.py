"""The table of memories: what OpenCL makes of each kind, and who sees a tile in it."""

from __future__ import annotations

from typing import get_args

import pytest
from constantdict import constantdict

from feinsum_fuse.errors import SpecError
from feinsum_fuse.formats.opencl import (
    CACHE_KINDS,
    FANOUT_KINDS,
    FANOUTS,
    GROUP_KINDS,
    MAIN_KINDS,
    MEMORIES,
    PRIVATE_KINDS,
    SHARED_KINDS,
    AddressSpace,
    FanoutKind,
    MemoryKind,
    OpenCL,
    level_of,
    nearest_space,
)

HIDDEN = {
    "global": (),
    "cache": (),
    "local": ("group.0", "group.1", "group.2"),
    "private": ("group.0", "group.1", "group.2", "local.0", "local.1", "local.2"),
    "distributed": ("group.0", "group.1", "group.2"),
}


def test_every_kind_is_in_the_table() -> None:
    assert tuple(MEMORIES) == get_args(MemoryKind)


def test_every_address_space_is_a_memory_of_its_own_name() -> None:
    """What holds for tiles of an address space is asked of the memory that is called like it."""
    assert {memory.address_space for memory in MEMORIES.values()} == {*get_args(AddressSpace)}
    assert all(MEMORIES[space].address_space == space for space in get_args(AddressSpace))


@pytest.mark.parametrize("kind", MEMORIES)
def test_fanouts_that_a_memory_is_hidden_from(kind: MemoryKind) -> None:
    assert tuple(fanout for fanout in FANOUT_KINDS if MEMORIES[kind].is_hidden_from(fanout)) == HIDDEN[kind]


@pytest.mark.parametrize(("fanout", "level"), [("group.0", "group"), ("local.2", "local"), ("vector", "vector"), ("loop", "loop")])
def test_level_of_a_fanout(fanout: FanoutKind, level: str) -> None:
    assert level_of(fanout) == level


def test_kinds_by_property() -> None:
    by_property = {
        name: {kind for kind, memory in MEMORIES.items() if getattr(memory, name)}
        for name in ("holds_copies", "is_register", "is_distributed", "is_cache")
    }
    assert by_property == {
        "holds_copies": {"local", "private", "distributed"},
        "is_register": {"private", "distributed"},
        "is_distributed": {"distributed"},
        "is_cache": {"cache"},
    }


def test_kinds_by_name() -> None:
    assert ({"global"}, {"cache"}, {"local"}) == (MAIN_KINDS, CACHE_KINDS, GROUP_KINDS)
    assert ({"global", "cache"}, {"private", "distributed"}) == (SHARED_KINDS, PRIVATE_KINDS)


@pytest.mark.parametrize(
    ("fanouts", "space"),
    [(set(), "private"), ({"vector", "loop"}, "private"), ({"local.1", "vector"}, "local"), ({"group.0"}, "global")],
)
def test_nearest_address_space_that_is_seen(fanouts: set[str], space: AddressSpace) -> None:
    assert nearest_space(fanouts) == space


def test_every_fanout_is_in_the_table_and_axes_have_numbers() -> None:
    assert tuple(FANOUTS) == FANOUT_KINDS
    axes = [f"{level}.{axis}" for level in ("group", "local") for axis in range(3)]
    assert [kind for kind in FANOUT_KINDS if FANOUTS[kind].is_axis] == axes


def test_a_fanout_is_bound_by_its_dimension_or_its_component() -> None:
    opencl = OpenCL(fanouts=constantdict({"Core": "group.0", "Core.Y": "local.1"}))
    assert [opencl.fanout("Core", "X"), opencl.fanout("Core", "Y"), opencl.fanout("Lane", "X")] == ["group.0", "local.1", "loop"]
    wrong = OpenCL(fanouts=constantdict({"Core": "group.9"}))  # type: ignore[dict-item]
    with pytest.raises(SpecError, match=r"'group\.9' is no binding of a fanout"):
        wrong.fanout("Core", "X")
