"""The fact's key: one test per field, and that names mean nothing."""

from __future__ import annotations

import dataclasses
import random

import pytest

import feinsum_fuse as ff
from feinsum_fuse.archive import Fit, history, query, record, retrieve
from feinsum_fuse.archive.facts.recording import record_from
from feinsum_fuse.device.timing.measurement import Measurement
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.loop_steps import Split
from feinsum_fuse.schedule.tree.nest import LoopRef
from tests.sweeps import sweep_size

from .samples import HERE, measurement, product, tiled


def test_structure(url: str) -> None:
    record(measurement(product()), url=url)
    transposed = product(expression="A[k,m] * B[k,n]")
    assert record_from(measurement(transposed)).key.structure != record_from(measurement(product())).key.structure
    assert query(transposed, HERE, url=url) == ()
    assert retrieve(transposed, HERE, url=url).found is Fit.nothing
    assert query(product(expression="max(A[m,k] * B[k,n])"), HERE, url=url) == ()


def test_structure_leaves_out_maps_but_the_cascade_key_does_not(url: str) -> None:
    plain, other = measurement(product()), measurement(product(expression="exp(A[m,k]) * B[k,n]"))
    record(plain, url=url)
    assert query(product(expression="exp(A[m,k]) * B[k,n]"), HERE, url=url)[0].found is Fit.exact
    assert record_from(plain).key == record_from(other).key
    assert record_from(plain).cascade_key != record_from(other).cascade_key
    assert history(other, url=url) == ()


def test_sizes(url: str) -> None:
    record(measurement(product(m=64)), url=url)
    record(measurement(product(m=256)), url=url)
    assert [fact.found for fact in query(product(m=64), HERE, url=url)] == [Fit.exact, Fit.nearest_sizes]
    found = retrieve(product(m=200), HERE, url=url)
    assert found.found is Fit.nearest_sizes
    assert found.known.key.sizes != record_from(measurement(product(m=64))).key.sizes
    assert found.detail == "recorded at m = 256 for 200"


def test_sizes_that_are_exchanged_are_other_sizes(url: str) -> None:
    record(measurement(product(m=64, n=32)), url=url)
    assert query(product(m=32, n=64), HERE, url=url)[0].found is Fit.nearest_sizes


def test_element_types(url: str) -> None:
    record(measurement(product(dtype="float32")), url=url)
    assert query(product(dtype="float64"), HERE, url=url) == ()
    mixed = ff.cascade(["Z[m,n] = A[m,k] * B[k,n]"], sizes={"M": 64, "K": 32, "N": 48}, dtypes={"A": "float64", "Other": "float32"})
    assert query(mixed, HERE, url=url) == ()
    assert query(product(dtype="float32"), HERE, url=url)[0].known.key.dtypes == ("float32",) * 3


def test_strides(url: str) -> None:
    padded = measurement(product(), strides={"A": (40, 1)})
    record(padded, url=url)
    key = record_from(padded).key
    assert sorted(key.strides) == [(), (), (40, 1)]
    assert dataclasses.replace(key, strides=((), (), ())) == record_from(measurement(product())).key
    assert query(product(), HERE, url=url) == ()
    assert history(measurement(product(), median_ns=5), url=url) == ()
    assert len(history(measurement(product(), strides={"A": (40, 1)}, median_ns=5), url=url)) == 1
    assert history(measurement(product(), strides={"A": (48, 1)}, median_ns=5), url=url) == ()


@pytest.mark.parametrize("field", ["platform", "name", "units", "driver"])
def test_device(url: str, field: str) -> None:
    record(measurement(product()), url=url)
    other = dataclasses.replace(HERE, **{field: 7 if field == "units" else f"{getattr(HERE, field)} other"})
    found = query(product(), other, url=url)
    if field == "platform":
        assert found == ()
        assert retrieve(product(), other, url=url).found is Fit.nothing
    else:
        assert [fact.found for fact in found] == [Fit.device_family]
        assert found[0].detail == f"recorded on {HERE}"
        assert retrieve(product(), other, url=url).found is Fit.device_family


def test_generations_of_a_processor_are_devices_of_their_own(url: str) -> None:
    """They share a name where a virtual machine shows no other; who does not know the processor goes by what is compiled for."""
    one, other = (dataclasses.replace(HERE, processor=f"family {family} model 2") for family in (25, 26))
    record(measurement(product(), device=one), url=url)
    assert query(product(), one, url=url)[0].found is Fit.exact
    assert query(product(), other, url=url)[0].found is Fit.device_family
    assert query(product(), HERE, url=url)[0].found is Fit.exact
    assert query(product(), dataclasses.replace(HERE, version="OpenCL 3.0 for another"), url=url)[0].found is Fit.device_family


def test_facts_without_a_processor_are_written_as_they_were(url: str) -> None:
    assert '"processor"' not in measurement(product()).to_json()
    known = measurement(product(), device=dataclasses.replace(HERE, processor="family 25 model 17"))
    assert Measurement.from_json(known.to_json()).provenance.device == known.provenance.device


def test_device_kind_separates_families(url: str) -> None:
    record(measurement(product()), url=url)
    assert query(product(), dataclasses.replace(HERE, kind="gpu", driver="x"), url=url) == ()


