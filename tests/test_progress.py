"""The hook that long computations call."""

from __future__ import annotations

from pathlib import Path

import loopy as lp
import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse import archive
from feinsum_fuse.formats.mapping import Temporal
from feinsum_fuse.model.evaluation import CHUNK
from feinsum_fuse.progress import Progress, Stage
from tests.archive import samples
from tests.archive.samples import measurement
from tests.device.test_program import FUSED, chain
from tests.model.test_kernel_time import product


def test_a_stage_tells_its_beginning_its_parts_and_its_end() -> None:
    told: list[Progress] = []
    with Stage("drawing", told.append, 3) as drawing:
        drawing.advance()
        drawing.advance(2)
    assert [(now.stage, now.done, now.total, now.ended) for now in told] == [
        ("drawing", 0, 3, False),
        ("drawing", 1, 3, False),
        ("drawing", 3, 3, False),
        ("drawing", 3, 3, True),
    ]
    assert [now.seconds for now in told] == sorted(now.seconds for now in told)


def test_texts() -> None:
    assert str(Progress("drawing", 1, 3, 2.04)) == "drawing: 1 of 3, 2.0 s"
    assert str(Progress("drawing", 4, None, 2.04)) == "drawing: 4, 2.0 s"
    assert str(Progress("lowering", seconds=0.5)) == "lowering, 0.5 s"


def test_a_stage_that_fails_ends() -> None:
    told: list[Progress] = []
    with pytest.raises(ZeroDivisionError), Stage("dividing", told.append):
        raise ZeroDivisionError
    assert told[-1].ended


def test_compiling_and_measuring_tell_their_stages() -> None:
    told: list[Progress] = []
    program = ff.compile(chain(FUSED), progress=told.append)
    ff.measure(program, repeats=2, progress=told.append)
    ended = [(now.stage, now.done) for now in told if now.ended]
    assert ended == [
        ("lowering", len(program.schedule.steps) - 1),
        ("generating OpenCL C", 0),
        ("computing the reference", 0),
        ("building and verifying in a child process", 0),
        ("lowering, building and verifying", 1),
        ("measuring in turns", 2),
    ]


def test_functions_of_the_library_tell_their_stages(tmp_path: Path) -> None:
    told: list[Progress] = []
    url, file = str(tmp_path / "facts.sqlite3"), tmp_path / "facts.jsonl"
    cascade = chain(FUSED)
    made = measurement(samples.product(8, 4, 6), samples.tiled())
    (tmp_path / "chain.yaml").write_text(cascade.to_yaml())
    ff.load(tmp_path / "chain.yaml", progress=told.append)
    ff.default_mapping(ff.cascade(cascade), progress=told.append)
    schedule = ff.lower(cascade, progress=told.append)
    ff.match(samples.product(8, 4, 6).kernel(), progress=told.append)
    ff.record(made, url=url)
    file.write_text("".join(f"{line}\n" for line in archive.export_facts(url, progress=told.append)))
    archive.import_facts(file, url, progress=told.append)
    ff.query(samples.product(8, 4, 6), samples.HERE, url=url, progress=told.append)
    ff.retrieve(samples.product(8, 4, 6), samples.HERE, url, progress=told.append)
    ended = [(now.stage, now.done, now.total) for now in told if now.ended]
    steps = len(schedule.steps) - 1
    assert ended[-8:-2] == [
        *[("lowering", steps, None), ("matching", 1, 1), ("reading facts", 1, None), ("writing facts", 1, 1), ("importing", 1, None)],
        ("storing facts", 1, 1),
    ]
    assert [stage for stage, *_ in ended[-2:]] == ["comparing facts"] * 2
    assert all(done == total and done >= 1 for _, done, total in ended[-2:])
    assert [stage for stage, *_ in ended[:-8]] == ["reading", "lowering", "choosing a mapping"]
    for function in (lambda hook: ff.lower(cascade, progress=hook), lambda hook: ff.retrieve(cascade, samples.HERE, url, progress=hook)):
        with pytest.raises(ff.Error, match="progress is to be something to be called or None"):
            function(3)


def test_an_einsum_tells_its_stages_the_first_time_only() -> None:
    first: list[Progress] = []
    again: list[Progress] = []
    for told in (first, again):
        ff.einsum("mk,kn->mn", np.ones((5, 3), "f4"), np.ones((3, 7), "f4"), progress=told.append)
    assert {"comparing facts", "generating OpenCL C", "building and verifying in a child process"} <= {now.stage for now in first}
    assert not again


def test_a_hook_that_raises_ends_the_computation() -> None:
    def enough(now: Progress) -> None:
        if now.stage == "measuring in turns" and now.done == 1:
            raise StopIteration("enough")

    program = ff.compile(chain(FUSED))
    with pytest.raises(StopIteration, match="enough"):
        ff.measure(program, repeats=5, progress=enough)
    arrays = {name: np.ones(shape, np.float32) for name, shape in program.input_shapes.items()}
    assert program(arrays)["Z"].shape == program.output_shapes["Z"]


def test_predicting_explaining_and_optimizing_tell_their_stages() -> None:
    told: list[Progress] = []
    spec = product(4, 2)
    ff.predict(spec, progress=told.append)
    ff.explain(spec, progress=told.append)
    assert spec.mapping is not None
    loop = next(placed.position for path in spec.mapping.paths() for placed in path if isinstance(placed.node, Temporal))
    ff.predict_many(spec, {loop: np.ones(CHUNK + 1, np.int64)}, progress=told.append)
    kernel = lp.make_kernel("{[i]: 0<=i<64}", "out[i] = 2 * a[i]", lang_version=(2018, 2))
    ff.optimize(lp.add_dtypes(kernel, {"a": np.float32}), "pocl", progress=told.append)
    ended = {now.stage: now for now in told if now.ended}
    expected = ["predicting", "predicting the kernel's time", "trying changes", "predicting assignments"]
    assert list(ended) == [*expected, "matching", "applying and verifying candidates", "timing in turns"]
    for stage in ("trying changes", "predicting assignments"):
        assert ended[stage].done == ended[stage].total
    assert ended["predicting assignments"].total == CHUNK + 1
    for function in (ff.predict, ff.explain):
        with pytest.raises(ff.ModelError, match="progress is to be something to be called or None"):
            function(spec, progress=3)  # type: ignore[call-arg, arg-type]
