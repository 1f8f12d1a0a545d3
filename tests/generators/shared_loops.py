"""Every loop that Einsums can share, whether a mapping that is meant to be fast would share it or not."""

from __future__ import annotations

from collections.abc import Iterator

from feinsum_fuse.formats.workload import Workload, WorkloadEinsum
from feinsum_fuse.lowering.ties import common, extensions, touched_by


def shareable(workload: Workload, names: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """Einsum -> rank variable, for each loop that these Einsums can run under in order.

    The variables are tied to one another by axes of tensors that the Einsums exchange or read in common: one loop advances all of them
    along the same axis. A variable over which a producer reduces what another of the Einsums reads is left out.
    """
    einsums = [workload.einsum(name) for name in names]
    found = [{names[0]: variable} for variable in einsums[0].bounds]
    for count, einsum in enumerate(einsums[1:], 1):
        touching = touched_by(einsum, einsums[:count])
        found = [{**chosen, einsum.name: variable} for chosen in found for variable in extensions(chosen, einsum, touching)]
    yield from (chosen for chosen in found if not _reduces_too_early(einsums, chosen))


def windows(workload: Workload, chosen: dict[str, str]) -> set[str]:
    """The tensors that one of these Einsums reads in windows while the loop over these variables moves them."""
    found = set()
    for producer in map(workload.einsum, chosen):
        for consumer in map(workload.einsum, chosen):
            for access in consumer.inputs:
                if access.name in {a.name for a in producer.outputs}:
                    index = next((i for i in access.projection.values() if chosen[consumer.name] in i.variables), None)
                    found |= {access.name} if index is not None and index.bare is None else set()
    return found


def _reduces_too_early(einsums: list[WorkloadEinsum], chosen: dict[str, str]) -> bool:
    for producer in einsums:
        written = {v for access in producer.outputs for v in access.rank_variables}
        read = any(common(producer, e) & {a.name for a in producer.outputs} for e in einsums if e is not producer)
        if read and chosen[producer.name] not in written:
            return True
    return False
