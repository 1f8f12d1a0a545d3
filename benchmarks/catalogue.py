"""``python -m benchmarks.catalogue run|tune|sketch|time|floors|report [NAMES]``: entries, tuned by transforms, and their best peers.

``tune`` searches each entry for ``--seconds`` with ``ff.tune(..., transforms=True)`` from an empty archive, ``sketch`` only the parameters
of transforms by Optuna. ``time`` takes what they found, the default mapping and peers in turns, and ``run`` tunes and times (with
``--seconds 0`` nothing is tuned). One JSON file for each entry lies in ``benchmarks/catalogue_data/DEVICE``; what is there without an error
is skipped;
``floors`` computes the floors of entries that are there anew, by the calibration that the device has now;
``report`` prints tables and geometric means by class. ``--minutes`` ends a run after the entry that passes them; the next one goes on
with what is left. ``--picks`` takes so many entries of each class, evenly spread. NAMES are entries, classes (``tccg``, ``dg``, ``curl``,
``products``) or kinds of the suite. Peers are those of the suite that can be imported, or ``--peers`` of them. TCCG's contractions have
operands and result of ``--bytes`` together, in their proportions.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import pyopencl as cl

import feinsum_fuse as ff
from benchmarks.suite.__main__ import floors, peers
from benchmarks.suite.cases import CASES, Case
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.device.catalogue import DeviceInfo, find_device
from feinsum_fuse.device.checking.example import example
from feinsum_fuse.device.timing.harness import HostFunction, measure_together
from feinsum_fuse.presentation import table, yaml
from feinsum_fuse.tuning.tuned import WITHIN

DATA = Path(__file__).resolve().parent / "catalogue_data"
TCCG = DATA / "tccg.txt"
BYTES = 30 << 20
GOALS = {"dg": 3.0, "tccg": 1.0, "batched": 1.5, "softmax, norms": 1.2}
"""Class -> the ratio to the best peer that its geometric mean is to reach."""
OURS = ("tuned", "default", "transform")
"""What is not a peer's; the first of the others that was taken is compared with peers."""


@dataclass(frozen=True)
class Entry:
    """An einsum of a class, as peers know it, at its sizes."""

    case: Case
    kind: str
    sizes: Mapping[str, int]

    def lines(self) -> list[str]:
        """The Einsums at these sizes."""
        return self.case.einsums(self.sizes)

    def cascade(self) -> Cascade:
        """The cascade at these sizes."""
        return ff.cascade(self.lines(), sizes=dict(self.sizes))


def contractions(total: int) -> Iterator[tuple[str, str, dict[str, int]]]:
    """Name, subscripts and lengths of TCCG's contractions, whose tensors have ``total`` bytes of float32 together."""
    for line in TCCG.read_text().splitlines():
        if line.startswith("#") or not line.strip():
            continue
        number, tensors, lengths = (part.strip() for part in line.split(";"))
        output, *operands = tensors.split("-")
        given = dict(zip(sorted(set("".join(operands))), map(int, lengths.split()), strict=True))
        low, high = 0.0, 1.0
        for _ in range(40):
            share = (low + high) / 2
            scaled = {v: max(1, round(n * share)) for v, n in given.items()}
            low, high = (low, share) if 4 * sum(prod(scaled[v] for v in t) for t in (output, *operands)) > total else (share, high)
        yield f"tccg-{number}", f"{','.join(operands)}->{output}", {v: max(1, round(n * low)) for v, n in given.items()}


def einsum_entry(name: str, kind: str, subscripts: str, sizes: Mapping[str, int]) -> Entry:
    """An entry whose peers take ``einsum`` with these subscripts; operands are called A, B, C, ..."""
    operands, _, output = subscripts.partition("->")
    names = [f"{chr(65 + k)}in" for k in range(operands.count(",") + 1)]
    accesses = [f"{tensor}[{','.join(indices)}]" for tensor, indices in zip(names, operands.split(","), strict=True)]
    line = f"Zout[{','.join(output)}] = {' * '.join(accesses)}"

    def function(xp: Any, *arrays: Any) -> Any:
        return xp.einsum(subscripts, *arrays, optimize=True) if xp.__name__ == "numpy" else xp.einsum(subscripts, *arrays)

    extents = {v.upper(): n for v, n in sizes.items()}
    return Entry(Case(name, kind, GOALS.get(kind, 1.0), (line,), lambda random: dict(extents), tuple(names), function), kind, extents)


