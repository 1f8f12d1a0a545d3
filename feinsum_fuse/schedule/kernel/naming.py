"""Readable names: loops are called after rank variables, and what says nothing is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import gcd

import loopy as lp

from ...cascades.names import Identifiers, identifier
from ...formats.affine import Affine
from ..statement import Statement
from ..tree.loops import guarded, interval
from ..tree.nest import For, Nest, NestItem, fused_chain, statements, substituted, unless_same, walk
from ..tree.parallel import distributed
from .surroundings import inames_of
from .tagging import OwnedTag


def named(nest: Nest, taken: set[str]) -> Nest:
    """The nest with loops called ``m_0``, ``m_1``, ... from the outermost over one rank variable, or ``m`` if there is one."""
    fresh = Identifiers({*taken, *nest.tiles, *nest.sources})
    names = {name: fresh(wish) for name, wish in wishes(nest).items()}
    for loop in (node for node in walk(nest.body) if isinstance(node, For) and node.name not in names):
        names[loop.name] = fresh(loop.name)
    for loop in (node for node in walk(nest.body) if isinstance(node, For) and node.fused):
        names[loop.fused] = fresh("_".join(names[member.name] for member in fused_chain(loop)))
    body = _renamed(nest.body, names)
    return nest.replace(body=substituted(body, {old: Affine.variable(new) for old, new in names.items()}))


def wishes(nest: Nest) -> dict[str, str]:
    """Loop -> what it would be called if it were alone."""
    result: dict[str, str] = {}
    paths = [[loop for loop in chain if loop.refs] for chain in chains(nest.body)]
    numbered = {
        loop.name for chain in paths for loop in chain if sum(other.refs[0].variable == loop.refs[0].variable for other in chain) > 1
    }
    for chain in paths:
        seen: Counter[str] = Counter()
        for loop in chain:
            variable = loop.refs[0].variable
            result.setdefault(loop.name, identifier(f"{variable}_{seen[variable]}" if loop.name in numbered else variable))
            seen[variable] += 1
    for loop in (node for node in walk(nest.body) if isinstance(node, For) and not node.refs):
        tensor, variables = moved(nest, loop)
        if variables and loop.name not in result:
            result[loop.name] = identifier("_".join([*variables, tensor]))
    return result


def chains(body: tuple[NestItem, ...], above: tuple[For, ...] = ()) -> Iterator[tuple[For, ...]]:
    """The loops on the way to each innermost body."""
    inner = [node for node in body if isinstance(node, For)]
    if not inner:
        yield above
    for node in inner:
        yield from chains(node.body, (*above, node))


def _renamed(body: tuple[NestItem, ...], names: dict[str, str]) -> tuple[NestItem, ...]:
    return tuple(
        node.changed(name=names[node.name], fused=names.get(node.fused, ""), body=_renamed(node.body, names))
        if isinstance(node, For)
        else node
        for node in body
    )


def plain(nest: Nest) -> Nest:
    """The nest without loops of one iteration, and without what only a second iteration would run.

    What stands side by side at the root may become kernels of their own, so a loop there stays if it holds more than one node.
    """
    single = {n.name: Affine((), 0) for n in walk(nest.body) if isinstance(n, For) and _is_single(n)}
    body = _without(nest.body, single, root=True) if single else nest.body
    return nest.replace(body=_begun(_needed(body, frozenset()), ()))


def _begun(body: tuple[NestItem, ...], above: tuple[For, ...]) -> tuple[NestItem, ...]:
    """The nodes with vectors only where a lane is in use: ``C[l] += X[t + l]`` up to the end of ``X`` has none of them at the end of ``t``.

    The limit of the first lane is one of the loop around, where that has nothing else in it.
    """
    result: list[NestItem] = []
    for node in body:
        if not isinstance(node, For):
            result.append(node)
            continue
        inner = _begun(node.body, (*above, node))
        if node.binding != "vector" and node.binding != "unroll" and len(inner) == 1 and isinstance(lane := inner[0], For):
            starts = tuple(limit for limit in lane.limits if lane.binding == "vector" and lane.name not in limit.variables)
            if starts and not node.fused:
                inner = (lane.limited(tuple(limit for limit in lane.limits if limit not in starts), lane.body),)
                node = node.limited(node.limits + starts, node.body)
        limits = node.limits
        if node.binding == "vector" and node.extent is not None:
            first = (limit.substituted({node.name: Affine((), 0)}) for limit in limits if limit.coefficients.get(node.name, 0) < 0)
            limits += tuple(limit for limit in first if not _holds(limit, above) and limit not in limits)
        result.append(node.limited(limits, inner))
    return unless_same(body, result)


def _holds(limit: Affine, loops: tuple[For, ...]) -> bool:
    """Whether a limit is >= 0 in every iteration that these loops run: by their bounds, or by a limit of theirs on whole numbers."""
    least, _ = interval(limit, loops)
    if least is not None and least >= 0:
        return True
    known = frozenset(_reduced(other) for loop in loops for other in loop.limits)
    for loop in reversed(loops):
        if _is_implied(limit, loop, known):
            return True
        if loop.extent is None:
            return False
        limit = _at_strictest(limit, loop, loop.extent)
    return False


def _needed(body: tuple[NestItem, ...], known: frozenset[tuple[Affine, int]]) -> tuple[NestItem, ...]:
    """The nodes without limits that hold anyway in every iteration that the loops around run."""
    result: list[NestItem] = []
    for node in body:
        if isinstance(node, For):
            limits = tuple(limit for limit in node.limits if not _is_implied(limit, node, known))
            node = node.limited(limits, _needed(node.body, known | {_reduced(limit) for limit in limits}))
        result.append(node)
    return unless_same(body, result)


def _is_implied(limit: Affine, loop: For, known: frozenset[tuple[Affine, int]]) -> bool:
    """Whether a limit holds for the iteration that it is strictest for, and so for all."""
    if loop.extent is None:
        return False
    terms, constant = _reduced(_at_strictest(limit, loop, loop.extent))
    return (not terms.terms and constant >= 0) or any(terms == other and constant >= least for other, least in known)


def _at_strictest(limit: Affine, loop: For, extent: int) -> Affine:
    """A limit at the iteration of a loop of so many for which it is strictest."""
    return limit.substituted({loop.name: Affine((), extent - 1 if limit.coefficients.get(loop.name, 0) < 0 else 0)})


def _reduced(limit: Affine) -> tuple[Affine, int]:
    """Terms without a common factor, and the constant: ``-8*i + 39 >= 0`` says the same as ``-i + 4 >= 0``."""
    factor = gcd(*(abs(coefficient) for _, coefficient in limit.terms)) or 1
    return Affine(tuple((name, coefficient // factor) for name, coefficient in limit.terms)), limit.constant // factor


def _is_single(loop: For) -> bool:
    return loop.extent == 1 and loop.binding in {"loop", "unroll"} and not loop.is_block


def _without(body: tuple[NestItem, ...], single: dict[str, Affine], *, root: bool = False) -> tuple[NestItem, ...]:
    """The nodes with these loops replaced by their bodies, at iteration 0."""
    result: list[NestItem] = []
    for node in body:
        if isinstance(node, Statement):
            if not node.later or set(node.later) - single.keys():
                result.append(node.substituted(single))
            continue
        inner = _without(node.body, single)
        limits = tuple(limit.substituted(single) for limit in node.limits)
        if node.name not in single or (root and len(inner) > 1):
            fused = "" if all(isinstance(n, For) and n.name in single for n in node.body) else node.fused
            kept = node.limited(limits, inner)
            result += [kept if fused == kept.fused else kept.changed(fused=fused)] if inner else []
        elif all(limit.terms or limit.constant >= 0 for limit in limits):
            result += guarded(inner, tuple(limit for limit in limits if limit.terms))
    return unless_same(body, result)


def final_form(nest: Nest, kernel: lp.LoopKernel) -> Nest:
    """The nest as it is written into this kernel: spread over the device's axes, and with readable names."""
    foreign = {name for i in kernel.instructions if not i.tags_of_type(OwnedTag) and i.id not in nest.ids for name in inames_of(i)}
    taken = {*(arg.name for arg in kernel.args), *kernel.temporary_variables, *kernel.substitutions, *foreign}
    return named(plain(distributed(nest)), taken)


def moved(nest: Nest, loop: For) -> tuple[str, list[str]]:
    """The tensor that a loop which is no part of a rank variable moves, and the rank variables that run over it where the loop does."""
    _, statement = next(statements((loop,)))
    places = (statement.target, *statement.operands)
    place = next((place for place in places if place.source in nest.tiles), statement.target)
    tensor = nest.tensor_of(place.source)
    along = [axis for axis, index in enumerate(place.indices) if loop.name in index.variables]
    return tensor, list(dict.fromkeys(variable for axis in along for variable in _variables_at(nest, tensor, len(place.indices), axis)))


def _variables_at(nest: Nest, tensor: str, axes: int, axis: int) -> Iterator[str]:
    """The rank variables over which computing statements run along one of the axes of a tensor, or of its partial results."""
    for loops, statement in nest.points:
        if statement.role in {"update", "map", "combine"}:
            named = {loop.name: loop.refs[0].variable for loop in loops if loop.refs}
            for place in (statement.target, *statement.operands):
                if nest.tensor_of(place.source) == tensor and len(place.indices) == axes:
                    yield from (named[name] for name in place.indices[axis].variables if name in named)
