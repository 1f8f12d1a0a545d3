"""Transforms beside the search: sketches are candidates, Optuna tunes their parameters, and its study lies in the archive."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import feinsum_fuse as ff
from feinsum_fuse.archive.facts.retrieval import query
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.errors import SearchError, TransformError
from feinsum_fuse.tuning.candidate import ORIGIN
from feinsum_fuse.tuning.learning.learning import NOTHING_LEARNED
from feinsum_fuse.tuning.sketches.sketching import Sketching, chosen
from feinsum_fuse.tuning.task import Asked, TuningTask
from feinsum_fuse.tuning.tuned import Tuned

from .spaces import Here, product, space

NAMES = ("products.register_tiles", "products.transposed_operands")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sketches") / "facts.sqlite3"


@pytest.fixture(scope="module")
def tuned(database: Path) -> Tuned:
    return ff.tune(
        product(), "pocl", seconds=600, measurements=5, url=str(database), executor=Here(), known=False, transforms=NAMES, search=False
    )


def sketching() -> Sketching:
    cascade = ff.cascade(product())
    return Sketching(cascade, space(), chosen(cascade, NAMES))


def test_transforms_are_candidates(tuned: Tuned) -> None:
    origins = [tried.origin for tried in tuned.history]
    assert origins[0] == "default" and any(origin.startswith(ORIGIN) for origin in origins)
    assert set(origins[1:]) <= {f"{ORIGIN}{name}" for name in NAMES}


@pytest.mark.parametrize(("search", "expected"), [(True, [2, 3, 1]), (False, [2, 3, 0, 1])])
def test_sketches_wait_in_the_order_of_the_model(search: bool, expected: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("feinsum_fuse.tuning.task.predict_all", lambda specs, target, ranker: [9.0, None, 1.0, 2.0])
    task = TuningTask.__new__(TuningTask)
    task.asked, task.target, task.learned = Asked((), search), space().target, NOTHING_LEARNED
    (one,) = space().defaults()[:1]
    sketches = [dataclasses.replace(one, tree=str(k)) for k in range(4)]
    assert task._promising(sketches) == [sketches[k] for k in expected]


def test_the_best_transform_is_reported(tuned: Tuned) -> None:
    found = tuned.best_transform
    assert found is not None and found[0] in NAMES and found[1] >= 1
    assert f"{found[0]} takes" in repr(tuned)


def test_the_turns_that_decided_say_whether_a_transform_is_the_fastest(tuned: Tuned) -> None:
    """Its sample in the search may have been held up."""
    one = next(tried for tried in tuned.history if tried.origin.startswith(ORIGIN) and tried.measured)
    held_up = dataclasses.replace(one, measured=100.0)
    default = dataclasses.replace(tuned.history[0], transform="")
    changed = dataclasses.replace(tuned, history=(default, held_up), finalists=((one.spec, tuned.measurement),))
    assert changed.best_transform == (one.origin.removeprefix(ORIGIN), 1.0)
    others = dataclasses.replace(changed, finalists=((default.spec, tuned.default),))
    assert others.best_transform is not None and others.best_transform[1] > 1


def test_a_transform_that_makes_the_default_mapping_is_as_good(tmp_path: Path) -> None:
    """What it makes is measured as the default mapping, which comes first: 16 rows are four by four, whatever loads cost here."""
    contraction = ff.cascade(["Z[a,b,c,d] = A[a,e,b] * B[e,c,d]"], sizes={"A": 5, "B": 16, "C": 3, "D": 32, "E": 7})
    (permuted,) = (one for one in ff.transforms_for(contraction) if one.name == "contractions.permuted")
    asked: dict[str, Any] = {"measurements": 1, "url": str(tmp_path / "facts.sqlite3"), "known": False, "search": False}
    found = ff.tune(contraction, "pocl", seconds=600, executor=Here(), transforms=[permuted], **asked)
    assert [tried.origin for tried in found.history] == ["default"]
    assert found.best_transform == ("contractions.permuted", 1.0)


def test_results_are_facts_and_the_study_lies_beside_them(tuned: Tuned, database: Path) -> None:
    import optuna

    facts = query(ff.cascade(product()), find_device("pocl"), outcome=None, url=str(database))
    assert facts
    storage = optuna.storages.RDBStorage(f"sqlite:///{database}")
    (study,) = optuna.get_all_study_summaries(storage)
    assert study.study_name.startswith(ff.cascade(product()).key) and study.n_trials >= 1


def test_a_rewriting_of_a_transform_joins_the_space() -> None:
    found = sketching()
    before = set(found.space.families)
    candidate = found.candidate(chosen(found.cascade, ["products.transposed_operands"])[0], {})
    assert candidate.variant in found.space.families
    assert before <= set(found.space.families)


def test_what_cannot_be_tuned_is_refused() -> None:
    sums = ff.cascade(["S[m] = A[m,k]"], sizes={"M": 3, "K": 4})
    with pytest.raises(TransformError, match="does not apply"):
        ff.tune(sums, "pocl", transforms=["products.register_tiles"])
    with pytest.raises(SearchError, match="nothing to tune"):
        ff.tune(sums, "pocl", search=False)
