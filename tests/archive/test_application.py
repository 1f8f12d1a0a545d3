"""Facts applied to other people's kernels."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence

import loopy as lp
import numpy as np
import pyopencl as cl
import pytest
from loopy.kernel.data import ArrayArg

import feinsum_fuse as ff
from feinsum_fuse.archive import Fit, query, record, retrieve
from feinsum_fuse.archive.facts import application
from feinsum_fuse.archive.facts.proofs import Proofs
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.matching.match import Match, match
from feinsum_fuse.codegen.executable import Executable
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.device.catalogue import DeviceInfo, find_device
from feinsum_fuse.device.program.building import build
from feinsum_fuse.device.program.runner import Runner
from feinsum_fuse.device.runtime.isolation import RunResult, run_isolated
from feinsum_fuse.device.timing.outcome import KernelError, Outcome
from feinsum_fuse.errors import ArchiveError, ScheduleError
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.loop_steps import Bind, Reorder, Split
from feinsum_fuse.schedule.steps.tile_steps import CacheRead, CacheWrite
from feinsum_fuse.schedule.steps.vector_steps import Vectorize
from feinsum_fuse.schedule.tree.nest import LoopRef

from .compiler_view import dg_kernel, optimised
from .samples import measurement, product


@pytest.fixture(scope="module")
def device() -> cl.Device:
    return find_device("portable")


def part(variable: str, path: str = "") -> LoopRef:
    return LoopRef("Z", variable, path)


GROUPS = Schedule(
    (
        Explicate(("Z",)),
        Split(part("m"), 8),
        Bind(part("m", "0"), "group.0"),
        CacheRead(("Z",), "B", part("m", "0"), "local"),
        CacheWrite("Z", part("m", "1"), "private"),
    )
)
"""Rows in groups of eight, one operand copied to local memory, a private accumulator."""


def foreign_kernel(m: int = 100) -> lp.TranslationUnit:
    """Somebody's kernel: a product among other things, with rules, tags, an unusual order of arguments and a loop nest of its own."""
    kernel = lp.make_kernel(
        [
            f"{{[x, y]: 0 <= x < {m} and 0 <= y < 48}}",
            "{[z]: 0 <= z < 32}",
            "{[u]: 0 <= u < 100}",
            "{[v, w]: 0 <= v < 77 and 0 <= w < 3}",
        ],
        """
        left(a, b) := P[a, b] * scale[a]
        right(a, b) := Q[a, b]
        scale[u] = 2 * raw[u]  {id=before, if=u < 200}
        out[x, y] = sum(z, left(x, z) * right(z, y))  {id=product, dep=before}
        after[v, w] = out[v, w] + weight  {id=after, dep=product}
        counter[v, w] = counter[v, w] + 1  {id=update, dep=product}
        """
,
        [
            lp.GlobalArg("out", np.float32, shape=(m, 48)),
            lp.ValueArg("weight", np.float32),
            lp.GlobalArg("Q", np.float32, shape=(32, 48)),
            lp.GlobalArg("raw, scale", np.float32, shape=(100,)),
            lp.GlobalArg("P", np.float32, shape=(m, 32)),
            lp.GlobalArg("after", np.float32, shape=(77, 3)),
            lp.GlobalArg("counter", np.int32, shape=(77, 3)),
        ],
        lang_version=(2018, 2),
        name="theirs",
    )
    return lp.tag_inames(kernel, {"w": "unr"})


def arguments(kernel: lp.TranslationUnit) -> list[tuple[object, ...]]:
    return [(type(a), a.name, a.dtype, *((a.shape, a.dim_tags) if isinstance(a, ArrayArg) else ())) for a in kernel.default_entrypoint.args]


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory, device: cl.Device) -> str:
    """A database that knows the product of 64 rows, measured for real."""
    url, cascade = str(tmp_path_factory.mktemp("known") / "facts.sqlite3"), product(m=64)
    record(ff.measure(build(cascade, GROUPS, device), repeats=3), url=url)
    return url