def test_schedule(url: str) -> None:
    first, second = measurement(product(), tiled(factor=8)), measurement(product(), tiled(factor=16), median_ns=2.0)
    assert record_from(first).key != record_from(second).key
    assert dataclasses.replace(record_from(first).key, schedule="") == dataclasses.replace(record_from(second).key, schedule="")
    record(first, url=url)
    assert history(second, url=url) == ()
    record(second, url=url)
    assert retrieve(product(), HERE, url=url).schedule == tiled(factor=16)
    assert history(dataclasses.replace(first, samples_ns=(3.0,)), url=url) == (record_from(first).measurement,)


def test_names_of_tensors_einsums_and_variables_mean_nothing(url: str) -> None:
    record(measurement(product(), tiled("Z", "m", 8)), url=url)
    renamed = ff.cascade(["out[x,q] = left[x,r] * right[r,q]"], sizes={"X": 64, "R": 32, "Q": 48}, dtypes={"All": "float32"})
    assert record_from(measurement(renamed, tiled("out", "x"))).key == record_from(measurement(product(), tiled("Z", "m"))).key
    found = retrieve(renamed, HERE, url=url)
    assert found.found is Fit.exact
    assert found.schedule == tiled("out", "x", 8)
    assert len(history(measurement(renamed, tiled("out", "x"), median_ns=3.0), url=url)) == 1


def test_operands_may_be_written_in_any_order(url: str) -> None:
    record(measurement(product()), url=url)
    assert retrieve(product(expression="B[k,n] * A[m,k]"), HERE, url=url).found is Fit.exact


def rows(count: int, order: list[int], names: str) -> ff.cascade:
    einsums = [f"{names}{k}[e,i] = J[e] * D[i,k] * u{k}[e,k]" for k in order]
    return ff.cascade(einsums, sizes={"E": 100, "I": 10, "K": 12}, dtypes={"All": "float32"})


@pytest.mark.parametrize("count", [3, 16])
def test_symmetric_schedules_have_one_key(count: int) -> None:
    """One row of a batch is treated in a special way; which one does not matter."""
    keys = set()
    for seed in range(4):
        order = random.Random(seed).sample(range(count), count)
        special = f"Z{order[0]}"
        schedule = Schedule((Explicate(tuple(f"Z{k}" for k in order)), Split(LoopRef(special, "e"), 4)))
        keys.add(record_from(measurement(rows(count, sorted(order), "Z"), schedule)).key)
    assert len(keys) == 1


def test_the_nearest_sizes_may_be_those_of_the_mirror_image(url: str) -> None:
    def two(i: int, j: int) -> ff.cascade:
        return ff.cascade(
            ["Y[i] = A[i,k] * B[k]", "Z[j] = C[j,l] * D[l]"], sizes={"I": i, "K": 8, "J": j, "L": 8}, dtypes={"All": "float32"}
        )

    record(measurement(two(1000, 10), Schedule((Explicate(("Y", "Z")), Split(LoopRef("Y", "i"), 4)))), url=url)
    found = retrieve(two(10, 1001), HERE, url=url)
    assert found.detail == "recorded at j = 1000 for 1001"
    assert found.schedule is not None
    assert found.schedule.steps[1] == Split(LoopRef("Z", "j"), 4)


def written_in_another_way(seed: int) -> tuple[ff.cascade, Schedule]:
    """One attention-like cascade and a schedule for it, under random names, with operands and independent Einsums in random order."""
    generator = random.Random(seed)
    pool = generator.sample([f"{letter}{number}" for letter in "ABCDEFG" for number in range(9)], 9)
    q, k, v, w, s, x, p, o, bias = pool
    names = dict(zip("mnde", generator.sample("abcdefgh", 4), strict=True))

    def product_of(*factors: str) -> str:
        return " * ".join(generator.sample(factors, len(factors)))

    m, n, d, e = (names[letter] for letter in "mnde")
    scores = f"{s}[{m},{n}] = {product_of(f'{q}[{m},{d}]', f'{k}[{n},{d}]')}"
    maximum = f"{x}[{m}] = max({s}[{m},{n}])"
    biased = f"{bias}[{n},{e}] = {product_of(f'{v}[{n},{e}]', f'{w}[{n},{e}]')}"
    weights = f"{p}[{m},{n}] = exp({s}[{m},{n}] - {x}[{m}])"
    output = f"{o}[{m},{e}] = {product_of(f'{p}[{m},{n}]', f'{bias}[{n},{e}]')}"
    chain = [scores, maximum, weights]
    chain.insert(generator.randrange(4), biased)
    sizes = {m.upper(): 40, n.upper(): 50, d.upper(): 16, e.upper(): 16}
    cascade = ff.cascade([*chain, output], sizes=sizes, dtypes={"All": "float32"})
    schedule = Schedule((Explicate((s, x, bias, p, o)), Split(LoopRef(p, n), 10), Split(LoopRef(bias, e), 4), Split(LoopRef(o, m), 8)))
    return cascade, schedule


def test_a_cascade_has_one_key_however_it_is_written(url: str) -> None:
    first, schedule = written_in_another_way(0)
    record(measurement(first, schedule), url=url)
    key = record_from(measurement(first, schedule)).key
    for seed in range(1, 1 + sweep_size(200)):
        cascade, same = written_in_another_way(seed)
        made = record_from(measurement(cascade, same))
        assert (made.key, made.cascade_key) == (key, first.key)
        found = retrieve(cascade, HERE, url=url)
        assert found.found is Fit.exact
        assert found.schedule == same
