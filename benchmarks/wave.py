"""A discontinuous Galerkin wave operator as array contexts generate it, through :mod:`feinsum_fuse.arraycontext` and by their own ways.

    python -m benchmarks.wave [--orders 1 2 3 4] [--dofs 60000] [--dtype float64 ...] [--repeats 5] [--data FILE]

The operator is that of grudge's wave equation, ``u' = -div v``, ``v' = -grad u`` with upwind fluxes on tetrahedra: values at the nodes of a
face and of the neighbour's are gathered through index arrays, everything else is einsums. It is one program of six instructions with the
names that pytato gives. It runs as it is generated (which is what meshmode's context for pytato leaves it at), by meshmode's
transformation for loops over elements and nodes (groups, and 32 work-items), and as ``transform_loopy_program`` gives it back without and
with the second as ``own``. Results are compared with NumPy's. The mesh is a periodic one of as many elements as give the operator so many
``--dofs``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
import warnings
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import loopy as lp
import numpy as np
from loopy.kernel.data import HardwareConcurrentTag

from feinsum_fuse.arraycontext import transformed
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.device.catalogue import DeviceInfo, find_device, target_of
from feinsum_fuse.device.program.runner import Runner
from feinsum_fuse.device.timing.turns import turns

DATA = Path(__file__).with_name("foreign_data") / "wave.json"
FACES = 4
CLOSE = {"float32": 1e-4, "float64": 1e-12}
"""Relative to the largest magnitude."""


@dataclass(frozen=True)
class Wave:
    """The operator on so many elements."""

    order: int
    elements: int
    dtype: str

    @property
    def nodes(self) -> int:
        """Of an element."""
        n = self.order
        return (n + 1) * (n + 2) * (n + 3) // 6

    @property
    def face_nodes(self) -> int:
        """Of a face."""
        return (self.order + 1) * (self.order + 2) // 2

    def kernel(self) -> lp.TranslationUnit:
        """The program; loops ``iel...`` run over elements, ``idof...`` over nodes."""
        e, n, f = self.elements, self.nodes, self.face_nodes
        trace = f"0 <= face_NAME < {FACES} and 0 <= iel_NAME < {e} and 0 <= idof_NAME < {f}"
        element = f"0 <= iel_NAME < {e} and 0 <= idof_NAME, j_NAME < {n} and 0 <= x_NAME, r_NAME < 3"
        lifted = f"0 <= g_NAME < {FACES} and 0 <= m_NAME < {f}"
        boxes = {
            "jump_u": ("face_NAME, iel_NAME, idof_NAME", trace),
            "jump_v": ("face_NAME, iel_NAME, idof_NAME, x_NAME", f"{trace} and 0 <= x_NAME < 3"),
            "flux_u": ("face_NAME, iel_NAME, idof_NAME", trace),
            "flux_v": ("x_NAME, face_NAME, iel_NAME, idof_NAME", f"{trace} and 0 <= x_NAME < 3"),
            "rhs_u": ("iel_NAME, idof_NAME, x_NAME, r_NAME, j_NAME, g_NAME, m_NAME", f"{element} and {lifted}"),
            "rhs_v": ("x_NAME, iel_NAME, idof_NAME, r_NAME, j_NAME, g_NAME, m_NAME", f"{element} and {lifted}"),
        }
        domains = [f"{{ [{loops}] : {box} }}".replace("NAME", name) for name, (loops, box) in boxes.items()]
        return lp.make_kernel(domains, _TEXT, self._arguments(), name="wave", lang_version=(2018, 2), options=lp.Options(return_dict=True))

    def _arguments(self) -> list[Any]:
        e, n, f, real = self.elements, self.nodes, self.face_nodes, np.dtype(self.dtype)
        state = {"u": (e, n), "v": (3, e, n)}
        operators = {"geo": (3, 3, e), "D": (3, n, n), "L": (n, FACES, f), "scale": (FACES, e), "normal": (3, FACES, e)}
        held = {"jump_u": (FACES, e, f), "jump_v": (FACES, e, f), "flux_u": (FACES, e, f), "flux_v": (3, FACES, e, f)}
        indices = {"own": (FACES, f), "neighbour": (FACES, e), "opposite": (FACES, e, f)}
        return [
            *(lp.GlobalArg(name, real, shape=shape) for name, shape in (state | operators).items()),
            *(lp.GlobalArg(name, np.int32, shape=shape) for name, shape in indices.items()),
            *(lp.GlobalArg(name, real, shape=shape, is_input=False) for name, shape in (("rhs_u", (e, n)), ("rhs_v", (3, e, n)))),
            *(lp.TemporaryVariable(name, real, shape=shape, address_space=lp.AddressSpace.GLOBAL) for name, shape in held.items()),
        ]

    def arrays(self) -> dict[str, np.ndarray]:
        """A state, an operator and a mesh: each face's neighbour is across it, its nodes in another order."""
        rng = np.random.default_rng(self.order)
        arrays = {a.name: rng.standard_normal(a.shape).astype(a.dtype.numpy_dtype) for a in self._arguments() if _is_real_input(a)}
        own = np.array([rng.choice(self.nodes, self.face_nodes, replace=False) for _ in range(FACES)], np.int32)
        row = max(2, round(self.elements**0.5))
        steps = np.array([1, -1, row, -row])
        neighbour = (np.arange(self.elements) + steps[:, None]) % self.elements
        turned = rng.permuted(np.tile(np.arange(self.face_nodes), (FACES, self.elements, 1)), axis=2)
        opposite = own[np.arange(FACES)[:, None, None] ^ 1, turned]
        return {**arrays, "own": own, "neighbour": neighbour.astype(np.int32), "opposite": opposite}


