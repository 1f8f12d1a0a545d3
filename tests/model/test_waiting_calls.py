"""Functions of what statements before them in the same loop have computed: a core waits for all of them in turn."""

from __future__ import annotations

import feinsum_fuse as ff
from feinsum_fuse.formats.spec import Spec

from .test_each_term import seconds
from .test_kernel_time import DEVICE

WAITING = 1e-6
"""Seconds until the result of an exponential is there, beside which all else that the kernel does is short."""


def in_turn(first: str, second: str) -> Spec:
    """Two elementwise Einsums in one loop over vectors, the first of which the second may use."""
    head = DEVICE.partition("workload:")[0]
    branches = "".join(
        "    - !Nested\n      nodes:\n      - !Spatial {rank_variable: n, tile_shape: 1, component: Lane, name: lane}\n"
        f"      - !Compute {{einsum: {name}, component: MAC}}\n"
        for name in ("B", "Z")
    )
    tensors = "[A, C, Z]" if "C[" in first + second else "[A, Z]"
    return ff.loads(
        f"{head}workload:\n  rank_sizes: {{M: 64, N: 64}}\n  bits_per_value: {{All: 32}}\n"
        f"  einsums: ['B[m, n] = {first}', 'Z[m, n] = {second}']\n"
        f"mapping:\n  nodes:\n  - !Storage {{tensors: {tensors}, component: Main}}\n"
        "  - !Temporal {rank_variable: m, tile_shape: 1}\n  - !Temporal {rank_variable: n, tile_shape: 8}\n"
        f"  - !Storage {{tensors: [B], component: Register}}\n  - !Sequential\n    nodes:\n{branches}"
    )


def slower(spec: Spec) -> float:
    """How many times as long the kernel takes whose exponentials wait so long."""
    return seconds(spec, exp_chain_vector_seconds=WAITING) / seconds(spec, exp_chain_vector_seconds=1e-12)


def test_functions_of_statements_before_wait_for_these() -> None:
    """As those of one statement do; the second may make something else of the result first."""
    assert slower(in_turn("exp(A[m, n])", "exp(B[m, n])")) > 2
    assert slower(in_turn("exp(A[m, n])", "exp(0.5 * B[m, n] + 1)")) > 2


def test_functions_of_other_values_wait_for_none() -> None:
    """One call on a way has its waiting in its own figure, and what is computed of something else is under way beside it."""
    assert slower(in_turn("exp(A[m, n])", "2 * B[m, n]")) == 1
    assert slower(in_turn("exp(A[m, n])", "B[m, n] * exp(C[m, n])")) == 1
