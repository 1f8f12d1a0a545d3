"""Generated OpenCL as its readers see it: checks that hold for every text that ``lower`` leads to, whatever the tree."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random

import loopy as lp
import pymbolic.primitives as p
import pytest
from pymbolic.typing import Expression

import feinsum_fuse as ff
from feinsum_fuse.codegen.repeats import REPEATED, without_constant
from feinsum_fuse.codegen.statement_expressions import (
    array_of,
    children,
    is_number,
    is_whole_number,
    operations,
    variables,
    within,
    written,
)
from feinsum_fuse.codegen.statements import Assignment, Conditional, CStatement, Declaration, Kernel, Loop, all_statements, expressions
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.lowering import lower
from feinsum_fuse.mappings.default_mapping import default_spec
from feinsum_fuse.schedule.schedule import Schedule
from tests.generators.trees import random_trees
from tests.generators.workloads import KINDS, WorkloadKind
from tests.sweeps import SLOW, sweep_size

from .trees import kernels_of, program_of

EXAMPLES: dict[str, dict[str, int]] = {
    "matmul": {"M": 67, "K": 300, "N": 45},
    "three_matmuls": {"M": 131, "N": 23},
    "dg_divergence": {"E": 133, "N": 35},
    "attention": {"H": 2, "M": 75, "P": 69, "E": 11},
    "perceptron": {"M": 67, "A": 19, "F": 75, "B": 21, "FT": 32, "RM": 3},
    "mttkrp": {"N": 19, "R": 35, "JT": 8},
}
"""Folder -> sizes that nothing divides."""
TREES = sweep_size(300)


def transformed(spec: Spec) -> lp.TranslationUnit:
    """The kernel of a spec with a mapping."""
    return lower(spec).apply(ff.cascade(spec).kernel())


def own_expressions(kernel: Kernel) -> Iterator[Expression]:
    """Every part of every expression of a kernel."""
    for statement in all_statements(kernel.body):
        for expression in expressions(statement):
            yield from within(expression)


def check(spec: Spec) -> None:
    """All that holds for a text."""
    kernels, source = program_of(transformed(spec))
    assert kernels
    for kernel in kernels:
        check_arithmetic(kernel)
        check_statements(kernel)
        check_names(kernel)
        for block in blocks(kernel.body):
            check_repetition(block)
    check_head(source)


def check_arithmetic(kernel: Kernel) -> None:
    """Nothing is left to compute that is known: no operation on two constants, no term or factor that changes nothing."""
    for part in own_expressions(kernel):
        numbers = [child for child in children(part) if is_number(child)]
        whole = [number for number in numbers if is_whole_number(number)]
        match part:
            case p.Sum():
                assert len(part.children) > 1 and len(numbers) < 2 and 0 not in whole, written(part)
            case p.Product():
                assert len(part.children) > 1 and len(numbers) < 2 and not {0, 1} & set(whole), written(part)
                assert not whole or part.children[0] in whole, written(part)
            case p.Quotient() | p.FloorDiv() | p.Remainder() | p.Comparison() | p.LogicalAnd() | p.LogicalOr():
                assert len(numbers) < 2, written(part)
                assert not (isinstance(part, p.Comparison) and part.operator in {">=", "<="} and is_number(part.left)), written(part)


def check_statements(kernel: Kernel) -> None:
    """Every loop says what it is and runs more than once, every condition holds something and may be false."""
    for statement in all_statements(kernel.body):
        if isinstance(statement, Loop):
            assert re.fullmatch(r"[\w ]+( in tiles of \d+)? \(.+\)(; .+)*|.+: [a-z ]+ .*\(.+\)", statement.remark), statement.remark
            assert statement.body
            assert statement.last != statement.first
        if isinstance(statement, Conditional):
            assert statement.body
            assert not is_number(statement.condition)
    for block in blocks(kernel.body):
        conditions = [s.condition if isinstance(s, Conditional) else None for s in block]
        assert not any(a is not None and a == b for a, b in pairwise(conditions))


def check_names(kernel: Kernel) -> None:
    """What is read was declared above it; what is declared is read, or is a tile that the mapping asks for and no statement reads from."""
    arguments = {argument.name for argument in kernel.head.arguments}
    undeclared = list(_undeclared(kernel.body, arguments | {"INFINITY", "NAN"}))
    assert not undeclared
    counts = Counter(part.name for part in own_expressions(kernel) if isinstance(part, p.Variable))
    targets = Counter(array_of(s.target) for s in all_statements(kernel.body) if isinstance(s, Assignment) and s.operator == "=")
    for statement in all_statements(kernel.body):
        if isinstance(statement, Declaration):
            assert counts[statement.name] > (targets[statement.name] if statement.size is None else 0), statement.name


def _undeclared(body: Sequence[CStatement], above: set[str]) -> Iterator[str]:
    known = set(above)
    for statement in body:
        names = {name for e in expressions(statement) for name in variables(e)}
        yield from names - known
        if isinstance(statement, Declaration):
            known.add(statement.name)
        if isinstance(statement, Loop):
            yield from _undeclared(statement.body, known | {statement.name})
        if isinstance(statement, Conditional):
            yield from _undeclared(statement.body, known)
            yield from _undeclared(statement.otherwise, known)


def blocks(body: Sequence[CStatement]) -> Iterator[Sequence[CStatement]]:
    """A block and those inside it."""
    yield body
    for statement in body:
        if isinstance(statement, Loop):
            yield from blocks(statement.body)
        if isinstance(statement, Conditional):
            yield from blocks(statement.body)
            yield from blocks(statement.otherwise)


def check_repetition(block: Sequence[CStatement]) -> None:
    """No index of some length stands twice in one block and the conditions in it."""
    counts: Counter[Expression] = Counter()
    for statement in _unlooped(block):
        for expression in expressions(statement):
            for part in within(expression):
                if isinstance(part, p.Subscript) and not any(isinstance(inner, p.Subscript) for inner in within(part.index)):
                    index = without_constant(part.index)
                    counts[index] += operations(index) >= REPEATED
    repeated = [written(index) for index, count in counts.items() if count > 1]
    assert not repeated


def _unlooped(block: Sequence[CStatement]) -> Iterator[CStatement]:
    for statement in block:
        yield statement
        if isinstance(statement, Conditional):
            yield from _unlooped(statement.body)
            yield from _unlooped(statement.otherwise)


def check_head(source: str) -> None:
    """Every function and macro before the kernels is used, or is the other half of one that is."""
    for name in re.findall(r"(?m)^#define (\w+)", source) + re.findall(r"(?m)^static inline \w+ (\w+)\(", source):
        either = re.sub(r"^[gs]et_", "[gs]et_", name)
        assert len(re.findall(rf"\b{either}\b", source)) > len(re.findall(rf"(?m)^#define {either}\b", source)), name


def cases(root: Path) -> list[tuple[Path, Path, dict[str, int]]]:
    """The examples' mappings for a CPU."""
    found = []
    for folder, sizes in EXAMPLES.items():
        for mapping in sorted((root / "examples" / folder).glob("mapping_*.yaml")):
            found.append((root / "examples" / folder / "workload.yaml", mapping, sizes))
    return found


