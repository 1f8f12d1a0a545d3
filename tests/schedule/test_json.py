"""Schedules as data: JSON both ways, versions, renaming."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feinsum_fuse.errors import ScheduleError
from feinsum_fuse.schedule.nest import LoopRef
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.step import REGISTRY, Step

from .scripts import SCRIPTS

NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,6}(\.max)?", fullmatch=True)
VARIABLES = st.from_regex(r"[a-z][a-z0-9]{0,3}", fullmatch=True)
LOOPS = st.builds(LoopRef, NAMES, VARIABLES, st.text("01", max_size=4))
FIELDS: dict[str, st.SearchStrategy[object]] = {
    "str": NAMES,
    "int": st.integers(-3, 10**6),
    "bool": st.booleans(),
    "LoopRef": LOOPS,
    "LoopRef | None": st.none() | LOOPS,
    "tuple[str, ...]": st.lists(NAMES, max_size=4).map(tuple),
    "tuple[int, ...]": st.lists(st.integers(0, 5), max_size=4).map(tuple),
    "tuple[LoopRef, ...]": st.lists(LOOPS, max_size=4).map(tuple),
}


def steps_of(cls: type[Step]) -> st.SearchStrategy[Step]:
    """Any step of a class, from the types of its fields."""
    return st.builds(cls, **{field.name: FIELDS[str(field.type)] for field in dataclasses.fields(cls)})


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


BAD = [
    ("no list", "a schedule in JSON is a list of steps"),
    ('[{"step": "Melt", "version": 1}]', "'Melt' is no schedule step"),
    ("[3]", "3 is no schedule step"),
    ('[{"step": "Split", "version": 0, "loop": "Z.m", "tile": 2}]', "Split was recorded in version 0; this release knows version 1"),
    ('[{"step": "Split", "version": 1, "loop": "Z.m"}]', "Split has the fields loop, tile; unknown: [], missing: ['tile']"),
    ('[{"step": "Split", "version": 1, "loop": "m", "tile": 2}]', "Split.loop: 'm' is no loop reference such as 'Z.m/0/1'"),
    ('[{"step": "Split", "version": 1, "loop": "Z.m", "tile": true}]', "Split.tile wants int, not True"),
    ('[{"step": "Split", "version": 1, "loop": 5, "tile": 2}]', "Split.loop wants LoopRef, not 5"),
    ('[{"step": "ShareLoop", "version": 1, "loops": "Z.m"}]', "ShareLoop.loops wants tuple[LoopRef, ...], not 'Z.m'"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_texts_that_are_no_schedule(text: str, message: str) -> None:
    """Each is refused by name."""
    with pytest.raises(ScheduleError) as caught:
        Schedule.from_json(json.dumps(text) if text == "no list" else text)
    assert caught.value.message == message


def test_text_that_is_no_json() -> None:
    """The parser's complaint is passed on."""
    with pytest.raises(ScheduleError, match="this is no schedule in JSON: Expecting value"):
        Schedule.from_json("steps")
