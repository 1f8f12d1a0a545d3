"""Transformations as feinsum's users write them, which another process can import."""

from __future__ import annotations

import loopy as lp

import feinsum_fuse as ff


def in_groups(t_unit: lp.TranslationUnit, insn_match: object = None, kernel_name: str | None = None) -> lp.TranslationUnit:
    """The first loop of the output cut into groups, whatever it is called."""
    loop = _outer(t_unit)
    return lp.split_iname(t_unit, loop, 4, outer_tag="g.0", inner_tag="l.0")


def unrolled(t_unit: lp.TranslationUnit) -> lp.TranslationUnit:
    """The first loop of the output cut and unrolled."""
    return lp.split_iname(t_unit, _outer(t_unit), 2, inner_tag="unr")


unrolled.version = "2"  # type: ignore[attr-defined]


def by_names_of_its_own(t_unit: lp.TranslationUnit) -> lp.TranslationUnit:
    """For one kernel alone."""
    return lp.tag_inames(t_unit, {"row": "g.0"})


def wrong(t_unit: lp.TranslationUnit) -> lp.TranslationUnit:
    """Something else is computed."""
    kernel = t_unit.default_entrypoint
    insn = kernel.instructions[-1]
    return t_unit.with_kernel(kernel.copy(instructions=[*kernel.instructions[:-1], insn.copy(expression=2 * insn.expression)]))


def with_other_arguments(t_unit: lp.TranslationUnit) -> lp.TranslationUnit:
    """One argument too many."""
    kernel = t_unit.default_entrypoint
    return t_unit.with_kernel(kernel.copy(args=[*kernel.args, lp.ValueArg("more", "int32")]))


def nothing(t_unit: lp.TranslationUnit) -> None:
    """No kernel."""


def _outer(t_unit: lp.TranslationUnit) -> str:
    (instruction,) = ff.match(t_unit).instructions
    index = t_unit.default_entrypoint.id_to_insn[instruction].assignee.index_tuple[0]
    return str(index.name)


if __name__ == "__main__":
    import json
    import sys

    import numpy as np
    import pyopencl as cl

    from feinsum_fuse.device.catalogue import find_device
    from tests.archive.test_functions import caller_kernel

    device = find_device("pocl")
    kernel = caller_kernel(int(sys.argv[2]))
    forbidden = ff.retrieve(kernel, device, sys.argv[1])
    fact = ff.retrieve(kernel, device, sys.argv[1], functions=sys.argv[3:])
    made = fact.apply(kernel)
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    a, b = (np.random.default_rng(k).random((int(sys.argv[2]), int(sys.argv[2])), np.float32) for k in range(2))
    _, (result,) = made.executor(queue)(queue, left=a, right=b)
    close = bool(np.allclose(result.get() if hasattr(result, "get") else result, a @ b, rtol=1e-4))
    tags = sorted(str(tag) for i in made.default_entrypoint.inames.values() for tag in i.tags)
    by = forbidden.known.function if forbidden else None
    print(json.dumps([str(by), fact.detail, str(fact.known.function), close, tags]))
