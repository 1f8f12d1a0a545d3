"""How many instances leak, and which of them are powered."""

from __future__ import annotations

import pytest

from feinsum_fuse.formats.arch import Arch, Array, Compute, Container, Fanout, Fork, Hierarchical, Memory
from feinsum_fuse.model.accelforge.energy import instances, leak_energy, powered


def arch(gated: bool = False) -> Arch:
    side = Fork((Container(name="V", spatial=(Fanout("v", 3, power_gateable=gated),)), Compute(name="Vector", leak_power=5.0)))
    array = Container(name="PE", spatial=(Fanout("x", 4, power_gateable=gated), Fanout("y", 2)))
    register = Memory(name="Register", leak_power=1.0, spatial=(Fanout("r", 2),), leak_power_scale=3.0, n_parallel_instances=2.0)
    return Arch((Memory(name="Main", leak_power=10.0), side, Hierarchical((array, register)), Compute(name="MAC", leak_power=0.5)))


def test_fanouts_multiply_below_and_a_fork_nothing_beside_it() -> None:
    assert instances(arch()) == {"Main": 1, "V": 3, "Vector": 3, "PE": 8, "Register": 16, "MAC": 16}


def test_members_of_an_array_do_not_multiply_each_other() -> None:
    chips = Array((Memory(name="A", spatial=(Fanout("a", 2),)), Memory(name="B")), "Chips", (Fanout("chip", 5),))
    assert instances(Arch((chips, Compute(name="C")))) == {"A": 10, "B": 5, "C": 5}


def test_everything_leaks_unless_it_is_gated() -> None:
    leaked = leak_energy(arch(), "Z", "MAC", {}, 2.0)
    assert leaked["Main"] == 20.0
    assert leaked["Vector"] == 3 * 5.0 * 2.0
    assert leaked["Register"] == 8 * 1.0 * 3.0 * 2.0 * 2.0, "its own fanout does not count"


def test_a_components_own_fanout_does_not_leak() -> None:
    """AccelForge 1.0.467: a MAC that leaks 1 W, with a fanout of its own of 4, leaks 672 J in 672 s."""
    unit = Compute(name="MAC", leak_power=1.0, spatial=(Fanout("x", 4),))
    assert leak_energy(Arch((Memory(name="Main"), unit)), "Z", "MAC", {}, 672.0)["MAC"] == 672


def test_gated_fanouts() -> None:
    usage = {("PE", "x"): 0.5, ("PE", "y"): 1.0}
    fraction = powered(arch(gated=True), "MAC", usage)
    assert fraction["Main"] == 1
    assert fraction["Register"] == fraction["MAC"] == pytest.approx(0.5 / 4)
    assert powered(arch(gated=True), "Vector", {("V", "v"): 1.0})["Vector"] == pytest.approx(1 / 3)
    assert powered(arch(gated=True), "Vector", {("V", "v"): 1.0})["MAC"] == 0
