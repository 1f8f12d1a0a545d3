"""Applying a fact to somebody else's kernel, and checking that it still computes the same."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import loopy as lp
import numpy as np

from ...cascades.matching.match import Match, chosen_kernel, match
from ...cascades.matching.replacement import rewritten_match
from ...cascades.rewriting.rewriting import rewritten
from ...cascades.sequence import Rewriting
from ...codegen.executable import Executable, Launch
from ...codegen.generation import executable
from ...device.catalogue import DeviceInfo, target_of
from ...device.checking.example import SEED
from ...device.checking.verification import verify
from ...device.runtime.isolation import TIMEOUT, RunResult, isolated
from ...device.timing.outcome import KernelError, Outcome
from ...errors import ArchiveError, CascadeError, LoweringError, ScheduleError
from ...schedule.function import KernelFunction
from ...schedule.schedule import Schedule
from ..key.device_identity import device_identity
from ..key.recognition import matching, recognised
from .proofs import kept_proofs
from .question import Answer, Question, about_match, require_legal
from .record import Record
from .reduced_sizes import reduced
from .trial_arrays import TrialData

MOST_AT_ONCE = 1 << 28
"""Bytes of arrays up to which two kernels are run at the same time, which takes memory several times."""
_verified = kept_proofs()


def apply_record(
    record: Record,
    kernel: lp.TranslationUnit,
    device: DeviceInfo,
    instructions: Sequence[str] | None = None,
    rewritings: Sequence[Rewriting] = (),
) -> lp.TranslationUnit:
    """The caller's own kernel after the record's schedule, verified on a device.

    ``instructions`` are the ids of the instructions that the record is about; by default, or if the kernel lacks one of them, the only ones
    that fit. What they compute is rewritten by ``rewritings`` first. Only their loops are rearranged; arguments, other instructions,
    substitution rules and callees stay. Both kernels are then run on random data on the device, in child processes, and everything that
    they write is compared; long kernels at shorter lengths (:mod:`.reduced_sizes`). What has agreed once is not run again.

    Raises :class:`~feinsum_fuse.errors.ArchiveError` if the kernel computes something of another structure,
    :class:`~feinsum_fuse.errors.MatchError` if it is no cascade, :class:`~feinsum_fuse.errors.ScheduleError` if a step is not legal at its
    sizes, and :class:`~feinsum_fuse.device.timing.outcome.KernelError` if the transformed kernel fails or computes something else.
    """
    known = chosen_kernel(kernel).id_to_insn

    def answer(matched: Match) -> tuple[Question, Answer | None]:
        asked = about_match(matched, device)
        return asked, asked.answer(record)

    if rewritings and (instructions is None or not set(instructions) <= set(known)):
        raise ArchiveError("the fact is about a kernel that is rewritten first", hint="say which instructions: apply(kernel, [...])")
    if instructions is None or not set(instructions) <= set(known):
        matched = matching(kernel, len(record.cascade.einsums), lambda candidate: answer(candidate)[1] is not None)
    else:
        matched = match(kernel, instructions)
        try:
            matched = rewritten_match(matched, rewritten(matched.cascade, rewritings))
        except CascadeError:
            raise _about_another() from None
    asked, answered = answer(matched)
    if answered is None:
        raise _about_another()
    schedule = answered.schedule
    if schedule is None:
        raise ArchiveError("the fact has no schedule: its mapping was rejected", hint="retrieve a fact whose outcome is ok")
    return apply_schedule(schedule, kernel, matched, device, _sizes_to_try(matched, asked, record.key.sizes))


def _about_another() -> ArchiveError:
    return ArchiveError(
        "the fact is about a cascade of another structure, other element types or other strides than these instructions",
        hint="retrieve a fact for this very kernel: retrieve(kernel, device).apply(kernel)",
    )


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
    given = at_sizes(kernel, sizes)
    old, new = executable(given, target=target), executable(at_sizes(transformed, sizes), target=target)
    proof = (old.source_hash, new.source_hash, device_identity(device))
    if proof not in _verified:
        if (short := reduced(kernel, matched, schedule)) is not None:
            # What breaks at shorter lengths alone is no fault of the kernel: it is verified as it is then.
            with contextlib.suppress(LoweringError, ScheduleError):
                small, again = short
                after = schedule.apply(again.prepared, again.names, target=target)
                old, new, matched, given = executable(small, target=target), executable(after, target=target), again, small
        _require_same(old, new, TrialData.of(given, old, SEED), matched, device, sizes)
        _verified.add(proof)
    return transformed


def apply_function(record: Record, function: KernelFunction, kernel: lp.TranslationUnit, device: DeviceInfo) -> lp.TranslationUnit:
    """The caller's own kernel after the function that made the record's, verified on a device.

    The whole kernel is handed to it. Raises as :func:`apply_record`, and :class:`~feinsum_fuse.schedule.refusals.FunctionError` where the
    function fails or changes arguments.
    """
    matched = recognised(kernel)
    asked = about_match(matched, device)
    if asked.answer(record) is None:
        hint = "retrieve a fact for this very kernel: retrieve(kernel, device, functions=[...]).apply(kernel)"
        raise ArchiveError("the fact is about a cascade of another structure, other element types or other strides", hint=hint)
    transformed = function.apply(kernel)
    require_same_kernel(transformed, kernel, matched, device, _sizes_to_try(matched, asked, record.key.sizes))
    return transformed


def require_same_kernel(
    transformed: lp.TranslationUnit,
    kernel: lp.TranslationUnit,
    matched: Match,
    device: DeviceInfo,
    sizes: Mapping[str, int] | None = None,
) -> None:
    """Raise :class:`~feinsum_fuse.device.timing.outcome.KernelError` if a kernel that no schedule made computes something else.

    ``sizes`` at which that is tried for symbolic ones, by argument.
    """
    target, numbers = target_of(device), sizes or {}
    given = at_sizes(kernel, numbers)
    old, new = executable(given, target=target), executable(at_sizes(transformed, numbers), target=target)
    proof = (old.source_hash, new.source_hash, device_identity(device))
    if proof not in _verified:
        _require_same(old, new, TrialData.of(given, old, SEED), matched, device, numbers)
        _verified.add(proof)


def at_sizes(kernel: lp.TranslationUnit, sizes: Mapping[str, int]) -> lp.TranslationUnit:
    """The kernel with these arguments, its symbolic sizes, as numbers."""
    return lp.fix_parameters(kernel, **sizes) if sizes else kernel


def _require_same(
    old: Executable,
    new: Executable,
    trial: TrialData,
    matched: Match,
    device: DeviceInfo,
    sizes: Mapping[str, int],
    known: RunResult | None = None,
) -> None:
    """Run both on the same random data; raise :class:`~feinsum_fuse.device.timing.outcome.KernelError` if they differ.

    Where arrays lie in longer buffers, all of these are compared: nothing may be written beside an array. ``known``: the old kernel's run,
    if that was done.
    """
    tolerance = _tolerance(matched, old, sizes)
    before, after = trial.program(old), trial.program(new)
    *first, result = _runs([after] if known else [before, after], trial.inputs, device)
    expected = _expected(before, known or first[0], trial, matched)
    if result.outcome is not Outcome.ok:
        raise KernelError(result.outcome, result.stage, f"the transformed kernel failed its check: {result.message}", new)
    alternatives = matched.alternatives(**trial.arrays)
    others = [{**expected, **trial.buffers({name: found[name] for name in found if name in expected}, expected)} for found in alternatives]
    check = verify({name: result.outputs[name] for name in expected}, expected, tolerance, others)
    if not check.passed:
        raise KernelError(Outcome.wrong_result, "verify", f"the transformed kernel computes something else: {check}", new)


@dataclass(frozen=True)
class FixedKernel:
    """A kernel at some lengths, with which programs for many lengths are compared at these; it runs once for all of them."""

    program: Executable
    trial: TrialData
    sizes: Mapping[str, int]
    device: DeviceInfo

    @classmethod
    def of(cls, fixed: lp.TranslationUnit, sizes: Mapping[str, int], device: DeviceInfo) -> FixedKernel:
        """``fixed``: the kernel with these lengths as numbers."""
        program = executable(fixed, target=target_of(device))
        return cls(program, TrialData.of(fixed, program, SEED), sizes, device)

    def require(self, new: Executable, matched: Match) -> None:
        """Raise :class:`~feinsum_fuse.device.timing.outcome.KernelError` if a program that takes the lengths by value differs."""
        proof = (self.program.source_hash, new.source_hash, json.dumps(dict(self.sizes)), device_identity(self.device))
        if proof not in _verified:
            lengths = {a.name: np.asarray(self.sizes[a.name], a.dtype) for a in new.inputs if a.name in self.sizes}
            trial = dataclasses.replace(self.trial, inputs={**self.trial.inputs, **lengths})
            _require_same(self.program, new, trial, matched, self.device, self.sizes, self._expected)
            _verified.add(proof)

    @cached_property
    def _expected(self) -> RunResult:
        (result,) = _runs([self.trial.program(self.program)], self.trial.inputs, self.device)
        return result


def _sizes_to_try(matched: Match, asked: Question, recorded: tuple[int, ...]) -> dict[str, int]:
    """Arguments that are symbolic sizes -> the sizes at which the fact was recorded."""
    known = zip(asked.identity.parameters, recorded, strict=True)
    return {matched.names.sizes[parameter]: size for parameter, size in known if parameter is not None}


def _tolerance(matched: Match, before: Executable, sizes: Mapping[str, int]) -> dict[str, float]:
    """Array -> allowed difference; twice that of one kernel, since the original rounds as well. Other arrays may depend on matched ones."""
    arrays = {matched.names.arrays[t]: 2 * allowed for t, allowed in matched.cascade.tolerance(sizes).items()}
    return dict.fromkeys((a.name for a in before.arguments), max(arrays.values())) | arrays


def _expected(before: Executable, result: RunResult, trial: TrialData, matched: Match) -> Mapping[str, np.ndarray]:
    """What the caller's kernel writes; if it is too slow as it stands, what NumPy computes for its matched instructions."""
    if result.outcome is Outcome.timeout:
        return trial.buffers(matched.reference(**trial.arrays), trial.inputs)
    if result.outcome is not Outcome.ok:
        raise KernelError(result.outcome, result.stage, f"the kernel fails before it is transformed: {result.message}", before)
    return result.outputs


def _runs(programs: Sequence[Executable], inputs: Mapping[str, np.ndarray], device: DeviceInfo) -> list[RunResult]:
    """Run each once, all at the same time unless their arrays are long; arrays that a kernel writes hold their part of ``inputs`` before,
    since it may read them, or write only a part."""
    with contextlib.ExitStack() as running:
        results: list[RunResult] = []
        begun = []
        for program in programs:
            written = {argument.name for argument in program.outputs}
            given = {f"{name}_before" if name in written else name: array for name, array in inputs.items()}
            begun.append(running.enter_context(isolated(_with_initial_values(program), given, device)))
            if sum(array.nbytes for array in inputs.values()) > MOST_AT_ONCE:
                results += [ended(TIMEOUT) for ended in begun]
                begun.clear()
        return results + [ended(TIMEOUT) for ended in begun]


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
