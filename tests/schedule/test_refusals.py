"""Each precondition of a step has an error of its own, with the step, what is wrong and what to do."""

from __future__ import annotations

import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.schedule import refusals
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.step import Step
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.factor_steps import RFactor
from feinsum_fuse.schedule.steps.loop_steps import Bind, Fuse, Reorder, ShareLoop, Split, Unroll
from feinsum_fuse.schedule.steps.tile_steps import CacheRead, CacheWrite, ComputeAt
from feinsum_fuse.schedule.target import DeviceLimits
from feinsum_fuse.schedule.tree.sizes import check_limits

from .scripts import chain, product, ref, refs

SIZES = (13, 7, 11, 5)
PRODUCT, CHAIN, SQUARE = product(SIZES), chain(SIZES), chain((13, 7, 11, 7))
WINDOWS = ff.cascade(["T[x] = I[H: x+r] * V[r]", "O[y] = T[X: y+s] * W[s]"], sizes={"X": 12, "Y": 9, "R": 3, "S": 4})
SYMBOLIC = ff.cascade(["Z[m] = A[m,k] * B[k]"], sizes={"M": "M", "K": 4})


def applied(cascade: Cascade, *steps: Step) -> str:
    """The tree after these steps, written to loopy as well."""
    schedule = Schedule((Explicate(), *steps))
    schedule.apply(cascade.kernel())
    return str(schedule.nest(cascade.kernel()))


