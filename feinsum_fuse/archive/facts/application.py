"""Applying a fact to somebody else's kernel, and checking that it still computes the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import suppress

import loopy as lp
import numpy as np

from ...cascades.matching.match import Match, chosen_kernel, match
from ...codegen.executable import Executable, Launch
from ...codegen.generation import executable
from ...device.catalogue import DeviceInfo, target_of
from ...device.checking.verification import random_array, verify
from ...device.runtime.isolation import RunResult, run_isolated
from ...device.timing.outcome import KernelError, Outcome
from ...errors import ArchiveError, LoweringError, ScheduleError
from ...schedule.schedule import Schedule
from ..key.device_identity import device_identity
from ..key.recognition import matching
from .proofs import kept_proofs
from .question import Answer, Question, about_match, require_legal
from .record import Record
from .reduced_sizes import reduced

SEED = 20261
_verified = kept_proofs()


def apply_record(
    record: Record, kernel: lp.TranslationUnit, device: DeviceInfo, instructions: Sequence[str] | None = None
) -> lp.TranslationUnit:
    """The caller's own kernel after the record's schedule, verified on a device.

    ``instructions`` are the ids of the instructions that the record is about; by default, or if the kernel lacks one of them, the only ones
    that fit. Only their loops are rearranged; arguments, other instructions, substitution rules and callees stay. Both kernels are then
    run on random data on the device, in child processes, and everything that they write is compared; long kernels at shorter lengths
    (:mod:`.reduced_sizes`). What has agreed once is not run again.

    Raises :class:`~feinsum_fuse.errors.ArchiveError` if the kernel computes something of another structure,
    :class:`~feinsum_fuse.errors.MatchError` if it is no cascade, :class:`~feinsum_fuse.errors.ScheduleError` if a step is not legal at its
    sizes, and :class:`~feinsum_fuse.device.timing.outcome.KernelError` if the transformed kernel fails or computes something else.
    """
    known = chosen_kernel(kernel).id_to_insn

    def answer(matched: Match) -> tuple[Question, Answer | None]:
        asked = about_match(matched, device)
        return asked, asked.answer(record)

    if instructions is None or not set(instructions) <= set(known):
        matched = matching(kernel, len(record.cascade.einsums), lambda candidate: answer(candidate)[1] is not None)
    else:
        matched = match(kernel, instructions)
    asked, answered = answer(matched)
    if answered is None:
        raise ArchiveError(
            "the fact is about a cascade of another structure, other element types or other strides than these instructions",
            hint="retrieve a fact for this very kernel: retrieve(kernel, device).apply(kernel)",
        )
    schedule = answered.schedule
    if schedule is None:
        raise ArchiveError("the fact has no schedule: its mapping was rejected", hint="retrieve a fact whose outcome is ok")
    return apply_schedule(schedule, kernel, matched, device, _sizes_to_try(matched, asked, record.key.sizes))


def apply_schedule(
    schedule: Schedule, kernel: lp.TranslationUnit, matched: Match, device: DeviceInfo, sizes: Mapping[str, int]
) -> lp.TranslationUnit:
    """The kernel that was matched after a schedule, verified on a device; ``sizes`` at which that is done for symbolic ones, by argument.

    Raises as :func:`apply_record`.
    """
    if not schedule.steps:
        return kernel
    require_legal(schedule, matched.prepared, matched.names, device)
    target = target_of(device)
    transformed = schedule.apply(matched.prepared, matched.names, target=target)
    old, new = (executable(at_sizes(unit, sizes), target=target) for unit in (kernel, transformed))
    proof = (old.source_hash, new.source_hash, device_identity(device))
    if proof not in _verified:
        if (short := reduced(kernel, matched, schedule)) is not None:
            # What breaks at shorter lengths alone is no fault of the kernel: it is verified as it is then.
            with suppress(LoweringError, ScheduleError):
                small, again = short
                after = schedule.apply(again.prepared, again.names, target=target)
                old, new, matched = executable(small, target=target), executable(after, target=target), again
        _require_same(old, new, matched, device, sizes)
        _verified.add(proof)
    return transformed


def at_sizes(kernel: lp.TranslationUnit, sizes: Mapping[str, int]) -> lp.TranslationUnit:
    """The kernel with these arguments, its symbolic sizes, as numbers."""
    return lp.fix_parameters(kernel, **sizes) if sizes else kernel


def _require_same(old: Executable, new: Executable, matched: Match, device: DeviceInfo, sizes: Mapping[str, int]) -> None:
    """Run both on the same random data; raise :class:`~feinsum_fuse.device.timing.outcome.KernelError` if they differ."""
    generator = np.random.default_rng(SEED)
    inputs = {a.name: random_array(a.shape, a.dtype, generator) for a in old.arguments if a.role != "temporary"}
    tolerance = _tolerance(matched, old, sizes)
    expected = _expected(old, inputs, matched, device)
    result = _run(new, inputs, device)
    if result.outcome is not Outcome.ok:
        raise KernelError(result.outcome, result.stage, f"the transformed kernel failed its check: {result.message}", new)
    others = [
        {name: found[name] if name in found and found[name].shape == array.shape else array for name, array in expected.items()}
        for found in matched.alternatives(**inputs)
    ]
    check = verify({name: result.outputs[name] for name in expected}, expected, tolerance, others)
    if not check.passed:
        raise KernelError(Outcome.wrong_result, "verify", f"the transformed kernel computes something else: {check}", new)


def _sizes_to_try(matched: Match, asked: Question, recorded: tuple[int, ...]) -> dict[str, int]:
    """Arguments that are symbolic sizes -> the sizes at which the fact was recorded."""
    known = zip(asked.identity.parameters, recorded, strict=True)
    return {matched.names.sizes[parameter]: size for parameter, size in known if parameter is not None}


def _tolerance(matched: Match, before: Executable, sizes: Mapping[str, int]) -> dict[str, float]:
    """Array -> allowed difference; twice that of one kernel, since the original rounds as well. Other arrays may depend on matched ones."""
    arrays = {matched.names.arrays[t]: 2 * allowed for t, allowed in matched.cascade.tolerance(sizes).items()}
    return dict.fromkeys((a.name for a in before.arguments), max(arrays.values())) | arrays


def _expected(before: Executable, inputs: dict[str, np.ndarray], matched: Match, device: DeviceInfo) -> Mapping[str, np.ndarray]:
    """What the caller's kernel writes; if it is too slow as it stands, what NumPy computes for its matched instructions."""
    result = _run(before, inputs, device)
    if result.outcome is Outcome.timeout:
        return matched.reference(**inputs)
    if result.outcome is not Outcome.ok:
        raise KernelError(result.outcome, result.stage, f"the kernel fails before it is transformed: {result.message}", before)
    return result.outputs


def _run(program: Executable, inputs: dict[str, np.ndarray], device: DeviceInfo) -> RunResult:
    """Run once; arrays that the kernel writes hold their part of ``inputs`` before, since it may read them, or write only a part."""
    written = {argument.name for argument in program.outputs}
    given = {f"{name}_before" if name in written else name: array for name, array in inputs.items()}
    return run_isolated(_with_initial_values(program), given, device)


def _with_initial_values(program: Executable) -> Executable:
    """The program after launches that copy ``<array>_before`` into each array that it returns."""
    sources, launches, arguments = [program.source], list(program.launches), list(program.arguments)
    for argument in program.outputs:
        name, start = f"restore_{argument.name}", f"{argument.name}_before"
        sources.append(
            f"__kernel void {name}(__global uchar *to, __global const uchar *from) {{ to[get_global_id(0)] = from[get_global_id(0)]; }}"
        )
        launches.insert(0, Launch(name, (argument.nbytes,), (1,), (argument.name, start)))
        arguments.append(dataclasses.replace(argument, name=start, role="input"))
    return dataclasses.replace(program, source="\n".join(sources), launches=tuple(launches), arguments=tuple(arguments))
