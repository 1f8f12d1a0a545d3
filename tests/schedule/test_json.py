"""Schedules as data: JSON both ways, versions, renaming."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feinsum_fuse.errors import ScheduleError
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.step import REGISTRY, EinsumName, Keyword, Step, TensorName, renaming
from feinsum_fuse.schedule.tree.nest import LoopRef

from .scripts import SCRIPTS

NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,6}(\.max)?", fullmatch=True)
VARIABLES = st.from_regex(r"[a-z][a-z0-9]{0,3}", fullmatch=True)
LOOPS = st.builds(LoopRef, NAMES, VARIABLES, st.text("01", max_size=4))
FIELDS: dict[object, st.SearchStrategy[object]] = {str: NAMES, int: st.integers(-3, 10**6), bool: st.booleans(), LoopRef: LOOPS}


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of a field's type."""
    kind, parts = get_origin(hint), get_args(hint)
    if kind is tuple:
        return st.lists(values(parts[0]), max_size=4).map(tuple)
    if kind is UnionType:
        return st.none() | values(parts[0])
    return FIELDS[hint]


def steps_of(cls: type[Step]) -> st.SearchStrategy[Step]:
    """Any step of a class, from the types of its fields."""
    hints = get_type_hints(cls)
    return st.builds(cls, **{field.name: values(hints[field.name]) for field in dataclasses.fields(cls)})


STEPS = st.one_of([steps_of(cls) for _, cls in sorted(REGISTRY.items())])


@given(st.lists(STEPS, max_size=6))
def test_json_round_trip(steps: list[Step]) -> None:
    """A schedule read back equals the one written, and hashes the same."""
    schedule = Schedule(tuple(steps))
    again = Schedule.from_json(schedule.to_json())
    assert again == schedule
    assert hash(again) == hash(schedule)


@given(LOOPS)
def test_loop_references_round_trip(loop: LoopRef) -> None:
    """A reference is read back from its text."""
    assert LoopRef.parse(str(loop)) == loop


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_renaming_there_and_back(script: object) -> None:
    """Renaming by a bijection and by its inverse changes nothing; renamed steps name nothing old."""
    _, schedule = script.at((13, 7, 11, 5))  # type: ignore[attr-defined]
    text = schedule.to_json()
    einsums = {"T": "first", "Z": "second", "O": "third", "S": "fourth", "X": "fifth", "D": "sixth"}
    tensors = {"A": "a", "B": "b", "C": "c", "T": "t", "Z": "z", "W": "w", "I": "i", "S": "s", "X": "x", "D": "d"}
    variables = {(e, v): f"{v}x" for e in einsums for v in "mnkpcr"}
    back = {(einsums[e], new): v for (e, v), new in variables.items()}
    renamed = schedule.renamed(einsums, variables, tensors)
    assert not any(f'"{name}' in renamed.to_json().replace('"step": "S', "") for name in ("T.", "Z.", "O."))
    assert renamed.renamed({b: a for a, b in einsums.items()}, back, {b: a for a, b in tensors.items()}).to_json() == text


