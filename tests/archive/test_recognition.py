"""Which instructions of a kernel are Einsums, alone and together."""

from __future__ import annotations

from pathlib import Path

import loopy as lp
import numpy as np
import pytest
from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

import feinsum_fuse as ff
from feinsum_fuse.archive.facts.question import Fit
from feinsum_fuse.archive.key.recognition import recognised
from feinsum_fuse.cascades.matching.match import match
from feinsum_fuse.device.catalogue import DeviceInfo, find_device, target_of
from feinsum_fuse.mappings.default_mapping import default_schedule
from tests.archive.samples import measurement
from tests.cascades.randomness import largest_error, run


def test_instructions_that_are_einsums_alone_and_not_together_are_left_out() -> None:
    """``gathered`` is one as long as nothing says who writes what it reads; the others, and a private value, stay what they are."""
    kernel = lp.make_kernel(
        ["{[i,k] : 0 <= i,k < 8}", "{[j,l] : 0 <= j,l < 8}", "{[m] : 0 <= m < 8}"],
        """
        t[i] = sum(k, A[i,k]*x[k])  {id=first}
        <> factor = 2*x[j]  {id=private}
        y[j] = factor*sum(l, A[j,l]*t[l])  {id=second, dep=first:private}
        z[m] = y[rows[m]]  {id=gathered, dep=second}
        """,
        [
            lp.GlobalArg("A", np.float64, shape=(8, 8)),
            lp.GlobalArg("x,t,y,z", np.float64, shape=(8,)),
            lp.GlobalArg("rows", np.int32, shape=(8,)),
        ],
        lang_version=(2018, 2),
    )
    assert recognised(kernel).instructions == ("first", "second")
    with pytest.raises(ff.MatchError) as caught:
        match(kernel)
    assert caught.value.instructions == ("gathered",)