_TEXT = """
jump_u[face_jump_u, iel_jump_u, idof_jump_u] = u[iel_jump_u, own[face_jump_u, idof_jump_u]] \
    - u[neighbour[face_jump_u, iel_jump_u], opposite[face_jump_u, iel_jump_u, idof_jump_u]] {id=jump_u}
jump_v[face_jump_v, iel_jump_v, idof_jump_v] = sum(x_jump_v, normal[x_jump_v, face_jump_v, iel_jump_v] \
    *(v[x_jump_v, iel_jump_v, own[face_jump_v, idof_jump_v]] \
    - v[x_jump_v, neighbour[face_jump_v, iel_jump_v], opposite[face_jump_v, iel_jump_v, idof_jump_v]])) {id=jump_v}
flux_u[face_flux_u, iel_flux_u, idof_flux_u] = 0.5*scale[face_flux_u, iel_flux_u] \
    *(jump_v[face_flux_u, iel_flux_u, idof_flux_u] - jump_u[face_flux_u, iel_flux_u, idof_flux_u]) {id=flux_u, dep=jump_*}
flux_v[x_flux_v, face_flux_v, iel_flux_v, idof_flux_v] = 0.5*scale[face_flux_v, iel_flux_v]*normal[x_flux_v, face_flux_v, iel_flux_v] \
    *(jump_u[face_flux_v, iel_flux_v, idof_flux_v] - jump_v[face_flux_v, iel_flux_v, idof_flux_v]) {id=flux_v, dep=jump_*}
rhs_u[iel_rhs_u, idof_rhs_u] = -1*sum([x_rhs_u, r_rhs_u, j_rhs_u], \
    geo[x_rhs_u, r_rhs_u, iel_rhs_u]*D[r_rhs_u, idof_rhs_u, j_rhs_u]*v[x_rhs_u, iel_rhs_u, j_rhs_u]) \
    + sum([g_rhs_u, m_rhs_u], L[idof_rhs_u, g_rhs_u, m_rhs_u]*flux_u[g_rhs_u, iel_rhs_u, m_rhs_u]) {id=rhs_u, dep=flux_u}
rhs_v[x_rhs_v, iel_rhs_v, idof_rhs_v] = -1*sum([r_rhs_v, j_rhs_v], \
    geo[x_rhs_v, r_rhs_v, iel_rhs_v]*D[r_rhs_v, idof_rhs_v, j_rhs_v]*u[iel_rhs_v, j_rhs_v]) \
    + sum([g_rhs_v, m_rhs_v], L[idof_rhs_v, g_rhs_v, m_rhs_v]*flux_v[x_rhs_v, g_rhs_v, iel_rhs_v, m_rhs_v]) {id=rhs_v, dep=flux_v}
"""


def _is_real_input(argument: Any) -> bool:
    return isinstance(argument, lp.ArrayArg) and argument.dtype.numpy_dtype.kind == "f" and not argument.name.startswith("rhs")


