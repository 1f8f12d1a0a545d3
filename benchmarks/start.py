"""How soon a program is ready: in a new process that knows it from before, in one that does not, and in the process that has called it.

Run as ``python -m benchmarks.start``. Each figure is the median of new processes, with the least and the largest, from after
``import numpy, pyopencl`` to the end of the first call; then what a call of a program that is there costs. ``ready`` finds the program on
disk, ``first`` starts with an empty folder of programs and PoCL's cache as it is, ``import`` is what loopy and its like take to import.
``--small`` times first calls of small workloads of several kinds instead, each in a new process that finds every cache empty (programs,
loopy's, the compiler's, calibration): what a user waits for after installing. Modules are found as byte code, which an
installation or the first import writes, also where ``PYTHONDONTWRITEBYTECODE`` is set.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence

BEGIN = "import json, time, sys\nimport numpy as np, pyopencl, pyopencl.array\nstart = time.perf_counter(), time.process_time()\n"
END = "\nprint(json.dumps([time.perf_counter() - start[0], time.process_time() - start[1], sorted(set({heavy}) & set(sys.modules))]))"
HEAVY = ("loopy", "islpy", "sqlalchemy", "pydantic")
A, B = "np.ones((64, 48), 'float32')", "np.ones((48, 32), 'float32')"
CALLS = {
    "ff.einsum('ij,jk->ik')": f"import feinsum_fuse as ff; ff.einsum('ij,jk->ik', {A}, {B})",
    "ff.compile(Einsums)": (
        "import feinsum_fuse as ff; ff.compile(['T[m,n] = A[m,k] * B[k,n]', 'Z[m,n] = relu(T[m,n])'], "
        f"sizes={{'M': 64, 'K': 48, 'N': 32}})(A={A}, B={B})"
    ),
}
SMALL: dict[str, tuple[Sequence[str], dict[str, int], str]] = {
    "product": (["Z[m,n] = A[m,k] * B[k,n]"], {"M": 64, "N": 48, "K": 32}, "float32"),
    "product of integers": (["Z[m,n] = A[m,k] * B[k,n]"], {"M": 30, "N": 48, "K": 32}, "int32"),
    "batched product": (["Z[b,m,n] = A[b,m,k] * B[b,k,n]"], {"B": 20, "M": 16, "N": 17, "K": 15}, "float32"),
    "three operands": (["Z[i,r] = X[i,j,k] * B[j,r] * C[k,r]"], {"I": 20, "J": 21, "K": 22, "R": 8}, "float32"),
    "softmax": (
        ["X[m] = max(A[m,n])", "E[m,n] = exp(A[m,n] - X[m])", "S[m] = E[m,n]", "Z[m,n] = E[m,n] / S[m]"],
        {"M": 30, "N": 50},
        "float32",
    ),
    "log-sum-exp": (["X[m] = max(A[m,n])", "S[m] = exp(A[m,n] - X[m])", "Z[m] = log(S[m]) + X[m]"], {"M": 33, "N": 41}, "float64"),
    "perceptron": (
        ["H[m,f] = X[m,k] * V[k,f]", "G[m,f] = gelu(H[m,f])", "Z[m,n] = G[m,f] * W[f,n]"],
        {"M": 40, "F": 60, "K": 24, "N": 20},
        "float32",
    ),
    "convolution": (["Z[p,q,o] = A[Y: p+r, X: q+s, c] * W[r,s,c,o]"], {"P": 12, "Q": 13, "O": 8, "C": 5, "R": 3, "S": 3}, "float32"),
    "attention": (
        [
            "S[h,m,p] = Q[h,m,e] * K[h,p,e]",
            "X[h,m] = max(S[h,m,p])",
            "P[h,m,p] = exp(S[h,m,p] - X[h,m])",
            "D[h,m] = P[h,m,p]",
            "O[h,m,f] = P[h,m,p] * V[h,p,f]",
            "Z[h,m,f] = O[h,m,f] / D[h,m]",
        ],
        {"H": 2, "M": 32, "P": 33, "E": 16, "F": 17},
        "float32",
    ),
}
"""Einsums, sizes and type."""
IMPORTS = "import loopy, islpy, sqlalchemy, pydantic"
STEADY = """
import json, time, statistics
import numpy as np
import feinsum_fuse as ff
a, b = np.ones((64, 48), 'float32'), np.ones((48, 32), 'float32')
program = ff.compile('Z[m,n] = A[m,k] * B[k,n]', sizes={'M': 64, 'K': 48, 'N': 32})
out = program(A=a, B=b)
def seconds(run):
    times = []
    for _ in range(1001):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
