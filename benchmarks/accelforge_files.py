"""AccelForge's own files, over a checkout of its repository: what it loads loads here, and what it evaluates is predicted alike.

``python -m benchmarks.accelforge_files draw CHECKOUT | PYTHON benchmarks/accelforge_figures.py CHECKOUT | gzip -n > FIGURES`` asks
AccelForge, where PYTHON is an interpreter 3.12 with the package ``accelforge`` (that of the checkout, by ``PYTHONPATH=CHECKOUT``) and
FIGURES is ``benchmarks/accelforge_data/files_figures.jsonl.gz``. ``python -m benchmarks.accelforge_files judge CHECKOUT`` compares, and
writes the counts with the commit and the causes of all that differs to ``benchmarks/accelforge_data/files.json``.

Each file is loaded alone, with a value for each of its template variables; the macros of computing in memory by their top keys, as
AccelForge's own script loads them. Architectures are then loaded with workloads, and evaluated with a mapping: theirs, or a plain one that
:func:`plain_mapping` makes.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import feinsum_fuse as ff
from benchmarks.accelforge_cases import disagreements
from feinsum_fuse.formats.arch import Arch, Compute, Fanout, Leaf, Memory
from feinsum_fuse.formats.checking.constraint_check import broken_by
from feinsum_fuse.formats.mapping import Compute as ComputeNode
from feinsum_fuse.formats.mapping import Mapping, Nested, Node, Sequential, Spatial, Storage, Temporal
from feinsum_fuse.formats.sets import tensor_set
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.formats.workload import WorkloadEinsum
from feinsum_fuse.formats.writing.writer import mapping_text

DATA = Path(__file__).with_name("accelforge_data")
COUNTS, FIGURES = DATA / "files.json", DATA / "files_figures.jsonl.gz"
COMMIT = "1c1929c2"
"""The commit of AccelForge's repository that the figures are of."""
VARIABLES: dict[str, object] = {
    "N_EINSUMS": 2,
    "M": 64,
    "KN": 64,
    "M_TILE": 4,
    "MAC_TILE": 2,
    "BATCH_SIZE": 2,
    "N_NEW_TOKENS": 64,
    "N_CACHED_TOKENS": 64,
    "DECODE": False,
    "ATTENTION_TYPE": "grouped_query",
    "N_HEADS": 4,
    "N_Q_HEADS_PER_KV_HEAD": 2,
    "N_EMB_PER_HEAD": 16,
    "N_HIDDEN_DIMS": 128,
    "N_FF_DIMS": 256,
    "N_SHARED_FF_DIMS": 128,
    "N_EXPERTS": 8,
    "N_EXPERTS_PER_TOKEN": 2,
    "MAX_N_TOKENS": 4096,
    "N_V_DIMS": 16,
    "N_Q_LATENT": 32,
    "N_KV_LATENT": 32,
    "CHUNK_SIZE": 16,
    "N_CHUNK_TOKENS": 16,
}
"""A value for each variable of the templates."""
MACROS = "examples/arches/compute_in_memory"
MACRO_KEYS = ("arch", "variables", "workload")
NETWORKED = "tests/network/input_files/networked"
THEIRS = [
    *(
        (f"examples/arches/{arch}.yaml", "examples/workloads/basic/matmuls.yaml", f"examples/mappings/{mapping}_matmuls_to_simple.yaml")
        for arch in ("simple", "snowcat")
        for mapping in ("unfused", "fused")
    ),
    *(
        ("examples/arches/simple.yaml", "examples/workloads/basic/matvecs.yaml", f"examples/mappings/{kind}_matvecs_to_simple{tiles}.yaml")
        for kind, tiles in (("unfused", ""), ("fused", "_untiled"), ("fused", "_tiled"), ("fused", "_tiled_reuse_A"))
    ),
    *(
        (f"{NETWORKED}/{arch}.yaml", "examples/workloads/basic/matmuls.yaml", f"{NETWORKED}/one_matmul_to_{mapping}.yaml")
        for arch, mapping in (
            ("hierarchical", "networked_hierarchical"),
            ("hierarchical_1d", "networked_hierarchical_1d"),
            ("hierarchical_1d_all_to_all", "networked_hierarchical_1d"),
            ("flat", "flat"),
        )
    ),
]
"""Files with a mapping of AccelForge's own."""
WORKLOADS = (
    "basic/matmuls",
    "basic/matvecs",
    "basic/three_matmuls_annotated",
    "cnns/mobilenet/mobilenet_28",
    "compute_in_memory/resnet18",
    "transformers/gpt/gpt3_6.7B",
    "transformers/llama/llama3_8B",
    "transformers/llama/llama4_scout",
    "transformers/mixtral/mixtral8x22B",
    "transformers/deepseek/deepseek_v3_671B",
    "transformers/qwen/qwen3_8B",
    "transformers/mamba/mamba",
)