def entries(total: int = BYTES) -> dict[str, Entry]:
    """All entries: the suite's workloads, DG operators of orders 1 to 4 on tetrahedra, small products, and TCCG."""
    found = [Entry(case, case.kind, case.sizes(0)) for case in CASES]
    for order in range(1, 5):
        nodes, face = (order + 1) * (order + 2) * (order + 3) // 6, (order + 1) * (order + 2) // 2
        cells = total // (4 * 8 * nodes)
        sizes = {"e": cells, "i": nodes, "j": nodes, "r": 3, "x": 3}
        found.append(einsum_entry(f"gradient-{order}", "dg", "xre,rij,ej->xei", sizes))
        found.append(einsum_entry(f"divergence-{order}", "dg", "xre,rij,xej->ei", sizes))
        found.append(einsum_entry(f"curl-{order}", "curl", "xyz,yre,rij,zej->xei", {**sizes, "y": 3, "z": 3}))
        found.append(einsum_entry(f"mass-{order}", "dg", "e,ij,ej->ei", {v: sizes[v] for v in "eij"}))
        found.append(einsum_entry(f"face-mass-{order}", "dg", "ifj,fe,fej->ei", {"e": cells, "i": nodes, "f": 4, "j": face}))
    for side in (3, 8, 16):
        sizes = {"b": total // (12 * side * side), "m": side, "n": side, "k": side}
        found.append(einsum_entry(f"batched-{side}", "batched", "bmk,bkn->bmn", sizes))
    found += [einsum_entry(name, "tccg", subscripts, sizes) for name, subscripts, sizes in contractions(total)]
    return {entry.case.name: entry for entry in found}


def picked(chosen: list[Entry], most: int) -> list[Entry]:
    """At most so many entries of each class, evenly spread over it."""
    kinds: dict[str, list[Entry]] = {}
    for entry in chosen:
        kinds.setdefault(entry.kind, []).append(entry)
    return [own[k * len(own) // min(most, len(own))] for own in kinds.values() for k in range(min(most, len(own)))]


def described(entry: Entry) -> dict[str, Any]:
    """What an entry is, and the transforms that there are for it."""
    names = [transform.name for transform in ff.transforms_for(entry.cascade())]
    return {"entry": entry.case.name, "kind": entry.kind, "sizes": dict(entry.sizes), "transforms": names}


def tuned(entry: Entry, device: cl.Device, seconds: float) -> dict[str, Any]:
    """What tuning finds: a mapping, as text, and the transform that came nearest."""
    with tempfile.TemporaryDirectory() as folder:
        url = str(Path(folder) / "facts.sqlite3")
        found = ff.tune(entry.cascade(), device, seconds=seconds, measurements=1000, url=url, known=False, transforms=True)
    name, ratio = found.best_transform or (None, None)
    mapping = yaml(found.spec.replace(arch=None)) if found.spec is not None else None
    return {"mapping": mapping, "nearest_transform": name, "nearest_ratio": ratio, "measured": found.measured, "tuned_for_s": found.seconds}


def sketched(entry: Entry, device: cl.Device, seconds: float) -> dict[str, Any]:
    """What transforms alone make, their parameters tuned: the fastest mapping, as text, and the transform's name."""
    with tempfile.TemporaryDirectory() as folder:
        url = str(Path(folder) / "facts.sqlite3")
        found = ff.tune(entry.cascade(), device, seconds=seconds, url=url, known=False, transforms=True, search=False)
    nearest = found.nearest
    assert nearest is not None  # every entry has a transform
    return {"transform": nearest.transform, "transform_mapping": yaml(nearest.spec.replace(arch=None))}


def timed(entry: Entry, device: cl.Device, data: Mapping[str, Any], wanted: str) -> dict[str, Any]:
    """The time of what ``ff.compile`` takes (``default``), those of mappings that tuning has found, and those of peers in turns.

    Programs of one text are one program, which is timed once.
    """
    cascade = entry.cascade()
    programs = {"default": ff.compile(cascade, device)}
    for name, mapping in {"tuned": data.get("mapping"), "transform": data.get("transform_mapping")}.items():
        if mapping is not None:
            programs[name] = ff.compile(ff.loads(mapping), device)
    hosts = peers(entry.case, dict(example(cascade).inputs), wanted.split(",") if wanted else ())
    texts = {program.executable.source_hash: program for program in programs.values()}
    items = [*texts.values(), *(HostFunction(name, call) for name, call in hosts.items())]
    times = measure_together(items, device=device, labels=[*texts, *hosts])
    found = {label: one.median for label, one in zip([*texts, *hosts], times, strict=True)}
    medians = {name: found[program.executable.source_hash] for name, program in programs.items()} | {name: found[name] for name in hosts}
    interference = max(one.interference or 0.0 for one in times)
    return {"floor_s": floors(cascade, device)[0], "times_s": medians, "interference": interference}


def done(entry: Entry, data: dict[str, Any], device: cl.Device, options: argparse.Namespace) -> dict[str, Any]:
    """What is known of an entry after the stage that is asked for; an error that ends it is known then."""
    try:
        if options.stage == "tune" or (options.stage == "run" and options.seconds > 0):
            earlier = {name: seconds for name, seconds in data.get("times_s", {}).items() if name != "tuned"}
            data = {**data, "times_s": earlier, **described(entry), **tuned(entry, device, options.seconds)}
        if options.stage == "sketch":
            earlier = {name: seconds for name, seconds in data.get("times_s", {}).items() if name != "transform"}
            data = {**data, "times_s": earlier, **described(entry), **sketched(entry, device, options.seconds)}
        if options.stage in {"run", "time"}:
            data = {**data, **described(entry), **timed(entry, device, data, options.peers)}
    except ff.Error as error:  # the others are still to be done
        return {"entry": entry.case.name, "kind": entry.kind, "error": error.message, "times_s": {}}
    return data


def is_done(data: Mapping[str, Any], stage: str) -> bool:
    """Whether a stage of an entry is behind it."""
    if not data or "error" in data:
        return False
    if stage in {"tune", "sketch"}:
        return {"tune": "mapping", "sketch": "transform_mapping"}[stage] in data
    wanted = {"tuned": "mapping", "transform": "transform_mapping"}
    return bool(data["times_s"]) and all(name in data["times_s"] for name, key in wanted.items() if data.get(key) is not None)


def report(files: list[Path]) -> str:
    """A row for each entry, and the geometric mean of each class. How near the nearest transform comes is said by the turns, if it was in
    them, beside the faster of the tuned program and the default one, which tuning keeps; else by the search.
    """
    rows, ratios, near = [], dict[str, list[float]](), dict[str, list[float]]()
    for data in (json.loads(file.read_text()) for file in files):
        others = {name: seconds for name, seconds in data["times_s"].items() if name not in OURS}
        if "error" in data or not others:
            rows.append([data["entry"], data["kind"], data.get("error", "no peer"), *[""] * 6])
            continue
        kind = next(kind for kind in OURS if kind in data["times_s"])
        ours, best = data["times_s"][kind], min(others, key=lambda name: others[name])
        ratios.setdefault(data["kind"], []).append(others[best] / ours)
        transform = f"{data['nearest_transform']} {data['nearest_ratio']:.2f}" if data.get("nearest_transform") else "none"
        if {"tuned", "transform"} <= data["times_s"].keys():
            fastest = min(data["times_s"]["tuned"], data["times_s"]["default"])
            near.setdefault(data["kind"], []).append(data["times_s"]["transform"] / fastest)
            transform = f"{data['transform']} {near[data['kind']][-1]:.2f}"
        numbers = [f"{ours * 1e3:.3g} ms", f"{others[best] / ours:.2f}", f"{data['floor_s'] / ours:.2f}", f"{data['interference']:.0%}"]
        rows.append([data["entry"], data["kind"], f"{best} {others[best] * 1e3:.3g} ms", transform, kind, *numbers])
    head = ["entry", "class", "best peer", "nearest transform", "ours", "time", "ratio", "floor", "others"]
    lines = [table(head, rows, numbers=4), ""]
    for kind, found in ratios.items():
        goal = f", to reach {GOALS[kind]:g}" if kind in GOALS else ""
        lines.append(f"{kind}: {statistics.geometric_mean(found):.2f} in the geometric mean of {len(found)}{goal}")
        if kind in near:
            within = sum(ratio <= WITHIN for ratio in near[kind])
            lines.append(f"{kind}: a transform takes at most {WITHIN} times as long as the fastest in {within} of {len(near[kind])}")
    return "\n".join(lines)


def main() -> None:
    """Run or report the entries that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.catalogue", description=__doc__)
    parser.add_argument("stage", choices=("run", "tune", "sketch", "time", "floors", "report", "list"))
    parser.add_argument("names", nargs="*", help="entries or classes; all of them by default")
    parser.add_argument("--device", default=None)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--bytes", type=int, default=BYTES, help="of all tensors of an entry that is not the suite's")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="entries begin for so long")
    parser.add_argument("--picks", type=int, default=None, help="entries of each class at most")
    parser.add_argument("--peers", default="", help="their names with commas between them; all of them by default")
    parser.add_argument("--again", action="store_true", help="also the entries that are done")
    options = parser.parse_intermixed_args()
    known = entries(options.bytes)
    chosen = [e for name, e in known.items() if not options.names or name in options.names or e.kind in options.names]
    chosen = picked(chosen, options.picks) if options.picks else chosen
    if options.stage == "list":
        print("\n".join(f"{e.case.name} ({e.kind}): {'; '.join(e.case.lines)}" for e in chosen))
        return
    device = find_device(options.device)
    folder = DATA / DeviceInfo.of(device).slug
    folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * options.minutes
    files = [folder / f"{entry.case.name}.json" for entry in chosen]
    for entry, file in zip(chosen, files, strict=True) if options.stage in {"run", "tune", "sketch", "time"} else ():
        data = json.loads(file.read_text()) if file.exists() else {}
        if is_done(data, options.stage) and not options.again:
            continue
        if time.monotonic() > end:
            print("time is up; the next run goes on here", flush=True)
            break
        print(entry.case.name, flush=True)
        file.write_text(json.dumps(done(entry, data, device, options), indent=1) + "\n")
    if options.stage == "floors":
        for entry, file in zip(chosen, files, strict=True):
            if file.exists() and "error" not in (data := json.loads(file.read_text())):
                file.write_text(json.dumps({**data, "floor_s": floors(entry.cascade(), device)[0]}, indent=1) + "\n")
    print(report([file for file in files if file.exists()]))


if __name__ == "__main__":
    main()