ff.einsum('ij,jk->ik', a, b)
calls = (lambda: ff.einsum('ij,jk->ik', a, b), lambda: program(A=a, B=b), lambda: program(A=a, B=b, out=out))
print(json.dumps([seconds(call) for call in calls]))
"""


def run(code: str, environment: Mapping[str, str]) -> list[object]:
    """What a new process prints, which may write byte code."""
    own = {name: value for name, value in environment.items() if name != "PYTHONDONTWRITEBYTECODE"}
    answer = subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=own, stdout=subprocess.PIPE, text=True, check=True)
    found: list[object] = json.loads(answer.stdout.splitlines()[-1])
    return found


def timed(code: str, repeats: int, environment: Mapping[str, str], *, anew: bool = False) -> str:
    """Seconds of several processes: median, least and largest of the clock, and the median of processor time."""
    found = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            own = {**environment, "FEINSUM_FUSE_PROGRAMS": folder} if anew else environment
            found.append(run(BEGIN + code + END.format(heavy=HEAVY), own))
    wall, busy = ([float(str(one[k])) for one in found] for k in (0, 1))
    loaded = ", ".join(map(str, found[-1][2])) if isinstance(found[-1][2], list) else ""
    times = f"{statistics.median(wall):6.2f} s  ({min(wall):.2f} to {max(wall):.2f}; {statistics.median(busy):.2f} of the processor)"
    return f"{times}  {f'imports {loaded}' if loaded else 'imports none of ' + ', '.join(HEAVY)}"


def first_call(einsums: Sequence[str], sizes: Mapping[str, int], dtype: str) -> str:
    """The statement that compiles a workload for the first time and calls it once."""
    made = f"program = ff.compile({list(einsums)!r}, sizes={dict(sizes)!r}, dtypes={{'All': {dtype!r}}})"
    arrays = f"{{name: np.ones(program.cascade.fixed_shape(name), {dtype!r}) for name in program.cascade.inputs}}"
    return f"import feinsum_fuse as ff; {made}; program(**{arrays})"


def small(repeats: int) -> None:
    """First calls with every cache empty."""
    timed(next(iter(CALLS.values())), 1, os.environ, anew=True)  # writes byte code
    for name, workload in SMALL.items():
        found = []
        for _ in range(repeats):
            with tempfile.TemporaryDirectory() as folder:
                caches = dict.fromkeys(("XDG_CACHE_HOME", "XDG_DATA_HOME", "POCL_CACHE_DIR", "FEINSUM_FUSE_PROGRAMS"), folder)
                found.append(float(str(run(BEGIN + first_call(*workload) + END.format(heavy=HEAVY), {**os.environ, **caches})[0])))
        print(f"{name:25} {statistics.median(found):6.2f} s  ({min(found):.2f} to {max(found):.2f})", flush=True)


def table(repeats: int) -> None:
    """What is ready, what is not, and what a call costs."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "FEINSUM_FUSE_PROGRAMS": folder, "XDG_DATA_HOME": folder}
        timed(next(iter(CALLS.values())), 1, environment, anew=True)  # writes byte code
        print(f"import loopy and others{'':10}{timed(IMPORTS, repeats, environment)}", flush=True)
        for name, code in CALLS.items():
            print(f"{name:25} first  {timed(code, max(1, repeats // 2), environment, anew=True)}", flush=True)
            run(BEGIN + code + END.format(heavy=HEAVY), environment)
            print(f"{name:25} ready  {timed(code, repeats, environment)}", flush=True)
        einsum, program, filled = (1e6 * float(str(seconds)) for seconds in run(STEADY, environment))
        print(f"a call on 64 x 48 x 32, NumPy arrays: ff.einsum {einsum:.0f} us, program {program:.0f} us, with out= {filled:.0f} us")


def main(arguments: Sequence[str] | None = None) -> None:
    """One of the two tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="first calls of small workloads, every cache empty")
    given = parser.parse_args(arguments)
    if given.small:
        small(given.repeats)
    else:
        table(given.repeats)


if __name__ == "__main__":
    main()
