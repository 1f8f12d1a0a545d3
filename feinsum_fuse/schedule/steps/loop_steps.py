"""Steps on loops: cutting, ordering, sharing, binding, unrolling."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Sequence
from dataclasses import dataclass

from ...formats.affine import Affine
from ...formats.opencl import FANOUT_KINDS, FANOUTS, FanoutKind
from ..refusals import (
    BindingConflictError,
    DifferentExtentsError,
    NestOrderError,
    ParallelDependenceError,
    ReductionBindingError,
    SymbolicExtentError,
    TileShapeError,
)
from ..step import EinsumName, Keyword, Step
from ..tree.initial_values import initial_at, initial_nest, limits_of_initial, sets_as_much, without
from ..tree.loops import (
    chain_of,
    check_alone,
    computing,
    enclosing,
    find,
    guarded,
    is_reduction,
    output_indices,
    replace_loop,
    with_body,
    with_loops,
)
from ..tree.nest import For, LoopRef, Nest, NestItem, PlacedStatement, fused_chain, rebuilt, statements, substituted, unless_same, walk
from ..tree.polyhedra import carried
from ..tree.sharing import SAME_PACE, Sharing, common_limits


@dataclass(frozen=True)
class Split(Step):
    """Cut a loop into tiles (Halide and TVM: split; Exo: divide_loop).

    Before: ``for i in [0, n): S(i)``. After: ``for i/0 in [0, ceil(n/tile)): for i/1 in [0, tile): S(tile*i/0 + i/1)``, the inner loop
    limited to ``i < n`` where the tile does not divide. Invariant: ``i == tile * outer + inner``; the same points in the same order.
    """

    loop: LoopRef
    tile: int

    def apply(self, nest: Nest) -> Nest:
        loop = find(nest, self.loop, self)
        if self.tile < 1:
            raise TileShapeError(f"{self}: the tile shape must be positive")
        if loop.extent is not None and self.tile > loop.extent:
            raise TileShapeError(f"{self}: a tile of {self.tile} does not fit the loop's {loop.extent} iterations")
        if loop.binding != "loop":
            raise BindingConflictError(f"{self}: the loop is bound to {loop.binding}", hint="Split before binding.")
        check_alone(nest, loop, self)
        outer_name, inner_name = nest.fresh(f"{loop.name}_0"), nest.fresh(f"{loop.name}_1")
        value = Affine.of({outer_name: self.tile, inner_name: 1})
        cut = [limit.substituted({loop.name: value}) for limit in loop.limits]
        # An outer iteration runs if any inner one does: the limit at the inner iteration that favours it most.
        outer_limits = tuple(
            limit.substituted({inner_name: Affine((), 0 if limit.coefficients.get(inner_name, 0) <= 0 else self.tile - 1)}) for limit in cut
        )
        inner_limits = tuple(cut)
        count = None
        if loop.extent is not None:
            count = -(-loop.extent // self.tile)
            if loop.extent % self.tile:
                inner_limits += (Affine((), loop.extent - 1) - value,)
        inner = For(inner_name, self.tile, substituted(loop.body, {loop.name: value}), inner_limits, tuple(r.inner for r in loop.refs))
        outer = For(outer_name, count, (inner,), outer_limits, tuple(r.outer for r in loop.refs))
        return nest.replace(body=replace_loop(nest.body, loop.name, (outer,)))


@dataclass(frozen=True)
class Fuse(Step):
    """Run two loops, one straight inside the other, as one (TVM and TensorIR: fuse), so that both can be bound to one device axis.

    Before: ``for i in [0, I): for j in [0, J): S(i, j)``. After: ``for ij in [0, I*J): S(ij // J, ij % J)``. Invariant: the same points in
    the same order; limits of i and j become conditions of what is inside. Later steps call the loop by its outer part.
    """

    outer: LoopRef
    inner: LoopRef

    def apply(self, nest: Nest) -> Nest:
        outer, inner = find(nest, self.outer, self), find(nest, self.inner, self)
        if outer.body != (inner,) or outer.fused:
            raise NestOrderError(
                f"{self}: {self.inner} is not all that stands in {self.outer}", hint="Reorder the loops so that one stands straight inside."
            )
        for ref, loop in ((self.outer, outer), (self.inner, inner)):
            if loop.binding != "loop":
                raise BindingConflictError(f"{self}: {ref} is bound to {loop.binding} already", hint="Fuse before binding.")
            if loop.extent is None:
                raise SymbolicExtentError(f"{self}: {ref} has a symbolic size", hint="Fix the kernel's parameters first.")
        name = nest.fresh(f"{outer.name}_{inner.name}")
        return nest.replace(body=replace_loop(nest.body, outer.name, (outer.changed(fused=name),)))


@dataclass(frozen=True)
class Reorder(Step):
    """Put the loops of one Einsum in this order, outermost first (TensorIR: reorder). All of its loops are named.

    Before: ``for m: for n: init; for k: update``. After, for k, m, n: ``for m: for n: init``, then ``for k: for m: for n: update``.
    Invariant: the initial value is set just outside the outermost reduction loop; sums over several reduction loops change order.
    """

    effect = "reassociates"
    einsum: EinsumName
    order: tuple[LoopRef, ...]

    def apply(self, nest: Nest) -> Nest:
        chain = chain_of(nest, self.einsum, self)
        wanted = [find(nest, ref, self) for ref in self.order]
        if {loop.name for loop in chain} != {loop.name for loop in wanted}:
            have = ", ".join(str(loop.refs[0]) for loop in chain if loop.refs)
            raise NestOrderError(f"{self}: the order must name exactly the loops of the Einsum: {have}")
        inner = list(statements((chain[0],))) if chain else []
        if any(s.einsum != self.einsum or s.role not in {"init", "update", "map"} for _, s in inner):
            raise NestOrderError(
                f"{self}: the nest is shared or holds tiles already", hint="Reorder before sharing loops and placing tiles."
            )
        for loop in chain:
            check_alone(nest, loop, self)
        if not chain:
            return nest
        initial = next((point for point in inner if point[1].role == "init"), None)
        result = nest.replace(body=replace_loop(nest.body, chain[0].name, _ordered(nest, self.einsum, wanted, initial)))
        if not sets_as_much(nest, result, self.einsum):
            raise NestOrderError(f"{self}: not every initial value would be set in this order", hint="Keep the loops in their order.")
        return result


def _ordered(nest: Nest, einsum: str, order: Sequence[For], initial: PlacedStatement | None) -> tuple[NestItem, ...]:
    """The Einsum's loops around its statement, with the initial value just outside the first reduction loop."""
    names = [loop.name for loop in order]
    reductions = [is_reduction(nest, loop, einsum) for loop in order]
    first = reductions.index(True) if True in reductions else len(order)
    limits = sorted({limit for loop in order for limit in loop.limits})
    shared = set(limits) if initial is None else limits_of_initial(nest, einsum, order, initial)
    placed: dict[str, list[Affine]] = {name: [] for name in names}
    for limit in limits:
        position = max((names.index(name) for name in limit.variables if name in names), default=0)
        placed[names[position if limit in shared else max(position, first)]].append(limit)
    init = None if initial is None else initial_at(initial, computing(nest, einsum))
    body: tuple[NestItem, ...] = (computing(nest, einsum),)
    for position in reversed(range(len(order))):
        loop = order[position]
        body = (loop.changed(limits=tuple(placed[loop.name]), body=body),)
        if position == first and init is not None:
            below = [
                r.changed(limits=tuple(limit for limit in placed[r.name] if limit in shared))
                for r, reduced in zip(order[position:], reductions[position:], strict=True)
                if not reduced
            ]
            body = (*initial_nest(init, below), *body)
    return (init, *body) if init is not None and first == len(order) else body


@dataclass(frozen=True)
class ShareLoop(Step):
    """Run Einsums that stand one after another under one loop (LoopTree fusion; TVM: compute_at's outer half).

    Before: ``for i: A(i)`` then ``for j: B(j)``. After: ``for i: A(i); B(i)``. Invariant: every value that B reads in an iteration was
    finished in that iteration or before it. Loops of different length run as long as the longest; the others' statements are guarded.
    Where B reads a window that is wider than what A writes in an iteration, A runs ahead by the difference (a halo) and B waits for it.
    """

    loops: tuple[LoopRef, ...]

    def apply(self, nest: Nest) -> Nest:
        return shared(nest, self.loops, self)


def shared(nest: Nest, refs: Sequence[LoopRef], step: Step, unfinished: Container[str] = ()) -> Nest:
    """The nest with sibling loops merged; sums of the Einsums ``unfinished`` may be read before they are complete."""
    loops = [find(nest, ref, step) for ref in refs]
    for loop in loops:
        check_alone(nest, loop, step)
    names = [loop.name for loop in loops]
    if len(set(names)) < len(names):
        raise NestOrderError(f"{step}: these are not different loops")
    siblings = _siblings(nest.body, names)
    if siblings is None:
        raise NestOrderError(f"{step}: the loops do not stand one after another in one place")
    above = enclosing(nest, loops[0])[:-1]
    sharing = Sharing(nest, loops, above, step, unfinished)
    paces = sharing.paces()
    extents = [loop.extent for loop in loops]
    longest = None if None in extents else max(e for e in extents if e is not None)
    if longest is None and (len(set(extents)) > 1 or len({_limits_of(loop, names[0]) for loop in loops}) > 1 or set(paces) != {SAME_PACE}):
        raise DifferentExtentsError(f"{step}: loops of symbolic size are shared only if their bounds are the same")
    merged = _joined(loops, longest) if set(paces) == {SAME_PACE} else sharing.paced(paces)
    start, stop = siblings
    return nest.replace(body=_merged(nest.body, names, start, stop, merged))


def _joined(loops: Sequence[For], longest: int | None) -> For:
    """One loop as long as the longest; limits that are not common to all move inside."""
    name = loops[0].name
    kept = common_limits(loops)
    body: tuple[NestItem, ...] = ()
    for loop in loops:
        own = tuple(limit for limit in loop.limits if limit.renamed({loop.name: name}) not in kept)
        if longest is not None and loop.extent is not None and loop.extent < longest:
            own += (Affine((), loop.extent - 1) - Affine.variable(loop.name),)
        inside = guarded(loop.body, own)
        body += inside if loop.name == name else substituted(inside, {loop.name: Affine.variable(name)})
    return For(name, longest, body, kept, tuple(r for loop in loops for r in loop.refs))


def _limits_of(loop: For, name: str) -> tuple[Affine, ...]:
    return tuple(limit.renamed({loop.name: name}) for limit in loop.limits)


def _siblings(body: tuple[NestItem, ...], names: Sequence[str]) -> tuple[int, int] | None:
    """Where the loops of these names stand in one body, nothing but initial values between them; ``None`` if they do not."""
    here = [node.name if isinstance(node, For) else "" for node in body]
    if names[0] in here:
        if any(name not in here for name in names):
            return None
        positions = [here.index(name) for name in names]
        between = [body[i] for i in range(positions[0], positions[-1] + 1) if i not in positions]
        if positions != sorted(positions) or any(s.role not in {"init", "populate"} for _, s in statements(tuple(between))):
            return None
        return positions[0], positions[-1] + 1
    for node in body:
        if isinstance(node, For) and (found := _siblings(node.body, names)) is not None:
            return found
    return None


def _merged(body: tuple[NestItem, ...], names: Sequence[str], start: int, stop: int, shared: For) -> tuple[NestItem, ...]:
    """The tree with the sibling loops replaced by one; initial values that stood between them come first."""
    if any(isinstance(node, For) and node.name == names[0] for node in body):
        between = tuple(n for n in body[start:stop] if not (isinstance(n, For) and n.name in names))
        return (*body[:start], *between, shared, *body[stop:])
    return unless_same(body, [with_body(n, _merged(n.body, names, start, stop, shared)) if isinstance(n, For) else n for n in body])


@dataclass(frozen=True)
class Bind(Step):
    """Run a loop's iterations on a device axis: work-groups (``group.k``), work-items (``local.k``).

    Before: ``for i: S(i)``. After: the same iterations at the same time, ``i`` the group's or item's number. Invariant: no iteration reads
    what another writes; a reduction loop is refused (``RFactor`` first).
    """

    loop: LoopRef
    axis: Keyword

    def apply(self, nest: Nest) -> Nest:
        loop = find(nest, self.loop, self)
        if self.axis not in FANOUTS or not FANOUTS[self.axis].is_axis:
            raise BindingConflictError(f"{self}: {self.axis!r} is no device axis", hint="Use group.0 to group.2 or local.0 to local.2.")
        if loop.binding != "loop":
            raise BindingConflictError(f"{self}: the loop is bound to {loop.binding} already")
        around = [node for node in enclosing(nest, loop) if node is not loop]
        below = [node for node in walk(loop.body) if isinstance(node, For)]
        if any(other.binding == self.axis for other in (*around, *below)):
            hint = "Fuse the loops, or bind one to another axis."
            raise BindingConflictError(f"{self}: a loop around or inside it is bound to {self.axis} already", hint=hint)
        if around and around[-1].fused:
            raise BindingConflictError(f"{self}: the loop is fused with the one around it", hint=f"Bind {around[-1].refs[0]}.")
        members = fused_chain(loop)
        for position, member in enumerate(members):
            self._check_independent(nest, member, (*around, *members[:position]))
        for ref in (ref for member in members for ref in member.refs):
            nest = _with_init_inside(nest, ref, self)
        names = {member.name for member in members}
        return nest.replace(body=with_loops(nest.body, names, lambda found: bound(found, self.axis)))

    def _check_independent(self, nest: Nest, loop: For, around: tuple[For, ...]) -> None:
        """Raise if an iteration touches what another one writes."""
        for ref in loop.refs:
            if is_reduction(nest, loop, ref.einsum):
                raise ReductionBindingError(
                    f"{self}: {ref} is a reduction loop of {ref.einsum}; its iterations add to the same elements",
                    hint="Insert RFactor, or bind a loop over a rank of the output.",
                )
        found = carried(nest, loop, around)
        if found is not None:
            raise ParallelDependenceError(
                f"{self}: iterations of {loop.refs[0]} depend on one another through {found}",
                hint="Leave the loop in time, or bind one over another rank.",
            )


def _with_init_inside(nest: Nest, ref: LoopRef, step: Step) -> Nest:
    """The nest in which the iteration that sums an element up also sets its initial value, at the first of the outer reductions.

    Before: ``for i: init Z[i]`` then ``for k: for i: Z[i] += ...``. After: ``for k: for i: init Z[i] at the first k; Z[i] += ...``.
    """
    chain = chain_of(nest, ref.einsum, step)
    position = next(p for p, loop in enumerate(chain) if ref in loop.refs)
    inits = [(above, s) for above, s in nest.points if s.einsum == ref.einsum and s.role == "init"]
    reductions = tuple(loop.name for loop in chain[:position] if is_reduction(nest, loop, ref.einsum))
    if len(inits) != 1 or not reductions or chain[position] in inits[0][0] or inits[0][1].target.source in nest.tiles:
        return nest
    update = computing(nest, ref.einsum)
    below = [loop for loop in chain[position + 1 :] if any(loop.name in index.variables for index in output_indices(nest, update))]
    inside = {loop.name for loop in chain if is_reduction(nest, loop, ref.einsum)} - set(reductions)
    guards = without(update.guards, inside | set(reductions))
    init = dataclasses.replace(inits[0][1], target=update.target, guards=guards, first=reductions)
    below = [loop.changed(limits=without(loop.limits, inside | set(reductions))) for loop in below]
    fresh = initial_nest(init, below)

    def change(node: NestItem) -> tuple[NestItem, ...]:
        if node is inits[0][1]:
            return ()
        return (node,)

    target = chain[position].name

    def place(node: NestItem) -> tuple[NestItem, ...]:
        return (with_body(node, (*fresh, *node.body)),) if isinstance(node, For) and node.name == target else (node,)

    result = nest.replace(body=rebuilt(rebuilt(nest.body, change), place))
    # The first iteration of a reduction that starts late is not the one at 0, and some elements may have none.
    return result if sets_as_much(nest, result, ref.einsum) else nest


def bound(loop: For, axis: str) -> For:
    """The loop with this binding, which is known to be a legal name."""
    kind: FanoutKind = next(k for k in FANOUT_KINDS if k == axis)
    return loop.changed(binding=kind)


@dataclass(frozen=True)
class Unroll(Step):
    """Write a loop's iterations out one after another, so that tiles indexed by it can live in registers.

    Before: ``for i in [0, 4): S(i)``. After: ``S(0); S(1); S(2); S(3)``. Invariant: the same order.
    """

    loop: LoopRef

    def apply(self, nest: Nest) -> Nest:
        loop = find(nest, self.loop, self)
        if loop.binding != "loop":
            raise BindingConflictError(f"{self}: the loop is bound to {loop.binding} already")
        check_alone(nest, loop, self)
        if loop.extent is None:
            raise TileShapeError(f"{self}: a loop of symbolic size cannot be unrolled", hint="Split it first.")
        return nest.replace(body=replace_loop(nest.body, loop.name, (bound(loop, "unroll"),)))