NO_SCHEDULE = "this is no schedule in JSON: "
SPLIT = '"step": "Split", "version": 1'
BAD = [
    ("steps", "Expecting value: line 1 column 1 (char 0)."),
    ('"a list"', 'A list is expected, not "a list".'),
    ('[{"step": "Melt", "version": 1}]', "[0].step: 'Melt' is not known here."),
    ('[{"version": 1}]', "[0]: The field 'step' is missing."),
    ("[3]", "[0]: A mapping of names to values is expected, not 3."),
    (
        '[{"step": "Unroll", "version": 1, "loop": "Z.m"}, {"step": "Split", "version": 0, "loop": "Z.m", "size": 2}]',
        "[1].version: Split was recorded in version 0; this release knows version 1.",
    ),
    ('[{"step": "Split", "loop": "Z.m", "tile": 2}]', "[0]: The field 'version' is missing."),
    (f'[{{{SPLIT}, "loop": "Z.m"}}]', "[0]: The field 'tile' is missing."),
    (f'[{{{SPLIT}, "loop": "Z.m", "tile": 2, "size": 2}}]', "[0].size: The field 'size' is not known here."),
    (f'[{{{SPLIT}, "loop": "m", "tile": 2}}]', "[0].loop: 'm' is no loop reference such as 'Z.m/0/1'."),
    (f'[{{{SPLIT}, "loop": "Z.m", "tile": true}}]', "[0].tile: A whole number is expected, not true."),
    (f'[{{{SPLIT}, "loop": "Z.m", "tile": 2.0}}]', "[0].tile: A whole number is expected, not 2.0."),
    (f'[{{{SPLIT}, "loop": "Z.m", "tile": "2"}}]', '[0].tile: A whole number is expected, not "2".'),
    (f'[{{{SPLIT}, "loop": "Z.m", "tile": NaN}}]', "[0].tile: A whole number is expected, not NaN."),
    (f'[{{{SPLIT}, "loop": "Z.m", "tile": 2, "tile": 3}}]', "the key 'tile' stands twice."),
    (f'[{{{SPLIT}, "loop": 5, "tile": 2}}]', "[0].loop: Text is expected, not 5."),
    ('[{"step": "ShareLoop", "version": 1, "loops": "Z.m"}]', '[0].loops: A list is expected, not "Z.m".'),
    ('[{"step": "Explicate", "version": 1, "order": ["Z", null]}]', "[0].order[1]: Text is expected, not null."),
    ("[" * 100_000, "Values are nested too deep."),
    (f'[{{{SPLIT}, "loop": {"[" * 300}{"]" * 300}, "tile": 2}}]', "Values are nested too deep."),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_texts_that_are_no_schedule(text: str, message: str) -> None:
    """Each is refused by name."""
    with pytest.raises(ScheduleError) as caught:
        Schedule.from_json(text)
    assert caught.value.message == NO_SCHEDULE + message


def test_the_known_steps_are_named() -> None:
    """For whoever misspells one."""
    with pytest.raises(ScheduleError, match="Known are Bind, Blockize, CacheRead, "):
        Schedule.from_json('[{"step": "Melt", "version": 1}]')


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_every_text_says_what_it_names(name: str) -> None:
    """So that renaming misses no field: all names of a step change, and nothing else does."""
    cls = REGISTRY[name]
    assert renaming(cls)
    hints = get_type_hints(cls, include_extras=True)
    step = cls(**{field.name: sample(hints[field.name]) for field in dataclasses.fields(cls)})
    renamed = Schedule((step,)).renamed({"E": "F"}, {("E", "v"): "w"}, {"E": "T"})
    assert '"E"' not in renamed.to_json() and '"E.' not in renamed.to_json()
    assert '"word"' in renamed.to_json() or "word" not in str(step)
    assert renamed.renamed({"F": "E"}, {("F", "w"): "v"}, {"T": "E"}).steps == (step,)


def sample(hint: Any) -> Any:
    """A value that names ``E`` wherever it can."""
    kind, parts = get_origin(hint), get_args(hint)
    if kind is tuple:
        return (sample(parts[0]),)
    if kind is UnionType:
        return sample(parts[0])
    return {EinsumName: "E", TensorName: "E", Keyword: "word", int: 3, LoopRef: LoopRef("E", "v", "0")}[hint]


class Melts:
    """Fields whose types do not say what they name; no steps, so that they are not registered."""

    @dataclass(frozen=True)
    class Text:
        einsum: str

    @dataclass(frozen=True)
    class Texts:
        einsums: tuple[str, ...]

    @dataclass(frozen=True)
    class Perhaps:
        tensor: str | None

    @dataclass(frozen=True)
    class Pairs:
        pairs: dict[EinsumName, Keyword]


@pytest.mark.parametrize("cls", [Melts.Text, Melts.Texts, Melts.Perhaps, Melts.Pairs])
def test_a_field_that_does_not_say_what_it_names_is_refused(cls: Any) -> None:
    with pytest.raises(TypeError, match="does not say what it names"):
        renaming(cls)