CASES: list[tuple[type[ff.ScheduleError], Cascade, tuple[Step, ...], str]] = [
    (
        refusals.UnknownLoopError,
        PRODUCT,
        (Split(ref("Z.m/0"), 2),),
        "Split(loop=Z.m/0, tile=2): there is no loop Z.m/0\n  Did you mean Z.m?",
    ),
    (
        refusals.UnknownEinsumError,
        PRODUCT,
        (Reorder("Y", refs("Z.m Z.n Z.k")),),
        "Reorder(einsum=Y, order=[Z.m, Z.n, Z.k]): there is no Einsum 'Y'\n  The Einsums are Z.",
    ),
    (
        refusals.UnknownTensorError,
        PRODUCT,
        (CacheRead(("Z",), "C", ref("Z.m"), "local"),),
        "CacheRead(einsums=[Z], tensor=C, at=Z.m, memory=local): Z read no tensor 'C'",
    ),
    (
        refusals.UnknownTensorError,
        PRODUCT,
        (ComputeAt("Z", ref("Z.m"), "local"),),
        "ComputeAt(tensor=Z, at=Z.m, memory=local): 'Z' is no intermediate that can shrink",
    ),
    (
        refusals.TileShapeError,
        PRODUCT,
        (Split(ref("Z.m"), 14),),
        "Split(loop=Z.m, tile=14): a tile of 14 does not fit the loop's 13 iterations",
    ),
    (refusals.TileShapeError, PRODUCT, (Split(ref("Z.m"), 0),), "Split(loop=Z.m, tile=0): the tile shape must be positive"),
    (
        refusals.TileShapeError,
        SYMBOLIC,
        (Unroll(ref("Z.m")),),
        "Unroll(loop=Z.m): a loop of symbolic size cannot be unrolled\n  Split it first.",
    ),
    (
        refusals.SymbolicExtentError,
        SYMBOLIC,
        (CacheRead(("Z",), "A", None, "local"),),
        (
            "CacheRead(einsums=[Z], tensor=A, at=None, memory=local): the tile along axis 0 of A_0_Z[m_Z, k_Z] has a symbolic size\n"
            "  Split the loop first."
        ),
    ),
    (
        refusals.NestOrderError,
        PRODUCT,
        (Reorder("Z", refs("Z.m Z.n")),),
        "Reorder(einsum=Z, order=[Z.m, Z.n]): the order must name exactly the loops of the Einsum: Z.m, Z.n, Z.k",
    ),
    (
        refusals.NestOrderError,
        CHAIN,
        (ShareLoop(refs("T.n Z.m")),),
        "ShareLoop(loops=[T.n, Z.m]): the loops do not stand one after another in one place",
    ),
    (
        refusals.DifferentExtentsError,
        ff.cascade(["T[m] = 2 * A[m]", "Z[n] = 3 * B[n]"], sizes={"M": "M", "N": 4}),
        (ShareLoop(refs("T.m Z.n")),),
        "ShareLoop(loops=[T.m, Z.n]): loops of symbolic size are shared only if their bounds are the same",
    ),
    (
        refusals.IncompleteReductionError,
        CHAIN,
        (Reorder("T", refs("T.k T.m T.n")), ShareLoop(refs("T.k Z.m"))),
        (
            "ShareLoop(loops=[T.k, Z.m]): Z would read T[m_Z, n_Z] before T has summed over T.k\n"
            "  Move the loop below the branch, or the consumer out of it."
        ),
    ),
    (
        refusals.ProducerConsumerError,
        CHAIN,
        (Reorder("T", refs("T.n T.m T.k")), ShareLoop(refs("T.n Z.m"))),
        (
            "ShareLoop(loops=[T.n, Z.m]): in one iteration T writes n_T and Z reads n_Z; they do not advance together\n"
            "  Cut both with tiles that cover the same elements."
        ),
    ),
    (
        refusals.ScopeError,
        CHAIN,
        (Bind(ref("T.m"), "group.0"), CacheWrite("T", None, "local")),
        (
            "CacheWrite(einsum=T, at=None, memory=local): local memory is not visible across group.0, which lies between the tile "
            "and its use in T[m_T, n_T]\n  Place the tile below that loop, or in a memory further out."
        ),
    ),
    (
        refusals.ScopeError,
        PRODUCT,
        (Reorder("Z", refs("Z.m Z.k Z.n")), Bind(ref("Z.n"), "local.0"), CacheWrite("Z", ref("Z.m"), "private")),
        (
            "CacheWrite(einsum=Z, at=Z.m, memory=private): private memory is not visible across local.0, which lies between the tile "
            "and its use in Z[m_Z, n_Z]\n  Place the tile below that loop, or hold it in local memory, or distributed over the work-items."
        ),
    ),
    (
        refusals.ScopeError,
        CHAIN,
        (ShareLoop(refs("T.m Z.m")), Bind(ref("T.n"), "local.0"), ComputeAt("T", ref("T.m"), "distributed")),
        (
            "ComputeAt(tensor=T, at=T.m, memory=distributed): a work-item of local.0 would use T[m_T, n_Z] where another one has written "
            "T[m_T, n_T]; private memory is each work-item's own\n"
            "  Hold the tensor in local memory there, or let the same work-items take the same elements."
        ),
    ),
    (
        refusals.ScopeError,
        SQUARE,
        (ShareLoop(refs("T.m Z.m")), Bind(ref("T.n"), "local.0"), Bind(ref("Z.p"), "local.0"), ComputeAt("T", ref("T.m"), "distributed")),
        (
            "ComputeAt(tensor=T, at=T.m, memory=distributed): a work-item of local.0 would use T[m_T, n_Z] where another one has written "
            "T[m_T, n_T]; private memory is each work-item's own\n"
            "  Hold the tensor in local memory there, or let the same work-items take the same elements."
        ),
    ),
    (
        refusals.ScopeError,
        PRODUCT,
        (CacheWrite("Z", ref("Z.m"), "cache"),),
        "CacheWrite(einsum=Z, at=Z.m, memory=cache): 'cache' is no memory for a tile\n  Use one of global, local, private, distributed.",
    ),
    (
        refusals.ReductionBindingError,
        PRODUCT,
        (Bind(ref("Z.k"), "local.0"),),
        (
            "Bind(loop=Z.k, axis=local.0): Z.k is a reduction loop of Z; its iterations add to the same elements\n"
            "  Insert RFactor, or bind a loop over a rank of the output."
        ),
    ),
    (
        refusals.ParallelDependenceError,
        WINDOWS,
        (ShareLoop(refs("T.x O.y")), Bind(ref("T.x"), "group.0")),
        (
            "Bind(loop=T.x, axis=group.0): iterations of T.x depend on one another through T[s_O+x_T-3]\n"
            "  Leave the loop in time, or bind one over another rank."
        ),
    ),
    (
        refusals.HostLoopError,
        CHAIN,
        (
            Reorder("T", refs("T.n T.m T.k")),
            Reorder("Z", refs("Z.n Z.m Z.p")),
            ShareLoop(refs("T.n Z.n")),
            Bind(ref("T.m"), "group.0"),
            Bind(ref("Z.p"), "group.0"),
        ),
        (
            "groups would have to wait for one another to exchange T under a loop in time\n"
            "  Move the loop below the loop that is bound to groups."
        ),
    ),
    (
        refusals.CrossKernelStorageError,
        CHAIN,
        (
            CacheRead(("Z",), "C", None, "local"),
            CacheRead(("T",), "A", None, "local"),
            ComputeAt("T", None, "local"),
            Bind(ref("Z.m"), "group.0"),
        ),
        (
            "C_local in local memory would have to survive from one kernel to the next\n"
            "  Where groups are bound the root's branches are kernels of their own; place the tensor in the outermost memory."
        ),
    ),
    (
        refusals.BindingConflictError,
        PRODUCT,
        (Bind(ref("Z.m"), "group.0"), Bind(ref("Z.m"), "group.1")),
        "Bind(loop=Z.m, axis=group.1): the loop is bound to group.0 already",
    ),
    (
        refusals.BindingConflictError,
        PRODUCT,
        (Bind(ref("Z.m"), "group.0"), Bind(ref("Z.n"), "group.0")),
        (
            "Bind(loop=Z.n, axis=group.0): a loop around or inside it is bound to group.0 already\n"
            "  Fuse the loops, or bind one to another axis."
        ),
    ),
    (
        refusals.BindingConflictError,
        PRODUCT,
        (Bind(ref("Z.m"), "group.0"), Fuse(ref("Z.m"), ref("Z.n"))),
        "Fuse(outer=Z.m, inner=Z.n): Z.m is bound to group.0 already\n  Fuse before binding.",
    ),
    (
        refusals.BindingConflictError,
        PRODUCT,
        (Fuse(ref("Z.m"), ref("Z.n")), Bind(ref("Z.n"), "group.0")),
        "Bind(loop=Z.n, axis=group.0): the loop is fused with the one around it\n  Bind Z.m.",
    ),
    (
        refusals.NestOrderError,
        PRODUCT,
        (Fuse(ref("Z.m"), ref("Z.k")),),
        "Fuse(outer=Z.m, inner=Z.k): Z.k is not all that stands in Z.m\n  Reorder the loops so that one stands straight inside.",
    ),
    (
        refusals.NestOrderError,
        PRODUCT,
        (Fuse(ref("Z.m"), ref("Z.n")), Split(ref("Z.n"), 2)),
        "Split(loop=Z.n, tile=2): Z.n is fused with another loop\n  Fuse loops once they are cut and ordered.",
    ),
    (
        refusals.NestOrderError,
        PRODUCT,
        (Fuse(ref("Z.m"), ref("Z.n")), CacheRead(("Z",), "A", ref("Z.m"), "local")),
        "Z.m is fused with a loop that no longer stands alone inside it\n  Hold tiles outside or inside both of the loops.",
    ),
    (
        refusals.BindingConflictError,
        PRODUCT,
        (Bind(ref("Z.m"), "core"),),
        "Bind(loop=Z.m, axis=core): 'core' is no device axis\n  Use group.0 to group.2 or local.0 to local.2.",
    ),
    (
        refusals.NoReductionError,
        PRODUCT,
        (RFactor(ref("Z.m"), None, "local"),),
        "RFactor(loop=Z.m, at=None, memory=local): Z.m is no reduction loop of Z\n  Such a loop can be bound as it is.",
    ),
    (
        refusals.BindingConflictError,
        PRODUCT,
        (Unroll(ref("Z.k")), RFactor(ref("Z.k"), None, "local")),
        "RFactor(loop=Z.k, at=None, memory=local): the loop is bound to unroll already\n  Factor a loop before binding it.",
    ),
    (
        refusals.NestOrderError,
        PRODUCT,
        (RFactor(ref("Z.k"), ref("Z.k"), "local"),),
        "RFactor(loop=Z.k, at=Z.k, memory=local): Z.k does not run below this loop\n  Hold the partial results further out.",
    ),
    (
        refusals.NestOrderError,
        ff.cascade(["X[m] = max(A[m,k])", "Y[m] = sum(A[m,k])"], sizes={"M": 4, "K": 4}),
        (ShareLoop(refs("X.m Y.m")), ShareLoop(refs("X.k Y.k")), RFactor(ref("X.k"), ref("X.m"), "local")),
        (
            "RFactor(loop=X.k, at=X.m, memory=local): the loop is shared by X.k, Y.k\n"
            "  Split it, and factor an inner part that is not shared."
        ),
    ),
    (
        refusals.SymbolicExtentError,
        ff.cascade(["Z[m] = A[m,k] * B[k]"], sizes={"M": 4, "K": "K"}),
        (RFactor(ref("Z.k"), ref("Z.m"), "local"),),
        "RFactor(loop=Z.k, at=Z.m, memory=local): Z.k has a symbolic size\n  Split the loop first.",
    ),
    (
        refusals.ProducerConsumerError,
        CHAIN,
        (Reorder("T", refs("T.m T.n T.k")), ShareLoop(refs("T.m Z.m")), RFactor(ref("T.k"), None, "local")),
        (
            "RFactor(loop=T.k, at=None, memory=local): Z uses T[m_T, n_T] before the partial results are combined\n"
            "  Hold the partial results further in, below the loop that both run under."
        ),
    ),
    (
        refusals.NormalFormError,
        PRODUCT,
        (Explicate(),),
        "Explicate(): the kernel is in normal form already\n  Explicate is the first step, once.",
    ),
]