def expected(a: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What the operator computes, by NumPy."""
    elements = np.arange(a["u"].shape[0])[:, None]
    u_own = np.stack([a["u"][elements, a["own"][face]] for face in range(FACES)])
    u_other = a["u"][a["neighbour"][:, :, None], a["opposite"]]
    v_own = np.stack([a["v"][:, elements, a["own"][face]] for face in range(FACES)], axis=1)
    v_other = a["v"][:, a["neighbour"][:, :, None], a["opposite"]]
    jump_u, jump_v = u_own - u_other, np.einsum("xfe,xfen->fen", a["normal"], v_own - v_other)
    flux = 0.5 * a["scale"][:, :, None] * (jump_v - jump_u)
    inside_u = np.einsum("xre,rij,xej->ei", a["geo"], a["D"], a["v"], optimize=True)
    inside_v = np.einsum("xre,rij,ej->xei", a["geo"], a["D"], a["u"], optimize=True)
    lifted_v = np.einsum("ifn,xfe,fen->xei", a["L"], a["normal"], -flux, optimize=True)
    return {"rhs_u": np.einsum("ifn,fen->ei", a["L"], flux, optimize=True) - inside_u, "rhs_v": lifted_v - inside_v}


def as_meshmode(t_unit: lp.TranslationUnit) -> lp.TranslationUnit:
    """What meshmode's context does to a kernel of elements and nodes: elements on groups, nodes on 32 work-items.

    It does so to one instruction at a time; in one program each has to see all that those before it wrote.
    """
    entry = t_unit.default_entrypoint
    for iname in sorted(entry.all_inames()):
        if iname.startswith("idof"):
            t_unit = lp.split_iname(t_unit, iname, 32, inner_tag="l.0")
        elif iname.startswith("iel"):
            t_unit = lp.tag_inames(t_unit, {iname: "g.0"})
    for first, second in pairwise(entry.instructions):
        t_unit = lp.add_barrier(t_unit, f"id:{first.id}", f"id:{second.id}")
    return t_unit


def error(found: dict[str, np.ndarray], right: dict[str, np.ndarray]) -> float:
    """The largest one, relative to the largest magnitude."""
    return max(float(np.abs(found[name] - value).max() / np.abs(value).max()) for name, value in right.items())


def measured(wave: Wave, repeats: int) -> dict[str, Any]:
    """Milliseconds of each way, and what ours was."""
    device = find_device("portable")
    info = DeviceInfo.of(device)
    kernel, arrays = wave.kernel(), wave.arrays()
    right = expected({name: value.astype(np.float64) if value.dtype.kind == "f" else value for name, value in arrays.items()})
    ways, how, spent = {"as generated": kernel, "meshmode's": as_meshmode(kernel)}, {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for name, own in (("ours", None), ("ours, with theirs as own", as_meshmode)):
            start = time.perf_counter()
            found = transformed(kernel, device, own=own, url=f"sqlite:///{folder}/facts.db")
            ways[name], how[name], spent[name] = found.kernel, repr(found), round(time.perf_counter() - start, 2)
    runners = [Runner(executable(unit, target=target_of(info)), device) for unit in ways.values()]
    errors = [error(runner(dict(arrays)), right) for runner in runners]
    taken = [statistics.median(times) for times in turns([partial(runner, arrays) for runner in runners], repeats)]
    first = taken[0]
    return {
        "elements": wave.elements,
        "nodes": wave.nodes,
        "ms": {name: round(1e3 * seconds, 3) for name, seconds in zip(ways, taken, strict=True)},
        "times as fast as generated": {name: round(first / seconds, 2) for name, seconds in zip(ways, taken, strict=True)},
        "times as fast as meshmode's": round(taken[1] / min(taken[2:]), 2),
        "errors": {name: float(f"{value:.1e}") for name, value in zip(ways, errors, strict=True)},
        "right": all(value < CLOSE[wave.dtype] for value in errors),
        "parallel loops in ours": _parallel(ways["ours"]),
        "how": how,
        "transforming_s": spent,
    }


def _parallel(t_unit: lp.TranslationUnit) -> int:
    return sum(bool(iname.tags_of_type(HardwareConcurrentTag)) for iname in t_unit.default_entrypoint.inames.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", nargs="+", type=int, default=[1, 2, 3, 4])
    parser.add_argument("--dofs", type=int, default=60_000)
    parser.add_argument("--dtype", nargs="+", choices=CLOSE, default=["float64"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--data", type=Path, default=DATA)
    given = parser.parse_intermixed_args()
    warnings.simplefilter("ignore")
    data = json.loads(given.data.read_text(encoding="utf-8")) if given.data.exists() else {}
    for dtype in given.dtype:
        for order in given.orders:
            wave = Wave(order, 1, dtype)
            wave = Wave(order, max(8, given.dofs // wave.nodes), dtype)
            found = data[f"order {order}, {dtype}"] = measured(wave, given.repeats)
            print(f"order {order}, {dtype}: {found['ms']} ms, right: {found['right']}, {found['how']['ours'].splitlines()[0]}")
            given.data.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
