"""Measurements to record: real schedules and cascades, made-up times."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from constantdict import constantdict
from sqlalchemy import text

import feinsum_fuse as ff
from feinsum_fuse.archive.tables import schema
from feinsum_fuse.archive.tables.address import locate
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.codegen.executable import Argument
from feinsum_fuse.device.catalogue import DeviceInfo
from feinsum_fuse.device.timing.measurement import Measurement, Provenance, Subject
from feinsum_fuse.device.timing.outcome import Outcome
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.loop_steps import Split
from feinsum_fuse.schedule.tree.nest import LoopRef

HERE = DeviceInfo(
    platform="Portable Computing Language",
    name="pthread-test",
    ordinal=0,
    vendor="us",
    driver="3.0",
    version="OpenCL 3.0 pocl",
    kind="cpu",
    units=2,
    global_bytes=1 << 33,
    cache_bytes=1 << 20,
    local_bytes=1 << 20,
)
"""A device that no machine has."""


def product(m: int = 64, k: int = 32, n: int = 48, dtype: str = "float32", names: str = "ABZ", expression: str = "") -> Cascade:
    """A matrix product."""
    a, b, z = names
    text = expression or f"{a}[m,k] * {b}[k,n]"
    return ff.cascade([f"{z}[m,n] = {text}"], sizes={"M": m, "K": k, "N": n}, dtypes={"All": dtype})


def tiled(einsum: str = "Z", variable: str = "m", factor: int = 8) -> Schedule:
    """A schedule with one split."""
    return Schedule((Explicate((einsum,)), Split(LoopRef(einsum, variable), factor)))


def measurement(
    cascade: Cascade | None = None,
    schedule: Schedule | None = None,
    *,
    median_ns: float = 1000.0,
    samples: Sequence[float] = (),
    outcome: str = "ok",
    device: DeviceInfo = HERE,
    date: str = "2026-01-02T03:04:05+00:00",
    strides: dict[str, tuple[int, ...]] | None = None,
    **others: object,
) -> Measurement:
    """A measurement of ``cascade`` by ``schedule`` with these times."""
    cascade = cascade or product()
    schedule = tiled(cascade.einsums[0].name) if schedule is None else schedule
    provenance = Provenance(device, constantdict({"loopy": "2025.2"}), "ab" * 32, ("-cl-mad-enable",), device.units, date)
    ok = outcome == "ok"
    made = Measurement(
        Outcome(outcome),
        "done" if ok else "launch",
        "" if ok else "it failed: 'why' \"and\" \n where",
        provenance,
        samples_ns=tuple(samples or (median_ns,)) if ok else (),
        event_ns=(median_ns - 1,) if ok else (),
        error=1e-7 if ok else None,
        tolerance=1e-5 if ok else None,
        arguments=tuple(
            Argument(
                name,
                tensor.dtype,
                cascade.fixed_shape(name),
                "input" if name in cascade.inputs else "output",
                (strides or {}).get(name, ()),
            )
            for name, tensor in cascade.tensors.items()
        ),
        subject=Subject(cascade, schedule),
    )
    return dataclasses.replace(made, **others)  # type: ignore[arg-type]


def as_of_old(number: str) -> tuple[str, ...]:
    """SQL that puts the version where it was up to 0005, into alembic's own table, and takes away what came after version ``number``."""
    key = "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)"
    added = {"0002": "mapping", "0003": "applicable", "0004": "origin"}
    return (
        f"CREATE TABLE IF NOT EXISTS alembic_version (version_num VARCHAR(32) NOT NULL, {key})",
        "DELETE FROM alembic_version",
        f"INSERT INTO alembic_version VALUES ('{number}')",
        "DROP TABLE feinsum_fuse_version",
        *(f"ALTER TABLE measurements DROP COLUMN {name}" for version, name in added.items() if version > number),
        *(["DROP TABLE forgotten"] if number < "0005" else []),
    )


def execute(url: str, *statements: str) -> None:
    """Run SQL in an archive, as one transaction."""
    schema.tell(locate(url), lambda connection: [connection.execute(text(statement)) for statement in statements])