def test_everything_but_the_matched_loops_survives(known: str, device: cl.Device) -> None:
    kernel = foreign_kernel()
    fact = retrieve(kernel, device, known)
    assert fact.found is Fit.nearest_sizes
    assert fact.detail == "of the kernel, product alone; recorded at x = 64 for 100"
    assert fact.instructions == ("product",)
    fast = fact.apply(kernel)
    before, after = kernel.default_entrypoint, fast.default_entrypoint
    assert arguments(fast) == arguments(kernel)
    assert after.name == before.name
    assert fast.entrypoints == kernel.entrypoints
    assert {n: r.expression for n, r in before.substitutions.items()} == {
        n: r.expression for n, r in after.substitutions.items() if n in before.substitutions
    }
    for name in ("before", "after", "update"):
        old, new = before.id_to_insn[name], after.id_to_insn[name]
        assert (old.assignee, old.expression, old.predicates, old.within_inames, old.tags) == (
            new.assignee,
            new.expression,
            new.predicates,
            new.within_inames,
            new.tags,
        )
    assert before.inames["w"].tags == after.inames["w"].tags
    assert "product" not in after.id_to_insn
    assert any("group" in str(tag) or "g.0" in str(tag) for iname in after.inames.values() for tag in iname.tags)


def test_the_result_is_right(known: str, device: cl.Device) -> None:
    fast = retrieve(foreign_kernel(), device, known).apply(foreign_kernel())
    program = executable(fast, outputs=["out", "after"])
    generator = np.random.default_rng(0)
    inputs = {a.name: generator.uniform(-1, 1, a.shape).astype(a.dtype) for a in program.inputs}
    result = run_isolated(program, inputs, device)
    assert result.outcome is Outcome.ok
    scaled = inputs["P"] * (2 * inputs["raw"])[:100, None]
    expected = scaled.astype(np.float64) @ inputs["Q"]
    np.testing.assert_allclose(result.outputs["out"], expected, rtol=0, atol=1e-4)
    np.testing.assert_allclose(result.outputs["after"], expected[:77, :3] + inputs["weight"], rtol=0, atol=1e-4)


@pytest.mark.parametrize("ids", [["product"], None])
def test_instructions_may_be_named_or_found(known: str, device: cl.Device, ids: list[str] | None) -> None:
    fact = retrieve(product(m=64), device, known)
    assert fact.instructions is None
    kernel = foreign_kernel()
    assert fact.apply(kernel, ids) == fact.apply(kernel, ["product"])


def test_a_match_can_be_asked_about(known: str, device: cl.Device) -> None:
    assert retrieve(match(foreign_kernel(m=64), ["product"]), device, known).found is Fit.exact


def test_instructions_that_fit_twice_must_be_named(known: str, device: cl.Device) -> None:
    twice = lp.make_kernel(
        ["{[m, n]: 0 <= m < 64 and 0 <= n < 48}", "{[k]: 0 <= k < 32}", "{[p, q]: 0 <= p < 64 and 0 <= q < 48}", "{[r]: 0 <= r < 32}"],
        """
        a(i, j) := A[i, j]
        b(i, j) := B[i, j]
        c(i, j) := C[i, j]
        Y[m, n] = sum(k, a(m, k) * b(k, n))  {id=first}
        Z[p, q] = sum(r, a(p, r) * c(r, q))  {id=second}
        """,
        [lp.GlobalArg("A, B, C, Y, Z", np.float32, shape=lp.auto)],
        lang_version=(2018, 2),
    )
    fact = retrieve(product(m=64), device, known)
    with pytest.raises(ArchiveError) as error:
        fact.apply(twice)
    assert str(error.value) == (
        "the fact fits several instructions of the kernel: first, and second\n  say which: apply(kernel, instructions=[...])"
    )
    fast = fact.apply(twice, ["second"])
    assert "first" in fast.default_entrypoint.id_to_insn
    assert "second" not in fast.default_entrypoint.id_to_insn
    with pytest.raises(ArchiveError, match="the fact fits several"):
        fact.apply(twice, ["unknown"])