def test_what_is_said_of_an_instruction_takes_no_longer_in_a_long_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Types are inferred of as many instructions again as there are instructions, not of the square of it."""
    sizes: list[int] = []
    infer = lp.infer_unknown_types

    def counted(unit: lp.TranslationUnit, **options: object) -> lp.TranslationUnit:
        sizes.append(len(unit.default_entrypoint.instructions))
        return infer(unit, **options)

    monkeypatch.setattr(lp, "infer_unknown_types", counted)
    count = 8
    texts = [f"t{n}[i{n}] = sum(k{n}, A[i{n},k{n}]*t{n - 1}[k{n}]) {{id=s{n}}}" for n in range(1, count)]
    domains = [f"{{[i{n},k{n}] : 0 <= i{n},k{n} < 8}}" for n in range(1, count)]
    arrays = [lp.GlobalArg(f"t{n}", np.float64, shape=(8,)) for n in range(count)]
    arrays += [lp.GlobalArg("z", np.float64, shape=(8,)), lp.GlobalArg("A", np.float64, shape=(8, 8))]
    rows = lp.GlobalArg("rows", np.int32, shape=(8,))
    texts.append("z[m] = t1[rows[m]] {id=g}")
    kernel = lp.make_kernel([*domains, "{[m] : 0 <= m < 8}"], texts, [*arrays, rows], lang_version=(2018, 2))
    assert len(recognised(kernel).instructions) == count - 1
    assert sum(sizes) <= 10 * count


def test_rows_in_one_nest_take_the_fact_of_a_batch(tmp_path: Path) -> None:
    """The rows share loops in the kernel; the fact is about Einsums with loops of their own."""
    texts = [f"o{k}[e,i] = sum(j, J[e]*M[i,j]*u{k}[e,j])  {{id=row{k}}}" for k in range(2)]
    arrays = {"J": (50,), "M": (6, 6), **{f"{name}{k}": (50, 6) for name in "uo" for k in range(2)}}
    arguments = [lp.GlobalArg(name, np.float64, shape=shape) for name, shape in arrays.items()]
    kernel = lp.make_kernel("{[e,i,j] : 0 <= e < 50 and 0 <= i,j < 6}", texts, arguments, lang_version=(2018, 2))
    rows = [[ff.array("J", (50,), np.float64), ff.array("M", (6, 6), np.float64), ff.array(f"u{k}", (50, 6), np.float64)] for k in range(2)]
    batch = ff.batched_einsum("e,ij,ej->ei", rows)
    device, url = find_device("portable"), f"sqlite:///{tmp_path / 'facts.db'}"
    schedule = default_schedule(batch, target_of(DeviceInfo.of(device)))
    ff.record(measurement(batch, schedule, device=DeviceInfo.of(device)), url=url)
    fact = ff.retrieve(kernel, device, url=url)
    assert (fact.found, fact.instructions) == (Fit.exact, ("row0", "row1"))
    applied = fact.apply(kernel)
    given = {name: np.random.default_rng(7).random(shape) for name, shape in arrays.items() if name[0] != "o"}
    results = run(applied, **given)
    for k in range(2):
        assert largest_error(results[f"o{k}"], np.einsum("e,ij,ej->ei", given["J"], given["M"], given[f"u{k}"])) < 1e-13


def test_rows_in_one_nest_have_loops_of_their_own() -> None:
    """Of a symbolic length as well, which a schedule that was chosen for a number divides."""
    rules = ["J_(e) := J[e]", "M_(i,j) := M[i,j]", *(f"u{k}_(e,i) := u{k}[e,i]" for k in range(2))]
    texts = [*rules, *(f"o{k}[e,i] = sum(j, J_(e)*M_(i,j)*u{k}_(e,j))  {{id=row{k}}}" for k in range(2))]
    shapes = {"J": ("n",), "M": (6, 6), **{f"{name}{k}": ("n", 6) for name in "uo" for k in range(2)}}
    arguments = [*(lp.GlobalArg(name, np.float64, shape=shape) for name, shape in shapes.items()), lp.ValueArg("n", np.int32)]
    domain = "[n] -> {[e,i,j] : 0 <= e < n and 0 <= i,j < 6}"
    kernel = lp.make_kernel(domain, texts, arguments, assumptions="n >= 1", lang_version=(2018, 2))
    found = match(kernel)
    assert len(set(found.names.inames.values())) == len(found.names.inames) == 6
    target = target_of(DeviceInfo.of(find_device("portable")))
    schedule = default_schedule(match(lp.fix_parameters(kernel, n=500)).cascade, target)
    generator = np.random.default_rng(7)
    given = {name: generator.random([37 if length == "n" else length for length in shapes[name]]) for name in ("J", "M", "u0", "u1")}
    results = run(schedule.apply(found.prepared, found.names, target=target), n=np.int32(37), **given)
    for k in range(2):
        assert largest_error(results[f"o{k}"], np.einsum("e,ij,ej->ei", given["J"], given["M"], given[f"u{k}"])) < 1e-13


def test_instructions_between_which_others_run_are_taken_apart() -> None:
    """``middle`` scatters, and has to run between: the part with more sums is taken."""
    kernel = lp.make_kernel(
        ["{[i,k] : 0 <= i,k < 8}", "{[j] : 0 <= j < 8}", "{[m,l] : 0 <= m,l < 8}", "{[q] : 0 <= q < 8}"],
        """
        t[i] = sum(k, A[i,k]*x[k])  {id=first}
        y[rows[j]] = t[j]  {id=middle, dep=first}
        z[m] = sum(l, A[m,l]*y[l])  {id=last, dep=middle}
        w[q] = 2*z[q]  {id=then, dep=last}
        """,
        [
            lp.GlobalArg("A", np.float64, shape=(8, 8)),
            lp.GlobalArg("x", np.float64, shape=(8,)),
            lp.GlobalArg("t,y,z,w", np.float64, shape=(8,), is_input=False),
            lp.GlobalArg("rows", np.int32, shape=(8,)),
        ],
        lang_version=(2018, 2),
    )
    found = recognised(kernel)
    assert found.instructions == ("last", "then")
    given = {"A": np.random.default_rng(1).random((8, 8)), "x": np.arange(8.0), "rows": np.arange(8, dtype=np.int32)[::-1].copy()}
    results = run(default_schedule(found.cascade).apply(found.prepared, found.names), **given)
    assert largest_error(results["w"], 2 * given["A"] @ (given["A"] @ given["x"])[::-1]) < 1e-13
