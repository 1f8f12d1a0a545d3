"""Random cascades, copies of them that differ in names and orders alone, near-misses, and an independent test of isomorphism."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable

import pynauty
from constantdict import constantdict
from pymbolic import primitives as p
from pymbolic import substitute, var

from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.terms import Access, Einsum, Size, SizeParam, Tensor
from feinsum_fuse.formats.affine import Affine
from feinsum_fuse.formats.workload import operand_name

Chooser = random.Random


def shuffled_copy(cascade: Cascade, chooser: Chooser) -> Cascade:
    """The same cascade in other names, with operands, independent Einsums, factors and terms in another order."""
    tensors = _names(cascade.tensors, "t", chooser)
    einsums = _names([einsum.name for einsum in cascade.einsums], "e", chooser)
    sizes = _names(cascade.size_parameters, "n", chooser)

    def size(old: Size) -> Size:
        return SizeParam(sizes[old.name]) if isinstance(old, SizeParam) else old

    result = {}
    for einsum in cascade.einsums:
        variables = _names(einsum.variables, "v", chooser)
        order = list(range(len(einsum.operands)))
        chooser.shuffle(order)

        def access(old: Access, variables: dict[str, str] = variables) -> Access:
            return Access(tensors[old.tensor], tuple(index.renamed(variables) for index in old.indices))

        renamed = {operand_name(old): var(operand_name(new)) for new, old in enumerate(order)}
        renamed |= {old: var(new) for old, new in variables.items()}
        lengths = [(variables[v], size(length)) for v, length in einsum.sizes.items()]
        chooser.shuffle(lengths)
        result[einsum.name] = dataclasses.replace(
            einsum,
            name=einsums[einsum.name],
            output=access(einsum.output),
            operands=tuple(access(einsum.operands[old]) for old in order),
            map=_reordered(substitute(einsum.map, renamed), chooser),
            sizes=constantdict(dict(lengths)),
            guards=tuple(chooser.sample([guard.renamed(variables) for guard in einsum.guards], len(einsum.guards))),
        )
    entries = [(tensors[n], Tensor(tensors[n], tuple(map(size, t.shape)), t.dtype)) for n, t in cascade.tensors.items()]
    chooser.shuffle(entries)
    return Cascade(tuple(result[name] for name in _order(cascade, chooser)), constantdict(dict(entries)))


def _names(old: object, prefix: str, chooser: Chooser) -> dict[str, str]:
    names = list(old)  # type: ignore[call-overload]
    numbers = chooser.sample(range(len(names)), len(names))
    return {name: f"{prefix}{number}" for name, number in zip(names, numbers, strict=True)}


def _reordered(expression: p.ExpressionNode, chooser: Chooser) -> p.ExpressionNode:
    if isinstance(expression, p.Sum | p.Product):
        children = [_reordered(child, chooser) for child in expression.children]
        chooser.shuffle(children)
        return type(expression)(tuple(children))
    return expression


def _order(cascade: Cascade, chooser: Chooser) -> list[str]:
    writer = {einsum.output.tensor: einsum.name for einsum in cascade.einsums}
    waiting = {e.name: {writer[a.tensor] for a in e.operands if a.tensor in writer} - {e.name} for e in cascade.einsums}
    done: list[str] = []
    while waiting:
        name = chooser.choice([name for name, needs in waiting.items() if needs <= set(done)])
        del waiting[name]
        done.append(name)
    return done


def random_batch(chooser: Chooser) -> Cascade:
    """Einsums over few tensors with much sharing: rows of a batch, powers, cyclic contractions, chains."""
    kind = chooser.choice(("rows", "power", "cycle", "graph", "chain"))
    length: Size = chooser.choice((2, 3, SizeParam("N")))
    tensors: dict[str, Tensor] = {}
    einsums: list[Einsum] = []

    def add(output: str, operands: list[tuple[str, str]], result: str, expression: p.ExpressionNode | None = None) -> None:
        letters = dict.fromkeys((*result, *"".join(indices for _, indices in operands)))
        for name, indices in [*operands, (output, result)]:
            tensors.setdefault(name, Tensor(name, (length,) * len(indices), "float32"))
        product = p.Product(tuple(var(operand_name(k)) for k in range(len(operands))))
        accesses = [Access(name, tuple(map(Affine.variable, indices))) for name, indices in operands]
        einsums.append(
            Einsum(
                f"E{len(einsums)}",
                Access(output, tuple(map(Affine.variable, result))),
                tuple(accesses),
                expression if expression is not None else product,
                constantdict(dict.fromkeys(letters, length)),
            )
        )

    if kind == "rows":
        count, shared = chooser.randint(2, 16), chooser.randint(1, 4)
        for row in range(count):
            add(f"R{row}", [("D", "ij"), (f"u{chooser.randrange(shared)}", "j"), (f"w{chooser.randrange(shared)}", "j")], "i")
    elif kind == "power":
        for row in range(chooser.randint(1, 3)):
            add(f"R{row}", [(chooser.choice("AB"), "ij")] * chooser.randint(2, 5), "i")
    elif kind == "cycle":
        count = chooser.randint(2, 7)
        add("R", [("A" if chooser.random() < 0.8 else "B", "abcdefgh"[k] + "abcdefgh"[(k + 1) % count]) for k in range(count)], "")
    elif kind == "graph":
        letters = "abcdef"[: chooser.randint(3, 6)]
        pairs = [(one, other) for one in letters for other in letters if one < other and chooser.random() < 0.6] or [("a", "b")]
        add("R", [("A", one + other) for one, other in pairs] + [("A", other + one) for one, other in pairs], "")
    else:
        names = ["A", "B"]
        for step in range(chooser.randint(2, 5)):
            one, other = chooser.choice(names), chooser.choice(names)
            add(f"T{step}", [(one, "ik"), (other, "kj")], "ij")
            names.append(f"T{step}")
    return Cascade(tuple(einsums), constantdict(tensors))


def near_miss(cascade: Cascade, chooser: Chooser) -> Cascade:
    """A cascade that differs in one place, which may or may not matter: sharing, an index, a length, a type, a reduction, a map."""
    position = chooser.randrange(len(cascade.einsums))
    einsum = cascade.einsums[position]
    tensors = dict(cascade.tensors)
    kind = chooser.choice(("sharing", "index", "type", "reduction", "map", "length"))
    operand = chooser.randrange(len(einsum.operands))
    old = einsum.operands[operand]
    new: Access = old
    if kind == "sharing":
        fits = [t for t in cascade.inputs if cascade.tensors[t].shape == cascade.tensors[old.tensor].shape]
        new = Access(chooser.choice(fits), old.indices) if old.tensor in cascade.inputs else old
    elif kind == "index" and old.indices:
        axis = chooser.randrange(len(old.indices))
        indices = list(old.indices)
        wanted = einsum.sizes[indices[axis].variables[0]]
        indices[axis] = Affine.variable(chooser.choice([v for v in einsum.variables if einsum.sizes[v] == wanted]))
        new = Access(old.tensor, tuple(indices))
    elif kind == "type":
        name = chooser.choice(list(tensors))
        tensors[name] = dataclasses.replace(tensors[name], dtype="float64")
    elif kind == "reduction":
        einsum = dataclasses.replace(einsum, reduce=chooser.choice(("add", "max")))
    elif kind == "map":
        einsum = dataclasses.replace(einsum, map=p.Sum((einsum.map, var(operand_name(operand)))))
    elif kind == "length" and cascade.size_parameters:
        name = chooser.choice(list(cascade.tensors))
        shape = tuple(SizeParam("M") for _ in cascade.tensors[name].shape)
        tensors[name] = dataclasses.replace(tensors[name], shape=shape)
    operands = (*einsum.operands[:operand], new, *einsum.operands[operand + 1 :])
    used = {v for access in (einsum.output, *operands) for v in access.variables}
    sizes = constantdict({v: size for v, size in einsum.sizes.items() if v in used})
    einsums = list(cascade.einsums)
    einsums[position] = dataclasses.replace(einsum, operands=operands, sizes=sizes)
    read = {access.tensor for e in einsums for access in (e.output, *e.operands)}
    return Cascade(tuple(einsums), constantdict({name: tensor for name, tensor in tensors.items() if name in read}))


class _Nauty:
    """A simple undirected graph with coloured vertices: a labelled edge becomes a vertex whose colour is the label."""

    def __init__(self) -> None:
        self.colours: list[str] = []
        self.edges: list[tuple[int, int]] = []

    def vertex(self, colour: str) -> int:
        self.colours.append(colour)
        return len(self.colours) - 1

    def edge(self, one: int, other: int, label: str) -> None:
        """An edge from one vertex to another: both ends of it are vertices of their own, so that it has a direction."""
        tail, head = self.vertex(f"from {label}"), self.vertex(f"to {label}")
        self.edges += [(one, tail), (tail, head), (head, other)]

    def certificate(self) -> tuple[list[tuple[str, int]], bytes]:
        classes: dict[str, set[int]] = {}
        for vertex, colour in enumerate(self.colours):
            classes.setdefault(colour, set()).add(vertex)
        ordered = sorted(classes)
        neighbours: dict[int, list[int]] = {}
        for one, other in self.edges:
            neighbours.setdefault(one, []).append(other)
        graph = pynauty.Graph(len(self.colours), adjacency_dict=neighbours, vertex_coloring=[classes[colour] for colour in ordered])
        return [(colour, len(classes[colour])) for colour in ordered], pynauty.certificate(graph)


def nauty_certificate(cascade: Cascade, maps: bool = True) -> object:
    """What is equal for two cascades exactly if they are isomorphic, by another program, for maps of sums and products of operands."""
    graph = _Nauty()
    params = {name: graph.vertex("size") for name in cascade.size_parameters}
    tensors = {}

    def sized(vertex: int, size: Size, label: str) -> None:
        if isinstance(size, SizeParam):
            graph.edge(vertex, params[size.name], label)
        else:
            graph.edge(vertex, graph.vertex(f"length {size}"), label)

    for name, tensor in cascade.tensors.items():
        tensors[name] = graph.vertex(f"tensor {tensor.dtype} {len(tensor.shape)} {name in cascade.outputs}")
        for axis, size in enumerate(tensor.shape):
            sized(tensors[name], size, f"axis {axis}")
    for einsum in cascade.einsums:
        reduces = einsum.reduce if einsum.reduces else "none"
        center = graph.vertex(f"einsum {reduces} {einsum.accumulate}")
        variables = {v: graph.vertex("variable") for v in einsum.variables}
        for v, size in einsum.sizes.items():
            graph.edge(center, variables[v], "has")
            sized(variables[v], size, "extent")
        vertices = []
        for position, access in enumerate((einsum.output, *einsum.operands)):
            vertex = graph.vertex("output" if position == 0 else "operand")
            vertices.append(vertex)
            graph.edge(center, vertex, "access")
            graph.edge(vertex, tensors[access.tensor], "of")
            for axis, index in enumerate(access.indices):
                graph.edge(vertex, graph.vertex(f"constant {index.constant}"), f"index {axis}")
                for v, factor in index.terms:
                    graph.edge(vertex, variables[v], f"index {axis} times {factor}")
        if maps:
            graph.edge(center, _node(graph, einsum.map, lambda k, vertices=vertices: vertices[k + 1]), "map")
    return graph.certificate()


def _node(graph: _Nauty, expression: p.ExpressionNode, operand: Callable[[int], int]) -> int:
    if isinstance(expression, p.Variable):
        return operand(int(expression.name[1:]))
    children = list(expression.children)
    if isinstance(expression, p.Sum | p.Product):
        flat = []
        while children:
            child = children.pop()
            if type(child) is type(expression):
                children += child.children
            else:
                flat.append(child)
        children = flat
    vertex = graph.vertex(type(expression).__name__)
    for child in children:
        graph.edge(vertex, _node(graph, child, operand), "argument")
    return vertex
