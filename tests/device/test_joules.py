"""Counters of energy, read from a folder like Linux's."""

from __future__ import annotations

from pathlib import Path

from feinsum_fuse.device.timing.joules import EnergyCounters


def zone(folder: Path, number: str, name: str, energy: str) -> Path:
    """A zone with a name and a count."""
    made = folder / f"intel-rapl:{number}"
    made.mkdir()
    (made / "name").write_text(f"{name}\n")
    (made / "energy_uj").write_text(f"{energy}\n")
    (made / "max_energy_range_uj").write_text("1000000\n")
    return made


def test_what_is_counted_between_both_ends(tmp_path: Path) -> None:
    package, memory = zone(tmp_path, "0", "package-0", "100000"), zone(tmp_path, "0:0", "dram", "900000")
    with EnergyCounters(tmp_path) as counters:
        (package / "energy_uj").write_text("350000\n")
        (memory / "energy_uj").write_text("100000\n")
    assert [(one.name, round(one.joules, 6)) for one in counters.found] == [("package-0", 0.25), ("dram", 0.2)], "dram began again"
    assert all(one.seconds >= 0 for one in counters.found)


def test_counters_that_cannot_be_read_are_none(tmp_path: Path) -> None:
    with EnergyCounters(tmp_path / "missing") as nothing:
        pass
    zone(tmp_path, "0", "package-0", "no number")
    with EnergyCounters(tmp_path) as unreadable:
        pass
    assert nothing.found == unreadable.found == ()
