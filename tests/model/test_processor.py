"""Both cost models take a processor for the same."""

from __future__ import annotations

import pytest
from constantdict import constantdict

from feinsum_fuse.formats.arch import Arch, Memory
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.model import place_caches
from feinsum_fuse.model.accelforge.estimate import estimate
from feinsum_fuse.model.hardware.incore import core_term
from feinsum_fuse.model.hardware.placement import capacity
from feinsum_fuse.model.kernel.kernel_time import kernel_time
from feinsum_fuse.model.kernel.machine import Machine
from feinsum_fuse.model.processor import CYCLES, FIGURES, figure, operation_seconds
from tests.model.test_kernel_time import product


def said(spec: Spec, **variables: float) -> Spec:
    """The spec on a processor that says more of itself."""
    assert spec.arch is not None
    return spec.replace(arch=Arch(spec.arch.nodes, constantdict({**spec.arch.variables, **variables})))


def both(spec: Spec) -> tuple[float, float]:
    """Seconds by the kernel's terms, and by the formulas of the tree."""
    machine = Machine.of(spec)
    assert machine is not None
    return kernel_time(spec, machine).seconds, float(estimate(place_caches(spec), core=core_term(spec)).latency)


@pytest.mark.parametrize("name", FIGURES)
def test_the_architecture_says_it_or_it_is_assumed(name: str) -> None:
    spec = product(4, 2)
    assert figure(spec.arch, name) == FIGURES[name].value == figure(None, name)
    assert figure(said(spec, **{name: 3.0}).arch, name) == 3


def test_times_are_measured_or_counted_in_cycles() -> None:
    arch = product(4, 2).arch
    assert arch is not None
    assert operation_seconds(arch, "load", 2e9) == CYCLES["load"].value * 1e-9
    assert operation_seconds(Arch(arch.nodes, constantdict({"load_seconds": 7.0})), "load", 2e9) == 7


def test_more_registers_spill_less_in_both_models() -> None:
    spec = product(8, 3)
    few, many = both(spec), both(said(spec, vector_registers=32.0))
    assert many[0] < few[0] and many[1] < few[1]


def test_one_share_of_a_cache() -> None:
    spec = said(product(4, 2), cache_share=0.25)
    assert spec.arch is not None
    memory = spec.arch.component("L1")
    assert isinstance(memory, Memory)
    assert capacity(spec, memory) == memory.size / 4


def test_each_figure_has_its_source() -> None:
    assert all(len(assumed.source) > 20 for assumed in [*FIGURES.values(), *CYCLES.values()])