@pytest.mark.parametrize(("error", "cascade", "steps", "message"), CASES, ids=[f"{c[0].__name__}-{i}" for i, c in enumerate(CASES)])
def test_message(error: type[ff.ScheduleError], cascade: Cascade, steps: tuple[Step, ...], message: str) -> None:
    """The whole text."""
    with pytest.raises(ff.ScheduleError) as caught:
        applied(cascade, *steps)
    assert (type(caught.value).__name__, str(caught.value)) == (error.__name__, message)


LIMITS = [
    (
        refusals.WorkGroupSizeError,
        DeviceLimits(max_work_group_size=8),
        "a group of 13 work-items is larger than the device's 8\n  Use larger tiles below the Spatial loops that are bound to work-items.",
    ),
    (
        refusals.LocalSizeError,
        DeviceLimits(local_bytes=100),
        (
            "the kernel needs 308 bytes of local memory, the device has 100: B_local 308\n"
            "  Use smaller tiles, or move a Storage node below a loop."
        ),
    ),
    (
        refusals.PrivateSizeError,
        DeviceLimits(private_bytes=300),
        (
            "the 13 work-items of a group need 364 bytes of private memory, the device has 300: Z_private 28\n"
            "  Use smaller tiles, or move a Storage node below a loop."
        ),
    ),
]


