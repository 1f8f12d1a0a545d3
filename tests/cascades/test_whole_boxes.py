"""Instructions that write a part of a box: computed for all of it, written where the kernel writes."""

from __future__ import annotations

import math

import loopy as lp
import numpy as np
import pytest
from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

import feinsum_fuse as ff
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.mappings.default_mapping import default_schedule
from feinsum_fuse.schedule.kernel.spreading import spread_out
from tests.cascades.randomness import queue


def array(name: str, *shape: int, dtype: type = np.float32) -> lp.GlobalArg:
    return lp.GlobalArg(name, dtype, shape=shape)


CASES = {
    "loops that start above 0": ("{[i, j] : 2 <= i < 9 and 3 <= j < 7}", "C[i, j] = A[i, j]*2", (9, 8)),
    "the inside of a stencil": ("{[i, j] : 1 <= i < 8 and 1 <= j < 7}", "C[i, j] = A[i-1, j] + A[i+1, j] + A[i, j-1] + A[i, j+1]", (9, 8)),
    "a triangle": ("{[i, j] : 0 <= i < 9 and 0 <= j < 8 and j <= i}", "C[i, j] = exp(A[i, j])", (9, 8)),
    "a reduction of some rows": ("{[i, j, k] : 1 <= i < 9 and 0 <= j < 8 and 0 <= k < 8}", "C[i, j] = sum(k, A[i, k]*A[i-1, j])", (9, 8)),
    "a maximum of some rows": ("{[i, j, k] : 0 <= i < 9 and 0 <= j < 8 and 0 <= k <= j}", "C[i, j] = max(k, A[i, k]) {if=i<=j+1}", (9, 8)),
    "rows written before their loop": ("{[i, j] : 2 <= i < 9 and 0 <= j < 8}", "C[i-2, j] = A[i, j]*2", (9, 8)),
    "rows written after their loop": ("{[i, j] : 0 <= i < 7 and 0 <= j < 8}", "C[i+2, j] = A[i, j]*2", (9, 8)),
    "a loop that starts below 0": ("{[i, j] : -3 <= i < 5 and 0 <= j < 8}", "C[i+3, j] = A[i+3, j]*2", (9, 8)),
    "one column": ("{[i, k] : 0 <= i < 9 and 0 <= k < 8}", "C[i, 3] = sum(k, A[i, k])", (9, 8)),
    "one element": ("{[i, k] : 0 <= i < 9 and 0 <= k < 8}", "C[2, 0] = sum((i, k), A[i, k])", (9, 8)),
    "a triangle written at a distance": ("{[i, j] : 1 <= i < 9 and 0 <= j < 8 and j <= i}", "C[i-1, j] = A[i, j]*i", (9, 8)),
    "a sum under a condition": ("{[i, j, k] : 0 <= i < 9 and 0 <= j, k < 8}", "C[i, j] = sum(k, A[i, k]) {if=b[j] > 0}", (9, 8)),
    "a sum at a distance": ("{[i, j, k] : 1 <= i < 9 and 0 <= j, k < 8}", "C[i-1, j] = sum(k, A[i, k]) {if=b[j] > 0}", (9, 8)),
    "a condition on a value": ("{[i, j] : 0 <= i < 9 and 0 <= j < 8}", "C[i, j] = A[i, j]*2 {if=b[j] > 0}", (9, 8)),
    "an array of truth values": ("{[i, j] : 0 <= i < 9 and 0 <= j < 8}", "C[i, j] = A[i, j]*2 {if=t[j]}", (9, 8)),
    "a truth value in a sum": ("{[i, j] : 0 <= i < 9 and 0 <= j < 8}", "C[i, j] = (A[i, j] if t[j] else 0.5) + t[j]", (9, 8)),
    "an update in place": ("{[i, j] : 0 <= i < 9 and 0 <= j < 8}", "C[i, j] = 2*C[i, j] + A[i, j]", (9, 8)),
    "a product added to what there is": ("{[i, j, k] : 0 <= i < 9 and 0 <= j, k < 8}", "C[i, j] = sum(k, A[i, k]) - C[i, j]", (9, 8)),
    "an update of a part": ("{[i, j] : 2 <= i < 9 and 0 <= j < 8}", "C[i, j] = C[i, j]*A[i, j] {if=b[j] > 0}", (9, 8)),
    "a constant that is no number": ("{[i, j] : 0 <= i < 9 and 0 <= j < 8}", "C[i, j] = A[i, j] if A[i, j] > 0 else not_a_number", (9, 8)),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_written_is_right_and_the_rest_is_left_alone(case: str) -> None:
    domain, text, shape = CASES[case]
    arguments = [array("A", *shape), array("C", *shape), *([array("t", 8, dtype=np.bool_)] if "t[" in text else [])]
    if "{if=b[" in text:
        arguments.append(array("b", 8))
    kernel = lp.make_kernel(domain, text, [*arguments, ...] if "not_a" in text else arguments)
    if "not_a" in text:
        kernel = lp.fix_parameters(kernel, not_a_number=np.float32("nan"))
    matched = ff.match(kernel)
    transformed = default_schedule(matched.cascade).apply(matched.prepared, matched.names)
    generator = np.random.default_rng(1)
    given = {"A": generator.uniform(-1, 1, shape).astype(np.float32), "C": generator.uniform(-1, 1, shape).astype(np.float32)}
    if "{if=b[" in text:
        given["b"] = generator.uniform(-1, 1, 8).astype(np.float32)
    if "t[" in text:
        given["t"] = generator.integers(0, 2, 8).astype(np.bool_)
    before, after = (
        lp.set_options(unit, return_dict=True)(queue(), **{name: value.copy() for name, value in given.items()})[1]["C"]
        for unit in (kernel, transformed)
    )
    np.testing.assert_allclose(after, before, rtol=1e-6)


IN_PLACE = {
    "an update": ("{[i] : 0 <= i < 8}", ["y[i] = y[i] + x[i]"]),
    "a part": ("{[i] : 2 <= i < 6}", ["y[i] = 2*x[i]"]),
    "a condition on a value": ("{[i] : 0 <= i < 8}", ["y[i] = 2*x[i] {if=w[i] > 0.5}"]),
    "backwards": ("{[i] : 0 <= i < 5}", ["y[7 - i] = x[i]"]),
    "every second": ("{[i] : 0 <= i < 4}", ["y[2*i] = x[i]*w[2*i]"]),
    "two rows": ("{[i] : 0 <= i < 8}", ["Z[0, i] = x[i] {id=a}", "Z[2, i] = 2*x[i]*w[i] {id=b}"]),
    "two columns, one after the other": ("{[i] : 0 <= i < 8}", ["Z[i, 0] = x[i] {id=a}", "Z[i, 1] = Z[i, 0] + w[i] {id=b, dep=a}"]),
    "one array twice": ("{[i] : 0 <= i < 8}", ["y[i] = 2*x[i] {id=a}", "y[i] = y[i]*w[i] + 1 {id=b, dep=a}"]),
    "a diagonal": ("{[i] : 1 <= i < 7}", ["Z[i, i] = x[i]"]),
    "a start and a sum": ("{[i, k] : 0 <= i, k < 8}", ["y[i] = 0 {id=a}", "y[i] = y[i] + sum(k, Z[i, k]*x[k]) {id=b, dep=a}"]),
    "what was written just now": ("{[i] : 1 <= i < 8}", ["y[i] = 2*x[i] {id=a}", "w[i - 1] = y[i]*x[i] {id=b, dep=a}"]),
    "what was written before": (["{[i] : 1 <= i < 8}", "{[j] : 0 <= j < 8}"], ["y[i] = 2*x[i] {id=a}", "w[j] = y[j]*x[j] {id=b, dep=a}"]),
}


@pytest.mark.parametrize("case", IN_PLACE)
def test_the_reference_of_what_is_written_in_part_is_the_array(case: str) -> None:
    """As the kernel leaves it; and where nothing has to run between Einsums, a schedule's kernel too."""
    domain, texts = IN_PLACE[case]
    arrays = [array("Z", 8, 8), *(array(name, 8) for name in "wxy")]
    used = [one for one in arrays if f"{one.name}[" in " ".join(texts)]
    kernel = lp.make_kernel(domain, texts, used, lang_version=(2018, 2))
    generator = np.random.default_rng(3)
    given = {one.name: generator.random(one.shape, np.float32) for one in used}
    matched = ff.match(kernel)
    _, expected = lp.set_options(kernel, return_dict=True)(queue(), **{name: value.copy() for name, value in given.items()})
    results = matched.reference(**given)
    assert set(results) == set(expected)
    if case != "what was written before":
        schedule = default_schedule(matched.cascade)
        unit = lp.set_options(schedule.apply(matched.prepared, matched.names), return_dict=True)
        _, got = unit(queue(), **{name: value.copy() for name, value in given.items()})
    for name, value in expected.items():
        np.testing.assert_allclose(results[name], value, rtol=1e-6, err_msg=name)
        np.testing.assert_allclose(got[name] if case != "what was written before" else value, value, rtol=1e-6, err_msg=name)


REFUSED = {
    "y[i] = x[i+1] {id=a, if=i<7}": r"instruction a .*guarded by i < 7, and it reads x\[i \+ 1\] under a condition without which",
    "y[i] = y[7-i] {id=a}": "instruction a .*it reads other elements of y than the one that it writes in the same iteration of i",
    "y[i+1] = x[i] {id=a}\nw[i] = y[7-i] {id=b, dep=a}": "it and b touch elements of y that the loop i around both does not tell apart",
    "y[i+1] = x[i] {id=a}\ny[7-i] = w[i] {id=b, dep=a}": "it and . touch elements of y that the loop i around both does not tell apart",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused_is_said_in_the_kernels_own_words(text: str) -> None:
    arrays = [one for one in (array("w", 8), array("x", 8), array("y", 9)) if f"{one.name}[" in text]
    with pytest.raises(ff.MatchError, match=REFUSED[text]) as error:
        ff.match(lp.make_kernel("{[i] : 0 <= i < 8}", text, arrays, lang_version=(2018, 2)))
    assert not [part for part in ("_box", "_sum", "_shifted", "_place", "_read") if part in str(error.value)]
    assert set(error.value.instructions) <= {"a", "b"}


def test_other_instructions_of_the_loop_keep_what_is_written_from_a_box_in_it() -> None:
    """Read at another place there, it would be read too late."""
    arrays = [array("x", 8), array("y", 8), array("z", 8), lp.GlobalArg("rows", np.int32, shape=(8,))]
    texts = ["y[i] = y[i] + x[i] {id=a}", "z[rows[i]] = y[7-i] {id=b, dep=a}"]
    with pytest.raises(ff.MatchError, match="touch elements of y"):
        ff.match(lp.make_kernel("{[i] : 0 <= i < 8}", texts, arrays, lang_version=(2018, 2)), ["a"])


def test_what_is_updated_by_its_neighbours_is_no_tensor() -> None:
    kernel = lp.make_kernel("{[i] : 0 <= i < 8}", "C[i] = C[i] + C[i+1]", [array("C", 9)])
    with pytest.raises(ff.MatchError, match="reads C, which it writes"):
        ff.match(kernel)


def test_what_a_condition_keeps_from_being_read_is_not_read() -> None:
    kernel = lp.make_kernel("{[i] : 0 <= i < 9}", "C[i] = A[i-1] {if=i>0}", [array("A", 8), array("C", 9)])
    with pytest.raises(ff.MatchError, match="it is guarded by i > 0"):
        ff.match(kernel)


def test_other_instructions_in_a_shifted_loop_stay_right() -> None:
    """They count the same loop, and are not matched."""
    kernel = lp.make_kernel(
        "{[i, j] : 2 <= i < 9 and 0 <= j < 8}",
        "for i\nC[i-2, j] = A[i, j]*2 {id=first}\nB[rows[i], 0] = A[i, 0] {id=second, dep=first}\nend",
        [array("A", 9, 8), array("C", 9, 8), array("B", 12, 8), array("rows", 9, dtype=np.int32)],
    )
    matched = ff.match(kernel, ["first"])
    transformed = default_schedule(matched.cascade).apply(matched.prepared, matched.names)
    given = {"A": np.random.default_rng(1).random((9, 8), np.float32), "rows": np.arange(9, 0, -1, dtype=np.int32)}
    given |= {"C": np.zeros((9, 8), np.float32), "B": np.zeros((12, 8), np.float32)}
    before, after = (
        lp.set_options(unit, return_dict=True)(queue(), **{name: value.copy() for name, value in given.items()})[1]
        for unit in (kernel, transformed)
    )
    for name in ("B", "C"):
        np.testing.assert_allclose(after[name], before[name], rtol=1e-6)


@pytest.mark.parametrize(
    ("texts", "start"),
    [
        (("x[i] = w[i] {id=p}", "y[i] = y[i] + x[7-i] {id=a, dep=p}"), 0),
        (("s[0] = w[i] {id=p, inames=i}", "y[i] = y[i] + s[0] {id=a, dep=p}"), 0),
        (("s[0] = w[i] {id=p, inames=i}", "y[i] = x[i] + s[0] {id=a, dep=p, if=i>=3}"), 0),
        (("s[0] = w[i] {id=p, inames=i}", "y[i] = x[i] + s[0] {id=a, dep=p}"), 2),
        (("y[i] = y[i] + x[7-i] {id=a}", "x[i] = w[i] {id=p, dep=a}"), 0),
    ],
)
@pytest.mark.parametrize("chosen", [None, ["a"]])
def test_what_is_written_in_the_loop_is_not_read_at_once(texts: tuple[str, str], start: int, chosen: list[str] | None) -> None:
    """With loops of its own the instruction read elements that were not written yet, or were written since."""
    arrays = [array("w", 8), array("x", 8), array("y", 8), array("s", 1)]
    with pytest.raises(ff.MatchError):
        ff.match(lp.make_kernel(f"{{[i] : {start} <= i < 8}}", list(texts), arrays, lang_version=(2018, 2)), chosen)


def test_an_update_by_what_its_loop_has_written_at_the_same_place_is_matched() -> None:
    arrays = [array("w", 8), array("x", 8), array("y", 8)]
    texts = ["x[i] = 2*w[i] {id=p}", "y[i] = y[i] + x[i] {id=a, dep=p}"]
    kernel = lp.make_kernel("{[i] : 0 <= i < 8}", texts, arrays, lang_version=(2018, 2))
    matched = ff.match(kernel)
    given = {name: np.random.default_rng(6).random(8, np.float32) for name in "wxy"}
    transformed = default_schedule(matched.cascade).apply(matched.prepared, matched.names)
    _, found = lp.set_options(transformed, return_dict=True)(queue(), **{name: value.copy() for name, value in given.items()})
    np.testing.assert_allclose(found["y"], given["y"] + 2 * given["w"], rtol=1e-6)


def test_arrays_in_vectors_are_refused_by_name() -> None:
    arrays = [array("A", 9, 4), lp.GlobalArg("C", np.float32, shape=(9, 4), dim_tags="N0,vec")]
    kernel = lp.make_kernel("{[i, v] : 0 <= i < 9 and 0 <= v < 4}", "C[i, v] = A[i, v]*2", arrays)
    for ask in (ff.match, lambda unit: ff.retrieve(unit, "pocl")):
        with pytest.raises(ff.MatchError, match="C lies in vectors or in several arrays"):
            ask(kernel)


def test_sums_that_wrap_before_they_are_stored_are_refused() -> None:
    arrays = [array("A", 9, 8, dtype=np.int8), array("C", 9, dtype=np.int64)]
    with pytest.raises(ff.MatchError, match="it adds up in int8, which wraps, what it stores as int64"):
        ff.match(lp.make_kernel("{[i, j] : 0 <= i < 9 and 0 <= j < 8}", "C[i] = sum(j, A[i, j])", arrays))


def test_it_is_named_among_the_rewritings() -> None:
    domain, text, shape = CASES["the inside of a stencil"]
    matched = ff.match(lp.make_kernel(domain, [f"{text} {{id=inside}}"], [array("A", *shape), array("C", *shape)]))
    assert str(matched.rewritings[0]) == "whole box computed: C_box for inside"
    assert matched.instructions == ("inside",)


def test_an_array_of_truth_values_is_no_result() -> None:
    kernel = lp.make_kernel("{[i] : 0 <= i < 9}", "C[i] = A[i] > 0", [array("A", 9), array("C", 9, dtype=np.bool_)])
    with pytest.raises(ff.MatchError, match="there is no element type 'bool'"):
        ff.match(kernel)


def test_parts_are_written_by_many_groups() -> None:
    """Before an instruction of the caller's, which reads what was written and stays on one work-item."""
    inside, after = "C[i, j] = A[i-1, j] + A[i+1, j] {id=inside}", "total[m] = total[m] + C[m, 3]*C[m, 4] {id=after, dep=inside}"
    domains = ["{[i, j] : 1 <= i < 149 and 0 <= j < 70}", "{[m] : 0 <= m < 150}"]
    arguments = [array("A", 150, 70), array("C", 150, 70), array("total", 150)]
    kernel = lp.make_kernel(domains, [inside, after], arguments, lang_version=(2018, 2))
    matched = ff.match(kernel, ["inside"])
    transformed = default_schedule(matched.cascade).apply(matched.prepared, matched.names)
    launches = executable(transformed).launches
    assert [math.prod(launch.global_size) > 1 for launch in launches] == [True, True, False]
    given = {arg.name: np.random.default_rng(4).random(arg.shape, np.float32) for arg in arguments}
    results = [
        lp.set_options(unit, return_dict=True)(queue(), **{name: value.copy() for name, value in given.items()})[1]
        for unit in (kernel, transformed)
    ]
    for name in results[0]:
        np.testing.assert_allclose(results[1][name], results[0][name], rtol=1e-6)


def test_groups_take_rows_of_arrays_of_any_rank() -> None:
    kernel = lp.make_kernel("{[i, j, k, l] : 0 <= i, j, k < 3 and 1 <= l < 5001}", "C[i, j, k, l] = l {id=C}", [array("C", 3, 3, 3, 5001)])
    spread = spread_out(lp.add_dtypes(kernel, {}).default_entrypoint, "C")
    assert {name: str(tag) for name, iname in spread.inames.items() for tag in iname.tags} == {
        "l_own_groups": "g.0",
        "k_own": "g.1",
        "j_own": "g.2",
    }
