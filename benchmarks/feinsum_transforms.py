"""feinsum's own transforms on PoCL, beside our default mappings and NumPy, in the same turns and on the same data.

    python -m benchmarks.feinsum_transforms texts --python INTERPRETER [NAMES]
    python -m benchmarks.feinsum_transforms time|report [NAMES]

INTERPRETER has ``feinsum`` (Python 3.12 and later, ``pip install feinsum 'more-itertools<11'``). ``texts`` asks it for kernels at random
points of each transform's space (:mod:`benchmarks.feinsum_texts`), builds each here, compares its result with NumPy's, and keeps the
fastest. ``time`` takes that one in turns. Most transforms have float64 written into them; ``cogent`` takes any type. Results lie in
``benchmarks/foreign_data/feinsum.json``; texts of kernels are kept in ``--folder``, and not in the repository.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyopencl as cl

import feinsum_fuse as ff
from benchmarks.catalogue import BYTES, Entry, einsum_entry, entries
from feinsum_fuse.codegen.executable import Argument, Executable, Launch
from feinsum_fuse.device.catalogue import DeviceInfo, find_device
from feinsum_fuse.device.runtime.loaded_executable import Loaded, queue_of
from feinsum_fuse.device.timing.harness import HostFunction, measure_together
from feinsum_fuse.device.timing.resident import Resident
from feinsum_fuse.presentation import table

DATA = Path(__file__).with_name("foreign_data") / "feinsum.json"
TRANSFORMS = {
    "gradient": ("xre_rij_ej_to_xei", "xre,rij,ej->xei"),
    "divergence": ("xre_rij_xej_to_ei", "xre,rij,xej->ei"),
    "mass": ("e_ij_ej_to_ei_no_prftch", "e,ij,ej->ei"),
    "face-mass": ("ifj_fe_fej_to_ei", "ifj,fe,fej->ei"),
}
"""Operator -> the file of feinsum's that is for it, and the subscripts; ``e`` is symbolic."""
GIVEN = {"xre_rij_xej_to_ei": {"ndim": 3}}
"""What a file derives wrongly from its einsum: here it takes the whole shape of an operand for the number of dimensions."""
CONTRACTED = ("tccg-1", "tccg-10", "tccg-19", "tccg-31")
"""Contractions that ``cogent`` takes."""


@dataclass(frozen=True)
class Case:
    """A transform of feinsum's and an entry that it is for."""

    transform: str
    subscripts: str
    entry: Entry
    dtype: str = "float64"
    symbolic: str = "e"

    def asked(self, points: int, seconds: float) -> dict[str, Any]:
        """What the other interpreter is asked for."""
        sizes = {v.lower(): n for v, n in self.entry.sizes.items()}
        operands = self.subscripts.partition("->")[0].split(",")
        shapes = [["long" if v == self.symbolic else sizes[v] for v in operand] for operand in operands]
        long = sizes.get(self.symbolic, 0)
        space = {"shapes": shapes, "long": long, "points": points, "seconds": seconds, "given": GIVEN.get(self.transform, {})}
        return {"transform": self.transform, "subscripts": self.subscripts, "dtype": self.dtype, **space}


class Kernel(HostFunction):
    """A kernel of feinsum's with arrays of its own, to be run again and again."""

    lingers: ClassVar[bool] = False