def test_parts_of_a_kernel_are_found_one_after_the_other(known: str, device: cl.Device) -> None:
    """Two products and an element-wise Einsum: nothing is known about the three together."""
    kernel = lp.make_kernel(
        [
            "{[m, n]: 0 <= m < 70 and 0 <= n < 48}",
            "{[k]: 0 <= k < 32}",
            "{[p, q]: 0 <= p < 70 and 0 <= q < 48}",
            "{[r]: 0 <= r < 32}",
            "{[u, v]: 0 <= u < 70 and 0 <= v < 48}",
        ],
        """
        a(i, j) := A[i, j]
        b(i, j) := B[i, j]
        c(i, j) := C[i, j]
        y(i, j) := Y[i, j]
        z(i, j) := Z[i, j]
        Y[m, n] = sum(k, a(m, k) * b(k, n))  {id=first}
        Z[p, q] = sum(r, a(p, r) * c(r, q))  {id=second}
        X[u, v] = y(u, v) - z(u, v)  {id=difference, dep=first:second}
        """,
        [lp.GlobalArg("A, B, C, X, Y, Z", np.float32, shape=lp.auto)],
        lang_version=(2018, 2),
    )
    fact = retrieve(kernel, device, known)
    assert (fact.found, fact.instructions) == (Fit.nearest_sizes, ("first",))
    assert fact.detail == "of the kernel, first alone; recorded at m = 64 for 70"
    half = fact.apply(kernel)
    other = retrieve(half, device, known)
    assert other.instructions == ("second",)
    whole = other.apply(half)
    assert not retrieve(whole, device, known)
    program = executable(whole)
    inputs = {a.name: np.random.default_rng(0).uniform(-1, 1, a.shape).astype(a.dtype) for a in program.inputs}
    result = run_isolated(program, inputs, device)
    np.testing.assert_allclose(result.outputs["X"], inputs["A"] @ inputs["B"] - inputs["A"] @ inputs["C"], atol=1e-4)


def test_a_kernel_that_computes_something_else_is_refused(known: str, device: cl.Device) -> None:
    fact = retrieve(product(m=64), device, known)
    other = product(expression="A[k,m] * B[k,n]").kernel()
    with pytest.raises(ArchiveError, match="the fact is about 1 Einsum of another structure"):
        fact.apply(other)
    with pytest.raises(ArchiveError, match="of another structure, other element types or other strides than these instructions"):
        fact.apply(other, [insn.id for insn in other.default_entrypoint.instructions])
    with pytest.raises(ArchiveError, match="of another structure, other element types"):
        fact.apply(product(m=64, dtype="float64").kernel())
    with pytest.raises(ArchiveError, match="of another structure"):
        fact.apply(foreign_kernel(), ["before"])


def test_strides_of_the_callers_arrays_count(known: str, device: cl.Device) -> None:
    kernel = product(m=64).kernel()
    padded = kernel.with_kernel(
        kernel.default_entrypoint.copy(
            args=[a.copy(dim_tags=None, strides=(40, 1)) if a.name == "A" else a for a in kernel.default_entrypoint.args]
        )
    )
    assert query(kernel, device, url=known)[0].found is Fit.exact
    assert query(padded, device, url=known) == ()
    with pytest.raises(ArchiveError, match="other strides"):
        retrieve(product(m=64), device, known).apply(padded)


def test_a_schedule_that_is_not_legal_for_the_kernel_is_refused(known: str, device: cl.Device) -> None:
    fact = retrieve(product(m=64), device, known)
    with pytest.raises(ScheduleError):
        fact.apply(product(m=4).kernel())
    assert retrieve(product(m=4), device, known).found is Fit.nothing