@dataclass(frozen=True)
class Item:
    """Files that are loaded together."""

    name: str
    files: tuple[str, ...]
    variables: dict[str, object] = field(default_factory=dict)
    top_keys: tuple[str, ...] = ()
    evaluate: bool = False
    text: str = ""
    """A mapping that no file holds."""

    def spec(self, checkout: Path) -> Spec:
        """What they say, to us."""
        with tempfile.TemporaryDirectory() as folder:
            files = [checkout / file for file in self.files]
            if self.text:
                files.append(Path(folder) / "mapping.yaml")
                files[-1].write_text(self.text)
            return ff.load(*files, variables=self.variables, top_keys=self.top_keys)


def items(checkout: Path) -> Iterator[Item]:
    """All that is asked; mappings are made for what loads here."""
    for path in sorted((*checkout.glob("examples/**/*.yaml"), *checkout.glob("tests/**/*.yaml"))):
        file = str(path.relative_to(checkout))
        yield Item(file, (file,), VARIABLES)
        if path.parent == checkout / MACROS and not path.name.startswith("_"):
            yield Item(f"{file} by top keys", (file,), VARIABLES, MACRO_KEYS)
    for files in THEIRS:
        small = {"N_EINSUMS": 1, "M": 8, "KN": 4 if files[0].endswith("hierarchical.yaml") else 8} if NETWORKED in files[0] else {}
        yield Item(" + ".join(Path(file).stem for file in files), files, {**VARIABLES, **small}, (), True)
    arches = sorted((*checkout.glob("examples/arches/*.yaml"), *checkout.glob("examples/arches/fanout_variations/*.yaml")))
    for arch in arches:
        for workload in WORKLOADS:
            files = (str(arch.relative_to(checkout)), f"examples/workloads/{workload}.yaml")
            yield _paired(Item(f"{arch.stem} + {Path(workload).name}", files, VARIABLES, (), True), checkout)


def _paired(item: Item, checkout: Path) -> Item:
    try:
        spec = item.spec(checkout)
        return Item(item.name, item.files, item.variables, (), True, mapping_text(plain_mapping(spec)))
    except ff.Error:
        return Item(item.name, item.files, item.variables)


def plain_mapping(spec: Spec) -> Mapping:
    """A mapping without fusion: everything lives in the outermost memory, and each Einsum goes through the rest on its own.

    Inner memories hold what they must, above the last loop; each fanout is used by the first variable that its ``reuse`` allows.
    """
    assert spec.arch is not None
    outermost = next(leaf for leaf in spec.arch.components if isinstance(leaf, Memory))
    branches = tuple(Nested(tuple(_branch(spec, spec.arch, outermost, einsum))) for einsum in spec.workload.einsums)
    return Mapping((Storage(spec.workload.tensors, outermost.name), Sequential(branches)))