def cases() -> dict[str, Case]:
    """All of them: operators of orders 1 to 4, a matrix on fields, a matrix times a vector, sums of rows, maps, contractions."""
    known = entries(BYTES)
    found = {
        f"{operator}-{order}": Case(file, subscripts, known[f"{operator}-{order}"])
        for operator, (file, subscripts) in TRANSFORMS.items()
        for order in range(1, 5)
    }
    others = {
        "matrix on fields": ("ij_ej_to_ei_no_prftch", "ij,ej->ei", {"i": 20, "j": 20, "e": BYTES // (16 * 20)}, "e"),
        "matrix times vector": ("ij_j_to_i", "ij,j->i", {"i": BYTES // (8 * 64), "j": 64}, "i"),
        "sums of rows": ("ij_to_i", "ij->i", {"i": BYTES // (8 * 64), "j": 64}, "i"),
        "product of two": ("ij_ij_to_ij", "ij,ij->ij", {"i": BYTES // (24 * 35), "j": 35}, "i"),
        "product of three axes": ("ijk_ijk_to_ijk", "ijk,ijk->ijk", {"i": 3, "j": BYTES // (24 * 105), "k": 35}, "j"),
    }
    for name, (file, subscripts, sizes, symbolic) in others.items():
        found[name] = Case(file, subscripts, einsum_entry(name, "feinsum", subscripts, sizes), symbolic=symbolic)
    for name in CONTRACTED:
        entry = known[name]
        line = entry.case.lines[0]
        output, *operands = ["".join(text.split("]")[0].split(",")) for text in line.split("[")[1:]]
        found[name] = Case("cogent", f"{','.join(operands)}->{output}", entry, "float32", "")
    return found


def arrays_of(case: Case) -> list[np.ndarray]:
    """Operands."""
    sizes = {v.lower(): n for v, n in case.entry.sizes.items()}
    generator = np.random.default_rng(1)
    operands = case.subscripts.partition("->")[0].split(",")
    return [generator.random([sizes[v] for v in operand]).astype(case.dtype) for operand in operands]


def resident(text: Mapping[str, Any], operands: list[np.ndarray], device: cl.Device) -> Resident:
    """A kernel of feinsum's, built, with its operands on the device; raises pyopencl's errors."""
    arguments = tuple(
        Argument(a["name"], a["dtype"], tuple(a["shape"]), "output" if a["is_output"] else "input") for a in text["arguments"]
    )
    names = tuple(a.name for a in arguments)
    launch = Launch(text["kernel"], tuple(text["global"]), tuple(text["local"]), names)
    queue = queue_of(device)
    inputs = {f"operand_{k}": array for k, array in enumerate(operands)}
    return Resident(Loaded(Executable(text["source"], (), arguments, (launch,)), queue.context), queue, inputs)


def tried(name: str, case: Case, answer: Mapping[str, Any]) -> tuple[dict[str, Any], Mapping[str, Any] | None]:
    """What became of a transform's points, and the fastest text that gives NumPy's result."""
    refused, found = Counter(answer["refused"]), list[tuple[float, int]]()
    for number, text in enumerate(answer["texts"]):
        with ProcessPoolExecutor(1, get_context("spawn")) as child:
            try:
                found.append((child.submit(seconds_of, name, text).result(), number))
            except BrokenProcessPool:  # a compiler's assertion ends its process
                refused["the process that built or ran it died"] += 1
            except (cl.Error, ValueError) as error:
                refused[f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"] += 1
    best = answer["texts"][min(found)[1]] if found else None
    shown = {"transform": case.transform, "subscripts": case.subscripts, "dtype": case.dtype, "sizes": dict(case.entry.sizes)}
    counts = {"points": len(answer["texts"]), "right": len(found), "refused": dict(refused), "outside": answer["outside"]}
    return {**shown, **counts, "parameters": best["parameters"] if best is not None else None}, best


def seconds_of(name: str, text: Mapping[str, Any]) -> float:
    """How long a kernel takes at the least; ValueError if its result is not NumPy's."""
    case = cases()[name]
    operands = arrays_of(case)
    kernel = resident(text, operands, find_device("pocl"))
    kernel.run(1)
    (found,) = kernel.outputs().values()
    expected = np.einsum(case.subscripts, *operands, optimize=True)
    if not np.allclose(found, expected, rtol=1e-4 if case.dtype == "float32" else 1e-10):
        raise ValueError("another result than NumPy's")
    times = []
    for _ in range(3):
        start = time.perf_counter()
        kernel.run(1)
        times.append(time.perf_counter() - start)
    return min(times)


def timed(case: Case, text: Mapping[str, Any], device: cl.Device) -> dict[str, Any]:
    """feinsum's kernel, our default mapping and NumPy in turns."""
    operands = arrays_of(case)
    kernel = resident(text, operands, device)
    program = ff.compile(ff.cascade(case.entry.lines(), sizes=dict(case.entry.sizes), dtypes={"All": case.dtype}), device)
    numpy = HostFunction("NumPy", lambda: np.einsum(case.subscripts, *operands, optimize=True))
    items = [Kernel("feinsum", lambda: kernel.run(1)), program, numpy]
    labels = ["feinsum", "default", "NumPy"]
    times = measure_together(items, device=device, labels=labels)
    medians = {name: one.median for name, one in zip(labels, times, strict=True)}
    return {"times_s": medians, "interference": max(one.interference or 0.0 for one in times)}


def report(known: Mapping[str, Mapping[str, Any]]) -> str:
    """A row for each case: what feinsum's transform takes, ours, and how many times as long."""
    rows, ratios = [], []
    for name, data in known.items():
        about = [name, data["transform"], data["dtype"], f"{data['right']} of {data['points']}"]
        if "times_s" not in data:
            refused = {**data["outside"], **data["refused"]}
            why = max(refused, key=lambda text: refused[text], default="no point was drawn") if not data["right"] else "to be timed"
            rows.append([*about, why, "", "", ""])
            continue
        theirs, ours, numpy = (data["times_s"][label] for label in ("feinsum", "default", "NumPy"))
        ratios.append(theirs / ours)
        rows.append([*about, *(f"{seconds * 1e3:.3g} ms" for seconds in (theirs, ours, numpy)), f"{theirs / ours:.2f}"])
    head = ["entry", "transform", "type", "right", "feinsum", "ours", "NumPy", "times as long"]
    mean = f"\n{statistics.geometric_mean(ratios):.2f} in the geometric mean of {len(ratios)}" if ratios else ""
    return table(head, rows, numbers=4) + mean


def main() -> None:
    """Ask for texts, time them, or report what is known."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.feinsum_transforms", description=__doc__)
    parser.add_argument("stage", choices=("texts", "time", "report"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--python", default="python3.12", help="an interpreter that has feinsum")
    parser.add_argument("--points", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=60.0, help="for the points of each transform")
    parser.add_argument("--again", action="store_true", help="also what is done")
    parser.add_argument("--folder", type=Path, default=Path("build") / "feinsum")
    options = parser.parse_intermixed_args()
    chosen = {name: case for name, case in cases().items() if not options.names or name in options.names}
    device = find_device("pocl")
    known = json.loads(DATA.read_text()) if DATA.exists() else {"device": str(DeviceInfo.of(device)), "cases": {}}
    for name, case in chosen.items() if options.stage != "report" else ():
        if name in known["cases"] and not options.again and (options.stage == "texts" or "times_s" in known["cases"][name]):
            continue
        file = options.folder / f"{name}.json"
        if options.stage == "texts":
            asked = json.dumps([case.asked(options.points, options.seconds)])
            script = str(Path(__file__).with_name("feinsum_texts.py"))
            done = subprocess.run([options.python, "-W", "ignore", script], input=asked, stdout=subprocess.PIPE, text=True, check=True)
            known["cases"][name], text = tried(name, case, json.loads(done.stdout)[0])
            options.folder.mkdir(parents=True, exist_ok=True)
            if text is not None:
                file.write_text(json.dumps(text))
        elif file.exists():
            known["cases"][name] |= timed(case, json.loads(file.read_text()), device)
        DATA.write_text(json.dumps(known, indent=1) + "\n")
        print(name, flush=True)
    print(report({name: data for name, data in known["cases"].items() if name in chosen}))


if __name__ == "__main__":
    main()
