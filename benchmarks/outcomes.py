"""Do the same mappings end alike on several devices, and as another checkout of the project lowers them?

    python -m benchmarks.outcomes [--against CHECKOUT] [--devices Portable Intel] [--trees 200] [--family 2] [--seed 1] [--only NAME]

The mappings: random LoopTrees of eighteen kinds of workloads, mappings that the family draws for workloads of other kinds and element
types, and every mapping of the examples, at their own sizes and at ones that nothing divides. Each checkout makes the program for each
device, or refuses by name. All programs meet a device in the same way: today's child process, on the same inputs. What they compute is
held to the NumPy reference, and to one another. Printed are a line for each kind, and whatever does not end alike or is wrong, of which
there should be nothing: the exit status says so.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import numpy as np
import pyopencl as cl

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.codegen.executable import Executable
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.checking.example import Example, example
from feinsum_fuse.device.checking.verification import verify
from feinsum_fuse.device.runtime.isolation import run_isolated
from feinsum_fuse.device.timing.outcome import Outcome
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.mappings.default_mapping import default_space
from feinsum_fuse.mappings.random import random_mappings
from feinsum_fuse.presentation import table
from tests.generators.trees import random_trees

HERE = Path(__file__).resolve().parents[1]
EXAMPLES = HERE / "examples"
TIMEOUT_S = 300.0
AWKWARD: Mapping[str, Mapping[str, int]] = {
    "matmul": {"M": 67, "K": 300, "N": 45},
    "matvecs": {"NI": 67, "NA": 45, "NB": 101},
    "three_matmuls": {"M": 131, "N": 23},
    "dg_divergence": {"E": 133, "N": 35},
    "attention": {"H": 2, "M": 75, "P": 69, "E": 11},
    "perceptron": {"M": 67, "A": 19, "F": 75, "B": 21, "FT": 32, "RM": 3},
    "mttkrp": {"N": 19, "R": 35, "JT": 8},
}
"""Example -> sizes that its tiles do not divide."""
FAMILY: Mapping[str, tuple[Sequence[str], Mapping[str, int], Mapping[str, str]]] = {
    "softmax": (["X[m] = max(S[m,n])", "E[m,n] = exp(S[m,n] - X[m])", "D[m] = E[m,n]", "Y[m,n] = E[m,n] / D[m]"], {"M": 13, "N": 67}, {}),
    "layer norm": (["U[m] = X[m,n]", "Q[m] = X[m,n] * X[m,n]", "Y[m,n] = (X[m,n] - U[m]/67) * rsqrt(Q[m]/67 + 1)"], {"M": 11, "N": 67}, {}),
    "convolution": (["O[k,p,q] = I[c, H: p+r, V: q+s] * W[k,c,r,s]"], {"K": 7, "P": 13, "Q": 17, "C": 3, "R": 3, "S": 3}, {}),
    "gram matrix": (["G[m,n] = A[M: m, k] * A[M: n, k]"], {"M": 37, "N": 37, "K": 19}, {}),
    "permuted contraction": (["C[c,a,b] = A[a,d,c] * B[d,b]"], {"A": 13, "B": 11, "C": 17, "D": 7}, {}),
    "float64": (["T[m,n] = A[m,k] * B[k,n]", "Z[m,p] = T[m,n] * C[n,p]"], {"M": 31, "N": 17, "K": 23, "P": 5}, {"All": "float64"}),
    "int32": (["Z[m,n] = A[m,k] * B[k,n]"], {"M": 31, "N": 17, "K": 23}, {"All": "int32"}),
    "uint8": (["Z[m] = max(A[m,n])"], {"M": 31, "N": 67}, {"All": "uint8"}),
    "one of everything": (["Z[m,n] = A[m,k] * B[k,n]"], {"M": 1, "N": 1, "K": 1}, {}),
    "whole sum": (["Z[o] = A[m,n] * B[n]"], {"M": 37, "N": 101, "O": 1}, {}),
}
"""Kind -> Einsums, sizes and element types."""

_NOW = """
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.program.building import Recipe, lowered


def written(spec, device):
    mapped, schedule = lowered(spec, device)
    return Recipe(ff.cascade(mapped), schedule, device, mapped).executable
"""
_FIRST_LAYOUT = """
from feinsum_fuse.cascade.names import chosen_names
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.generation import executable
from feinsum_fuse.device.program import lowered


def written(spec, device):
    mapped, schedule = lowered(spec, device)
    cascade = ff.cascade(mapped)
    arrays = chosen_names(cascade).arrays
    made = executable(schedule.apply(cascade.kernel()), outputs=[arrays[tensor] for tensor in cascade.outputs])
    return made.renamed({array: tensor for tensor, array in arrays.items()})
"""
_SERVE = """
import json, sys, warnings
warnings.simplefilter("ignore")
import feinsum_fuse as ff
{written}
for line in sys.stdin:
    asked = json.loads(line)
    try:
        answer = {{"text": written(ff.loads(asked["spec"]), find_device(asked["device"])).to_json()}}
    except ff.Error as error:
        answer = {{"refusal": type(error).__name__, "why": error.message}}
    except Exception as fault:
        answer = {{"refusal": "a fault", "why": repr(fault)}}
    print(json.dumps(answer), flush=True)
