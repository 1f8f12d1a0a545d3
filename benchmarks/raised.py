"""How many kernels ``ff.raise_mapping`` gives the LoopTree of: ``python -m benchmarks.raised count [--trees 250] [--first 0 5000]``.

Three kinds are counted. The mappings of the examples, and random trees, so many from each of these seeds on: each is lowered to a kernel,
and its tree comes back if it lowers to the same text. And kernels of somebody else's, those of :mod:`~benchmarks.foreign_cases` as they are
written and as compilers put their loops on groups and work-items: there a tree counts that can be lowered, without an architecture, and
whose time is predicted, onto a processor's calibration. Nothing runs and nothing is timed. What is refused is listed with its reason.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import loopy as lp

import feinsum_fuse as ff
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.errors import Error, MatchError
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.presentation import table
from tests.generators.trees import random_tree

from .foreign_cases import CASES, parallelised

RAISED = "raised"
OTHER_TEXT = "another text"
"""What may not happen: the raised tree lowers to another kernel."""
NO_KERNEL = "no kernel"
"""A mapping that lowering refuses says nothing of raising."""
DATA = Path(__file__).with_name("raised.json")
PROCESSOR = Path(__file__).parent / "fidelity" / "data" / "epyc_zen5.3" / "device.yaml"
"""As ``feinsum-fuse calibrate`` wrote it."""
EXAMPLES = Path(__file__).parent.parent / "examples"


def _lowered(spec: Spec) -> lp.TranslationUnit:
    return ff.lower(spec).apply(ff.cascade(spec).kernel())


def of_spec(spec: Spec) -> str:
    """What becomes of the kernel of a mapping: one of the words above, or why it is refused."""
    try:
        kernel = _lowered(spec)
    except Error:
        return NO_KERNEL
    try:
        again = _lowered(ff.raise_mapping(kernel))
    except MatchError as error:
        return error.message
    same = str(again) == str(kernel) or executable(again).source == executable(kernel).source
    return RAISED if same else OTHER_TEXT


def of_foreign(kernel: lp.TranslationUnit, onto: Spec | None = None) -> str:
    """The same of a kernel that was not made here; onto a measured architecture its time must be predicted, too."""
    try:
        raised = ff.raise_mapping(kernel, onto)
        _lowered(raised)
        if onto is not None:
            ff.predict(raised)
    except Error as error:
        return error.message
    return RAISED


def outcomes(trees: Sequence[range]) -> Iterator[tuple[str, str, str]]:
    """(kind of kernel, its name, outcome)."""
    for arch, mapping in product(("cpu", "gpu", "own"), sorted(EXAMPLES.glob("*/mapping*.yaml"))):
        architecture = mapping.parent / "arch.yaml" if arch == "own" else EXAMPLES / f"{arch}.yaml"
        with contextlib.suppress(Error):  # a mapping that names another architecture's components
            spec = ff.load(mapping.parent / "workload.yaml", mapping, architecture)
            yield f"examples, {arch}", f"{mapping.parent.name}/{mapping.stem}", of_spec(spec)
    forms: dict[str, Callable[[lp.TranslationUnit], lp.TranslationUnit]] = {"as written": lambda kernel: kernel, "on groups": parallelised}
    for seeds in trees:
        for seed in seeds:
            yield f"random trees from {seeds.start}", str(seed), of_spec(random_tree(seed).spec)
    processor = ff.load(PROCESSOR)
    for form, changed in forms.items():
        for name, case in CASES.items():
            yield f"foreign, {form}", name, of_foreign(changed(case.kernel()))
            yield f"foreign, {form}, predicted for a processor", name, of_foreign(changed(case.kernel()), processor)


def report(found: list[tuple[str, str, str]]) -> str:
    """Counts by kind, and what is refused."""
    rows = []
    for kind in dict.fromkeys(kind for kind, _, _ in found):
        counted = Counter(
            outcome if outcome in (RAISED, OTHER_TEXT) else "refused" for k, _, outcome in found if k == kind and outcome != NO_KERNEL
        )
        rows.append((kind, str(counted.total()), *(str(counted[word]) for word in (RAISED, "refused", OTHER_TEXT))))
    refused = [row for row in found if row[2] not in (RAISED, NO_KERNEL)]
    parts = [table(("kernels", "number", RAISED, "refused", OTHER_TEXT), rows, numbers=4)]
    return "\n\n".join([*parts, *([table(("kernels", "name", "why"), refused)] if refused else [])])


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=["count", "report"], help="count: make and raise them; report: print what was counted")
    parser.add_argument("--trees", type=int, default=250)
    parser.add_argument("--first", type=int, default=[0], nargs="+", help="seeds of the first random trees")
    parser.add_argument("--output", type=Path, default=DATA)
    given = parser.parse_intermixed_args()
    warnings.simplefilter("ignore")
    if given.verb == "count":
        found = list(outcomes([range(first, first + given.trees) for first in given.first]))
        given.output.write_text(json.dumps(found, indent=0) + "\n")
    rows: list[Any] = json.loads(given.output.read_text())
    print(report([(str(kind), str(name), str(outcome)) for kind, name, outcome in rows]))


if __name__ == "__main__":
    main()
