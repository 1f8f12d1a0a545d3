"""A search that goes on from the file of an earlier one finds what it would have found alone, and does no stage twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import feinsum_fuse as ff
from feinsum_fuse.errors import ConstraintWarning, SearchError
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.mapper import Result
from feinsum_fuse.mapper.failures import UnsearchedError
from feinsum_fuse.presentation import yaml
from feinsum_fuse.progress import Progress
from tests.sweeps import SLOW

from .specs import OUTER, arch, compute, memory, spec, two_memories, workload

PRODUCTS = workload(["T[m,n] = A[m,k] * B[k,n]", "U[m,l] = T[m,n] * C[n,l]", "Z[m,k] = U[m,l] * D[l,k]"], M=12, N=6, K=8, L=6)
CHAIN = spec(two_memories(500), PRODUCTS)


def stopped(asked: Spec, file: Path, stage: str) -> Result:
    """The result of a search that is interrupted at the end of a stage."""

    def stop(now: Progress) -> None:
        if now.ended and now.stage == stage:
            raise KeyboardInterrupt

    return ff.search(asked, progress=stop, resume=str(file))


def test_it_goes_on_wherever_it_was_stopped(tmp_path: Path) -> None:
    whole = ff.search(CHAIN)
    stages = [stage.name for stage in whole.log]
    assert len(stages) > 3
    for number, stage in enumerate(stages if SLOW else [stages[0], stages[-2]]):
        file = tmp_path / f"{number}.jsonl"
        stopped(CHAIN, file, stage)
        kept = [json.loads(line) for line in file.read_text().splitlines()]
        assert stage in [entry["stage"] for entry in kept]
        resumed = ff.search(CHAIN, resume=str(file))
        assert resumed.proved
        assert (resumed.value, resumed.front[0].latency) == (whole.value, whole.front[0].latency)
        if "mapping" in kept[-1]:
            assert resumed.log[0].name == "resumed"
            assert not {f"{loops} fused loops" for loops in range(kept[-1]["done"] + 1)} & {stage.name for stage in resumed.log}


def test_what_is_taken_at_once_is_kept(tmp_path: Path) -> None:
    """A search that is over before it has begun leaves its first mapping to the next."""
    file = tmp_path / "state"
    first = ff.search(CHAIN, seconds=1e-9, resume=str(file))
    log = ff.search(CHAIN, resume=str(file)).log
    assert (log[0].name, log[0].incumbent) == ("resumed", first.value)


def test_a_search_that_had_ended_has_no_stage_left(tmp_path: Path) -> None:
    first = ff.search(CHAIN, resume=str(tmp_path / "state"))
    again = ff.search(CHAIN, resume=str(tmp_path / "state"))
    assert [stage.name for stage in again.log] == ["resumed", "floor"]
    assert again.proved
    assert again.front == first.front


def test_limits_may_differ_and_questions_may_not(tmp_path: Path) -> None:
    file = tmp_path / "state"
    ff.search(CHAIN, resume=str(file), seconds=1e-9)
    before = file.read_text()
    assert ff.search(CHAIN, resume=str(file), max_rows=10**6, jobs=2, top=2).proved
    for other in (
        lambda: ff.search(CHAIN, "latency", resume=str(file)),
        lambda: ff.search(CHAIN, even=True, resume=str(file)),
        lambda: ff.search(spec(two_memories(501), PRODUCTS), resume=str(file)),
    ):
        with pytest.raises(SearchError, match="journal of another search"):
            other()
    assert file.read_text().startswith(before)


def test_what_other_code_has_searched_is_searched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "state"
    ff.search(CHAIN, resume=str(file))
    monkeypatch.setattr("feinsum_fuse.mapper.driver.journal._version", lambda: "of tomorrow")
    assert "0 fused loops" in [stage.name for stage in ff.search(CHAIN, resume=str(file)).log]


def test_a_mapping_in_the_file_is_judged(tmp_path: Path) -> None:
    """It may be anybody's: what breaks a constraint is not taken for the best so far."""
    file = tmp_path / "state"
    product = workload(["Z[m,n] = A[m,k] * B[k,n]"], M=4, K=4, N=4)
    buffers = [memory("Buffer", 200, 4, tensors=f"tensors: {{keep: {rule}}}") for rule in ("A | Z", "B | Z")]
    asked, other = (spec(arch(memory("Main", "inf", 64, tensors=OUTER), buffer, compute()), product) for buffer in buffers)
    ff.search(asked, resume=str(file))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    lines[-1]["mapping"] = yaml(ff.search(other).front[0].mapping)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.warns(ConstraintWarning), pytest.raises(SearchError, match=r"The mapping in .*state breaks a constraint"):
        ff.search(asked, resume=str(file))


@pytest.mark.parametrize("line", ["nonsense", "3", "{}", "[[", '{"question": 1}', "[" * 3000])
def test_files_that_are_no_journal_are_refused(tmp_path: Path, line: str) -> None:
    file = tmp_path / "state"
    file.write_text(line + "\n")
    with pytest.raises(SearchError, match=r"no state of a search|another search"):
        ff.search(CHAIN, resume=str(file))
    assert file.read_text() == line + "\n"


@pytest.mark.parametrize("place", ["/dev/zero", "."])
def test_what_is_no_file_is_not_read(place: str) -> None:
    with pytest.raises(ff.SpecError, match="not a file"):
        ff.search(CHAIN, resume=place)
    with pytest.raises(ff.SpecError, match="not a file"):
        Result.load(place)


def test_places_that_cannot_be_written_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(SearchError, match="cannot keep the state"):
        ff.search(CHAIN, resume=str(tmp_path / "none" / "state"))


def test_a_front_has_no_journal(tmp_path: Path) -> None:
    with pytest.raises(UnsearchedError, match="in one go"):
        ff.search(CHAIN, pareto=["energy"], resume=str(tmp_path / "state"))


def test_a_stage_that_lasts_says_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Progress] = []
    monkeypatch.setattr("feinsum_fuse.mapper.driver.search_session.SOON", 0.0)
    result = ff.search(CHAIN, progress=told.append)
    within = {now.stage for now in told if not now.ended}
    assert within >= {"floor", "0 fused loops"}
    assert [now.stage for now in told if now.ended] == [stage.name for stage in result.log]