"""


@dataclass(frozen=True)
class Case:
    """A mapped workload, and what it is one of."""

    kind: str
    name: str
    spec: Spec


@dataclass(frozen=True)
class Ending:
    """How a case ended in one checkout on one device."""

    name: str
    """``ok``, another outcome, or the class of the refusal."""
    why: str = ""
    outputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    error: float = 0.0
    """Against the reference, in tolerances."""


class Writer:
    """A checkout's process, which makes programs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        written = _FIRST_LAYOUT if (root / "feinsum_fuse" / "device" / "generation.py").exists() else _NOW
        command = [sys.executable, "-c", _SERVE.format(written=written)]
        environment = {**os.environ, "PYTHONPATH": str(root)}
        self.process = subprocess.Popen(command, cwd=root, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def answer(self, spec: str, device: str) -> dict[str, str]:
        """``text``, an executable as JSON, or ``refusal`` and ``why``."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({"spec": spec, "device": device}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.root}: the process that writes its programs has ended ({self.process.wait()})")
        answer: dict[str, str] = json.loads(line)
        return answer


def cases(trees: int, family: int, seed: int) -> Iterator[Case]:
    """Random trees, ``family`` mappings of each of its workloads, and the examples'."""
    for tree in random_trees(trees, seed):
        yield Case(tree.kind, f"tree {tree.seed}", tree.spec)
    for kind, (lines, sizes, types) in FAMILY.items():
        space = default_space(ff.cascade(list(lines), sizes=dict(sizes), dtypes=dict(types) or {"All": "float32"}))
        for number, spec in enumerate(random_mappings(space, family, seed)):
            yield Case(f"family: {kind}", f"{kind} {number}", spec)
    for mapping in sorted(EXAMPLES.glob("*/mapping*.yaml")):
        example_name = mapping.parent.name
        own = mapping.parent / "arch.yaml"
        arch = own if own.exists() and "component: Core" not in mapping.read_text() else EXAMPLES / "cpu.yaml"
        for sizes in ({}, AWKWARD[example_name]):
            name = f"{example_name}/{mapping.stem}" + ("" if not sizes else " at awkward sizes")
            yield Case("examples", name, ff.load(mapping.parent / "workload.yaml", mapping, arch, variables=sizes))


def ending(answer: Mapping[str, str], cascade: Cascade, trial: Example, device: cl.Device) -> Ending:
    """What comes of a checkout's answer on a device."""
    if "refusal" in answer:
        return Ending(answer["refusal"], answer["why"])
    found = run_isolated(Executable.from_json(answer["text"]), trial.inputs, device, timeout_s=TIMEOUT_S)
    if found.outcome is not Outcome.ok:
        return Ending(found.outcome.name, found.message, found.outputs)
    verification = trial.judged(found.outputs, cascade.tolerance())
    error = max(tensor.error / (tensor.tolerance or 1.0) for tensor in verification.tensors)
    return Ending("ok" if verification.passed else "wrong_result", str(verification), found.outputs, error)


def apart(endings: Sequence[Ending], cascade: Cascade) -> float:
    """The largest distance of two results, in tolerances; those of nobody are 0 apart."""
    results = [found.outputs for found in endings if found.name == "ok"]
    errors = [verify(one, other, cascade.tolerance()).tensors for one, other in combinations(results, 2)]
    return max((error.error / (error.tolerance or 1.0) for pair in errors for error in pair), default=0.0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what ended otherwise, and a line for each kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="another checkout, such as a worktree of an older commit")
    parser.add_argument("--devices", nargs="+", default=["Portable", "Intel"], help="parts of their names")
    parser.add_argument("--trees", type=int, default=200)
    parser.add_argument("--family", type=int, default=2, help="mappings of each of its workloads")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="cases whose kind or name has this in it")
    chosen = parser.parse_intermixed_args(arguments)
    warnings.simplefilter("ignore")
    devices = {name: find_device(name) for name in chosen.devices}
    checkouts = {"now": Writer(HERE)} | ({"before": Writer(chosen.against.resolve())} if chosen.against else {})
    ends: dict[str, Counter[str]] = {}
    errors: dict[str, list[float]] = {}
    strange = 0
    for case in cases(chosen.trees, chosen.family, chosen.seed):
        if chosen.only not in case.kind and chosen.only not in case.name:
            continue
        cascade, text = ff.cascade(case.spec), case.spec.to_yaml()
        trial = example(cascade)
        found = {
            f"{checkout}, {name}": ending(writer.answer(text, name), cascade, trial, device)
            for name, device in devices.items()
            for checkout, writer in checkouts.items()
        }
        names = {end.name for end in found.values()}
        alike = len(names) == 1
        ends.setdefault(case.kind, Counter())[names.pop() if alike else "otherwise"] += 1
        distances = [max(end.error for end in found.values()), apart(list(found.values()), cascade)]
        errors[case.kind] = [max(pair) for pair in zip(errors.get(case.kind, [0.0, 0.0]), distances, strict=True)]
        if not alike or max(distances) > 1:
            strange += 1
            print(f"{case.kind}, {case.name}: {distances[1]:.2g} tolerances apart")
            print("\n".join(f"    {where}: {end.name} {' '.join(end.why.split())[:160]}" for where, end in found.items()), flush=True)
    _print(ends, errors)
    if strange:
        raise SystemExit(f"{strange} of {sum(map(Counter.total, ends.values()))} mappings do not end alike, or are wrong")


def _print(ends: Mapping[str, Counter[str]], errors: Mapping[str, Sequence[float]]) -> None:
    """A line for each kind, and one of all; errors and distances are in tolerances."""
    ended = sum(ends.values(), Counter[str]())
    names = ["ok", *sorted(set(ended) - {"ok", "otherwise"}), "otherwise"]
    largest = [max(pair) for pair in zip(*errors.values(), strict=True)]
    rows = [
        [kind, *(str(count[name]) for name in names), *(f"{error:.2g}" for error in found)]
        for kind, count, found in ((*of, errors[of[0]]) for of in ends.items())
    ]
    rows.append(["all", *(str(ended[name]) for name in names), *(f"{error:.2g}" for error in largest)])
    print(table(["kind", *names, "error", "apart"], rows, numbers=len(names) + 2))


if __name__ == "__main__":
    main()