@pytest.mark.parametrize(("error", "limits", "message"), LIMITS, ids=lambda value: getattr(value, "__name__", ""))
def test_sizes(error: type[ff.ScheduleError], limits: DeviceLimits, message: str) -> None:
    """What a kernel allocates is held against the device before OpenCL is reached."""
    steps = (Explicate(), Bind(ref("Z.m"), "local.0"), CacheRead(("Z",), "B", None, "local"), CacheWrite("Z", ref("Z.m"), "private"))
    with pytest.raises(error) as caught:
        check_limits(Schedule(steps).nest(PRODUCT.kernel()), limits)
    assert str(caught.value) == message


def test_names_of_another_kernel() -> None:
    names = ff.match(CHAIN.kernel()).names
    with pytest.raises(ff.ScheduleError, match=r"has no (instruction|iname|array) \w+, which the names speak of") as caught:
        Schedule((Explicate(),)).apply(PRODUCT.kernel(), names)
    assert "match.prepared" in str(caught.value)


def test_every_error_class_is_tested() -> None:
    """Those of vectors, masks, blocks, intrinsics, Python functions and the archive have tests of their own."""
    tested = {case[0] for case in CASES} | {case[0] for case in LIMITS}
    known = {e for e in vars(refusals).values() if isinstance(e, type) and issubclass(e, ff.ScheduleError) and e is not ff.ScheduleError}
    elsewhere = {refusals.VectorAccessError, refusals.NothingMaskedError, refusals.IteratorBindingError}
    elsewhere |= {refusals.ApplicabilityError, refusals.FunctionError, refusals.IntrinsicError}
    assert known - tested == elsewhere