def test_texts_of_examples(root: Path) -> None:
    """Where nothing divides, and in full at their own sizes as well: golden texts have some of these."""
    for workload, mapping, sizes in cases(root):
        for chosen in ({}, sizes) if SLOW else (sizes,):
            spec = ff.load(workload, mapping, root / "examples" / "cpu.yaml", variables=chosen)
            check(spec)


@pytest.mark.parametrize(("folder", "mapping"), [("three_matmuls", "mapping_fused"), ("attention", "mapping_one_pass")])
def test_texts_after_each_step(root: Path, folder: str, mapping: str) -> None:
    """What ``show --upto N`` prints: fused, nested, spatial, copying and rolling loops say what they are from the first step on."""
    folder_of = root / "examples" / folder
    files = (folder_of / "workload.yaml", folder_of / f"{mapping}.yaml", root / "examples" / "cpu.yaml")
    spec = ff.load(*files, variables=EXAMPLES[folder])
    schedule, kernel = lower(spec), ff.cascade(spec).kernel()
    for count in range(1, len(schedule.steps) + 1, 1 if SLOW else 13):
        for tree in kernels_of(Schedule(schedule.steps[:count]).apply(kernel)):
            check_statements(tree)
            check_names(tree)


def test_remarks() -> None:
    """The node of the tree: a part of a rank variable of some Einsums, or what a Storage does along one."""
    spec = ff.loads(
        """
        workload:
          rank_sizes: {M: 12, K: 9, N: 8}
          bits_per_value: {All: 32}
          einsums: ["T[m,n] = A[m,k] * B[k,n]", "Z[m,n] = relu(T[m,n])"]
        mapping:
          nodes:
          - !Storage {component: MainMemory, tensors: [A, B, Z]}
          - !Temporal {rank_variable: m, tile_shape: 4}
          - !Storage {component: Scratchpad, tensors: [T]}
          - !Sequential
            nodes:
            - !Nested {nodes: [!Temporal {rank_variable: k, tile_shape: 3}, !Storage {component: Scratchpad, tensors: [A]},
                !Temporal {rank_variable: n, tile_shape: 1}, !Temporal {rank_variable: m, tile_shape: 1},
                !Temporal {rank_variable: k, tile_shape: 1}, !Compute {einsum: T, component: MAC}]}
            - !Nested {nodes: [!Temporal {rank_variable: m, tile_shape: 1}, !Temporal {rank_variable: n, tile_shape: 1},
                !Compute {einsum: Z, component: MAC}]}
        """
    )
    (kernel,) = kernels_of(transformed(spec))
    remarks = [statement.remark for statement in all_statements(kernel.body) if isinstance(statement, Loop)]
    assert remarks == [
        "m in tiles of 4 (T, Z)",
        "Storage of T: initialise n (T)",
        "Storage of T: initialise m (T)",
        "k in tiles of 3 (T)",
        "Storage of A: fetch m (T)",
        "Storage of A: fetch k (T)",
        "n (T)",
        "m (T)",
        "k (T)",
        "m (Z)",
        "n (Z)",
    ]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_texts_of_default_mappings(kind: WorkloadKind) -> None:
    check(default_spec(ff.cascade(Spec(kind.sized(Random(7))))))


def test_texts_of_random_trees() -> None:
    refused = 0
    for tree in random_trees(TREES, 7):
        try:
            check(tree.spec)
        except (ff.LoweringError, ff.ScheduleError):
            refused += 1
    assert refused <= TREES / 20
