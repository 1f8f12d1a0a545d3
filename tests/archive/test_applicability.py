"""The set of sizes that is stored with a fact: what it holds is legal and right, what lies outside is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

import feinsum_fuse as ff
from feinsum_fuse.archive.facts import record as records
from feinsum_fuse.archive.facts.question import Fit
from feinsum_fuse.archive.facts.recording import record, record_from
from feinsum_fuse.archive.facts.retrieval import query, retrieve
from feinsum_fuse.archive.key.applicability import covers, parsed
from feinsum_fuse.archive.text.lines import export_facts, import_facts
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.device.checking.example import example
from feinsum_fuse.device.checking.verification import verify
from feinsum_fuse.errors import ArchiveError
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.loop_steps import Reorder, Split
from feinsum_fuse.schedule.steps.skip_steps import SkipTiles
from feinsum_fuse.schedule.tree.nest import LoopRef
from tests.schedule.runs import run
from tests.schedule.scripts import SCRIPTS, Script
from tests.sweeps import SLOW

from .samples import HERE, measurement, product, tiled


def stored(cascade: Cascade, schedule: Schedule) -> str:
    """The set that a record of this schedule holds."""
    return record_from(measurement(cascade, schedule)).applicable


def test_a_split_wants_a_length_of_its_tile() -> None:
    """Other lengths are free."""
    made = record_from(measurement(product(m=64, k=32, n=48), tiled(factor=8)))
    place = made.key.sizes.index(64)
    bounds = ["s0 > 0", "s1 > 0", "s2 > 0"]
    bounds[place] = f"s{place} >= 8"
    assert parsed(made.applicable, 3).is_equal(parsed(f"{{ [s0, s1, s2] : {' and '.join(bounds)} }}", 3))


def test_no_steps_are_legal_everywhere() -> None:
    assert covers(stored(product(), Schedule()), (1, 1, 1))


def test_a_failure_says_nothing_of_other_sizes() -> None:
    made = record_from(measurement(product(), tiled(), outcome="crashed"))
    assert covers(made.applicable, made.key.sizes)
    assert not covers(made.applicable, [size + 1 for size in made.key.sizes])


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_sizes_inside_are_legal_and_right(script: Script) -> None:
    """Random sizes from the set, drawn with those of the script: every step applies there and the result is right on PoCL."""
    random = Random(20261)
    cascade, schedule = script.at((24, 14, 22, 10))
    text = stored(cascade, schedule)
    tried = 0
    for _ in range(40):
        sizes = tuple(random.randint(1, 40) for _ in range(4))
        other, _ = script.at(sizes)
        asked = record_from(measurement(other, Schedule())).key.sizes
        if not covers(text, asked):
            continue
        tried += 1
        trial = example(other)
        verification = verify(run(other, schedule, trial.inputs), trial.expected, other.tolerance())
        assert verification.passed, f"{sizes}\n{verification}"
        if tried == (4 if SLOW else 1):
            break
    assert tried


@pytest.mark.parametrize("mask", ["p <= m", "p < 5", "p <= m and m <= p + 3"])
def test_masks_have_sizes_where_they_are_legal(mask: str) -> None:
    """Where loops end by a mask, with lengths that are symbols: all steps are legal at random sizes of the set."""

    def masked(sizes: tuple[int, int, int, int]) -> Cascade:
        texts = [f"S[m, p] = where({mask}, Q[m, e] * K[p, e], 0)", "O[m, f] = S[m, p] * V[p, f]"]
        return ff.cascade(texts, sizes=dict(zip("MPEF", sizes, strict=True)), dtypes={"All": "float32"})

    rows, keys = LoopRef("O", "m"), LoopRef("O", "p")
    order = Reorder("O", (rows.outer, keys.outer, rows.inner, keys.inner, LoopRef("O", "f")))
    steps = (Explicate(), Split(rows, 4), Split(keys, 3), order, SkipTiles(keys.outer, (rows.outer,)))
    text = stored(masked((24, 22, 2, 3)), Schedule(steps))
    random = Random(20261)
    inside = 0
    for _ in range(20):
        other = masked((random.randint(9, 99), random.randint(9, 99), random.randint(1, 9), random.randint(1, 9)))
        if covers(text, record_from(measurement(other, Schedule())).key.sizes):
            Schedule(steps).nest(other.kernel())
            inside += 1
    assert inside


def test_what_fails_while_sizes_are_sought_costs_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fact is kept for the sizes that were measured, and it is said why."""

    def fail(*_: object) -> str:
        raise RuntimeError("spaces don't match")

    monkeypatch.setattr(records, "applicability", fail)
    with pytest.warns(UserWarning, match=r"^recorded for its own sizes alone, since others could not be tried: RuntimeError: spaces don't"):
        made = record_from(measurement(product(), tiled()))
    assert covers(made.applicable, made.key.sizes)
    assert not covers(made.applicable, [size + 1 for size in made.key.sizes])


def test_retrieval_passes_over_what_lies_outside(tmp_path: Path) -> None:
    """With the reason and the set."""
    url = tmp_path / "facts"
    record(measurement(product(m=64), tiled(factor=32)), url=url)
    assert retrieve(product(m=40), HERE, url).found is Fit.nearest_sizes
    nothing = retrieve(product(m=31), HERE, url)
    assert nothing.found is Fit.nothing
    assert "lie outside those for which the schedule is known to be legal, { [s0" in nothing.detail
    (fact,) = query(product(m=31), HERE, url=url)
    assert not covers(fact.applicable, fact.sizes)


def test_a_symbolic_length_needs_a_set_without_an_end() -> None:
    assert covers("{ [s0, s1] : s0 >= 8 and s1 = 3 }", (None, 3))
    assert not covers("{ [s0, s1] : 8 <= s0 <= 99 and s1 = 3 }", (None, 3))


def test_a_fact_from_before_such_sets_has_one_when_it_is_read(tmp_path: Path) -> None:
    """Lines without the field are still read."""
    url, other = tmp_path / "facts", tmp_path / "others"
    record(measurement(product(), tiled()), url=url)
    (line,) = export_facts(url)
    older = {name: value for name, value in json.loads(line).items() if name != "applicable"}
    (tmp_path / "older.jsonl").write_text(json.dumps(older))
    import_facts(tmp_path / "older.jsonl", other)
    assert list(export_facts(other)) == [line]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("rm -rf", "is no set of 3 sizes"),
        ("{ [s0, s1, s2] : " + " and ".join(f"(s0 mod {k} = 1 or s1 mod {k} = 1)" for k in range(2, 99)) + " }", "is no set of 3 sizes"),
        ("{ [s0, s1, s2] : " + " and ".join(f"[s0, s1] << [{k}, s2]" for k in range(99)) + " }", "is no set of 3 sizes"),
        ("{ [s0] : s0 >= 8 }", "is no set of 3 sizes"),
        ("[N] -> { [s0, s1, s2] : s0 >= N }", "is no set of 3 sizes"),
        ("{ [s0, s1, s2] : s0 >= 1000000 }", "lie outside the set"),
    ],
)
def test_foreign_sets_are_validated(tmp_path: Path, text: str, reason: str) -> None:
    """What an import says is parsed, and must hold what was measured."""
    url = tmp_path / "facts"
    record(measurement(product(), tiled()), url=url)
    (line,) = export_facts(url)
    (tmp_path / "foreign.jsonl").write_text(json.dumps({**json.loads(line), "applicable": text}))
    with pytest.raises(ArchiveError, match=reason):
        import_facts(tmp_path / "foreign.jsonl", tmp_path / "others")