def test_a_kernel_that_is_transformed_wrongly_is_not_handed_out(known: str, device: cl.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    fact = retrieve(product(m=72), device, known)
    honest = Schedule.apply

    def wrong(self: Schedule, kernel: lp.TranslationUnit, names: object = None, **others: object) -> lp.TranslationUnit:
        result = honest(self, kernel, names, **others)  # type: ignore[arg-type]
        inner = result.default_entrypoint
        update = next(insn for insn in inner.instructions if insn.id.endswith("update"))
        changed = [i.copy(expression=i.expression * 2) if i is update else i for i in inner.instructions]
        return result.with_kernel(inner.copy(instructions=changed))

    monkeypatch.setattr(Schedule, "apply", wrong)
    with pytest.raises(KernelError, match="the transformed kernel computes something else: Z: relative error") as error:
        fact.apply(product(m=72).kernel())
    assert error.value.outcome is Outcome.wrong_result


def test_a_kernel_that_is_too_slow_as_it_stands_is_checked_against_numpy(
    known: str, device: cl.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    honest = application._runs

    def slow(programs: Sequence[Executable], inputs: dict[str, np.ndarray], info: DeviceInfo) -> list[RunResult]:
        ran.extend(program.source_hash for program in programs)
        return [RunResult(Outcome.timeout, "launch", "killed"), *honest(programs[1:], inputs, info)]

    monkeypatch.setattr(application, "_runs", slow)
    kernel = product(m=88).kernel()
    fast = retrieve(kernel, device, known).apply(kernel)
    assert len(ran) == 2
    assert fast != kernel
    ran.clear()
    monkeypatch.setattr(Match, "reference", lambda self, **arguments: {"Z": np.zeros((80, 48))})
    other = product(m=80).kernel()
    with pytest.raises(KernelError, match="the transformed kernel computes something else: Z: relative error"):
        retrieve(other, device, known).apply(other)


DOFS = 10
"""Of elements of second order, whose kernels are compiled in half the time of those of third."""


def divergence(elements: int) -> Cascade:
    return ff.cascade(
        ["Z[e,i] = J[x,r,e] * D[r,i,j] * u[x,e,j]"], sizes={"X": 3, "R": 3, "I": DOFS, "J": DOFS, "E": elements}, dtypes={"All": "float32"}
    )


LANES = Schedule(
    (
        Explicate(("Z",)),
        Split(part("e"), 8),
        Reorder("Z", (part("e", "0"), part("i"), part("x"), part("r"), part("j"), part("e", "1"))),
        Bind(part("e", "0"), "group.0"),
        CacheRead(("Z",), "u", part("e", "0"), "private", (0, 2, 1)),
        CacheRead(("Z",), "J", part("e", "0"), "private"),
        CacheWrite("Z", part("i"), "private"),
        Vectorize((part("e", "1"),)),
    )
)
"""Eight elements side by side in the lanes of vectors."""


@pytest.fixture
def dg_database(url: str, device: cl.Device, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Knows the plain product at another number of elements."""
    monkeypatch.setenv("FEINSUM_FUSE_DATABASE", url)
    record(ff.measure(build(divergence(3200), LANES, device), repeats=3))
    yield url


def test_a_compilers_view(dg_database: str, device: cl.Device, capsys: pytest.CaptureFixture[str]) -> None:
    """A discontinuous Galerkin operator of somebody else becomes right and faster by what is known of the plain product."""
    kernel = dg_kernel(3203, DOFS)
    fast = optimised(kernel, device)
    assert capsys.readouterr().out.startswith(
        "same structure at the nearest applicable sizes (of the kernel, divergence alone; "
        "recorded at iel = 3200 for 3203): median "
    )
    runners = [Runner(executable(k, outputs=["divergence", "mean"]), device) for k in (kernel, fast)]
    generator = np.random.default_rng(0)
    inputs = {a.name: generator.uniform(0.5, 1, a.shape).astype(a.dtype) for a in runners[0].executable.inputs}
    slow_result, fast_result = (runner(inputs) for runner in runners)
    geometry = inputs["inverse_jacobian"] / inputs["volume"].astype(np.float64)
    expected = np.einsum("xre,rij,xej->ei", geometry, inputs["derivative"], inputs["velocity"], optimize=True)
    for result in (slow_result, fast_result):
        np.testing.assert_allclose(result["divergence"], expected, rtol=1e-4)
        np.testing.assert_allclose(result["mean"], expected[:, :2].mean(axis=1), rtol=1e-4)
    seconds: list[list[float]] = [[], []]
    for _ in range(5):
        for times, runner in zip(seconds, runners, strict=True):
            start = time.perf_counter()
            runner(inputs)
            times.append(time.perf_counter() - start)
    assert min(seconds[1]) < min(seconds[0])


def test_a_fact_of_another_device_of_the_family_is_applied_and_verified_here(url: str, device: cl.Device) -> None:
    here = DeviceInfo.of(device)
    record(measurement(product(m=64), GROUPS, device=dataclasses.replace(here, name="another", units=64)), url=url)
    fact = retrieve(foreign_kernel(), device, url)
    assert fact.found is Fit.device_family
    assert "product" not in fact.apply(foreign_kernel()).default_entrypoint.id_to_insn


def test_a_kernel_of_symbolic_size(known: str, device: cl.Device) -> None:
    """Checked at the recorded size; the result serves every other."""
    kernel = lp.make_kernel(
        ["{[x, y]: 0 <= x < rows and 0 <= y < 48}", "{[z]: 0 <= z < 32}"],
        """
        left(a, b) := P[a, b]
        right(a, b) := Q[a, b]
        out[x, y] = sum(z, left(x, z) * right(z, y))  {id=product}
        """,
        [
            lp.GlobalArg("P", np.float32, shape="rows, 32"),
            lp.GlobalArg("Q", np.float32, shape=(32, 48)),
            lp.GlobalArg("out", np.float32, shape="rows, 48"),
            lp.ValueArg("rows", np.int32),
        ],
        lang_version=(2018, 2),
    )
    fact = retrieve(kernel, device, known)
    assert fact.detail == "recorded at x = 64 for symbolic"
    fast = fact.apply(kernel)
    for rows in (13,):
        program = executable(lp.fix_parameters(fast, rows=rows))
        inputs = {a.name: np.random.default_rng(0).uniform(-1, 1, a.shape).astype(a.dtype) for a in program.inputs}
        result = run_isolated(program, inputs, device, expected={"out": inputs["P"] @ inputs["Q"]}, tolerance=1e-5)
        assert result.outcome is Outcome.ok, result.message


def test_callees_and_the_order_of_foreign_loops_survive(known: str, device: cl.Device) -> None:
    twice = lp.make_function(
        "{[i]: 0 <= i < 48}",
        "b[i] = 2 * a[i]",
        [lp.GlobalArg("a, b", np.float32, shape=(48,))],
        name="twice",
        lang_version=(2018, 2),
    )
    caller = lp.make_kernel(
        [
            "{[x, y]: 0 <= x < 100 and 0 <= y < 48}",
            "{[z]: 0 <= z < 32}",
            "{[v, w]: 0 <= v, w < 48}",
            "{[p, q]: 0 <= p < 5 and 0 <= q < 48}",
        ],
        """
        left(a, b) := P[a, b]
        right(a, b) := Q[a, b]
        out[x, y] = sum(z, left(x, z) * right(z, y))  {id=product}
        [w]: doubled[w] = twice([v]: out[3, v])  {id=call, dep=product}
        copies[p, q] = doubled[q] + p  {id=copy, dep=call}
        """,
        [
            lp.GlobalArg("P", np.float32, shape=(100, 32)),
            lp.GlobalArg("Q", np.float32, shape=(32, 48)),
            lp.GlobalArg("out", np.float32, shape=(100, 48)),
            lp.GlobalArg("doubled", np.float32, shape=(48,)),
            lp.GlobalArg("copies", np.float32, shape=(5, 48)),
        ],
        lang_version=(2018, 2),
        name="caller",
    )
    kernel = lp.merge([lp.prioritize_loops(caller, "q, p"), twice])
    fast = retrieve(kernel, device, known).apply(kernel)
    assert fast.callables_table.keys() >= {"caller", "twice"}
    assert fast["twice"].instructions == kernel["twice"].instructions
    assert fast.default_entrypoint.id_to_insn["call"].expression == kernel.default_entrypoint.id_to_insn["call"].expression
    assert ("q", "p") in fast.default_entrypoint.loop_priority
    program = executable(fast)
    inputs = {a.name: np.random.default_rng(0).uniform(-1, 1, a.shape).astype(a.dtype) for a in program.inputs}
    result = run_isolated(program, inputs, device)
    assert result.outcome is Outcome.ok, result.message
    expected = 2 * (inputs["P"] @ inputs["Q"])[3] + np.arange(5, dtype=np.float32)[:, None]
    np.testing.assert_allclose(result.outputs["copies"], expected, atol=1e-4)


def two_products(device: cl.Device, url: str, between: bool) -> lp.TranslationUnit:
    """A chain of two products, recorded, and somebody's kernel of it, with or without a foreign instruction between the two."""
    chain = ff.cascade(
        ["T[m,n] = A[m,k] * B[k,n]", "Z[m,p] = T[m,n] * C[n,p]"], sizes={"M": 16, "K": 8, "N": 12, "P": 10}, dtypes={"All": "float32"}
    )
    chain = dataclasses.replace(chain, outputs=("T", "Z"))
    schedule = Schedule((Explicate(("T", "Z")), Split(LoopRef("T", "m"), 4)))
    record(measurement(chain, schedule, device=DeviceInfo.of(device)), url=url)
    return lp.make_kernel(
        [
            "{[m, n]: 0 <= m < 16 and 0 <= n < 12}",
            "{[k]: 0 <= k < 8}",
            "{[q, p]: 0 <= q < 16 and 0 <= p < 10}",
            "{[r]: 0 <= r < 12}",
            "{[u, v]: 0 <= u < 16 and 0 <= v < 12}",
        ],
        f"""
        a(i, j) := A[i, j]
        b(i, j) := B[i, j]
        t(i, j) := product[i, j]
        c(i, j) := C[i, j]
        product[m, n] = sum(k, a(m, k) * b(k, n))  {{id=first}}
        scaled[u, v] = 2 * product[u, v]  {{id=middle, dep=first}}
        Z[q, p] = sum(r, t(q, r) * c(r, p))  {{id=second, dep={"middle" if between else "first"}}}
        """,
        [lp.GlobalArg("A, B, C, product, scaled, Z", np.float32, shape=lp.auto)],
        lang_version=(2018, 2),
    )


def test_a_chain_is_found_among_others(url: str, device: cl.Device) -> None:
    kernel = two_products(device, url, between=False)
    fact = retrieve(kernel, device, url)
    assert (fact.found, fact.instructions) == (Fit.exact, ("first", "second"))
    fast = fact.apply(kernel)
    assert "middle" in fast.default_entrypoint.id_to_insn
    assert not {"first", "second"} & fast.default_entrypoint.id_to_insn.keys()


def test_an_instruction_that_stands_between_is_refused(url: str, device: cl.Device) -> None:
    kernel = two_products(device, url, between=True)
    fact = retrieve(kernel, device, url)
    assert not fact
    assert "instruction middle has to run between others that are transformed: it needs one of them" in fact.detail


def test_an_empty_schedule_gives_the_kernel_back(url: str, device: cl.Device) -> None:
    record(measurement(product(), Schedule(()), device=DeviceInfo.of(device)), url=url)
    kernel = product().kernel()
    assert retrieve(kernel, device, url).apply(kernel) is kernel


def test_only_the_last_proofs_are_remembered() -> None:
    """A process that lives for months does not grow by what it has checked."""
    proofs = Proofs(most=2)
    a, b, c = (("before", after, "device") for after in "abc")
    proofs.add(a)
    proofs.add(b)
    assert a in proofs
    proofs.add(c)
    assert [proof in proofs for proof in (a, b, c)] == [True, False, True]
    proofs.add(c)
    assert a in proofs
