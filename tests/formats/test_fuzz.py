"""Whatever a file holds, loading it ends in a Spec or in one of our errors."""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import feinsum_fuse as ff
from feinsum_fuse.formats.reading.files import read_string
from feinsum_fuse.formats.writing.yaml_text import yaml_text
from tests.formats.cases import DOCUMENTS, WHOLE
from tests.sweeps import SEED, sweep_size

ROOT = Path(__file__).resolve().parents[2]
MARKS = """{{ }} {% %} {# *a [ ] { } ' " # | > ? ~ null true inf nan -1 0 1e999 2**3 1/0 All Other m A A[m] sum( exp( &a !include"""
WORDS = """
    global Nothing.rank_variables type:Storage tile_shape: einsum: renames: <<: <<<: !Spatial !!python/x
    where(m<k,A[m,k],0) softmax(A[m,k],k)
"""
FRAGMENTS = [
    *MARKS.split(),
    *WORDS.split(),
    *("&a ", "!include x", "!Memory ", "- ", ": ", "9" * 30, "= ", "0 <= m < 5", "exists (a: m = 2*a)", "operations: {map: A}"),
    *("\n", "\n  ", "---\n", "...\n", "\t", "\x00", "\u2028", "é", "😀", "{% for i in range(3) %}", "{% endfor %}", "{{ x | default(3) }}"),
    "{{ 1/0 }}",
    "%YAML 1.1\n---\n",
]


def sources() -> list[str]:
    """All example documents, and one that has every kind of block."""
    files = [*DOCUMENTS.glob("*.yaml"), *(ROOT / "examples").rglob("*.yaml")]
    bindings = "opencl: {memories: {MainMemory: global}, fanouts: {PEArray.X: local.0}, dtypes: {All: float32}}\n"
    renames = "renames: {einsums: [{name: default, tensor_accesses: {input: Inputs & A, rest: ~input}}]}\nvariables: {x: 3}\n"
    whole = WHOLE + bindings + renames
    return [whole] * 4 + [path.read_text(encoding="utf-8") for path in sorted(files)]


def _lines(text: str, choose: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    if not lines:
        return text
    at, other = choose.randrange(len(lines)), choose.randrange(len(lines))
    change = choose.randrange(4)
    if change == 0:
        del lines[at]
    elif change == 1:
        lines.insert(other, lines[at])
    elif change == 2:
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines[at] = " " * choose.randrange(4) + lines[at]
    return "".join(lines)


def _characters(text: str, choose: random.Random) -> str:
    at = choose.randrange(len(text) + 1)
    new = choose.choice(["", chr(choose.randrange(32, 127)), choose.choice(":,[]{}'\"-!&*#|\n")])
    return text[:at] + new + text[at + choose.randrange(3) :]


def _fragments(text: str, choose: random.Random) -> str:
    at = choose.randrange(len(text) + 1)
    return text[:at] + choose.choice(FRAGMENTS) + text[at + choose.choice([0, 0, 1, 3, 8]) :]


def _words(text: str, choose: random.Random) -> str:
    words = text.split(" ")
    at = choose.randrange(len(words))
    words[at] = choose.choice([choose.choice(FRAGMENTS), choose.choice(words), words[at] * 2, ""])
    return " ".join(words)


MUTATIONS: list[Callable[[str, random.Random], str]] = [_lines, _characters, _fragments, _words]


def load(text: str) -> None:
    """Load a text, and write back what loads; only our own errors may come out."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            spec = ff.loads(text, {"N_TOKENS": 16}, base=DOCUMENTS)
    except ff.Error as error:
        assert str(error)
        return
    assert str(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert ff.loads(spec.to_yaml()) == spec


def test_mutations_of_the_examples() -> None:
    choose = random.Random(SEED)
    texts = sources()
    for number in range(sweep_size(16_000)):
        text = choose.choice(texts)
        for _ in range(choose.choice([1, 1, 1, 2, 4])):
            text = choose.choice(MUTATIONS)(text, choose)
        try:
            load(text)
        except Exception as error:
            error.add_note(f"input {number} of seed {SEED}:\n{text}")
            raise


REPLACEMENTS: list[object] = [
    *(None, True, 0, -1, 1, 3, 2**70, 0.5, -0.5, float("inf"), float("nan")),
    *("", "x", "m", "A", "All", "m + k", "2 * 3", "inf", "1/0", "A.b", "[0]"),
    *([], {}, [[]], [None], ["m"], ["m", "m"], {"m": "m"}, {"": ""}, {"M": 2}, [{"name": "x"}], {"x": {"y": []}}, ["A", 3], {"All": "A"}),
]


def _places(tree: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path, *(place for key, child in children for place in _places(child, (*path, key)))]


def test_one_value_replaced_by_another_kind() -> None:
    choose = random.Random(SEED)
    trees = [{key: value.plain() for key, value in read_string(text, {}, DOCUMENTS).root.items()} for text in sources()[:1] + sources()[4:]]
    for _ in range(sweep_size(4_000)):
        tree = copy.deepcopy(choose.choice(trees))
        *above, last = choose.choice(_places(tree)[1:])
        target: Any = tree
        for step in above:
            target = target[step]
        if choose.random() < 0.1:
            del target[last]
        else:
            target[last] = copy.deepcopy(choose.choice(REPLACEMENTS))
        load(yaml_text(tree))


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.sampled_from(FRAGMENTS))
FIELDS = """workload einsums name rank_sizes bits_per_value tensor_accesses projection output arch nodes mapping type size actions energy
    spatial fanout tensors component tile_shape rank_variable einsum opencl renames M"""
KEYS = st.sampled_from(FIELDS.split())
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.one_of(KEYS, st.text(max_size=4)), inner, max_size=5)),
    max_leaves=20,
)


@settings(max_examples=sweep_size(2_000))
@given(st.dictionaries(st.sampled_from(["workload", "arch", "mapping", "opencl", "renames", "variables"]), TREES))
def test_random_trees(tree: dict[str, object]) -> None:
    load(yaml_text(tree))  # type: ignore[arg-type]


@settings(max_examples=sweep_size(2_000))
@given(st.text(max_size=200))
def test_random_text(text: str) -> None:
    load(text)


def test_renames_of_nothing_alone_are_no_spec() -> None:
    """What was read could not be written: a Spec of nothing has no text."""
    for text in ("renames:\n", "renames: {}\n", "renames: {einsums: []}\n"):
        load(text)