def _branch(spec: Spec, arch: Arch, outermost: Memory, einsum: WorkloadEinsum) -> list[Node]:
    unit = _unit(spec, arch, einsum)
    current = {v: size for v, size in einsum.bounds.items() if size > 1}
    nodes: list[Node] = [Temporal(variable, 1) for variable in list(current)[:-1]]
    for loop in nodes:
        assert isinstance(loop, Temporal) and isinstance(loop.rank_variable, str)
        current[loop.rank_variable] = 1
    for leaf in arch.path(unit.name) if not einsum.is_copy_operation else ():
        for fanout in leaf.spatial:
            nodes += _spread(spec, einsum, leaf, fanout, current)
        if isinstance(leaf, Memory) and leaf is not outermost:
            nodes += [Storage((tensor,), leaf.name) for tensor in einsum.tensors if tensor in _kept(spec, einsum, leaf)]
    nodes += [Temporal(variable, 1) for variable, tile in current.items() if tile > 1]
    return [*nodes, ComputeNode(einsum.name, unit.name)]


def _unit(spec: Spec, arch: Arch, einsum: WorkloadEinsum) -> Compute:
    """The first unit that is enabled for the Einsum: one whose use breaks nothing."""
    units = [leaf for leaf in arch.components if isinstance(leaf, Compute)]
    main = next(leaf for leaf in arch.components if isinstance(leaf, Memory)).name
    for unit in units:
        loops = tuple(Temporal(v, 1) for v, size in einsum.bounds.items() if size > 1)
        alone = Mapping((Storage(einsum.tensors, main), *loops, ComputeNode(einsum.name, unit.name)))
        one = Spec(spec.workload, arch, alone, variables=spec.variables)
        if not any(broken.field == ("enabled",) for broken in broken_by(one)):
            return unit
    return units[-1]


def _spread(spec: Spec, einsum: WorkloadEinsum, leaf: Leaf, fanout: Fanout, current: dict[str, int]) -> list[Node]:
    reused = tensor_set(fanout.reuse, spec.workload, einsum.name)
    moved = {v for access in einsum.tensor_accesses if access.name in reused for v in access.rank_variables}
    for variable, tile in current.items():
        ways = max(d for d in range(1, min(tile, fanout.fanout) + 1) if tile % d == 0)
        if variable not in moved and ways > 1:
            current[variable] = tile // ways
            return [Spatial(variable, tile // ways, None, fanout.name, leaf.name)]
    return []


def _kept(spec: Spec, einsum: WorkloadEinsum, memory: Memory) -> frozenset[str]:
    try:
        return tensor_set(memory.tensors.keep or "Nothing", spec.workload, einsum.name)
    except ff.Error:
        return frozenset()


def judge(checkout: Path, figures: Path = FIGURES) -> dict[str, object]:
    """How many of what AccelForge loads and evaluates load and agree here; the causes of the rest."""
    counts: Counter[str] = Counter()
    rest: dict[str, list[str]] = {}
    rows = {row["name"]: row for row in map(json.loads, gzip.decompress(figures.read_bytes()).decode().splitlines())}
    for item in items(checkout):
        row = rows[item.name]
        if not row.get("loaded"):
            counts["files that AccelForge refuses"] += 1
            continue
        counts["loaded by AccelForge"] += 1
        counts["evaluated by AccelForge"] += "figures" in row
        try:
            spec = item.spec(checkout)
        except ff.Error as error:
            rest.setdefault(f"not loaded: {error.message}"[:160], []).append(item.name)
            continue
        counts["loaded here"] += 1
        if "figures" in row:
            cause = _compared(spec, row["figures"])
            counts["predicted alike"] += not cause
            if cause:
                rest.setdefault(cause, []).append(item.name)
    return {"commit": COMMIT, "counts": dict(counts), "rest": rest}


def _compared(spec: Spec, right: dict[str, float]) -> str:
    """Why a prediction is not AccelForge's; nothing if it is."""
    try:
        wrong = disagreements(spec, right)
    except ff.Error as error:
        return f"not predicted: {error.message}"[:160]
    return f"differs: {wrong[0]}, and {len(wrong) - 1} more" if wrong else ""


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=["draw", "judge"])
    parser.add_argument("checkout", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.verb == "judge":
        found = judge(given.checkout)
        COUNTS.write_text(json.dumps(found, indent=1) + "\n")
        print(json.dumps(found, indent=1))
        return
    for item in items(given.checkout):
        print(json.dumps(item.__dict__))


if __name__ == "__main__":
    main()
