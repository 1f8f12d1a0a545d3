"""Optima of the search are those of brute force."""

from __future__ import annotations

import pytest

import feinsum_fuse as ff
from feinsum_fuse.mapper.failures import NoMappingError
from feinsum_fuse.mapper.options import Objective
from tests.sweeps import SLOW

from .optima import Known, known

ROWS = known()
OBJECTIVES: tuple[Objective, ...] = ("energy", "latency", "edp")
FEW = 40
"""Cases of ``make test``, each with one objective."""


def chosen() -> list[tuple[Known, Objective]]:
    if SLOW:
        return [(row, objective) for row in ROWS for objective in OBJECTIVES]
    return [(row, OBJECTIVES[n % 3]) for n, row in enumerate(ROWS[:: max(1, len(ROWS) // FEW)])]


@pytest.mark.parametrize(("row", "objective"), [pytest.param(*pair, id=f"{pair[0].number}-{pair[1]}") for pair in chosen()])
def test_the_search_finds_the_optimum_of_brute_force(row: Known, objective: Objective) -> None:
    case, best = row.case(), row.values[objective]
    if best is None:
        with pytest.raises(NoMappingError):
            ff.search(case.spec, objective, imperfect=case.imperfect, even=case.even)
        return
    result = ff.search(case.spec, objective, imperfect=case.imperfect, even=case.even)
    assert result.proved
    assert not result.omitted
    assert result.value == pytest.approx(best, rel=1e-9)
    assert ff.predict(result.best).energy == result.front[0].energy
