"""OpenCL in a process that was forked after its parent had used it: a clear error in no time, not a call that never ends."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import os
import numpy as np
import feinsum_fuse as ff
A = np.ones((4, 4), np.float32)
program = ff.compile(ff.loads("workload: {rank_sizes: {M: 4}, bits_per_value: {All: 32}, einsums: ['Z[m] = A[m]']}"))
program(A=A[0])
if os.fork():
    raise SystemExit(os.waitstatus_to_exitcode(os.wait()[1]))
for use in (lambda: ff.einsum("ij,jk->ik", A, A), lambda: program(A=A[0])):
    try:
        use()
    except ff.Error as error:
        print(error)
"""


def test_a_fork_is_told() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=120, check=True)
    first, hint, second, _ = done.stdout.splitlines()
    assert first == second
    assert first.startswith("this process was forked from one that had used OpenCL (process ")
    assert hint == "  Start processes with multiprocessing.get_context('spawn'), or fork before the first use of a device."
